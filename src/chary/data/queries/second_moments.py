"""Sums of products of columns: how many rows, the sum of each column, and of each pair of them, on an exact grid."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from chary.answers import NoisyNumbers
from chary.data.neighbouring import Neighbouring
from chary.data.predicates.predicate import Predicate
from chary.data.queries.contribution import Contribution, per_unit
from chary.data.queries.query import Query
from chary.data.queries.total import Bounds, read_bounds, written
from chary.errors import InvalidQuery
from chary.numbers import Number, positive, whole

MOST_COLUMNS: Final = 32
# Products of two contributions are 2**24 at most, so that sums over fewer than 2**39 rows fit into 64 bits.
MOST_STEPS: Final = 2**12
# Doubles hold the middle and the half of such bounds well, and no value divided by that half is no number.
_LARGEST: Final = 2**53


@dataclass(frozen=True, kw_only=True)
class SecondMoments(Query[NoisyNumbers]):
    """Of the rows' contributions s = (s_1, ..., s_d): their number, their sum, and the sums of s_i s_j for i <= j.

    A value is clipped to the bounds of its column, which become -steps and steps, and rounded to a whole number. A row
    longer than `longest` steps (in L2) is shortened to that, towards zero. Rows with a NULL contribute nothing. Of each
    unit the first `rows_per_unit` rows count, in the order of the contributions. Built by `second_moments`.
    """

    bounds: tuple[tuple[str, Bounds], ...]
    steps: int
    longest: Fraction | None = None
    where: Predicate | None = None
    rows_per_unit: int | None = None

    def __post_init__(self) -> None:
        if not 1 <= len(self.bounds) <= MOST_COLUMNS:
            raise InvalidQuery(f"name 1 to {MOST_COLUMNS} columns and their bounds")
        for name, (low, high) in self.bounds:
            if not isinstance(name, str) or not low < high:
                raise InvalidQuery("each column has bounds with the lower number first, such as {'age': (0, 90)}")
            if max(-low, high) > _LARGEST or high - low < 1 / Fraction(_LARGEST):
                raise InvalidQuery("bounds may be at most 2**53 from 0, and at least 2**-53 from each other")
        if whole(self.steps, "steps") > MOST_STEPS:
            raise InvalidQuery("steps may be at most 4096")
        if self.squared < 1:
            raise InvalidQuery("the longest row must be a step long at least")
        if self.rows_per_unit is not None:
            object.__setattr__(self, "rows_per_unit", per_unit(self.rows_per_unit, "rows_per_unit"))

    @property
    def grid(self) -> Fraction:
        """One: the answers are in steps and products of steps."""
        return Fraction(1)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns."""
        return tuple(name for name, _ in self.bounds)

    @property
    def columns(self) -> tuple[str, ...]:
        """A key is a pair of columns, None for no column."""
        return ("first", "second")

    @property
    def keys(self) -> tuple[tuple[Any, ...], ...]:
        """(None, None), (None, column) for the sums, (column, column) for the sums of products."""
        names = self.names
        pairs = [(one, other) for k, one in enumerate(names) for other in names[k:]]
        return ((None, None), *((None, name) for name in names), *pairs)

    @property
    def squared(self) -> int:
        """The largest squared length of a row, in steps."""
        box = len(self.bounds) * self.steps**2
        return box if self.longest is None else min(box, math.floor((self.longest * self.steps) ** 2))

    @property
    def most(self) -> int:
        """The largest sum of the absolute contributions of a row."""
        return min(len(self.bounds) * self.steps, math.isqrt(len(self.bounds) * self.squared))

    def contribution(self, neighbouring: Neighbouring) -> Contribution:
        """A row adds products of at most `steps` squared to every key, so a unit its rows times that.

        `MomentNoise` knows more: the length of all changes together.
        """
        if neighbouring.unit is None and self.rows_per_unit is not None:
            raise InvalidQuery("rows_per_unit is for a privacy unit with many rows; here each row is one")
        if neighbouring.unit is not None and self.rows_per_unit is None:
            raise InvalidQuery(f"one {neighbouring.unit} may have many rows: limit them with rows_per_unit=1")
        most, keys = min(self.squared, self.steps**2), len(self.keys)
        return Contribution(-most * (self.rows_per_unit or 1), most * (self.rows_per_unit or 1), keys, keys)

    def body(self) -> dict[str, Any]:
        return {
            "kind": "second moments",
            "bounds": {name: [str(edge) for edge in edges] for name, edges in self.bounds},
            "steps": self.steps,
            "longest": None if self.longest is None else str(self.longest),
            "where": None if self.where is None else self.where.text,
            "rows_per_unit": self.rows_per_unit,
        }

    def describe(self) -> str:
        """Such as `second moments of age in [0, 90], cost in [0, 5000]`."""
        told = [f"{name} in [{written(low)}, {written(high)}]" for name, (low, high) in self.bounds]
        where = "" if self.where is None else f" where {self.where.text}"
        return f"second moments of {', '.join(told)}{where}"


def second_moments(
    bounds: Mapping[str, tuple[Number, Number]],
    *,
    steps: int = 1000,
    longest: Number | None = None,
    where: Predicate | str | None = None,
    rows_per_unit: int | None = None,
) -> SecondMoments:
    """The sums of products of columns with these bounds, whose halves count as one.

    >>> asked = second_moments({"age": (0, 90), "cost": (0, 5000)}, steps=10)
    >>> asked.squared, asked.most, len(asked.keys)
    (200, 20, 6)
    """
    if not isinstance(bounds, Mapping):
        raise InvalidQuery("name columns and their bounds, such as {'age': (0, 90)}")
    return SecondMoments(
        bounds=tuple((name, read_bounds(edges, "bounds")) for name, edges in bounds.items()),
        steps=steps,
        longest=None if longest is None else positive(longest, "longest"),
        where=Predicate.of(where),
        rows_per_unit=rows_per_unit,
    )
