"""Private learning: teachers on disjoint shards vote, labels are released privately, a student learns from them.
Private model selection: every candidate is a private training run, and only published ones are paid.

Needs the extra `learning`: `pip install 'chary[learning]'`.
"""

try:
    import joblib as _joblib  # noqa: F401
    import sklearn as _sklearn  # noqa: F401
except ImportError:
    raise ImportError("chary.learning needs scikit-learn: pip install 'chary[learning]'") from None

from chary.learning.datasets import Split, digits, split
from chary.learning.erm import (
    Assumptions,
    Improving,
    LinearAlgorithm,
    PrivateLogisticRegression,
    PrivateQuantileRegressor,
    PrivateRidge,
    PrivateSVC,
    TrainingBox,
    TrainingRun,
    design_matrix,
    draw_curve,
    growing_risk_up,
    published_shape,
    static_risk_up,
)
from chary.learning.features import Categorical, Cuts, Span
from chary.learning.holdout import HeldOut, Overfitting, ReusableHoldout, Reused, draw_reuse, random_labels
from chary.learning.median_slope import MedianSlope
from chary.learning.pate.confident import ConfidentGnmax, ConfidentLabels, label_confident, label_confident_as_reported
from chary.learning.pate.counting_bayes import CountingBayes
from chary.learning.pate.label_choices import spread_points
from chary.learning.pate.labelling import Released, TeacherVotes, label_points
from chary.learning.pate.report import LabelReport, label_accuracy
from chary.learning.pate.rounds_of_labels import Learned, teach
from chary.learning.pate.shards import draw_shards, equal_shards
from chary.learning.pate.strategies import AgreedLabels, ClearLabels, Corrections, EveryLabel, Strategy
from chary.learning.pate.student import Student, train_student
from chary.learning.pate.teachers import Teachers
from chary.learning.search.candidate import PrivateLearner
from chary.learning.search.private_search import Found, PrivateSearch, SearchQuote, SearchResult

__all__ = [
    "AgreedLabels",
    "Assumptions",
    "Categorical",
    "ClearLabels",
    "ConfidentGnmax",
    "ConfidentLabels",
    "Corrections",
    "CountingBayes",
    "Cuts",
    "EveryLabel",
    "Found",
    "HeldOut",
    "Improving",
    "LabelReport",
    "Learned",
    "LinearAlgorithm",
    "MedianSlope",
    "Overfitting",
    "PrivateLearner",
    "PrivateLogisticRegression",
    "PrivateQuantileRegressor",
    "PrivateRidge",
    "PrivateSVC",
    "PrivateSearch",
    "Released",
    "ReusableHoldout",
    "Reused",
    "SearchQuote",
    "SearchResult",
    "Span",
    "Split",
    "Strategy",
    "Student",
    "TeacherVotes",
    "Teachers",
    "TrainingBox",
    "TrainingRun",
    "design_matrix",
    "digits",
    "draw_curve",
    "draw_reuse",
    "draw_shards",
    "equal_shards",
    "growing_risk_up",
    "label_accuracy",
    "label_confident",
    "label_confident_as_reported",
    "label_points",
    "published_shape",
    "random_labels",
    "split",
    "spread_points",
    "static_risk_up",
    "teach",
    "train_student",
]
