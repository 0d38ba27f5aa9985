"""The Gaussian mechanism, exactly (theory 1.1): its privacy curve and the least noise for a budget."""

import math

import numpy as np
import scipy
from numpy.typing import NDArray

from chary.errors import InvalidParameter
from chary.numbers import Number, positive, probability

Floats = NDArray[np.float64]
_ROOT = math.sqrt(0.5)
_TWO_BY_ROOT_PI = 2 / math.sqrt(math.pi)
# A ratio and its inverse must both be normal floats.
_WIDEST = 10**300
# Left of -5 erfcx grows towards overflow while the two terms differ, so they are subtracted; from 20 on the slope of
# erfcx cancels and its series errs by 2e-16; 1e100 can be squared, and the delta there is 0 or 1.
_LEFT, _FAR, _BEYOND = -5.0, 20.0, 1e100
# (-1)^n (2n+1)!!, the asymptotic series of 1 - sqrt(pi) t erfcx(t) in 1/(2 t^2).
_SERIES = np.cumprod([1.0, -3, -5, -7, -9, -11, -13, -15])
_POINTS, _WEIGHTS = ((part + shift) / 2 for part, shift in zip(np.polynomial.legendre.leggauss(8), (1, 0), strict=True))


def gaussian_delta(*, epsilon: Number, sensitivity: Number, sigma: Number) -> float:
    """`Phi(D/2s - eps s/D) - e^eps Phi(-D/2s - eps s/D)`, the exact delta of continuous Gaussian noise.

    >>> round(gaussian_delta(epsilon=1, sensitivity=1, sigma=1), 4)
    0.1269
    """
    eps = float(positive(epsilon, "epsilon"))
    exactly = positive(sensitivity, "sensitivity") / positive(sigma, "sigma")
    if not 1 <= exactly * _WIDEST <= _WIDEST**2:
        raise InvalidParameter("sensitivity and sigma must be within a factor of 1e300 of each other")
    ratio = float(exactly)
    return float(gaussian_deltas(np.array([eps]), ratio)[0])


def gaussian_deltas(epsilons: Floats, ratio: float) -> Floats:
    """The same at several epsilons, of either sign, for noise of 1/ratio times the sensitivity.

    With `x = epsilon/ratio - ratio/2` it is `exp(-x^2/2)/2` times the fall of erfcx from x/sqrt 2 to
    (x + ratio)/sqrt 2: no digits are lost to long logarithms, nor to nearly equal terms. Far left of 0 both terms
    differ; and `delta(-e) = 1 - exp(-e) + exp(-e) delta(e)`.
    """
    size = np.abs(epsilons)
    x = np.clip(size / ratio - ratio / 2, -_BEYOND, _BEYOND)
    left = np.minimum(x, _LEFT)
    with np.errstate(over="ignore", under="ignore"):
        near = np.exp(-x * x / 2) / 2 * _fall(_ROOT * np.maximum(x, _LEFT), _ROOT * ratio)
        gain, loss = scipy.special.log_ndtr(-left), size + scipy.special.log_ndtr(-left - ratio)
        far = -np.exp(gain) * np.expm1(np.minimum(0, loss - gain))
    delta = np.where(x < _LEFT, far, near)
    return np.where(epsilons < 0, -np.expm1(-size) + np.exp(-size) * delta, delta)


def _fall(a: Floats, h: float) -> Floats:
    """`erfcx(a) - erfcx(a + h)`; as the integral of its slope where h is small for a."""
    slope = _slope(a[:, np.newaxis] + h * _POINTS) @ _WEIGHTS
    return np.asarray(
        np.where(h < np.maximum(a, 1) / 8, h * slope, scipy.special.erfcx(a) - scipy.special.erfcx(a + h))
    )


def _slope(t: Floats) -> Floats:
    """`2/sqrt(pi) - 2 t erfcx(t)`, minus the slope of erfcx; from 20 on by its series, good to 1e-14 there."""
    inverse = 1 / (2 * np.maximum(t, _FAR) ** 2)
    series = inverse * np.polynomial.polynomial.polyval(inverse, _SERIES)
    return np.asarray(
        _TWO_BY_ROOT_PI * np.where(t > _FAR, series, 1 - t * scipy.special.erfcx(t) / (_TWO_BY_ROOT_PI / 2))
    )


def gaussian_sigma(*, epsilon: Number, delta: Number, sensitivity: Number) -> float:
    """The least sigma that makes continuous Gaussian noise (epsilon, delta)-DP, rounded up in the tenth digit.

    >>> gaussian_delta(epsilon=1, sensitivity=1, sigma=gaussian_sigma(epsilon=1, delta=1e-6, sensitivity=1)) <= 1e-6
    True
    """
    eps, target = float(positive(epsilon, "epsilon")), float(probability(delta, "delta"))

    def excess(log_sigma: float) -> float:
        return gaussian_delta(epsilon=eps, sensitivity=1, sigma=math.exp(log_sigma)) - target

    # At a deviation of 1/delta even the total variation is below delta.
    root = scipy.optimize.brentq(excess, math.log(1e-3 / (1 + eps)), -math.log(target), xtol=1e-13)
    # The factor covers brentq's 1e-13 and the error of the curve, in the direction of more noise.
    return float(positive(sensitivity, "sensitivity")) * math.exp(root) * (1 + 1e-10)
