"""The built-in data: five study years of the RAND Health Insurance Experiment (public domain), 5,912 people."""

import gzip
from importlib.resources import as_file, files
from itertools import product
from pathlib import Path

import pyarrow as pa
import pyarrow.csv

from chary.data.engines.chosen import ENGINE

# As in the study: five years, and plans and sites by their numbers there.
YEARS = (1, 2, 3, 4, 5)
GROUPS = list(product(range(1, 7), range(1, 20)))
"""The public keys: six sites by nineteen insurance plans."""


def people() -> pa.Table:
    """All person-years: year, zper (the person), site, plan, mdvis (doctor visits), meddol (dollars), and more."""
    with as_file(files("chary.demo") / "randhie_stream.csv.gz") as path, gzip.open(path) as stream:
        return pyarrow.csv.read_csv(stream)


def of_year(table: pa.Table, year: int) -> pa.Table:
    """The rows of one study year."""
    return table.filter(pa.compute.equal(table["year"], year))


def start(path: Path, rows: pa.Table) -> None:
    """A DuckDB file whose table `people` holds the first rows."""
    ENGINE.store(path, "people", rows)


def true_count(table: pa.Table, year: int, visits: int, group: tuple[int, int]) -> int:
    """How many people of a group had that many visits in a year; shown only because these data are public."""
    compute, (site, plan) = pa.compute, group
    chosen = compute.and_(compute.equal(table["year"], year), compute.greater_equal(table["mdvis"], visits))
    chosen = compute.and_(chosen, compute.and_(compute.equal(table["site"], site), compute.equal(table["plan"], plan)))
    return int(compute.sum(chosen).as_py())
