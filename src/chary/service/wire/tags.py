"""What each class of public values is called on the wire and in the service's own database, for ever.

Answers that were published are kept there in these words, so a tag stays when its class is renamed or moves.
"""

from collections.abc import Mapping
from typing import Any, Final

from chary.accounting.findings import Finding, Findings
from chary.accounting.intervals import Combination, LargestOf, Publication, Silence, Support
from chary.accounting.menu_curve import MenuCall
from chary.accounting.noise_laws import GaussianLaw, LaplaceLaw
from chary.accounting.sharp_tests import SharpTable, SharpTails, SharpTest
from chary.accounting.sparse_vector import OneSidedNoise, SparseTails
from chary.amounts import Amount
from chary.answers import Known, NoisyNumber, NoisyNumbers, Spending
from chary.calls.agreed_tests import AgreedTest, AgreedWatch
from chary.calls.answers import (
    AboveOrNot,
    Chosen,
    ChosenKey,
    Classified,
    Conditional,
    Coverage,
    Gathered,
    NumberOrNothing,
    Outcome,
    Pair,
    RaceOutcome,
    Ranking,
    Selected,
    Tracked,
    WatchResult,
    YesOrNo,
)
from chary.calls.boundaries import Decided, Zoned
from chary.calls.choices import Agreed, Labelled, Winner
from chary.calls.compute import Disclosure
from chary.calls.continual import RunningCount, RunningCounts
from chary.calls.gaussian_runs import AllAbove, FirstAbove
from chary.calls.growing_tests import GrowingRound, GrowingTest
from chary.calls.individual import LivingCount
from chary.calls.linear import Components, LinearAnswers
from chary.calls.local_reports import RandomizedCounts, RandomizedTable
from chary.calls.quantiles import QuantileAnswer, QuantileAnswers
from chary.calls.releases import MeanNoise, NoisyAnswers, NoisyMean, NoisyMeans
from chary.calls.schedules import ScheduledRun
from chary.calls.sketch import DistinctEstimate
from chary.calls.sparse_vector import SparseTest, SparseWatch
from chary.calls.synthesis import MeasuredQuery, SyntheticDatabase, SyntheticHistogram
from chary.calls.thresholds import Tested
from chary.calls.weights import WeightedAnswer
from chary.core.plan import Outlook, Within
from chary.core.quote import Alternative, Quote
from chary.data.neighbors import Neighbouring, Relation
from chary.data.queries.histogram import Bin
from chary.data.queries.moments import SecondMoments
from chary.filters.exact import ExactFilter
from chary.filters.filter import Budget, PureFilter, RenyiFilter
from chary.mechanisms.additive import Gaussian, Laplace
from chary.mechanisms.local_reports import (
    CategoryReports,
    HashedReports,
    OneHotReports,
    RandomizedResponse,
    RepeatedReports,
)
from chary.mechanisms.mwem import Exponents
from chary.mechanisms.workloads import MomentNoise
from chary.report.content import PublishedValue, ReportedCall, ReportedDataset, SimultaneousHit
from chary.report.public_report import PublicReport

TAGS: Final[Mapping[str, type[Any]]] = {
    "AboveOrNot": AboveOrNot,
    "Agreed": Agreed,
    "AgreedTest": AgreedTest,
    "AgreedWatch": AgreedWatch,
    "AllAbove": AllAbove,
    "Alternative": Alternative,
    "Amount": Amount,
    "Bin": Bin,
    "Budget": Budget,
    "CategoryReports": CategoryReports,
    "Chosen": Chosen,
    "ChosenKey": ChosenKey,
    "Classified": Classified,
    "Combination": Combination,
    "Components": Components,
    "Conditional": Conditional,
    "Coverage": Coverage,
    "Decided": Decided,
    "Disclosure": Disclosure,
    "DistinctEstimate": DistinctEstimate,
    "ExactFilter": ExactFilter,
    "Exponents": Exponents,
    "Finding": Finding,
    "Findings": Findings,
    "FirstAbove": FirstAbove,
    "Gathered": Gathered,
    "Gaussian": Gaussian,
    "GaussianLaw": GaussianLaw,
    "GrowingRound": GrowingRound,
    "GrowingTest": GrowingTest,
    "HashedReports": HashedReports,
    "Known": Known,
    "Labelled": Labelled,
    "Laplace": Laplace,
    "LaplaceLaw": LaplaceLaw,
    "LargestOf": LargestOf,
    "LinearAnswers": LinearAnswers,
    "LivingCount": LivingCount,
    "MeanNoise": MeanNoise,
    "MeasuredQuery": MeasuredQuery,
    "MenuCall": MenuCall,
    "MomentNoise": MomentNoise,
    "Neighbouring": Neighbouring,
    "NoisyAnswers": NoisyAnswers,
    "NoisyMean": NoisyMean,
    "NoisyMeans": NoisyMeans,
    "NoisyNumber": NoisyNumber,
    "NoisyNumbers": NoisyNumbers,
    "NumberOrNothing": NumberOrNothing,
    "OneHotReports": OneHotReports,
    "OneSidedNoise": OneSidedNoise,
    "Outcome": Outcome,
    "Outlook": Outlook,
    "Pair": Pair,
    "PublicReport": PublicReport,
    "Publication": Publication,
    "PublishedValue": PublishedValue,
    "PureFilter": PureFilter,
    "QuantileAnswer": QuantileAnswer,
    "QuantileAnswers": QuantileAnswers,
    "Quote": Quote,
    "RaceOutcome": RaceOutcome,
    "RandomizedCounts": RandomizedCounts,
    "RandomizedResponse": RandomizedResponse,
    "RandomizedTable": RandomizedTable,
    "Ranking": Ranking,
    "Relation": Relation,
    "RenyiFilter": RenyiFilter,
    "RepeatedReports": RepeatedReports,
    "ReportedCall": ReportedCall,
    "ReportedDataset": ReportedDataset,
    "RunningCount": RunningCount,
    "RunningCounts": RunningCounts,
    "ScheduledRun": ScheduledRun,
    "SecondMoments": SecondMoments,
    "Selected": Selected,
    "SharpTable": SharpTable,
    "SharpTails": SharpTails,
    "SharpTest": SharpTest,
    "Silence": Silence,
    "SimultaneousHit": SimultaneousHit,
    "SparseTails": SparseTails,
    "SparseTest": SparseTest,
    "SparseWatch": SparseWatch,
    "Spending": Spending,
    "Support": Support,
    "SyntheticDatabase": SyntheticDatabase,
    "SyntheticHistogram": SyntheticHistogram,
    "Tested": Tested,
    "Tracked": Tracked,
    "WatchResult": WatchResult,
    "WeightedAnswer": WeightedAnswer,
    "Winner": Winner,
    "Within": Within,
    "YesOrNo": YesOrNo,
    "Zoned": Zoned,
}
