"""One choice among many counts: how long it takes beside peers and a float limit, and how much it loses.

Run as `python benchmarks/choices.py`. OpenDP and diffprivlib are optional; one that cannot be imported is skipped with
the reason. The limit is NumPy: the largest of all counts plus float noise, which is fast and not private (floats leak).
"""

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

import chary
from chary import Budget, count
from chary.accounting import exponential_loss_up, flip_loss_up, laplace_loss_up
from chary.calls import Choose
from chary.calls.choices import bounded_range
from chary.filters import RenyiFilter
from chary.mechanisms import Exponential, MajorityVote, PermuteAndFlip, RandomizedResponse, ReportNoisyMax
from chary.noise import OperatingSystem, Seeded
from measuring import QueryClock, announce, duration, seconds, show, side_by_side
from recording import Against

BIKES = Path(__file__).resolve().parents[2] / "shared" / "data" / "bike_hour.csv"
CANDIDATES, EPSILON, SMALL, ROUNDS = 100_000, "0.1", "0.02", 7
RUNS, SEED = 400, 20_230_207
ROWS, UNITS = 1_000_000, 100_000
SPEED = ["by", "time", "peer", "theirs", "they / we", "NumPy float", "we / limit"]
VERSUS = [
    Against("one choice, over NumPy floats", "time", "NumPy float", "we / limit"),
    Against("one choice, beside OpenDP", "time", "theirs", kind="peer"),
]
LOSS = ["counts", "by", "epsilon", "mean loss", "19 of 20 within", "bound"]
Integers = NDArray[np.int64]
Chooser = Exponential | ReportNoisyMax


def zipf() -> Integers:
    """Counts 10,000/1, 10,000/2, ... in random order."""
    counts = np.round(10_000 / np.arange(1, CANDIDATES + 1)).astype(np.int64)
    return np.random.default_rng(SEED).permutation(counts)


def populations() -> Iterator[tuple[str, Integers]]:
    """Names and counts; the hours of bicycles need the data set beside the project."""
    one = np.full(CANDIDATES, 100, dtype=np.int64)
    one[SEED % CANDIDATES] = 700
    yield f"one of 700 and {CANDIDATES - 1:,} of 100", one
    normal = np.random.default_rng(SEED).normal(1000, 100, CANDIDATES)
    yield f"{CANDIDATES:,} near 1,000 (spread 100)", np.round(normal).astype(np.int64)
    if BIKES.exists():
        hours = duckdb.sql(f"SELECT registered FROM read_csv('{BIKES}')").fetchnumpy()["registered"]
        yield f"{len(hours):,} bike hours", hours.astype(np.int64)


def ways(epsilon: str | Fraction) -> dict[str, Chooser]:
    """All mechanisms for counts that move together."""
    return {
        "permute_and_flip": PermuteAndFlip(epsilon, 1, monotone=True),
        "exponential": Exponential(epsilon, 1, monotone=True),
        "laplace": ReportNoisyMax(epsilon, 1, monotone=True),
        "exponential noise": ReportNoisyMax(epsilon, 1, monotone=True, shape="exponential"),
    }


def limits(counts: Integers) -> dict[str, Callable[[], object]]:
    """The largest count plus float noise."""
    generator, scale, size = np.random.default_rng(SEED), 1 / float(EPSILON), len(counts)
    draws = {
        "permute_and_flip": generator.exponential,
        "exponential": partial(generator.gumbel, 0),
        "laplace": partial(generator.laplace, 0),
        "exponential noise": generator.exponential,
    }
    return {name: lambda draw=draw: np.argmax(counts + draw(scale, size)) for name, draw in draws.items()}


def opendp_choices(counts: Integers) -> dict[str, Callable[[], object]]:
    """OpenDP's noisy max: exponential noise for pure privacy, Gumbel noise for zCDP."""
    library: Any = import_module("opendp.prelude")
    library.enable_features("contrib")
    space = library.vector_domain(library.atom_domain(T="i64")), library.linf_distance(T="i64", monotonic=True)
    given = counts.tolist()
    measures = {"permute_and_flip": library.max_divergence(), "exponential": library.zero_concentrated_divergence()}
    made = {name: library.m.make_noisy_max(*space, kind, scale=10.0) for name, kind in measures.items()}
    return {name: partial(measurement, given) for name, measurement in made.items()}


def diffprivlib_choices(counts: Integers) -> dict[str, Callable[[], object]]:
    """diffprivlib's mechanisms, which take the counts when they are made."""
    library: Any = import_module("diffprivlib.mechanisms")
    given = counts.astype(float).tolist()
    kinds = {"permute_and_flip": library.PermuteAndFlip, "exponential": library.Exponential}

    def run(kind: Any) -> object:
        return kind(epsilon=float(EPSILON), sensitivity=1.0, utility=given, monotonic=True).randomise()

    return {name: partial(run, kind) for name, kind in kinds.items()}


PEERS = {"OpenDP": opendp_choices, "diffprivlib": diffprivlib_choices}


def peers(counts: Integers) -> tuple[dict[str, dict[str, Callable[[], object]]], list[str]]:
    """What can be imported, and why the rest is skipped."""
    found, skipped = {}, []
    for name, choices in PEERS.items():
        try:
            found[name] = choices(counts)
        except ImportError as error:
            skipped.append(f"{name} is skipped: {error.msg.partition(' (')[0]}")
    return found, skipped


def speed() -> tuple[list[list[str]], list[str]]:
    """All lines of the comparison and the reasons for peers that are missing."""
    counts, source, rows = zipf(), OperatingSystem(), []
    theirs, skipped = peers(counts)
    floats = limits(counts)
    for name, chooser in ways(EPSILON).items():
        ours, limit = side_by_side([partial(chooser.step, counts, source), floats[name]], ROUNDS)
        line, tail = [name, duration(ours)], [duration(limit), f"{ours / limit:.1f}"]
        measured = [(peer, min(seconds(made[name]) for _ in range(3))) for peer, made in theirs.items() if name in made]
        for peer, taken in measured or [("-", math.nan)]:
            figures = [duration(taken), f"{taken / ours:.1f}"] if measured else ["-", "-"]
            rows.append([*line, peer, *figures, *tail])
            line, tail = ["", ""], ["", ""]
    return rows, skipped


def added() -> Iterator[list[str]]:
    """What a choice adds to its bare query, clocked within each call."""
    data = (
        f"SELECT hash(range) % {UNITS} AS unit, (hash(range + {ROWS}) % {CANDIDATES})::BIGINT AS k FROM range({ROWS})"
    )
    with duckdb.connect() as connection:
        source: Any = connection.sql(data).to_arrow_table()
    clock, query = QueryClock(), count().by("k", range(CANDIDATES))
    budget = Budget(epsilon=1000, delta=1e-6)
    with chary.open(source, privacy_unit="unit", budget=budget, ledger=":memory:", on_step=clock) as session:
        for by in ("permute_and_flip", "exponential", "laplace"):
            work = partial(session.ask, Choose(query, epsilon=EPSILON, mechanism=by))
            work()
            splits = [clock.split(work) for _ in range(ROUNDS)]
            adds = min(rest for _, rest in splits)
            yield [by, duration(min(whole - rest for whole, rest in splits)), duration(adds)]


def same_price(epsilon: str) -> Fraction:
    """The epsilon of an exponential mechanism that a Renyi filter charges like a pure call of this size."""
    filter_ = RenyiFilter.best(Budget(epsilon=1, delta=1e-6), grain=None)
    most = filter_.cheapest(*bounded_range(Fraction(epsilon))).hit.main
    pure = filter_.price(PermuteAndFlip(epsilon, 1).event()).hit.main
    return (Fraction(epsilon) * Fraction(math.sqrt(pure / most))).limit_denominator(1000)


def losses() -> Iterator[list[str]]:
    """Mean, 95 % quantile and bound of the loss."""
    bounds = {"permute_and_flip": flip_loss_up, "exponential": exponential_loss_up, "laplace": laplace_loss_up}
    for title, counts in populations():
        lines = [(name, Fraction(SMALL), ways(SMALL)[name]) for name in bounds]
        dearer = same_price(SMALL)
        lines.append(("exponential", dearer, ways(dearer)["exponential"]))
        for place, (name, size, chooser) in enumerate(lines):
            source = Seeded(SEED)
            lost = [int(counts.max() - counts[chooser.step(counts, source)]) for _ in range(RUNS)]
            bound = math.ceil(bounds[name](size, len(counts), Fraction(1, 20))) - 1
            told = [f"{np.mean(lost):.1f}", f"{np.quantile(lost, 0.95, method='inverted_cdf'):.0f}", str(bound)]
            yield ["" if place else title, name, f"{float(size):.3g}", *told]


def votes() -> Iterator[list[str]]:
    """How often a majority of r beyond the half of an odd number of units is called wrongly."""
    for r in (1, 5, 10, 20, 40):
        chances = (
            1 - MajorityVote(EPSILON, rule=rule).chance(2 * r - 1) for rule in ("noise", "inverse", "exponential")
        )
        yield [str(r), *(f"{chance:.4f}" for chance in chances)]


def shares() -> Iterator[list[str]]:
    """Randomized response beside a noisy count of the same epsilon."""
    for units in (1000, 100_000, 1_000_000):
        for epsilon in ("0.1", "1"):
            response = RandomizedResponse(epsilon)
            bits, source = np.arange(units) < units * 3 // 10, OperatingSystem()
            ours = min(seconds(partial(response.answers, bits, source=source)) for _ in range(3))
            found = response.estimate(response.answers(bits, source=source))
            step = math.exp(-float(epsilon))
            noisy = math.sqrt(2 * step) / (1 - step) / units
            width = (found.high - found.low) / 2
            yield [f"{units:,}", epsilon, duration(ours), f"{found.standard_error:.2g}", f"{width:.2g}", f"{noisy:.2g}"]


def main() -> None:
    announce()
    rows, skipped = speed()
    told = "\n".join(["Best of several rounds.", *skipped])
    show(f"One choice among {CANDIDATES:,} counts", SPEED, rows, told, VERSUS)
    added_to = [Against("a choice adds, over its query", "the choice adds", "bare query")]
    title = f"A choice over {CANDIDATES:,} keys of {ROWS:,} rows"
    show(title, ["by", "bare query", "the choice adds"], added(), against=added_to)
    show(
        "What is lost", LOSS, losses(), f"{RUNS} runs; the last line of each costs as much as the first (Renyi filter)."
    )
    show(f"Wrong majorities at epsilon {EPSILON}", ["r", "noise (ours)", "inverse", "exponential"], votes())
    headings = ["units", "epsilon", "answers take", "standard error", "95 % within", "noisy count: standard error"]
    show("Shares by randomized response", headings, shares())


if __name__ == "__main__":
    main()
