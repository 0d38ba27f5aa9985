"""MWEM: how long it takes on 100,000 and 1,000,000 cells, and how far off it is beside Laplace noise on all queries.

Run as `python benchmarks/mwem.py [adult.csv.gz] [--full]` with the Adult table of the UCI repository, all 48,842 rows
with a header; without it only the speed is measured, on made-up rows. About four minutes.
"""

import math
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl

import chary
from chary import Budget, Universe
from chary.accounting.synthesis import best_rounds, mwem_error_up
from chary.calls import MWEM
from chary.data import Predicate
from chary.data.universe.counts import CellCounts, CellQueries, CellReader
from chary.data.universe.regions import located, matrix
from chary.mechanisms.weights import MwemRounds, PublicHistogram
from chary.noise import OperatingSystem
from chary_research.published import published_mwem_error
from growing_tables import GrowingTable, adult
from measuring import FULL, announce, duration, full, seconds, show

QUERIES = 2000
ROUNDS = (10, 20, 40, 80)
SHAPES = ((10, 10, 10, 10, 10), (10,) * 6)
ROWS = (50_000, 1_000_000)
SEEDS = 3


def opened(rows: pl.DataFrame, on_step: object = None) -> chary.Session:
    """A session with room for everything."""
    given = {} if on_step is None else {"on_step": on_step}
    budget = Budget(epsilon=1000, delta=1e-6)
    return chary.open(rows, privacy_unit=None, neighbors="replace", budget=budget, ledger=":memory:", **given)


def made_up(shape: tuple[int, ...], rows: int) -> tuple[pl.DataFrame, Universe, list[str]]:
    """Skewed columns that depend on each other, and conjunctions of ranges of up to three of them."""
    random = np.random.default_rng(1)
    common = random.beta(0.6, 1.5, rows)
    names = [f"c{place}" for place in range(len(shape))]
    shares = [common * 0.7 + random.beta(0.5, 2, rows) * 0.3 for _ in shape]
    columns = {name: (share * size).astype(int) for name, share, size in zip(names, shares, shape, strict=True)}
    universe = Universe({name: range(size) for name, size in zip(names, shape, strict=True)}, missing=False)
    queries: set[str] = set()
    while len(queries) < QUERIES:
        picked = random.choice(len(shape), size=random.integers(1, 4), replace=False)
        ends = [sorted(random.choice(shape[k] + 1, 2, replace=False).tolist()) for k in sorted(picked)]
        parts = [
            f"{names[k]} >= {low} AND {names[k]} < {high}" for k, (low, high) in zip(sorted(picked), ends, strict=True)
        ]
        queries.add(" AND ".join(parts))
    return pl.DataFrame(columns), universe, sorted(queries)


def speed(shape: tuple[int, ...], rows: int, rounds: int) -> list[str]:
    """One call, by its steps."""
    marks: dict[str, float] = {}
    frame, universe, queries = made_up(shape, rows)
    with opened(frame, lambda step: marks.__setitem__(step, time.perf_counter())) as session:
        whole = seconds(lambda: session.ask(MWEM(universe=universe, queries=queries, rounds=rounds, epsilon=1)))
        read, ran = marks["evaluated"] - marks["reserved"], marks["ran"] - marks["evaluated"]
        found = session.ask(MWEM(universe=universe, queries=queries, rounds=rounds, epsilon=1))
        rebuilt = seconds(lambda: found.share(queries[0]))
    figures = [duration(part) for part in (read, ran, whole - read - ran, whole, rebuilt)]
    return [f"{universe.cells:,} cells, {rows:,} rows, {rounds} rounds", *figures]


def asked(table: GrowingTable, count: int) -> list[str]:
    """So many different conditions on up to three columns."""
    random, found = np.random.default_rng(5), set()
    while len(found) < count:
        picked = random.choice(table.columns, size=random.integers(1, 4), replace=False)
        found.add(" AND ".join(table.condition(column, random) for column in sorted(picked)))
    return sorted(found)


def errors(people: GrowingTable, queries: list[str]) -> list[list[str]]:
    """Mean and largest error over all queries, of shares; means of a few runs."""
    universe, table = people.universe, []
    with opened(people.rows) as session:
        parsed = [Predicate.parse(query) for query in queries]
        exact = CellReader(session.spine.rows, CellQueries(universe, session.schema, parsed)).run()
        known = {"cells": universe.cells, "queries": len(queries), "size": exact.size}
        for sizes in ({"epsilon": "0.1"}, {"epsilon": 1}, {"rho": "0.02"}):
            named = " ".join(f"{name} {value}" for name, value in sizes.items())
            for rounds in ROUNDS:
                made = [
                    session.ask(MWEM(universe=universe, queries=queries, rounds=rounds, **sizes)) for _ in range(SEEDS)
                ]
                off = [exact.queries.shares(found.histogram()) - exact.counts / exact.size for found in made]
                bar = f"{np.mean([found.error_bar for found in made]):.4f}"
                told = f"{mwem_error_up(**known, rounds=rounds, **sizes):.3f}"
                table.append([f"{named}, {rounds} rounds", *sizes_of(off), bar, told])
                if "epsilon" in sizes:
                    off = [as_published(exact, parsed, MwemRounds(rounds, **sizes)) for _ in range(SEEDS)]
                    told = f"{published_mwem_error(**known, rounds=rounds, **sizes):.3f}"
                    table.append([f"{named}, {rounds} rounds, as published", *sizes_of(off), "-", told])
            table.append(plain(len(queries), exact.size, named, sizes))
            table.append([f"{named}: best_rounds is {best_rounds(**known, **sizes)}", *["-"] * 4])
    return table


def sizes_of(off: list[np.ndarray]) -> list[str]:
    """The mean and the largest error, means over runs."""
    figures = [np.mean([np.abs(run).mean() for run in off]), np.mean([np.abs(run).max() for run in off])]
    return [f"{figure:.4f}" for figure in figures]


def as_published(exact: CellCounts, parsed: list[Predicate], mechanism: MwemRounds) -> np.ndarray:
    """The same picks and noise with the paper's step, `exp(f (m - v)/2)`, and the mean of all rounds' histograms."""
    universe, schema = exact.queries.universe, exact.queries.schema
    histogram, source, total = PublicHistogram(*matrix(universe)), OperatingSystem(), np.zeros(len(parsed))
    for _ in range(mechanism.rounds):
        shares = exact.queries.shares(histogram.weights)
        total += shares
        told = mechanism.step(exact.counts, shares, exact.size, source)
        region = located(universe, schema, parsed[told.query])[0]
        histogram.multiply(region, math.exp((told.measured / exact.size - told.share) / 2))
    return total / mechanism.rounds - exact.counts / exact.size


def plain(queries: int, size: int, named: str, sizes: dict[str, object]) -> list[str]:
    """Noise on each query, for the same guarantee; its errors drawn, not asked."""
    random = np.random.default_rng(2)
    if "epsilon" in sizes:
        drawn = random.laplace(scale=queries / float(str(sizes["epsilon"])), size=(SEEDS, queries))
    else:
        drawn = random.normal(scale=math.sqrt(queries / (2 * float(str(sizes["rho"])))), size=(SEEDS, queries))
    off = np.abs(drawn) / size
    return [f"{named}, noise on each query", f"{off.mean():.4f}", f"{off.max(axis=1).mean():.4f}", "-", "-"]


def main() -> None:
    announce()
    shapes, sizes = (SHAPES, ROWS) if full() else (SHAPES, ROWS[:1])
    table = (speed(shape, rows, 20) for shape in shapes for rows in sizes)
    show(f"{QUERIES:,} queries", ["", "read and count", "rounds", "the rest", "in all", "first look-up"], table)
    if places := [argument for argument in sys.argv[1:] if argument != FULL]:
        people = adult(Path(places[0]), times=1, more=False)
        headings = ["", "mean error", "largest", "error_bar", "promised"]
        show(f"Adult, {QUERIES:,} queries", headings, errors(people, asked(people, QUERIES)))


if __name__ == "__main__":
    main()
