"""Private sketches of a million units beside the engine's own counts, and streams chosen by the answers.

Run as `python benchmarks/sketches.py`. Neither of the engine's counts is private, and neither is kept between
questions: their limit is a scan. Times are the best of several rounds; a first reading happens once for each sketch.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from random import Random

import duckdb
import numpy as np
import pyarrow as pa

import chary
from chary import Budget, Session, count
from chary.mechanisms import Distinct, SecondMoment, new_key
from chary.noise import OperatingSystem
from chary.streaming import RobustStream
from measuring import announce, best, duration, seconds, show

UNITS = 1_000_000
BATCH = 10_000
ROUNDS = 5
ROBUST = {"step": "0.5", "largest": 10**7, "budget": Budget(epsilon=3, delta=1e-12), "hits": 16}


def people(start: int, stop: int) -> pa.Table:
    """One row a unit."""
    return pa.table({"unit": np.arange(start, stop), "age": np.arange(start, stop) % 100})


def opened() -> Session:
    """A session with room for everything."""
    return chary.open(
        people(0, UNITS), privacy_unit="unit", budget=Budget(epsilon=10**4, delta=1e-6), ledger=":memory:"
    )


def reading(session: Session) -> Iterator[list[str]]:
    """First reading, reading of appended rows, an estimate alone."""
    sketches = [session.sketch(epsilon=1) for _ in range(ROUNDS)]
    yield ["sketch: first question, all rows read", duration(min(seconds(sketch.release) for sketch in sketches))]
    times = []
    for number in range(ROUNDS):
        session.append(people(UNITS + number * BATCH, UNITS + (number + 1) * BATCH))
        times.append(seconds(sketches[0].release))
    yield [f"sketch: after {BATCH:,} appended rows", duration(min(times))]
    yield ["sketch: another question, nothing read", duration(best(sketches[0].release))]
    yield ["count() released with noise", duration(best(lambda: session.release(count(), epsilon=1)))]


def engine() -> Iterator[list[str]]:
    """What the engine counts without privacy."""
    with duckdb.connect() as connection:
        connection.register("source", people(0, UNITS))
        connection.execute("CREATE TABLE people AS SELECT * FROM source")
        for what in ("count(DISTINCT unit)", "approx_count_distinct(unit)"):
            sql = f"SELECT {what} FROM people"
            yield [f"{what}, not private", duration(best(lambda sql=sql: connection.execute(sql).fetchall()))]


def errors() -> Iterator[list[str]]:
    """The largest of the measured errors of 20 sketches of 100,000 elements, beside what is promised."""
    source = OperatingSystem()
    for epsilon, registers, veils in (("0.1", 1024, 1), ("1", 1024, 1), ("1", 1024, 10), ("1", 16384, 1)):
        distinct, found = Distinct(epsilon, registers), []
        for _ in range(20):
            sketch = distinct.start(source)
            for _ in range(veils - 1):
                sketch = sketch.veil(source)
            found.append(sketch.update(source.words(100_000, 64)).estimate() / 100_000 - 1)
        promised = distinct.error_bar(100_000, veils=veils) / 100_000
        inside = sum(abs(error) <= promised for error in found)
        yield [f"epsilon {epsilon}, {registers:,} registers, {veils} veils", f"{promised:.1%}", f"{inside} of 20"]


def fooled(ask: Callable[[int], float], *, distinct: int) -> tuple[int, float]:
    """An analyst who repeats an item while the estimate falls: the length of the stream and the worst error factor."""
    counts: Counter[int] = Counter()
    worst = 1.0

    def fed(item: int) -> float:
        nonlocal worst
        counts[item] += 1
        said, truth = ask(item), sum(n * n for n in counts.values())
        worst = max(worst, truth / said if said else float("inf"), said / truth)
        return said

    before = [fed(0) for _ in range(150)][-1]
    for item in Random(1).sample(range(1, 10**9), distinct):
        falling = True
        while falling:
            after = fed(item)
            before, falling = after, after < before
    return sum(counts.values()), worst


def attacked() -> Iterator[list[str]]:
    """The plain estimator and robust streams of several sizes under the same analyst."""
    plain = SecondMoment(new_key(OperatingSystem()))

    def ask(item: int) -> float:
        plain.update(item)
        return plain.estimate()

    length, worst = fooled(ask, distinct=1000)
    yield ["plain", f"{length:,}", f"{worst:.1f}", "-", "-", "-"]
    for copies in (2000, 3000):
        stream = RobustStream(SecondMoment, copies=copies, **ROBUST)

        def ask_all(item: int, stream: RobustStream = stream) -> float:
            stream.update(item)
            return stream.answer().value

        figures: list[tuple[int, float]] = []
        taken = seconds(lambda ask=ask_all, figures=figures: figures.append(fooled(ask, distinct=1000)))
        length, worst = figures[0]
        risk = stream.risk(wrong=1e-4, answers=length)
        row = [f"{worst:.1f}", str(stream.changes), f"{risk:.1g}", duration(taken / length)]
        yield [f"robust, {copies:,} copies", f"{length:,}", *row]


def main() -> None:
    announce()
    with opened() as session:
        show(f"{UNITS:,} units", ["what", "time"], [*reading(session), *engine()])
    show("Errors on 100,000 elements", ["sketch", "promised, 95 %", "inside"], errors())
    headings = ["second moment", "items", "worst error factor", "changes", "risk at wrong=1e-4", "an item and answer"]
    show("A stream of 1,000 different items chosen by the answers", headings, attacked())


if __name__ == "__main__":
    main()
