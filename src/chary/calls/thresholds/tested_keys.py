"""What tests of many keys hand out: a public answer for each key."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from chary.accounting import Publication
from chary.answer import Ends, Key, Table, Value, around, in_row, scalar


@dataclass(frozen=True)
class TestedKeys(Table):
    """Keys tested in the order they were listed.

    `above` maps each key that hit to its noisy value, or to None where no values are published; the first `tested` keys
    were tested, the rest are `untested` because the hits that could be paid for ran out.
    """

    # A module of tests that imports it must not have it collected.
    __test__ = False

    above: Mapping[Key, Value | None]
    tested: int
    error_bar: float | None

    @property
    def value(self) -> Mapping[Any, Value | None]:
        """The keys that hit, with their noisy values; a key of one column is a scalar."""
        return {scalar(key): value for key, value in self.above.items()}

    @property
    def hit(self) -> bool:
        return bool(self.above)

    @property
    def hits(self) -> int:
        """How many keys were found above."""
        return len(self.above)

    @property
    def untested(self) -> tuple[Key, ...]:
        """Keys left when the hits that could be paid for had run out."""
        return self.keys[self.tested :]

    def states(self) -> list[bool | None]:
        """True above, False below, None untested, one for each key."""
        return [self._state(position) for position in range(len(self.keys))]

    def _state(self, position: int) -> bool | None:
        return self.keys[position] in self.above if position < self.tested else None

    def cells(self, position: int) -> dict[str, Any]:
        value = self.above.get(self.keys[position])
        return {"hit": self._state(position), "value": value} | in_row(self.interval_of(value))

    def interval_of(self, value: Value | None) -> Ends | None:
        """What a value of a key that hit says, 95 times in 100, given that it was published; see `Answer.interval`."""
        return around(value, self.error_bar)


@dataclass(frozen=True)
class WatchResult(TestedKeys):
    """What a watch found. Keys appear in the order they were listed.

    `above` maps each key that hit to its noisy value; the first `tested` keys were tested, the rest are `untested`
    because the hits that were paid for ran out.
    """

    above: dict[Key, Value]
    publication: Publication | None = field(default=None, repr=False, compare=False, kw_only=True)

    def interval_of(self, value: Value | None) -> Ends | None:
        if value is None or self.publication is None:
            return super().interval_of(value)
        return self.publication.interval(value)

    @property
    def bar(self) -> float | None:
        """The threshold, where the values that reached it say what they do because of it."""
        told = self.publication
        lowest = None if told is None else told.support.lowest
        return None if told is None or lowest is None else float(lowest * Fraction(told.grid))

    @property
    def value(self) -> dict[Any, Value]:
        """The keys that hit, with their noisy values."""
        return {scalar(key): value for key, value in self.above.items()}
