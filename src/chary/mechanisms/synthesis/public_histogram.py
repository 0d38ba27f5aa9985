"""A histogram over the cells of a universe that is a function of published answers alone."""

from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from chary.mechanisms.synthesis.cell_factors import (
    PIECE,
    Numbers,
    Weights,
    aligned,
    factors_of,
    multiply_gathered,
    multiply_pieces,
    multiply_stripes,
    pieces_of,
    stripes_of,
    sum_gathered,
    sum_pieces,
    unbuffered,
)

# Slices of four pieces or more each are quicker than stripes; half a megabyte of scratch stays in the cache. Both only
# trade speed, all ways give the same bits.
FEW: Final = 4
BLOCK: Final = 2**17
Floats = NDArray[np.float64]


class Cells(Protocol):
    """A set of cells of a matrix: each row of the matrix has one of a few patterns, which flag its cells.

    With `levels` it is a weight from 0 to 1 for each cell: patterns number the levels, and `count` is the sum of them.
    """

    @property
    def which(self) -> Numbers:
        """The number of each row's pattern."""
        ...

    @property
    def patterns(self) -> Any:
        """The patterns: one flag for each column, or the number of a level."""
        ...

    @property
    def levels(self) -> Floats | None:
        """The weights, ascending; None where patterns are flags."""
        ...

    @property
    def counts(self) -> Floats:
        """How many cells each level has."""
        ...

    @property
    def count(self) -> float:
        """How many cells it has."""
        ...


class PublicHistogram:
    """Weights of cells in single precision, uniform at first, and their sum in double precision, worked out lazily.

    Only their ratios mean anything. The same changes of the same cells give the same bits. A weight that fell 10^38
    times below the largest has lost its digits: raised again it is off by any factor, and at 0 only `lift` raises it.

    >>> histogram = PublicHistogram(2, 3)
    >>> histogram.lift(0.5)
    >>> histogram.cells, histogram.total, float(histogram.weights[1, 2])
    (6, 9.0, 1.5)
    """

    def __init__(self, rows: int, columns: int) -> None:
        self.weights: Weights = aligned(rows * columns).reshape(rows, columns)
        self.weights.fill(1)
        self._total: float | None = float(rows * columns)
        self._room: Weights = np.empty(0, np.float32)

    @property
    def cells(self) -> int:
        """How many cells there are."""
        return int(self.weights.size)

    @property
    def total(self) -> float:
        """The sum of all weights."""
        if self._total is None:
            self._total = float(self.weights.sum(dtype=np.float64))
        return self._total

    def share(self, cells: Cells) -> float:
        """The part of all weight that lies in these cells; of weighted cells, their average weight."""
        if cells.levels is not None:
            return min(1.0, float(self.masses(cells) @ cells.levels))
        matrix, pieces = self._matrix(cells), pieces_of(cells.which, cells.patterns)
        if pieces is None:
            inside = sum_gathered(matrix, cells.which, cells.patterns, self._scratch(matrix.shape[1]))
        else:
            inside = sum_pieces(matrix, pieces, cells.patterns)
        return min(1.0, inside / self.total)

    def masses(self, cells: Cells) -> Floats:
        """What part of all weight the cells of each level have."""
        numbers, matrix = len(cells.levels if cells.levels is not None else ()), self._matrix(cells)
        inside, together = np.zeros(numbers), max(1, BLOCK // matrix.shape[1])
        for low in range(0, len(matrix), together):
            part = slice(low, low + together)
            level = cells.patterns[cells.which[part]].reshape(-1)
            inside += np.bincount(level, matrix[part].reshape(-1), numbers)
        return np.asarray(inside / inside.sum())

    def multiply(self, cells: Cells, factor: float) -> None:
        """Multiply the weights of these cells relative to all others, in place; of weighted cells, each by the factor
        to the power of its weight.

        The others are divided instead where they lie in fewer rows, or in as many and are fewer.
        """
        self._total = None
        if cells.levels is not None:
            each = (factor**cells.levels).astype(np.float32)[cells.patterns]
            multiply_gathered(self._matrix(cells), cells.which, each, self._scratch(cells.patterns.shape[1]))
            return
        which, patterns, times = cells.which, cells.patterns, factor
        rows = np.bincount(which, minlength=len(patterns))
        touched, whole = int(rows @ patterns.any(axis=1)), int(rows @ patterns.all(axis=1))
        if (len(which) - whole, self.cells - cells.count) < (touched, cells.count):
            patterns, times = ~patterns, 1 / factor
        matrix, pieces = self._matrix(cells), pieces_of(which, patterns)
        few = pieces is not None and FEW * PIECE * len(pieces) <= self.cells
        stripes = None if few else stripes_of(patterns)
        with unbuffered():
            if stripes is not None:
                multiply_stripes(matrix, stripes, which, patterns, times)
            elif pieces is not None:
                multiply_pieces(matrix, pieces, patterns, times)
            else:
                multiply_gathered(matrix, which, factors_of(patterns, times), self._scratch(matrix.shape[1]))

    def lift(self, weight: float) -> None:
        """Add the same weight to every cell, in place."""
        self._total = None
        self.weights += np.float32(weight)

    def scale(self, factor: float) -> None:
        """Multiply every weight, in place."""
        self._total = None
        self.weights *= np.float32(factor)

    def shares(self) -> NDArray[np.float64]:
        """What part of all weight each cell has; a copy."""
        return self.weights.ravel().astype(np.float64) / self.total

    def _matrix(self, cells: Cells) -> Weights:
        return self.weights.reshape(len(cells.which), cells.patterns.shape[1])

    def _scratch(self, columns: int) -> Weights:
        """Room for some rows, kept: new memory takes longer than a change."""
        if len(self._room) < max(columns, min(BLOCK, self.cells)):
            self._room = aligned(max(columns, min(BLOCK, self.cells)))
        return self._room
