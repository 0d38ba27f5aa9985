"""Calls: what is asked of a dataset, as frozen values that know no rows; one room for each subject.

`session.ask(call)` makes one, `session.quote(call)` prices it without making it. `read` makes one from its JSON,
`kinds` lists all of them.
"""

from chary.answers import Answer, NoisyNumber, NoisyNumbers, Table
from chary.calls.algorithms.algorithm import Algorithm
from chary.calls.algorithms.boundaries import Boundary
from chary.calls.algorithms.calling import Compute
from chary.calls.algorithms.pairs import Twice
from chary.calls.algorithms.publishing import Disclosure, Extend, PublishIf
from chary.calls.algorithms.racing import Race
from chary.calls.algorithms.targets import When
from chary.calls.algorithms.tracking import Track
from chary.calls.answers import (
    ChosenKey,
    Classified,
    Conditional,
    NumberOrNothing,
    Outcome,
    Pair,
    RaceOutcome,
    Tracked,
    YesOrNo,
)
from chary.calls.call import Call, kinds, read
from chary.calls.gaussian.gaussian_max import NoisyMax, Winner
from chary.calls.gaussian.gaussian_steps import FirstAbove
from chary.calls.gaussian.self_reporting import SelfReporting
from chary.calls.gaussian.self_reporting_steps import AllAbove
from chary.calls.gaussian.threshold_runs import AboveThreshold
from chary.calls.growing.continual_counts import ContinualCount
from chary.calls.growing.growing_results import GrowingAccuracy, GrowingRound, GrowingTest, OpenRound
from chary.calls.growing.growing_sparse_vectors import GrowingSparse
from chary.calls.growing.growing_states import GrowingRun
from chary.calls.growing.running_questions import RunningCount, RunningCounts
from chary.calls.growing.schedule_states import PlannedRun
from chary.calls.growing.scheduled_runs import BlackBox, ScheduledRun
from chary.calls.growing.scheduling import Schedule
from chary.calls.individual.individual_streams import Individual
from chary.calls.individual.living_questions import LivingCount
from chary.calls.keyed_run import KeyedRun
from chary.calls.numbers.component_answers import Components
from chary.calls.numbers.histograms import Histogram, Marginal
from chary.calls.numbers.matrix_mechanism import LinearAnswers, MatrixMechanism
from chary.calls.numbers.modes import Mode, Share
from chary.calls.numbers.principal_components import PrincipalComponents
from chary.calls.numbers.quantile_questions import Quantile, QuantileAnswer, QuantileAnswers, Quantiles
from chary.calls.numbers.randomized import Randomized, RandomizedCounts
from chary.calls.numbers.randomized_values import RandomizedTable, RandomizedValues
from chary.calls.numbers.releasing import Release
from chary.calls.numbers.releasing_together import NoisyAnswers, ReleaseAll
from chary.calls.run import Run
from chary.calls.selection.choices import Choose, Majority, MostCommon
from chary.calls.selection.covering import Cover
from chary.calls.selection.greedy import Greedy
from chary.calls.selection.held_selections import Reselect
from chary.calls.selection.own_distances import InverseSensitivityMechanism
from chary.calls.selection.own_utilities import ExponentialMechanism
from chary.calls.selection.ranking import Top
from chary.calls.selection.score_functions import ScoreFunction
from chary.calls.selection.selecting import Select
from chary.calls.selection.selections import Chosen, Coverage, Ranking, Selected
from chary.calls.sketches.distinct_counts import Sketch
from chary.calls.sketches.sketching import DistinctEstimate
from chary.calls.sparse.sparse_results import SparseTest, SparseWatch
from chary.calls.sparse.sparse_vectors import SparseVector
from chary.calls.synthesis.mwem_calls import MWEM, MeasuredQuery, SyntheticHistogram
from chary.calls.synthesis.small_databases import SmallDatabase, SyntheticDatabase
from chary.calls.thresholds.agreed_questions import AgreedTest, AgreedWatch
from chary.calls.thresholds.agreed_tests import AgreedTests
from chary.calls.thresholds.conditional_release import ReleaseIf, Revise
from chary.calls.thresholds.tested_keys import WatchResult
from chary.calls.thresholds.testing import Test, Tested
from chary.calls.thresholds.watching import Watch
from chary.calls.thresholds.zones import Between, Classify, Decide, Decided, Zoned
from chary.calls.votes.ballot_questions import Agreed, Agreement, ClearLabel, Label, Labelled
from chary.calls.weights.histogram_questions import WeightedAnswer
from chary.calls.weights.public_weights import WeightsQuote
from chary.calls.weights.sparse_public_weights import SparseWeightsQuote
from chary.calls.weights.sparse_weighting import SparseWeights
from chary.calls.weights.weighting import Weights

__all__ = [
    "MWEM",
    "AboveThreshold",
    "Agreed",
    "AgreedTest",
    "AgreedTests",
    "AgreedWatch",
    "Agreement",
    "Algorithm",
    "AllAbove",
    "Answer",
    "Between",
    "BlackBox",
    "Boundary",
    "Call",
    "Choose",
    "Chosen",
    "ChosenKey",
    "Classified",
    "Classify",
    "ClearLabel",
    "Components",
    "Compute",
    "Conditional",
    "ContinualCount",
    "Cover",
    "Coverage",
    "Decide",
    "Decided",
    "Disclosure",
    "DistinctEstimate",
    "ExponentialMechanism",
    "Extend",
    "FirstAbove",
    "Greedy",
    "GrowingAccuracy",
    "GrowingRound",
    "GrowingRun",
    "GrowingSparse",
    "GrowingTest",
    "Histogram",
    "Individual",
    "InverseSensitivityMechanism",
    "KeyedRun",
    "Label",
    "Labelled",
    "LinearAnswers",
    "LivingCount",
    "Majority",
    "Marginal",
    "MatrixMechanism",
    "MeasuredQuery",
    "Mode",
    "MostCommon",
    "NoisyAnswers",
    "NoisyMax",
    "NoisyNumber",
    "NoisyNumbers",
    "NumberOrNothing",
    "OpenRound",
    "Outcome",
    "Pair",
    "PlannedRun",
    "PrincipalComponents",
    "PublishIf",
    "Quantile",
    "QuantileAnswer",
    "QuantileAnswers",
    "Quantiles",
    "Race",
    "RaceOutcome",
    "Randomized",
    "RandomizedCounts",
    "RandomizedTable",
    "RandomizedValues",
    "Ranking",
    "Release",
    "ReleaseAll",
    "ReleaseIf",
    "Reselect",
    "Revise",
    "Run",
    "RunningCount",
    "RunningCounts",
    "Schedule",
    "ScheduledRun",
    "ScoreFunction",
    "Select",
    "Selected",
    "SelfReporting",
    "Share",
    "Sketch",
    "SmallDatabase",
    "SparseTest",
    "SparseVector",
    "SparseWatch",
    "SparseWeights",
    "SparseWeightsQuote",
    "SyntheticDatabase",
    "SyntheticHistogram",
    "Table",
    "Test",
    "Tested",
    "Top",
    "Track",
    "Tracked",
    "Twice",
    "Watch",
    "WatchResult",
    "WeightedAnswer",
    "Weights",
    "WeightsQuote",
    "When",
    "Winner",
    "YesOrNo",
    "Zoned",
    "kinds",
    "read",
]
