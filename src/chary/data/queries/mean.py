"""Means: a centred total and a count of values, to be made noisy one by one and put together."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, overload

import numpy as np
import numpy.typing as npt
from typing_extensions import Unpack

from chary.answers import NoisyNumber, NoisyNumbers
from chary.data.domain.keys import Key
from chary.data.neighbouring import Neighbouring, Relation
from chary.data.predicates.predicate import Predicate
from chary.data.queries.contribution import Contribution, per_unit
from chary.data.queries.query import AnsweredT, Keyed, Limits, Query
from chary.data.queries.total import Total, read_bounds, written
from chary.errors import InvalidQuery
from chary.numbers import Number, exact, positive

Counts = int | npt.NDArray[Any]


@dataclass(frozen=True)
class RowCount(Query):
    """The number of rows that a total sums: those with a value, within its `rows_per_unit`; built by `Mean.parts`."""

    of: Total

    @property
    def grid(self) -> Fraction:
        """One row."""
        return Fraction(1)

    @property
    def keys(self) -> tuple[tuple[Key, ...], ...] | None:
        """The keys of the total."""
        return self.of.keys

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of those keys."""
        return self.of.columns

    def contribution(self, neighbouring: Neighbouring) -> Contribution:
        """Each row the total keeps counts 1: the contribution of the total with cells in [0, 1]."""
        return replace(self.of.contribution(neighbouring), low=0, high=1)

    def body(self) -> dict[str, Any]:
        """A JSON-able canonical description: that of the total under another kind."""
        return self.of.body() | {"kind": "row count"}

    def describe(self) -> str:
        """Such as `number of rows in total of cost in [0, 5000] step 1`."""
        return f"number of rows in {self.of.describe()}"


@dataclass(frozen=True, kw_only=True)
class Mean(Keyed[AnsweredT]):
    """The mean of clipped values; built by `mean`. It has no sensitivity of its own: ask for `parts` or `shifted`."""

    column: str
    bounds: tuple[Fraction, Fraction]
    grid: Fraction = Fraction(1)
    rows_per_unit: int | None = None
    missing: Fraction | None = None

    def __post_init__(self) -> None:
        self._total(Fraction(0))

    def by(self, columns: str | Sequence[str], keys: Iterable[Any], **limits: Unpack[Limits]) -> "Mean[NoisyNumbers]":
        """The same query for each of a public list of keys; see `Count.by`."""
        keyed: Mean[NoisyNumbers] = self._keyed(columns, keys, limits)
        return keyed

    @property
    def center(self) -> Fraction:
        """The grid point nearest the middle of the bounds, the lower of two."""
        return -((-2 * self._middle / self.grid + 1) // 2) * self.grid

    def parts(self, neighbouring: Neighbouring) -> tuple[Total, RowCount]:
        """The sum of (value - center) and the number of values, over the same rows; both are queries.

        Centring halves the sensitivity of the sum. `InvalidQuery` when the unit is a column and `rows_per_unit` is
        missing, or the other way round.

        >>> stay = mean("days", bounds=(0, 30)).parts(Neighbouring("add/remove", None))
        >>> [part.sensitivity(Neighbouring("add/remove", None)) for part in stay]
        [15, 1]
        """
        centred = self._total(self.center)
        self._check_limit(neighbouring.unit)
        return centred, RowCount(centred)

    def shifted(self, threshold: Number) -> Total:
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
        return self._total(self.center).body() | {"kind": "mean"}

    def describe(self) -> str:
        """Such as `mean of cost in [0, 5000] step 1`."""
        low, high = (written(edge) for edge in self.bounds)
        stated = "" if self.missing is None else f", {written(self.missing)} where there is none"
        return f"mean of {self.column} in [{low}, {high}] step {written(self.grid)}{stated}{self._clauses()}"

    def of_public_size(self, neighbouring: Neighbouring) -> bool:
        """Whether it is known how many values there are: each row is a unit that may be replaced, and has one."""
        everybody = self.missing is not None and self.where is None and self.keying is None
        return everybody and neighbouring.unit is None and neighbouring.relation is Relation.REPLACE

    @property
    def _middle(self) -> Fraction:
        return (self.bounds[0] + self.bounds[1]) / 2

    def _total(self, center: Fraction) -> Total:
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return Total(center=center, **fields)

    def _check_limit(self, unit: str | None) -> None:
        if unit is not None and self.rows_per_unit is None:
            low, high = (written(edge) for edge in self.bounds)
            call = f"mean({self.column!r}, bounds=({low}, {high}), rows_per_unit=1)"
            raise InvalidQuery(f"one {unit} may have many rows: limit them with {call}")
        if unit is None and self.rows_per_unit is not None:
            raise InvalidQuery("rows_per_unit is for a privacy unit with many rows; here each row is one")


def mean(
    column: str,
    *,
    bounds: tuple[Number, Number],
    grid: Number = 1,
    where: Predicate | str | None = None,
    rows_per_unit: int | None = None,
    missing: Number | None = None,
) -> Mean[NoisyNumber]:
    """The mean of `column`, clipped to `bounds`, over the rows with a value satisfying `where`.

    `missing=v` gives rows without a value this one, a multiple of the grid within the bounds. Where each row is a unit
    that may be replaced, the number of values of all rows is then public and takes no part of the budget.

    Arguments as for `total`. When the privacy unit is a column, `rows_per_unit=k` is needed; it keeps the k rows of
    each unit that lie farthest from the center.

    >>> mean("days", bounds=(0, 30)).combine(-50, 10)
    10.0
    """
    return Mean(
        column=column,
        bounds=read_bounds(bounds, "bounds"),
        grid=positive(grid, "grid"),
        where=Predicate.of(where),
        rows_per_unit=None if rows_per_unit is None else per_unit(rows_per_unit, "rows_per_unit"),
        missing=None if missing is None else exact(missing, "missing"),
    )
