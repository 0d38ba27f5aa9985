"""Counts and sums of clipped values, over all rows or by public keys."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from typing_extensions import Unpack

from chary.answers import NoisyNumber, NoisyNumbers
from chary.data.neighbors import NeighborRelation
from chary.data.predicates.conditions import Compare, Condition, Every, Some
from chary.data.predicates.predicate import Predicate
from chary.data.queries.query import AnsweredT, Contribution, Keyed, Limits, Query, per_unit
from chary.errors import InvalidQuery
from chary.numbers import Number, checked, exact, optional, positive

# Counting privacy units.


@dataclass(frozen=True, kw_only=True)
class Count(Keyed[AnsweredT], Query[AnsweredT]):
    """The number of distinct units with a row satisfying `where` and no row satisfying `without`; built by `count`."""

    without: Predicate | None = None

    def by(self, columns: str | Sequence[str], keys: Iterable[Any], **limits: Unpack[Limits]) -> "Count[NoisyNumbers]":
        """The same query for each of a public list of keys: scalars for one column, tuples for several.

        A column may be a derived one, as `Predicate` has them: `by("month(day)", range(1, 13))`. Its text is canonical.
        Keys without rows answer 0; rows with other keys are ignored. See `Keying` for the two limits,
        `max_groups_per_unit` and `assumed_groups_per_unit`, of which at most one may be given; with neither, one unit
        may be in all keys. `InvalidQuery` for bad keys.
        """
        keyed: Count[NoisyNumbers] = self._keyed(columns, keys, limits)
        return keyed

    @property
    def grid(self) -> Fraction:
        """One unit."""
        return Fraction(1)

    def contribution(self, neighbor_relation: NeighborRelation) -> Contribution:
        """A unit counts 0 or 1 in each of its keys, however many rows it has: cells in [0, 1].

        Whether it counts depends on its own rows alone, also with `without`. Hence sensitivity 1; with c keys a unit,
        L1 c for add/remove and min(2 c, keys) for replace.
        """
        if self.keying is None:
            return Contribution(0, 1)
        return Contribution(0, 1, len(self.keying.domain), self.keying.spread(neighbor_relation.unit))

    def body(self) -> dict[str, Any]:
        """A JSON-able canonical description."""
        without = {} if self.without is None else {"without": self.without.text}
        return {"kind": "count"} | self._common_body() | without

    def describe(self) -> str:
        """Such as `count where age >= 65 by clinic (12 keys)`."""
        return f"count{self._clauses()}" + ("" if self.without is None else f" without {self.without.text}")

    def conditions(self) -> list[Predicate]:
        """For each key, the condition that a row is counted there; what decides by other rows raises `InvalidQuery`.

        >>> [condition.text for condition in count("age >= 65").by("clinic", ["north", "south"]).conditions()]
        ["age >= 65 AND clinic = 'north'", "age >= 65 AND clinic = 'south'"]
        """
        if self.keying is None or self.keying.max_groups_per_unit is not None or self.without is not None:
            raise InvalidQuery(
                'give a count with public keys, without max_groups_per_unit: count().by("clinic", ["a", "b"])'
            )
        first: list[Condition] = [] if self.where is None else _parts(self.where.condition, Every)
        columns = self.keying.domain.columns
        rows = [
            [Compare(name, "=", value) for name, value in zip(columns, key, strict=True)] for key in self.keys or ()
        ]
        return [_joined([*first, *equal], Every) for equal in rows]


def count(where: Predicate | str | None = None, *, without: Predicate | str | None = None) -> Count[NoisyNumber]:
    """Count the units with a row satisfying `where` and no row satisfying `without`; rows, when each row is a unit.

    Rows whose unit is NULL belong to nobody and are ignored. An empty table counts 0.

    >>> count("age >= 65").by("clinic", ["north", "south"]).describe()
    'count where age >= 65 by clinic (2 keys)'
    >>> count("clinic = 'north'", without="clinic = 'south'").describe()
    "count where clinic = 'north' without clinic = 'south'"
    """
    return Count(where=Predicate.of(where), without=Predicate.of(without))


def any_of(predicates: Sequence[Predicate]) -> Predicate | None:
    """True where one of the predicates is; None for no predicates.

    >>> str(any_of([Predicate.parse("age > 9 OR smoker"), Predicate.parse("plan = 'a'")]))
    "age > 9 OR smoker OR plan = 'a'"
    """
    parts = [part for predicate in predicates for part in _parts(predicate.condition, Some)]
    return _joined(parts, Some) if parts else None


def _parts(condition: Condition, kind: type[Every] | type[Some]) -> list[Condition]:
    return list(condition.conditions) if isinstance(condition, kind) else [condition]


def _joined(parts: list[Condition], kind: type[Every] | type[Some]) -> Predicate:
    return Predicate(parts[0] if len(parts) == 1 else kind(tuple(parts)))


# Summing a clipped column on an exact grid.

# Doubles hold every integer up to this one: what is clipped to bounds is not rounded beyond them.
_LARGEST = 2**53
Bounds = tuple[Fraction, Fraction]


@dataclass(frozen=True, kw_only=True)
class Sum(Keyed[AnsweredT], Query[AnsweredT]):
    """The sum of clipped values less `center`, in steps of `grid`; built by `sum`, or by `Mean.parts`.

    `center` is subtracted from each row that has a value; rows without one contribute 0, or have the value `missing`.
    `even`: the rows that `max_rows_per_unit` keeps are an even choice among those of the unit, as those of a `Mean`;
    else the largest.
    """

    column: str
    bounds: Bounds
    grid: Fraction = Fraction(1)
    center: Fraction = Fraction(0)
    max_rows_per_unit: int | None = None
    unit_total: Bounds | None = None
    missing: Fraction | None = None
    even: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.column, str):
            raise InvalidQuery("sum needs the name of a column")
        checked(self, max_rows_per_unit=optional(per_unit))
        _check_grid(self.grid)
        _check_bounds("bounds", self.bounds, self.grid)
        low, high = self.steps
        if any(abs(edge) > _LARGEST for edge in (Fraction(low), Fraction(high), self.center / self.grid)):
            raise InvalidQuery("bounds less the center exceed 2**53 steps of the grid")
        if (self.center / self.grid).denominator != 1:
            raise InvalidQuery("the center must be a multiple of the grid")
        if self.missing is not None:
            _check_missing(self.missing, self.bounds, self.grid)
        if self.unit_total is not None:
            _check_bounds("unit_total", self.unit_total, self.grid)
        if self.max_rows_per_unit is not None and self.unit_total is not None:
            raise InvalidQuery("give max_rows_per_unit or unit_total, not both")
        if self.even and self.max_rows_per_unit is None:
            raise InvalidQuery("even says which rows max_rows_per_unit= keeps: give that as well")

    def by(self, columns: str | Sequence[str], keys: Iterable[Any], **limits: Unpack[Limits]) -> "Sum[NoisyNumbers]":
        """The same query for each of a public list of keys; see `Count.by`."""
        keyed: Sum[NoisyNumbers] = self._keyed(columns, keys, limits)
        return keyed

    @property
    def limits(self) -> str:
        """Which values, rows and groups count, in words."""
        told = limited(self.bounds, self.grid, self.max_rows_per_unit)
        told += "" if self.unit_total is None else f", each unit's sum to {_range(self.unit_total)}"
        return "; ".join(filter(None, (told, super().limits)))

    @property
    def steps(self) -> tuple[int, int]:
        """The smallest and largest contribution of a row with a value, in steps of the grid."""
        low, high = ((edge - self.center) / self.grid for edge in self.bounds)
        return int(low), int(high)

    @property
    def unit_steps(self) -> tuple[int, int] | None:
        """`unit_total` in steps of the grid."""
        return None if self.unit_total is None else (_step(self.unit_total[0], self), _step(self.unit_total[1], self))

    def contribution(self, neighbor_relation: NeighborRelation) -> Contribution:
        """A row is in [low, high] or absent (0); so the cell range is [min(low, 0), max(high, 0)].

        Each row a unit: one such cell. `max_rows_per_unit=k`: at most k such cells in all, in at most k keys, whichever
        rows are kept: that follows from the unit's own rows.
        `unit_total`: its own range, with 0, is the cell of each key.
        """
        self._check_limits(neighbor_relation.unit)
        low, high = self.unit_steps or self.steps
        keys = 1 if self.keying is None else len(self.keying.domain)
        spread = 1 if self.keying is None else self.keying.spread(neighbor_relation.unit)
        return Contribution(
            min(low, 0), max(high, 0), keys, min(spread, self.max_rows_per_unit or spread), self.max_rows_per_unit
        )

    def _check_limits(self, unit: str | None) -> None:
        limited = self.max_rows_per_unit is not None or self.unit_total is not None
        if unit is None and limited:
            raise InvalidQuery(
                "max_rows_per_unit and unit_total are for a privacy unit with many rows; here each row is one"
            )
        if unit is not None and not limited:
            low, high = (written(edge) for edge in self.bounds)
            call = f"sum({self.column!r}, bounds=({low}, {high}), "
            raise InvalidQuery(
                f"one {unit} may have many rows: limit them with {call}max_rows_per_unit=12), or limit the sum of "
                f"each {unit} with {call}unit_total=({low}, {high})). What is beyond is left out, so choose a limit "
                "that few exceed"
            )

    def body(self) -> dict[str, Any]:
        """A JSON-able canonical description; numbers are exact quotients."""
        unit_total = None if self.unit_total is None else [str(edge) for edge in self.unit_total]
        stated: dict[str, Any] = {} if self.missing is None else {"missing": str(self.missing)}
        # A sum with a center is part of a mean, and needs no more words: ledgers have it so.
        stated |= {"even": True} if self.even and not self.center else {}
        return (
            {
                "kind": "total",
                "column": self.column,
                "bounds": [str(edge) for edge in self.bounds],
                "grid": str(self.grid),
                "center": str(self.center),
                "rows_per_unit": self.max_rows_per_unit,
                "unit_total": unit_total,
            }
            | stated
            | self._common_body()
        )

    def describe(self) -> str:
        """Such as `total of cost in [0, 5000] step 1 where age >= 65`."""
        low, high = (written(edge) for edge in self.bounds)
        center = f" less {written(self.center)}" if self.center else ""
        return f"total of {self.column} in [{low}, {high}] step {written(self.grid)}{center}{self._clauses()}"


def sum(
    column: str,
    *,
    bounds: tuple[Number, Number],
    grid: Number = 1,
    where: Predicate | str | None = None,
    max_rows_per_unit: int | None = None,
    unit_total: tuple[Number, Number] | None = None,
) -> Sum[NoisyNumber]:
    """Sum `column` over the rows satisfying `where`, exactly, in steps of `grid`; it may be `"COALESCE(cost, 0)"`.

    Each value is clipped to `bounds` (infinite ones too) and rounded to the grid, halves away from zero; NULL and NaN
    contribute 0. Bounds are multiples of the grid, at most 2**53 steps from 0.

    When the privacy unit is a column, state exactly one limit. `max_rows_per_unit=k` keeps the k rows of each unit with
    the largest absolute contributions (ties: the larger contribution, then the earlier key). What is left out then
    changes the sum least. `unit_total=(lo, hi)` clips the sum of each unit, for each key, to that range. When each row
    is a unit, neither is allowed.

    `InvalidQuery` for bounds off the grid, too wide, or in the wrong order, `InvalidParameter` for non-numbers.

    >>> cost = sum("cost", bounds=(0, 5000), grid="0.01")
    >>> cost.sensitivity(NeighborRelation("add_remove", None)), cost.grid
    (500000, Fraction(1, 100))
    """
    return Sum(
        column=column,
        bounds=read_bounds(bounds, "bounds"),
        grid=positive(grid, "grid"),
        where=Predicate.of(where),
        max_rows_per_unit=max_rows_per_unit,
        unit_total=None if unit_total is None else read_bounds(unit_total, "unit_total"),
    )


# A grid with fewer steps than this between the bounds changes values by more than half a percent of their range.
_COARSE: Final = 100


def coarse(bounds: Bounds, grid: Fraction) -> str:
    """To what values are rounded, in words; empty where that changes little. Whether a column has values off the grid
    is not known, so it is said of integers too."""
    return f"rounded to multiples of {written(grid)}" if bounds[1] - bounds[0] < _COARSE * grid else ""


def limited(bounds: Bounds, grid: Fraction, max_rows_per_unit: int | None) -> str:
    """Which values and rows a sum or a mean counts.

    >>> limited((Fraction(0), Fraction(500)), Fraction(1), 1)
    'values are clipped to 0 to 500, and at most 1 row of each unit counts'
    >>> limited((Fraction(0), Fraction(4)), Fraction(1), None)
    'values are clipped to 0 to 4 and rounded to multiples of 1'
    """
    clipped = " and ".join(filter(None, (f"values are clipped to {_range(bounds)}", coarse(bounds, grid))))
    if max_rows_per_unit is None:
        return clipped
    most = "1 row of each unit counts" if max_rows_per_unit == 1 else f"{max_rows_per_unit} rows of each unit count"
    return f"{clipped}, and at most {most}"


def _range(bounds: Bounds) -> str:
    return " to ".join(written(edge) for edge in bounds)


def read_bounds(bounds: tuple[Number, Number], name: str) -> Bounds:
    """A pair of exact numbers; `InvalidQuery` unless there are two."""
    if not isinstance(bounds, (tuple, list)) or len(bounds) != 2:
        raise InvalidQuery(f"{name} must be a pair of numbers, such as {name}=(0, 100)")
    return exact(bounds[0], name), exact(bounds[1], name)


def written(number: Fraction) -> str:
    """The number as a caller would write it.

    >>> written(Fraction(5000)), written(Fraction(1, 10))
    ('5000', '0.1')
    """
    return str(number) if number.denominator == 1 else repr(float(number))


def _step(edge: Fraction, query: Sum) -> int:
    return int(edge / query.grid)


def _check_grid(grid: Fraction) -> None:
    if grid <= 0 or grid.numerator > _LARGEST or grid.denominator > _LARGEST:
        raise InvalidQuery("grid must be a positive number, or quotient of integers, within 2**53")


def _check_missing(value: Fraction, bounds: Bounds, grid: Fraction) -> None:
    if (value / grid).denominator != 1 or not bounds[0] <= value <= bounds[1]:
        raise InvalidQuery(f"missing must be a multiple of the grid {written(grid)} within the bounds")


def _check_bounds(name: str, bounds: Bounds, grid: Fraction) -> None:
    low, high = bounds
    if not low < high:
        raise InvalidQuery(f"{name} must have the lower number first: got ({written(low)}, {written(high)})")
    for edge in bounds:
        if (edge / grid).denominator != 1:
            raise InvalidQuery(f"{name} must be multiples of the grid {written(grid)}; {written(edge)} is not")
        if abs(edge / grid) > _LARGEST:
            raise InvalidQuery(f"{name} may be at most 2**53 steps of the grid {written(grid)} from 0")
