"""Strategies: which sums of cells are measured with noise, in groups that share the privacy between them."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chary.mechanisms.additive import Integers
from chary.mechanisms.workloads.linear_queries import Cells, LinearQueries, partitions

BRANCHINGS: Final = (2, 4, 8, 16)
# Sets of columns double with each one; keys of more have hardly any sums to share.
MOST_COLUMNS: Final = 5


@dataclass(frozen=True)
class CellChange:
    """How far one unit can change the cells: `single` one of them, `together` the sum of any of them, `l1` all, added.

    >>> CellChange(single=1, together=1, l1=2).of(np.array([[1, 1, 0], [0, 0, 1]]))
    (1, 2)
    """

    single: int
    together: int
    l1: int

    def of(self, sums: Integers) -> tuple[int, int]:
        """How far it changes one of these sums of cells, and all of them, added.

        All change by at most `l1` times the largest column. One sum by at most `single` times its weights; and, because
        weights of one sign up to e are a mixture of sets of cells with e in all, by `together` times e, or `l1` times e
        for both signs.
        """
        sizes = np.abs(sums)
        one_sign = np.all(sums >= 0, axis=1) | np.all(sums <= 0, axis=1)
        spread = [self.together if same else self.l1 for same in one_sign.tolist()]
        most = [
            min(self.single * weights, each * largest)
            for weights, each, largest in zip(
                sizes.sum(axis=1).tolist(), spread, sizes.max(axis=1).tolist(), strict=True
            )
        ]
        total = self.l1 * int(sizes.sum(axis=0).max())
        return min(max(most), total), total


@dataclass(frozen=True, eq=False)
class SumStrategy:
    """Sums of cells to be measured, in groups; a larger share of the privacy makes the noise of a group smaller."""

    name: str
    groups: tuple[Integers, ...]

    @cached_property
    def grams(self) -> NDArray[np.float64]:
        """For each group the products of all pairs of its columns."""
        return np.stack([group.T.astype(np.float64) @ group.astype(np.float64) for group in self.groups])

    @property
    def sums(self) -> int:
        """How many are measured."""
        return sum(map(len, self.groups))


def strategies(asked: LinearQueries, cells: Cells) -> Iterator[SumStrategy]:
    """Those that are tried: each cell, each question itself, hierarchies, and all marginals of keys with columns."""
    identity = np.eye(len(cells), dtype=np.int64)
    yield SumStrategy("identity", (identity,))
    yield SumStrategy("workload", (np.unique(asked.weights, axis=0),))
    for branching in BRANCHINGS:
        if branching < len(cells):
            yield hierarchy(len(cells), branching)
    if 1 < len(cells[0]) <= MOST_COLUMNS:
        yield SumStrategy("marginals", tuple(partitions(cells).values()))


def hierarchy(cells: int, branching: int) -> SumStrategy:
    """Runs of 1, b, b**2, ... neighbouring cells, and the sum of all.

    >>> [len(level) for level in hierarchy(9, 4).groups]
    [9, 3, 1]
    """
    levels, places, width = [], np.arange(cells), 1
    while True:
        blocks = places // width
        levels.append((blocks == np.arange(blocks[-1] + 1)[:, None]).astype(np.int64))
        if width >= cells:
            return SumStrategy(f"hierarchy of {branching}", tuple(levels))
        width *= branching
