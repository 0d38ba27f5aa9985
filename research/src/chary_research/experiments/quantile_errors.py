"""Several quantiles at one epsilon, by their number: by halving, drawn jointly, and one by one."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, ClassVar, Final

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from chary.demo.panel import of_year, people
from chary.mechanisms import HalvedQuantiles, Order
from chary.noise import Seeded
from chary_research.experiments.experiment import DataFolder, Experiment, Measurements, Row, Settings, Trend
from chary_research.experiments.pictures import COLOURS, legend_below, log_ticks
from chary_research.joint_quantiles import JointExponential, each_epsilon

Places = NDArray[np.int64]
Chooser = Callable[[], Places]

# As in the paper: this many rows of each data set, quantiles at equal distances, and how many values lie between an
# estimate and what is right.
SIZE: Final = 1000
DELTA: Final = 1e-6
METHODS: Final = {
    "halving": ("halving", "o-", "halving (chary)"),
    "joint": ("joint", "s--", "JointExp, floats"),
    "composed": ("one by one, delta", "^:", "AppIndExp, delta 1e-6"),
    "parts": ("one by one", "v:", "one by one, pure"),
}


class QuantileErrors(Experiment):
    """Columns of a data set, at two epsilons."""

    source = "[INTRO], multi-quantile estimation; Gillenwater, Joseph and Kulesza, ICML 2021"
    size = (10.0, 5.6)
    epsilons: Final = ("0.2", "1")
    counts: Final = (1, 2, 3, 5, 9, 15, 29)
    # Of each column: the step of the grid, and its highest place.
    columns: ClassVar[dict[str, tuple[float, int]]]

    def pieces(self, *, quick: bool) -> Sequence[Settings]:
        samples, runs = (3, 4) if quick else (20, 10)
        return [
            {"column": column, "epsilon": epsilon, "quantiles": many, "samples": samples, "runs": runs}
            for column in self.columns
            for epsilon in self.epsilons
            for many in (self.counts[::2] if quick else self.counts)
        ]

    @abstractmethod
    def read(self, column: str, data: DataFolder) -> NDArray[np.float64]:
        """All values of a column."""

    def measure(self, settings: Settings, seed: int, data: DataFolder) -> list[Row]:
        step, most = self.columns[settings["column"]]
        everybody = np.rint(self.read(settings["column"], data) / step).astype(np.int64).clip(0, most)
        random, source = np.random.default_rng(seed), Seeded(seed)
        at = tuple(Fraction(k, settings["quantiles"] + 1) for k in range(1, settings["quantiles"] + 1))
        errors: dict[str, list[float]] = {method: [] for method in METHODS}
        for _ in range(settings["samples"]):
            values = np.sort(random.choice(everybody, SIZE, replace=False))
            for method, choose in choosers(values, most, at, settings["epsilon"], source, random).items():
                found = np.array([choose() for _ in range(settings["runs"])])
                errors[method].append(misplaced(values, found, at))
        return [
            {
                **settings,
                "method": method,
                "error": float(np.mean(each)),
                "spread": float(np.std(each)) / len(each) ** 0.5,
            }
            for method, each in errors.items()
        ]

    def draw(self, found: Measurements, figure: Figure) -> None:
        panes: Any = figure.subplots(len(self.columns), len(self.epsilons), sharex=True, squeeze=False)
        for line, column in zip(panes, self.columns, strict=True):
            for axes, epsilon in zip(line, self.epsilons, strict=True):
                for method, (colour, style, told) in METHODS.items():
                    part = found.where(column=column, epsilon=epsilon, method=method)
                    line_of = {"color": COLOURS[colour], "markersize": 4, "label": told}
                    axes.errorbar(part["quantiles"], part["error"], part["spread"], fmt=style, **line_of)
                axes.set_title(f"{column}, epsilon {epsilon}", fontsize=9)
                axes.set_yscale("log")
                log_ticks(axes, part["quantiles"].tolist(), most=7)
            line[0].set_ylabel(f"values off, of {SIZE:,}")
        for axes in panes[-1]:
            axes.set_xlabel("quantiles")
        legend_below(figure, panes[0][0], columns=4)

    def trends(self, found: Measurements) -> Sequence[Trend]:
        errors = {method: found.where(method=method)["error"] for method in METHODS}
        many = found.where(method="halving")["quantiles"]
        halving, joint = errors["halving"], errors["joint"]
        return [
            Trend("more quantiles at one epsilon are less accurate", self._rise(found)),
            Trend(
                "halving is nowhere more than twice as far off as JointExp, and three values",
                np.all(halving < 2 * joint + 3),
            ),
            Trend(
                "for 29 quantiles it is on the whole at least as good",
                halving[many == 29].sum() < joint[many == 29].sum(),
            ),
            Trend("one by one is worse for 29", np.all(errors["parts"][many == 29] > errors["halving"][many == 29])),
            Trend(
                "a delta helps who asks one by one",
                errors["composed"][many > 2].sum() < errors["parts"][many > 2].sum(),
            ),
        ]

    def _rise(self, found: Measurements) -> bool:
        ends = [
            found.where(method=method, epsilon=epsilon, column=column)["error"][[0, -1]]
            for method in METHODS
            for epsilon in self.epsilons
            for column in self.columns
        ]
        return all(last > first for first, last in ends)


class PanelQuantiles(QuantileErrors):
    """Age in hundredths of a year, and what doctors cost in dollars, nothing for a fifth of the people."""

    name = "quantiles-by-number"
    shows = "Several quantiles of the RAND panel at one epsilon: halving, JointExp, and one by one."
    columns: ClassVar = {"age": (0.01, 10_000), "dollars": (1.0, 50_000)}
    names: Final = {"age": "xage", "dollars": "meddol"}

    def read(self, column: str, data: DataFolder) -> NDArray[np.float64]:
        values: NDArray[np.float64] = of_year(people(), 1)[self.names[column]].to_numpy()
        return values


class CensusQuantiles(QuantileErrors):
    """Of Adult: weights, nearly all different, and ages in years, which many share."""

    name = "quantiles-by-number-census"
    shows = "The same of Adult: census weights and ages."
    needs = ("adult_all.csv.gz",)
    columns: ClassVar = {"fnlwgt": (100.0, 15_000), "age": (1.0, 120)}

    def read(self, column: str, data: DataFolder) -> NDArray[np.float64]:
        return data.column(self.needs[0], column)


def choosers(
    values: Places, most: int, at: tuple[Fraction, ...], epsilon: str, source: Seeded, random: np.random.Generator
) -> dict[str, Chooser]:
    """Each method on these values, at the same epsilon; rows are added or removed."""
    order = Order(*np.unique(values, return_counts=True), most + 1)
    size, many = Fraction(epsilon), len(at)
    halving = HalvedQuantiles(at, size, replace=False)

    def one_by_one(each: Fraction) -> Chooser:
        made = [HalvedQuantiles((q,), each, replace=False) for q in at]
        return lambda: np.array(sorted(one.step(order, source)[0] for one in made))

    def jointly() -> Places:
        # A distribution on a continuous range has no place for values that are equal: they are told apart within their
        # step.
        apart = np.sort(values + random.uniform(0, 1, values.size))
        drawn = JointExponential(apart, float(size), tuple(map(float, at)), most + 1.0).draw(random)
        return np.floor(drawn).astype(np.int64).clip(0, most)

    composed = Fraction(f"{each_epsilon(float(size), many, DELTA):.9f}")
    return {
        "halving": lambda: np.array(halving.step(order, source)),
        "joint": jointly,
        "composed": one_by_one(composed),
        "parts": one_by_one(size / many),
    }


def misplaced(values: Places, found: Places, at: tuple[Fraction, ...]) -> float:
    """How many values lie between a published quantile and a right one, on average.

    >>> misplaced(np.arange(100), np.array([[50], [60]]), (Fraction(1, 2),))
    5.0
    """
    wanted = np.array([float(q) for q in at]) * values.size
    below, above = np.searchsorted(values, found, "left") - wanted, wanted - np.searchsorted(values, found, "right")
    return float(np.maximum(0, np.maximum(below, above)).mean())
