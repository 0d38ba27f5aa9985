"""Private learning: teachers on disjoint shards vote, labels are released privately, a student learns from them.
Private model selection: every candidate is a private training run, and only published ones are paid.

Needs the extra `learning`: `pip install 'chary[learning]'`.
"""

try:
    import joblib as _joblib  # noqa: F401
    import sklearn as _sklearn  # noqa: F401
except ImportError:
    raise ImportError("chary.learning needs scikit-learn: pip install 'chary[learning]'") from None

from chary.learning.classifiers import Split, digits, split
from chary.learning.estimators import CountingBayes, PrivateEstimator, PrivatePipeline
from chary.learning.features import Categorical, Cuts, PublicFeatures, RowTransform, Span, design_matrix
from chary.learning.growth import Improving, TrainingBox, TrainingRun, draw_curve
from chary.learning.holdout import HeldOut, ReusableHoldout
from chary.learning.linear import (
    LinearAlgorithm,
    PrivateConvexRegressor,
    PrivateLogisticRegression,
    PrivateQuantileRegressor,
    PrivateRidge,
    PrivateSVC,
)
from chary.learning.losses import OwnLoss
from chary.learning.median_slope import MedianSlope
from chary.learning.pate import Learned, Student, Teachers, draw_shards, equal_shards, teach, train_student
from chary.learning.pate_labels import (
    AgreedLabels,
    ClearLabels,
    ConfidentGnmax,
    ConfidentLabels,
    Corrections,
    EveryLabel,
    LabelReport,
    Released,
    Strategy,
    TeacherVotes,
    label_accuracy,
    label_points,
    spread_points,
)
from chary.learning.risk_bounds import Assumptions, growing_risk_up, static_risk_up
from chary.learning.search import Found, PrivateLearner, PrivateSearch, SearchQuote, SearchResult

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
    "OwnLoss",
    "PrivateConvexRegressor",
    "PrivateEstimator",
    "PrivateLearner",
    "PrivateLogisticRegression",
    "PrivatePipeline",
    "PrivateQuantileRegressor",
    "PrivateRidge",
    "PrivateSVC",
    "PrivateSearch",
    "PublicFeatures",
    "Released",
    "ReusableHoldout",
    "RowTransform",
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
    "label_points",
    "split",
    "spread_points",
    "static_risk_up",
    "teach",
    "train_student",
]
