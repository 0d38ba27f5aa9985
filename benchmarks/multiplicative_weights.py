"""Private multiplicative weights: the histogram's speed, and queries about a growing table under one budget.

Run as `python benchmarks/multiplicative_weights.py [adult.csv.gz]` with the Adult table of the UCI repository, all
48,842 rows with a header; without it only the speed is measured. About three minutes.
"""

import math
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl

import chary
from chary import Bins, Budget, Universe
from chary.data import Predicate
from chary.data.cells import located, matrix
from chary.mechanisms.public_histogram import PublicHistogram
from measuring import announce, duration, show, side_by_side

BUDGET = Budget(epsilon=1, delta=1e-6)
START, BATCHES, PER_BATCH = 5000, 8, 150
QUERIES = (BATCHES + 1) * PER_BATCH
SETTINGS = [("0.1", "0.01"), ("0.05", "0.01"), ("0.1", "0.02")]
UNLIMITED = Budget(epsilon=10**6)
EDGES = {
    "age": [17, 20, 25, 30, 35, 40, 45, 50, 55, 60, 65, 91],
    "education_num": [1, 6, 9, 10, 11, 13, 14, 17],
    "hours_per_week": [1, 20, 35, 40, 41, 50, 60, 100],
}
CHOICES = {
    "workclass": [
        "Private",
        "Self-emp-not-inc",
        "Local-gov",
        "State-gov",
        "Federal-gov",
        "Self-emp-inc",
        "Without-pay",
        "?",
    ],
    "relationship": ["Husband", "Not-in-family", "Own-child", "Unmarried", "Wife", "Other-relative"],
    "sex": ["Male", "Female"],
    "income": ["<=50K", ">50K"],
}


def speed(shape: tuple[int, ...], condition: str, told: str = "") -> list[str]:
    """One change and one look-up in a million cells, against multiplying a million floats in place; and how long it
    takes to find the cells."""
    schema = {f"c{place}": "int64" for place in range(len(shape))}
    universe = Universe({name: range(size - 1) for name, size in zip(schema, shape, strict=True)})
    asked = Predicate.parse(condition)
    region, _ = located(universe, schema, asked)
    histogram, floats = PublicHistogram(*matrix(universe)), np.ones(universe.cells, np.float32)
    factors = np.where(region.flags(), np.float32(1.0001), np.float32(1))

    def floor() -> None:
        np.multiply(floats, factors, out=floats)

    ours, least, look, find = side_by_side(
        [
            lambda: histogram.multiply(region, 1.0001),
            floor,
            lambda: histogram.share(region),
            lambda: located(universe, schema, asked),
        ],
        30,
        10,
    )
    cells = f"{shape[0]}^{len(shape)}, {told or condition}"
    return [cells, duration(ours), duration(least), f"{ours / least:.2f}", duration(look), duration(find)]


def some(column: str, step: int | None = None) -> str:
    """Every so many of a thousand values, or half of them at random."""
    values = range(0, 999, step) if step else np.flatnonzero(np.random.default_rng(int(column[1:])).random(999) < 0.5)
    return f"{column} IN ({', '.join(map(str, values))})"


def people(path: Path) -> pl.DataFrame:
    """The table in random order."""
    rows = pl.read_csv(path).select(*EDGES, *CHOICES)
    order = np.random.default_rng(0).permutation(rows.height)
    return rows[order.tolist()]


def condition(column: str, random: np.random.Generator) -> str:
    """A range of a column of numbers, or some values of another."""
    if column in EDGES:
        low, high = sorted(random.choice(EDGES[column], 2, replace=False).tolist())
        return f"{column} >= {low} AND {column} < {high}"
    picked = random.choice(CHOICES[column], size=random.integers(1, len(CHOICES[column])), replace=False).tolist()
    return f"{column} IN ({', '.join(map(repr, picked))})"


class Analyst:
    """Goes deeper where the last answer was large: one more condition, on another column; otherwise starts afresh."""

    def __init__(self, seed: int) -> None:
        self.random, self.asked = np.random.default_rng(seed), {}

    def next(self, last: float) -> str:
        free = [column for column in [*EDGES, *CHOICES] if column not in self.asked]
        if last < 0.1 or not free or len(self.asked) >= 3:
            self.asked, free = {}, [*EDGES, *CHOICES]
        column = str(self.random.choice(free))
        self.asked[column] = condition(column, self.random)
        return " AND ".join(self.asked.values())


def answered(rows: pl.DataFrame, alpha: str, epsilon: str, budget: Budget = BUDGET, **options: object) -> list[str]:
    """All queries while the table grows from 5,000 rows to all of them, in batches."""
    rule: dict[str, object] = {"update": "projected", "follow_size": True} | options
    sizes = np.linspace(START, rows.height, BATCHES + 1).astype(int)
    session = chary.open(
        rows[:START],
        privacy_unit=None,
        relation="replace",
        budget=budget,
        ledger=":memory:",
        grain=epsilon if budget.delta else None,
    )
    universe = Universe({name: Bins(edges) for name, edges in EDGES.items()} | CHOICES, missing=False)
    weights = session.multiplicative_weights(universe=universe, alpha=alpha, epsilon=epsilon, **rule)
    analyst, last, errors, unverified, taken = Analyst(1), 0.0, [], 0, 0.0
    for before, size in zip([START, *sizes], sizes, strict=False):
        if size > before:
            session.append(rows[before:size])
        now = rows[:size]
        for _ in range(PER_BATCH):
            asked = analyst.next(last)
            since = time.perf_counter()
            answer = weights.ask(asked)
            taken += time.perf_counter() - since
            last, unverified = answer.share, unverified + (not answer.verified)
            errors.append(abs(last - now.filter(pl.sql_expr(asked)).height / size))
    told = f"{rule['update']}, alpha {alpha}, epsilon {epsilon}" + ("" if rule["follow_size"] else ", fixed")
    figures = [f"{np.mean(errors):.4f}", f"{np.max(errors):.4f}", str(weights.quote().hard), str(unverified)]
    spent, each = f"{session.spent.share:.0%}", duration(taken / len(errors))
    session.close()
    return [told, *figures, spent, each]


def plain(rows: pl.DataFrame, queries: int) -> list[str]:
    """Laplace noise on every query, under the better of adding epsilons and of zCDP; its errors drawn, not asked."""
    epsilon, log = float(BUDGET.epsilon), -math.log(float(BUDGET.delta))
    rho = (math.sqrt(log + epsilon) - math.sqrt(log)) ** 2
    scale = min(queries / epsilon, math.sqrt(queries / (2 * rho)))
    sizes = np.linspace(START, rows.height, BATCHES + 1).astype(int).repeat(-(-queries // (BATCHES + 1)))
    errors = np.abs(np.random.default_rng(2).laplace(scale=scale, size=len(sizes))) / sizes
    return [f"Laplace on each of {queries:,}", f"{errors.mean():.4f}", f"{errors.max():.4f}", "-", "0", "100%", "-"]


def main() -> None:
    announce()
    shapes = [
        ((100, 100, 100), "c0 < 50"),
        ((100, 100, 100), "c1 < 50 AND c2 < 50"),
        ((10,) * 6, "c0 < 5 AND c3 IN (1, 3, 7) AND c5 = 2"),
        ((1000, 1000), "c0 IN (1, 3, 5, 7) OR c1 < 500"),
        ((1000, 1000), some("c1", 2), "c1 IN every second"),
        ((1000, 1000), f"{some('c0', 2)} OR {some('c1', 3)}", "c0 IN every second OR c1 IN every third"),
        ((1000, 1000), f"{some('c0')} AND c1 < 500", "c0 IN any half AND c1 < 500"),
        ((1000, 1000), f"{some('c0')} AND {some('c1')}", "c0 IN any half AND c1 IN any half"),
        ((10,) * 6, "NOT (c0 = 1 AND c2 = 3)"),
        ((10,) * 6, "c0 = 1 OR c1 = 2 OR c2 = 3 OR c3 = 4 OR c4 = 5 OR c5 = 6"),
        ((10,) * 6, "(c0 = 1 OR c3 = 2) AND (c1 = 1 OR c4 = 2) AND c2 < 5"),
        ((2,) * 20, "(c0 = 0 OR c10 = 0) AND (c1 = 0 OR c11 = 0)"),
        ((10**6,), "c0 < 300000"),
    ]
    headings = ["universe, query", "change", "floor", "ratio", "look up", "find"]
    show("A million cells", headings, [speed(*shape) for shape in shapes])
    if len(sys.argv) > 1:
        rows = people(Path(sys.argv[1]))
        table = [answered(rows, alpha, epsilon) for alpha, epsilon in SETTINGS]
        table.append(answered(rows, *SETTINGS[0], update="published", mixing=1))
        table.append(answered(rows, *SETTINGS[0], follow_size=False))
        table.append(answered(rows, "0.1", "3", UNLIMITED, follow_size=False))
        table += [plain(rows, queries) for queries in (QUERIES, 10_000, 100_000)]
        headings = ["", "mean error", "largest", "hard", "unverified", "spent", "an ask"]
        show(f"{QUERIES:,} queries while {START:,} rows grow to {rows.height:,}", headings, table)


if __name__ == "__main__":
    main()
