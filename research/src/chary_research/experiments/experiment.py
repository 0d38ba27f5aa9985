"""Experiments: pieces that are measured one by one, a picture of them all, and what must hold of it."""

import csv
import gzip
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from chary.errors import InvalidInput
from chary.numbers import set_fields

# What an experiment measured: rows of named figures, of which some are picked, and columns taken.

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


# The folder of data sets that are not shipped, and the columns of its files.

ENVIRONMENT = "CHARY_DATA"


@dataclass(frozen=True)
class DataFolder:
    """Where data sets lie that cannot be shipped; None where there is no such folder.

    >>> DataFolder(None).missing(["bike_day.csv"])
    ['bike_day.csv']
    """

    path: Path | None

    def missing(self, names: Sequence[str]) -> list[str]:
        """Which of these files are not there."""
        return [name for name in names if self.path is None or not (self.path / name).is_file()]

    def file(self, name: str) -> Path:
        """The path of a file; `InvalidInput` where it is not there, which says where it is looked for."""
        if self.path is None:
            raise InvalidInput(f"{name} is needed: name its folder by --data, or by the variable {ENVIRONMENT}")
        if self.missing([name]):
            raise InvalidInput(f"{name} is needed and is not in the folder {self.path}")
        return self.path / name

    def column(self, name: str, column: str) -> NDArray[np.float64]:
        """The numbers of a column of a CSV file, also of a compressed one."""
        path = self.file(name)
        with gzip.open(path, "rt") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
            rows = csv.DictReader(lines)
            if column not in (rows.fieldnames or ()):
                raise InvalidInput(f"{name} has no column {column}")
            return np.array([float(row[column]) for row in rows])

    def digest(self, names: Sequence[str]) -> str:
        """What distinguishes other files from these."""
        known = hashlib.sha256()
        for name in names:
            known.update(hashlib.sha256(self.file(name).read_bytes()).digest())
        return known.hexdigest()


# What an experiment is: pieces that are measured one by one, a picture of them all, and what must hold of it.

Settings = dict[str, Any]


@dataclass(frozen=True)
class Trend:
    """What a figure is to show, and whether what was measured shows it."""

    told: str
    holds: bool | np.bool_

    def __post_init__(self) -> None:
        set_fields(self, holds=bool(self.holds))


@dataclass(frozen=True)
class Table:
    """Figures of an experiment that belong side by side: what they are of, headings, and lines of strings.

    >>> Table.of("errors", ["by", "mean"], [["ours", 0.0123456], ["plain", None]]).lines
    (('ours', '0.0123'), ('plain', '-'))
    """

    told: str
    headings: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, told: str, headings: Sequence[str], lines: Sequence[Sequence[Any]]) -> "Table":
        """With three digits of each float, and a dash for None."""
        return cls(told, tuple(headings), tuple(tuple(map(_shown, line)) for line in lines))


def _shown(value: Any) -> str:
    return "-" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)


class Experiment(ABC):
    """A figure that can be made again.

    - `name`: the name to ask for it with. `shows`: one line. `source`: which figure, table or bound it is.
    - `needs`: files of the data folder without which it cannot run.
    - `extra`: of chary, and a library that it brings, without which it cannot run.
    - `size`: of its picture, in inches.

    A piece is known by its settings, which hold all that it depends on but the data and the code, so that a finished
    one need not be measured again. It gets a seed of its own, made from the settings.
    """

    name: ClassVar[str]
    shows: ClassVar[str]
    source: ClassVar[str]
    needs: ClassVar[tuple[str, ...]] = ()
    extra: ClassVar[tuple[str, str] | None] = None
    size: ClassVar[tuple[float, float]] = (7.0, 3.6)

    @classmethod
    def absent(cls, data: DataFolder) -> list[str]:
        """What it needs and is not there."""
        missing = data.missing(cls.needs)
        if cls.extra is not None and find_spec(cls.extra[1]) is None:
            missing.append(f"the extra {cls.extra[0]} (pip install 'chary[{cls.extra[0]}]')")
        return missing

    @abstractmethod
    def pieces(self, *, quick: bool) -> Sequence[Settings]:
        """The settings of all pieces, as JSON has them; with `quick` fewer, or with fewer repetitions."""

    @abstractmethod
    def measure(self, settings: Settings, seed: int, data: DataFolder) -> list[Row]:
        """What one piece measures; the same for the same seed."""

    @abstractmethod
    def draw(self, found: Measurements, figure: Figure) -> None:
        """The picture of all rows."""

    def tables(self, found: Measurements) -> Sequence[Table]:
        """What is printed of all rows with the trends: nothing where the picture says all."""
        return ()

    @abstractmethod
    def trends(self, found: Measurements) -> Sequence[Trend]:
        """What must hold of the rows, whether they are quick ones or not."""
