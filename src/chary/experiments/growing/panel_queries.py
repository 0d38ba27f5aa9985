"""Rows drawn from the built-in panel, and conditions on them with their true shares, which are public."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chary.data.universe.axes import Bins, Universe
from chary.demo.panel import people

EDGES = {"xage": [0, 10, 20, 30, 40, 50, 70], "mdvis": [0, 1, 2, 5, 10, 100]}
VALUES = {"female": [0, 1], "coins": [0, 25, 50, 95, 100]}


def universe() -> Universe:
    """300 cells of age, doctor visits, sex and coinsurance; every row has one.

    >>> universe().cells
    300
    """
    bins: dict[str, Any] = {name: Bins(edges) for name, edges in EDGES.items()}
    return Universe(bins | VALUES, missing=False)


def drawn(rows: int, seed: int) -> pa.Table:
    """So many rows of the panel: in random order, and drawn with replacement where there are not as many."""
    panel, random = people().select([*EDGES, *VALUES]), np.random.default_rng(seed)
    few = rows <= panel.num_rows
    return panel.take(pa.array(random.choice(panel.num_rows, rows, replace=not few)))


@dataclass(frozen=True)
class Range:
    """Values of a column from `low` on and below `high`."""

    column: str
    low: int
    high: int

    @property
    def text(self) -> str:
        """As a session is asked."""
        return f"{self.column} >= {self.low} AND {self.column} < {self.high}"

    def holds(self, rows: pa.Table) -> NDArray[np.bool_]:
        """For which rows."""
        values = rows[self.column].to_numpy()
        found: NDArray[np.bool_] = (values >= self.low) & (values < self.high)
        return found


Condition = tuple[Range, ...]


def condition_of(ranges: Condition) -> str:
    """All ranges together, as a session is asked."""
    return " AND ".join(each.text for each in ranges)


def share_of(ranges: Condition, rows: pa.Table) -> float:
    """The share of the rows for which all hold; shown only because these data are public."""
    return float(np.logical_and.reduce([each.holds(rows) for each in ranges]).mean())


def conditions_drawn(count: int, seed: int) -> list[Condition]:
    """So many different conditions on one or two columns.

    >>> [condition_of(each) for each in conditions_drawn(2, seed=1)]
    ['mdvis >= 5 AND mdvis < 100', 'xage >= 10 AND xage < 50']
    """
    random, found = np.random.default_rng(seed), dict[Condition, None]()
    ends = EDGES | {name: [*values, values[-1] + 1] for name, values in VALUES.items()}
    while len(found) < count:
        columns = random.choice(sorted(ends), random.integers(1, 3), replace=False).tolist()
        picked = [sorted(random.choice(ends[column], 2, replace=False).tolist()) for column in columns]
        found[tuple(Range(column, *pair) for column, pair in zip(columns, picked, strict=True))] = None
    return list(found)
