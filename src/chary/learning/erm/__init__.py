"""Private empirical risk minimisation: linear models whose weights are published with differential privacy."""

from chary.learning.erm.audited import Objective, audited_optimum
from chary.learning.erm.calls import LinearAlgorithm
from chary.learning.erm.curve_plots import draw_curve
from chary.learning.erm.descent.ball_descent import BallDescent
from chary.learning.erm.descent.noisy_descent import NoisyDescent
from chary.learning.erm.design import design_matrix
from chary.learning.erm.laws.sampled_laws import sampled_law
from chary.learning.erm.penalised import (
    PrivateLogisticRegression,
    PrivateQuantileRegressor,
    PrivateRidge,
    PrivateSVC,
)
from chary.learning.erm.problem import Problem
from chary.learning.erm.theorem import Assumptions, growing_risk_up, published_shape, static_risk_up
from chary.learning.erm.training_box import Improving, TrainingBox, TrainingRun

__all__ = [
    "Assumptions",
    "BallDescent",
    "Improving",
    "LinearAlgorithm",
    "NoisyDescent",
    "Objective",
    "PrivateLogisticRegression",
    "PrivateQuantileRegressor",
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
    "sampled_law",
    "static_risk_up",
]
