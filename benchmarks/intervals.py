"""How often intervals hold, given that a value was published: bikes, LCL, Adult, RAND, beside the usual error bar.

Run as `python benchmarks/intervals.py`; data sets that are not shipped are left out where they are not beside the
project. Truths are exact counts; noise is discrete Laplace for epsilon 0.02. Each line is so many rounds of a test of
every count against one bar: far above all of them, at their median, below all. "usual" is the error bar that ignores
why a value was published. "at once" is how often all hits of a round are covered together. "false" is the share of
false alarms among those that Benjamini-Hochberg lists at 10 %, and "of all" among all hits.
"""

import csv
import gzip
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from chary.accounting import GaussianLaw, LaplaceLaw, LargestOf, Publication, Support, benjamini_hochberg_list
from measuring import show

Ints = NDArray[np.int64]
SCALE = 50
USUAL = 150
TESTS = 50_000
ROUNDS = 40
# Intervals that are worked out for a figure: 0.7 ms each.
MOST = 1_500
SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
SURE = "0.95"


def rows_of(name: str) -> list[dict[str, str]]:
    """The rows of a data set beside the project; none where it is not there."""
    path = SHARED / name
    if not path.exists():
        return []
    with gzip.open(path, "rt") if name.endswith("gz") else path.open() as lines:
        return list(csv.DictReader(lines))


def counted(name: str, columns: tuple[str, ...]) -> Ints:
    """How many rows have each combination of values."""
    return np.array([*Counter(tuple(row[c] for c in columns) for row in rows_of(name)).values()], dtype=np.int64)


def numbers(name: str, column: str) -> Ints:
    """A column of counts."""
    return np.array([int(float(row[column])) for row in rows_of(name)], dtype=np.int64)


DATA: dict[str, Callable[[], Ints]] = {
    "bikes, rentals a day": lambda: numbers("bike_day.csv", "cnt"),
    "LCL, households a day": lambda: numbers("lcl_daily_aggregate.csv", "n_households"),
    "Adult, job and schooling": lambda: counted("adult_all.csv.gz", ("occupation", "education")),
    "RAND, site, plan, visits": lambda: counted("randhie_stream.csv.gz", ("site", "plan", "year", "mdvis")),
}


@dataclass(frozen=True)
class Interpreted:
    """The ends of the intervals of values, each worked out once."""

    told: Publication | LargestOf

    def misses(self, values: Ints, truths: Ints, confidence: str = SURE) -> NDArray[np.bool_]:
        """Which truths lie outside of the interval of their value, for some rows, evenly spread."""
        every = max(1, len(values) // MOST)
        values, truths = values[::every], truths[::every]
        different, places = np.unique(values, return_inverse=True)
        ends = [self.told.interval(int(value), confidence) for value in different]
        low = np.array([-np.inf if end.low is None else end.low for end in ends])[places]
        high = np.array([np.inf if end.high is None else end.high for end in ends])[places]
        return (truths < low) | (truths > high)


def laplace(source: np.random.Generator, size: tuple[int, ...]) -> Ints:
    """Discrete Laplace noise as a difference of two geometric numbers."""
    stop = -np.expm1(-1 / SCALE)
    return source.geometric(stop, size) - source.geometric(stop, size)


def watched(truths: Ints, bar: int, source: np.random.Generator) -> list[str]:
    """One bar of a data set."""
    rounds = max(1, TESTS // len(truths))
    values = truths + laplace(source, (rounds, len(truths)))
    above, exact = values >= bar, np.broadcast_to(truths, values.shape)
    hit = Publication(LaplaceLaw(SCALE), Support.at_least(bar))
    missed = Interpreted(hit).misses(values[above], exact[above])
    usual = np.abs(values[above] - exact[above]) > USUAL
    once = [_all_held(bar, values[k][above[k]], truths[above[k]]) for k in range(min(rounds, ROUNDS))]
    listed = [_false_share(hit, values[k][above[k]], truths[above[k]] < bar) for k in range(min(rounds, ROUNDS))]
    shares = [missed.mean(), usual.mean()] if above.any() else [np.nan, np.nan]
    naive = (exact[above] < bar).mean() if above.any() else np.nan
    return [
        f"{above.sum()}",
        *(f"{1 - share:.4f}" for share in shares),
        f"{np.mean(once):.3f}",
        f"{np.mean(listed):.3f}",
        f"{naive:.3f}",
    ]


def _all_held(bar: int, values: Ints, truths: Ints) -> bool:
    """Whether no value is among the rarest of its side, each at an equal part of 5 %, by the closed forms."""
    if not len(values):
        return True
    chance = 0.025 / len(values)
    missed = (_at_least(values, truths, bar) <= chance) | (1 - _at_least(values + 1, truths, bar) <= chance)
    return not missed.any()


def _at_least(values: Ints, truths: Ints, bar: int) -> NDArray[np.float64]:
    """`P(V >= v | V >= bar)` in floats."""

    def tail(distance: Ints) -> NDArray[np.float64]:
        far = np.exp(-np.abs(distance - (distance <= 0)) / SCALE) / (1 + np.exp(-1 / SCALE))
        return np.where(distance >= 1, far, 1 - far)

    return tail(values - truths) / tail(bar - truths)


def _false_share(hit: Publication, values: Ints, false: NDArray[np.bool_]) -> float:
    # The law at the edge of the bar, in floats: what `p_value` encloses.
    p_values = np.exp(-(values - int(hit.support.lowest or 0)) / SCALE)
    places = benjamini_hochberg_list(p_values.tolist(), "0.1")
    return float(false[places].mean()) if places else 0.0


def others(truths: Ints, source: np.random.Generator) -> Iterator[tuple[str, str, str]]:
    """Revisions, changes, fresh values, the best ten: coverage, and that of the usual bar."""
    rounds = max(1, TESTS // len(truths))
    noise = laplace(source, (rounds, len(truths)))
    values, exact = truths + noise, np.broadcast_to(truths, noise.shape)
    middle = int(np.median(truths))
    law = LaplaceLaw(SCALE)
    kept = {
        "revision": Support.between(middle - 100, middle + 100),
        "change": Support.outside(middle - 100, middle + 100),
    }
    for name, support in kept.items():
        inside = (
            (values >= middle - 100) & (values < middle + 100) if name == "revision" else np.abs(values - middle) > 100
        )
        told = Interpreted(Publication(law, support)).misses(values[inside], exact[inside])
        yield name, f"{1 - told.mean():.4f}", f"{(np.abs(noise[inside]) <= USUAL).mean():.4f}"
    hits = values >= middle
    fresh = np.rint(source.normal(0, 20, noise.shape)).astype(np.int64)
    told = Interpreted(Publication(GaussianLaw(400), bar=middle)).misses((exact + fresh)[hits], exact[hits])
    yield "fresh value after a hit", f"{1 - told.mean():.4f}", "the same"
    most = min(10, len(truths))
    best = np.argsort(-values, axis=1)[:, :most]
    chosen, true = np.take_along_axis(values, best, 1), truths[best]
    told = Interpreted(LargestOf(law, candidates=len(truths), most=most)).misses(chosen, true)
    usual = np.abs(chosen - true) > USUAL
    yield f"best {most}, all at once", f"{1 - told.any(axis=1).mean():.4f}", f"{1 - usual.any(axis=1).mean():.4f}"


def main() -> None:
    """Print both tables."""
    source = np.random.default_rng(1)
    first, second = [], []
    for name, read in DATA.items():
        truths = read()
        if not len(truths):
            continue
        bars = {"above all": truths.max() + 200, "at the median": np.median(truths), "below all": truths.min() - 500}
        first += [[f"{name}: {where}", *watched(truths, int(bar), source)] for where, bar in bars.items()]
        second += [[f"{name}: {kind}", ours, usual] for kind, ours, usual in others(truths, source)]
    show(
        "Tests of every count against a bar",
        ["data: bar", "published", "covered", "usual", "at once", "false", "of all"],
        first,
    )
    show("Published otherwise", ["data: how", "covered", "usual"], second)


if __name__ == "__main__":
    main()
