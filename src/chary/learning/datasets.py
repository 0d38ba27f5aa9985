"""Labelled rows in three parts: private ones for teachers, public points to be labelled, and a test set."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.datasets import load_digits

from chary.errors import InvalidParameter
from chary.learning.linear_estimators import Points, matrix
from chary.numbers import whole

DIGITS = tuple(range(10))
# The digits have 17 shades, from 0 to 16.
DARKEST = 16


@dataclass(frozen=True)
class Split:
    """Rows and labels for the teachers, points to be labelled with their true labels (to judge by), and a test set."""

    rows: Points
    labels: NDArray[Any]
    points: Points
    truth: NDArray[Any]
    test_rows: Points
    test_labels: NDArray[Any]

    def __repr__(self) -> str:
        return f"Split({len(self.rows)} rows, {len(self.points)} points, {len(self.test_rows)} tests)"


def split(rows: ArrayLike, labels: ArrayLike, *, points: int, test: int, seed: int = 0) -> Split:
    """Shuffle and split: `points` of the rows to be labelled, `test` of them to test with, the rest for the teachers.

    For experiments on public data: the split is a reproducible one, not a private one.

    >>> split(np.eye(10), np.arange(10), points=2, test=3)
    Split(5 rows, 2 points, 3 tests)
    """
    table, names = matrix(rows, "rows"), np.asarray(labels)
    first = whole(points, "points", least=0)
    second = first + whole(test, "test", least=0)
    if names.shape != (len(table),) or second > len(table):
        raise InvalidParameter("rows and labels must be equally many, and as many as points and test together")
    order = np.random.default_rng(seed).permutation(len(table))
    asked, tested, kept = order[:first], order[first:second], order[second:]
    return Split(table[kept], names[kept], table[asked], names[asked], table[tested], names[tested])


def digits(*, points: int = 400, test: int = 397, seed: int = 0) -> Split:
    """The 1,797 handwritten digits of 8 x 8 pixels that come with scikit-learn, darkness scaled to [0, 1].

    >>> digits()
    Split(1000 rows, 400 points, 397 tests)
    """
    pixels, labels = load_digits(return_X_y=True)
    return split(pixels / DARKEST, labels, points=points, test=test, seed=seed)
