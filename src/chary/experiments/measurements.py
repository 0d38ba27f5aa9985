"""What an experiment measured: rows of named figures, of which some are picked, and columns taken."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Row = dict[str, Any]


class Measurements(Sequence[Row]):
    """Rows of named figures in the order in which they were measured.

    >>> found = Measurements([{"by": "ours", "hits": 1, "total": 0.1}, {"by": "plain", "hits": 1, "total": 0.2}])
    >>> found.where(by="plain")["total"].tolist(), found.distinct("by"), len(found)
    ([0.2], ['ours', 'plain'], 2)
    """

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows = list(rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, place: Any) -> Any:
        """A row by its place, or a column by its name."""
        return self.column(place) if isinstance(place, str) else self._rows[place]

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)

    def where(self, **wanted: Any) -> "Measurements":
        """The rows in which these columns have these values."""
        return Measurements(row for row in self if all(row.get(name) == value for name, value in wanted.items()))

    def column(self, name: str) -> NDArray[Any]:
        """A column as an array."""
        return np.array([row[name] for row in self])

    def distinct(self, name: str) -> list[Any]:
        """The values of a column, each once, in the order in which they came; rows without it are passed over."""
        return list(dict.fromkeys(row[name] for row in self if name in row))

    def grid(self, name: str, *, down: str, across: str) -> NDArray[np.float64]:
        """A figure by two columns, one row for each value of `down`; NaN where nothing was measured.

        >>> Measurements([{"a": 1, "b": 5, "loss": 0.5}]).grid("loss", down="a", across="b").tolist()
        [[0.5]]
        """
        known = {(row[down], row[across]): row[name] for row in self}
        places = [[known.get((y, x), np.nan) for x in self.distinct(across)] for y in self.distinct(down)]
        return np.array(places, dtype=np.float64)

    def write_csv(self, path: Path) -> None:
        """All rows, with every column that any of them has."""
        columns = list(dict.fromkeys(name for row in self for name in row))
        with path.open("w", newline="", encoding="utf-8") as opened:
            writer = csv.DictWriter(opened, columns, restval="")
            writer.writeheader()
            writer.writerows(self._rows)
