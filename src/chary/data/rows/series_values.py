"""What a series is asked: its values from one public position to another, or one of them."""

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from chary.answers import NoisyNumber, NoisyNumbers
from chary.data.neighbouring import Neighbouring, Relation
from chary.data.queries.contribution import Contribution
from chary.data.queries.query import AnsweredT, Query
from chary.errors import InvalidQuery
from chary.numbers import whole


class OfSeries(Query[AnsweredT]):
    """What all queries of a series share: neighbours are series whose every value may differ by `step`."""

    step: int

    @property
    def grid(self) -> Fraction:
        """One."""
        return Fraction(1)

    def contribution(self, neighbouring: Neighbouring) -> Contribution:
        """A bounded change is no contribution of a unit: `InvalidQuery`; see `sensitivity`, `reach` and `l1`."""
        raise InvalidQuery("a series of counts has no privacy unit; its neighbours differ by a bounded change")

    def known_range(self, neighbouring: Neighbouring) -> tuple[None, None]:
        """Nothing is said of the values."""
        return None, None

    def sensitivity(self, neighbouring: Neighbouring) -> int:
        """`step`, which is what the relation says of one value."""
        _check_relation(neighbouring)
        return self.step

    def reach(self, neighbouring: Neighbouring) -> int:
        """Every value may change at once."""
        _check_relation(neighbouring)
        return len(self.keys or ((),))

    def l1(self, neighbouring: Neighbouring) -> int:
        """`step` for each of the values."""
        return self.sensitivity(neighbouring) * self.reach(neighbouring)

    def one_direction(self, neighbouring: Neighbouring) -> bool:
        """Each value may rise or fall."""
        return self.reach(neighbouring) == 1

    def together(self, neighbouring: Neighbouring) -> int:
        """`step` for each of the values."""
        return self.l1(neighbouring)


@dataclass(frozen=True)
class Values(OfSeries[NoisyNumbers]):
    """The values of a series before position `length`, from `start` on; built by `Series.series`, and parts by `since`.

    >>> last = Values(731, 1).since(700)
    >>> last.keys[0], len(last.keys), last.at(710).describe()
    ((700,), 31, 'value 710 of a series, within 1')
    """

    length: int
    step: int
    start: int = 0

    def __post_init__(self) -> None:
        if self.start and not 0 < self.start < self.length:
            raise InvalidQuery(f"a series of {self.length} values has none at position {self.start}")

    @property
    def keys(self) -> tuple[tuple[int], ...]:
        """The positions, from 0 on where nothing is left out."""
        return tuple((position,) for position in range(self.start, self.length))

    def since(self, day: int) -> "Values":
        """Those from this position on; `InvalidQuery` where there are none (yet)."""
        return replace(self, start=whole(day, "day", least=self.start))

    def at(self, day: int) -> "ValueAt":
        """The one at this position."""
        if whole(day, "day", least=self.start) >= self.length:
            raise InvalidQuery(f"a series of {self.length} values has none at position {day}")
        return ValueAt(day, self.step)

    def body(self) -> dict[str, Any]:
        """A JSON-able canonical description."""
        started = {"start": self.start} if self.start else {}
        return {"kind": "series", "length": self.length, "step": self.step} | started

    def describe(self) -> str:
        """Such as `series of 731 values, each within 1`."""
        since = f", from {self.start} on" if self.start else ""
        return f"series of {self.length} values{since}, each within {self.step}"


@dataclass(frozen=True)
class ValueAt(OfSeries[NoisyNumber]):
    """One value of a series, at a public position; built by `Values.at`."""

    position: int
    step: int

    def __post_init__(self) -> None:
        if self.position < 0:
            raise InvalidQuery("positions of a series begin with 0")

    @property
    def keys(self) -> None:
        """One value has none."""
        return None

    @property
    def length(self) -> int:
        """How many values there must be."""
        return self.position + 1

    def body(self) -> dict[str, Any]:
        """A JSON-able canonical description."""
        return {"kind": "series_value", "position": self.position, "step": self.step}

    def describe(self) -> str:
        """Such as `value 710 of a series, within 1`."""
        return f"value {self.position} of a series, within {self.step}"


def _check_relation(neighbouring: Neighbouring) -> None:
    if neighbouring.relation is not Relation.BOUNDED_CHANGE:
        raise InvalidQuery("a series of counts needs Neighbouring('bounded change', None)")
