"""Mechanisms: pure state machines on exact integers and noise; no data access, no ledger."""

from chary.mechanisms.additive import Additive, Gaussian, Laplace
from chary.mechanisms.between import Between
from chary.mechanisms.boundary import BOUNDARY, Boundary
from chary.mechanisms.conditional import Held, Published, Watch, Watched, judge, revise
from chary.mechanisms.distinct import Distinct, Sketch
from chary.mechanisms.exponential import Exponential
from chary.mechanisms.frequency import CountSketch
from chary.mechanisms.hashing import new_key, words
from chary.mechanisms.permute_and_flip import PermuteAndFlip
from chary.mechanisms.robust import Grid, rank_utilities
from chary.mechanisms.selection import Ranked, TopK
from chary.mechanisms.streaming import Estimator, FlajoletMartin, SecondMoment
from chary.mechanisms.threshold import ThresholdTest
from chary.mechanisms.twice import Runs, Twice

__all__ = [
    "BOUNDARY",
    "Additive",
    "Between",
    "Boundary",
    "CountSketch",
    "Distinct",
    "Estimator",
    "Exponential",
    "FlajoletMartin",
    "Gaussian",
    "Grid",
    "Held",
    "Laplace",
    "PermuteAndFlip",
    "Published",
    "Ranked",
    "Runs",
    "SecondMoment",
    "Sketch",
    "ThresholdTest",
    "TopK",
    "Twice",
    "Watch",
    "Watched",
    "judge",
    "new_key",
    "rank_utilities",
    "revise",
    "words",
]
