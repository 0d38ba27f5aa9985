"""Sparse vector on a growing table: error against size, what rounds cost, and what a question takes.

Run as `python benchmarks/growing_sparse.py [--full]`. Errors are shares of all rows. "Share-frozen" is [GROW] with its
noise function frozen when a round begins: noise stays the same part of the table. The others keep noise the same in
counts.
"""

import math
from fractions import Fraction

import numpy as np
import polars as pl

import chary
from chary import Budget, count
from chary.accounting import Pure, four_digits_down, largest_size
from chary.accounting.sharp_tests import sharp_table
from chary.accounting.sharp_widths import sharp_width
from chary.accounting.sparse_vector import GrowingRounds, growing_error_up, published_growing_error
from chary.calls import GrowingTests
from chary.filters import RenyiFilter
from chary.mechanisms.threshold_tests import SharpSampler
from chary.noise import OperatingSystem, discrete_laplace
from measuring import announce, best, duration, full, show

START, EPSILON, TESTS, FACTORS = 10_000, Fraction(1, 10), 1000, (1, 2, 10, 100)
BUDGET, FORESEEN = {"epsilon": 1, "delta": "1e-6"}, 14
STREAMS, SIZES, QUESTIONS, GROWTH = 200 if full() else 25, 40, 25, 1.1
VARIANTS = (("share-frozen", "published"), ("in counts", "published"), ("in counts", "tuned"))


def inside() -> None:
    """One round that began at n rows and is asked at n, 2 n, 10 n and 100 n."""
    for values in (False, True):
        table = []
        for name, form in VARIANTS:
            rounds = GrowingRounds(START, EPSILON, values=values, form=form)
            frozen = name == "share-frozen"
            sizes = [START if frozen else START * factor for factor in FACTORS]
            errors = [growing_error_up(rounds, size=size, begun=START, tests=TESTS) for size in sizes]
            table.append([f"{form}, {name}", *(f"{error:.5f}" for error in errors)])
        for exponent in ("0.5", "1"):
            rounds = GrowingRounds(START, EPSILON, exponent, values, "published")
            sizes = [START * factor for factor in FACTORS]
            bounds = [published_growing_error(rounds, size=size, begun=START, tests=TESTS) for size in sizes]
            table.append([f"published bound, exponent {exponent}", *(f"{bound:.5f}" for bound in bounds)])
        told = "with values" if values else "no values"
        show(f"Error of 1,000 tests in a round from n = 10,000 on, epsilon 0.1, {told}", ["", *heads()], table)


def across() -> None:
    """Rounds that begin at n, 2 n, 10 n and 100 n, by exponent: what each costs, and how accurate it is there."""
    table = []
    for exponent in ("0", "0.5", "1"):
        rounds = GrowingRounds(START, EPSILON, exponent)
        sizes = [START * factor for factor in FACTORS]
        costs = [f"{float(rounds.epsilon_down(size)):.4f}" for size in sizes]
        errors = [f"{growing_error_up(rounds, size=size, tests=TESTS):.5f}" for size in sizes]
        table += [[exponent, "epsilon", *costs, f"{float(rounds.loss(sizes)):.4f}"], [exponent, "error", *errors, ""]]
    show("Tuned rounds that begin at a size, 1,000 tests", ["exponent", "", *heads(), "all four"], table)


def heads() -> list[str]:
    """The sizes as columns."""
    return ["n", *(f"{factor} n" for factor in FACTORS[1:])]


def streams() -> None:
    """Whole streams: by how much the worst answer of each is wrong, and what it was charged."""
    table = []
    for exponent in ("0.5", "1"):
        for name, form in VARIANTS:
            rounds = GrowingRounds(START, EPSILON, exponent, form=form)
            runs = [stream(rounds, number, frozen=name == "share-frozen") for number in range(STREAMS)]
            worst, begun, charged = (np.array(column) for column in zip(*runs, strict=True))
            row = [f"{np.median(worst):.4f}", f"{np.quantile(worst, 0.95):.4f}"]
            table.append([exponent, f"{form}, {name}", *row, f"{begun.mean():.1f}", f"{charged.mean():.2f}"])
    show(
        f"Streams from n to {GROWTH ** (SIZES - 1):.0f} n, {SIZES * QUESTIONS} questions: the worst answer of each",
        ["exponent", "noise", "median error", "95 %", "rounds", "epsilon charged"],
        table,
    )


def stream(rounds: GrowingRounds, number: int, *, frozen: bool) -> tuple[float, int, float]:
    """The largest distance by which an answer is wrong, the rounds begun and what they cost.

    Truths lie evenly up to a fifth below the threshold, one in 100 of them a tenth above.
    """
    source, random = OperatingSystem(), np.random.default_rng(number)
    worst, begun, shift, size_then = 0.0, [], None, START
    for step in range(SIZES):
        size = math.ceil(START * GROWTH**step)
        for gap in np.where(random.random(QUESTIONS) < 0.01, 0.1, -0.2 * random.random(QUESTIONS)):
            if shift is None:
                size_then = size
                begun.append(size)
                noise = rounds.noise(size)
                shift = int(discrete_laplace(source, noise.threshold, 1)[0])
            wider = Fraction(size, size_then) if frozen else Fraction(1)
            noisy = gap * size + int(discrete_laplace(source, noise.test * wider, 1)[0])
            above = noisy >= shift * wider
            if above != (gap >= 0):
                worst = max(worst, abs(gap))
            shift = None if above else shift
    return worst, len(begun), float(rounds.loss(begun))


def by_hits() -> None:
    """So many yeses under one budget, by rounds and by sharp tests: by how many rows tests may be wrong at n rows, and
    the worst answer of whole streams."""
    table = []
    for hits in (1, 2, 5, 10, 20, 50):
        added, composed = (_rounds_error(epsilon, hits) for epsilon in (Fraction(1, hits), _renyi_epsilon(hits)))
        sharp = sharp_width(**BUDGET, tests=TESTS, hits=hits)
        table.append([str(hits), f"{added:.0f}", f"{composed:.0f}", f"{sharp.within:.0f}"])
    headings = ["yeses", "rounds, epsilons added", "rounds, Renyi", "sharp tests"]
    show(f"Rows by which {TESTS:,} tests may be wrong, budget (1, 1e-6)", headings, table)
    table = []
    rounds, sharp = GrowingRounds(START, _renyi_epsilon(FORESEEN)), sharp_width(**BUDGET, tests=TESTS, hits=FORESEEN)
    sampler = SharpSampler(sharp_table(order=sharp.test.order, price=sharp.test.price))
    for name, run in (
        ("rounds, Renyi", lambda number: stream(rounds, number, frozen=False)[:2]),
        ("sharp tests", lambda number: sharp_stream(sampler, number)),
    ):
        worst, hits = (np.array(column) for column in zip(*map(run, range(STREAMS)), strict=True))
        row = [f"{np.median(worst):.4f}", f"{np.quantile(worst, 0.95):.4f}", f"{hits.mean():.1f}"]
        table.append([name, *row, f"{100 * hits.mean() / FORESEEN:.0f}%"])
    show(
        f"The same streams, {FORESEEN} yeses under (1, 1e-6): the worst answer of each",
        ["", "median error", "95 %", "rounds or yeses", "spent"],
        table,
    )


def _renyi_epsilon(hits: int) -> Fraction:
    """The largest rounds of which so many fit under the Renyi filter."""

    def fits(size: float) -> bool:
        filter_ = RenyiFilter.best(Budget(**BUDGET))
        return filter_.price(Pure(Fraction(size))).hit.copies_in(filter_.capacity) >= hits

    return four_digits_down(largest_size(fits, 1.0))


def _rounds_error(epsilon: Fraction, hits: int) -> float:
    rounds = GrowingRounds(START, epsilon)
    return START * growing_error_up(rounds, size=START, tests=TESTS, number=hits)


def sharp_stream(sampler: SharpSampler, number: int) -> tuple[float, int]:
    """The same stream asked by sharp tests: by how much the worst answer is wrong, and how many yeses there were."""
    source, random = OperatingSystem(), np.random.default_rng(number)
    worst, hits = 0.0, 0
    for step in range(SIZES):
        size = math.ceil(START * GROWTH**step)
        gaps = np.where(random.random(QUESTIONS) < 0.01, 0.1, -0.2 * random.random(QUESTIONS))
        found = sampler.hits((gaps * size).astype(np.int64), source)
        wrong = found != (gaps >= 0)
        worst, hits = max(worst, np.abs(gaps[wrong]).max(initial=0.0)), hits + int(found.sum())
    return worst, hits


def times() -> None:
    """Seconds for a question in an open round, and for one that begins and ends a round."""
    rows = pl.DataFrame({"age": np.arange(10**5) % 100})
    options = {"privacy_unit": None, "neighbors": "replace", "budget": Budget(epsilon=1000)}
    with chary.open(rows, ledger=":memory:", **options) as session:
        growing = session.start(GrowingTests(above="0.5", epsilon="0.1"))
        plan = session.spine.rows.prepare(count("age < 30"))
        works = {
            "the bare query": plan.run,
            "a question in an open round": lambda: growing.ask(count("age < 30")),
            "one that begins and ends a round": lambda: growing.ask(count("age < 30"), above=0),
        }
        table = [[name, duration(best(work, rounds=20))] for name, work in works.items()]
    show("Time, 100,000 rows", ["", "time"], table)


if __name__ == "__main__":
    announce()
    inside()
    across()
    streams()
    by_hits()
    times()
