"""The weights of a linear query on the cells of a universe as a matrix, and its sum over the rows."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chary.data.columns import Schema
from chary.data.domain.cell_rows import CellRows
from chary.data.domain.linear import CellWeights, Linear
from chary.data.domain.regions import splits
from chary.data.domain.universe import Universe
from chary.data.rows.rows import Reading, Rows
from chary.data.silence import quietly
from chary.errors import EngineFailure, InvalidQuery

# The patterns of all kinds of rows: 64 MB.
MOST_PATTERNS: Final = 2**24
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class WeightedRegion:
    """As `Region`, with a number for each cell in the patterns: that of its weight among `levels`, which ascend.

    >>> from chary.data.domain.linear import average
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

    >>> from chary.data.domain.axes import Bins
    >>> from chary.data.domain.linear import average
    >>> from chary.data.neighbouring import Neighbouring
    >>> from chary.data.rows.table import RowTable
    >>> table = RowTable.open(pa.table({"age": [70, 80, 20, None]}), neighbouring=Neighbouring("replace", None))
    >>> reader = WeightReader(table, Universe({"age": Bins([0, 40, 120])}), average("age", bounds=(0, 100)))
    >>> reader.run().steps / reader.grid
    1.8
    """

    def __init__(self, rows: Rows, universe: Universe, query: Linear) -> None:
        """Checked, nothing read; `InvalidQuery` for a column that is not there, and where the universe cannot tell."""
        universe.check(rows.schema)
        self._weights, self._schema = query.weights(universe, rows.schema), rows.schema
        self._part = Universe(dict(universe.columns[place] for place in self._weights.places))
        self._rows: Reading = rows.snapshot([name for name, _ in self._part.columns])

    @property
    def grid(self) -> int:
        """Steps of a row's largest possible weight."""
        return self._weights.grid

    def run(self) -> RowSum:
        """The sum now; `EngineFailure`, naming no value, when it cannot be worked out."""
        table, failure = self._rows.run(), EngineFailure("the rows could not be weighed by their cells")
        found: RowSum = quietly(lambda: self._summed(table), failure)
        return found

    def _summed(self, table: pa.Table) -> RowSum:
        codes = CellRows.of(table, self._part, self._schema).codes
        return RowSum(int(self._weights.steps[codes].sum()), self.grid)


def weighing(universe: Universe, schema: Schema, query: Linear) -> WeightedRegion:
    """The weight of every cell; `InvalidQuery` where the universe cannot tell, and for too many different rows."""
    found = query.weights(universe, schema)
    levels, numbers = np.unique(found.steps, return_inverse=True)
    there = tuple(slice(universe.shape[place]) for place in found.places)
    table: NDArray[np.int32] = numbers.reshape(found.steps.shape)[there].astype(np.int32)
    return WeightedRegion(*_laid_out(universe, found, table), levels / found.grid)


def _laid_out(
    universe: Universe, found: CellWeights, table: NDArray[np.int32]
) -> tuple[NDArray[np.intp], NDArray[np.int32]]:
    """Which pattern each row of the matrix has, and the patterns, by the split with the fewest cells of patterns."""
    shape = universe.shape

    def kinds(place: int) -> int:
        return math.prod(shape[own] for own in found.places if own < place)

    place = min(splits(universe), key=lambda place: kinds(place) * math.prod(shape[place:]))
    many, columns = kinds(place), shape[place:]
    if many * math.prod(columns) > MOST_PATTERNS:
        raise InvalidQuery("this linear query tells too many cells of the universe apart: name fewer columns")
    before = [shape[own] if own in found.places else 1 for own in range(place)]
    after = [shape[own] if own in found.places else 1 for own in range(place, len(shape))]
    which = np.broadcast_to(np.arange(many, dtype=np.intp).reshape(before), shape[:place]).reshape(-1)
    patterns = np.broadcast_to(table.reshape(many, *after), (many, *columns)).reshape(many, -1)
    return np.ascontiguousarray(which), np.ascontiguousarray(patterns)
