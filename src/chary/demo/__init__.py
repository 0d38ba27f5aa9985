"""The built-in demonstration on public data."""

from chary.demo.plot import draw
from chary.demo.story import BUDGET, Story, run

__all__ = ["BUDGET", "Story", "draw", "run"]
