"""Answers of many independent estimators as votes: what a private median of them needs.

The database is the k copies of an estimator, each with its own key; neighbours differ in one copy. Then every number
here is an integer that changes by at most 1, whatever the estimator. Source: Hassidim, Kaplan, Mansour, Matias and
Stemmer (2020).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chary.errors import InvalidParameter
from chary.numbers import Number, positive, whole

Votes = NDArray[np.int64]

# A choice among so many cells takes milliseconds, and a step of 0.7 per cent already reaches 10**300 with them, beyond
# which powers of the ratio would leave the floats.
MOST_CELLS: Final = 100_000
LARGEST: Final = 10**300


@dataclass(frozen=True)
class Grid:
    """The public answers 0, 1, (1+step), (1+step)**2, ... up to the first that reaches `largest`.

    Errors: `InvalidParameter` for a step that is not positive, `largest` below 1, or more than 100,000 cells.

    >>> grid = Grid("0.5", largest=4)
    >>> grid.values
    (0.0, 1.0, 1.5, 2.25, 3.375, 5.0625)
    >>> grid.cells([0, 1.2, 3, 1e9]).tolist()
    [0, 1, 4, 5]
    """

    step: Number
    largest: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "step", positive(self.step, "step"))
        if whole(self.largest, "largest") > LARGEST:
            raise InvalidParameter("the largest answer may be 10**300 at most")
        if math.log(self.largest) > (MOST_CELLS - 3) * math.log1p(self._ratio - 1):
            raise InvalidParameter("the grid would have more than 100,000 cells: choose a larger step")

    @cached_property
    def values(self) -> tuple[float, ...]:
        """The answer that each cell stands for."""
        powers = math.ceil(math.log(self.largest) / math.log(self._ratio)) + 1
        return (0.0, *(self._ratio**power for power in range(powers)))

    def cells(self, estimates: Sequence[float]) -> NDArray[np.int64]:
        """The cell of each estimate: the nearest power in ratio, 0 below `1/sqrt(1+step)`, the last for the largest.

        NaN and negative estimates fall into cell 0, since a refusal would tell about one copy.
        """
        clean = np.nan_to_num(np.asarray(estimates, dtype=np.float64), posinf=self.values[-1])
        return np.searchsorted(self._edges, clean, side="right").astype(np.int64)

    def votes(self, estimates: Sequence[float]) -> Votes:
        """The number of copies in each cell; each copy has one vote."""
        return np.bincount(self.cells(estimates), minlength=len(self.values)).astype(np.int64)

    @cached_property
    def _edges(self) -> NDArray[np.float64]:
        return np.array(self.values[1:]) / math.sqrt(self._ratio)

    @property
    def _ratio(self) -> float:
        return 1 + float(Fraction(self.step))


def rank_utilities(votes: Votes) -> Votes:
    """For each cell, minus the number of copies that would have to move for it to hold the median.

    The distance of the cell's ranks `[below, below + here]` from k/2, rounded up: an integer, 0 for the median's
    cell, and of sensitivity 1 when one copy changes its vote, appears or disappears.

    >>> rank_utilities(np.array([1, 0, 5, 2, 3]))
    array([-5, -5,  0, -1, -3])
    """
    copies, upto = int(votes.sum()), np.cumsum(votes)
    short, over = (copies + 1) // 2 - upto, upto - votes - copies // 2
    utilities: Votes = np.minimum(-np.maximum(short, over), 0)
    return utilities
