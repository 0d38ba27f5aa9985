"""How far choices and estimates may be off: bounds at a confidence of 1 - beta, which depend on no data.

A choice among n candidates loses `max u - u(chosen)`. `unit` is what a step of utility counts for: epsilon over twice
the sensitivity, or over the sensitivity where all utilities move together. For every mechanism here the candidates for
which a loss of t or more is likeliest are one best and all others t below it.
"""

import math
from collections.abc import Callable

import numpy as np
import scipy

from chary.accounting.utility.channels import Channel, first_whole
from chary.errors import InvalidParameter
from chary.numbers import Number, positive, probability, whole

# Relative and absolute errors of up to 90,000 float operations on chances; a beta of 1e-9 or more bears 1e-12.
_SLACK = 1e-9
_LEAST = 1e-12
_RAREST = 1e-9
# In `flip_loss_up` the chance is a difference from 1: four roundings of 2**-53.
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

    Exact: the best always comes up and shares the choice with those of the others that do, each with the chance
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

    Steps finer than 1/1024 of the noise are put together to blocks of that size, which adds less than 1/100 of the
    noise: discrete Laplace noise is within one step of a continuous one, by quantiles, and so within a block of a
    coarser one.

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

    A candidate t or more below the best wins only if its noise exceeds that of the best by t: their difference is
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

    Exact for every number of units, unlike the binomial interval of Clopper and Pearson, which is for units drawn at
    random: it keeps the shares under which neither so many ones nor so few have a chance of beta/2 at most.

    >>> [round(end, 3) for end in share_interval(520, 1000, lie=0.25, beta="0.05")]
    [0.486, 0.594]
    """
    return Channel(1 - _lie(lie), lie).respondents(ones, units, beta)


def _best_wins(step: float, others: int, gap: int) -> float:
    """The chance that a value `gap` above all others stays the largest under discrete Laplace noise, ties shared.

    With p and F the chances that a noise equals and is below what is needed, it is `((F+p)^n - F^n) / (n p)`.
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
    """The least whole number from which on it holds."""
    high = 1
    while not holds(high):
        high *= 2
    return first_whole(high, holds)


def _lie(lie: float) -> float:
    if not 0 <= lie < 0.5:
        raise InvalidParameter("answers are true with more than 1/2")
    return lie


def _up(bound: float) -> float:
    """More than the rounding of the few operations that led to it."""
    return bound * (1 + _SLACK)
