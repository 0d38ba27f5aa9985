"""Who may do what: tokens, roles, OpenID and rate limits."""
