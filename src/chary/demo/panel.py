"""The built-in data: five study years of the RAND Health Insurance Experiment (public domain), 5,912 people."""

import gzip
from importlib.resources import as_file, files
from pathlib import Path

import pyarrow as pa
import pyarrow.csv

from chary.data.engines.chosen import ENGINE

# As in the study.
YEARS = (1, 2, 3, 4, 5)


def people() -> pa.Table:
    """All person-years: year, zper (the person), site, plan, mdvis (doctor visits), meddol (dollars), and more."""
    with as_file(files("chary.demo") / "randhie_stream.csv.gz") as path, gzip.open(path) as stream:
        return pyarrow.csv.read_csv(stream)


def of_year(table: pa.Table, year: int) -> pa.Table:
    """The rows of one study year."""
    return table.filter(pa.compute.equal(table["year"], year))


def start(path: Path, rows: pa.Table) -> None:
    """A DuckDB file whose table `alarms` holds the first rows."""
    ENGINE.store(path, "alarms", rows)
