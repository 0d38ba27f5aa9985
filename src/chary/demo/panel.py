"""The built-in panel (RAND Health Insurance Experiment, public domain), and thousands of indicators on it."""

import gzip
from collections.abc import Sequence
from functools import cache
from importlib.resources import as_file, files
from itertools import combinations, product
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray

from chary.data.engines.registry import EMBEDDED

# The built-in data: five study years of the RAND Health Insurance Experiment (public domain), 5,912 people.

# The years of the study.
YEARS = (1, 2, 3, 4, 5)
# None of these classes holds more than a third of the people, so that knowing somebody's tells something.
VISITS = ("none", "1 or 2", "3 to 5", "6 or more")


def people() -> pa.Table:
    """All person-years: year, zper (the person), site, plan, mdvis (doctor visits), meddol (dollars), and more."""
    with as_file(files(__name__.rpartition(".")[0]) / "randhie_stream.csv.gz") as path, gzip.open(path) as stream:
        return pyarrow.csv.read_csv(stream)


def of_year(table: pa.Table, year: int) -> pa.Table:
    """The rows of one study year."""
    return table.filter(pc.equal(table["year"], year))


def first_year() -> pa.Table:
    """The first year: 5,638 people, with age in years and doctor visits in classes.

    >>> first_year().column_names
    ['age', 'female', 'site', 'plan', 'visits']
    """
    first = of_year(people(), 1)
    visits = first["mdvis"]
    classes = [pc.equal(visits, 0), pc.less_equal(visits, 2), pc.less_equal(visits, 5)]
    named = pc.case_when(pc.make_struct(*classes), *VISITS)
    age = pc.floor(first["xage"]).cast(pa.int64())
    return pa.table({"age": age, **{name: first[name] for name in ("female", "site", "plan")}, "visits": named})


def start(path: Path, rows: pa.Table) -> None:
    """A DuckDB file whose table `alarms` holds the first rows."""
    EMBEDDED.store(path, "alarms", rows)


# An alarm system: thousands of public indicators a year, of which one person may be in all, and who is in which.

INDICATORS: Final = 4000
# An indicator has four conditions on different columns. All conditions point one way, so whoever fulfils the last of
# each column is in every indicator: no more can be promised of one person than of INDICATORS a year.
CONDITIONS: Final = 4
# Public, and chosen without looking at the data.
_SEED: Final = 1


class Level(NamedTuple):
    """A condition on a column: at or above a number, or for insurance at or below it, with its wording."""

    column: str
    number: int
    told: str
    most: bool = False

    @property
    def condition(self) -> str:
        """The same as a condition of a query."""
        return f"{self.column} {'<=' if self.most else '>='} {self.number}"

    def holds(self, rows: pa.Table) -> NDArray[np.bool_]:
        """For which rows it holds; never for rows without a value."""
        values: NDArray[Any] = rows[self.column].to_numpy()
        return values <= self.number if self.most else values >= self.number


_LEVELS: Final = (
    [Level("xage", age, f"{age}+ years") for age in (18, 30, 40, 50)],
    [Level("female", 1, "female")],
    [Level("mdvis", visits, f"{visits}+ visits") for visits in (1, 3, 5, 8, 12, 20, 30)],
    [Level("outpdol", paid, f"${paid:,}+ outpatient") for paid in (25, 50, 100, 200, 400, 800)],
    [Level("meddol", paid, f"${paid:,}+ in all") for paid in (50, 100, 250, 500, 1000, 2500)],
    [Level("totadm", stays, f"{stays}+ hospital stays") for stays in (1, 2, 3)],
    [Level("disea", ill, f"illness {ill}+") for ill in (5, 10, 15, 20, 30, 40)],
    [Level("coins", paid, f"pays {paid} % or less", most=True) for paid in (95, 50, 25, 0)],
)


@cache
def indicators() -> Sequence[tuple[Level, ...]]:
    """The conditions of each indicator, by its number.

    >>> len(indicators()), label(0).count(",")
    (4000, 3)
    """
    every = (levels for columns in combinations(_LEVELS, CONDITIONS) for levels in product(*columns))
    return Random(_SEED).sample(list(every), INDICATORS)


def label(indicator: int) -> str:
    """An indicator in words."""
    return ", ".join(level.told for level in indicators()[indicator])


def alarms(table: pa.Table, year: int) -> pa.Table:
    """One row for each person of a year and each indicator that the person is in: zper, year, indicator."""
    rows = of_year(table, year)
    held = {level: level.holds(rows) for column in _LEVELS for level in column}
    inside = [np.flatnonzero(np.logical_and.reduce([held[level] for level in levels])) for levels in indicators()]
    where = np.concatenate(inside)
    return pa.table(
        {
            "zper": rows["zper"].to_numpy()[where],
            "year": np.full(len(where), year),
            "indicator": np.repeat(np.arange(INDICATORS), [len(each) for each in inside]),
        }
    )


def true_counts(rows: pa.Table) -> NDArray[np.int64]:
    """How many people each indicator holds; shown only because these data are public."""
    return np.bincount(rows["indicator"].to_numpy(), minlength=INDICATORS)
