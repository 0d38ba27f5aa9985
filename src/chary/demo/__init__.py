"""The built-in demonstration on public data."""

from chary.demo.story import BUDGET, Story, run

__all__ = ["BUDGET", "Story", "run"]
