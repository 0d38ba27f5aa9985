"""Private quantiles, modes, fractions and Gaussian releases: time, accuracy beside peers, and distance to lower bounds.

Run as `python benchmarks/quantiles.py [--full]`; with `--plots DIR` it also writes one picture for each mechanism of
its error beside the lower bounds. Times are of a million rows in memory, beside the bare query by which DuckDB finds
the exact quantiles; the limit is a second. Laws are exact and errors computed from them, except for ranks, which are
means over seeded runs.
"""

import argparse
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import chary
from chary import Budget, mean
from chary.accounting import discrete_gaussian_variance, gaussian_sigma, zero_concentrated_rho_down
from chary.calls import Quantile
from chary.calls.releases import halves, laplace_mean, noises
from chary.data import NeighborRelation
from chary.mechanisms import GuardedQuantiles, HalvedQuantiles, InverseSensitivity, Laplace, Order, RankDistance
from chary.noise import Seeded
from lower_bounds import MECHANISMS, draw
from measuring import FULL, announce, duration, full, show, side_by_side
from recording import Against

ROWS, ROUNDS, LIMIT, SEED, RUNS = 1_000_000, 5, 1.0, 20_240_229, 100 if full() else 20
TIMES = ["a million values", "DuckDB exact", "chary", "ours / limit"]
RANKS = ["values, quantiles", "epsilon", "halving", "one by one", "one by one, zCDP", "bound, 95 %"]
MEDIANS = ["epsilon", "exponential", "permute-and-flip", "with guards", "width of interval", "held"]
MEANS = ["neighbours", "halves", "today", "with missing=", "total / size"]
SIGMAS = ["largest, keys", "epsilon, delta", "ours / continuous", "by rho / continuous", "Laplace error bar / ours"]
BOUNDS = ["mechanism", "epsilon", "measured", "lower bound", "published bound", "measured / bound"]
EXACT = Against("quantiles over exact ones by DuckDB", "chary", "DuckDB exact")
LOWER = Against(
    "error over the lower bound", "measured", "lower bound", "measured / bound", by=("mechanism", "epsilon")
)


# Time


@dataclass(frozen=True)
class Timed:
    """A column of a million values, and how many quantiles of it are asked."""

    name: str
    column: str
    bounds: tuple[int, int]
    step: str
    many: int
    unit: str | None = None

    def row(self, table: pa.Table, connection: duckdb.DuckDBPyConnection) -> list[str]:
        """One line of the table."""
        at = [Fraction(k, self.many + 1) for k in range(1, self.many + 1)]
        levels = ", ".join(str(float(q)) for q in at)
        by_hand = f"SELECT quantile_disc({self.column}, [{levels}]) FROM rows"
        limits: dict[str, Any] = {} if self.unit is None else {"max_rows_per_unit": 1}
        options: dict[str, Any] = {"bounds": self.bounds, "step": self.step, "epsilon": "0.01"} | limits
        with chary.open(table, privacy_unit=self.unit, budget=Budget(epsilon=100), ledger=":memory:") as session:
            bare, ours = side_by_side(
                [
                    lambda: connection.execute(by_hand).fetchall(),
                    lambda: session.ask(Quantile(self.column, at, **options)),
                ],
                ROUNDS,
            )
        return [self.name, duration(bare), duration(ours), f"{ours / LIMIT:.2f}"]


def times() -> Iterator[list[str]]:
    """All lines of the table of times."""
    generator = np.random.default_rng(SEED)
    table = pa.table(
        {
            "patient": generator.integers(0, ROWS // 10, ROWS),
            "age": generator.integers(0, 100, ROWS),
            "cost": generator.permutation(ROWS) / 100,
            "income": generator.lognormal(10, 1, ROWS),
        }
    )
    connection = duckdb.connect()
    connection.register("source", table)
    connection.execute("CREATE TABLE rows AS SELECT * FROM source")
    cases = (
        Timed("age, 100 different: the median", "age", (0, 120), "1", 1),
        Timed("cost, a million different: the median", "cost", (0, 10_000), "0.01", 1),
        Timed("income, grid of a billion: the median", "income", (0, 10_000_000), "0.01", 1),
        Timed("age: 3 quantiles", "age", (0, 120), "1", 3),
        Timed("cost: 3 quantiles", "cost", (0, 10_000), "0.01", 3),
        Timed("cost: 99 quantiles", "cost", (0, 10_000), "0.01", 99),
        Timed("cost: the median, 100,000 units of 10 rows", "cost", (0, 10_000), "0.01", 1, "patient"),
    )
    for case in cases:
        yield case.row(table, connection)


# Accuracy of ranks


def mean_rank_error(values: NDArray[np.int64], at: list[Fraction], choose: Callable[[Seeded], list[int]]) -> float:
    """By how many values a rank is off on average, over quantiles and runs."""
    source, errors = Seeded(SEED), []
    wanted = np.array([float(q) for q in at]) * values.size
    for _ in range(RUNS):
        found = choose(source)
        below, above = np.searchsorted(values, found, "left"), values.size - np.searchsorted(values, found, "right")
        errors.append(np.maximum(0, np.maximum(below - wanted, above - (values.size - wanted))).mean())
    return float(np.mean(errors))


def ranks() -> Iterator[list[str]]:
    """Halving beside a choice for each quantile at epsilon/m, or at the size that costs the same zCDP in all."""
    generator = np.random.default_rng(SEED)
    populations = {
        "normal": generator.normal(50_000, 15_000, 10_000).clip(0, 100_000).astype(np.int64),
        "ages": generator.integers(0, 100, 10_000) * 1000,
    }
    for name, values in populations.items():
        values.sort()
        places, counts = np.unique(values, return_counts=True)
        order = Order(places, counts, 100_001)
        for many in (3, 9, 99):
            at = [Fraction(k, many + 1) for k in range(1, many + 1)]
            for epsilon in (Fraction(1, 2), Fraction(2)):
                yield [f"{name}, {many}", f"{float(epsilon):g}", *_compared(order, values, at, epsilon)]


def _compared(order: Order, values: NDArray[np.int64], at: list[Fraction], epsilon: Fraction) -> list[str]:
    made = HalvedQuantiles(tuple(at), epsilon, replace=False)
    distances = [RankDistance(q, replace=False).stretches(order) for q in at]

    def each(share: Fraction) -> Callable[[Seeded], list[int]]:
        chooser = InverseSensitivity(share)
        return lambda source: sorted(chooser.step(distance, source) for distance in distances)

    same_zcdp = Fraction(str(round(float(epsilon) / math.sqrt(made.rounds * len(at)), 9)))
    halved = mean_rank_error(values, at, lambda source: made.step(order, source))
    single, rooted = (mean_rank_error(values, at, each(share)) for share in (epsilon / len(at), same_zcdp))
    limit = max(
        chary.accounting.rank_errors_up(
            epsilon=epsilon, at=at, points=made.grid(order.points), beta="0.05", replace=False
        )
    )
    return [f"{halved:.1f}", f"{single:.1f}", f"{rooted:.1f}", f"{limit:,}"]


# One median on a coarse grid, its guards, and means


def medians() -> Iterator[list[str]]:
    """The mean error of the median of 500 values on a grid of 1,501 places, in places, and what guards make of it."""
    generator, points, source = np.random.default_rng(SEED), 1501, Seeded(SEED)
    values = generator.lognormal(5.2, 0.5, 500).clip(0, points - 1).astype(np.int64)
    places, counts = np.unique(values, return_counts=True)
    order, truth = Order(places, counts, points), int(np.quantile(values, 0.5, method="inverted_cdf"))
    for epsilon in ("0.5", "1", "2"):
        means = []
        for flip in (False, True):
            made = HalvedQuantiles(("0.5",), epsilon, replace=False, flip=flip)
            means.append(float(np.mean([abs(made.step(order, source)[0] - truth) for _ in range(4 * RUNS)])))
        guards = GuardedQuantiles(("0.5",), epsilon, replace=False, beta="0.05", flip=True)
        found = [guards.step(order, source) for _ in range(RUNS)]
        held = sum(each.low[0] <= truth <= each.high[0] for each in found)
        apart = float(np.mean([abs(each.places[0] - truth) for each in found]))
        width = float(np.mean([each.high[0] - each.low[0] for each in found]))
        yield [epsilon, *(f"{mean:.2f}" for mean in means), f"{apart:.2f}", f"{width:.0f}", f"{held}/{RUNS}"]


def means() -> Iterator[list[str]]:
    """The mean error of a mean of 10,000 ages at epsilon 0.1: in halves as before, as today, and of total/size."""
    generator, source, size = np.random.default_rng(SEED), Seeded(SEED), 10_000
    values, asked = generator.integers(17, 61, size), mean("age", bounds=(0, 120))
    filled = mean("age", bounds=(0, 120), missing=60)
    for neighbors in ("add_remove", "replace"):
        near = NeighborRelation(neighbors, None)
        drawn = noises(asked, near, epsilon=Fraction(1, 10))
        errors = []
        tenth = Fraction(1, 10)
        for made in (halves(asked, near, drawn), laplace_mean(asked, near, tenth), laplace_mean(filled, near, tenth)):
            parts = made.parts(np.array([int((values - 60).sum())]), np.array([size]))
            noisy = [each.apply(np.repeat(part, 4000), source) for each, part in zip(made.noises, parts, strict=True)]
            errors.append(float(np.abs(np.array(made.values(*noisy)) - values.mean()).mean()))
        known = f"{120 / (size / 10):.4f}" if neighbors == "replace" else "-"
        yield [neighbors, *(f"{error:.4f}" for error in errors), known]


# Gaussian noise by (epsilon, delta)


def sigmas() -> Iterator[list[str]]:
    """The discrete noise beside the least continuous sigma, the conversion from zCDP, and Laplace noise."""
    for largest, keys in ((1, 1), (1, 2), (1, 50), (100, 1), (100, 3)):
        for epsilon, delta in (("0.1", "1e-6"), ("1", "1e-6"), ("3", "1e-6"), ("1", "1e-9")):
            eps, failure, length = Fraction(epsilon), Fraction(delta), largest**2 * keys
            made = discrete_gaussian_variance(
                epsilon=eps, delta=failure, largest=largest, l2_squared=length, reach=keys
            )
            smooth = gaussian_sigma(epsilon=epsilon, delta=delta, sensitivity=1) * math.sqrt(length)
            rho = math.sqrt(length / (2 * float(zero_concentrated_rho_down(epsilon=eps, delta=failure))))
            laplace = Laplace.for_epsilon(eps, sensitivity=largest, times=keys).error_bar()
            sigma = math.sqrt(made)
            bar = 1.959964 * sigma
            yield [
                f"{largest}, {keys}",
                f"{epsilon}, {delta}",
                f"{sigma / smooth:.4f}",
                f"{rho / smooth:.3f}",
                f"{laplace / bar:.2f}",
            ]


def bounds() -> Iterator[list[str]]:
    """Measured error beside the lower bounds."""
    for name, measure in MECHANISMS.items():
        for place, epsilon in enumerate((0.1, 0.5, 2.0)):
            found = measure(epsilon)
            figures = [f"{value:.3g}" for value in (found.measured, found.ours, found.published)]
            yield [name if not place else "", f"{epsilon:g}", *figures, f"{found.measured / found.ours:.2f}"]


def main() -> int:
    """Print all tables; write the pictures if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plots", type=Path, help="folder for the pictures")
    parser.add_argument(FULL, action="store_true", help="means over more runs")
    folder: Path | None = parser.parse_args().plots
    announce()
    show("Quantiles of a million values", TIMES, times(), against=[EXACT])
    show("Mean rank error of 10,000 values, add/remove", RANKS, ranks())
    show("Mean error of the median of 500 values, in places of the grid", MEDIANS, medians())
    show("Mean error of a mean of 10,000 values", MEANS, means())
    show("Sigma of discrete Gaussian noise that is (epsilon, delta)-DP", SIGMAS, sigmas())
    show("Error beside lower bounds", BOUNDS, bounds(), against=[LOWER])
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        for name in MECHANISMS:
            draw(name, folder / f"{name.split(',')[0].replace(' ', '_')}.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
