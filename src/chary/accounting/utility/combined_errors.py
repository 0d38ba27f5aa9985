"""How far a weighted sum of independent noises reaches: what is left of noise after least squares.

*Laplace noise.* A continuous Laplace variable of scale b is a discrete one and an independent symmetric rest within
(-1, 1), since an exponential variable is a geometric number of steps and an independent rest. So the weighted sum of
discrete noises differs from that of continuous ones by a sum of independent rests, which Hoeffding's inequality bounds.
The continuous sum S of variance 1 is a normal variable times the root of V, a mean of independent exponential ones with
the weights of the variances; by Jensen `E f(V) <= E f(E)` for convex f and one exponential E. `h(v) = P(|S| >= t | V =
v) = 2 Phi(-t/sqrt(v))` is convex up to `t^2/3` and concave beyond, so it is at most f: h up to there, then its tangent.

*Gaussian noise.* `P(Z >= m)` of the discrete noise is at most `P(N >= m - 1)` of the continuous one (Canonne, Kamath,
Steinke 2020, Proposition 25) for m >= 1, and for m <= 0 because `P(Z >= k) >= P(N >= k + 1)` for k >= 1 alike. So each
noise is at most the continuous one and a step, stochastically, and the sum at most theirs and the sum of the weights.
The sum is sub-Gaussian as well, with the variance of the continuous one (there, Corollary 17).
"""

import math
from functools import lru_cache
from typing import Final

import scipy

from chary.numbers import Number, probability

# The part of the risk that is kept for rests that fall on one side.
_REST: Final = 0.02
# More than the errors of quadrature, 1e-10 at most, and of a few functions.
_SURPLUS: Final = 1 + 1e-8


@lru_cache
def laplace_multiple_up(beta: float) -> float:
    """The t with `P(|S| >= t) <= beta` for every weighted sum S of continuous Laplace noises of variance 1 together.

    One Laplace noise alone reaches 2.12 with 0.05, a normal variable 1.96:

    >>> round(laplace_multiple_up(0.05), 3)
    2.161
    """

    def chance(reach: float) -> float:
        bend = reach * reach / 3
        below, _ = scipy.integrate.quad(
            lambda v: 2 * scipy.special.ndtr(-reach / math.sqrt(v)) * math.exp(-v), 0, bend, epsabs=1e-13
        )
        at = reach / math.sqrt(bend)
        slope = math.exp(-at * at / 2) / math.sqrt(2 * math.pi) * reach / bend**1.5
        beyond = math.exp(-bend) * (2 * float(scipy.special.ndtr(-at)) + slope)
        return float(below) + float(beyond) - beta / _SURPLUS

    # From half a deviation on the bound falls; beta close to 1 needs no more than that.
    if chance(0.5) <= 0:
        return 0.5
    high = 1.0
    while chance(high) > 0:
        high *= 2
    return float(scipy.optimize.brentq(chance, 0.5, high, xtol=1e-12)) * _SURPLUS


def laplace_sum_error_up(deviation: float, absolute: float, squared: float, beta: Number) -> float:
    """A reach that a weighted sum of discrete Laplace noises keeps with 1 - beta at least.

    `deviation` is that of the sum of the continuous noises, the root of `sum(2 (w b)^2)`; `absolute` is the sum of the
    |w| and `squared` that of the w^2, in steps.

    >>> round(laplace_sum_error_up(100, 3, 3, "0.05"), 1)
    219.1
    """
    chance = float(probability(beta, "beta"))
    rest = math.sqrt(2 * squared * math.log(2 / (_REST * chance)))
    plain = laplace_multiple_up(chance) * deviation + absolute
    return min(plain, laplace_multiple_up((1 - _REST) * chance) * deviation + rest) * _SURPLUS


def gaussian_sum_error_up(deviation: float, absolute: float, beta: Number) -> float:
    """A reach that a weighted sum of discrete Gaussian noises keeps with 1 - beta at least.

    `deviation` is that of the sum of the continuous noises, `absolute` the sum of the weights' sizes, in steps.

    >>> round(gaussian_sum_error_up(100, 3, "0.05"), 1)
    199.0
    """
    chance = float(probability(beta, "beta"))
    near = deviation * -float(scipy.special.ndtri(chance / 2)) + absolute
    return min(near, deviation * math.sqrt(2 * math.log(2 / chance))) * _SURPLUS
