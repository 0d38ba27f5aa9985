"""The folder of data sets that are not shipped, and the columns of its files."""

import csv
import gzip
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from chary.errors import InvalidInput

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
        """What tells other files from these."""
        known = hashlib.sha256()
        for name in names:
            known.update(hashlib.sha256(self.file(name).read_bytes()).digest())
        return known.hexdigest()
