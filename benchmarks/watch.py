"""A watch over many keys of a large table, beside its bare plan and a GROUP BY written by hand.

Run as `python benchmarks/watch.py`. The query by hand counts distinct units for each key and limits nothing; hence
`max_groups_per_unit` shows what enforcing the limit costs. Calls take turns; every figure is the best of
several rounds. What a watch adds is clocked around the query within each call.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import duckdb

import chary
from chary import Budget, Session, count
from measuring import QueryClock, announce, show, side_by_side
from recording import Against

ROWS = 1_000_000
UNITS = 100_000
KEYS = (1_000, 100_000)
ROUNDS = 5
EPSILON = "0.1"
ABOVE = 10_000
DATA = f"""
    SELECT hash(range) % {UNITS} AS unit, (hash(range + {ROWS}) % 1000)::BIGINT AS k1000,
        (hash(range + {2 * ROWS}) % 100000)::BIGINT AS k100000
    FROM range({ROWS})
"""
HEADINGS = [
    "keys, limit",
    "by hand ms",
    "plan ms",
    "watch ms",
    "plan / by hand",
    "watch / plan",
    "watch adds ms",
    "us a key",
]
LIMITS = [
    Against("watch over its plan", "watch ms", "plan ms", "watch / plan"),
    Against("plan over the query by hand", "plan ms", "by hand ms", "plan / by hand"),
]


@dataclass(frozen=True)
class Desk:
    """The rows in a session, the clock of its queries, and the same rows by hand."""

    session: Session
    clock: QueryClock
    connection: duckdb.DuckDBPyConnection

    def row(self, keys: int, keep: int | None) -> list[str]:
        """One line of the table."""
        query = count().by(f"k{keys}", range(keys), max_groups_per_unit=keep)
        by_hand = f"SELECT k{keys}, count(DISTINCT unit) FROM visits GROUP BY k{keys}"
        watch = partial(self.session.release_if, query, above=ABOVE, epsilon=EPSILON)
        works = [
            lambda: self.connection.execute(by_hand).fetchnumpy(),
            self.session.spine.rows.prepare(query).run,
            watch,
        ]
        hand, bare, whole = side_by_side(works, ROUNDS)
        added = min(self.clock.split(watch)[1] for _ in range(ROUNDS))
        figures = [f"{time * 1e3:.0f}" for time in (hand, bare, whole)]
        ratios = [f"{bare / hand:.2f}", f"{whole / bare:.2f}", f"{added * 1e3:.1f}", f"{added / keys * 1e6:.2f}"]
        return [f"{keys:,}, {'none' if keep is None else f'max_groups_per_unit={keep}'}", *figures, *ratios]


def rows() -> Iterator[list[str]]:
    """All lines of the table."""
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE visits AS {DATA}")
        source = connection.sql("SELECT * FROM visits").to_arrow_table()
        budget, clock = Budget(epsilon=10, delta=1e-6), QueryClock()
        with chary.open(source, privacy_unit="unit", budget=budget, ledger=":memory:", on_step=clock) as session:
            desk = Desk(session, clock, connection)
            for keys in KEYS:
                yield from (desk.row(keys, keep) for keep in (1, None))


def main() -> None:
    announce()
    caption = f"No key reaches the threshold of {ABOVE:,}, so every watch tests all keys; the ledger is in memory."
    show(f"A watch over {ROWS:,} rows of {UNITS:,} units", HEADINGS, rows(), caption, LIMITS)


if __name__ == "__main__":
    main()
