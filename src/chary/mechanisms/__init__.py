"""Mechanisms: pure state machines on exact integers and noise; no data access, no ledger."""

from chary.mechanisms.additive import Additive, Gaussian, Laplace
from chary.mechanisms.conditional import Held, Published, Watch, Watched, judge, revise

__all__ = ["Additive", "Gaussian", "Held", "Laplace", "Published", "Watch", "Watched", "judge", "revise"]
