"""How far noisy answers, choices, ranks and matrices err, with a given confidence, and what no mechanism can beat."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from chary.accounting.numerics import LARGEST_FLOAT, doubled, least, least_error
from chary.errors import InvalidParameter
from chary.numbers import Number, exact, positive, probability, whole

# How far choices and estimates may be off: bounds at a confidence of 1 - beta, which depend on no data.
#
# A choice among n candidates loses `max u - u(chosen)`. `unit` is what a step of utility counts for: epsilon over twice
# the sensitivity, or over the sensitivity where all utilities move together. For every mechanism here the candidates
# for which a loss of t or more is likeliest are one best and all others t below it.

# Relative and absolute errors of up to 90,000 float operations on probabilities, and of quantiles of beta
# distributions; a beta of 1e-9 or more bears 1e-12.
_SLACK = 1e-9
_LEAST = 1e-12
_RAREST = 1e-9
# In `flip_loss_up` the probability is a difference from 1: four roundings of 2**-53.
_ROUNDING = 1e-15
# 1/1024 of a noise: finer steps would make sums of more than 90,000 terms and add less than 1/100 of a noise.
_FINEST = 2.0**-10


def utility_loss_up(unit: Number, candidates: int, beta: Number) -> float:
    """The published bound `ln(n / beta) / unit` for the exponential mechanism; permute-and-flip keeps it as well.

    >>> round(utility_loss_up("0.05", 100, "0.05"), 1)
    152.0
    """
    return _up(math.log(whole(candidates, "candidates") / probability(beta, "beta")) / float(positive(unit, "unit")))


def exponential_loss_up(unit: Number, candidates: int, beta: Number) -> float:
    """The least t with `P(loss >= t) <= beta` for the exponential mechanism: `ln((n - 1)(1 - beta) / beta) / unit`.

    Exact: where all others are t below, they are chosen with `(n - 1) / (n - 1 + e^(unit t))`.

    >>> round(exponential_loss_up("0.05", 100, "0.05"), 1)
    150.8
    """
    others, chance = whole(candidates, "candidates") - 1, float(probability(beta, "beta"))
    return _up(max(0.0, math.log(others * (1 - chance) / chance) / float(positive(unit, "unit")))) if others else 0.0


def flip_loss_up(unit: Number, candidates: int, beta: Number) -> float:
    """The least t with `P(loss >= t) <= beta` for permute-and-flip, and for exponential noise.

    Exact: the best always comes up and shares the choice with those of the others that do, each with the probability
    a = e^(-unit t), so it is chosen with `(1 - (1 - a)^n) / (n a)`.

    >>> round(flip_loss_up("0.05", 100, "0.05"), 1)
    137.3
    """
    size, step = whole(candidates, "candidates"), float(positive(unit, "unit"))
    chance = float(probability(beta, "beta")) * (1 - _SLACK) - _ROUNDING
    if chance <= 0:
        return utility_loss_up(unit, candidates, beta)

    def excess(exponent: float) -> float:
        weight = math.exp(-exponent)
        return 1 + math.expm1(size * math.log1p(-weight)) / (size * weight) - chance

    if size == 1 or excess(_LEAST) <= 0:
        return 0.0
    return _up(float(scipy.optimize.brentq(excess, _LEAST, math.log(size / chance) + 1, xtol=_LEAST)) / step)


def laplace_loss_up(unit: Number, candidates: int, beta: Number) -> int:
    """The least whole t with `P(loss >= t) <= beta` for report noisy max with discrete Laplace noise, beta >= 1e-9.

    Discrete Laplace noise is within one step of a continuous one, by quantiles, and so within a block of a coarser one.
    Steps finer than 1/1024 of the noise are therefore put together to blocks of that size, which adds less than 1/100
    of the noise.

    >>> laplace_loss_up("0.05", 100, "0.05")
    156
    """
    others, chance = whole(candidates, "candidates") - 1, float(probability(beta, "beta"))
    step = float(positive(unit, "unit"))
    if chance < _RAREST:
        raise InvalidParameter("this bound is for a beta of at least 1e-9")
    block = max(1, int(_FINEST / step))
    most = chance * (1 - _SLACK) - _LEAST
    least = _least(lambda gap: 1 - _best_wins(step * block, others, gap) <= most) if others else 0
    return least if block == 1 or not others else block * (least + 3) + 2


def gaussian_loss_up(noise: Number, candidates: int, beta: Number) -> float:
    """A t with `P(loss >= t) <= beta` for the largest of n values with Gaussian noise of this standard deviation.

    A candidate t or more below the best wins only if its noise exceeds that of the best by t. Their difference is
    Gaussian of twice the variance, and there are n - 1 of them at most.

    >>> round(gaussian_loss_up(20, 100, "0.05"), 1)
    93.0
    """
    others, chance = whole(candidates, "candidates") - 1, float(probability(beta, "beta"))
    if not others:
        return 0.0
    return _up(max(0.0, math.sqrt(2) * float(positive(noise, "noise")) * -float(scipy.special.ndtri(chance / others))))


def vote_lead_up(epsilon: Number, beta: Number) -> int:
    """The least r for which a majority vote of n = 2k + 1 replaceable units, k + r on one side, errs with beta at most.

    >>> vote_lead_up("0.1", "0.05")
    24
    """
    size, chance = float(positive(epsilon, "epsilon")), float(probability(beta, "beta"))
    return max(1, math.ceil(_up(1 + (-math.log(chance) - np.logaddexp(0, size)) / size)))


def share_error_up(units: int, *, lie: float, beta: Number) -> float:
    """How far the estimated share of randomized response may be off: the smaller of Hoeffding's and Bernstein's bound.

    Both hold for every number of units; the variance of the number of ones is `units lie (1 - lie)`, whatever the bits.

    >>> round(share_error_up(10_000, lie=0.25, beta="0.05"), 4)
    0.0238
    """
    size, log = whole(units, "units"), math.log(2 / probability(beta, "beta"))
    hoeffding = math.sqrt(size * log / 2)
    bernstein = log / 3 + math.sqrt(log**2 / 9 + 2 * size * _lie(lie) * (1 - lie) * log)
    return _up(min(hoeffding, bernstein) / size / (1 - 2 * lie))


def share_interval(ones: int, units: int, *, lie: float, beta: Number) -> tuple[float, float]:
    """Encloses the true share of ones among `units` bits, `ones` of whose randomized answers are ones, with 1 - beta.

    Exact for every number of units; the binomial interval of Clopper and Pearson is for units drawn at random. It keeps
    the proportions under which neither that many ones nor so few have a probability of beta/2 at most.

    >>> [round(end, 3) for end in share_interval(520, 1000, lie=0.25, beta="0.05")]
    [0.486, 0.594]
    """
    return Channel(1 - _lie(lie), lie).respondents(ones, units, beta)


def _best_wins(step: float, others: int, gap: int) -> float:
    """The probability that a value `gap` above all others stays the largest under discrete Laplace noise, ties shared.

    With p and F the probabilities that a noise equals and is below what is needed, it is `((F+p)^n - F^n) / (n p)`.
    """
    reach = math.ceil(45 / step) + 1
    noise = np.arange(-reach, reach + 1)
    mass = np.exp(-step * np.abs(noise)) * math.tanh(step / 2)
    needed = noise + gap
    tails = np.exp(-step * np.abs(needed)) / (1 + math.exp(-step))
    upto = np.where(needed >= 0, 1 - tails * math.exp(-step), tails)
    equal = np.exp(-step * np.abs(needed)) * math.tanh(step / 2)
    size = others + 1
    with np.errstate(divide="ignore", invalid="ignore"):
        shared = -np.expm1(size * np.log1p(-np.minimum(equal / upto, 1))) / (size * equal / upto)
    return float(mass @ (upto**others * np.where(equal > 0, shared, 1)))


def _least(holds: Callable[[int], bool]) -> int:
    """The least integer from which on it holds."""
    return least(holds, *doubled(holds, -1, 1))


def _lie(lie: float) -> float:
    if not 0 <= lie < 0.5:
        raise InvalidParameter("answers are true with more than 1/2")
    return lie


def _up(bound: float) -> float:
    """The bound times 1 + 1e-9, which covers the rounding of the few operations that led to it."""
    return bound * (1 + _SLACK)


# How far a weighted sum of independent noises reaches: what is left of noise after least squares.
#
# *Laplace noise.* A continuous Laplace variable of scale b is a discrete one and an independent symmetric rest within
# (-1, 1), since an exponential variable is a geometric number of steps and an independent rest. So the weighted sum of
# discrete noises differs from that of continuous ones by a sum of independent rests, which Hoeffding's inequality
# bounds.
# The continuous sum S of variance 1 is a normal variable times the root of V, a mean of independent exponential ones
# with
# the weights of the variances; by Jensen `E f(V) <= E f(E)` for convex f and one exponential E. `h(v) = P(|S| >= t | V
# =
# v) = 2 Phi(-t/sqrt(v))` is convex up to `t^2/3` and concave beyond, so it is at most f: h up to there, then its
# tangent.
#
# *Gaussian noise.* `P(Z >= m)` of the discrete noise is at most `P(N >= m - 1)` of the continuous one (Canonne, Kamath,
# Steinke 2020, Proposition 25) for m >= 1, and for m <= 0 because `P(Z >= k) >= P(N >= k + 1)` for k >= 1 alike. So
# each
# noise is at most the continuous one and a step, stochastically, and the sum at most theirs and the sum of the weights.
# The sum is sub-Gaussian as well, with the variance of the continuous one (there, Corollary 17).

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
    _, high = doubled(lambda reach: chance(reach) <= 0, 0.5, 1.0)
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


# How far many noises reach together: errors that all of them keep with a given probability, rounded up.

# A part in 10**9 covers the rounding of a few functions, 1e-14 that of a sum of 2**14 probabilities, upwards.
_JOINT_SURPLUS: Final = 1 + 1e-9
_JOINT_SLACK: Final = 1e-14
# Cells of 12/2**14 of the threshold's deviation and steps of 1/4096 stay below the thousandth that is promised; 12
# deviations are passed with 1e-33, which counts as a failure.
_CELLS: Final = 2**14
_SIGMAS: Final = 12.0
_FINE: Final = 4096


def laplace_error_up(scale: Number, *, tests: int, confidence: Number) -> int:
    """The least number of steps that all of this many discrete Laplace noises `P(k) ~ exp(-|k|/scale)` keep within.

    Every test is then answered rightly for a value that is off by at most this, and every value is, with probability
    `confidence`. Exact; the closed form is settled to the step.

    >>> laplace_error_up(50, tests=1, confidence=0.95), laplace_error_up(50, tests=1000, confidence=0.95)
    (150, 494)
    """
    step, least = 1 / float(positive(scale, "scale")), _each(tests, confidence)
    together = math.log1p(math.exp(-step))
    return least_error(lambda error: math.log(2) - together - step * (error + 1) <= math.log(least))


def laplace_deviation(scale: Number) -> float:
    """The standard deviation of discrete Laplace noise `P(k) ~ exp(-|k|/scale)`.

    >>> round(laplace_deviation(50), 3)
    70.709
    """
    step = 1 / float(positive(scale, "scale"))
    return math.sqrt(2 * math.exp(-step)) / -math.expm1(-step)


def gaussian_error_up(variance: Number, *, tests: int, confidence: Number) -> int:
    """A number of steps that this many discrete Gaussian noises `P(k) ~ exp(-k^2/(2 variance))` all keep within.

    The tail of the discrete distribution at m is at most the continuous one at m - 1. So this is at most a step above
    the least (Canonne, Kamath and Steinke 2020, Proposition 25).

    >>> gaussian_error_up(10_000, tests=1, confidence=0.95)
    196
    """
    sigma, least = math.sqrt(positive(variance, "variance")), _each(tests, confidence)
    return least_error(lambda error: 2 * float(scipy.special.ndtr(-error / sigma)) <= least)


def crossing_error_up(
    threshold_noise: Number, query_noise: Number, *, thresholds: int, tests: int, confidence: Number
) -> float:
    """How far all differences of a test's noise and its threshold's reach: Gaussian, by their standard deviations.

    Thresholds are drawn `thresholds` times. Given all of them, a test of any round fails at most as often as under the
    farthest. The distribution of that one is summed in cells, each at its worse end. The result is above the least by
    less than 1/1000 of the noises.

    >>> round(crossing_error_up(100, 173.2, thresholds=1, tests=1, confidence=0.95))
    392
    """
    bar, scale = float(positive(threshold_noise, "threshold_noise")), float(positive(query_noise, "query_noise"))
    beta, count = float(1 - probability(confidence, "confidence")), whole(tests, "tests")
    ends = np.linspace(0, _SIGMAS, _CELLS) * bar
    below = (1 - 2 * scipy.special.ndtr(-ends / bar)) ** whole(thresholds, "thresholds")
    weights, unit = np.diff(below), math.hypot(bar, scale) / _FINE

    def kept(error: int) -> bool:
        off = error * unit
        with np.errstate(over="ignore"):
            wrong = scipy.special.ndtr((-off - ends[1:]) / scale) + scipy.special.ndtr((ends[1:] - off) / scale)
        some = -np.expm1(count * np.log1p(-np.minimum(wrong, 1 - 1e-16)))
        return float(weights @ some) + 1 - float(below[-1]) <= beta - _JOINT_SLACK

    return least_error(kept) * unit * _JOINT_SURPLUS


def _each(tests: int, confidence: Number) -> float:
    """The failure probability of each of this many independent noises, rounded down."""
    kept = probability(confidence, "confidence")
    # Near 1 its distance from 1 is what counts, and a float of it would lose that.
    log = math.log1p(-float(1 - kept)) if 2 * kept > 1 else math.log(kept)
    return -math.expm1(log / whole(tests, "tests")) / _JOINT_SURPLUS


# What no unbiased epsilon-DP answer can beat at a given database x: calculators.
#
# `D(t)` is the fewest units of x that must change for t to be the true answer, and `Delta(k)` how far the true answer
# can move when at most k units change. Below, x' is such a database, at distance k, with the answer f' = f(x').
#
# *One of several answers* (published; Asi, Duchi 2020). Unbiased means that under every database the true answer is a
# likeliest one. Then `P_x(t) >= e^(-eps D) P_x'(t) >= e^(-eps D) P_x'(f) >= e^(-2 eps D) P_x(f)` for t = f', and
# summing
# over t gives `P_x(f) <= 1 / sum_t e^(-2 eps D(t))`.
#
# *A number, squared error.* Unbiased means that under every database no other possible answer t has a smaller expected
# squared error than the true one. With V that error under x and W the one of f' under x,
# `W <= e^(k eps) E_x' (out - f')^2 <= e^(k eps) E_x' (out - f)^2 <= e^(2 k eps) V`, while `Delta <= sqrt(V) + sqrt(W)`
# by
# Minkowski's inequality. Hence `V >= Delta(k)^2 / (1 + e^(k eps))^2` (this work), which is at least twice the published
# `Delta(k)^2 / (4 (1 + e^(2 k eps)))`.
#
# *Unbiased in the mean* (this work). If the expected answer is the true one, Hammersley, Chapman and Robbins bound the
# variance by `Delta^2 / chi^2(P_x', P_x)`, and under k eps-DP chi^2 is at most that of randomized response,
# `4 sinh(k eps / 2)^2`. Hence `V >= Delta(k)^2 / (4 sinh(k eps / 2)^2)`: half of the variance of discrete Laplace noise
# for a count, and attained by randomized response where x can be two databases only.
#
# Figures are floats; they err by less than 1e-12 of themselves.

# exp(700) is still a float; a lower bound stays one if the largest changes are left out.
LARGEST_EXPONENT = 700.0


def discrete_chance_up(*, epsilon: Number, distances: Sequence[int]) -> float:
    """The most probable that the true answer can be, given D(t) of all possible answers, the true one (0) among them.

    >>> round(discrete_chance_up(epsilon="0.5", distances=[2, 1, 0, 1]), 4)
    0.5344
    """
    eps = float(positive(epsilon, "epsilon"))
    known = [whole(distance, "a distance", least=0) for distance in distances]
    if 0 not in known:
        raise InvalidParameter("the true answer, of distance 0, must be among the distances")
    return 1 / math.fsum(math.exp(-2 * eps * distance) for distance in known)


def published_loss_down(*, epsilon: Number, changes: Sequence[Number]) -> float:
    """The least expected squared error, as published: the largest `Delta(k)^2 / (4 (1 + e^(2 k eps)))`, k = 1, 2, ....

    `changes` are Delta(1), Delta(2), ....

    >>> round(published_loss_down(epsilon="0.1", changes=range(1, 101)), 4)
    3.0175
    """
    return _largest(epsilon, changes, lambda y: 1 / (4 * (1 + math.exp(2 * y))))


def loss_down(*, epsilon: Number, changes: Sequence[Number]) -> float:
    """The least expected squared error of an answer to which no other is closer: `Delta(k)^2 / (1 + e^(k eps))^2`.

    >>> round(loss_down(epsilon="0.1", changes=range(1, 101)), 4)
    7.7515
    """
    return _largest(epsilon, changes, lambda y: 1 / (1 + math.exp(y)) ** 2)


def variance_down(*, epsilon: Number, changes: Sequence[Number]) -> float:
    """The least variance of an answer whose mean is the true one: the largest `Delta(k)^2 / (4 sinh(k eps / 2)^2)`.

    >>> round(variance_down(epsilon="0.1", changes=range(1, 101)), 4)
    99.9167
    """
    return _largest(epsilon, changes, lambda y: 1 / (4 * math.sinh(y / 2) ** 2))


def _largest(epsilon: Number, changes: Sequence[Number], factor: Callable[[float], float]) -> float:
    eps, found = float(positive(epsilon, "epsilon")), 0.0
    for k, change in enumerate(changes, start=1):
        if k * eps > LARGEST_EXPONENT / 2:
            break
        size = float(exact(change, "a change"))
        found = max(found, size * factor(k * eps) * size)
    return min(found, LARGEST_FLOAT)


# How large the noise on a symmetric matrix can be in any direction, and what that leaves open of its eigenvalues.
#
# Noise E has independent entries on and above the diagonal. Those of the discrete Gaussian of variance s^2 have `E
# exp(t X) <= exp(t^2 s^2 / 2)` (Canonne, Kamath and Steinke 2020); those of the discrete Laplace of scale b have `E
# exp(t X) <= 1 / (1 - t^2 b^2)`. An entry X at (i, j) is X A with A^2 = e_i e_i' + e_j e_j' (one of them on the
# diagonal) and A^3 = A, so `E exp(t X A)` is at most the same function of t times A^2, and Tropp's bound for sums of
# random matrices holds: `P(|E| >= x) <= 2 d exp(-t x) exp(sum of the logarithms of one line)`.

# Bounds are raised by so much for the rounding of a few float operations.


def gaussian_norm_up(size: int, *, variance: float, beta: Number) -> float:
    """A bound on |E| (L2) with 1 - beta, for variance s^2 on the diagonal and s^2/2 off it.

    The lesser of Tropp's `s sqrt((d + 1) ln(2d/beta))` and of Chernoff's bound on the Frobenius norm, for which
    `|E|_F^2 / s^2` is below a chi-square variable of d(d+1)/2 degrees in every exponential moment.

    >>> round(gaussian_norm_up(5, variance=1, beta="0.05"), 2)
    5.64
    """
    lines, chance = whole(size, "size"), float(probability(beta, "beta"))
    tropp = math.sqrt((lines + 1) * math.log(2 * lines / chance))
    return math.sqrt(variance) * min(tropp, length_up(lines * (lines + 1) // 2, beta=beta)) * (1 + _SLACK)


def length_up(entries: int, *, beta: Number) -> float:
    """A bound on the length of this many independent discrete Gaussians of variance one: x with
    `(x^2/m)^(m/2) e^(-(x^2 - m)/2) = beta`.

    >>> round(length_up(15, beta="0.05"), 2)
    5.72
    """
    size, log = whole(entries, "entries"), -math.log(probability(beta, "beta"))

    def excess(ratio: float) -> float:
        return size / 2 * (ratio - 1 - math.log(ratio)) - log

    most = 2 * (1 + 2 * log / size) + 2
    return math.sqrt(size * float(scipy.optimize.brentq(excess, 1, most))) * (1 + _SLACK)


def laplace_norm_up(size: int, *, scale: float, beta: Number) -> float:
    """A bound on |E| (L2) with 1 - beta, for discrete Laplace noise of this scale on all entries.

    >>> round(laplace_norm_up(5, scale=1, beta="0.05"), 2)
    12.35
    """
    lines = whole(size, "size")
    log = math.log(2 * lines / probability(beta, "beta"))
    tried = np.linspace(0.001, 0.999, 999)
    bounds = (log - lines * np.log1p(-(tried**2))) / tried
    return float(scale * bounds.min() * (1 + _SLACK))


class Spectrum(NamedTuple):
    """Eigenvalues, largest first, and the eigenvectors as rows, each with its largest entry positive."""

    values: NDArray[np.float64]
    vectors: NDArray[np.float64]


def spectrum(matrix: NDArray[np.float64]) -> Spectrum:
    """The spectrum of a symmetric matrix.

    >>> spectrum(np.array([[2.0, 0.0], [0.0, -3.0]])).values
    array([ 2., -3.])
    """
    values, vectors = np.linalg.eigh(matrix)
    rows = vectors.T[::-1]
    largest = np.abs(rows).argmax(axis=1)
    signs = np.sign(rows[np.arange(len(rows)), largest])
    return Spectrum(values[::-1].copy(), rows * signs[:, None])


def angle_up(values: NDArray[np.float64], leading: int, within: float) -> float | None:
    """The largest angle in degrees between the space of the `leading` noisy eigenvectors and of the true ones.

    For eigenvalues that are each off by `within` at most, as the matrix is: `sin <= within / (gap - within)` for the
    gap of the noisy ones (Davis and Kahan 1970). None where that rules nothing out.

    >>> round(angle_up(np.array([5.0, 1.0]), 1, 0.5), 1)
    8.2
    """
    if leading >= len(values):
        return 0.0
    gap = float(values[leading - 1] - values[leading])
    sine = within / (gap - within) if gap > within else math.inf
    return math.degrees(math.asin(sine)) if sine < 1 else None


# How far the rank of a private quantile may be off, whatever the data. Its value cannot be promised without data.


class RankChoice(NamedTuple):
    """One choice of a tree of quantiles: which quantile, and its level among the values of its part.
    `depth` counts from 0. The last field says which choice split that part off (None for the first)."""

    position: int
    relative: Fraction
    depth: int
    parent: int | None


def halvings(
    at: Sequence[Fraction], low: Fraction = Fraction(0), high: Fraction = Fraction(1), first: int = 0
) -> Iterator[RankChoice]:
    """The choices that halve the quantiles until none is left, each after the one it depends on.

    >>> quarters = halvings([Fraction(k, 4) for k in (1, 2, 3)])
    >>> [(choice.position, str(choice.relative), choice.depth) for choice in quarters]
    [(1, '1/2', 0), (0, '1/2', 1), (2, '1/2', 1)]
    """
    if not at:
        return
    middle = len(at) // 2
    cut = at[middle]
    yield RankChoice(first + middle, (cut - low) / (high - low), 0, None)
    for part, left, right, start in ((at[:middle], low, cut, first), (at[middle + 1 :], cut, high, first + middle + 1)):
        for choice in halvings(part, left, right, start):
            parent = first + middle if choice.parent is None else choice.parent
            yield choice._replace(depth=choice.depth + 1, parent=parent)


def rank_error_up(*, epsilon: Number, points: int, beta: Number, change: Number = 1) -> int:
    """The largest error, in ranks, of one quantile on a grid of `points` places, except with probability beta.

    If t comes out for q, then `b - qn` and `a - (1-q)n` are at most this, for the numbers b below and a above it.
    `change` is how much one unit moves a rank: 1 under replace, `max(q, 1-q)` under add/remove, times the values of a
    unit. `change * floor((2/epsilon) ln(points/beta))`, rounded up, by the distribution itself (theory chapter 4).

    >>> rank_error_up(epsilon="0.1", points=121, beta="0.05", change="0.5")
    78
    """
    return math.ceil(rank_excess_up(epsilon=epsilon, points=points, beta=beta, change=change))


def rank_excess_up(*, epsilon: Number, points: int, beta: Number, change: Number) -> Fraction:
    """`rank_error_up` before rounding up to an integer; an excess is a fraction where qn is no integer."""
    odds = whole(points, "points") / probability(beta, "beta")
    distance = math.floor(2 * math.log(odds) / positive(epsilon, "epsilon") + 1e-9)
    return positive(change, "change") * distance


def rank_errors_up(
    *, epsilon: Number, at: Sequence[Number], points: int, beta: Number, replace: bool, moves: int = 1
) -> list[int]:
    """`rank_error_up` for several quantiles: all bounds hold together, except with probability beta.

    The errors of the choices that lead to a quantile add up. `points` is the grid that is chosen from: the dithered one
    where there are several quantiles of units with one value each. Values at one of its places count as one.

    >>> rank_errors_up(epsilon=1, at=["0.25", "0.5", "0.75"], points=2**20, beta="0.05", replace=False)
    [72, 36, 72]
    """
    quantiles = [probability(q, "a quantile") for q in at]
    each, eps = probability(beta, "beta") / len(quantiles), positive(epsilon, "epsilon")
    if moves > 1:
        return [_error(eps / len(quantiles), points, each, q, replace, moves) for q in quantiles]
    rounds, found = len(quantiles).bit_length(), [0] * len(quantiles)
    for choice in halvings(quantiles):
        share = eps / rounds / (2 if replace and choice.depth else 1)
        own = _error(share, points, each, choice.relative, replace and not choice.depth, 1)
        found[choice.position] = own + (0 if choice.parent is None else found[choice.parent])
    return found


def _error(epsilon: Fraction, points: int, beta: Fraction, q: Fraction, replace: bool, moves: int) -> int:
    change = moves * (Fraction(1) if replace else max(q, 1 - q))
    return rank_error_up(epsilon=epsilon, points=points, beta=beta, change=change)


# What a collector learns from reports that people randomize themselves: shares, their errors, and how many people.
#
# A *channel* is what a form of reports is for one value. A report speaks for the value with probability `held` where it
# is the respondent's own, and with probability `other` where it is not. Let m of n people hold the value. The number of
# reports that speak for it is the sum of two binomials, Bin(m, held) + Bin(n - m, other). With each person drawn from a
# population in which a proportion t holds it, it is one, Bin(n, other + t (held - other)).


# By Hoeffding 7 sqrt(n) is passed with 2 exp(-98).
_SPREADS: Final = 7
_MOST_PEOPLE: Final = 2**50
# The variance of hashing is flat around e^epsilon + 1 groups; beyond that many a table of groups says nothing more.
_MOST_GROUPS: Final = 2**15


@dataclass(frozen=True)
class Channel:
    """The two probabilities with which a report speaks for a value.

    >>> channel = Channel(0.5, 0.25)
    >>> channel.share(500, 1000), channel.variance(0)
    (1.0, 3.0)
    """

    held: float
    other: float

    def __post_init__(self) -> None:
        if not 0 <= self.other < self.held <= 1:
            raise InvalidParameter("a report speaks for the value that is held more often than for others")

    def chance(self, share: float) -> float:
        """The probability that a report speaks for a value that this proportion of people holds."""
        return self.other + share * (self.held - self.other)

    def share(self, count: int, people: int) -> float:
        """The unbiased estimate; it may lie outside [0, 1]."""
        return (count / people - self.other) / (self.held - self.other)

    def variance(self, share: float) -> float:
        """The variance of the estimate times the number of people, over the randomization alone."""
        held, other = self.held * (1 - self.held), self.other * (1 - self.other)
        return (share * held + (1 - share) * other) / (self.held - self.other) ** 2

    def drawn_variance(self, share: float) -> float:
        """The same variance over the randomization and over the drawing of people from a population."""
        chance = self.chance(share)
        return chance * (1 - chance) / (self.held - self.other) ** 2

    def squared_error(self, values: int) -> float:
        """The expected squared error of the proportions of all values together, times the number of people.

        One of them is each person's own, so it is the same whatever their proportions are.
        """
        return self.variance(1) + (values - 1) * self.variance(0)

    def respondents(self, count: int, people: int, beta: Number) -> tuple[float, float]:
        """Encloses the proportion among the people who answered, with 1 - beta, by the exact distribution for every
        number of them.

        It keeps the proportions under which neither that many reports nor so few have a probability of beta/2 at most.
        """
        level = float(probability(beta, "beta")) / 2 * (1 - _SLACK)
        low = least(lambda own: 1 - self._at_most(count - 1, own, people) > level, -1, people + 1)
        high = least(lambda own: self._at_most(count, own, people) <= level, -1, people + 1) - 1
        ends = sorted((min(low, people), max(high, 0)))
        return ends[0] / people, ends[1] / people

    def population(self, count: int, people: int, beta: Number) -> tuple[float, float]:
        """Encloses the proportion in the population that the people were drawn from independently, with 1 - beta.

        The interval of Clopper and Pearson for the probability of a report, which is exact, in terms of the proportion.
        """
        level = float(probability(beta, "beta")) / 2 * (1 - _SLACK)
        low = float(scipy.stats.beta.ppf(level, count, people - count + 1)) if count else 0.0
        high = float(scipy.stats.beta.isf(level, count + 1, people - count)) if count < people else 1.0
        return self._clipped(low * (1 - _SLACK)), self._clipped(high * (1 + _SLACK))

    def width(self, share: float, people: int, beta: Number) -> float:
        """Half of how wide the interval about the population is where reports are as many as expected."""
        count = round(people * self.chance(share))
        low = float(scipy.stats.beta.ppf(float(beta) / 2, max(count, 1), people - count + 1)) if count else 0.0
        high = float(scipy.stats.beta.isf(float(beta) / 2, count + 1, max(people - count, 1)))
        return (high - low) / 2 / (self.held - self.other)

    def _clipped(self, chance: float) -> float:
        return min(1.0, max(0.0, (chance - self.other) / (self.held - self.other)))

    def _at_most(self, count: int, own: int, people: int) -> float:
        """P(count or fewer), where `own` of the people hold it; of those, counts beyond e^-98 are cut off."""
        middle, reach = own * self.held, _SPREADS * math.sqrt(own) + 1
        told = np.arange(max(0, math.floor(middle - reach)), min(own, math.ceil(middle + reach)) + 1)
        masses = scipy.stats.binom.pmf(told, own, self.held)
        return float(masses @ scipy.stats.binom.cdf(count - told, people - own, self.other))


def category_channel(values: int, epsilon: Number) -> Channel:
    """The channel of k-ary randomized response: the own value with `e^epsilon / (e^epsilon + k - 1)`, else any other.

    >>> category_channel(2, 1).held == 1 / (1 + math.exp(-1))
    True
    """
    power, others = math.exp(-float(positive(epsilon, "epsilon"))), whole(values, "values", least=2) - 1
    return Channel(1 / (1 + others * power), power / (1 + others * power))


def symmetric_channel(epsilon: Number) -> Channel:
    """The channel of one bit a value, each flipped with probability `1 / (1 + e^(epsilon/2))`."""
    power = math.exp(-float(positive(epsilon, "epsilon")) / 2)
    return Channel(1 / (1 + power), power / (1 + power))


def optimised_channel(epsilon: Number) -> Channel:
    """The channel of one bit a value: a one is kept with probability 1/2, a zero flipped with `1 / (1 + e^epsilon)`."""
    power = math.exp(-float(positive(epsilon, "epsilon")))
    return Channel(0.5, power / (1 + power))


def hashed_channel(groups: int, epsilon: Number) -> Channel:
    """The channel of randomized response among this many groups; everybody maps values to groups at random."""
    return Channel(category_channel(groups, epsilon).held, 1 / whole(groups, "groups", least=2))


def best_groups(epsilon: Number) -> int:
    """The prime number of groups whose channel has the least variance for a rare value; near `e^epsilon + 1`.

    >>> best_groups(1), best_groups(3)
    (3, 23)
    """
    middle = min(math.exp(min(float(positive(epsilon, "epsilon")), 40)) + 1, _MOST_GROUPS)
    tried = [groups for groups in range(2, int(2 * middle) + 4) if _is_prime(groups)]
    return min(tried, key=lambda groups: hashed_channel(groups, epsilon).variance(0))


def people_needed(channel: Channel, *, values: int, within: Number, beta: Number, share: Number = 1) -> int:
    """How many people it takes for intervals about the population that reach `within` to either side.

    All `values` hold at once with 1 - beta; as wide as stated where as many reports come in as are expected, for every
    value of at most this `share`. It is the figure of a plan: intervals themselves hold whatever comes in.
    """
    half, most = float(positive(within, "within")), float(share)
    each = float(probability(beta, "beta")) / whole(values, "values", least=2)
    if not 0 < most <= 1:
        raise InvalidParameter("share must be above 0 and at most 1")
    widest = min(most, max(0.0, (0.5 - channel.other) / (channel.held - channel.other)))
    people = 1
    while channel.width(widest, people, each) > half:
        people *= 2
        if people > _MOST_PEOPLE:
            raise InvalidParameter("no number of people below 2**50 is enough: a larger epsilon or within is needed")
    return least(lambda fewer: channel.width(widest, fewer, each) <= half, people // 2, people)


def local_channels(values: int, epsilon: Number) -> dict[str, Channel]:
    """The channel of every form of reports, by name, each epsilon-DP: "category", "symmetric", "optimised", "hashed".

    A rare value is estimated best by "category" up to `3 e^epsilon + 2` values, and by "optimised" beyond.

    >>> forms = local_channels(10, 1)
    >>> min(forms, key=lambda name: forms[name].variance(0))
    'category'
    """
    return {
        "category": category_channel(values, epsilon),
        "symmetric": symmetric_channel(epsilon),
        "optimised": optimised_channel(epsilon),
        "hashed": hashed_channel(best_groups(epsilon), epsilon),
    }


def _is_prime(number: int) -> bool:
    return all(number % factor for factor in range(2, math.isqrt(number) + 1))
