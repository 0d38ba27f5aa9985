"""What the kept ledgers are about, and how each is opened."""

from pathlib import Path

import duckdb

import chary
from chary import Budget
from tests.conformance.sample import PATIENTS, REPLACED, ROWS, VOTES
from tests.conformance.samples import FIRST
from tests.session.kit import PUBLIC, USUAL, open_teachers, visits

ROOM = Budget(epsilon=2, delta=1e-6)
# What was asked of a ledger that was copied with the log beside it.
LEFT = ("release", "release_if", "sparse_test")
# Kinds that the pure and the exact filter price, too; the others need prices at a Renyi order.
SIMPLE = ("release", "test", "release_if", "revise", "watch", "call", "track", "top", "sparse_vector", "sparse_test")


def of_table(ledger, **options):
    """Patients, added or removed."""
    return chary.open(visits(), privacy_unit="patient", budget=ROOM, ledger=ledger, **options)


def of_replaced(ledger, **options):
    """Patients, replaced."""
    return of_table(ledger, neighbors="replace", **options)


def of_rows(ledger, **options):
    """Visits, replaced; how many there are is public."""
    return chary.open(visits(), budget=ROOM, ledger=ledger, **PUBLIC, **options)


def of_votes(ledger, **options):
    """Votes of teachers."""
    return open_teachers(budget=ROOM, ledger=ledger, **options)


def of_pure(ledger, **options):
    """Patients, under the pure filter."""
    return chary.open(visits(), privacy_unit="patient", budget=Budget(epsilon=2), ledger=ledger, **options)


def of_exact(ledger, **options):
    """Patients, under the exact filter."""
    return of_table(ledger, filter="exact", grain="0.01", **options)


def of_series(ledger, **options):
    """Aggregated counts."""
    rows = visits().assign(number=range(120))[["number"]]
    return chary.open_counts(rows, column="number", sensitivity=1, budget=USUAL, ledger=ledger, **options)


def of_database(ledger, **options):
    """Patients in a DuckDB file that grew by one batch; the file is made beside the ledger."""
    place = Path(ledger).with_name("visits.duckdb")
    if not place.exists():
        rows = visits()  # noqa: F841 - the engine finds it by its name
        with duckdb.connect(str(place)) as connection:
            connection.execute("CREATE TABLE visits AS SELECT * FROM rows")
    return chary.open(str(place), table="visits", privacy_unit="patient", budget=USUAL, ledger=ledger, **options)


def of_file(ledger, **options):
    """Patients in a CSV whose columns are declared; the file is made beside the ledger."""
    place = Path(ledger).with_name("visits.csv")
    visits().to_csv(place, index=False)
    types = {"patient": "BIGINT", "clinic": "VARCHAR", "age": "BIGINT", "cost": "DOUBLE", "note": "VARCHAR"}
    return chary.open(str(place), columns=types, privacy_unit="patient", budget=USUAL, ledger=ledger, **options)


def _these(names):
    return {name: FIRST[name] for name in names}


def _asked_of(rows):
    return {name: sample for name, sample in FIRST.items() if sample.rows == rows}


LOW = {"above": 60, "epsilon": "0.01", "below_margin": True}
SERIES = {"watch of a series": lambda s, name: lambda key: s.release_if(s.series(), **LOW, request=key)}
LEDGERS = {
    "table": (of_table, _asked_of(PATIENTS)),
    "replaced": (of_replaced, _asked_of(REPLACED)),
    "rows": (of_rows, _asked_of(ROWS)),
    "votes": (of_votes, _asked_of(VOTES)),
    "pure": (of_pure, _these(SIMPLE)),
    "exact": (of_exact, _these(SIMPLE)),
    "series": (of_series, SERIES),
    "file": (of_file, _these(("release", "release of keys", "watch"))),
    "database": (of_database, _these(("release", "release_if", "watch"))),
}


def more_rows():
    """A batch for the database."""
    return visits().head(3)
