"""Session calls a second on a small table, what each adds to its bare query, and the commits it cannot do without.

Run as `python benchmarks/session.py`. A durable call commits twice, so two bare SQLite commits in the same folder are
its limit; a call in memory may add 100 us to its query. Calls, bare queries and bare commits take turns one by one.
What is added is clocked within each call, from its start to the query and from the query to its end. Rows that answer
at once ("no query") show the same without the engine, which leaves cold caches behind.

What a new process takes to its first answer is told in CPU time, beside the imports that it cannot do without.
"""

import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from importlib.util import find_spec
from operator import itemgetter
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

import chary
from chary import Algorithm, Budget, Session, count
from chary.calls import RunAlgorithm
from chary.data import NeighborRelation
from chary.session.opening import BudgetChoice, Place, session_of
from measuring import QueryClock, Work, announce, seconds, show
from recording import Against

ROWS = 2_000
ROUNDS = 5
REPEATS = {"no query": 200, "in memory": 200, "durable": 30}
AIM = 100e-6
EPSILON = Fraction(1, 1000)
QUERY = count("age >= 65")
FAR = 10**6
HEADINGS = ["call, ledger", "calls/s", "us a call", "bare query us", "added us", "limit us", "added / limit"]
LIMIT = Against("added by a call", "added us", "limit us", "added / limit")

STARTS = 7
# A table that was read by Arrow, a ledger in a file.
OPENED = """
import chary, pyarrow.csv
from pathlib import Path
rows = pyarrow.csv.read_csv(Path(chary.__file__).parent / "demo" / "randhie_stream.csv.gz")
session = chary.open(rows, privacy_unit=None, budget=chary.Budget(epsilon=1, delta=1e-6), ledger="visits.ledger")
"""
TESTED = f"{OPENED}session.test(chary.count(), above=100, epsilon=0.01)"
BARE = "import duckdb, numpy, pyarrow"
STARTED = {
    "chary --help": ["-m", "chary", "--help"],
    "open": ["-c", OPENED],
    "open, first test": ["-c", TESTED],
    "import opendp": ["-c", "import opendp.prelude"],
}
START_HEADINGS = ["new process", "CPU ms", "bare imports ms", "ratio"]
START_LIMIT = Against("start", "CPU ms", "bare imports ms", "ratio")


class Answered:
    """Rows whose every plan answers at once."""

    schema: ClassVar = {"patient": "int64", "age": "int64"}
    neighbor_relation = NeighborRelation("add_remove", "patient")
    query = QUERY

    def fingerprint(self) -> str:
        return "answered"

    def prepare(self, query: Any) -> "Answered":
        return self

    def snapshot(self, columns: Any = None) -> "Answered":
        return self

    def run(self) -> int:
        return ROWS // 6

    def append(self, rows: Any) -> None:
        return

    def close(self) -> None:
        return


@dataclass(frozen=True)
class Desk:
    """An open session, the clock of its queries, and a bare commit in the folder of its ledger."""

    ledger: str
    session: Session
    clock: QueryClock
    commit: Work

    def row(self, what: str, call: Work, bare: Work) -> list[str]:
        """One line of the table: medians of the round in which least was added."""
        rounds = [[self.sample(call, bare) for _ in range(REPEATS[self.ledger])] for _ in range(ROUNDS)]
        medians = [tuple(map(statistics.median, zip(*samples, strict=True))) for samples in rounds]
        whole, added, query, commit = min(medians, key=itemgetter(1))
        limit = 2 * commit if self.ledger == "durable" else AIM
        figures = [f"{time * 1e6:.0f}" for time in (whole, query, added, limit)]
        return [f"{what}, {self.ledger}", f"{1 / whole:,.0f}", *figures, f"{added / limit:.2f}"]

    def sample(self, call: Work, bare: Work) -> tuple[float, float, float, float]:
        """Times of one call, of its part outside of the query, of a bare query and of a bare commit."""
        return *self.clock.split(call), seconds(bare), seconds(self.commit)

    def calls(self) -> dict[str, tuple[Work, Work]]:
        """Every kind of call, and what it reads; thresholds are so far off that each test comes out the same way."""
        session, constant = self.session, Algorithm("constant", lambda rows, source: 3, epsilon=EPSILON)
        query, snapshot = session.spine.rows.prepare(QUERY).run, session.spine.rows.snapshot().run
        return {
            "test, miss": (lambda: session.test(QUERY, above=FAR, epsilon=EPSILON), query),
            "test, hit": (lambda: session.test(QUERY, above=-FAR, epsilon=EPSILON), query),
            "release_if, miss": (lambda: session.release_if(QUERY, above=FAR, epsilon=EPSILON), query),
            "release_if, hit": (lambda: session.release_if(QUERY, above=-FAR, epsilon=EPSILON), query),
            "release": (lambda: session.release(QUERY, epsilon=EPSILON), query),
            "call, miss": (lambda: session.ask(RunAlgorithm(constant, prior=3)), snapshot),
            "call, paid": (lambda: session.ask(RunAlgorithm(constant)), snapshot),
        }


def table() -> pa.Table:
    """Two rows a patient."""
    return pa.table({"patient": [row // 2 for row in range(ROWS)], "age": [row * 37 % 101 for row in range(ROWS)]})


def desk(ledger: str, folder: Path, commit: Work) -> Desk:
    """A session with room for all calls."""
    clock, budget = QueryClock(), Budget(epsilon=1000, delta=1e-6)
    where = folder / "visits.ledger" if ledger == "durable" else ":memory:"
    if ledger == "no query":
        names = "visits", "visits"
        session = session_of(Answered(), BudgetChoice(budget), Place(where), names, on_step=clock)
    else:
        session = chary.open(
            table(), privacy_unit="patient", budget=budget, ledger=where, dataset="visits", on_step=clock
        )
    return Desk(ledger, session, clock, commit)


@contextmanager
def committing(path: Path) -> Iterator[Work]:
    """A commit of one small row that reaches the disk."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for setting in ("journal_mode=DELETE", "synchronous=EXTRA", "fullfsync=ON"):
            connection.execute(f"PRAGMA {setting}")
        connection.execute("CREATE TABLE floor (number INTEGER PRIMARY KEY, body TEXT)")
        yield lambda: connection.execute("INSERT INTO floor (body) VALUES (?)", ("x" * 200,))


def rows(folder: Path) -> Iterator[list[str]]:
    """All lines of the table."""
    with ExitStack() as stack:
        commit = stack.enter_context(committing(folder / "floor.db"))
        for ledger in REPEATS:
            at = desk(ledger, folder, commit if ledger == "durable" else lambda: None)
            stack.enter_context(at.session)
            yield from (at.row(what, call, bare) for what, (call, bare) in at.calls().items())


def started(arguments: list[str]) -> float:
    """The CPU time of one new process, in a folder of its own, in seconds."""
    with tempfile.TemporaryDirectory(prefix="chary-bench-") as folder:
        process = subprocess.Popen([sys.executable, *arguments], cwd=folder, stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, arguments)
    return used.ru_utime + used.ru_stime


def starts() -> Iterator[list[str]]:
    """The CPU time of new processes, each beside the bare imports; medians of runs that take turns."""
    for what, arguments in STARTED.items():
        if "opendp" in what and find_spec("opendp") is None:
            continue
        pairs = [(started(arguments), started(["-c", BARE])) for _ in range(1 + STARTS)][1:]
        whole, bare = (statistics.median(times) for times in zip(*pairs, strict=True))
        yield [what, f"{whole * 1e3:.0f}", f"{bare * 1e3:.0f}", f"{whole / bare:.2f}"]


def main() -> None:
    announce()
    caption = f"Bare imports: {BARE}. Medians of {STARTS} runs."
    show("CPU time of a new process to its first answer", START_HEADINGS, starts(), caption, [START_LIMIT])
    with tempfile.TemporaryDirectory(prefix="chary-bench-") as folder:
        caption = f"Limit in memory: {AIM * 1e6:.0f} us. Limit of a durable call: two bare commits."
        show(f"Session calls on {ROWS:,} rows", HEADINGS, rows(Path(folder)), caption, [LIMIT])


if __name__ == "__main__":
    main()
