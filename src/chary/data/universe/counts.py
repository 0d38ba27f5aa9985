"""Rows of a dataset by the cells of a universe: exact counts of cells, and exact sums of linear queries."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from chary.data.columns import Schema, TypeClass, classify
from chary.data.predicates import terms
from chary.data.predicates.predicate import Predicate
from chary.data.rows import Reading, Rows
from chary.data.universe import axes, regions
from chary.data.universe.linear import MOST_STEPS, CellWeights, Linear
from chary.errors import EngineError, InvalidQuery, quietly

# In which cell of each column of a universe the rows lie.


@dataclass(frozen=True, eq=False)
class CellRows:
    """For each column of a universe, the cell of each row; secret."""

    codes: tuple[NDArray[np.intp], ...]
    size: int

    @classmethod
    def of(cls, table: pa.Table, universe: axes.Universe, schema: Schema) -> "CellRows":
        """Where the rows of a table lie."""
        codes = [_codes(axis, classify(schema, name), table.column(name)) for name, axis in universe.columns]
        return cls(tuple(codes), table.num_rows)

    def __repr__(self) -> str:
        return "CellRows(<secret>)"


def _codes(axis: axes.Axis, kind: TypeClass, column: pa.ChunkedArray) -> NDArray[np.intp]:
    """The cell of each value; the one after all declared ones for NULL and what is not declared."""
    if isinstance(axis, axes.Bins):
        return _binned(axis, kind, column)
    assert isinstance(axis, axes.Categories)
    values = pa.array(axis.values, pa.type_for_alias(kind))
    found = pc.index_in(column.cast(values.type), value_set=values).fill_null(axis.declared)
    return np.asarray(found.to_numpy(), np.intp)


def _binned(axis: axes.Bins, kind: TypeClass, column: pa.ChunkedArray) -> NDArray[np.intp]:
    numbers = column.fill_null(0).to_numpy()
    edges = np.array(axes.ends_of(axis, kind))
    codes = np.searchsorted(edges, numbers, side="right") - 1
    if axis.outside == "edges":
        codes = codes.clip(0, axis.declared - 1)
    return np.where((codes < 0) | (codes >= axis.declared) | column.is_null().to_numpy(), axis.declared, codes)


# How many rows satisfy each of many conditions on a universe, from one reading of the rows.

MOST_QUERIES: Final = 100_000
# Kept as bits: 250 MB.
MOST_FLAGS: Final = 2 * 10**9
# Flags that are doubles at one time: 16 MB.
_BLOCK: Final = 2**21

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Table = NDArray[np.int64] | NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class _Group:
    """Conditions on the same columns: their numbers, and for each a bit for each cell of these columns, the missing
    cell of each column included."""

    places: tuple[int, ...]
    shape: tuple[int, ...]
    numbers: NDArray[np.intp]
    bits: NDArray[np.uint8]

    grid = 1

    def sums(self, table: Table) -> Floats:
        """For each condition, the sum over its cells; exact for integers that add up to less than 2**53."""
        cells, found = math.prod(self.shape), np.empty(len(self.numbers))
        flat, together = table.reshape(-1).astype(np.float64), max(1, _BLOCK // cells)
        for low in range(0, len(found), together):
            part = slice(low, low + together)
            found[part] = np.unpackbits(self.bits[part], axis=1, count=cells).astype(np.float64) @ flat
        return found


@dataclass(frozen=True, eq=False)
class _Weighed:
    """A linear query: its number, and a weight in steps of `1/grid` for each cell of the columns that it names."""

    places: tuple[int, ...]
    shape: tuple[int, ...]
    numbers: NDArray[np.intp]
    steps: Integers
    grid: int

    def sums(self, table: Table) -> Floats:
        """The sum of the steps; exact for integers that add up to less than 2**53."""
        return np.array([table.reshape(-1).astype(np.float64) @ self.steps.reshape(-1).astype(np.float64)])


class CellQueries:
    """Conditions on a universe, put together by the columns they name, so that a table over those columns answers all
    of them; and linear queries, each by itself. All of it is public.

    `grid` is in how many steps a row is counted: 1 for conditions, with linear queries the least number in which all
    their weights are whole.

    Errors: `InvalidQuery` for no conditions, more than 100,000, and conditions that the universe cannot decide (see
    `Universe`). Also for more than 2,000,000,000 cells of the columns that each names, in all, and for a grid of more
    than 2**20.
    """

    def __init__(self, universe: axes.Universe, schema: Schema, queries: Sequence[Predicate | Linear]) -> None:
        universe.check(schema)
        if not 1 <= len(queries) <= MOST_QUERIES:
            raise InvalidQuery(f"give 1 to {MOST_QUERIES:,} conditions")
        self.universe, self.schema, self.size = universe, schema, len(queries)
        self._lengths = tuple(axis.declared + 1 for _, axis in universe.columns)
        self._groups: tuple[_Group | _Weighed, ...] = (*self._grouped(queries), *self._weighed(queries))
        self.grid = math.lcm(*(group.grid for group in self._groups))
        if self.grid > MOST_STEPS:
            raise InvalidQuery("these linear queries have no common grid of at most 2**20 steps: give rounder weights")

    def counts(self, rows: CellRows) -> Integers:
        """How many of the rows satisfy each condition, in steps of `1/grid`.
        Exactly the count of `located`, a value that the universe does not declare being read as NULL. Of linear queries
        it is the sum of the weights.
        """
        parts = [group.sums(self._counted(rows, group)) * (self.grid // group.grid) for group in self._groups]
        return np.rint(self._scattered(parts)).astype(np.int64)

    def shares(self, weights: NDArray[Any]) -> Floats:
        """What part of the weight of all cells of the universe lies in those of each condition, and of linear queries
        their average over it."""
        whole = tuple(range(len(self._lengths)))
        known: dict[tuple[int, ...], NDArray[Any]] = {whole: weights.reshape(self.universe.shape)}
        sums = [group.sums(self._padded(self._summed(group.places, known))) / group.grid for group in self._groups]
        return np.minimum(self._scattered(sums) / float(weights.sum(dtype=np.float64)), 1.0)

    def _grouped(self, queries: Sequence[Predicate | Linear]) -> Iterator[_Group]:
        told: dict[tuple[int, ...], list[int]] = {}
        conditions = {number: query for number, query in enumerate(queries) if isinstance(query, Predicate)}
        for number, query in conditions.items():
            told.setdefault(self._places(query), []).append(number)
        shapes = {places: tuple(self._lengths[place] for place in places) for places in told}
        if sum(math.prod(shapes[places]) * len(numbers) for places, numbers in told.items()) > MOST_FLAGS:
            raise InvalidQuery("these are too many queries on too many columns each: take fewer, or coarser cells")
        for places, numbers in told.items():
            bits = np.stack([np.packbits(self._flags(conditions[number], places)) for number in numbers])
            yield _Group(places, shapes[places], np.array(numbers), bits)

    def _weighed(self, queries: Sequence[Predicate | Linear]) -> Iterator[_Weighed]:
        for number, query in enumerate(queries):
            if isinstance(query, Linear):
                found = query.weights(self.universe, self.schema)
                yield _Weighed(found.places, found.steps.shape, np.array([number]), found.steps, found.grid)

    def _places(self, query: Predicate) -> tuple[int, ...]:
        return tuple(sorted({self.universe.place(name) for name in terms.names(query.condition)}))

    def _flags(self, query: Predicate, places: tuple[int, ...]) -> regions.Flags:
        part = axes.Universe(dict(self.universe.columns[place] for place in places))
        return regions.located(part, self.schema, query)[0].flags()

    def _counted(self, rows: CellRows, group: _Group | _Weighed) -> Integers:
        cells = np.ravel_multi_index([rows.codes[place] for place in group.places], group.shape)
        return np.bincount(cells, minlength=math.prod(group.shape))

    def _summed(self, places: tuple[int, ...], known: dict[tuple[int, ...], NDArray[Any]]) -> NDArray[Any]:
        """Over all other columns, long ones first; what was summed on the way serves other columns too."""
        if places not in known:
            others = set(range(len(self._lengths))) - set(places)
            last = min(others, key=lambda place: (self._lengths[place], place))
            wider = tuple(sorted((*places, last)))
            known[places] = np.add.reduce(self._summed(wider, known), axis=wider.index(last), dtype=np.float64)
        return known[places]

    def _padded(self, table: NDArray[Any]) -> NDArray[Any]:
        """With the missing cells, which are empty where the universe has none."""
        return table if self.universe.missing else np.pad(table, [(0, 1)] * table.ndim)

    def _scattered(self, sums: Sequence[Floats]) -> Floats:
        found = np.empty(self.size)
        for group, part in zip(self._groups, sums, strict=True):
            found[group.numbers] = part
        return found


@dataclass(frozen=True, eq=False)
class CellCounts:
    """The queries, the number of rows, and how many of them satisfy each, in steps of the queries' grid; secret."""

    queries: CellQueries
    size: int
    counts: Integers

    def __repr__(self) -> str:
        return "CellCounts(<secret>)"


class CellReader:
    """Reads the rows' columns once and counts for all conditions.

    >>> from chary.data.universe.axes import Universe
    >>> from chary.data.universe.axes import Bins
    >>> from chary.data.neighbors import NeighborRelation
    >>> from chary.data.table import RowTable
    >>> replaced = NeighborRelation("replace", None)
    >>> table = RowTable.open(pa.table({"age": [70, 80, 20, None]}), neighbor_relation=replaced)
    >>> asked = [Predicate.parse("age >= 65"), Predicate.parse("NOT age >= 65"), Predicate.parse("age IS NULL")]
    >>> queries = CellQueries(Universe({"age": Bins([0, 65, 120])}), table.schema, asked)
    >>> CellReader(table, queries).run().counts.tolist()
    [2, 1, 1]
    """

    def __init__(self, rows: Rows, queries: CellQueries) -> None:
        """Checked, nothing read; `InvalidQuery` for a column that is not there."""
        self._queries = queries
        self._rows: Reading = rows.snapshot([name for name, _ in queries.universe.columns])

    def run(self) -> CellCounts:
        """The counts now; `EngineError`, naming no value, when they cannot be worked out."""
        table, failure = self._rows.run(), EngineError("the rows could not be counted by their cells")
        found: CellCounts = quietly(lambda: self._counted(table), failure)
        return found

    def _counted(self, table: pa.Table) -> CellCounts:
        rows = CellRows.of(table, self._queries.universe, self._queries.schema)
        return CellCounts(self._queries, rows.size, self._queries.counts(rows))


# The weights of a linear query on the cells of a universe as a matrix, and its sum over the rows.

# The patterns of all kinds of rows: 64 MB.
MOST_PATTERNS: Final = 2**24


@dataclass(frozen=True, eq=False)
class WeightedRegion:
    """As `Region`, with a number for each cell in the patterns: that of its weight among `levels`, which ascend.

    >>> from chary.data.universe.axes import Universe
    >>> from chary.data.universe.linear import average
    >>> universe = Universe({"sex": ["f", "m"], "visits": [0, 1, 2]}, missing=False)
    >>> region = weighing(universe, {"sex": "string", "visits": "int64"}, average("visits", bounds=(0, 2)))
    >>> region.levels.tolist(), region.counts.tolist(), region.count
    ([0.0, 0.5, 1.0], [2.0, 2.0, 2.0], 3.0)
    """

    which: NDArray[np.intp]
    patterns: NDArray[np.int32]
    levels: Floats

    @cached_property
    def counts(self) -> Floats:
        """How many cells have each weight."""
        rows = np.bincount(self.which, minlength=len(self.patterns))
        each = [np.bincount(pattern, minlength=len(self.levels)) for pattern in self.patterns]
        return np.asarray(rows @ np.array(each), np.float64)

    @cached_property
    def count(self) -> float:
        """The weight of all cells."""
        return float(self.counts @ self.levels)

    def weights(self) -> Floats:
        """One weight for each cell, in the order of the universe's columns, the last one changing fastest."""
        return self.levels[self.patterns[self.which]].ravel()


class RowSum(NamedTuple):
    """The weights of all rows, in steps of `1/grid`; secret."""

    steps: int
    grid: int

    @property
    def rows(self) -> int:
        """In whole rows, halves upwards: as the sum moves by `grid` steps at most, this moves by 1 at most.

        >>> [RowSum(steps, 4).rows for steps in (5, 6, 9, 10)]
        [1, 2, 2, 3]
        """
        return (2 * self.steps + self.grid) // (2 * self.grid)

    def __repr__(self) -> str:
        return "RowSum(<secret>)"


class WeightReader:
    """Reads the columns that a linear query names, once, and adds up the weights of the rows, exactly.

    >>> from chary.data.universe.axes import Universe
    >>> from chary.data.universe.axes import Bins
    >>> from chary.data.universe.linear import average
    >>> from chary.data.neighbors import NeighborRelation
    >>> from chary.data.table import RowTable
    >>> replaced = NeighborRelation("replace", None)
    >>> table = RowTable.open(pa.table({"age": [70, 80, 20, None]}), neighbor_relation=replaced)
    >>> reader = WeightReader(table, Universe({"age": Bins([0, 40, 120])}), average("age", bounds=(0, 100)))
    >>> reader.run().steps / reader.grid
    1.8
    """

    def __init__(self, rows: Rows, universe: axes.Universe, query: Linear) -> None:
        """Checked, nothing read; `InvalidQuery` for a column that is not there, and where the universe cannot tell."""
        universe.check(rows.schema)
        self._weights, self._schema = query.weights(universe, rows.schema), rows.schema
        self._part = axes.Universe(dict(universe.columns[place] for place in self._weights.places))
        self._rows: Reading = rows.snapshot([name for name, _ in self._part.columns])

    @property
    def grid(self) -> int:
        """Steps of a row's largest possible weight."""
        return self._weights.grid

    def run(self) -> RowSum:
        """The sum now; `EngineError`, naming no value, when it cannot be worked out."""
        table, failure = self._rows.run(), EngineError("the rows could not be weighed by their cells")
        found: RowSum = quietly(lambda: self._summed(table), failure)
        return found

    def _summed(self, table: pa.Table) -> RowSum:
        codes = CellRows.of(table, self._part, self._schema).codes
        return RowSum(int(self._weights.steps[codes].sum()), self.grid)


def weighing(universe: axes.Universe, schema: Schema, query: Linear) -> WeightedRegion:
    """The weight of every cell; `InvalidQuery` where the universe cannot tell, and for too many different rows."""
    found = query.weights(universe, schema)
    levels, numbers = np.unique(found.steps, return_inverse=True)
    there = tuple(slice(universe.shape[place]) for place in found.places)
    table: NDArray[np.int32] = numbers.reshape(found.steps.shape)[there].astype(np.int32)
    return WeightedRegion(*_laid_out(universe, found, table), levels / found.grid)


def _laid_out(
    universe: axes.Universe, found: CellWeights, table: NDArray[np.int32]
) -> tuple[NDArray[np.intp], NDArray[np.int32]]:
    """Which pattern each row of the matrix has, and the patterns, by the split with the fewest cells of patterns."""
    shape = universe.shape

    def kinds(place: int) -> int:
        return math.prod(shape[own] for own in found.places if own < place)

    place = min(regions.splits(universe), key=lambda place: kinds(place) * math.prod(shape[place:]))
    many, columns = kinds(place), shape[place:]
    if many * math.prod(columns) > MOST_PATTERNS:
        raise InvalidQuery("this linear query needs to tell apart too many cells of the universe: name fewer columns")
    before = [shape[own] if own in found.places else 1 for own in range(place)]
    after = [shape[own] if own in found.places else 1 for own in range(place, len(shape))]
    which = np.broadcast_to(np.arange(many, dtype=np.intp).reshape(before), shape[:place]).reshape(-1)
    patterns = np.broadcast_to(table.reshape(many, *after), (many, *columns)).reshape(many, -1)
    return np.ascontiguousarray(which), np.ascontiguousarray(patterns)
