"""Advice: every way to run threshold tests, before anything is paid."""

from chary.advise.advise import advise, advise_for
from chary.advise.options import Advice, Option, Unfit

__all__ = ["Advice", "Option", "Unfit", "advise", "advise_for"]
