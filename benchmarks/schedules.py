"""Growing databases: which growth is best, how far off scheduled counts are, and what one run costs in time.

Run as `python benchmarks/schedules.py`. Twenty keys; the stream grows from n to 20 n rows, and all that arrive have one
key, so that answers go stale as fast as they can. An answer is wrong by its largest error of a count at any time, as
a fraction of the rows. The published growth is that of [GROW] Theorem 10, without its constants.
"""

import time
from fractions import Fraction

import numpy as np
import polars as pl

import chary
from chary import Budget, Neighbouring, count
from chary.accounting.growing.accuracy_laws import best_growth, epochs_error, published_growth
from chary.accounting.growing.schedules import EpochRuns, EveryRun, ScheduleRuns
from chary.calls import Schedule
from chary.growing import CountsBox
from chary.noise import OperatingSystem
from measuring import announce, duration, show

KEYS, FACTOR, STREAMS = 20, 20, 300
BETA, EPSILON, RHO, DELTA = "0.05", 1, "0.02", 1e-6
BOXES = {
    "Laplace, epsilon 1": (CountsBox(count().by("key", range(KEYS))), {"epsilon": EPSILON}),
    "Laplace, rho 0.02": (CountsBox(count().by("key", range(KEYS))), {"rho": RHO}),
    "Gaussian, rho 0.02": (CountsBox(count().by("key", range(KEYS)), gaussian=True), {"rho": RHO}),
}
ROWS = Neighbouring("replace", None)


def growths() -> None:
    """The growth of least error and the published one, each with the error that it promises."""
    table = []
    for start in (10**4, 10**5, 10**6):
        for name, (box, total) in BOXES.items():
            common = {"start": start, "beta": BETA, **total}
            best = best_growth(box.law, **common)
            delta = None if "epsilon" in total else DELTA
            published = published_growth(box.law, start=start, beta=BETA, epsilon=EPSILON, delta=delta)
            errors = (epochs_error(box.law, growth=growth, **common) for growth in (best, published))
            table.append([f"{start:,}", name, f"{float(best):.4f}", f"{published:.4f}", *(f"{e:.4f}" for e in errors)])
    show(
        "Growth of least error, and the published one",
        ["n", "noise", "growth", "published", "error", "error at published"],
        table,
    )


def errors() -> None:
    """Promised and measured: the largest error at any time, and how many streams exceeded the promise."""
    table = []
    for start in (10**4, 10**5):
        for name, (box, total) in BOXES.items():
            growth = best_growth(box.law, start=start, beta=BETA, **total)
            runs = EpochRuns(start=start, growth=growth, beta=BETA, **total)
            promised = epochs_error(box.law, start=start, growth=growth, beta=BETA, **total)
            found = np.array([worst(box, runs) for _ in range(STREAMS)])
            above = int((found > promised).sum())
            row = [f"{start:,}", name, f"{promised:.4f}", f"{np.median(found):.4f}", f"{np.quantile(found, 0.95):.4f}"]
            table.append([*row, f"{above} of {STREAMS}"])
    show(
        "Largest error at any time, 20 keys, beta 0.05",
        ["n", "noise", "promised", "median", "95 %", "above the promise"],
        table,
    )


def worst(box: CountsBox, runs: ScheduleRuns) -> float:
    """The largest error of one stream: at each run, and just before the next one."""
    source, found, run, end = OperatingSystem(), 0.0, 0, FACTOR * runs.start
    while (size := runs.size(run)) < end:
        counts = rows_by_key(runs.start, size)
        told = box.interaction(runs.epsilon_down(run, run), ROWS).asked.noises[0].apply(counts, source) / size
        later = min(runs.size(run + 1) - 1, end)
        truths = (counts / size, rows_by_key(runs.start, later) / later)
        found = max(found, *(float(np.abs(told - truth).max()) for truth in truths))
        run += 1
    return found


def rows_by_key(start: int, size: int) -> np.ndarray:
    """The same number of each key at the start; all that came later have the first."""
    counts = np.full(KEYS, start // KEYS)
    counts[0] += size - start
    return counts


def improving() -> None:
    """Reruns at every size: the error that the law tells, while the data grow; appended one by one or in batches."""
    table, box = [], BOXES["Gaussian, rho 0.02"][0]
    for start in (10**4, 10**5):
        runs = EveryRun(start=start, exponent="0.1", beta=BETA, rho=RHO)
        for batch in (1, 1000):
            row = []
            for factor in (2, 10, 100, 1000):
                last = factor * start - start
                epsilon = runs.epsilon_down(last - batch + 1, last)
                row.append(f"{box.law.error(size=factor * start, epsilon=epsilon, beta=runs.failure(last)):.4f}")
            table.append([f"{start:,}", str(batch), *row])
    show(
        "A run at every size, Gaussian noise for rho 0.02: error told",
        ["n", "rows a batch", "at 2 n", "at 10 n", "at 100 n", "at 1000 n"],
        table,
    )


def times() -> None:
    """Seconds for what is due, and for nothing due, beside a plain release of the same counts."""
    data = pl.DataFrame({"key": np.arange(10**5) % KEYS})
    box, table = BOXES["Gaussian, rho 0.02"][0], []
    options = {"privacy_unit": None, "relation": "replace", "budget": Budget(epsilon=1, delta=DELTA)}
    with chary.open(data, ledger=":memory:", **options) as session:
        schedule = session.start(Schedule(box, rho="0.01", beta=BETA, exponent="0.1"))
        calls = {
            "a run that is due": schedule.ask,
            "nothing due": schedule.ask,
            "a plain release": lambda: session.release(box.query, rho=Fraction(1, 10**6)),
        }
        for name, call in calls.items():
            began = time.perf_counter()
            call()
            table.append([name, duration(time.perf_counter() - began)])
    show("Time, 100,000 rows", ["call", "time"], table)


if __name__ == "__main__":
    announce()
    growths()
    errors()
    improving()
    times()
