"""Optimal composition (Kairouz, Oh, Viswanath): k equal epsilon-DP computations are k coins of randomized response.

Delta adds up binomial weights near the kink that matters: about thirteen standard deviations of them, whatever k is.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np

from chary.accounting.binomial import Floats, binomial_weight, falling, floored, surplus
from chary.accounting.searching import first_within
from chary.errors import InvalidParameter

# Short formulas in float64 err by some 1e-15 and a bracket beyond 1e13 kinks by 1e-13: a hundred times that, upwards.
MARGIN = 1e-11
# 13 deviations to both sides are 860,000 terms: with a surplus of 8e-10, below the 1e-9 that `optimal_delta` tells.
LARGEST_VARIANCE = 10**9
# The search comes back to its two ends only; 64 kinks hold all that it looks at.
KEPT = 64


def optimal_delta(epsilon: float, times: int, total: float) -> float:
    """The delta of k epsilon-DP computations at a total epsilon (Kairouz-Oh-Viswanath), rounded up by 1e-9 at most.

    >>> optimal_delta(0.1, 1, 0.1)
    0.0
    """
    last = math.ceil((times - Fraction(total) / Fraction(epsilon)) / 2) - 1
    if last < 0:
        return 0.0
    # The distance to the kink is a difference of nearly equal numbers, so it is taken exactly and rounded once.
    rest = float((times - 2 * last) * Fraction(epsilon) - Fraction(total))
    return _Kink(epsilon, times, last).delta_up(rest)


def optimal_total(epsilon: float, times: int, delta: float) -> float:
    """The least epsilon at which k computations are (epsilon, delta)-DP: between the kinks delta is linear in e^eps.

    >>> round(optimal_total(0.1, 1, 1e-9), 6)
    0.1
    """
    if optimal_delta(epsilon, times, 0.0) <= delta:
        return 0.0
    half = times // 2

    @lru_cache(maxsize=KEPT)
    def bound(later: int) -> float:
        return _Kink(epsilon, times, half - later).delta_up(0.0)

    low, high = _around(bound, epsilon, times, delta)
    kink = _Kink(epsilon, times, half - high)
    return kink.place * (1 + MARGIN) if high - low > 1 else kink.total_up(delta)


def _around(bound: Callable[[int], float], epsilon: float, times: int, delta: float) -> tuple[int, int]:
    """The numbers of kinks, counted from total epsilon 0, between which the bound passes delta; from -1 on.

    Looked for from the total of zero concentration downwards, in steps that start at a few of the law's deviations.
    """
    half, step = times // 2, math.ceil(math.sqrt(times * spread(epsilon)) / 8)
    high = min(half, math.ceil(concentrated_total(epsilon, times, delta) / epsilon / 2) + 1)
    high = high if bound(high) <= delta else half
    while bound(low := max(0, high - step)) <= delta:
        if not low:
            return -1, 0
        high, step = low, 2 * step
    return first_within(bound, delta, low, high)


@dataclass(frozen=True)
class _Kink:
    """The curve at and just below the loss `(k - 2 last) eps`, where up to `last` computations count as unlikely."""

    epsilon: float
    times: int
    last: int

    def __post_init__(self) -> None:
        if self.times * spread(self.epsilon) > LARGEST_VARIANCE:
            raise InvalidParameter("so many computations are too many for optimal composition: take renyi_total")

    @property
    def place(self) -> float:
        """The loss at the kink."""
        return (self.times - 2 * self.last) * self.epsilon

    def delta_up(self, rest: float) -> float:
        """Delta at a total epsilon that is `rest` below the kink."""
        start, (earlier, later) = self._start, self._weights
        ahead = float(self.last - start)
        fewer, more = ahead + np.arange(len(earlier)), ahead - np.arange(1, len(later))
        gains = [-np.expm1(-(rest + 2 * self.epsilon * steps)) for steps in (fewer, more)]
        total = (float((earlier * gains[0]).sum()) + float((later[1:] * gains[1]).sum())) * self._surplus
        return min(1.0, floored(binomial_weight(self.times, start, self.epsilon) * Decimal(total))) if total else 0.0

    def total_up(self, delta: float) -> float:
        """The total epsilon between this kink and the next below, where delta is `P - e^total Q`.

        With `S = e^kink Q` and `P - S` the delta at the kink, `e^(total - kink)` is `1 - (delta - (P - S))/S`, and
        `(P - delta)/S`, of which one does not cancel.
        """
        missing, shifted = delta - self.delta_up(0.0), self._shifted
        if missing * 2 < shifted:
            down = math.log1p(-missing / (shifted * self._surplus))
        else:
            earlier, later = self._weights
            weight = binomial_weight(self.times, self._start, self.epsilon)
            least = float(weight * Decimal((float(earlier.sum()) + float(later[1:].sum())) * self._surplus))
            down = min(0.0, math.log((least - delta) / shifted * self._surplus))
        return max(0.0, self.place + down + MARGIN * abs(down)) + MARGIN * self.place

    @cached_property
    def _start(self) -> int:
        """The largest weight up to `last`."""
        return min(self.last, int(self.times / (1 + math.exp(self.epsilon))))

    @cached_property
    def _weights(self) -> tuple[Floats, Floats]:
        """The weights of `_start`, `_start - 1`, ... and of `_start`, `_start + 1`, ..., `last`, relative to it."""
        start, odds = self._start, math.exp(self.epsilon)
        earlier = falling(lambda place: (start - place) / (self.times - start + place + 1) * odds, start)
        later = falling(lambda place: (self.times - start - place) / (start + place + 1) / odds, self.last - start)
        return earlier, later

    @cached_property
    def _shifted(self) -> float:
        """S, the weights times `e^(-2 eps)` for each step below `last`, rounded down."""
        fall = math.exp(-self.epsilon)
        weights = falling(lambda place: (self.last - place) / (self.times - self.last + place + 1) * fall, self.last)
        total = float(weights.sum()) / surplus(len(weights))
        return float(binomial_weight(self.times, self.last, self.epsilon) * Decimal(total))

    @property
    def _surplus(self) -> float:
        earlier, later = self._weights
        return surplus(len(earlier) + len(later))


def spread(epsilon: float) -> float:
    """The variance `p r` of a coin of randomized response."""
    return 1 / (4 * math.cosh(epsilon / 2) ** 2)


def concentrated_total(epsilon: float, times: int, delta: float) -> float:
    """`k eps^2/2 + eps sqrt(2 k ln(1/delta))`, through zero concentration."""
    return (epsilon * math.sqrt(2 * times * -math.log(delta)) + times * epsilon**2 / 2) * (1 + MARGIN)
