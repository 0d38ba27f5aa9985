"""Attacks as demonstrations, on data that the caller holds, and what no attacker can do better against a session.

What an attack finds in secret data is secret too and is protected by no budget: do not publish it.
"""

from chary_research.attacks.limits import advantage_limit, auc_limit, guess_limit, roc_limit, value_limit
from chary_research.attacks.linkage import Linkage, link, linkage
from chary_research.attacks.low_bits import LowBits, low_bits, naive_laplace
from chary_research.attacks.membership import Membership, Power, membership, tracing_power
from chary_research.attacks.plots import (
    draw_differencing,
    draw_linkage,
    draw_low_bits,
    draw_membership,
    draw_reconstruction,
)
from chary_research.attacks.reconstruction import Differencing, Reconstruction, differencing, reconstruction

__all__ = [
    "Differencing",
    "Linkage",
    "LowBits",
    "Membership",
    "Power",
    "Reconstruction",
    "advantage_limit",
    "auc_limit",
    "differencing",
    "draw_differencing",
    "draw_linkage",
    "draw_low_bits",
    "draw_membership",
    "draw_reconstruction",
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
