"""Figures on thresholds: target charging and sparse vectors."""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Final

import numpy as np
from matplotlib.figure import Figure

from chary.accounting import charging_curve, composition, events, hit_prices, sparse_vector
from chary.accounting.numerics import doubled, least
from chary.accounting.sparse_vector import GrowingRounds, growing_error_up, published_growing_error
from chary.mechanisms import Laplace
from chary.mechanisms.threshold_tests import Geometric, OneSidedMachine, SparseVectorMachine
from chary.noise import SMALLEST_SCALE, Seeded
from chary_research.experiments.experiment import DataFolder, Experiment, Measurements, Row, Settings, Trend
from chary_research.experiments.pictures import COLOURS, TOLD, legend_below, log_ticks

# Target charging: total epsilon against the number of hits, by every bound there is.

DELTA: Final = Fraction(1, 10**6)
# Every order gives a bound. A session takes the best for its budget, and these lie at most a part in 50 from any.
ORDERS: Final = tuple(1 + Fraction(f"{1.02**step:.4g}") for step in range(-60, 400))
BOUNDS: Final = {
    "simple": "basic composition of the calls by Chernoff",
    "published": "published, delta split in the best way",
    "tail": "exact tail, composed optimally",
    "renyi": "one Renyi order",
    "exact": "exact curve",
    "plain": "as many plain calls: the least",
}
# The exact tail and one Renyi order nearly coincide: pale and wide below.
_STYLES: Final[dict[str, dict[str, Any]]] = {
    "simple": {"color": COLOURS["published filter"]},
    "published": {"color": COLOURS["published"]},
    "tail": {"color": COLOURS["published, mended"], "linewidth": 5, "alpha": 0.4},
    "renyi": {"color": COLOURS["Renyi"]},
    "exact": {"color": COLOURS["target charging"]},
    "plain": {"color": TOLD, "linestyle": ":", "marker": ""},
}


def renyi_hits_total(*, epsilon_per_call: str, hits: int) -> float:
    """The least total epsilon of this many hits at one Renyi order, of these orders.

    >>> round(renyi_hits_total(epsilon_per_call="0.02", hits=20), 4)
    0.7865
    """
    prices = [(order, hit_prices.hit_price_up(events.Targeted(epsilon_per_call), order)) for order in ORDERS]
    return min(
        float(composition.epsilon_up(hits * price, order, DELTA)) for order, price in prices if price is not None
    )


def simple_total(*, epsilon_per_call: str, hits: int) -> float:
    """The first form of [TCT] Theorem B.4: `(1 + a) hits epsilon/q`, the a for which the tail has all of delta.

    >>> round(simple_total(epsilon_per_call="0.02", hits=20), 3)
    2.468
    """
    log, size = -math.log(DELTA), float(epsilon_per_call)
    return size * (hits + log + math.sqrt(log * log + 2 * hits * log)) / charging_curve.not_prior_q(size)


def totals(size: str, hits: int) -> dict[str, float]:
    """Total epsilon at delta 1e-6 by each bound."""
    asked: dict[str, Any] = {"epsilon_per_call": size, "hits": hits, "delta": DELTA}
    return {
        "simple": simple_total(epsilon_per_call=size, hits=hits),
        "published": charging_curve.published_total(**asked),
        "tail": charging_curve.exact_tail_total(**asked),
        "renyi": renyi_hits_total(epsilon_per_call=size, hits=hits),
        "exact": charging_curve.exact_total(**asked),
        "plain": composition.compose(epsilon=size, times=hits, delta=DELTA).optimal,
    }


class TotalsByHits(Experiment):
    """All bounds for three sizes of a call."""

    name = "totals-by-hits"
    shows = "Target charging: total epsilon by the number of hits, by every bound."
    source = "[TCT] Theorem B.4, Remark B.5"
    size = (11.0, 3.6)
    sizes: Final = ("0.1", "0.02", "0.005")
    hits: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500)

    def pieces(self, *, quick: bool) -> Sequence[Settings]:
        return [
            {"size": size, "hits": hits} for size in self.sizes for hits in (self.hits[::2] if quick else self.hits)
        ]

    def measure(self, settings: Settings, seed: int, data: DataFolder) -> list[Row]:
        return [{**settings, **totals(settings["size"], settings["hits"])}]

    def draw(self, found: Measurements, figure: Figure) -> None:
        panes: Any = figure.subplots(1, len(self.sizes))
        for axes, size in zip(panes, self.sizes, strict=True):
            part = found.where(size=size)
            for bound, told in BOUNDS.items():
                axes.plot(part["hits"], part[bound], label=told, **{"marker": "o", "markersize": 3, **_STYLES[bound]})
            axes.set(title=f"calls of epsilon {size}", xlabel="hits", yscale="log")
            log_ticks(axes, part.distinct("hits"))
        panes[0].set_ylabel("total epsilon, delta 1e-6")
        legend_below(figure, panes[0], columns=3)

    def trends(self, found: Measurements) -> Sequence[Trend]:
        exact, plain, published = (found[name] for name in ("exact", "plain", "published"))
        sizes = [found.where(size=size) for size in self.sizes]
        first = np.array([part["published"][0] / part["exact"][0] for part in sizes])
        last = np.array([part["published"][-1] / part["exact"][-1] for part in sizes])
        many = found.where(hits=500)
        rises = [np.all(np.diff(part[bound]) > 0) for part in sizes for bound in BOUNDS]
        return [
            Trend("as many plain calls cost no more than the exact curve", np.all(plain <= exact * (1 + 1e-9))),
            Trend(
                "no bound is below the exact curve",
                all(np.all(found[b] >= exact) for b in ("tail", "renyi", "published")),
            ),
            Trend("the exact tail is never above the published bound", np.all(found["tail"] <= published)),
            Trend("the published bound is never above its simple form", np.all(published <= found["simple"])),
            Trend("one hit costs by the published bound at least 2.5 times the exact curve", np.all(first > 2.5)),
            Trend("500 hits cost by it less than 1.5 times as much", np.all(last < 1.5)),
            Trend(
                "one Renyi order is within a tenth of the curve at 500 hits",
                np.all(many["renyi"] < 1.1 * many["exact"]),
            ),
            Trend("more hits cost more", all(rises)),
        ]


# Accuracy of sparse vector, on fixed and on growing tables: as published, exactly, and measured.

# How far from its threshold every value must lie for all answers of a sparse vector to be right, run by run.

_BAR = 10**6
Machine = SparseVectorMachine | OneSidedMachine


def needed(made: Machine, tests: int, seed: int) -> int:
    """The least distance from the threshold at which all answers of one run are right, searched by runs with the same
    noise.

    All values lie one step more below the threshold, but the last ones, as many as may hit, which lie so far above it.

    >>> from chary.accounting import sparse_noise
    >>> made = SparseVectorMachine(sparse_noise(epsilon=1, hits=1), 1)
    >>> needed(made, 100, seed=1) == needed(made, 100, seed=1) < 100
    True
    """
    hits = made.sizes.hits
    last = np.arange(tests) >= tests - hits

    def right(distance: int) -> bool:
        source = Seeded(seed)
        values = _BAR + np.where(last, distance, -distance - 1)
        _, crossed = made.step(made.start(source), values, _BAR, source)
        return crossed.positions == list(range(tests - hits, tests))

    low, high = 0, max(1, _told_by_noise(made, tests, seed))
    if high > 1 and not right(high - 1):
        low = high - 1
    return least(right, *doubled(right, low, high))


def _told_by_noise(made: Machine, tests: int, seed: int) -> int:
    """The same by the noise alone, where the threshold is not drawn again: where the search begins."""
    source, hits = Seeded(seed), made.sizes.hits
    shift, noisy = made.start(source).shift, _noise(made).apply(np.zeros(tests, np.int64), source)
    if isinstance(made, OneSidedMachine):
        shift += made.sizes.shift
    return int(max(noisy[:-hits].max(initial=0) - shift, shift - noisy[-hits:].min()))


def _noise(made: Machine) -> Laplace | Geometric:
    """That of a test."""
    if isinstance(made, OneSidedMachine):
        return Geometric(max(SMALLEST_SCALE, made.sizes.test))
    return Laplace(max(SMALLEST_SCALE, made.sizes.scaled(made.sensitivity).test), made.sensitivity)


# The accuracy bounds of the notes on sparse vector beside exact ones and beside what the mechanism does.

SURE: Final = "0.95"


def machine(form: str, hits: int, tests: int) -> Machine:
    """The sparse vector of this form at epsilon 1 for monotone questions of sensitivity 1 (the published form: any)."""
    if form == "one-sided":
        return OneSidedMachine(sparse_vector.one_sided_noise(epsilon=1, hits=hits, tests=tests, monotone=True))
    if form == "tuned":
        return SparseVectorMachine(sparse_vector.sparse_noise(epsilon=1, hits=hits, monotone=True), 1)
    return SparseVectorMachine(sparse_vector.sparse_noise(epsilon=1, hits=hits, form="published"), 1)


def exact_error(made: Machine, tests: int) -> int:
    """The error that the library says: an upper bound on what is measured, with 95 % confidence."""
    if isinstance(made, OneSidedMachine):
        return sparse_vector.one_sided_error_up(made.sizes, tests=tests, confidence=SURE)
    return sparse_vector.error_up(made.sizes, tests=tests, confidence=SURE)


class ThresholdErrors(Experiment):
    """How far off a threshold may be: by the notes, exactly, measured."""

    name = "threshold-errors"
    shows = "Sparse vector: the error that the notes say, the exact one, and what is measured."
    source = "[SVT] Theorems 4 and 10"
    size = (11.0, 3.4)
    forms: Final = ("published", "tuned", "one-sided")

    def pieces(self, *, quick: bool) -> Sequence[Settings]:
        runs = 100 if quick else 2000
        tests = (20, 500) if quick else (20, 100, 500, 2000, 10_000)
        return [
            {"form": form, "hits": hits, "tests": count, "runs": runs}
            for form in self.forms
            for hits in (1, 10)
            for count in tests
        ]

    def measure(self, settings: Settings, seed: int, data: DataFolder) -> list[Row]:
        tests, hits = settings["tests"], settings["hits"]
        made = machine(settings["form"], hits, tests)
        found = [needed(made, tests, seed + run) for run in range(settings["runs"])]
        exact = exact_error(made, tests)
        figures = {
            "measured": float(np.quantile(found, float(SURE), method="inverted_cdf")),
            "wrong": sum(each > exact for each in found),
            "exact": exact,
        }
        if settings["form"] == "published":
            figures["told"] = sparse_vector.published_error(epsilon=1, hits=hits, tests=tests, confidence=SURE)
        return [{**settings, **figures}]

    def draw(self, found: Measurements, figure: Figure) -> None:
        panes: Any = figure.subplots(1, 2)
        for axes, hits in zip(panes, (1, 10), strict=True):
            part = found.where(hits=hits)
            told = part.where(form="published")
            axes.plot(told["tests"], told["told"], "k-", label="by the notes")
            for form in self.forms:
                line = part.where(form=form)
                colour = COLOURS[form]
                axes.plot(line["tests"], line["exact"], "o-", markersize=3, color=colour, label=f"{form}, exact")
                axes.plot(line["tests"], line["measured"], ":", color=colour, label=f"{form}, measured, 95 %")
            axes.set(title=f"{hits} hit{'s' * (hits > 1)}", xlabel="tests", yscale="log")
            log_ticks(axes, part.distinct("tests"))
        panes[0].set_ylabel("error at epsilon 1")
        legend_below(figure, panes[0], columns=4)

    def trends(self, found: Measurements) -> Sequence[Trend]:
        published, tuned, ours = (found.where(form=form) for form in self.forms)
        # This many runs that are wrong 1 time in 20 are beyond this number less than once in a million.
        most = [0.05 * row["runs"] + 5 * np.sqrt(0.05 * row["runs"]) for row in found]
        one = [part.where(hits=1) for part in (tuned, ours)]
        return [
            Trend("no more runs are wrong than the exact error allows", np.all(found["wrong"] <= most)),
            Trend("the notes say at least twice the exact error", np.all(published["told"] > 2 * published["exact"])),
            Trend("the tuned form errs at most 0.6 times as much", np.all(tuned["exact"] < 0.6 * published["exact"])),
            Trend(
                "one-sided noise is as good as the tuned form for one hit", np.all(one[1]["exact"] <= one[0]["exact"])
            ),
            Trend("the exact error grows with the tests, and slower than the notes say", self._slow(published)),
        ]

    def _slow(self, found: Measurements) -> bool:
        lines = [found.where(hits=hits) for hits in (1, 10)]
        exact, told = ([line[name][-1] - line[name][0] for line in lines] for name in ("exact", "told"))
        return all(0 < own < other for own, other in zip(exact, told, strict=True))


# Sparse vector on a growing table: how far off its answers may be, as published, exactly, and measured.

START: Final = 10_000
TESTS: Final = 1000


class RoundDistances(Experiment):
    """One round of a thousand tests that begins at each size."""

    name = "growing-thresholds"
    shows = "Sparse vector on growing rows: the published error, the exact one, and what is measured."
    source = "[GROW] Theorem 26"
    size = (10.0, 3.6)
    factors: Final = (1, 2, 5, 10, 30, 100)

    def pieces(self, *, quick: bool) -> Sequence[Settings]:
        runs = 60 if quick else 1000
        return [
            {"form": form, "exponent": exponent, "runs": runs}
            for form in ("published", "tuned")
            for exponent in ("0.5", "1")
        ]

    def measure(self, settings: Settings, seed: int, data: DataFolder) -> list[Row]:
        rounds = GrowingRounds(START, "0.1", settings["exponent"], form=settings["form"])
        return [self._at(rounds, settings, START * factor, seed) for factor in self.factors]

    def _at(self, rounds: GrowingRounds, settings: Settings, size: int, seed: int) -> Row:
        machine = SparseVectorMachine(rounds.noise(size), 1)
        found = np.array([needed(machine, TESTS, seed + run) for run in range(settings["runs"])]) / size
        exact = growing_error_up(rounds, size=size, tests=TESTS)
        figures = {"exact": exact, "measured": float(np.quantile(found, 0.95, method="inverted_cdf"))}
        wrong = int(np.count_nonzero(found > exact))
        if rounds.form == "published":
            figures["told"] = published_growing_error(rounds, size=size, tests=TESTS)
        return {**settings, "size": size, **figures, "wrong": wrong}

    def draw(self, found: Measurements, figure: Figure) -> None:
        panes: Any = figure.subplots(1, 2, sharey=True)
        for axes, exponent in zip(panes, ("0.5", "1"), strict=True):
            for form in ("published", "tuned"):
                part, colour = found.where(exponent=exponent, form=form), COLOURS[form]
                if form == "published":
                    axes.plot(part["size"], part["told"], "k-", label="bound of the paper")
                axes.plot(part["size"], part["exact"], "o-", markersize=3, color=colour, label=f"{form} noise, exact")
                axes.plot(part["size"], part["measured"], ":", color=colour, label=f"{form} noise, measured, 95 %")
            axes.set(title=f"noise function t^{exponent}", xlabel="rows", yscale="log")
            log_ticks(axes, found.distinct("size"))
        panes[0].set_ylabel("error, share of the rows")
        legend_below(figure, panes[0], columns=3)

    def trends(self, found: Measurements) -> Sequence[Trend]:
        published, tuned = (found.where(form=form) for form in ("published", "tuned"))
        falls = [
            np.all(np.diff(found.where(form=f, exponent=e)["exact"]) < 0)
            for f in ("published", "tuned")
            for e in ("0.5", "1")
        ]
        most = 0.05 * found["runs"] + 5 * np.sqrt(0.05 * found["runs"])
        slower = [
            part.where(exponent="0.5")["exact"][-1] > part.where(exponent="1")["exact"][-1]
            for part in (published, tuned)
        ]
        return [
            Trend("no more rounds are wrong than the exact error allows", np.all(found["wrong"] <= most)),
            Trend(
                "the published bound is at least twice the exact error",
                np.all(published["told"] > 1.9 * published["exact"]),
            ),
            Trend("tuned noise errs at most 0.9 times as much", np.all(tuned["exact"] < 0.9 * published["exact"])),
            Trend("errors fall as the table grows", all(falls)),
            Trend("faster with the exponent 1, where rounds keep their cost", all(slower)),
        ]
