"""Answers that are free while they are clear: by two draws of a label, or inside the boundary wrapper."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from typing import Any, Final, Generic

import numpy as np

from chary.accounting import Event
from chary.accounting.sharp_tests import SharpTest
from chary.accounting.sharp_widths import clear_depth, draw_table
from chary.calls.call import Bound, CallT
from chary.calls.thresholds.how_sharply import HowSharply, TestedTogether
from chary.calls.thresholds.sharpness import Width, chance_of_each
from chary.core.plan import KEPT, Json, Ran, Touched, Within
from chary.data import Query
from chary.mechanisms import BOUNDARY, BoundaryWrapper
from chary.mechanisms.boundaries import LabelDraws
from chary.numbers import Number, exact

# Labels that no value has make what lies between two bars clearer; more than so many tell no more.
_MOST_PHANTOMS: Final = 32
HALF: Final = Fraction(1, 2)


@lru_cache(maxsize=KEPT)
def clear_by(labels: int) -> Width:
    """How deep a value must lie for its label to be told but for a chance."""
    return partial(clear_depth, labels)


def clear_beyond(test: SharpTest, chance: float) -> float:
    """How far beyond a bar at which it is told half of the time; with more labels it is less."""
    return clear_depth(2, test, chance) - clear_depth(2, test, 0.5)


@dataclass(frozen=True)
class AskClearly(TestedTogether, Bound[HowSharply[Any]]):
    """An answer by two draws; a hit is that they differ, or agree on a label that no value has."""

    raced = True

    query: Query
    draws: LabelDraws
    teller: Callable[[int, int | None], Any] = field(compare=False, repr=False)

    @property
    def event(self) -> Event:
        return self.draws.event()

    @property
    def real(self) -> int:
        """How many labels values have."""
        return self.draws.labels

    @property
    def half(self) -> int:
        """The depth at the bar."""
        return 0

    def queries(self) -> Sequence[Query]:
        return [self.query]

    def run(self, touched: Touched) -> Ran:
        told = self.draws.step(*self.placed(touched), touched.source)
        clear = told is not None and told < self.real
        return Ran({"outcome": told if clear else BOUNDARY}, hits=int(not clear), tests=1)

    def present(self, answer: Json, call: int) -> Any:
        return self.teller(call, None if answer["outcome"] == BOUNDARY else answer["outcome"])

    def within(self, tests: int, confidence: Number) -> Within:
        """How far beyond the bar all of so many values are told clearly and rightly."""
        steps = self.draws.reach(chance_of_each(confidence, tests)) - self.half
        return Within(tests, float(exact(confidence, "confidence")), float(steps * self.query.grid), None)

    @abstractmethod
    def placed(self, touched: Touched) -> tuple[int, int]:
        """The own label of what is read, and its depth."""


@dataclass(frozen=True)
class AskSides(AskClearly):
    """Below `low` or from `high` on, in steps: labels 0 and 1, which meet between these, or at a single bar."""

    low: int
    high: int

    @property
    def real(self) -> int:
        return 2

    @cached_property
    def half(self) -> int:
        """Where a side is told half of the time, or all that there is between the bars."""
        return min(self.draws.reach(HALF), (self.high - self.low + 1) // 2)

    @property
    def bar_step(self) -> Fraction:
        return self.query.grid

    def wrong_call(self, distance: int) -> float:
        """The chance that a value so far beyond a bar is not told clearly and rightly."""
        return float(1 - self.draws.clear_chance(self.half + abs(distance)))

    def placed(self, touched: Touched) -> tuple[int, int]:
        value = touched.integer()
        below, above = self.low - 1 + self.half - value, value - (self.high - self.half)
        return (0, below) if below > 0 else (1, max(0, above))


class AskLargest(AskClearly):
    """The key with the largest answer; its depth is how far the next one is behind."""

    def placed(self, touched: Touched) -> tuple[int, int]:
        values = touched.integers()
        own = int(np.argmax(values))
        return own, int(values[own]) - int(np.delete(values, own).max())


@dataclass(frozen=True)
class Wrapped(Bound[CallT], Generic[CallT]):
    """A mechanism inside the boundary wrapper; a hit is `BOUNDARY`."""

    raced = True

    query: Query

    @property
    @abstractmethod
    def mechanism(self) -> BoundaryWrapper[Any]:
        """The wrapper around the mechanism; refuses noise out of range and calls too large for the wrapper."""

    @cached_property
    def event(self) -> Event:
        return self.mechanism.event()

    def queries(self) -> Sequence[Query]:
        return [self.query]

    def run(self, touched: Touched) -> Ran:
        outcome = self.mechanism.step(self.value(touched), touched.source)
        return Ran({"outcome": outcome}, hits=int(outcome == BOUNDARY), tests=1)

    @abstractmethod
    def value(self, touched: Touched) -> Any:
        """What the mechanism is run on."""


@lru_cache(maxsize=KEPT)
def label_draws(test: SharpTest, labels: int, steps: int) -> LabelDraws:
    """The draws of so many labels at this price, of depths that one unit moves by so many steps."""
    return LabelDraws(draw_table(test, labels, steps), labels)


@lru_cache(maxsize=KEPT)
def draws_between(test: SharpTest, zone: int, steps: int) -> LabelDraws:
    """Those of two sides so many steps apart, with as many labels as fit between the bars."""
    low, high = 1, _MOST_PHANTOMS
    while high - low > 0:
        middle = (low + high + 1) // 2
        fits = 2 * clear_depth(2**middle, test, 0.5) * steps <= zone
        low, high = (middle, high) if fits else (low, middle - 1)
    return label_draws(test, 2**low, steps)
