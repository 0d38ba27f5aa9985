"""Mechanisms: pure state machines on exact integers and noise; no data access, no ledger."""

from chary.mechanisms.additive import Additive, Gaussian, Laplace
from chary.mechanisms.gaussian.noisy_normals import GaussianMax, GaussianThreshold
from chary.mechanisms.local.category_reports import CategoryReports
from chary.mechanisms.local.hashed_reports import HashedReports
from chary.mechanisms.local.local_reports import LocalEstimate, LocalReports, ValueShare
from chary.mechanisms.local.one_hot_reports import OneHotReports
from chary.mechanisms.local.repeated_reports import Remembered, RepeatedReports
from chary.mechanisms.numbers.guards import Guarded, GuardedQuantiles
from chary.mechanisms.numbers.order_statistics import HalvedQuantiles, Order, RankDistance
from chary.mechanisms.numbers.randomized_response import RandomizedResponse, ShareEstimate
from chary.mechanisms.selection.exponential import Exponential
from chary.mechanisms.selection.inverse_sensitivity import InverseSensitivity, Stretches, bits_distances, mode_distances
from chary.mechanisms.selection.majority import MajorityVote
from chary.mechanisms.selection.noisy_max import ReportNoisyMax
from chary.mechanisms.selection.permute_and_flip import PermuteAndFlip
from chary.mechanisms.selection.top_k import Ranked, TopK
from chary.mechanisms.sparse.hidden_threshold import Crossed, HiddenThreshold, SparseVectorMachine
from chary.mechanisms.sparse.one_sided_threshold import Geometric, OneSidedMachine
from chary.mechanisms.streaming.distinct import Distinct, Phantoms
from chary.mechanisms.streaming.estimator_votes import Grid, rank_utilities
from chary.mechanisms.streaming.frequency import CountSketch
from chary.mechanisms.streaming.hashing import new_key, words
from chary.mechanisms.streaming.stream_estimators import Estimator, FlajoletMartin, SecondMoment
from chary.mechanisms.thresholds.between import ThreeZones
from chary.mechanisms.thresholds.boundary_wrapper import BOUNDARY, BoundaryWrapper
from chary.mechanisms.thresholds.held_outcomes import BarTests, Held, Published, Watched, judge, revise
from chary.mechanisms.thresholds.threshold_test import ThresholdTest
from chary.mechanisms.thresholds.two_runs import PairOfRuns, TwoRuns

__all__ = [
    "BOUNDARY",
    "Additive",
    "BarTests",
    "BoundaryWrapper",
    "CategoryReports",
    "CountSketch",
    "Crossed",
    "Distinct",
    "Estimator",
    "Exponential",
    "FlajoletMartin",
    "Gaussian",
    "GaussianMax",
    "GaussianThreshold",
    "Geometric",
    "Grid",
    "Guarded",
    "GuardedQuantiles",
    "HalvedQuantiles",
    "HashedReports",
    "Held",
    "HiddenThreshold",
    "InverseSensitivity",
    "Laplace",
    "LocalEstimate",
    "LocalReports",
    "MajorityVote",
    "OneHotReports",
    "OneSidedMachine",
    "Order",
    "PairOfRuns",
    "PermuteAndFlip",
    "Phantoms",
    "Published",
    "RandomizedResponse",
    "RankDistance",
    "Ranked",
    "Remembered",
    "RepeatedReports",
    "ReportNoisyMax",
    "SecondMoment",
    "ShareEstimate",
    "SparseVectorMachine",
    "Stretches",
    "ThreeZones",
    "ThresholdTest",
    "TopK",
    "TwoRuns",
    "ValueShare",
    "Watched",
    "bits_distances",
    "judge",
    "mode_distances",
    "new_key",
    "rank_utilities",
    "revise",
    "words",
]
