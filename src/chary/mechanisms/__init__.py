"""Mechanisms: pure state machines on exact integers and noise; no data access, no ledger."""

from chary.mechanisms.additive import Additive, Gaussian, Laplace
from chary.mechanisms.between import Between
from chary.mechanisms.boundary import BOUNDARY, Boundary
from chary.mechanisms.conditional import Held, Published, Watch, Watched, judge, revise
from chary.mechanisms.distinct import Distinct, Sketch
from chary.mechanisms.exponential import Exponential
from chary.mechanisms.frequency import CountSketch
from chary.mechanisms.gaussian_selection import GaussianMax, GaussianThreshold
from chary.mechanisms.hashing import new_key, words
from chary.mechanisms.inverse_sensitivity import InverseSensitivity, Stretches, bits_distances, mode_distances
from chary.mechanisms.majority import Majority
from chary.mechanisms.noisy_max import NoisyMax
from chary.mechanisms.permute_and_flip import PermuteAndFlip
from chary.mechanisms.quantiles import Order, Quantiles, RankDistance
from chary.mechanisms.randomized_response import RandomizedResponse, ShareEstimate
from chary.mechanisms.robust import Grid, rank_utilities
from chary.mechanisms.selection import Ranked, TopK
from chary.mechanisms.sparse_vector import Crossed, HiddenThreshold, SparseVector
from chary.mechanisms.streaming import Estimator, FlajoletMartin, SecondMoment
from chary.mechanisms.threshold import ThresholdTest
from chary.mechanisms.twice import Runs, Twice

__all__ = [
    "BOUNDARY",
    "Additive",
    "Between",
    "Boundary",
    "CountSketch",
    "Crossed",
    "Distinct",
    "Estimator",
    "Exponential",
    "FlajoletMartin",
    "Gaussian",
    "GaussianMax",
    "GaussianThreshold",
    "Grid",
    "Held",
    "HiddenThreshold",
    "InverseSensitivity",
    "Laplace",
    "Majority",
    "NoisyMax",
    "Order",
    "PermuteAndFlip",
    "Published",
    "Quantiles",
    "RandomizedResponse",
    "RankDistance",
    "Ranked",
    "Runs",
    "SecondMoment",
    "ShareEstimate",
    "Sketch",
    "SparseVector",
    "Stretches",
    "ThresholdTest",
    "TopK",
    "Twice",
    "Watch",
    "Watched",
    "bits_distances",
    "judge",
    "mode_distances",
    "new_key",
    "rank_utilities",
    "revise",
    "words",
]
