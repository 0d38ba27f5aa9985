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
from chary.calls.algorithms.publishing import Disclosure
from chary.calls.answers import (
    AboveOrNot,
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
from chary.calls.gaussian.gaussian_max import Winner
from chary.calls.gaussian.gaussian_steps import FirstAbove
from chary.calls.gaussian.self_reporting_steps import AllAbove
from chary.calls.growing.growing_results import GrowingRound, GrowingTest
from chary.calls.growing.running_questions import RunningCount, RunningCounts
from chary.calls.growing.scheduled_runs import ScheduledRun
from chary.calls.individual.living_questions import LivingCount
from chary.calls.numbers.component_answers import Components
from chary.calls.numbers.matrix_mechanism import LinearAnswers
from chary.calls.numbers.mean_noise import MeanNoise, NoisyMean, NoisyMeans
from chary.calls.numbers.quantile_questions import QuantileAnswer, QuantileAnswers
from chary.calls.numbers.randomized import RandomizedCounts
from chary.calls.numbers.randomized_values import RandomizedTable
from chary.calls.numbers.releasing_together import NoisyAnswers
from chary.calls.selection.selections import Chosen, Coverage, Gathered, Ranking, Selected
from chary.calls.sketches.sketching import DistinctEstimate
from chary.calls.sparse.sparse_results import SparseTest, SparseWatch
from chary.calls.synthesis.mwem_calls import MeasuredQuery, SyntheticHistogram
from chary.calls.synthesis.small_databases import SyntheticDatabase
from chary.calls.thresholds.agreed_questions import AgreedTest, AgreedWatch
from chary.calls.thresholds.tested_keys import WatchResult
from chary.calls.thresholds.testing import Tested
from chary.calls.thresholds.zones import Decided, Zoned
from chary.calls.votes.ballot_questions import Agreed, Labelled
from chary.calls.weights.histogram_questions import WeightedAnswer
from chary.core.plan import Outlook, Within
from chary.core.quote import Alternative, Quote
from chary.data.neighbouring import Neighbouring, Relation
from chary.data.queries.binned import Bin
from chary.data.queries.second_moments import SecondMoments
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
from chary.session.public_report.gathering import ReportedCall, ReportedDataset
from chary.session.public_report.public_report import PublicReport
from chary.session.public_report.published_values import PublishedValue
from chary.session.public_report.simultaneous import SimultaneousHit

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
