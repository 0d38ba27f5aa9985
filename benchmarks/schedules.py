"""Growing databases: which growth is best, what runs at every size promise, and what one run costs in time.

Run as `python benchmarks/schedules.py`. Counts of twenty keys; errors are fractions of the rows. The published
growth is that of [GROW] Theorem 10, without its constants. `chary reproduce growing-counts` measures whole streams.
"""

import time
from fractions import Fraction

import numpy as np
import polars as pl

import chary
from chary import Budget, count
from chary.accounting.schedules import EveryRun, best_growth, epochs_error
from chary.calls import Rerun
from chary.growth import CountsBox
from chary_research.published import published_growth
from measuring import announce, duration, show

KEYS = 20
BETA, EPSILON, RHO, DELTA = "0.05", 1, "0.02", 1e-6
BOXES = {
    "Laplace, epsilon 1": (CountsBox(count().by("key", range(KEYS))), {"epsilon": EPSILON}),
    "Laplace, rho 0.02": (CountsBox(count().by("key", range(KEYS))), {"rho": RHO}),
    "Gaussian, rho 0.02": (CountsBox(count().by("key", range(KEYS)), gaussian=True), {"rho": RHO}),
}


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


def improving() -> None:
    """Reruns at every size: the error that the law tells, while the data grow; appended one by one or in batches."""
    table, box = [], BOXES["Gaussian, rho 0.02"][0]
    for start in (10**4, 10**5):
        runs = EveryRun(start=start, exponent="0.1", beta=BETA, rho=RHO)
        for batch in (1, 1000):
            row = []
            for factor in (2, 10, 100, 1000):
                last = factor * start - start
                row.append(f"{runs.error(box.law, last, first=last - batch + 1):.4f}")
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
    options = {"privacy_unit": None, "neighbors": "replace", "budget": Budget(epsilon=1, delta=DELTA)}
    with chary.open(data, ledger=":memory:", **options) as session:
        schedule = session.start(Rerun(box, rho="0.01", beta=BETA, exponent="0.1"))
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
    improving()
    times()
