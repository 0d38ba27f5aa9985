"""Ordinary releases over three or ten million rows, beside the bare query that an analyst would write by hand in SQL.

Run as `python benchmarks/release.py [--full]`. All read the same rows in a DuckDB file, in turns; the query by hand
reads a copy, since a process opens a file in one way at a time. "Plan" is the query that chary runs; the rest of a
release is noise and the two commits of a durable ledger. The aim is at most 1.3 times the bare query. A limit on the
rows of a unit is part of the question, so that query stands beside one with the same limit by hand; the plain sum,
which limits nothing, is shown for comparison.
"""

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import duckdb

import chary
from chary import Budget, count
from chary.data import Query
from measuring import announce, full, show, side_by_side
from recording import Against

ROWS = 10_000_000 if full() else 3_000_000
UNITS = ROWS // 10
ROUNDS = 5
AIM = 1.3
EPSILON = Fraction(1, 100)
BOUNDS = (0, 5000)
WHERE = "age >= 65"
CLIPPED = "least(greatest({column}, 0), 5000)"
HEADINGS = ["release", "bare ms", "plan ms", "chary ms", "plan / bare", "chary / bare", "aim"]
LIMITS = [
    Against("release over the query by hand", "chary ms", "bare ms", "chary / bare"),
    Against("plan over the query by hand", "plan ms", "bare ms", "plan / bare"),
]
DATA = f"""
    CREATE TABLE visits AS SELECT (hash(range) % {UNITS})::BIGINT AS patient,
        (hash(range + {ROWS}) % 100)::BIGINT AS age,
        (hash(range + {2 * ROWS}) % 6000)::BIGINT AS days,
        (hash(range + {3 * ROWS}) % 600000) / 100::DOUBLE AS cost
    FROM range({ROWS})
"""


@dataclass(frozen=True)
class Case:
    """A release and the same question by hand; `unit` is the privacy unit."""

    what: str
    query: Query
    by_hand: str
    unit: str | None = "patient"
    aim: float | None = AIM

    def row(self, connection: duckdb.DuckDBPyConnection, file: Path) -> list[str]:
        """One line of the table."""
        budget, ledger = Budget(epsilon=10, delta=1e-6), file.with_name(f"{self.unit}.ledger")
        with chary.open(file, table="visits", privacy_unit=self.unit, budget=budget, ledger=ledger) as session:
            works = [
                lambda: connection.execute(self.by_hand).fetchall(),
                session.spine.rows.prepare(self.query).run,
                lambda: session.release(self.query, epsilon=EPSILON),
            ]
            bare, plan, ours = side_by_side(works, ROUNDS)
        aim = "-" if self.aim is None else f"{self.aim:g}"
        figures = [f"{time * 1e3:.1f}" for time in (bare, plan, ours)]
        return [self.what, *figures, f"{plan / bare:.2f}", f"{ours / bare:.2f}", aim]


def summed(column: str) -> str:
    """The sum of a clipped column, limiting nothing."""
    return f"SELECT sum({CLIPPED.format(column=column)}) FROM visits WHERE {WHERE}"


def limited(column: str, rows: int) -> str:
    """The sum of the largest clipped values of each unit."""
    ranked = "row_number() OVER (PARTITION BY patient ORDER BY value DESC) AS rank"
    clipped = f"SELECT patient, {CLIPPED.format(column=column)} AS value FROM visits WHERE {WHERE}"
    return f"SELECT sum(value) FROM (SELECT value, {ranked} FROM ({clipped})) WHERE rank <= {rows}"


CENTS = chary.sum("cost", bounds=BOUNDS, grid="0.01", where=WHERE)
DAYS = chary.sum("days", bounds=BOUNDS, where=WHERE)
TWO_ROWS = chary.sum("days", bounds=BOUNDS, where=WHERE, max_rows_per_unit=2)
CASES = [
    Case("count of units", count(WHERE), f"SELECT count(DISTINCT patient) FROM visits WHERE {WHERE}"),
    Case("count of rows", count(WHERE), f"SELECT count(*) FROM visits WHERE {WHERE}", unit=None),
    Case("total of whole numbers, row unit", DAYS, summed("days"), unit=None),
    Case("total of floats, grid 0.01, row unit", CENTS, summed("cost"), unit=None),
    Case("total, max_rows_per_unit=2; by hand the same", TWO_ROWS, limited("days", 2)),
    Case("total, max_rows_per_unit=2; by hand the plain sum", TWO_ROWS, summed("days"), aim=None),
]


def rows(folder: Path) -> Iterator[list[str]]:
    """All lines of the table."""
    file = folder / "visits.duckdb"
    with duckdb.connect(file) as connection:
        connection.execute(DATA)
    copied = shutil.copy(file, folder / "bare.duckdb")
    with duckdb.connect(copied, read_only=True) as connection:
        yield from (case.row(connection, file) for case in CASES)


def main() -> None:
    announce()
    with tempfile.TemporaryDirectory(prefix="chary-bench-") as folder:
        show(f"Releases over {ROWS:,} rows of {UNITS:,} units", HEADINGS, rows(Path(folder)), against=LIMITS)


if __name__ == "__main__":
    main()
