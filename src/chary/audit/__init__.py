"""An auditor that tries to show that a call is less private than it says, on data that the caller holds.

What an audit finds in secret data is secret too and is protected by no budget: do not publish it.
"""

from chary.audit.auditor import audit, audit_kinds
from chary.audit.findings import Audited, epsilon_shown

__all__ = ["Audited", "audit", "audit_kinds", "epsilon_shown"]
