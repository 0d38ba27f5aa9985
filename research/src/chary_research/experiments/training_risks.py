"""Private training, once and on growing rows: the excess risk promised, and that of models of real people."""

import math
from collections.abc import Sequence
from fractions import Fraction
from importlib import import_module
from typing import Any, Final

import numpy as np
import pyarrow as pa
from matplotlib.figure import Figure
from numpy.typing import NDArray

from chary.accounting import zero_concentrated_rho_down
from chary.calls import Rerun
from chary.demo.panel import people
from chary.filters import Budget
from chary.noise import Seeded
from chary.session import open
from chary_research.experiments.experiment import DataFolder, Experiment, Measurements, Row, Settings, Trend
from chary_research.experiments.pictures import COLOURS, legend_below, log_ticks

EPSILON, DELTA, BETA = Fraction(1), Fraction(1, 10**6), "0.05"
# Of every weight vector, and of the rows: four numbers between -1 and 1.
LENGTH: Final = 3
RADIUS: Final = "2"
COLUMNS: Final = {"xage": (0, 70), "disea": (0, 60), "coins": (0, 100), "female": (0, 1)}
START: Final = 5000
_MODEL: Final[dict[str, Any]] = {"radius": RADIUS, "classes": [False, True]}
_DESCENT: Final[dict[str, Any]] = {"lam": "1e-5", "length": LENGTH, "steps": 300}


def patients(rows: int, seed: int) -> pa.Table:
    """This many rows drawn from the panel with replacement, and whether there were three doctor visits or more."""
    panel, random = people(), np.random.default_rng(seed)
    panel = panel.append_column("many", pa.array(panel["mdvis"].to_numpy() >= 3))
    return panel.select([*COLUMNS, "many"]).take(pa.array(random.integers(0, panel.num_rows, rows)))


class TrainingRisks(Experiment):
    """Excess risk by the number of rows: one pure training, one with a delta, and one that goes on as rows arrive."""

    name = "growing-training"
    shows = "Private logistic regression: excess risk by rows, promised and measured, once and on growing rows."
    source = "[GROW] Table 1, Theorems 6 and 12"
    extra = ("learning", "sklearn")
    size = (10.0, 3.8)
    kinds: Final = ("once, pure", "once, delta", "growing, delta")
    colours: Final = (COLOURS["pure"], COLOURS["Gaussian"], COLOURS["for ever"])
    doublings: Final = 6

    def pieces(self, *, quick: bool) -> Sequence[Settings]:
        times, runs = (3, 4) if quick else (self.doublings, 10)
        sizes = [START * 2**time for time in range(times)]
        once = [
            {"kind": kind, "size": size, "run": run} for kind in self.kinds[:2] for size in sizes for run in range(runs)
        ]
        return once + [{"kind": self.kinds[2], "doublings": times, "run": run} for run in range(runs)]

    def measure(self, settings: Settings, seed: int, data: DataFolder) -> list[Row]:
        # The same people for every kind, so that kinds are compared and not samples.
        known = {"kind": settings["kind"], "run": settings["run"]}
        if settings["kind"] == self.kinds[2]:
            return [{**known, **row} for row in _growing(settings["doublings"], settings["run"], seed)]
        make = _pure if settings["kind"] == self.kinds[0] else _with_delta
        table = patients(settings["size"], settings["run"])
        model, promised = make(settings["size"])
        model.set_params(unsafe_noise=Seeded(seed)).fit(_matrix(table), table["many"].to_numpy())
        return [{**known, "size": settings["size"], "promised": promised, "excess": excess(model, table)}]

    def draw(self, found: Measurements, figure: Figure) -> None:
        panes: Any = figure.subplots(1, 2)
        sizes = found.distinct("size")
        for kind, colour in zip(self.kinds, self.colours, strict=True):
            excess, promised = self._means(found, kind)
            panes[0].plot(sizes, 1000 * promised, "o-", markersize=3, color=colour, label=f"{kind}: promised")
            panes[0].plot(sizes, 1000 * excess, "s:", markersize=3, color=colour, label=f"{kind}: measured")
        panes[0].set(xlabel="rows", ylabel="excess risk, thousandths", yscale="log")
        log_ticks(panes[0], sizes)
        self._theory(panes[1])
        legend_below(figure, *panes, columns=4)

    def _theory(self, axes: Any) -> None:
        """Table 1 for ten weights in a ball of diameter 1: the shapes without constants, and this work with them."""
        learning: Any = import_module("chary.learning")
        published_shape = import_module("chary_research.training_bounds").published_shape
        unit, sizes = learning.Assumptions(dimension=10, smoothness=1), [10**power for power in range(4, 11)]
        forms: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
            ("once, pure", {}, {}),
            ("once, delta", {"delta": DELTA}, {"delta": DELTA}),
            ("growing, delta", {"delta": DELTA, "exponent": "0.1"}, {"delta": DELTA}),
        ]
        for (kind, shape, terms), colour in zip(forms, self.colours, strict=True):
            shapes = [published_shape(unit, size=size, epsilon=EPSILON, **shape) for size in sizes]
            common: dict[str, Any] = {"epsilon": EPSILON, "beta": BETA, **terms}
            if "exponent" in shape:
                ours = [learning.growing_risk_up(unit, start=10**4, size=size, **common) for size in sizes]
            else:
                ours = [learning.static_risk_up(unit, size=size, **common) for size in sizes]
            axes.plot(sizes, ours, "-", color=colour, label=f"{kind}: this work")
            axes.plot(sizes, shapes, "--", color=colour, label=f"{kind}: Table 1, no constants")
        axes.set(title="promised, 10 weights", xlabel="rows", yscale="log", ylim=(1e-9, 2))
        log_ticks(axes, sizes, most=4)

    def _means(self, found: Measurements, kind: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        parts = [found.where(kind=kind, size=size) for size in found.distinct("size")]
        excess, promised = (np.array([part[name].mean() for part in parts]) for name in ("excess", "promised"))
        return excess, promised

    def trends(self, found: Measurements) -> Sequence[Trend]:
        pure, delta, growing = (self._means(found, kind) for kind in self.kinds)
        return [
            Trend("every model keeps its promise", np.all(found["excess"] <= found["promised"])),
            Trend(
                "promises fall as the rows double", all(np.all(np.diff(each[1]) < 0) for each in (pure, delta, growing))
            ),
            Trend("of most rows a training with a delta errs less than a pure one", delta[0][-1] < pure[0][-1]),
            Trend("training that goes on errs more than training once", growing[0][-1] > delta[0][-1]),
            Trend("what is measured falls, too", all(each[0][-1] < each[0][0] for each in (delta, growing))),
        ]


def excess(model: Any, table: pa.Table) -> float:
    """Mean logistic loss over the rows above that of the best weights without privacy."""
    linear: Any = import_module("sklearn.linear_model")
    rows, labels = _matrix(table), table["many"].to_numpy()
    best = linear.LogisticRegression(C=1e6, max_iter=2000).fit(rows, labels)
    return _risk(model, rows, labels) - _risk(best, rows, labels)


def _risk(model: Any, rows: NDArray[np.float64], labels: NDArray[np.bool_]) -> float:
    weights, intercept = np.ravel(model.coef_), float(np.ravel(model.intercept_)[0])
    return float(np.logaddexp(0, -np.where(labels, 1, -1) * (rows @ weights + intercept)).mean())


def _features() -> list[Any]:
    learning: Any = import_module("chary.learning")
    return [learning.Span(name, *ends) for name, ends in COLUMNS.items()]


def _matrix(table: pa.Table) -> NDArray[np.float64]:
    learning: Any = import_module("chary.learning")
    return np.asarray(learning.design_matrix(table, _features()), dtype=np.float64)


def _pure(size: int) -> tuple[Any, float]:
    """The perturbed optimum, with the regularisation that public numbers say is best, and its promise."""
    learning: Any = import_module("chary.learning")
    risk: Any = import_module("chary.learning.risk_bounds")
    model = learning.PrivateLogisticRegression
    problem = model(epsilon=EPSILON, lam=1, **_MODEL).problem(size, len(COLUMNS))
    lam = risk.choose_lam(problem, epsilon=EPSILON, chance=BETA, length=LENGTH)
    made = model(epsilon=EPSILON, lam=lam, **_MODEL)
    terms = {"epsilon": EPSILON, "chance": BETA, "length": LENGTH}
    return made, risk.excess_risk_up(made.problem(size, len(COLUMNS)), **terms)


def _with_delta(size: int) -> tuple[Any, float]:
    """Descent in a ball, and its promise."""
    learning: Any = import_module("chary.learning")
    rho = zero_concentrated_rho_down(epsilon=EPSILON, delta=DELTA)
    box = learning.TrainingBox(learning.PrivateLogisticRegression(rho=rho, **_DESCENT, **_MODEL), _features(), "many")
    made = learning.PrivateLogisticRegression(epsilon=EPSILON, delta=DELTA, **_DESCENT, **_MODEL)
    return made, box.law.error(size=size, epsilon=math.sqrt(2 * rho), beta=BETA)


def _growing(doublings: int, run: int, seed: int) -> list[Row]:
    """One schedule that trains again whenever the rows have doubled, under one budget for all sizes for ever."""
    learning: Any = import_module("chary.learning")
    table = patients(START * 2 ** (doublings - 1), run)
    model = learning.PrivateLogisticRegression(rho=1, **_DESCENT, **_MODEL)
    box = learning.TrainingBox(model, _features(), "many")
    rho = zero_concentrated_rho_down(epsilon=EPSILON, delta=DELTA)
    terms: dict[str, Any] = {"privacy_unit": None, "neighbors": "replace", "ledger": ":memory:"}
    budget, found = Budget(epsilon=EPSILON, delta=DELTA), []
    with open(table[:START], **terms, budget=budget, unsafe_noise=Seeded(seed)) as session:
        opening = Rerun(box, rho=f"{0.95 * float(rho):.4g}", growth=1, beta=BETA)
        improving = box.follow(session.start(opening, follow=True).state)
        for size in (START * 2**time for time in range(doublings)):
            if size > START:
                session.append(table[size // 2 : size])
            promised = improving.curve()[-1].excess_risk
            found.append({"size": size, "promised": promised, "excess": excess(improving.model, table[:size])})
    return found
