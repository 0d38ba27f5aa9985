"""The same tasks by other libraries, in the same process: time, and what is told or lost.

Run as `python benchmarks/peers.py` with the extra `peers` (OpenDP, dp-accounting, autodp); a library that is missing
is left out. All give the same guarantee: epsilon, adding or removing a row, or a total at delta 1e-6. Calls take turns;
times are the best of several rounds. OpenDP takes Python lists, so it is given lists that are ready made. Its quantile
chooses among candidates, here the grid of ours. Peers whose task has a page of its own stand there too: noise in
`noise.py`, choices in `choices.py`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import chary
from chary import Budget, count
from chary.accounting import compose_unequal, gaussian_sigma, optimal_total
from chary.accounting.gaussian_runs import capped_moment_up
from chary.mechanisms import HalvedQuantiles, Laplace, Order, PermuteAndFlip
from chary.noise import OperatingSystem
from measuring import Work, announce, duration, show, side_by_side
from recording import Against

DELTA, EPSILON, ROUNDS, RUNS, SEED = 1e-6, Fraction(1, 10), 7, 300, 20_261_123
VALUES, POINTS, COUNTS, ROWS, CELLS = 1000, 1501, 1000, 100_000, 1000
TOTALS = ["what, peer", "ours", "theirs", "ours / theirs", "our time", "their time", "times"]
LOSSES = ["what, peer", "our error", "their error", "ours / theirs", "our time", "their time", "times"]
Integers = NDArray[np.int64]
Number = Callable[[], float]


def versus(what: str, headings: list[str]) -> list[Against]:
    """What is told or lost, and the time, each beside the peer."""
    return [Against(what, *headings[1:4], kind="peer"), Against("time", *headings[4:], kind="peer")]


def line(name: str, ours: Number, theirs: Number, timed: tuple[Work, Work]) -> list[str]:
    """One line of either table; figures first, then times, which may be of something smaller."""
    mine, other = ours(), theirs()
    took, peer = side_by_side(timed, ROUNDS)
    figures = [f"{mine:.4g}", f"{other:.4g}", f"{mine / other:.4g}" if other else "-"]
    return [name, *figures, duration(took), duration(peer), f"{took / peer:.3g}"]


def module(name: str) -> Any:
    """A library, or None where it is missing."""
    return import_module(name) if find_spec(name.partition(".")[0]) else None


# Totals of many calls


def accounted(name: str, ours: Number, theirs: dict[str, Number | None]) -> Iterator[list[str]]:
    """A total of ours beside that of each peer that is there."""
    for peer, other in theirs.items():
        if other is not None:
            yield line(f"{name}, {peer}", ours, other, (ours, other))


def losses(epsilons: list[float]) -> Number | None:
    """The epsilon of pure computations by dp-accounting's privacy loss distributions, the worst case of each."""
    library = module("dp_accounting.pld")
    if library is None:
        return None
    made, common = library.privacy_loss_distribution, library.common

    def total() -> float:
        each = {e: made.from_privacy_parameters(common.DifferentialPrivacyParameters(e, 0)) for e in set(epsilons)}
        parts = [law.self_compose(epsilons.count(e)) for e, law in each.items()]
        found = parts[0]
        for part in parts[1:]:
            found = found.compose(part)
        return float(found.get_epsilon_for_delta(DELTA))

    return total


def orders(epsilons: list[float]) -> Number | None:
    """The same by autodp, through Renyi orders."""
    zoo, transform = module("autodp.mechanism_zoo"), module("autodp.transformer_zoo")
    if zoo is None:
        return None

    def total() -> float:
        each = sorted(set(epsilons))
        composed = transform.Composition()([zoo.PureDP_Mechanism(e) for e in each], [epsilons.count(e) for e in each])
        return float(composed.get_approxDP(DELTA))

    return total


def both(epsilons: list[float]) -> dict[str, Number | None]:
    return {"dp-accounting": losses(epsilons), "autodp": orders(epsilons)}


def laplace(times: int) -> dict[str, Number | None]:
    """Laplace noise of scale 1/0.02 by both, which know its shape; ours takes the worst pure computation."""
    library, zoo = module("dp_accounting"), module("autodp.mechanism_zoo")
    found: dict[str, Number | None] = {}
    if library is not None:
        accountant = module("dp_accounting.pld").PLDAccountant
        event = library.SelfComposedDpEvent(library.LaplaceDpEvent(50), times)
        found["dp-accounting"] = lambda: float(accountant().compose(event).get_epsilon(DELTA))
    if zoo is not None:
        transform = module("autodp.transformer_zoo")
        found["autodp"] = lambda: float(
            transform.Composition()([zoo.LaplaceMechanism(50)], [times]).get_approxDP(DELTA)
        )
    return found


def totals() -> Iterator[list[str]]:
    """Epsilon at delta 1e-6, and the noise of composed Gaussians for epsilon 1."""
    unequal = [0.01] * 50 + [0.02] * 30 + [0.05] * 10
    for times in (100, 1000):
        ours = partial(optimal_total, 0.02, times, DELTA)
        yield from accounted(f"{times:,} pure calls of 0.02: epsilon", ours, both([0.02] * times))
    mixed = partial(compose_unequal, epsilons=unequal, delta=DELTA)
    yield from accounted("90 calls of three sizes: epsilon", lambda: mixed().optimal, both(unequal))
    ours = partial(optimal_total, 0.02, 100, DELTA)
    yield from accounted("100 of Laplace noise, scale 50: epsilon", ours, laplace(100))
    library, root = module("dp_accounting"), 10.0
    theirs = None if library is None else lambda: root * float(library.get_sigma_gaussian(1, DELTA))
    sigma = partial(gaussian_sigma, epsilon=1, delta=DELTA, sensitivity=root)
    yield from accounted("100 of Gaussian noise: sigma for epsilon 1", sigma, {"dp-accounting": theirs})
    for run in ((10, 1000, 5, 20), (18, 1000, 20, 10), (2, 100, 2, 10)):
        yield from several_hits(*run)


def several_hits(order: int, tests: int, hits: int, noise: int) -> Iterator[list[str]]:
    """The Renyi epsilon of a run of Gaussian tests against one noisy threshold that ends after so many hits.

    autodp takes ln C(tests, hits) for hits ln(tests / hits), which is less; ours holds without that.
    """
    bank = module("autodp.rdp_bank")
    size: dict[str, Any] = {"sensitivity": 1, "threshold_noise": noise, "query_noise": 2 * noise}
    theirs = None
    if bank is not None:
        said = {"sigma": noise, "c": hits, "k": tests}
        theirs = lambda: float(bank.RDP_gaussian_svt_cgreater1(said, order))  # noqa: E731

    def ours() -> float:
        return capped_moment_up(order, tests=tests, hits=hits, **size) / (order - 1)

    yield from accounted(f"{hits} hits in {tests:,} Gaussian tests: order {order}", ours, {"autodp": theirs})


# Releases


@dataclass(frozen=True)
class OpenDP:
    """OpenDP's mechanisms on integers, with the scale that gives an epsilon."""

    library: Any

    @property
    def rows(self) -> tuple[Any, Any]:
        """A list of integers, one row of which is added or removed."""
        return self.library.vector_domain(self.library.atom_domain(T=int)), self.library.symmetric_distance()

    def count(self, epsilon: Fraction) -> Any:
        space = self.library.atom_domain(T=int), self.library.absolute_distance(T=int)
        return self.library.m.make_laplace(*space, scale=float(1 / epsilon))

    def histogram(self, epsilon: Fraction, cells: int) -> Any:
        kept = self.library.t.make_count_by_categories(*self.rows, categories=list(range(cells)), null_category=False)
        return kept >> self.library.m.then_laplace(scale=float(1 / epsilon))

    def median(self, epsilon: Fraction) -> Any:
        def made(scale: float) -> Any:
            measure, candidates = self.library.max_divergence(), list(range(POINTS))
            return self.library.m.make_private_quantile(
                *self.rows, measure, candidates=candidates, alpha=0.5, scale=scale
            )

        return made(self.library.binary_search_param(made, d_in=1, d_out=float(epsilon)))

    def largest(self, epsilon: Fraction) -> Any:
        space = self.library.vector_domain(self.library.atom_domain(T=int))
        metric = self.library.linf_distance(T=int, monotonic=True)
        return self.library.m.make_noisy_max(space, metric, self.library.max_divergence(), scale=float(1 / epsilon))


def mean(draw: Number, runs: int = RUNS) -> Number:
    """The mean of several draws."""
    return lambda: float(np.mean([draw() for _ in range(runs)]))


def releases(peer: OpenDP) -> Iterator[list[str]]:
    """All lines of the comparison with OpenDP."""
    source, generator = OperatingSystem(), np.random.default_rng(SEED)
    noise, measured = Laplace.for_epsilon(EPSILON, sensitivity=1), peer.count(EPSILON)
    works = (lambda: noise.apply_one(1000, source)), (lambda: measured(1000))
    off = [mean(lambda work=work: abs(work() - 1000), 20 * RUNS) for work in works]
    yield line("noise on a count, epsilon 0.1: mean error, OpenDP", *off, works)
    yield from medians(peer, generator, source)
    yield largest(peer, generator, source)
    yield histograms(peer, generator)


def medians(peer: OpenDP, generator: np.random.Generator, source: OperatingSystem) -> Iterator[list[str]]:
    """The median of a thousand values: by how many ranks it is off."""
    values = np.sort(generator.lognormal(5.2, 0.5, VALUES).clip(0, POINTS - 1).astype(np.int64))
    given = values.tolist()

    def off(place: int) -> float:
        low, high = np.searchsorted(values, place, "left"), np.searchsorted(values, place, "right")
        return float(max(0, low - VALUES / 2, VALUES / 2 - high))

    def ours(made: HalvedQuantiles) -> int:
        places, counts = np.unique(values, return_counts=True)
        return made.step(Order(places, counts, POINTS), source)[0]

    for epsilon in (Fraction(1, 10), Fraction(1)):
        made = HalvedQuantiles(("0.5",), epsilon, replace=False, flip=True)
        theirs = partial(peer.median(epsilon), given)
        works = partial(ours, made), theirs
        errors = [mean(lambda work=work: off(work()), RUNS // 3) for work in works]
        yield line(f"median of {VALUES:,}, epsilon {float(epsilon):g}: ranks off, OpenDP", *errors, works)


def largest(peer: OpenDP, generator: np.random.Generator, source: OperatingSystem) -> list[str]:
    """A choice among counts that lie close together: how much smaller the chosen one is."""
    counts = np.round(generator.normal(1000, 20, COUNTS)).astype(np.int64)
    chooser, measured, given = PermuteAndFlip(EPSILON, 1, monotone=True), peer.largest(EPSILON), counts.tolist()
    works = partial(chooser.step, counts, source), partial(measured, given)
    lost = [mean(lambda work=work: float(counts.max() - counts[work()]), 5 * RUNS) for work in works]
    return line(f"a choice among {COUNTS:,} counts, epsilon 0.1: mean loss, OpenDP", *lost, works)


def histograms(peer: OpenDP, generator: np.random.Generator) -> list[str]:
    """A histogram of rows, from the rows to noisy counts; ours by a session with its ledger in memory."""
    areas = generator.integers(0, CELLS, ROWS)
    truth, given = np.bincount(areas, minlength=CELLS), areas.tolist()
    measured, asked = peer.histogram(EPSILON, CELLS), count().by("area", range(CELLS))
    budget = Budget(epsilon=1000, delta=1e-6)
    with chary.open(pa.table({"area": areas}), privacy_unit=None, budget=budget, ledger=":memory:") as session:

        def ours() -> Integers:
            found = session.release(asked, epsilon=EPSILON).values
            return np.array([found[area] for area in range(CELLS)])

        works = ours, lambda: np.array(measured(given))
        off = [mean(lambda work=work: float(np.sqrt(np.mean((work() - truth) ** 2))), 20) for work in works]
        name = f"histogram of {ROWS:,} rows, {CELLS:,} cells: root mean square, OpenDP"
        return line(name, *off, works)


def main() -> None:
    announce()
    show(f"Totals at delta {DELTA:g}", TOTALS, totals(), against=versus("total", TOTALS))
    library = module("opendp.prelude")
    if library is not None:
        library.enable_features("contrib")
        show("Releases", LOSSES, releases(OpenDP(library)), against=versus("error", LOSSES))


if __name__ == "__main__":
    main()
