"""Linear queries: averages asked as such, beside averages put together from conditions, and noise on each.

Run as `python benchmarks/linear_queries.py`; about a minute. Queries are averages of a bounded column over random
groups of the packaged panel of 20,190 person-years; an error is one of a weight from 0 to 1. The limit is the same
call with practically no noise. The other way asks for the shares above each edge, of which an average is a sum.
"""

from fractions import Fraction
from itertools import product

import numpy as np
import pyarrow as pa

import chary
from chary import Bins, Budget, Universe
from chary.calls import MWEM, PMW
from chary.calls.fields import region
from chary.data import average
from chary.data.universe.counts import WeightReader
from chary.data.universe.linear import ColumnAverage
from chary.demo.panel import people
from measuring import announce, best, duration, show

UNIVERSE = Universe(
    {
        "xage": Bins([0, 10, 20, 30, 40, 50, 70]),
        "female": [0, 1],
        "mdvis": Bins([0, 1, 2, 3, 5, 10, 20, 100]),
        "year": [1, 2, 3, 4, 5],
    }
)
QUERIES, ROUNDS, RHO, SURE = 200, (15, 60), "0.005", 10**6


def asked(number: int) -> list[ColumnAverage]:
    """Different averages of random groups."""
    random, found = np.random.default_rng(1), dict[str, ColumnAverage]()
    while len(found) < number:
        column, high = (("xage", 70), ("mdvis", 20))[random.integers(2)]
        age, sex, visits = random.choice([10, 20, 30, 40, 50]), random.integers(2), random.choice([1, 2, 3, 5])
        parts = [f"xage {random.choice(['<', '>='])} {age}", f"female = {sex}", f"mdvis >= {visits}", "year >= 3"]
        chosen = random.choice(len(parts), random.integers(1, 3), replace=False)
        query = average(column, bounds=(0, high), where=" AND ".join(parts[place] for place in sorted(chosen)))
        found.setdefault(query.text, query)
    return list(found.values())


def edges(query: ColumnAverage) -> list[tuple[str, Fraction]]:
    """The average as a weighted sum of shares above each edge."""
    axis = next(axis for name, axis in UNIVERSE.columns if name == query.column)
    assert isinstance(axis, Bins)
    assert query.where is not None
    middles = [min(query.bounds[1], middle) / query.bounds[1] for middle in axis.middles()]
    steps = np.diff([Fraction(0), *middles])
    above = zip(axis.edges, steps, strict=False)
    return [(f"{query.where.text} AND {query.column} >= {float(edge):g}", step) for edge, step in above if step]


def session(table: pa.Table, budget: int) -> chary.Session:
    terms = Budget(epsilon=budget, delta=1e-6)
    return chary.open(table, privacy_unit=None, neighbors="replace", ledger=":memory:", budget=terms)


def line(name: str, told: list[float], truths: list[float], spent: str) -> list[str]:
    off = np.abs(np.array(told) - np.array(truths))
    return [name, f"{off.mean():.4f}", f"{off.max():.4f}", spent]


def by_mwem(table: pa.Table, queries: list[ColumnAverage], truths: list[float]) -> list[list[str]]:
    """One list of averages, and the list of the conditions that they are made of."""
    lines, pairs = [], {query.text: edges(query) for query in queries}
    flat = list(dict.fromkeys(condition for parts in pairs.values() for condition, _ in parts))
    sizes = ((f"rho {RHO}", RHO, 1), ("practically no noise", SURE, 10**9))
    for rounds, (size, rho, budget) in product(ROUNDS, sizes):
        name = f"{size}, {rounds} rounds"
        with session(table, budget) as own:
            made = own.ask(MWEM(universe=UNIVERSE, queries=queries, rounds=rounds, rho=rho))
            lines.append(line(f"MWEM, averages, {name}", [made.share(query) for query in queries], truths, ""))
        with session(table, budget) as own:
            made = own.ask(MWEM(universe=UNIVERSE, queries=flat, rounds=rounds, rho=rho))
            told = [sum(float(step) * made.share(text) for text, step in pairs[query.text]) for query in queries]
            lines.append(line(f"MWEM, their {len(flat)} conditions, {name}", told, truths, ""))
    return lines


def by_weights(table: pa.Table, queries: list[ColumnAverage], truths: list[float]) -> list[list[str]]:
    """One by one."""
    lines, ways = [], (("hits=250", {"hits": 250}, 1), ("practically no noise", {"epsilon": 10}, 10**9))
    for name, options, budget in ways:
        with session(table, budget) as own:
            run = own.start(PMW(universe=UNIVERSE, alpha="0.05", **options))
            answers = [run.ask(query) for query in queries]
            hard, told = sum(answer.hard for answer in answers), [answer.share for answer in answers]
            lines.append(line(f"Weights, averages, {name}: {hard} hard", told, truths, f"{own.spent.share:.0%}"))
    return lines


def main() -> None:
    announce()
    table, queries = people(), asked(QUERIES)
    with session(table, 1) as reading:
        sums = [WeightReader(reading.spine.rows, UNIVERSE, query).run() for query in queries]
        schema = reading.schema
    truths = [found.steps / found.grid / table.num_rows for found in sums]
    noise = np.random.default_rng(2).normal(0, np.sqrt(QUERIES / (2 * float(RHO))) / table.num_rows, QUERIES)
    each = line(f"Gaussian noise on each, rho {RHO} in all", list(truths + noise), truths, "")
    lines = [*by_mwem(table, queries, truths), *by_weights(table, queries, truths), each]
    show("Largest and mean error of 200 averages", ["way", "mean error", "largest", "share spent"], lines)
    taken = best(lambda: region(UNIVERSE, schema, queries[0]), rounds=3)
    print(f"a look-up of the weights of {UNIVERSE.cells:,} cells: {duration(taken)}")


if __name__ == "__main__":
    main()
