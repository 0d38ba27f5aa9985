"""The Gaussian mechanism, exactly (theory 1.1): its privacy curve and the least noise for a budget."""

import math

import scipy
from scipy.special import log_ndtr

from chary.numbers import Number, positive, probability


def gaussian_delta(*, epsilon: Number, sensitivity: Number, sigma: Number) -> float:
    """`Phi(D/2s - eps s/D) - e^eps Phi(-D/2s - eps s/D)`, the exact delta of continuous Gaussian noise.

    >>> round(gaussian_delta(epsilon=1, sensitivity=1, sigma=1), 4)
    0.1269
    """
    eps = float(positive(epsilon, "epsilon"))
    ratio = float(positive(sensitivity, "sensitivity") / positive(sigma, "sigma"))
    gain, loss = log_ndtr(ratio / 2 - eps / ratio), eps + log_ndtr(-ratio / 2 - eps / ratio)
    return float(-math.exp(gain) * math.expm1(loss - gain))


def gaussian_sigma(*, epsilon: Number, delta: Number, sensitivity: Number) -> float:
    """The least sigma that makes continuous Gaussian noise (epsilon, delta)-DP, rounded up in the tenth digit.

    >>> gaussian_delta(epsilon=1, sensitivity=1, sigma=gaussian_sigma(epsilon=1, delta=1e-6, sensitivity=1)) <= 1e-6
    True
    """
    eps, target = float(positive(epsilon, "epsilon")), float(probability(delta, "delta"))

    def excess(log_sigma: float) -> float:
        return gaussian_delta(epsilon=eps, sensitivity=1, sigma=math.exp(log_sigma)) - target

    root = scipy.optimize.brentq(excess, math.log(1e-3 / (1 + eps)), math.log(1e3 / eps) - math.log(target), xtol=1e-13)
    return float(positive(sensitivity, "sensitivity")) * math.exp(root) * (1 + 1e-10)
