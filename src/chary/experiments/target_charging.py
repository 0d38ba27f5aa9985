"""Target charging: total epsilon against the number of hits, by every bound there is."""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Final

import numpy as np
from matplotlib.figure import Figure

from chary.accounting import Targeted, compose, epsilon_up, exact_tail_total, exact_total, hit_price_up, published_total
from chary.accounting.charging_curve import not_prior_q
from chary.experiments.experiment import DataFolder, Experiment, Measurements, Row, Settings, Trend, log_ticks

DELTA: Final = Fraction(1, 10**6)
# Every order gives a bound. A session takes the best for its budget, and these lie at most a part in 50 from any.
ORDERS: Final = tuple(1 + Fraction(f"{1.02**step:.4g}") for step in range(-60, 400))
BOUNDS: Final = {
    "simple": "basic composition of the calls by Chernoff",
    "published": "published, delta split in the best way",
    "tail": "exact tail, composed optimally",
    "renyi": "one Renyi order",
    "exact": "exact curve",
    "plain": "as many plain calls: the floor",
}


def renyi_hits_total(*, epsilon_per_call: str, hits: int) -> float:
    """The least total epsilon of so many hits at one Renyi order, of these orders.

    >>> round(renyi_hits_total(epsilon_per_call="0.02", hits=20), 4)
    0.7865
    """
    prices = [(order, hit_price_up(Targeted(epsilon_per_call), order)) for order in ORDERS]
    return min(float(epsilon_up(hits * price, order, DELTA)) for order, price in prices if price is not None)


def simple_total(*, epsilon_per_call: str, hits: int) -> float:
    """The first form of [TCT] Theorem B.4: `(1 + a) hits epsilon/q`, the a for which the tail has all of delta.

    >>> round(simple_total(epsilon_per_call="0.02", hits=20), 3)
    2.468
    """
    log, size = -math.log(DELTA), float(epsilon_per_call)
    return size * (hits + log + math.sqrt(log * log + 2 * hits * log)) / not_prior_q(size)


def totals(size: str, hits: int) -> dict[str, float]:
    """Total epsilon at delta 1e-6 by each bound."""
    asked: dict[str, Any] = {"epsilon_per_call": size, "hits": hits, "delta": DELTA}
    return {
        "simple": simple_total(epsilon_per_call=size, hits=hits),
        "published": published_total(**asked),
        "tail": exact_tail_total(**asked),
        "renyi": renyi_hits_total(epsilon_per_call=size, hits=hits),
        "exact": exact_total(**asked),
        "plain": compose(epsilon=size, times=hits, delta=DELTA).optimal,
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
                axes.plot(part["hits"], part[bound], "k:" if bound == "plain" else "o-", markersize=3, label=told)
            axes.set(title=f"calls of epsilon {size}", xlabel="hits", yscale="log")
            log_ticks(axes, part.distinct("hits"))
        panes[0].set_ylabel("total epsilon, delta 1e-6")
        panes[0].legend(fontsize=6, frameon=False)

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
