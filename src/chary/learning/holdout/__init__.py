"""A holdout that many adaptive questions do not wear out, and what they do to one that is simply reused."""

from chary.learning.holdout.holdout_plots import draw_reuse
from chary.learning.holdout.overfitting import Overfitting, Reused, random_labels
from chary.learning.holdout.reusable_holdout import HeldOut, ReusableHoldout

__all__ = ["HeldOut", "Overfitting", "ReusableHoldout", "Reused", "draw_reuse", "random_labels"]
