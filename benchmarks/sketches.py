"""Private sketches beside exact noisy counts and the engine's own counts, and streams chosen by the answers.

Run as `python benchmarks/sketches.py [--full]`. The engine's counts are not private, and neither they nor a noisy count
are kept between questions: their limit is a scan. Errors are root mean squares of RUNS runs; times are the best of
several rounds; a first reading happens once for each sketch.
"""

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import product
from typing import NamedTuple

import duckdb
import numpy as np
import pyarrow as pa

import chary
from chary import Budget, Session, count
from chary.calls import DistinctSketch
from chary.mechanisms import Distinct, Estimator, FlajoletMartin, SecondMoment, new_key, words
from chary.mechanisms.sketches import RegisterLaw, largest_value, raised
from chary.noise import OperatingSystem
from chary.streaming import ItemFrequency, RobustStream, cancelling
from measuring import announce, best, duration, full, seconds, show

UNITS = 1_000_000 if full() else 300_000
COUNTED = 100_000
BATCH = 10_000
ROUNDS = 5
RUNS = 200 if full() else 25
# Of the streams that are chosen, and of the one that nobody chose.
ITEMS, FIXED = (1000, 300) if full() else (100, 20)
SOURCE = OperatingSystem()


def people(start: int, stop: int) -> pa.Table:
    """One row a unit."""
    return pa.table({"unit": np.arange(start, stop), "age": np.arange(start, stop) % 100})


def opened(units: int) -> Session:
    """A session with room for everything."""
    budget = Budget(epsilon=10**4, delta=1e-6)
    return chary.open(people(0, units), privacy_unit="unit", budget=budget, ledger=":memory:")


def reading(session: Session) -> Iterator[list[str]]:
    """First reading, reading of appended rows, an estimate alone."""
    sketches = [session.start(DistinctSketch(epsilon=1)) for _ in range(ROUNDS)]
    yield ["sketch: first question, all rows read", duration(min(seconds(sketch.ask) for sketch in sketches))]
    times = []
    for number in range(ROUNDS):
        session.append(people(UNITS + number * BATCH, UNITS + (number + 1) * BATCH))
        times.append(seconds(sketches[0].ask))
    yield [f"sketch: after {BATCH:,} appended rows", duration(min(times))]
    yield ["sketch: another question, nothing read", duration(best(sketches[0].ask))]
    yield ["count() released with noise", duration(best(lambda: session.release(count(), epsilon=1)))]


def engine() -> Iterator[list[str]]:
    """What the engine counts without privacy."""
    with duckdb.connect() as connection:
        connection.register("source", people(0, UNITS))
        connection.execute("CREATE TABLE people AS SELECT * FROM source")
        for what in ("count(DISTINCT unit)", "approx_count_distinct(unit)"):
            sql = f"SELECT {what} FROM people"
            yield [f"{what}, not private", duration(best(lambda sql=sql: connection.execute(sql).fetchall()))]


def steps(registers: int) -> list[str]:
    """The steps of a sketch by themselves, and how large it is in the ledger."""
    start, hashed = Distinct(1, registers).start(SOURCE), SOURCE.words(UNITS, 64)
    full, other = start.update(hashed), start.fork(SOURCE).update(hashed[:BATCH])
    works = [lambda: start.update(hashed), lambda: full.merge(other), lambda: full.veil(SOURCE), full.estimate]
    return [f"{registers:,}", *(duration(best(work)) for work in works), f"{len(full.dump()):,} bytes"]


def hashing() -> float:
    """The time in which Python hashes the elements; the engine's own hashing is part of a reading."""
    key = new_key(SOURCE)
    return best(lambda: words(key, range(UNITS)), rounds=2)


def spread(guess: Callable[[], float]) -> float:
    """The relative root mean square error for COUNTED elements."""
    return math.sqrt(np.mean([(guess() / COUNTED - 1) ** 2 for _ in range(RUNS)]))


def sketched(epsilon: str, registers: int, veils: int = 1) -> float:
    """The error of private sketches."""

    def guess() -> float:
        sketch = Distinct(epsilon, registers).start(SOURCE)
        for _ in range(veils - 1):
            sketch = sketch.veil(SOURCE)
        return sketch.update(SOURCE.words(COUNTED, 64)).estimate()

    return spread(guess)


def plain(registers: int) -> float:
    """The error of the same sketch without phantoms."""
    law = RegisterLaw(0, 0, largest_value(registers))
    empty = np.zeros(registers, dtype=np.uint8)
    return spread(lambda: registers * law.most_likely(law.counts(raised(empty, SOURCE.words(COUNTED, 64)))))


def promised(epsilon: str, registers: int, veils: int = 1) -> float:
    """One standard deviation by the error bar of 68.27 %."""
    return Distinct(epsilon, registers).error_bar(COUNTED, veils=veils, confidence=0.6827) / COUNTED


def errors() -> Iterator[list[str]]:
    """Private sketches, the limits of sketches, and a noisy count of the same epsilon."""
    sizes = (256, 1024, 4096, 16384)
    without = {registers: plain(registers) for registers in sizes}
    with opened(COUNTED) as session:
        noisy = {
            epsilon: spread(lambda epsilon=epsilon: float(session.release(count(), epsilon=epsilon).value))
            for epsilon in ("0.05", "0.2", "1")
        }
    for epsilon, registers in product(noisy, sizes):
        row = [sketched(epsilon, registers), promised(epsilon, registers), without[registers]]
        figures = [f"{figure:.2%}" for figure in (*row, 1.04 / math.sqrt(registers))]
        yield [f"epsilon {epsilon}, {registers:,} registers", *figures, f"{noisy[epsilon]:.4%}"]


def growing() -> Iterator[list[str]]:
    """The error after so many growths between questions."""
    for epsilon, registers in (("0.2", 1024), ("1", 1024)):
        row = [sketched(epsilon, registers, veils) for veils in (1, 10, 100)]
        yield [f"epsilon {epsilon}, {registers:,} registers", *(f"{figure:.1%}" for figure in row)]


class Case(NamedTuple):
    """A number about a stream: its estimator, the truth, who makes the stream, a robust stream."""

    name: str
    make: Callable[[str], Estimator]
    truth: Callable[[Counter[int]], int]
    stream: Callable[[Callable[[int], float]], list[int]]
    robust: dict[str, object]


def fixed(ask: Callable[[int], float]) -> list[int]:
    """A stream that nobody chose."""
    stream = list(range(FIXED))
    for item in stream:
        ask(item)
    return stream


CASES = [
    Case(
        "second moment, chosen",
        SecondMoment,
        lambda counts: sum(n * n for n in counts.values()),
        lambda ask: cancelling(ask, items=ITEMS),
        {"copies": 2000, "largest": 10**7, "budget": Budget(epsilon=3, delta=1e-12), "hits": 16},
    ),
    Case(
        "frequency of one item, chosen",
        lambda key: ItemFrequency(key, 0, width=64, depth=1),
        lambda counts: counts[0],
        lambda ask: cancelling(ask, items=ITEMS),
        {"copies": 400, "largest": 1000, "budget": Budget(epsilon=12, delta=1e-9), "hits": 16},
    ),
    Case(
        "distinct items, fixed",
        lambda key: FlajoletMartin(key, 64),
        len,
        fixed,
        {"copies": 400, "largest": 1000, "budget": Budget(epsilon=12, delta=1e-9), "hits": 16},
    ),
]


def outcome(case: Case, update: Callable[[int], None], answer: Callable[[], float]) -> list[str]:
    """How long the stream became, by which factor an answer was off at worst (infinity for 0), time for each item."""
    counts: Counter[int] = Counter()
    worst, start = 1.0, time.perf_counter()

    def ask(item: int) -> float:
        nonlocal worst
        update(item)
        counts[item] += 1
        said, truth = answer(), case.truth(counts)
        worst = max(worst, said / truth, truth / said if said else math.inf)
        return said

    length = len(case.stream(ask))
    return [f"{length:,}", duration((time.perf_counter() - start) / length), f"{worst:.2f}"]


def attacked() -> Iterator[list[str]]:
    """Plain estimators and robust streams under the same analyst."""
    for case in CASES:
        single = case.make(new_key(SOURCE))
        yield [f"{case.name}: plain", *outcome(case, single.update, single.estimate), "-", "-"]
        stream = RobustStream(case.make, step="0.5", **case.robust)
        row = outcome(case, stream.update, lambda stream=stream: stream.answer().value)
        changes = f"{stream.changes} of {case.robust['hits']}"
        yield [f"{case.name}: {stream.copies:,} copies", *row, f"{stream.factor:.2f}", changes]


def main() -> None:
    announce()
    with opened(UNITS) as session:
        show(f"{UNITS:,} units", ["what", "time"], [*reading(session), *engine()])
    caption = f"Python hashes {UNITS:,} integers in {duration(hashing())}."
    rows = [steps(registers) for registers in (1024, 16384)]
    show("Steps of a sketch", ["registers", f"{UNITS:,} words", "merge", "veil", "estimate", "state"], rows, caption)
    headings = ["private sketch", "error", "promised", "without privacy", "1.04 / sqrt(registers)", "noisy count"]
    show(f"Relative error for {COUNTED:,} elements", headings, errors())
    show("The same after growth", ["private sketch", "1 veil", "10 veils", "100 veils"], growing())
    headings = ["a stream and its answers", "items", "each", "worst factor", "promised", "changes"]
    show("Every item followed by an answer", headings, attacked())


if __name__ == "__main__":
    main()
