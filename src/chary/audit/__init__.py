"""Attacks as demonstrations, on data that the caller holds, and what no attacker can do better against a session.

What an attack finds in secret data is secret too and is protected by no budget: do not publish it.
"""

from chary.audit.attack_plots import draw_differencing, draw_linkage, draw_membership
from chary.audit.differencing import Differencing, differencing
from chary.audit.limits import advantage_limit, auc_limit, guess_limit, roc_limit, value_limit
from chary.audit.linkage import Linkage, link, linkage
from chary.audit.membership import Membership, Power, membership, tracing_power

__all__ = [
    "Differencing",
    "Linkage",
    "Membership",
    "Power",
    "advantage_limit",
    "auc_limit",
    "differencing",
    "draw_differencing",
    "draw_linkage",
    "draw_membership",
    "guess_limit",
    "link",
    "linkage",
    "membership",
    "roc_limit",
    "tracing_power",
    "value_limit",
]
