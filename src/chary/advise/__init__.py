"""Advice: every way to run threshold tests, before anything is paid."""

from chary.advise.advice import Advice, Option, Unfit
from chary.advise.adviser import advise, advise_for

__all__ = ["Advice", "Option", "Unfit", "advise", "advise_for"]
