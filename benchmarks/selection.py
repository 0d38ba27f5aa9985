"""One-shot top-k of many counts: what it adds to the bare query, and how good it is beside its peers.

Run as `python benchmarks/selection.py [--full]`. Everyone gets the same budget for k candidates of a population in
which one unit may be in every candidate; each peer runs at the largest size that fits by the best of its composition
theorems:

- exponential mechanism, k times without replacement (Gumbel noise once): basic, optimal, or bounded range with
  zCDP epsilon^2/8 a round; counts move in one direction, so the factor 2 is dropped;
- permute-and-flip, k times: basic, optimal, or zCDP epsilon^2/2 a round;
- the exponential mechanism on half of the zCDP budget, Gaussian noise on the counts of its choice on the other half;
- Gaussian noise on all counts.

Noise is seeded: numpy's for the peers, exact for ours. The bikes need the data set beside the project.
"""

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

import chary
from chary import Budget, count
from chary.accounting import epsilon_up, gaussian_sigma, optimal_total
from chary.calls import TopK
from chary.filters import largest_call
from chary.mechanisms import Laplace, OneShotTopK
from chary.noise import Seeded
from measuring import QueryClock, announce, full, show
from recording import Against

BIKES = Path(__file__).resolve().parents[2] / "shared" / "data" / "bike_hour.csv"
EPSILON, DELTA = 1.0, 1e-6
LARGEST, SIZES, MOST = 10_000, (1_000, 100_000), (1, 5, 20)
RUNS, SEED = 100 if full() else 20, 20_230_207
ROWS, UNITS, KEYS, ROUNDS, LIMIT = 1_000_000, 100_000, 100_000, 7, 0.050
ADDED = ["k", "query ms", "top adds ms", "limit ms", "ours / limit"]
LIMITED = Against("top-k adds", *ADDED[2:])
CROSSOVERS = [
    "k",
    "epsilon, ours",
    "all m by composition: noisier from m",
    "Gaussian on all c keys of a unit: noisier from c",
]
ACCURACY = ["counts, k", "mechanism", "size", "recall", "count lost", "error of scores"]
Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Picked = tuple[Integers, Floats | None]
Picks = Callable[[Integers, np.random.Generator], Picked]


@dataclass(frozen=True)
class Mechanism:
    """A way to choose the k largest counts, its size, and one seeded run."""

    name: str
    size: str
    run: Picks


def largest(fits: Callable[[float], bool], most: float = 100.0) -> float:
    """The largest size that fits, to one part in ten thousand."""
    low, high = 0.0, most
    while high - low > 1e-4 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def most_rho() -> float:
    """The zCDP that the budget affords at the best Renyi order."""
    orders = [1 + Fraction(order, 2) for order in range(1, 400)]
    delta = Fraction(str(DELTA))

    def total(rho: float) -> float:
        return min(float(epsilon_up(a * (a - 1) * Fraction(rho), a, delta)) for a in orders)

    return largest(lambda rho: total(rho) <= EPSILON, 1.0)


def pure_size(k: int, rho_each: float) -> float:
    """The largest epsilon of k rounds: basic or optimal composition, or what the zCDP of a round allows."""
    optimal = largest(lambda size: optimal_total(size, k, DELTA) <= EPSILON, 2.0)
    return max(EPSILON / k, optimal, rho_each)


def top(scores: Floats, k: int) -> Integers:
    """The positions of the k largest scores, largest first."""
    near = np.argpartition(scores, len(scores) - k)[len(scores) - k :]
    return near[np.argsort(-scores[near])]


def ours(k: int, values: Integers, generator: np.random.Generator) -> Picked:
    """The mechanism of `Session.top`."""
    size = largest_call(Budget(epsilon=EPSILON, delta=DELTA), k, "renyi")
    source = Seeded(int(generator.integers(2**32)))
    found = OneShotTopK(k).step(values, Laplace.for_epsilon(size, sensitivity=1), source)
    return np.array(found.positions), np.array(found.noisy, dtype=np.float64)


def exponential(k: int, size: float, sigma: float | None, values: Integers, generator: np.random.Generator) -> Picked:
    """Gumbel noise once is k rounds of the exponential mechanism; with Gaussian noise on what it chose, if asked."""
    chosen = top(values + generator.gumbel(0, 1 / size, len(values)), k)
    return chosen, None if sigma is None else values[chosen] + generator.normal(0, sigma, k)


def permute_and_flip(k: int, size: float, values: Integers, generator: np.random.Generator) -> Picked:
    """Exponential noise, fresh in every round."""
    left, chosen = values.astype(np.float64), []
    for _ in range(k):
        chosen.append(int(np.argmax(left + generator.exponential(1 / size, len(left)))))
        left[chosen[-1]] = -np.inf
    return np.array(chosen), None


def gaussian(k: int, sigma: float, values: Integers, generator: np.random.Generator) -> Picked:
    """Noise on all counts."""
    noisy = values + generator.normal(0, sigma, len(values))
    chosen = top(noisy, k)
    return chosen, noisy[chosen]


def mechanisms(k: int, candidates: int) -> Iterator[Mechanism]:
    """Ours, then the peers."""
    rho = most_rho()
    peeled, flipped = pure_size(k, math.sqrt(8 * rho / k)), pure_size(k, math.sqrt(2 * rho / k))
    halved, sigma = math.sqrt(4 * rho / k), math.sqrt(k / rho)
    everything = gaussian_sigma(epsilon=EPSILON, delta=DELTA, sensitivity=math.sqrt(candidates))
    call = float(largest_call(Budget(epsilon=EPSILON, delta=DELTA), k, "renyi"))
    yield Mechanism("one-shot top-k, ours", f"epsilon {call:.3g}", partial(ours, k))
    yield Mechanism("exponential", f"epsilon {peeled:.3g}", partial(exponential, k, peeled, None))
    yield Mechanism("permute-and-flip", f"epsilon {flipped:.3g}", partial(permute_and_flip, k, flipped))
    both = f"{halved:.3g}, sigma {sigma:.3g}"
    yield Mechanism("exponential, then Gaussian", both, partial(exponential, k, halved, sigma))
    yield Mechanism("Gaussian on all", f"sigma {everything:.3g}", partial(gaussian, k, everything))


def scored(mechanism: Mechanism, values: Integers, k: int) -> list[str]:
    """Recall of the k largest, the mean count lost to them, the mean error of the scores."""
    generator = np.random.default_rng(SEED)
    ranked = np.sort(values)[::-1]
    figures: list[tuple[float, float, float]] = []
    for _ in range(RUNS):
        chosen, scores = mechanism.run(values, generator)
        right = np.count_nonzero(values[chosen] >= ranked[k - 1])
        error = math.nan if scores is None else float(np.abs(scores - values[chosen]).mean())
        figures.append((right / k, float(ranked[:k].mean() - values[chosen].mean()), error))
    recall, lost, error = np.mean(figures, axis=0)
    return [f"{recall:.2f}", f"{lost:.1f}", "none" if math.isnan(error) else f"{error:.1f}"]


def zipf(candidates: int) -> Integers:
    """Counts LARGEST/1, LARGEST/2, LARGEST/3, ... in random order."""
    counts: Integers = np.round(LARGEST / np.arange(1, candidates + 1)).astype(np.int64)
    return np.random.default_rng(SEED).permutation(counts)


def populations() -> Iterator[tuple[str, Integers]]:
    """Names and counts."""
    for size in SIZES:
        yield f"Zipf {size:,}", zipf(size)
    if BIKES.exists():
        hours = duckdb.sql(f"SELECT registered FROM read_csv('{BIKES}')").fetchnumpy()["registered"]
        yield f"bike hours {len(hours):,}", hours.astype(np.int64)


def accuracy() -> Iterator[list[str]]:
    """All lines of the comparison."""
    for name, values in populations():
        for k in MOST:
            for place, made in enumerate(mechanisms(k, len(values))):
                yield [f"{name}, {k}" if not place else "", made.name, made.size, *scored(made, values, k)]


def added() -> Iterator[list[str]]:
    """What a top adds to its bare query, clocked within each call."""
    data = f"SELECT hash(range) % {UNITS} AS unit, (hash(range + {ROWS}) % {KEYS})::BIGINT AS k FROM range({ROWS})"
    with duckdb.connect() as connection:
        source: Any = connection.sql(data).to_arrow_table()
    budget, clock, query = Budget(epsilon=1000, delta=1e-6), QueryClock(), count().by("k", range(KEYS))
    with chary.open(source, privacy_unit="unit", budget=budget, ledger=":memory:", on_step=clock) as session:
        for k in MOST:
            work = partial(session.ask, TopK(query, k=k, epsilon="0.02"))
            work()
            splits = [clock.split(work) for _ in range(ROUNDS)]
            adds = min(rest for _, rest in splits)
            bare = min(whole - rest for whole, rest in splits)
            yield [str(k), *(f"{part * 1e3:.1f}" for part in (bare, adds, LIMIT)), f"{adds / LIMIT:.2f}"]


def crossovers() -> Iterator[list[str]]:
    """From how many candidates on publishing all of them takes more noise than ours."""
    rho = most_rho()
    for k in MOST:
        call = float(largest_call(Budget(epsilon=EPSILON, delta=DELTA), k, "renyi"))
        laplace = math.sqrt(2) / call
        all_m = first(lambda m: pure_size(m, math.sqrt(2 * rho / m)) < call)  # noqa: B023
        all_c = first(lambda c: gaussian_sigma(epsilon=EPSILON, delta=DELTA, sensitivity=math.sqrt(c)) > laplace)  # noqa: B023
        yield [str(k), f"{call:.3g}", str(all_m), str(all_c)]


def first(holds: Callable[[int], bool]) -> int:
    """The least number from which on it holds."""
    return next(n for n in itertools.count(1) if holds(n))


def main() -> None:
    announce()
    caption = f"Best of {ROUNDS} rounds; the ledger is in memory."
    show(f"Top-k over {KEYS:,} counts of {ROWS:,} rows", ADDED, added(), caption, [LIMITED])
    told = (
        f"Mean of {RUNS} runs. Recall: share of the chosen that are among the true top k. Count lost: how much smaller "
        "the chosen are on average. Size: of one call or round."
    )
    show(f"Accuracy at epsilon {EPSILON:g}, delta {DELTA:g}", ACCURACY, accuracy(), told)
    show("Ours beside publishing every candidate's outcome, by theory", CROSSOVERS, crossovers())


if __name__ == "__main__":
    main()
