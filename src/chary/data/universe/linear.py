"""Linear queries: weights from 0 to 1 for the cells of a universe, summed or averaged over rows."""

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chary.data.columns import Schema
from chary.data.predicates import terms
from chary.data.predicates.predicate import Predicate
from chary.data.queries.statistic import Statistic
from chary.data.queries.sums import count
from chary.data.universe import axes, regions
from chary.errors import InvalidQuery
from chary.numbers import Number, exact

Integers = NDArray[np.int64]
# A row counts for at most this many steps: sums of 2**33 rows stay below 2**53, where doubles are exact.
MOST_STEPS: Final = 2**20
# Weights of the cells of the columns that a query names: 8 MB.
MOST_TABLE: Final = 10**6
MOST_CASES: Final = 1000


@dataclass(frozen=True, eq=False)
class CellWeights:
    """A weight for each cell of some columns of a universe, in whole steps of `1/grid`; the missing cells included.

    A row's weight is that of its cell. So replacing a row moves the sum over the rows by `grid` steps at most, which is
    one row: the bound that a count has.
    """

    places: tuple[int, ...]
    steps: Integers
    grid: int

    @classmethod
    def of(cls, places: tuple[int, ...], table: NDArray[Any]) -> Self:
        """From exact weights; `InvalidQuery` for one outside of [0, 1] and without a common step of 2**-20 or more."""
        numbers, inverse = np.unique(table.ravel(), return_inverse=True)
        if not all(0 <= number <= 1 for number in numbers):
            raise InvalidQuery("weights of a linear query lie from 0 to 1")
        grid = math.lcm(*(number.denominator for number in numbers))
        if grid > MOST_STEPS:
            raise InvalidQuery("weights need a common denominator of at most 2**20: give rounder bounds or weights")
        steps = np.array([int(number * grid) for number in numbers], np.int64)
        return cls(places, steps[inverse].reshape(table.shape), grid)

    def laid_out(self, universe: axes.Universe) -> Integers:
        """The steps of every cell of the universe, the last column changing fastest."""
        there = self.steps[tuple(slice(universe.shape[place]) for place in self.places)]
        along = [cells if place in self.places else 1 for place, cells in enumerate(universe.shape)]
        return np.broadcast_to(there.reshape(along), universe.shape).reshape(-1)


class Linear(ABC):
    """A linear query of [GROW] section 2: every cell of a universe has a public weight from 0 to 1, and the answer is
    the average weight of the rows. A condition is the special case of the weights 0 and 1.

    Built by `average` and `weighted`. Frozen and hashable; equal queries, and only they, have the same `text`.
    """

    @abstractmethod
    def body(self) -> dict[str, Any]:
        """A JSON-able description."""

    @abstractmethod
    def weights(self, universe: axes.Universe, schema: Schema) -> CellWeights:
        """What each cell weighs; `InvalidQuery` where the universe cannot tell."""

    @cached_property
    def text(self) -> str:
        """Canonical JSON, which no condition is."""
        return json.dumps(self.body(), sort_keys=True)


@dataclass(frozen=True)
class CaseWeights(Linear):
    """The weight of the first condition that holds; 0 where none does. Built by `weighted`."""

    cases: tuple[tuple[Predicate, Fraction], ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.cases) <= MOST_CASES:
            raise InvalidQuery(f"give 1 to {MOST_CASES:,} conditions with their weights")

    def body(self) -> dict[str, Any]:
        return {"weighted": [[case.text, str(weight)] for case, weight in self.cases]}

    def weights(self, universe: axes.Universe, schema: Schema) -> CellWeights:
        part, places = _part(universe, {name for case, _ in self.cases for name in terms.names(case.condition)})
        shape = tuple(axis.declared + 1 for _, axis in part.columns)
        table = np.full(part.cells, Fraction(0), dtype=object)
        for case, weight in reversed(self.cases):
            table[regions.located(part, schema, case)[0].flags()] = weight
        return CellWeights.of(places, table.reshape(shape))


@dataclass(frozen=True)
class ColumnAverage(Linear):
    """The values of a column, clipped to bounds and scaled to [0, 1]. Built by `average`."""

    column: str
    bounds: tuple[Fraction, Fraction]
    where: Predicate | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.column, str) or not self.bounds[0] < self.bounds[1]:
            raise InvalidQuery('average a column between two bounds: average("age", bounds=(0, 120))')

    def body(self) -> dict[str, Any]:
        where = {} if self.where is None else {"where": self.where.text}
        return {"average": self.column, "bounds": [str(edge) for edge in self.bounds]} | where

    def weights(self, universe: axes.Universe, schema: Schema) -> CellWeights:
        condition = set() if self.where is None else set(terms.names(self.where.condition))
        part, places = _part(universe, {self.column} | condition)
        axis = part.columns[part.place(self.column)][1]
        scaled = np.array([*(self._scaled(value) for value in axis.middles()), Fraction(0)], dtype=object)
        shape = tuple(axis.declared + 1 for _, axis in part.columns)
        along = [-1 if name == self.column else 1 for name, _ in part.columns]
        table = np.broadcast_to(scaled.reshape(along), shape).copy()
        if self.where is not None:
            table[~regions.located(part, schema, self.where)[0].flags().reshape(shape)] = Fraction(0)
        return CellWeights.of(places, table)

    def in_units(self, share: float) -> float:
        """What an answer is as an average over all rows in the column's own units, where every row counts.

        >>> average("age", bounds=(20, 80)).in_units(0.5)
        50.0
        """
        low, high = self.bounds
        return float(low) + share * float(high - low)

    def _scaled(self, value: Fraction) -> Fraction:
        low, high = self.bounds
        return (min(high, max(low, value)) - low) / (high - low)


def average(column: str, *, bounds: tuple[Number, Number], where: Predicate | str | None = None) -> ColumnAverage:
    """The average of a column over all rows, scaled: `lo` counts 0 and `hi` counts 1.

    Values are those of the universe's cells: the value itself for categories of integers or Booleans, the middle of its
    bin for `Bins`. They are clipped to `bounds`. Rows without a declared value, and those that do not satisfy `where`,
    count 0. With bounds (0, hi) the answer times hi and the number of rows is the sum of the column.

    Errors: `InvalidQuery`, also when it is asked, for a column of strings.

    >>> average("age", bounds=(0, 90), where="sex = 'f'").text
    '{"average": "age", "bounds": ["0", "90"], "where": "sex = \\'f\\'"}'
    """
    if not isinstance(bounds, (tuple, list)) or len(bounds) != 2:
        raise InvalidQuery("bounds must be a pair of numbers, such as bounds=(0, 120)")
    low, high = (exact(edge, "bounds") for edge in bounds)
    return ColumnAverage(column, (low, high), Predicate.of(where))


def weighted(cases: Mapping[str, Number] | Sequence[tuple[Predicate | str, Number]]) -> CaseWeights:
    """Any weights from 0 to 1 on the cells of a universe: conditions with weights, of which the first that holds is it.

    Rows that satisfy none of them count 0.

    >>> weighted({"age < 30": "0.2", "smoker": 1}).text
    '{"weighted": [["age < 30", "1/5"], ["smoker", "1"]]}'
    """
    given = list(cases.items() if isinstance(cases, Mapping) else cases)
    if not all(isinstance(case, (tuple, list)) and len(case) == 2 for case in given):
        raise InvalidQuery('give conditions with their weights: weighted({"age < 30": "0.2", "smoker": 1})')
    read = [(Predicate.of(case), exact(weight, "a weight")) for case, weight in given]
    if not all(0 <= weight <= 1 for _, weight in read):
        raise InvalidQuery("weights of a linear query lie from 0 to 1")
    return CaseWeights(tuple((case, weight) for case, weight in read if case is not None))


def by_cells(asked: Statistic, universe: axes.Universe, schema: Schema) -> CaseWeights:
    """The linear query of which each row weighs what a statistic makes of that row alone, from 0 to 1.

    Its function is given tables of one row each, made of the public values of the columns that it names. It gets none
    of the data, so nothing needs to be asserted. Rows without declared values weigh 0.

    Errors: `InvalidQuery` without `columns=`, for bins, for more than 1,000 cells of its columns, and for weights that
    are none; `AlgorithmFailed` where the function raises.
    """
    named = () if asked.columns_read is None else asked.columns_read
    axes_of = {name: universe.columns[universe.place(name)][1] for name in named}
    values = [axis.values for axis in axes_of.values() if isinstance(axis, axes.Categories)]
    if not named or len(values) < len(named) or math.prod(map(len, values)) > MOST_CASES:
        raise InvalidQuery(
            f"a histogram asks a statistic about each cell of its columns=[...], which are {MOST_CASES:,} at most and "
            "of declared values, not bins"
        )
    keys = list(product(*values))
    rows = [pa.table({name: [value] for name, value in zip(named, key, strict=True)}) for key in keys]
    weights = [asked.of_rows(row) * asked.grid for row in rows]
    where = count().by(list(named), keys).conditions()
    return weighted([(case, weight) for case, weight in zip(where, weights, strict=True) if weight] or [(where[0], 0)])


def linear_of(text: str) -> Linear | None:
    """The linear query of this text; None for the text of a condition."""
    if not text.startswith("{"):
        return None
    try:
        given = json.loads(text)
        if "weighted" in given:
            return weighted([(case, weight) for case, weight in given["weighted"]])
        return average(given.pop("average"), **given)
    except (ValueError, TypeError, KeyError):
        raise InvalidQuery("this is no text of a linear query: see average and weighted") from None


def _part(universe: axes.Universe, names: set[str]) -> tuple[axes.Universe, tuple[int, ...]]:
    """The columns that a query names, with their missing cells, and which ones they are."""
    places = tuple(sorted(universe.place(name) for name in names))
    part = axes.Universe(dict(universe.columns[place] for place in places))
    if part.cells > MOST_TABLE:
        raise InvalidQuery(f"a linear query may name columns of {MOST_TABLE:,} cells together at most")
    return part, places
