"""The figures that `make bench-guard` measures again: a call of ours beside its limit, small enough for every change.

Run as `python benchmarks/guarded.py`. Calls and limits take turns. The limits: the time in which the operating system
gives the random bytes that noise draws, NumPy in memory, DuckDB's own query, bare commits of SQLite. Rows that did not
change answer a known question from memory: that is what releases "again" and the tests on few rows do. The other calls
over half a million rows ask another question each time, by a condition that holds for every row. "Adds" is what the
limit leaves. Each line is of three measurements the one with the median ratio.
"""

import itertools
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

import chary
from chary import Budget, Universe, count
from chary.calls import Quantile
from chary.data import Predicate, Query
from chary.data.universe.regions import located, matrix
from chary.mechanisms import PermuteAndFlip
from chary.mechanisms.weights import PublicHistogram
from chary.noise import OperatingSystem, discrete_gaussian, discrete_laplace
from durability import OURS, charging, committing
from measuring import Work, announce, duration, seconds, show
from noise import Counting
from recording import Against
from session import QUERY
from session import table as few_rows

LASTING, ROUNDS, MEASURED = 2.5, 9, 3
GIVEN_BACK = 30 * 2**20 // 8
ROWS, UNITS, KEYS, DRAWN, COUNTS = 500_000, 50_000, 10_000, 100_000, 100_000
KEY = "ours over its limit"
HEADINGS = ["what; its limit", "ours", "limit", "ours / limit", "adds"]
EPSILON = Fraction(1, 1000)
FAR = 10**7
DATA = f"""
    SELECT hash(range) % {UNITS} AS unit, (hash(range + {ROWS}) % {KEYS})::BIGINT AS area,
        (hash(range + {2 * ROWS}) % 100)::BIGINT AS age
    FROM range({ROWS})
"""


@dataclass(frozen=True)
class Pair:
    """A call of ours and its limit."""

    ours: Work
    limit: Work

    def times(self, lasting: float = LASTING) -> tuple[float, float]:
        """Times of both, calls taking turns one by one for so many seconds and ROUNDS times at least.

        The best of each, or the medians of each, whichever has the lower ratio: short calls have a good best even on a
        busy machine, but a long one, or a disk, that others use at the same time has none.
        """
        # A C library that has given back a block of this size keeps smaller ones from then on. Otherwise both times
        # would depend on what the modules that happen to be imported have given back before.
        np.empty(GIVEN_BACK)
        end, times = time.perf_counter() + lasting, []
        while len(times) < ROUNDS or time.perf_counter() < end:
            times.append((seconds(self.ours), seconds(self.limit)))
        found = [tuple(map(each, zip(*times, strict=True))) for each in (min, statistics.median)]
        ours, limit = min(found, key=lambda pair: pair[0] / pair[1])
        return ours, limit


Check = Callable[[Path], AbstractContextManager[Pair]]


def noise(draw: Callable[[OperatingSystem], object]) -> Check:
    """Samples beside the bytes of the operating system that they take."""

    @contextmanager
    def check(folder: Path) -> Iterator[Pair]:
        source = Counting()
        draw(source)
        yield Pair(lambda: draw(OperatingSystem()), lambda: os.urandom(source.drawn))

    return check


@contextmanager
def choice(folder: Path) -> Iterator[Pair]:
    """The choice of a large count beside float noise on all of them, which leaks."""
    counts, generator, source = np.arange(COUNTS) % 1009, np.random.default_rng(1), OperatingSystem()
    chooser = PermuteAndFlip("0.1", 1, monotone=True)
    yield Pair(partial(chooser.step, counts, source), lambda: np.argmax(counts + generator.exponential(10, COUNTS)))


@contextmanager
def histogram(folder: Path) -> Iterator[Pair]:
    """A change of half of a million cells beside multiplying half a million floats in place."""
    schema = dict.fromkeys(("c0", "c1", "c2"), "int64")
    universe = Universe({name: range(99) for name in schema})
    region, _ = located(universe, schema, Predicate.parse("c1 < 50"))
    cells, floats = PublicHistogram(*matrix(universe)), np.ones(int(region.flags().sum()), np.float32)
    factors = np.full_like(floats, 1.0001)
    yield Pair(lambda: cells.multiply(region, 1.0001), lambda: np.multiply(floats, factors, out=floats))


def engine(unit: str | None, by_hand: str, call: Callable[[chary.Session, str], object]) -> Check:
    """A call over half a million rows in memory beside the same question by hand.

    `call` takes a condition that holds for every row and is another one each time. By hand it takes two processors, as
    recorded: where there are more, a ratio to all of them would grow by what no processor shares.
    """

    @contextmanager
    def check(folder: Path) -> Iterator[Pair]:
        with duckdb.connect(config={"threads": 2}) as connection:
            connection.execute(f"CREATE TABLE visits AS {DATA}")
            source = connection.sql("SELECT * FROM visits").to_arrow_table()
            budget = Budget(epsilon=1000, delta=1e-6)
            always = (f"age >= -{number}" for number in itertools.count(1))
            with chary.open(source, privacy_unit=unit, budget=budget, ledger=":memory:") as session:
                yield Pair(lambda: call(session, next(always)), lambda: connection.execute(by_hand).fetchnumpy())

    return check


def released(query: Query) -> Callable[[chary.Session, str], object]:
    return lambda session, always: session.release(query, epsilon=EPSILON)


def areas(session: chary.Session, always: str) -> object:
    """No key reaches the threshold, so all are tested."""
    query = count(always).by("area", range(KEYS), max_groups_per_unit=1)
    return session.release_if(query, above=FAR, epsilon=EPSILON)


def median(session: chary.Session, always: str) -> object:
    return session.ask(Quantile("age", ["0.5"], bounds=(0, 120), where=always, epsilon=EPSILON))


@contextmanager
def small_test(folder: Path) -> Iterator[Pair]:
    """A test on two thousand rows beside its bare answer."""
    with chary.open(few_rows(), privacy_unit="patient", budget=Budget(epsilon=1000), ledger=":memory:") as session:
        query = session.spine.rows.prepare(QUERY).run
        yield Pair(lambda: session.test(QUERY, above=FAR, epsilon=EPSILON), query)


@contextmanager
def durable_test(folder: Path) -> Iterator[Pair]:
    """The same with a ledger in a file, beside its bare answer and two bare commits."""
    ledger = folder / "visits.ledger"
    rows: pa.Table = few_rows()
    with (
        chary.open(rows, privacy_unit="patient", budget=Budget(epsilon=1000), ledger=ledger, dataset="v") as session,
        committing(folder / "floor.db", *OURS) as twice,
    ):
        query = session.spine.rows.prepare(QUERY).run
        yield Pair(lambda: session.test(QUERY, above=FAR, epsilon=EPSILON), lambda: (query(), twice()))


@contextmanager
def durable_call(folder: Path) -> Iterator[Pair]:
    """A call reserved and settled in a ledger, beside two bare commits."""
    with charging(folder / "plain.ledger") as call, committing(folder / "bare.db", *OURS) as twice:
        yield Pair(call, twice)


COUNT, SUM = "SELECT count(*) FROM visits WHERE age >= 65", "SELECT sum(age) FROM visits WHERE area >= 5000"
MEDIAN = "SELECT quantile_disc(age, 0.5) FROM visits"
PER_AREA = "SELECT area, count(DISTINCT unit) FROM visits GROUP BY area"
ADULTS, AGES = count("age >= 65"), chary.sum("age", bounds=(0, 100), where="area >= 5000")
CHECKS: dict[str, Check] = {
    "100,000 Laplace samples, scale 50; os.urandom": noise(lambda s: discrete_laplace(s, Fraction(50), DRAWN)),
    "100,000 Gaussian samples, sigma 50; os.urandom": noise(lambda s: discrete_gaussian(s, Fraction(2500), DRAWN)),
    "a choice among 100,000 counts; NumPy": choice,
    "a change of half a million cells; NumPy": histogram,
    "release of a count of 500,000 rows, again; DuckDB": engine(None, COUNT, released(ADULTS)),
    "release of a total of 500,000 rows, again; DuckDB": engine(None, SUM, released(AGES)),
    "release above a threshold, 10,000 keys, 50,000 units; DuckDB": engine("unit", PER_AREA, areas),
    "the median of 500,000 values; DuckDB": engine(None, MEDIAN, median),
    "a test on 2,000 rows, in memory; its answer": small_test,
    "a test on 2,000 rows, durable; its answer, two commits": durable_test,
    "a durable call of a ledger; two commits": durable_call,
}


def row(name: str, check: Check) -> list[str]:
    """One line of the table: of several measurements the one with the median ratio."""
    with tempfile.TemporaryDirectory(prefix="chary-bench-") as folder, check(Path(folder)) as pair:
        found = sorted((pair.times() for _ in range(MEASURED)), key=lambda times: times[0] / times[1])
    ours, limit = found[MEASURED // 2]
    return [name, duration(ours), duration(limit), f"{ours / limit:.3g}", duration(max(0, ours - limit))]


def main() -> None:
    announce()
    lines = (row(*each) for each in CHECKS.items())
    show("Guarded figures", HEADINGS, lines, against=[Against(KEY, *HEADINGS[1:4])])


if __name__ == "__main__":
    main()
