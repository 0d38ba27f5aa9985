"""The built-in data: five study years of the RAND Health Insurance Experiment (public domain), 5,912 people."""

import gzip
from importlib.resources import as_file, files
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from chary.data.engines.registry import EMBEDDED

# As in the study.
YEARS = (1, 2, 3, 4, 5)
# None of these classes holds more than a third of the people, so that knowing somebody's tells something.
VISITS = ("none", "1 or 2", "3 to 5", "6 or more")


def people() -> pa.Table:
    """All person-years: year, zper (the person), site, plan, mdvis (doctor visits), meddol (dollars), and more."""
    with as_file(files("chary.demo") / "randhie_stream.csv.gz") as path, gzip.open(path) as stream:
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
