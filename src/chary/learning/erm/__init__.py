"""Private empirical risk minimisation: linear models whose weights are published with differential privacy."""

from chary.learning.erm.audited import Objective, audited_optimum
from chary.learning.erm.ball_descent import BallDescent
from chary.learning.erm.calls import LinearAlgorithm
from chary.learning.erm.design import design_matrix
from chary.learning.erm.estimators import PrivateLogisticRegression, PrivateRidge, PrivateSVC
from chary.learning.erm.growing import Improving, TrainingBox, TrainingRun
from chary.learning.erm.noisy_descent import NoisyDescent
from chary.learning.erm.plots import draw_curve
from chary.learning.erm.problem import Problem
from chary.learning.erm.theorem import Assumptions, growing_risk_up, published_shape, static_risk_up

__all__ = [
    "Assumptions",
    "BallDescent",
    "Improving",
    "LinearAlgorithm",
    "NoisyDescent",
    "Objective",
    "PrivateLogisticRegression",
    "PrivateRidge",
    "PrivateSVC",
    "Problem",
    "TrainingBox",
    "TrainingRun",
    "audited_optimum",
    "design_matrix",
    "draw_curve",
    "growing_risk_up",
    "published_shape",
    "static_risk_up",
]
