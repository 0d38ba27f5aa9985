"""What benchmarks print, kept for `make bench`: tables as they stand, and every ratio under a name that stays.

Nothing is kept unless the environment names a folder (`FOLDER`): then each benchmark writes one JSON file there.
"""

import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

FOLDER = "CHARY_BENCHMARK_RECORDS"
SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
FIGURE = re.compile(r"\s*(-?[\d,]*\.?\d+(?:e[+-]?\d+)?)\s*(s|ms|us|ns|%|x)?(?![\w.])")
Cells = Sequence[Sequence[str]]


@dataclass(frozen=True)
class Against:
    """Which columns of a table hold a figure of ours and what it is held against, for a ratio of the two.

    `kind` is "limit" (what cannot be beaten, or an aim) or "peer" (another library or method). The ratio is read from
    the column `ratio`, which must be ours / other; without it, or where its cell is empty, it is the quotient of the
    other two. With `rates` both are numbers a second, and the quotient is turned round. A line is named by its columns
    `by` (the first one), where an empty cell repeats the one above. Lines without both figures are left out.
    """

    key: str
    ours: str
    other: str
    ratio: str | None = None
    kind: str = "limit"
    rates: bool = False
    by: tuple[str, ...] = ()

    def rows(self, headings: Sequence[str], cells: Cells) -> Iterator["Row"]:
        """Every line that has both figures."""
        places = [headings.index(name) for name in self.by] or [0]
        labels = [""] * len(places)
        for line in cells:
            labels = [line[place] or label for place, label in zip(places, labels, strict=True)]
            ours, other = (figure(line[headings.index(name)], name) for name in (self.ours, self.other))
            told = None if self.ratio is None else figure(line[headings.index(self.ratio)])
            if ours is not None and other is not None and min(ours, other) > 0:
                quotient = other / ours if self.rates else ours / other
                yield Row(f"{self.key}: {', '.join(labels)}", self.kind, ours, other, told or quotient)


@dataclass(frozen=True)
class Row:
    """A ratio under its name; times are in seconds."""

    name: str
    kind: str
    ours: float
    other: float
    ratio: float


def figure(cell: str, heading: str = "") -> float | None:
    """The number at the start of a cell; a time, whose unit stands in the cell or in the heading, is in seconds.

    >>> figure("12.5 ms, leaks"), figure("1,250"), figure("3", "bare ms"), figure("-"), figure("8%")
    (0.0125, 1250.0, 0.003, None, 0.08)
    """
    found = FIGURE.match(cell)
    if found is None:
        return None
    number = float(found[1].replace(",", ""))
    if found[2] == "%":
        return number / 100
    named = [word for word in heading.split() if word in SECONDS and word != "s"]
    return number * SECONDS.get(found[2] or (named[-1] if named else ""), 1.0)


class Slot:
    """The place of a table in the file of the benchmark that runs, if the environment names a folder."""

    def __init__(self, headings: Sequence[str], caption: str | None, against: Sequence[Against]) -> None:
        self._headings, self._caption, self._against = headings, caption, against
        self._path = Path(os.environ[FOLDER]) / f"{Path(sys.argv[0]).stem}.json" if FOLDER in os.environ else None
        self._before: dict[str, Any] = {"tables": [], "ratios": {}}
        if self._path is not None and self._path.exists():
            self._before = json.loads(self._path.read_text())

    def keep(self, title: str, cells: Cells) -> None:
        """Write the table as far as it is, in place of what was written of it before."""
        if self._path is None:
            return
        table = {"title": title, "headings": list(self._headings), "rows": list(cells), "caption": self._caption}
        ratios = dict(self._before["ratios"])
        for row in (row for each in self._against for row in each.rows(self._headings, cells)):
            if row.name in ratios:
                raise ValueError(f"two lines are called {row.name!r}")
            ratios[row.name] = {name: value for name, value in asdict(row).items() if name != "name"}
        beside = self._path.with_suffix(".new")
        beside.write_text(json.dumps({"tables": [*self._before["tables"], table], "ratios": ratios}))
        beside.replace(self._path)
