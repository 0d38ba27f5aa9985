"""Queries as sets of cells of a small matrix, and people in these cells."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

ROWS, COLUMNS = 4, 6


@dataclass(frozen=True, eq=False)
class Set:
    """Any set of cells of a matrix."""

    flags: np.ndarray
    levels = None

    @cached_property
    def which(self):
        return np.arange(len(self.flags))

    @property
    def patterns(self):
        return self.flags

    @property
    def count(self):
        return int(self.flags.sum())


class Sets:
    """Queries as sets of cells."""

    shape = (ROWS, COLUMNS)

    def __init__(self, number, seed=0):
        random = np.random.default_rng(seed)
        self.flags = random.random((number, ROWS, COLUMNS)) < 0.4

    def cells(self, query):
        return Set(self.flags[query])

    def shares(self, weights):
        inside = (self.flags * weights.astype(np.float64)).sum(axis=(1, 2))
        return inside / weights.sum(dtype=np.float64)

    def counts(self, people):
        return (self.flags * people).sum(axis=(1, 2)).astype(np.int64)


def people_of(seed, rows=1000):
    random = np.random.default_rng(seed)
    return random.multinomial(rows, random.dirichlet(np.full(ROWS * COLUMNS, 0.5))).reshape(ROWS, COLUMNS)
