"""Individual charging over a million units: a miss, a hit and a keyed watch, beside the bare query by hand.

Run as `python benchmarks/individual.py`. The bare queries know of no counters. The ledger is a file; each stream is
asked when no unit has been counted yet, and again when every unit has a counter, so that the secret state is as large
as it gets. A hit publishes a count of half of the units and raises their counters.
"""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb

import chary
from chary import Budget, count
from chary.calls import Individual, Run
from measuring import announce, seconds, show, side_by_side

UNITS = 1_000_000
ROWS = 3 * UNITS
KEYS = 1_000
ROUNDS = 5
HITS = 20
NEVER = 10**9
DATA = f"""
    SELECT (hash(range % {UNITS}) >> 1)::BIGINT AS unit, (hash(range + {ROWS}) % {KEYS})::BIGINT AS area,
        (hash(range + {2 * ROWS}) % 100)::BIGINT AS age
    FROM range({ROWS})
"""
HALF, KEYED = count("age >= 80"), count("age >= 0").by("area", range(KEYS))
BARE_HALF = "SELECT count(DISTINCT unit) FROM visits WHERE age >= 80"
BARE_KEYED = "SELECT area, count(DISTINCT unit) FROM visits GROUP BY area"
HEADINGS = ["call", "ours ms", "bare query ms", "ours / bare"]


def rows() -> Iterator[list[str]]:
    """All lines of the table."""
    with duckdb.connect() as connection, tempfile.TemporaryDirectory() as folder:
        connection.execute(f"CREATE TABLE visits AS {DATA}")
        source = connection.sql("SELECT * FROM visits").to_arrow_table()
        ledger, budget = Path(folder) / "visits.ledger", Budget(epsilon=1, delta=1e-6)
        with chary.open(source, privacy_unit="unit", budget=budget, ledger=ledger, grain="0.02") as session:
            stream = session.start(Individual(epsilon="0.02", hits=HITS))
            yield from lines(stream, connection, "no unit counted")
            for _ in range(HITS // 2):
                stream.ask(count(), above=0)
            yield from lines(stream, connection, "every unit counted")


def lines(stream: Run, connection: duckdb.DuckDBPyConnection, state: str) -> Iterator[list[str]]:
    """A miss, a watch without hits and a hit."""

    def bare(sql: str) -> Callable[[], object]:
        return lambda: connection.execute(sql).fetchnumpy()

    miss, half = side_by_side([lambda: stream.ask(HALF, above=NEVER), bare(BARE_HALF)], ROUNDS)
    yield line(f"a miss, {state}", miss, half)
    watch, keyed = side_by_side([lambda: stream.ask(KEYED, above=NEVER), bare(BARE_KEYED)], ROUNDS)
    yield line(f"a watch of {KEYS:,} keys, {state}", watch, keyed)
    yield line(f"a hit, {state}", seconds(lambda: stream.ask(HALF, above=0)), half)


def line(name: str, ours: float, bare: float) -> list[str]:
    return [name, f"{ours * 1e3:.0f}", f"{bare * 1e3:.0f}", f"{ours / bare:.2f}"]


def main() -> None:
    announce()
    show(f"Individual charging: {ROWS:,} rows of {UNITS:,} units", HEADINGS, list(rows()))


if __name__ == "__main__":
    main()
