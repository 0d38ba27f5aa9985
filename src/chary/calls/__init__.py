"""Calls: what is asked of a dataset, as frozen values that know no rows; one module for each subject.

`session.ask(call)` makes one, `session.quote(call)` gives its cost without making it. `read` makes one from its JSON,
`kinds` lists all of them.
"""

from chary.answers import Answer, NoisyNumber, NoisyNumbers, Table
from chary.calls.alerts import Alert, AlertAnswer, AlertAnswers
from chary.calls.algorithm import Algorithm, ScoreFunction, When
from chary.calls.answers import (
    Chosen,
    ChosenKey,
    Classified,
    Conditional,
    Coverage,
    NumberOrNothing,
    Outcome,
    Pair,
    RaceOutcome,
    Ranking,
    Selected,
    TestedKeys,
    Tracked,
    WatchResult,
    YesOrNo,
)
from chary.calls.boundaries import Boundary, Classify
from chary.calls.call import Call, kinds, read
from chary.calls.choices import (
    Agreed,
    Agreement,
    Choose,
    ExponentialMechanism,
    Label,
    Labelled,
    Majority,
    MostCommon,
    Proportion,
    Winner,
)
from chary.calls.compute import Disclosure, MultiTarget, PublishIf, RunAlgorithm
from chary.calls.continual import ContinualCount, RunningCount, RunningCounts
from chary.calls.gaussian_runs import AllAbove, FirstAbove, GaussianAboveThreshold, SelfReporting
from chary.calls.growing_tests import GrowingAccuracy, GrowingRound, GrowingRun, GrowingTest, GrowingTests, OpenRound
from chary.calls.history import Lesson
from chary.calls.individual import IndividualTests, LivingCount
from chary.calls.linear import LinearAnswers, MatrixMechanism
from chary.calls.local_reports import RandomizedCounts, RandomizedTable, RandomizedValues
from chary.calls.moments import Components, LinearRegression, PrincipalComponents, Regression
from chary.calls.prepaid_tests import AgreedTest, AgreedWatch, PrepaidTests, SparseTest, SparseVector, SparseWatch
from chary.calls.quantiles import GroupQuantiles, Quantile, QuantileAnswer, QuantileAnswers
from chary.calls.releases import Histogram, Marginal, NoisyAnswers, Release, ReleaseAll
from chary.calls.run import KeyedRun, Run
from chary.calls.schedules import BlackBox, PlannedRun, Rerun, ScheduledRun
from chary.calls.selection import Greedy, Select, TopK
from chary.calls.sketch import DistinctEstimate, DistinctSketch
from chary.calls.synthesis import MWEM, MeasuredQuery, SmallDatabase, SyntheticDatabase, SyntheticHistogram
from chary.calls.thresholds import OnChange, ReleaseIf, Tested, ThresholdTest
from chary.calls.weights import PMW, HistogramRun, SparseWeightsQuote, WeightedAnswer, WeightsQuote
from chary.calls.withheld import Widen

__all__ = [
    "MWEM",
    "PMW",
    "Agreed",
    "AgreedTest",
    "AgreedWatch",
    "Agreement",
    "Alert",
    "AlertAnswer",
    "AlertAnswers",
    "Algorithm",
    "AllAbove",
    "Answer",
    "BlackBox",
    "Boundary",
    "Call",
    "Choose",
    "Chosen",
    "ChosenKey",
    "Classified",
    "Classify",
    "Components",
    "Conditional",
    "ContinualCount",
    "Coverage",
    "Disclosure",
    "DistinctEstimate",
    "DistinctSketch",
    "ExponentialMechanism",
    "FirstAbove",
    "GaussianAboveThreshold",
    "Greedy",
    "GroupQuantiles",
    "GrowingAccuracy",
    "GrowingRound",
    "GrowingRun",
    "GrowingTest",
    "GrowingTests",
    "Histogram",
    "HistogramRun",
    "IndividualTests",
    "KeyedRun",
    "Label",
    "Labelled",
    "Lesson",
    "LinearAnswers",
    "LinearRegression",
    "LivingCount",
    "Majority",
    "Marginal",
    "MatrixMechanism",
    "MeasuredQuery",
    "MostCommon",
    "MultiTarget",
    "NoisyAnswers",
    "NoisyNumber",
    "NoisyNumbers",
    "NumberOrNothing",
    "OnChange",
    "OpenRound",
    "Outcome",
    "Pair",
    "PlannedRun",
    "PrepaidTests",
    "PrincipalComponents",
    "Proportion",
    "PublishIf",
    "Quantile",
    "QuantileAnswer",
    "QuantileAnswers",
    "RaceOutcome",
    "RandomizedCounts",
    "RandomizedTable",
    "RandomizedValues",
    "Ranking",
    "Regression",
    "Release",
    "ReleaseAll",
    "ReleaseIf",
    "Rerun",
    "Run",
    "RunAlgorithm",
    "RunningCount",
    "RunningCounts",
    "ScheduledRun",
    "ScoreFunction",
    "Select",
    "Selected",
    "SelfReporting",
    "SmallDatabase",
    "SparseTest",
    "SparseVector",
    "SparseWatch",
    "SparseWeightsQuote",
    "SyntheticDatabase",
    "SyntheticHistogram",
    "Table",
    "Tested",
    "TestedKeys",
    "ThresholdTest",
    "TopK",
    "Tracked",
    "WatchResult",
    "WeightedAnswer",
    "WeightsQuote",
    "When",
    "Widen",
    "Winner",
    "YesOrNo",
    "kinds",
    "read",
]
