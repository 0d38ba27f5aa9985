"""Private empirical risk minimisation: linear models whose weights are published with differential privacy."""

from chary.learning.erm.audited import Objective, audited_optimum
from chary.learning.erm.calls import LinearAlgorithm
from chary.learning.erm.design import design_matrix
from chary.learning.erm.estimators import PrivateLogisticRegression, PrivateRidge, PrivateSVC
from chary.learning.erm.noisy_descent import NoisyDescent
from chary.learning.erm.problem import Problem

__all__ = [
    "LinearAlgorithm",
    "NoisyDescent",
    "Objective",
    "PrivateLogisticRegression",
    "PrivateRidge",
    "PrivateSVC",
    "Problem",
    "audited_optimum",
    "design_matrix",
]
