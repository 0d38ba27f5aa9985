"""Target charging beside smooth sensitivity, propose-test-release, distance to instability, BetweenThresholds, KMS.

Run as `python benchmarks/rivals.py`; the data sets lie beside the project, and what needs one is left out without it.
Settings of every way to label are those that do best on a pilot shuffle (seed 100) of the same data, for peers as for
chary. Peers are floats; the laws of chary's calls are computed, not asked of a session.
"""

import math
import sys
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import polars as pl

from chary import Budget
from chary.accounting import Targeted, between_q_down
from chary.accounting.sharp_tests import SharpTest
from chary.calls.boundaries import HALF, draws_between
from chary.filters import RenyiFilter
from chary.mechanisms import HalvedQuantiles, Order
from chary.noise import Seeded
from learning import ADULT, TASKS, Trial
from measuring import announce, full, show
from noisy_thresholds import repeated
from stable_labels import NONE, Floats, Votes, passing, winners
from stable_medians import ProposedMedian, SmoothSensitivity, median
from units_charged import Answers, Asked, streams
from votes_labelled import Labelling, ways

RAND = ADULT.with_name("randhie_stream.csv.gz")
SEEDS, PILOT, WRONG = range(5 if full() else 2), 100, 9
VOTERS, OPTIONS, QUESTIONS = 1000, 10, 5000
LABELS = ["", "asked", "labels", "as the majority %", "as the truth %"]
MEDIANS = [
    "error of a median",
    "smooth, Cauchy",
    "smooth, Laplace*",
    "proposed*",
    "chary",
    "chary, flip",
    "limit: a sample's",
]
BETWEEN = ["tests, hits", "published", "its noise alone", "chary, Laplace", "chary, sharp", "published / sharp"]
UNITS = ["", "hits", "F1", "median error of values", "units used up %"]
HITS, BAR = 20, 100
SAMPLE, DRAWS = 1000, 200 if full() else 50


# Labels


def agreed(seed: int) -> tuple[Votes, Votes]:
    """Votes of 1,000 on 5,000 questions with ten options: on 98 % of them four of five agree, on the others nobody."""
    generator = np.random.default_rng(seed)
    clear, split = np.full(OPTIONS, 0.2 / 9), np.full(OPTIONS, 1 / 80)
    clear[0], split[:2] = 0.8, 0.45
    votes = np.where(
        generator.random((QUESTIONS, 1)) < 0.98,
        generator.multinomial(VOTERS, clear, QUESTIONS),
        generator.multinomial(VOTERS, split, QUESTIONS),
    )
    return votes, np.zeros(QUESTIONS, dtype=np.int64)


def trained(number: int, seed: int) -> tuple[Votes, Votes]:
    """Votes of the teachers of `learning` on the public points of a data set, and the true labels."""
    trial = Trial(TASKS[number], seed)
    return trial.votes, np.array(trial.truth)


def graded(way: Labelling, votes: Votes, truth: Votes, seed: int) -> Floats:
    """How many are asked and labelled, and how many labels are those of the majority and of the truth."""
    labels = way(votes, np.random.default_rng([seed, len(votes)]))
    told = np.flatnonzero(labels != NONE)
    right = [float((labels[told] == wanted[told]).sum()) for wanted in (winners(votes), truth)]
    return np.array([len(labels), told.size, *right])


def labelled(several: list[tuple[Votes, Votes]], pilot: tuple[Votes, Votes], budget: Budget) -> Iterator[list[str]]:
    """Each way at its best setting on the pilot, where a label against the majority costs nine for it."""
    questions, options = pilot[0].shape
    for name, forms in ways(budget, questions, options, int(pilot[0][0].sum())).items():
        scores = [graded(form, *pilot, PILOT) for form in forms]
        best = int(np.argmax([right - WRONG * (told - right) for _, told, right, _ in scores]))
        asked, told, *right = np.mean([graded(forms[best], *each, seed) for seed, each in enumerate(several)], axis=0)
        yield [name, f"{asked:,.0f}", f"{told:,.0f}", *(f"{100 * part / told:.1f}" if told else "-" for part in right)]


# Medians


def columns() -> Iterator[tuple[str, Floats, float, float]]:
    """Numbers of public bounds, in steps of one."""
    adult = pl.read_csv(ADULT, columns=["age", "hours_per_week"])
    yield "age", adult["age"].to_numpy().astype(float), 0, 100
    yield "hours a week", adult["hours_per_week"].to_numpy().astype(float), 0, 100
    rand = pl.read_csv(RAND, columns=["meddol", "year"]).filter(pl.col("year") == 1)
    yield "dollars", rand["meddol"].to_numpy().round(), 0, 10_000


def medians() -> Iterator[list[str]]:
    """Mean errors of the median of a thousand values, one of which is replaced; * at delta 1e-6."""
    for name, values, low, high in columns():
        for epsilon in (0.1, 1.0):
            found = [middles(values, low, high, epsilon, seed) for seed in SEEDS]
            yield [f"{name}, epsilon {epsilon:g}", *(f"{error:.3g}" for error in np.mean(found, axis=0))]


def middles(values: Floats, low: float, high: float, epsilon: float, seed: int) -> list[float]:
    """The error of each way on one sample; what is proposed is the best of powers of two, chosen with the data."""
    generator = np.random.default_rng(seed)
    sample = np.clip(generator.choice(values, SAMPLE, replace=False), low, high)
    truth, draws = median(sample), (sample, low, high, DRAWS, generator)
    proposals = [ProposedMedian(epsilon, 1e-6, (high - low) / 2**power) for power in range(13)]
    peers = [[SmoothSensitivity(epsilon)], [SmoothSensitivity(epsilon, 1e-6)], proposals]
    errors = [min(float(np.abs(one.draw(*draws) - truth).mean()) for one in group) for group in peers]
    order = Order(*np.unique(sample.astype(np.int64), return_counts=True), int(high) + 1)
    for flip in (False, True):
        made, source = HalvedQuantiles(("0.5",), str(epsilon), replace=True, flip=flip), Seeded(seed)
        errors.append(float(np.mean([abs(made.step(order, source)[0] - truth) for _ in range(DRAWS)])))
    return [*errors, abs(truth - median(values))]


# Between two bars


def between() -> Iterator[list[str]]:
    """From surely low to surely high, 95 times in 100 for all tests together: bars and what lies beyond."""
    for tests in (100, 10_000, 1_000_000):
        for hits in (1, 10, 50):
            widths = [*noisy_bars(tests, hits), laplace_zone(tests, hits), sharp_zone(tests, hits)]
            yield [f"{tests:,}, {hits}", *(f"{width:,.0f}" for width in widths), f"{widths[0] / widths[-1]:.1f}"]


def noisy_bars(tests: int, hits: int) -> list[float]:
    """By the published bound for the error; and by what the noise really reaches."""
    made = repeated(1.0, 1e-6, hits)
    chance, scales = 0.05 / tests, (2 / made.epsilon, 6 / made.epsilon)
    low, high = 0.0, made.within(tests, 0.95)
    while high - low > 0.5:
        middle = (low + high) / 2
        low, high = (low, middle) if passing(middle, scales) <= chance else (middle, high)
    return [made.gap + 2 * made.within(tests, 0.95), made.gap + 2 * high]


def laplace_zone(tests: int, hits: int) -> float:
    """That of `Classify(epsilon=...)` at the best distance of the bars."""
    budget, widths = Budget(epsilon=1, delta=1e-6), []
    for size in (1 / 2**power for power in range(3, 11)):
        epsilon = Fraction(str(round(size, 6)))
        filter_ = RenyiFilter.best(budget, grain=epsilon)
        for share in (0.1, 0.3, 1, 3, 10):
            width = max(1, round(share / float(epsilon)))
            price = filter_.price(Targeted(epsilon, between_q_down(epsilon, width=width, sensitivity=1)))
            if price.free_miss and (price.hit.copies_in(filter_.capacity) or 0) >= hits:
                widths.append(width + 2 * math.log(tests / 0.05) / float(epsilon))
    return min(widths, default=math.inf)


def sharp_zone(tests: int, hits: int) -> float:
    """That of `Classify(hits=...)` at the best distance of the bars."""
    filter_ = RenyiFilter.best(Budget(epsilon=1, delta=1e-6))
    test = SharpTest(filter_.order, Fraction(filter_.capacity.main // hits, filter_.steps))
    widths = []
    for gap in (1, 10, 30, 100, 300):
        draws = draws_between(test, gap, 1)
        half = min(draws.reach(HALF), (gap + 1) // 2)
        widths.append(gap + 2 * (draws.reach(Fraction(1, 20 * tests)) - half))
    return min(widths)


# Units that pay for themselves


def visits() -> Asked:
    """Who of RAND's persons made so many visits, by year and site: each may be in many of these counts."""
    rows = pl.read_csv(RAND, columns=["year", "zper", "site", "mdvis"]).with_columns(pl.col("zper").rank("dense") - 1)
    units, found = int(rows["zper"].max()) + 1, []
    keys = sorted(set(rows.select("year", "site").iter_rows()))
    for least in range(8, 0, -1):
        for year, site in keys:
            some = rows.filter((pl.col("mdvis") >= least) & (pl.col("year") == year) & (pl.col("site") == site))
            found.append(np.isin(np.arange(units), some["zper"].to_numpy()))
    return Asked(np.array(found), BAR)


def charged() -> Iterator[list[str]]:
    """Each stream over the same questions."""
    asked = visits()
    for stream in streams(Budget(epsilon=1, delta=1e-6), HITS):
        found = [stream.run(asked, Seeded(seed)).figures() for seed in SEEDS]
        yield told(stream.name, np.mean(found, axis=0))
    everything = dict(enumerate(asked.truth.tolist()))
    exact = Answers(asked, {number: count for number, count in everything.items() if count >= BAR}, 0.0)
    yield told("limit: exact, nobody leaves", np.array(exact.figures()))


def told(name: str, figures: Floats) -> list[str]:
    """A line of the table."""
    hits, score, off, exhausted = figures
    return [name, f"{hits:.0f}", f"{score:.3f}", f"{off:.1f}", f"{100 * exhausted:.1f}"]


def main() -> int:
    announce()
    budget = Budget(epsilon=1, delta=1e-5)
    sources = {"votes of 1,000 that agree": agreed, "digits": lambda seed: trained(0, seed)}
    if ADULT.exists():
        sources["Adult"] = lambda seed: trained(1, seed)
    for name, source in sources.items():
        lines = labelled([source(seed) for seed in SEEDS], source(PILOT), budget)
        show(f"Labels: {name}, (1, 1e-5)", LABELS, lines, "* no guarantee: what it charges depends on exact votes")
    show("Between two bars, (1, 1e-6): counts from surely low to surely high", BETWEEN, between())
    if ADULT.exists():
        show(f"Medians of {SAMPLE:,} values, one replaced", MEDIANS, medians(), "* with delta 1e-6")
        show(f"Counts of RAND, {HITS} hits for (1, 1e-6), bar {BAR}", UNITS, charged())
    return 0


if __name__ == "__main__":
    sys.exit(main())
