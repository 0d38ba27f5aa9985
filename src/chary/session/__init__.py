"""Sessions: reserve - run - settle."""

from chary.session.advice import Advice, Option, Unfit
from chary.session.advising import advise
from chary.session.algorithm import Algorithm
from chary.session.arrivals import Version
from chary.session.continual import RunningCount
from chary.session.continual_counts import ContinualCount
from chary.session.distinct_counts import DistinctCount
from chary.session.entry_budgets import entry_budget, unit_budget
from chary.session.gaussian_max import Winner
from chary.session.gaussian_runs import ThresholdRun
from chary.session.gaussian_steps import FirstAbove
from chary.session.growing_sparse_results import GrowingAccuracy, GrowingRound, GrowingTest
from chary.session.growing_sparse_vectors import GrowingSparseVector
from chary.session.individual import LivingCount
from chary.session.individual_streams import IndividualStream
from chary.session.labelling import Label
from chary.session.multiplicative_weights import WeightedAnswer
from chary.session.mwem import MeasuredQuery, SyntheticHistogram
from chary.session.opening import open, open_rows, open_series
from chary.session.public_weights import PublicWeights, WeightsQuote
from chary.session.quantiles import Quantile, QuantileAnswers
from chary.session.quoting import Quote
from chary.session.racing import Race
from chary.session.randomized import Randomized
from chary.session.reporting import Entry, PlainComposition, Spending
from chary.session.results import Answer, Answers, Conditional, Outcome, Pair, RaceOutcome, Tracked, WatchResult
from chary.session.scheduled import BlackBox, ScheduledRun
from chary.session.scheduling import PlannedRun, Schedule
from chary.session.selections import Chosen, Coverage, Selected, Top
from chary.session.session import Session
from chary.session.sketching import DistinctEstimate
from chary.session.small_database import SmallDatabase
from chary.session.sparse_public_weights import SparseWeights, SparseWeightsQuote
from chary.session.sparse_results import SparseAccuracy, SparseQuote, SparseTest, SparseWatch
from chary.session.sparse_vectors import SparseVector
from chary.session.spine import STEPS, Spine
from chary.session.streams import open_stream
from chary.session.tracking import Tracker

__all__ = [
    "STEPS",
    "Advice",
    "Algorithm",
    "Answer",
    "Answers",
    "BlackBox",
    "Chosen",
    "Conditional",
    "ContinualCount",
    "Coverage",
    "DistinctCount",
    "DistinctEstimate",
    "Entry",
    "FirstAbove",
    "GrowingAccuracy",
    "GrowingRound",
    "GrowingSparseVector",
    "GrowingTest",
    "IndividualStream",
    "Label",
    "LivingCount",
    "MeasuredQuery",
    "Option",
    "Outcome",
    "Pair",
    "PlainComposition",
    "PlannedRun",
    "PublicWeights",
    "Quantile",
    "QuantileAnswers",
    "Quote",
    "Race",
    "RaceOutcome",
    "Randomized",
    "RunningCount",
    "Schedule",
    "ScheduledRun",
    "Selected",
    "Session",
    "SmallDatabase",
    "SparseAccuracy",
    "SparseQuote",
    "SparseTest",
    "SparseVector",
    "SparseWatch",
    "SparseWeights",
    "SparseWeightsQuote",
    "Spending",
    "Spine",
    "SyntheticHistogram",
    "ThresholdRun",
    "Top",
    "Tracked",
    "Tracker",
    "Unfit",
    "Version",
    "WatchResult",
    "WeightedAnswer",
    "WeightsQuote",
    "Winner",
    "advise",
    "entry_budget",
    "open",
    "open_rows",
    "open_series",
    "open_stream",
    "unit_budget",
]
