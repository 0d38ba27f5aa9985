"""A private classifier that improves while its data grow, on the Adult census, beside static training and no privacy.

Run as `python benchmarks/ermg.py [PATH] [--full] [--plot FILE]`; PATH is the data set, by default the one beside the
project. Two runs of training when the data have doubled, some minutes; `--full` is five runs of all methods.
The training rows come in batches of 5,000. *Growing* models are trained again by a `Rerun` under one budget
for all sizes; *static* ones are trained once, at that size, with the whole budget, so each column is another budget.
All have (1, 1e-6)-DP, or 1-DP where they are pure. *Excess risk* is the mean logistic loss over the training rows of
that size above that of the optimum that scikit-learn finds. Each run holds other rows back; noise is seeded.
"""

import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

import chary
from chary.accounting import ZeroConcentrated
from chary.calls import Rerun
from chary.filters import Filter
from chary.learning import PrivateLogisticRegression, design_matrix
from chary.learning.growth import TrainingBox, TrainingRun, draw_curve
from chary.learning.linear import PrivateClassifier
from chary.learning.risk_bounds import choose_lam, excess_risk_up
from chary.noise import Seeded
from measuring import FULL, announce, full, seconds, show
from model_selection import ADULT, CLASSES, DELTA, LABEL, TESTED, features

RUNS = 5 if full() else 2
BATCH = 5_000
SIZES = range(BATCH, 8 * BATCH + 1, BATCH)
SHOWN = [0, 1, 3, 7]
USUAL = {"radius": "3.4642", "classes": CLASSES}
BALL = {"lam": "1e-5", "length": 5, "steps": 400}
PURE_LENGTH = 3
FALLS_FROM = 250
EVERY = {"exponent": "0.1"}
DOUBLING = {"growth": 1}
CAPTION = f"{RUNS} runs, {TESTED:,} rows held back; mean ± standard deviation; columns: training rows"


class Task(NamedTuple):
    """People to train on, in the order they arrive, and to test on."""

    people: pl.DataFrame
    rows: NDArray[np.float64]
    labels: NDArray[np.str_]
    tests: NDArray[np.float64]
    truth: NDArray[np.str_]
    best: list[tuple[float, float]]
    run: int

    def judged(self, model: Any, size: int) -> tuple[float, float]:
        """Accuracy on the rows held back, and mean logistic loss on the first so many training rows."""
        signs = np.where(self.labels[:size] == CLASSES[1], 1, -1)
        weights, intercept = np.ravel(model.coef_), float(np.ravel(model.intercept_)[0])
        loss = np.logaddexp(0, -signs * (self.rows[:size] @ weights + intercept)).mean()
        right = (self.tests @ weights + intercept > 0) == (self.truth == CLASSES[1])
        return float(right.mean()), float(loss)

    def optimum(self, size: int) -> tuple[float, float]:
        """What scikit-learn reaches without privacy."""
        model = LogisticRegression(C=1, max_iter=2000).fit(self.rows[:size], self.labels[:size])
        return self.judged(model, size)


def task(people: pl.DataFrame, run: int) -> Task:
    order = np.random.default_rng(run).permutation(len(people))
    test, train = people[order[:TESTED]], people[order[TESTED : TESTED + SIZES[-1]]]
    described = features(people)
    rows, tests = design_matrix(train, described), design_matrix(test, described)
    made = Task(train, rows, train[LABEL].to_numpy(), tests, test[LABEL].to_numpy(), [], run)
    return made._replace(best=[made.optimum(size) for size in SIZES])


def opened(task: Task, *, pure: bool) -> chary.Session:
    budget = chary.Budget(epsilon=1, delta=0 if pure else DELTA)
    terms = {"privacy_unit": None, "neighbors": "replace", "budget": budget, "ledger": ":memory:"}
    return chary.open(task.people[:BATCH], **terms, unsafe_noise=Seeded(task.run))


def whole_rho(filter_: Filter) -> str:
    """The rho that uses the whole budget up, in four digits."""
    return f"{0.9999 * filter_.capacity.main / filter_.price(ZeroConcentrated(1)).hit.main:.4g}"


def pure_lam(rows: int, columns: int, epsilon: str) -> Any:
    problem = PrivateLogisticRegression(epsilon=1, lam=1, **USUAL).problem(rows, columns)
    return choose_lam(problem, epsilon=epsilon, chance="0.5", length=PURE_LENGTH)


def growing(
    model: Callable[[int], PrivateClassifier], terms: dict[str, Any], *, pure: bool = False, falls: bool = False
) -> Any:
    """Figures at each size, and the runs that were done."""

    def measured(task: Task) -> tuple[list[tuple[float, float]], list[TrainingRun]]:
        with opened(task, pure=pure) as session:
            total = {"epsilon": 1} if pure else {"rho": whole_rho(session.spine.filter)}
            made, described = model(task.rows.shape[1]), features(task.people)
            box = fallen(made, described) if falls else TrainingBox(made, described, LABEL)
            improving = box.follow(session.start(Rerun(box, beta="0.05", **total, **terms), follow=True).state)
            found = [task.judged(improving.model, BATCH)]
            for size in SIZES[1:]:
                session.append(task.people[size - BATCH : size])
                found.append(task.judged(improving.model, size))
            return found, improving.curve()

    return measured


def static(model: Callable[[int, int], PrivateClassifier]) -> Any:
    """Each size by itself, those that are shown; the others repeat the one before."""

    def measured(task: Task) -> tuple[list[tuple[float, float]], list[TrainingRun]]:
        found, curve = [], []
        for at, size in enumerate(SIZES):
            if at in SHOWN:
                made = model(size, task.rows.shape[1]).set_params(unsafe_noise=Seeded(task.run))
                latest = task.judged(made.fit(task.rows[:size], task.labels[:size]), size)
                curve.append(static_promise(task, made, at, size))
            found.append(latest)
        return found, curve

    return measured


def static_promise(task: Task, model: PrivateClassifier, run: int, size: int) -> TrainingRun:
    """What is promised of one training with probability 0.95."""
    columns = task.rows.shape[1]
    if model.concentrated is None:
        risk = excess_risk_up(model.problem(size, columns), epsilon=1, chance="0.05", length=PURE_LENGTH)
        return TrainingRun(run, size, 1.0, risk)
    share = math.sqrt(2 * model.concentrated)
    box = TrainingBox(PrivateLogisticRegression(rho=1, **BALL, **USUAL), features(task.people), LABEL)
    return TrainingRun(run, size, share, box.law.error(size=size, epsilon=share, beta="0.05"))


def fallen(model: PrivateClassifier, described: list[Any]) -> TrainingBox:
    """A box whose lam falls, with the pair that its law likes best for runs of the later sizes."""
    given = {"model": model.set_params(lam="1e-5"), "features": described, "label": LABEL, "rows_at_most": SIZES[-1]}
    boxes = [
        TrainingBox(**given, falling=(f"{lam:.2g}", FALLS_FROM))
        for lam in np.geomspace(0.02, 1 if model.rho is None else 0.5, 15)
    ]
    return min(boxes, key=lambda box: box.law.error(size=SIZES[-1], epsilon="0.064", beta="0.001"))


def ball(_columns: int) -> PrivateClassifier:
    return PrivateLogisticRegression(rho=1, **BALL, **USUAL)


def perturbed(columns: int) -> PrivateClassifier:
    lam = pure_lam(SIZES[-1], columns, "0.25")
    return PrivateLogisticRegression(epsilon=1, lam=lam, length=PURE_LENGTH, **USUAL)


def gaussian(columns: int) -> PrivateClassifier:
    lam = pure_lam(SIZES[-1], columns, "1")
    return PrivateLogisticRegression(rho=1, lam=lam, length=PURE_LENGTH, steps=0, **USUAL)


def static_ball(_rows: int, _columns: int) -> PrivateClassifier:
    return PrivateLogisticRegression(epsilon=1, delta=DELTA, **BALL, **USUAL)


def static_pure(rows: int, columns: int) -> PrivateClassifier:
    return PrivateLogisticRegression(epsilon=1, lam=pure_lam(rows, columns, "1"), **USUAL)


METHODS = {
    "doubled, descent in a ball": growing(ball, DOUBLING),
    "doubled, Gaussian optimum": growing(gaussian, DOUBLING),
    "doubled, Gaussian, lam falls": growing(gaussian, DOUBLING, falls=True),
    "doubled, pure optimum, epsilon": growing(perturbed, DOUBLING, pure=True),
    "doubled, pure, lam falls": growing(perturbed, DOUBLING, pure=True, falls=True),
    "static, descent in a ball": static(static_ball),
    "static, pure optimum": static(static_pure),
}
EVERY_SIZE = {
    "every size, descent in a ball": growing(ball, EVERY),
    "every size, Gaussian optimum": growing(gaussian, EVERY),
    "every size, pure optimum, rho": growing(perturbed, EVERY),
}


def spreads(figures: NDArray[np.float64], factor: int) -> list[str]:
    """Mean and deviation over the runs, at the sizes that are shown."""
    shown = factor * figures[:, SHOWN]
    return [f"{mean:.1f} ± {off:.1f}" for mean, off in zip(shown.mean(axis=0), shown.std(axis=0, ddof=1), strict=True)]


def main(path: Path, picture: str | None) -> None:
    if not path.exists():
        sys.stdout.write("skipped: needs the Adult data set in ../shared/data beside the project, or its path\n")
        return
    announce()
    people = pl.read_csv(path)
    tasks = [task(people, run) for run in range(RUNS)]
    best = np.array([made.best for made in tasks])
    excess, told = list[list[str]](), list[list[str]]()

    def accuracy() -> Iterator[list[str]]:
        for name, method in ((EVERY_SIZE if full() else {}) | METHODS).items():
            found: list[Any] = []
            taken = seconds(lambda: found.extend(method(made) for made in tasks))  # noqa: B023
            figures, curve = np.array([each for each, _ in found]), found[0][1]
            each = f"{taken / RUNS / len(SIZES):.2f} s"
            behind = figures[:, :, 1] - best[:, :, 1]
            if picture and not excess:
                at = [SIZES.index(run.size) for run in curve]
                draw_curve(curve, picture, measured={"measured": behind.mean(axis=0)[at].tolist()})
            excess.append([name, *spreads(behind, 1000), each])
            told.append([name, *promised(curve, behind)])
            yield [name, *spreads(figures[:, :, 0], 100), each]
        yield ["scikit-learn, no privacy", *spreads(best[:, :, 0], 100), ""]

    headings = ["", *(f"{SIZES[at]:,}" for at in SHOWN)]
    show("accuracy, %", [*headings, "a size"], accuracy(), CAPTION)
    show("excess risk, thousandths", [*headings, "a size"], excess, CAPTION)
    title = "promised (beta 0.05; growing: for all sizes at once), thousandths; promised/measured, the largest; epsilon"
    show(title, headings, told)


def promised(curve: list[TrainingRun], behind: NDArray[np.float64]) -> list[str]:
    """The excess risk that is promised of each run, how many times the largest measured one, and its epsilon."""
    runs = {run.size: run for run in curve}
    return [_told(runs.get(SIZES[at]), float(behind[:, at].max())) for at in SHOWN]


def _told(run: TrainingRun | None, measured: float) -> str:
    if run is None:
        return ""
    return f"{1000 * run.excess_risk:.3g}; {run.excess_risk / measured:.1f}; {run.epsilon:.3f}"


if __name__ == "__main__":
    given = sys.argv[1:]
    target = given.pop(given.index("--plot") + 1) if "--plot" in given else None
    places = [argument for argument in given if argument not in ("--plot", FULL)]
    main(Path(places[0]) if places else ADULT, target)
