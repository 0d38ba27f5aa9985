"""Private learning: teachers on disjoint shards vote, labels are released privately, a student learns from them.
Private model selection: every candidate is a private training run, and only published ones are paid.

Needs the extra `learning`: `pip install 'chary[learning]'`.
"""

try:
    import joblib as _joblib  # noqa: F401
    import sklearn as _sklearn  # noqa: F401
except ImportError:
    raise ImportError("chary.learning needs scikit-learn: pip install 'chary[learning]'") from None

from chary.learning.candidate import PrivateLearner
from chary.learning.choosing import spread_points
from chary.learning.confident import ConfidentGnmax, ConfidentLabels, label_confident, label_confident_as_reported
from chary.learning.counting_bayes import CountingBayes
from chary.learning.datasets import Split, digits, split
from chary.learning.erm import (
    Assumptions,
    Improving,
    LinearAlgorithm,
    PrivateLogisticRegression,
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
from chary.learning.features import Categories, Cuts, Span
from chary.learning.labelling import Released, TeacherVotes, label_points
from chary.learning.pate import Learned, teach
from chary.learning.report import LabelReport, label_accuracy
from chary.learning.search import Found, PrivateSearch, SearchQuote, SearchResult
from chary.learning.shards import draw_shards, equal_shards
from chary.learning.strategies import AgreedLabels, ClearLabels, Corrections, EveryLabel, Strategy
from chary.learning.student import Student, train_student
from chary.learning.teachers import Teachers

__all__ = [
    "AgreedLabels",
    "Assumptions",
    "Categories",
    "ClearLabels",
    "ConfidentGnmax",
    "ConfidentLabels",
    "Corrections",
    "CountingBayes",
    "Cuts",
    "EveryLabel",
    "Found",
    "Improving",
    "LabelReport",
    "Learned",
    "LinearAlgorithm",
    "PrivateLearner",
    "PrivateLogisticRegression",
    "PrivateRidge",
    "PrivateSVC",
    "PrivateSearch",
    "Released",
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
    "draw_shards",
    "equal_shards",
    "growing_risk_up",
    "label_accuracy",
    "label_confident",
    "label_confident_as_reported",
    "label_points",
    "published_shape",
    "split",
    "spread_points",
    "static_risk_up",
    "teach",
    "train_student",
]
