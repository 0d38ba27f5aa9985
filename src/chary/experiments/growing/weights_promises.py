"""Multiplicative weights on growing data: the published accuracy, the exact one, and what is measured."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from matplotlib.figure import Figure

from chary.accounting.weights import published_weights_alpha, sparse_weights_alpha
from chary.calls import SparseWeights, Weights
from chary.experiments.data_folder import DataFolder
from chary.experiments.experiment import Experiment, Settings, Trend
from chary.experiments.growing.panel_queries import condition_of, conditions_drawn, drawn, share_of, universe
from chary.experiments.log_ticks import log_ticks
from chary.experiments.measurements import Measurements, Row
from chary.filters import Budget
from chary.noise import Seeded
from chary.session import open

DELTA: Final = "1e-6"
# About as private as epsilon 1 at that delta.
RHO: Final = "0.0175"
EACH: Final = "0.01"
FINE: Final = "0.05"
CONFIDENCE: Final = "0.95"


class WeightsPromises(Experiment):
    """The accuracy of 200 queries by the number of rows, told and measured."""

    name = "growing-weights"
    shows = "Multiplicative weights: accuracy of 200 queries by the number of rows, told and measured."
    source = "[GROW] Theorems 14 and 17"
    size = (7.5, 3.8)
    queries: Final = 200
    measured: Final = (20_000, 200_000, 2_000_000)

    def pieces(self, *, quick: bool) -> Sequence[Settings]:
        told = [{"size": 10**power, "queries": self.queries} for power in range(4, 11)]
        asked = [{"rows": rows, "queries": self.queries} for rows in self.measured[: 2 if quick else 3]]
        return told + asked

    def measure(self, settings: Settings, seed: int, data: DataFolder) -> list[Row]:
        return [_told(**settings)] if "size" in settings else _asked(**settings, seed=seed)

    def draw(self, found: Measurements, figure: Figure) -> None:
        axes = figure.subplots()
        told = Measurements(row for row in found if "size" in row)
        names = {"published_pure": "Theorem 14, epsilon 1", "published": "Theorem 17, epsilon 1, delta 1e-6"}
        for name, label in (names | {"exact": "exact constants, rho 0.0175"}).items():
            axes.plot(told["size"], told[name], "o-", markersize=3, label=label)
        for by, marker in (("rounds", "s"), ("hits", "^")):
            part = found.where(by=by)
            axes.plot(part["rows"], part["largest"], f"{marker}:", label=f"largest error measured, paid by {by}")
        axes.axhline(1, color="#c9ced6")
        axes.set(xlabel="rows", ylabel="accuracy, share of the rows", yscale="log")
        log_ticks(axes, told["size"].tolist(), most=7)
        axes.legend(fontsize=7, frameon=False)

    def trends(self, found: Measurements) -> Sequence[Trend]:
        told = Measurements(row for row in found if "size" in row)
        rounds, hits = found.where(by="rounds"), found.where(by="hits")
        reach = told["exact"] < 1
        kept = rounds["largest"] <= np.minimum(1, rounds["promised"])
        return [
            Trend("at 100,000 rows the theorems promise nothing", np.all(told.where(size=10**5)["published"] > 1)),
            Trend(
                "exact constants promise at most a third of Theorem 17",
                np.all(told["exact"][reach] < told["published"][reach] / 3),
            ),
            Trend("promises fall with the rows", np.all(np.diff(told["published"]) < 0)),
            Trend("what is measured in rounds keeps its promise", np.all(kept)),
            Trend("paid by hits errors are smaller", np.all(hits["largest"] < rounds["largest"])),
            Trend(
                "up to 200,000 rows less than 0.7 times as large",
                np.all((hits["largest"] < 0.7 * rounds["largest"])[hits["rows"] <= 200_000]),
            ),
        ]


def _told(size: int, queries: int) -> Row:
    common: dict[str, Any] = {"cells": universe().cells, "size": size, "queries": queries}
    exact = sparse_weights_alpha(**common, rho=RHO, mixing="0.1", confidence=CONFIDENCE)
    published = {
        "published_pure": published_weights_alpha(**common, epsilon=1, confidence=CONFIDENCE),
        "published": published_weights_alpha(**common, epsilon=1, delta=DELTA, confidence=CONFIDENCE),
    }
    return {"size": size, "queries": queries, **published, "exact": min(exact, 1.0)}


def _asked(rows: int, queries: int, seed: int) -> list[Row]:
    """The largest error of all queries, by rounds at the alpha that they promise, and by hits at a twentieth."""
    table, promised = drawn(rows, seed), _told(rows, queries)["exact"]
    alpha = f"{min(promised, 0.3):.4f}"
    ways = {
        "rounds": SparseWeights(universe=universe(), alpha=alpha, rho=RHO),
        "hits": Weights(universe=universe(), alpha=FINE, epsilon=EACH),
    }
    common = {"rows": rows, "queries": queries, "promised": promised}
    return [{**common, "by": by, "largest": _largest(table, call, queries, seed)} for by, call in ways.items()]


def _largest(table: pa.Table, call: Any, queries: int, seed: int) -> float:
    terms: dict[str, Any] = {"privacy_unit": None, "relation": "replace", "ledger": ":memory:", "grain": EACH}
    budget, asked = Budget(epsilon=1, delta=DELTA), conditions_drawn(queries, seed)
    with open(table, **terms, budget=budget, unsafe_noise=Seeded(seed)) as session:
        histogram: Any = session.start(call)
        errors = [abs(histogram.ask(condition_of(each)).share - share_of(each, table)) for each in asked]
    return float(max(errors))
