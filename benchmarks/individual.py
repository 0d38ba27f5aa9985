"""Individual charging: sharp tests against Laplace noise at one budget, and its time over 200,000 units or a million.

Run as `python benchmarks/individual.py [--full]`. The bare queries know of no counters. The ledger is a file; each
stream is asked when no unit has been counted yet, and again when every unit has a counter, so that the secret state is
as large as it gets. A hit publishes a count of half of the units and raises their counters.
"""

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import duckdb
import numpy as np
import polars as pl

import chary
from chary import Budget, count
from chary.accounting import Targeted, four_digits_down, largest_size
from chary.accounting.sharp_widths import laplace_width
from chary.calls import IndividualTests, Run
from chary.calls.sharpness import HitTerms
from chary.filters import RenyiFilter
from measuring import announce, full, seconds, show, side_by_side
from recording import Against

UNITS = 1_000_000 if full() else 200_000
ROWS = 3 * UNITS
KEYS = 1_000
ROUNDS = 5
HITS = 20
PRICE, RUNS = Fraction(1, HITS), 20 if full() else 4
FORMS = (".0f", ".3f", ".0f", ".0f")
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
LIMIT = Against("individual charging over its bare query", *HEADINGS[1:])


def rows() -> Iterator[list[str]]:
    """All lines of the table."""
    with duckdb.connect() as connection, tempfile.TemporaryDirectory() as folder:
        connection.execute(f"CREATE TABLE visits AS {DATA}")
        source = connection.sql("SELECT * FROM visits").to_arrow_table()
        ledger, budget = Path(folder) / "visits.ledger", Budget(epsilon=1, delta=1e-6)
        with chary.open(source, privacy_unit="unit", budget=budget, ledger=ledger, grain="0.02") as session:
            stream = session.start(IndividualTests(epsilon="0.02", hits=HITS))
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


def errors() -> Iterator[list[str]]:
    """A thousand areas of 0 to 2,000 units, in random order, watched at 1,000 by streams that take the whole budget."""
    sizes = np.random.default_rng(5).permutation(2 * KEYS) // 2
    units = pl.DataFrame({"area": np.repeat(np.arange(KEYS), 2 * sizes[:KEYS])}).with_row_index("unit")
    with chary.open(units, privacy_unit="unit", budget=Budget(epsilon=1, delta=1e-6), ledger=":memory:") as session:
        least = largest_size(lambda size: _fits(session, size), 1.0)
    streams = {
        "Laplace noise": IndividualTests(epsilon=four_digits_down(least), hits=HITS),
        **{f"sharp, value {share}": IndividualTests(price=PRICE, hits=HITS, value=share) for share in ("0.1", "0.25")},
    }
    truth, bar = 2 * sizes[:KEYS], KEYS
    for name, call in streams.items():
        scores = [_scored(units, call, truth, bar) for _ in range(RUNS)]
        means = [np.mean(column) for column in zip(*scores, strict=True)]
        yield [name, *(f"{mean:{form}}" for mean, form in zip(means, FORMS, strict=True)), f"{_within(call):.0f}"]


def _within(call: IndividualTests) -> float:
    """How far off so many tests may be, 95 times in 100, at the bar that is best for that."""
    if call.epsilon is not None:
        return laplace_width(call.epsilon, tests=KEYS)
    filter_ = RenyiFilter.best(Budget(epsilon=1, delta=1e-6))
    terms = HitTerms.found(replace(call, tests=KEYS).wanted, filter_, Fraction(1), call.value_share)
    return terms.sharpness().within(KEYS, "0.95").error


def _fits(session: chary.Session, epsilon: float) -> bool:
    filter_ = session.spine.filter
    return filter_.price(Targeted(Fraction(epsilon))).hit.copies_in(filter_.capacity) >= HITS


def _scored(units: pl.DataFrame, call: IndividualTests, truth: np.ndarray, bar: int) -> tuple[float, ...]:
    """Hits, F1, how far from the bar the worst key is that was told wrongly, the error of values."""
    with chary.open(units, privacy_unit="unit", budget=Budget(epsilon=1, delta=1e-6), ledger=":memory:") as session:
        found = session.start(call).ask(count().by("area", range(KEYS), max_groups_per_unit=1), above=bar)
    above = {area: value for (area,), value in found.above.items()}
    hit, should = np.isin(np.arange(KEYS), list(above)), truth >= bar
    wrong = np.abs(truth - bar)[hit != should].max(initial=0)
    off = np.sqrt(np.mean([(value - truth[area]) ** 2 for area, value in above.items()]))
    return len(above), 2 * (hit & should).sum() / (hit.sum() + should.sum()), wrong, off


def main() -> None:
    announce()
    headings = ["stream", "hits", "F1", "farthest wrong", "error of values", "all within"]
    show(f"{KEYS:,} keys, {HITS} hits a unit for (1, 1e-6), the mean of {RUNS} runs", headings, errors())
    show(f"Individual charging: {ROWS:,} rows of {UNITS:,} units", HEADINGS, rows(), against=[LIMIT])


if __name__ == "__main__":
    main()
