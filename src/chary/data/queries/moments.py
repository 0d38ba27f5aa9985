"""Means of clipped values and second moments of several columns."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final, overload

import numpy as np
import numpy.typing as npt
from typing_extensions import Unpack

from chary.answers import NoisyNumber, NoisyNumbers
from chary.data.neighbors import NeighborRelation
from chary.data.predicates.predicate import Predicate
from chary.data.queries.keys import Key
from chary.data.queries.query import AnsweredT, Contribution, Keyed, Limits, Query, per_unit
from chary.data.queries.sums import Bounds, Sum, limited, read_bounds, written
from chary.errors import InvalidQuery
from chary.numbers import Number, checked, exact, optional, positive, whole

# Means: a centred sum and a count of values, to be made noisy one by one and put together.

Counts = int | npt.NDArray[Any]


@dataclass(frozen=True)
class RowCount(Query):
    """The number of rows that a sum adds up: those with a value, within its `max_rows_per_unit`; built by
    `Mean.parts`."""

    of: Sum

    @property
    def grid(self) -> Fraction:
        """One row."""
        return Fraction(1)

    @property
    def keys(self) -> tuple[tuple[Key, ...], ...] | None:
        """The keys of the sum."""
        return self.of.keys

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of those keys."""
        return self.of.columns

    def contribution(self, neighbor_relation: NeighborRelation) -> Contribution:
        """Each row the sum keeps counts 1: the contribution of the sum with cells in [0, 1]."""
        return replace(self.of.contribution(neighbor_relation), low=0, high=1)

    def body(self) -> dict[str, Any]:
        """A JSON-able canonical description: that of the sum under another kind."""
        return replace(self.of, even=False).body() | {"kind": "row count"}

    def describe(self) -> str:
        """Such as `number of rows in total of cost in [0, 5000] step 1`."""
        return f"number of rows in {self.of.describe()}"


@dataclass(frozen=True, kw_only=True)
class Mean(Keyed[AnsweredT]):
    """The mean of clipped values; built by `mean`. It has no sensitivity of its own: ask for `parts` or `shifted`.

    Of a unit with m rows, more than k = `max_rows_per_unit`, k are kept, and each row is as likely to be kept as any
    other. Its rows are put in order, by group and value, and numbered from 0. Of 2 m starts s one is chosen. The row r
    is kept if a multiple of 2 m lies in (2 k r + s, 2 k (r + 1) + s]. Those are k rows for every start, and each row is
    kept for 2 k of the starts. The start is the first 32 bits of the SHA-256 of the unit's id as a text, modulo 2 m,
    and so the same at every call.

    Guarantee: any number of parts asked together or one by one are of the same rows. The contribution of a unit follows
    from its own rows alone, and is at most k values and k to the count, in at most k groups. *Proof.* The order, m and
    the start follow from the unit's id and rows, and no other unit changes them. So adding or removing a unit adds or
    removes its own contribution, and replacing it does both. Hence the sensitivities that `contribution` says. They do
    not depend on the start: an id that is chosen on purpose changes which rows are kept, and no bound. Nor do they
    depend on when or how rows came, since each answer is a function of the rows that are there.
    """

    column: str
    bounds: tuple[Fraction, Fraction]
    grid: Fraction = Fraction(1)
    max_rows_per_unit: int | None = None
    missing: Fraction | None = None

    def __post_init__(self) -> None:
        self._total(Fraction(0))

    def by(self, columns: str | Sequence[str], keys: Iterable[Any], **limits: Unpack[Limits]) -> "Mean[NoisyNumbers]":
        """The same query for each of a public list of keys; see `Count.by`."""
        keyed: Mean[NoisyNumbers] = self._keyed(columns, keys, limits)
        return keyed

    @property
    def limits(self) -> str:
        """Which values, rows and groups count, in words."""
        return "; ".join(filter(None, (limited(self.bounds, self.grid, self.max_rows_per_unit), super().limits)))

    @property
    def center(self) -> Fraction:
        """The grid point nearest the middle of the bounds, the lower of two."""
        return -((-2 * self._middle / self.grid + 1) // 2) * self.grid

    def parts(self, neighbor_relation: NeighborRelation) -> tuple[Sum, RowCount]:
        """The sum of (value - center) and the number of values, over the same rows; both are queries.

        Centring halves the sensitivity of the sum. `InvalidQuery` when the unit is a column and `max_rows_per_unit` is
        missing, or the other way round.

        >>> stay = mean("days", bounds=(0, 30)).parts(NeighborRelation("add_remove", None))
        >>> [part.sensitivity(NeighborRelation("add_remove", None)) for part in stay]
        [15, 1]
        """
        centred = self._total(self.center)
        self._check_limit(neighbor_relation.unit)
        return centred, RowCount(centred)

    def shifted(self, threshold: Number) -> Sum:
        """The sum of (value - threshold): at least 0 exactly when the mean is at least `threshold`.

        The threshold must be a multiple of the grid, else `InvalidQuery`.

        >>> mean("days", bounds=(0, 30)).shifted(10).steps
        (-10, 20)
        """
        center = exact(threshold, "threshold")
        if (center / self.grid).denominator != 1:
            raise InvalidQuery(f"threshold must be a multiple of the grid {written(self.grid)}, got {written(center)}")
        return self._total(center)

    @overload
    def combine(self, noisy_sum: int, noisy_count: int) -> float: ...

    @overload
    def combine(self, noisy_sum: npt.NDArray[Any], noisy_count: npt.NDArray[Any]) -> npt.NDArray[np.float64]: ...

    def combine(self, noisy_sum: Counts, noisy_count: Counts) -> float | npt.NDArray[np.float64]:
        """The mean from the two noisy parts: a float for integers, an array for arrays.

        The result is clipped to the bounds; a count of 0 or less gives the middle of the bounds.
        """
        sums, counts = np.asarray(noisy_sum, dtype=float), np.asarray(noisy_count, dtype=float)
        usable = counts > 0
        means = float(self.center) + float(self.grid) * sums / np.where(usable, counts, 1)
        clipped = np.where(usable, np.clip(means, float(self.bounds[0]), float(self.bounds[1])), float(self._middle))
        return clipped if clipped.ndim else float(clipped)

    def body(self) -> dict[str, Any]:
        """A JSON-able canonical description."""
        return replace(self._total(self.center), even=False).body() | {"kind": "mean"}

    def describe(self) -> str:
        """Such as `mean of cost in [0, 5000] step 1`."""
        low, high = (written(edge) for edge in self.bounds)
        stated = "" if self.missing is None else f", {written(self.missing)} where there is none"
        return f"mean of {self.column} in [{low}, {high}] step {written(self.grid)}{stated}{self._clauses()}"

    def of_public_size(self, neighbor_relation: NeighborRelation) -> bool:
        """Whether it is known how many values there are: each row is a unit that may be replaced, and has one."""
        everybody = self.missing is not None and self.where is None and self.keying is None
        return everybody and neighbor_relation.unit is None and neighbor_relation.public_units

    @property
    def _middle(self) -> Fraction:
        return (self.bounds[0] + self.bounds[1]) / 2

    def _total(self, center: Fraction) -> Sum:
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return Sum(center=center, even=self.max_rows_per_unit is not None, **fields)

    def _check_limit(self, unit: str | None) -> None:
        if unit is not None and self.max_rows_per_unit is None:
            low, high = (written(edge) for edge in self.bounds)
            call = f"mean({self.column!r}, bounds=({low}, {high}), max_rows_per_unit=12)"
            raise InvalidQuery(
                f"one {unit} may have many rows: limit them with {call}; the mean is of the kept rows alone, "
                "so choose a limit that few exceed"
            )
        if unit is None and self.max_rows_per_unit is not None:
            raise InvalidQuery("max_rows_per_unit is for a privacy unit with many rows; here each row is one")


def mean(
    column: str,
    *,
    bounds: tuple[Number, Number],
    grid: Number = 1,
    where: Predicate | str | None = None,
    max_rows_per_unit: int | None = None,
    missing: Number | None = None,
) -> Mean[NoisyNumber]:
    """The mean of `column`, clipped to `bounds`, over the rows with a value satisfying `where`.

    `missing=v` gives rows without a value this one, a multiple of the grid within the bounds. Where each row is a unit
    that may be replaced, the number of values of all rows is then public and takes no part of the budget.

    Arguments as for `sum`. When the privacy unit is a column, `max_rows_per_unit=k` is needed; of a unit with more rows
    it keeps k, each of them as likely as any other: see `Mean`.

    >>> mean("days", bounds=(0, 30)).combine(-50, 10)
    10.0
    """
    return Mean(
        column=column,
        bounds=read_bounds(bounds, "bounds"),
        grid=positive(grid, "grid"),
        where=Predicate.of(where),
        max_rows_per_unit=None if max_rows_per_unit is None else per_unit(max_rows_per_unit, "max_rows_per_unit"),
        missing=None if missing is None else exact(missing, "missing"),
    )


# Sums of products of columns: how many rows, the sum of each column, and of each pair of them, on an exact grid.

MOST_COLUMNS: Final = 32
# Products of two contributions are 2**24 at most, so that sums over fewer than 2**39 rows fit into 64 bits.
MOST_STEPS: Final = 2**12
# Doubles hold the middle and the half of such bounds well, and no value divided by that half is no number.
_LARGEST: Final = 2**53


@dataclass(frozen=True, kw_only=True)
class SecondMoments(Query[NoisyNumbers]):
    """Of the rows' contributions s = (s_1, ..., s_d): their number, their sum, and the sums of s_i s_j for i <= j.

    A value is clipped to the bounds of its column, which become -steps and steps, and rounded to an integer. A row
    longer than `longest` steps (in L2) is shortened to that, towards zero. Rows with a NULL contribute nothing. Of each
    unit at most `max_rows_per_unit` rows count, chosen evenly as for a `Mean`, in the order of the contributions. Built
    by `second_moments`.
    """

    bounds: tuple[tuple[str, Bounds], ...]
    steps: int
    longest: Fraction | None = None
    where: Predicate | None = None
    max_rows_per_unit: int | None = None

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
        checked(self, max_rows_per_unit=optional(per_unit))

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

    def matrix(self, sums: Sequence[int]) -> npt.NDArray[np.float64]:
        """The answers, in the order of the keys, as the symmetric matrix of sums of products of (1, s_1, ..., s_d).

        >>> second_moments({"age": (0, 90)}, steps=10).matrix([3, 5, 100]).tolist()
        [[3.0, 5.0], [5.0, 100.0]]
        """
        lines = len(self.bounds) + 1
        upper = np.zeros((lines, lines))
        upper[np.triu_indices(lines)] = np.array(sums, dtype=float)
        return upper + np.triu(upper, 1).T

    def contribution(self, neighbor_relation: NeighborRelation) -> Contribution:
        """A row adds products of at most `steps` squared to every key, so a unit its rows times that.

        `MomentNoise` knows more: the length of all changes together.
        """
        if neighbor_relation.unit is None and self.max_rows_per_unit is not None:
            raise InvalidQuery("max_rows_per_unit is for a privacy unit with many rows; here each row is one")
        if neighbor_relation.unit is not None and self.max_rows_per_unit is None:
            raise InvalidQuery(f"one {neighbor_relation.unit} may have many rows: limit them with max_rows_per_unit=1")
        most, keys = min(self.squared, self.steps**2), len(self.keys)
        return Contribution(-most * (self.max_rows_per_unit or 1), most * (self.max_rows_per_unit or 1), keys, keys)

    def body(self) -> dict[str, Any]:
        return {
            "kind": "second moments",
            "bounds": {name: [str(edge) for edge in edges] for name, edges in self.bounds},
            "steps": self.steps,
            "longest": None if self.longest is None else str(self.longest),
            "where": None if self.where is None else self.where.text,
            "rows_per_unit": self.max_rows_per_unit,
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
    max_rows_per_unit: int | None = None,
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
        max_rows_per_unit=max_rows_per_unit,
    )
