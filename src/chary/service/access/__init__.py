"""Who may what: tokens, roles, rates, the audit trail."""
