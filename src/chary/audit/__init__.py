"""Attacks as demonstrations, on data that the caller holds, what no attacker can do better against a session, and an
auditor that tries to show that a call is less private than it says.

What an attack or an audit finds in secret data is secret too and is protected by no budget: do not publish it.
"""

from chary.audit.auditor import audit, audit_kinds
from chary.audit.findings import Audited, epsilon_shown
from chary.audit.limits import advantage_limit, auc_limit, guess_limit, roc_limit, value_limit
from chary.audit.linkage import Linkage, link, linkage
from chary.audit.low_bits import LowBits, low_bits, naive_laplace
from chary.audit.membership import Membership, Power, membership, tracing_power
from chary.audit.plots import draw_differencing, draw_linkage, draw_low_bits, draw_membership, draw_reconstruction
from chary.audit.reconstruction import Differencing, Reconstruction, differencing, reconstruction

__all__ = [
    "Audited",
    "Differencing",
    "Linkage",
    "LowBits",
    "Membership",
    "Power",
    "Reconstruction",
    "advantage_limit",
    "auc_limit",
    "audit",
    "audit_kinds",
    "differencing",
    "draw_differencing",
    "draw_linkage",
    "draw_low_bits",
    "draw_membership",
    "draw_reconstruction",
    "epsilon_shown",
    "guess_limit",
    "link",
    "linkage",
    "low_bits",
    "membership",
    "naive_laplace",
    "reconstruction",
    "roc_limit",
    "tracing_power",
    "value_limit",
]
