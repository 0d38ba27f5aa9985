"""Guards of quantiles: values certainly at or below, and at or above, the quantiles between them."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

from chary import noise
from chary.accounting import Pure
from chary.accounting.accuracy import halvings
from chary.mechanisms.numbers.order_statistics import HalvedQuantiles, Order, RankDistance
from chary.numbers import Number, positive, probability


class Guarded(NamedTuple):
    """The chosen grid places, ascending, and for each a place below and one above."""

    places: list[int]
    low: list[int]
    high: list[int]


@dataclass(frozen=True)
class GuardedQuantiles:
    """Quantiles with an interval for each, by three halvings of a third of epsilon: answers, upper and lower guards.

    An upper guard is the quantile of the values and `p` more on the highest place. It is chosen with rank error at most
    R but for a chance beta, so `a - (1-q)n <= R - qp` for the number a of values above it; with `qp > R` that is
    negative, and the guard is at or above every q-quantile. Nothing needs to be known of n. Lower guards are upper ones
    of the mirrored values. In a halving every choice keeps its promise within its own part, and values up to a guard go
    to the guards below it, so that promises for parts are promises for all (docs/quantiles.md, "Intervals").

    Guarantee: `Pure(epsilon)`, three times that of `HalvedQuantiles` with epsilon/3; `p` is public. But for a chance
    `beta` every q-quantile lies between its guards, for all q together, whatever the values are, if there are any.

    >>> import numpy as np
    >>> made = GuardedQuantiles(("0.5",), epsilon=1, replace=False, beta="0.05")
    >>> made.step(Order(np.arange(1000), np.full(1000, 10), 1001), noise.Seeded(1))
    Guarded(places=[499], low=[495], high=[503])
    >>> made.reaches(1001)
    [65]
    """

    at: tuple[Number, ...]
    epsilon: Number
    replace: bool
    beta: Number
    moves: int = 1
    flip: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "beta", probability(self.beta, "beta"))
        self.answers  # noqa: B018 - refuses what are no quantiles

    @property
    def rounds(self) -> int:
        """How many choices any one value takes part in."""
        return 3 * self.answers.rounds

    @cached_property
    def answers(self) -> HalvedQuantiles:
        """The quantiles themselves."""
        return HalvedQuantiles(self.at, self._third, self.replace, self.moves, flip=self.flip)

    @cached_property
    def upper(self) -> HalvedQuantiles:
        """The guards above."""
        return HalvedQuantiles(self.at, self._third, self.replace, self.moves, self._side, self.flip)

    @cached_property
    def lower(self) -> HalvedQuantiles:
        """The guards below, of mirrored values."""
        mirrored = tuple(1 - Fraction(q) for q in reversed(self.answers.at))
        return HalvedQuantiles(mirrored, self._third, self.replace, self.moves, self._side, self.flip)

    def event(self) -> Pure:
        """What all of them together may reveal."""
        return Pure(self.epsilon)

    def step(self, order: Order, source: noise.Source) -> Guarded:
        """The chosen places; one that came out beyond its guard is itself the end."""
        found = self.answers.step(order, source)
        high = self.upper.step(order, source)
        mirrored = self.lower.step(order.mirrored(), source)
        low = [order.points - 1 - place for place in reversed(mirrored)]
        ends = list(zip(found, low, high, strict=True))
        return Guarded(found, [min(it, under) for it, under, _ in ends], [max(it, over) for it, _, over in ends])

    def reaches(self, points: int) -> list[int]:
        """For each quantile, by how many ranks its guards are farther off at most, but for the same chance.

        Values on one dithered place count as one, as they do for `rank_errors_up`.
        """
        above, below = _reaches(self.upper, points), _reaches(self.lower, points)
        return [max(pair) for pair in zip(above, reversed(below), strict=True)]

    @property
    def _third(self) -> Fraction:
        return positive(self.epsilon, "epsilon") / 3

    @property
    def _side(self) -> Fraction:
        return Fraction(self.beta) / 2


def _reaches(guards: HalvedQuantiles, points: int) -> list[int]:
    """A guard's rank is off by the share q of its margin and by as much again as its own error, and by its parent's."""
    quantiles, places = [Fraction(q) for q in guards.at], guards.grid(points)
    share = Fraction(guards.epsilon) / guards.rounds
    if guards.moves > 1 or len(quantiles) == 1:
        distances = [RankDistance(q, guards.replace, guards.moves) for q in quantiles]
        return [_reach(guards, distance, share, places) for distance in distances]
    found = [0] * len(quantiles)
    for choice in halvings(quantiles):
        parent = 0 if choice.parent is None else found[choice.parent]
        found[choice.position] = parent + _reach(guards, *guards.choice(choice, share), places)
    return found


def _reach(guards: HalvedQuantiles, distance: RankDistance, share: Fraction, places: int) -> int:
    return int(2 * Fraction(distance.q) * guards.margin(distance, share, places)) + 1
