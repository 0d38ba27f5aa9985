"""A histogram over the cells of a universe that is a function of published answers alone."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Flags = NDArray[np.bool_]
Weights = NDArray[np.float32]


class Cells(Protocol):
    """A set of cells of a matrix: disjoint products of a set of rows and a set of columns, each given by flags."""

    @property
    def products(self) -> Sequence[tuple[Flags, Flags]]:
        """The products: flags of the rows, flags of the columns."""
        ...

    @property
    def count(self) -> int:
        """How many cells it has."""
        ...


class PublicHistogram:
    """Weights of cells in single precision, uniform at first, and their sum in double precision, worked out lazily.

    Changes are elementwise, so the same changes give the same bits.

    >>> histogram = PublicHistogram(2, 3)
    >>> histogram.lift(0.5)
    >>> histogram.cells, histogram.total, float(histogram.weights[1, 2])
    (6, 9.0, 1.5)
    """

    def __init__(self, rows: int, columns: int) -> None:
        self.weights: Weights = np.ones((rows, columns), np.float32)
        self._total: float | None = float(rows * columns)

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
        """The part of all weight that lies in these cells."""
        inside = sum(self._inside(rows, columns) for rows, columns in cells.products)
        return min(1.0, inside / self.total)

    def multiply(self, cells: Cells, factor: float) -> None:
        """Multiply the weights of these cells, in place."""
        self._total = None
        for rows, columns in cells.products:
            span = _span(columns)
            one = np.float32(factor)
            factors = one if columns[span].all() else np.where(columns[span], one, np.float32(1))
            for low, high in runs(rows):
                self.weights[low:high, span] *= factors

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

    def _inside(self, rows: Flags, columns: Flags) -> float:
        span = _span(columns)
        sums = [np.add.reduce(self.weights[low:high, span], axis=0, dtype=np.float64) for low, high in runs(rows)]
        return sum((float((part * columns[span]).sum()) for part in sums), 0.0)


def _span(flags: Flags) -> slice:
    """From the first true flag to the last one."""
    true = np.flatnonzero(flags)
    return slice(int(true[0]), int(true[-1]) + 1) if len(true) else slice(0)


def runs(flags: Flags) -> list[tuple[int, int]]:
    """Where stretches of true flags begin and end.

    >>> runs(np.array([True, True, False, True]))
    [(0, 2), (3, 4)]
    """
    edges = np.flatnonzero(np.diff(np.concatenate(([False], flags, [False])).astype(np.int8)))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))
