"""Discrete and continuous Gaussian noise: variance, zero-concentrated rho, the curve of epsilon and delta."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np
import scipy
from numpy.typing import NDArray

from chary.accounting.composition import LARGEST_TIMES, capacity_down, epsilon_up, optimal_delta
from chary.accounting.composition import MARGIN as COMPOSED
from chary.accounting.numerics import doubled, geometric_mean, largest_size, least
from chary.errors import InvalidParameter
from chary.numbers import Number, plain, positive, probability, whole

# (epsilon, delta) of discrete Gaussian noise, certified from above.
#
# The continuous formula is no bound: the privacy curve of the discrete distribution has kinks where a grid point's loss
# is epsilon, and between them it lies above the continuous one, as at sigma 1, shift 1, epsilon 2. What holds instead:
#
# *One integer that changes by at most D.* The likelihood ratio of `N(0)` and `N(D)` falls along the grid, so with
# `f(j) = exp(-j^2 / (2 s^2))` and Z the sum of f, delta is the sum of `h(j) = f(j) - e^eps f(j - D)` over the j below
# `x = D/2 - eps s^2/D`, divided by Z. It grows with D, because the best event is a half-line, whatever D is.
#
# *Several integers whose changes v have squared length m.* Only S, the sum of `v_i x_i`, matters. If g is the greatest
# common divisor of the v_i, then S has the distribution `N_gZ(s^2 m)` up to a factor e^tau either way. Add one
# coordinate after another, large ones first: the inner sum is a theta series of variance at least `t = s^2 / max(2, m)`
# in steps of its grid (s^2/2 where g stays; where it falls, `s^2 / m`, because g^2 is at most the part of m before),
# and by Poisson summation it varies by a factor of `(1 + 2 eta) / (1 - 2 eta)` at most, eta being the sum of
# `exp(-2 pi^2 k^2 t)`, so that a coordinate adds the logarithm of this factor to tau. Hence delta is at most e^tau
# times that of one integer at `eps - 2 tau`, on a grid as fine as 1 to `s sqrt(m) / g`.
#
# *Any grid.* h is log-concave up to x, so the sum over a grid of step 1 is at most the integral, which is the
# continuous
# delta, and the largest value of h.

# Sums of up to 2**18 positive terms err by 2**-35 at worst: 1e-10 is three times that, added to what is certified.
MARGIN: Final = 1e-10
# Two terms of the continuous delta nearly cancel where the ratio is small: its error, 1e-15 or so, grows with 1/ratio.
CANCELLED: Final = 1e-13
# Beyond 2**18 terms the grid is so fine that the bound for any grid is a few thousandths above the sum at most.
MOST_TERMS: Final = 1 << 18
# exp(-14**2/2) is 1e-43, and what is cut off is added as a geometric series: less reach would cost tightness only.
REACH: Final = 14.0
# From 4 on a coordinate costs a factor of 1.08 at most; the formula holds down to 2 eta < 1, but is worth little there.
LEAST_EXPONENT: Final = 4.0
# The least that the sampler draws. A rho beyond 10**100 is delta 1 in any case, and would overflow as a float.
SMALLEST_VARIANCE: Final = Fraction(1, 2**20)
LARGEST_RHO: Final = 10**100
KEPT: Final = 256


def discrete_gaussian_delta_up(
    *, epsilon: Number, sigma_squared: Number, largest: int, l2_squared: int | None = None, reach: int = 1
) -> float:
    """The delta at which integers with discrete Gaussian noise are (epsilon, delta)-DP, rounded up.

    At most `reach` integers change, each by at most `largest`, together by a squared length of at most `l2_squared`
    (by default what follows). The sum over the grid is exact for one integer and for changes of 1, up to a million
    millionth and e^tau; otherwise it is bounded.

    >>> round(discrete_gaussian_delta_up(epsilon=2, sigma_squared=1, largest=1), 5)
    0.02481
    >>> round(gaussian_delta(epsilon=2, sensitivity=1, sigma=1), 5)
    0.02092
    """
    eps, variance = float(positive(epsilon, "epsilon")), float(positive(sigma_squared, "sigma_squared"))
    most, parts = whole(largest, "largest"), whole(reach, "reach")
    length = min(most**2 * parts, most**2 * parts if l2_squared is None else whole(l2_squared, "l2_squared"))
    if parts == 1 or length == 1:
        return _one(eps, variance, most)
    tau = _smoothing(variance, min(parts, length), 2 if most == 1 else length)
    if 2 * tau >= eps:
        return _renyi(Fraction(eps), Fraction(variance), length)
    below = _one(eps - 2 * tau, variance * length, length) if most == 1 else _any(eps - 2 * tau, variance, length)
    return min(1.0, math.exp(tau) * below * (1 + MARGIN))


@lru_cache(maxsize=KEPT)
def discrete_gaussian_variance(
    *, epsilon: Fraction, delta: Fraction, largest: int, l2_squared: int, reach: int
) -> Fraction:
    """A sigma squared, within a thousandth of the least, at which the noise is certainly (epsilon, delta)-DP.

    >>> one = {"largest": 1, "l2_squared": 1, "reach": 1}
    >>> round(float(discrete_gaussian_variance(epsilon=Fraction(1), delta=Fraction(1, 10**6), **one)) ** 0.5, 3)
    4.231
    """
    target = float(probability(delta, "delta"))
    start = gaussian_sigma(epsilon=epsilon, delta=delta, sensitivity=1) ** 2 * l2_squared
    change = {"largest": largest, "l2_squared": l2_squared, "reach": reach}

    def enough(factor: float) -> bool:
        found = discrete_gaussian_delta_up(epsilon=epsilon, sigma_squared=_rounded(start * factor), **change)
        return found <= target * (1 - MARGIN)

    low, high = doubled(enough, 0.5, 1.001, times=1.25)
    return _rounded(start * least(enough, low, high, middle=geometric_mean, ratio=1.0005))


@lru_cache(maxsize=KEPT)
def zero_concentrated_rho_down(*, epsilon: Fraction, delta: Fraction) -> Fraction:
    """A rho, within a thousandth of the largest, of which rho-zCDP implies (epsilon, delta)-DP at some Renyi order.

    >>> float(zero_concentrated_rho_down(epsilon=Fraction(1), delta=Fraction(1, 10**6)))
    0.0...
    """
    orders = [1 + Fraction(f"{math.exp(x):.4g}") for x in np.linspace(-4, 12, 3201)]
    floats = np.array([float(order) for order in orders])
    capacity = (floats - 1) * (float(epsilon) - np.log1p(-1 / floats)) + np.log(float(delta) * floats)
    order = orders[int(np.argmax(capacity / (floats * (floats - 1))))]
    rho = capacity_down(epsilon, delta, order) / (order * (order - 1))
    if rho <= 0:
        raise InvalidParameter(
            f"no rho-zCDP computation is certainly ({plain(epsilon)}, {plain(delta)})-DP: take a larger one of the two"
        )
    return rho


def _rounded(variance: float) -> Fraction:
    return max(SMALLEST_VARIANCE, Fraction(f"{variance:.12g}"))


def _one(eps: float, variance: float, shift: int) -> float:
    """The exact sum for one integer, its tail bounded by a geometric series; on fine grids the bound for any grid."""
    edge = shift / 2 - eps * variance / shift
    spread = math.sqrt(variance)
    if REACH * spread > MOST_TERMS:
        return _any(eps, variance, shift**2)
    first = math.ceil(edge) - 1
    terms = first - np.arange(math.ceil(REACH * spread) + 2, dtype=np.float64)
    if terms[-1] > -REACH * spread / 2:
        terms = np.arange(first, -math.ceil(REACH * spread) - 2, -1, dtype=np.float64)
    with np.errstate(over="ignore", under="ignore"):
        weights = np.exp(-(terms**2) / (2 * variance)) * -np.expm1((terms - edge) * shift / variance)
    end = terms[-1] - 1
    tail = math.exp(-(end**2) / (2 * variance)) / -math.expm1(end / variance)
    return min(1.0, (float(weights.sum()) + tail) / _mass_down(variance) * (1 + MARGIN))


def _mass_down(variance: float) -> float:
    """A lower bound on the sum of `exp(-j^2 / (2 variance))` over all integers: some terms, or Poisson's first."""
    terms = np.exp(-(np.arange(1, 40) ** 2) / (2 * variance))
    return max(1 + 2 * float(terms.sum()), math.sqrt(2 * math.pi * variance)) * (1 - MARGIN)


def _any(eps: float, variance: float, l2_squared: int) -> float:
    """The bound for grids of step 1 in units of `sqrt(variance)` or finer: the integral and the largest term."""
    spread = math.sqrt(variance)
    ratio = math.sqrt(l2_squared) / spread
    place = min(0.0, ratio / 2 - eps / ratio)
    slope = -place / ratio
    peak = 1.0 if not slope else (slope / (1 + slope)) ** slope / (1 + slope)
    smooth = gaussian_delta(epsilon=eps, sensitivity=ratio, sigma=1) * (1 + CANCELLED / ratio)
    return min(1.0, (smooth + peak * math.exp(-(place**2) / 2) / (spread * math.sqrt(2 * math.pi))) * (1 + MARGIN))


def _smoothing(variance: float, parts: int, largest: int) -> float:
    """tau: how far S may be from a discrete Gaussian; each coordinate after the first adds as much."""
    exponent = 2 * math.pi**2 * variance / max(2, largest)
    if exponent < LEAST_EXPONENT:
        return math.inf
    eta = math.exp(-exponent) / -math.expm1(-3 * exponent)
    return (parts - 1) * (math.log1p(2 * eta) - math.log1p(-2 * eta)) * (1 + MARGIN)


def _renyi(epsilon: Fraction, variance: Fraction, l2_squared: int) -> float:
    """What `l2_squared / (2 variance)`-zCDP implies: some delta of a bisection that certainly gives epsilon."""
    rho = l2_squared / (2 * variance)
    if rho > LARGEST_RHO:
        return 1.0
    log = least(lambda log: _converts(rho, epsilon, Fraction(math.exp(log))), -700.0, 0.0, times=40)
    return min(1.0, math.exp(log))


def _converts(rho: Fraction, epsilon: Fraction, delta: Fraction) -> bool:
    orders = np.exp(np.linspace(-4, 12, 801)) + 1
    totals = orders * float(rho) + np.log1p(-1 / orders) - np.log(float(delta) * orders) / (orders - 1)
    order = Fraction(float(orders[int(np.argmin(totals))]))
    return epsilon_up(order * (order - 1) * rho, order, delta) <= epsilon


# The Gaussian mechanism, exactly (theory chapter 1): its privacy curve and the least noise for a budget.

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
    """`gaussian_delta` at several epsilons, of either sign, for noise of 1/ratio times the sensitivity.

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
    direct = scipy.special.erfcx(a) - scipy.special.erfcx(a + h)
    return np.asarray(np.where(h < np.maximum(a, 1) / 8, h * slope, direct))


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


# Many answers paid beforehand: the better of Laplace and Gaussian noise.


@dataclass(frozen=True)
class PlainNoise:
    """The least noise of many answers under a budget: its standard deviation, and whether it is Gaussian."""

    deviation: float
    gaussian: bool


def plain_noise(*, epsilon: Number, delta: Number, tests: int) -> PlainNoise:
    """The least noise of this many answers of sensitivity 1, all paid beforehand.

    The better of Laplace noise under optimal composition, which no other theorem undercuts, and of continuous Gaussian
    noise, calibrated exactly.

    >>> plain_noise(epsilon=1, delta=1e-6, tests=10_000)
    PlainNoise(deviation=422.46..., gaussian=True)
    """
    total, failure = float(positive(epsilon, "epsilon")), float(probability(delta, "delta"))
    if whole(tests, "tests") > LARGEST_TIMES:
        raise InvalidParameter(f"optimal composition is worked out for at most {LARGEST_TIMES} tests")
    # The float of a delta may be above it by half a unit: the margin of 1e-11 covers that many times over.
    room = failure * (1 - COMPOSED)
    laplace = math.sqrt(2) / largest_size(lambda size: optimal_delta(size, tests, total) <= room, total)
    gaussian = gaussian_sigma(epsilon=epsilon, delta=failure, sensitivity=math.sqrt(tests))
    return PlainNoise(min(laplace, gaussian), gaussian <= laplace)
