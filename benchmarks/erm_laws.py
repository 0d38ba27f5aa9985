"""What the laws of private training promise on the Adult census, beside what is measured, and beside earlier laws.

Run as `python benchmarks/erm_laws.py [--full]`; it needs the data set beside the project; a minute or two on 10,000
rows, with `--full` on 40,000 as well. Static trainings of (1, 1e-6)-DP, or 1-DP where pure, on the first rows of a
shuffle. Measured is the largest excess of the mean loss of a few runs, above the best weights of the ball that many
exact steps find; promised holds with probability 0.95. Quantile regression is of the hours of work a week.

Bad rows need no data set. They lie so near to each other on a line that the loss is all but straight, with a slope of
a few standard deviations of the noise. The ratio of promised to the 0.95 quantile there limits any tighter law.
"""

import math
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from sklearn.base import clone

from chary.accounting import zero_concentrated_rho_down
from chary.learning import PrivateLogisticRegression, PrivateSVC, Span, TrainingBox, design_matrix
from chary.learning.linear import PrivateLinear, PrivateQuantileRegressor
from chary.learning.risk_bounds import choose_lam, earlier_box_law, excess_risk_up
from chary.noise import Seeded
from measuring import announce, full, show
from model_selection import ADULT, CLASSES, LABEL, features

SIZES = (10_000, 40_000)
RUNS = 3
STEPS = 1500
BALL, FREE = 5, 3
BETA = "0.05"
USUAL: dict[str, Any] = {"radius": "3.4642", "classes": CLASSES}
SHARE = math.sqrt(2 * zero_concentrated_rho_down(epsilon=Fraction(1), delta=Fraction(1, 10**6)))
HOURS = "hours_per_week"
Loss = Callable[[np.ndarray, np.ndarray], tuple[float, np.ndarray]]


class Case(NamedTuple):
    """A model, what it is trained on, the loss it is judged by, and how long the weights are it is compared with."""

    model: PrivateLinear
    described: list[Any]
    labels: np.ndarray
    targets: np.ndarray
    loss: Loss
    length: float


def logistic(predicted: np.ndarray, targets: np.ndarray) -> tuple[float, np.ndarray]:
    """Mean loss of predictions, and its slopes."""
    margins = predicted * targets
    return float(np.logaddexp(0, -margins).mean()), -targets / (1 + np.exp(np.minimum(margins, 700)))


def hinge(predicted: np.ndarray, targets: np.ndarray) -> tuple[float, np.ndarray]:
    margins = predicted * targets
    return float(np.maximum(0, 1 - margins).mean()), -targets * (margins < 1)


def absolute(predicted: np.ndarray, targets: np.ndarray) -> tuple[float, np.ndarray]:
    """Of the median: half of the distance."""
    off = predicted - targets
    return float(np.abs(off).mean()) / 2, np.sign(off) / 2


def best(rows: np.ndarray, case: Case) -> float:
    """The least mean loss in the ball, by many exact steps, accelerated where the loss is smooth."""
    weights = far = np.zeros(rows.shape[1])
    least, smooth = math.inf, 0.25 * 13
    for step in range(1, STEPS + 1):
        ahead = far + (step - 1) / (step + 2) * (far - weights) if case.loss is logistic else far
        value, slopes = case.loss(rows @ ahead, case.targets)
        least = min(least, value) if np.linalg.norm(ahead) <= case.length * (1 + 1e-9) else least
        rate = 1 / smooth if case.loss is logistic else 2 * case.length / (3.6 * math.sqrt(step))
        moved = ahead - rate * (slopes @ rows) / len(rows)
        weights, far = far, moved * min(1, case.length / np.linalg.norm(moved))
    return least


def cases(people: pl.DataFrame) -> dict[str, Case]:
    ball: dict[str, Any] = {"rho": 1, "lam": "1e-5", "length": BALL, "steps": STEPS}
    smooth = ball | {"steps": 400}
    described = features(people)
    columns, labels = design_matrix(people[:1], described).shape[1], people[LABEL].to_numpy()
    signs = np.where(labels == CLASSES[1], 1.0, -1.0)
    lam = choose_lam(
        PrivateLogisticRegression(epsilon=1, lam=1, **USUAL).problem(len(people), columns),
        epsilon=1,
        chance=BETA,
        length=FREE,
    )
    free = {"lam": "0.03", "length": FREE, "steps": 0} | USUAL
    others = [feature for feature in described if str(feature.column) != HOURS]
    hours = people[HOURS].to_numpy() / 50 - 1
    median = {"level": "0.5", "label_bound": 1, "smoothing": "0.02", "radius": USUAL["radius"]}
    classified = (described, labels, signs)
    return {
        "descent in a ball": Case(PrivateLogisticRegression(**smooth, **USUAL), *classified, logistic, BALL),
        "descent in a ball, true hinge": Case(
            PrivateSVC(loss="hinge", smoothing="0.05", **ball, **USUAL), *classified, hinge, BALL
        ),
        "descent in a ball, median": Case(
            PrivateQuantileRegressor(**ball, **median), others, hours, hours, absolute, BALL
        ),
        "Gaussian optimum": Case(PrivateLogisticRegression(rho=1, **free), *classified, logistic, FREE),
        "Gaussian optimum, true hinge": Case(
            PrivateSVC(rho=1, loss="hinge", smoothing="0.1", **free), *classified, hinge, FREE
        ),
        "pure optimum": Case(
            PrivateLogisticRegression(epsilon=1, lam=lam, length=FREE, **USUAL), *classified, logistic, FREE
        ),
    }


def told(case: Case, columns: int, size: int, epsilon: float) -> list[float]:
    """What is promised, and what was promised earlier, where there was a law."""
    box = TrainingBox(case.model, case.described, HOURS if case.loss is absolute else LABEL, rows_at_most=size)
    found = [box.law.error(size=size, epsilon=epsilon, beta=BETA)]
    if case.model.rho is None:
        problem = box.at(1).problem(size, columns)
        found = [excess_risk_up(problem, epsilon=1, chance=BETA, length=FREE)]
    if case.loss is logistic:
        law = earlier_box_law(case.model.problem(size, columns), case.model, 1000)
        found.append(law.error(size=size, epsilon=epsilon, beta=BETA))
    return found


def line(name: str, case: Case, people: pl.DataFrame) -> list[str]:
    inputs, size = design_matrix(people, case.described), len(people)
    rows = np.column_stack([inputs, np.ones(size)])
    epsilon = 1 if case.model.rho is None else SHARE
    sized = {"epsilon": 1} if case.model.rho is None else {"rho": Fraction(epsilon) ** 2 / 2}
    made = [
        clone(case.model).set_params(**sized, unsafe_noise=Seeded(seed)).fit(inputs, case.labels)
        for seed in range(RUNS)
    ]
    least = best(rows, case)
    excess = max(case.loss(rows @ np.append(fit.coef_, fit.intercept_), case.targets)[0] - least for fit in made)
    promised = told(case, inputs.shape[1], size, epsilon)
    thousandths = [f"{1000 * figure:.1f}" for figure in (excess, *promised)]
    ratios = [f"{figure / excess:.1f}" for figure in promised]
    gap = ["-"] * (2 - len(promised))
    return [f"{name}, {size:,} rows", *thousandths, *gap, *ratios, *gap]


def bad_rows() -> list[list[str]]:
    """Descent in a ball on rows that are bad for it: the 0.95 quantile of its excess, promised, and their ratio."""
    known = {"lam": "1e-5", "length": 3, "steps": 300, "radius": "2", "classes": [False, True], "fit_intercept": False}
    columns, runs, found = 5, 500 if full() else 100, []
    described = [Span(f"x{column}", -1, 1) for column in range(columns)]
    for size in (5000, 40_000) if full() else (5000,):
        law = TrainingBox(PrivateLogisticRegression(rho=1, **known), described, "y").law
        promised, noise = law.error(size=size, epsilon=SHARE, beta=BETA), 2 * 2 / (SHARE * size)
        for times in (2, 4, 6, 9):
            rows, labels = np.zeros((size, columns)), np.ones(size, dtype=bool)
            rows[:, 0] = 2 * times * noise
            model = PrivateLogisticRegression(rho=Fraction(SHARE) ** 2 / 2, **known)
            made = [clone(model).set_params(unsafe_noise=Seeded(run)).fit(rows, labels).coef_ for run in range(runs)]
            losses = np.logaddexp(0, -rows[0, 0] * np.array([np.ravel(weights)[0] for weights in made]))
            excess = np.quantile(losses - np.logaddexp(0, -rows[0, 0] * 3), 0.95)
            figures = (f"{1000 * excess:.2f}", f"{1000 * promised:.1f}", f"{promised / excess:.1f}")
            found.append([f"{size:,} rows, slope {times} deviations", *figures])
    return found


def main() -> None:
    announce()
    headings = ["", "0.95 quantile", "promised", "promised/quantile"]
    show("Descent on bad rows, excess risk, thousandths", headings, bad_rows(), "(1, 1e-6), five columns")
    if not ADULT.exists():
        sys.stdout.write("skipped: needs the Adult data set in ../shared/data beside the project\n")
        return
    people = pl.read_csv(ADULT)
    people = people[np.random.default_rng(1).permutation(len(people))[: SIZES[-1]]]
    sizes = SIZES if full() else SIZES[:1]
    table = [line(name, case, people[:size]) for size in sizes for name, case in cases(people[:size]).items()]
    headings = ["", "measured", "promised", "earlier", "promised/measured", "earlier/measured"]
    show("Excess risk, thousandths", headings, table, f"largest of {RUNS} runs; promised with probability 0.95")


if __name__ == "__main__":
    main()
