"""How far off 1,000 threshold tests are, by mechanism and number of hits, and what a sparse vector costs and takes.

Run as `python benchmarks/sparse_accuracy.py`. Errors hold for all tests together, 95 times in 100.
"""

import sys

import numpy as np
import polars as pl

import chary
from chary.accounting import error_up, laplace_error_up, published_error, sparse_noise
from chary.filters import Budget, largest_call
from measuring import announce, best, show

BUDGET = Budget(epsilon=1, delta=1e-6)
TESTS, CONFIDENCE, HITS = 1000, "0.95", (1, 3, 10, 20, 50, 100)
KEYS = 100_000


def sparse_errors(hits: int, values: bool) -> list[float]:
    """Of the published forms, as published and exactly, and of the tuned ones."""
    sizes = {"epsilon": 1, "hits": hits, "values": values}
    told = published_error(**sizes, tests=TESTS, confidence=CONFIDENCE)
    forms = [
        {"form": "published"},
        {"form": "published", "delta": BUDGET.delta},
        {"monotone": False},
        {"monotone": True},
    ]
    return [told, *(error_up(sparse_noise(**sizes, **form), tests=TESTS, confidence=CONFIDENCE) for form in forms)]


def charging_error(hits: int) -> int:
    """Of conditional releases by the exact curve: all their noises lie within it."""
    return laplace_error_up(1 / largest_call(BUDGET, hits, "exact"), tests=TESTS, confidence=CONFIDENCE)


def watches() -> list[tuple[str, float]]:
    """One pass over many keys, of which none is above, beside the release of all of them."""
    rows = pl.DataFrame({"unit": np.arange(10 * KEYS), "key": np.arange(10 * KEYS) % KEYS})
    query = chary.count().by("key", range(KEYS))
    with chary.open(rows, privacy_unit="unit", budget=Budget(epsilon=1), ledger=":memory:") as session:
        opened = session.sparse_vector(above=10**6, hits=10, epsilon="0.5")
        plan = session.spine.rows.prepare(query)
        return [("bare query", best(plan.run)), ("sparse vector's watch", best(lambda: opened.watch(query)))]


def shares() -> list[list[str]]:
    """What a sparse vector costs in sessions of the budget, beside c values with Laplace noise of one c-th of it."""
    rows, lines = pl.DataFrame({"unit": [1]}), []
    for name, filter_ in (("pure", "pure"), ("renyi", "renyi")):
        with chary.open(
            rows, privacy_unit="unit", budget=BUDGET, filter=filter_, ledger=":memory:", grain=0.02
        ) as session:
            costs = [
                session.quote_sparse_vector(hits=1, epsilon=size, tests=1).share for size in ("0.02", "0.1", "0.5")
            ]
            lines.append([name, *(f"{cost:.0%}" for cost in costs)])
    return lines


def main() -> None:
    announce()
    headings = [
        "hits",
        "published bound",
        "published",
        "published, delta",
        "tuned",
        "tuned, monotone",
        "charging, exact",
    ]
    for values in (False, True):
        rows = [
            [str(c), *(f"{error:,.0f}" for error in sparse_errors(c, values)), str(charging_error(c))] for c in HITS
        ]
        title = "with values" if values else "tests alone"
        show(f"{TESTS:,} tests at epsilon 1, {title}", headings, rows, "error in units of the sensitivity")
    show("part of (1, 1e-6) that it costs", ["filter", "epsilon 0.02", "0.1", "0.5"], shares(), "grain 0.02")
    times = [[name, f"{1000 * seconds:.0f} ms"] for name, seconds in watches()]
    show(f"{KEYS:,} keys of {10 * KEYS:,} rows", ["", "best of five"], times, "ledger in memory")


if __name__ == "__main__":
    sys.exit(main())
