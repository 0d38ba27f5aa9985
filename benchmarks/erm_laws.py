"""What the laws of private training promise on the Adult census, beside what is measured, and beside earlier laws.

Run as `python benchmarks/erm_laws.py`; it needs the data set beside the project; some minutes. Static trainings of
(1, 1e-6)-DP, or 1-DP where pure, on the first rows of a shuffle. Measured is the largest excess of the mean loss of a
few runs, above the best weights of the ball that many exact steps find; promised holds with probability 0.95.
"""

import math
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl

from chary.accounting import zero_concentrated_rho_down
from chary.learning import PrivateLogisticRegression, PrivateSVC, TrainingBox, design_matrix
from chary.learning.erm.laws.box_laws import earlier_box_law
from chary.learning.erm.linear import PrivateClassifier
from chary.learning.erm.risk import choose_lam, excess_risk_up
from chary.noise import Seeded
from measuring import announce, show
from model_selection import ADULT, CLASSES, LABEL, features

SIZES = (10_000, 40_000)
RUNS = 3
BALL, FREE = 5, 3
BETA = "0.05"
USUAL: dict[str, Any] = {"radius": "3.4642", "classes": CLASSES}
SHARE = math.sqrt(2 * zero_concentrated_rho_down(epsilon=Fraction(1), delta=Fraction(1, 10**6)))
Loss = Callable[[np.ndarray], tuple[float, np.ndarray]]


def logistic(margins: np.ndarray) -> tuple[float, np.ndarray]:
    """Mean loss of the margins, and its slopes."""
    return float(np.logaddexp(0, -margins).mean()), -1 / (1 + np.exp(np.minimum(margins, 700)))


def hinge(margins: np.ndarray) -> tuple[float, np.ndarray]:
    return float(np.maximum(0, 1 - margins).mean()), -(margins < 1).astype(float)


def best(signed: np.ndarray, loss: Loss, length: float) -> float:
    """The least mean loss in the ball, by many exact steps, accelerated where the loss is smooth."""
    weights = far = np.zeros(signed.shape[1])
    least, smooth = math.inf, 0.25 * 13
    for step in range(1, 3001):
        ahead = far + (step - 1) / (step + 2) * (far - weights) if loss is logistic else far
        value, slopes = loss(signed @ ahead)
        least = min(least, value) if np.linalg.norm(ahead) <= length * (1 + 1e-9) else least
        rate = 1 / smooth if loss is logistic else 2 * length / (3.6 * math.sqrt(step))
        moved = ahead - rate * (slopes @ signed) / len(signed)
        weights, far = far, moved * min(1, length / np.linalg.norm(moved))
    return least


def models(rows: int, columns: int) -> dict[str, tuple[PrivateClassifier, Loss, float]]:
    """Each model with the loss that it is judged by, and the length of the weights that it is compared with."""
    ball = {"rho": 1, "lam": "1e-5", "length": BALL, "steps": 1500}
    lam = choose_lam(
        PrivateLogisticRegression(epsilon=1, lam=1, **USUAL).problem(rows, columns),
        epsilon=1,
        chance=BETA,
        length=FREE,
    )
    return {
        "descent in a ball": (PrivateLogisticRegression(**ball, **USUAL), logistic, BALL),
        "descent in a ball, true hinge": (PrivateSVC(loss="hinge", smoothing="0.05", **ball, **USUAL), hinge, BALL),
        "Gaussian optimum": (
            PrivateLogisticRegression(rho=1, lam="0.03", length=FREE, steps=0, **USUAL),
            logistic,
            FREE,
        ),
        "pure optimum": (PrivateLogisticRegression(epsilon=1, lam=lam, length=FREE, **USUAL), logistic, FREE),
    }


def lines(inputs: np.ndarray, labels: np.ndarray, people: pl.DataFrame) -> list[list[str]]:
    size = len(inputs)
    signed = np.column_stack([inputs, np.ones(size)]) * np.where(labels == CLASSES[1], 1, -1)[:, None]
    found = []
    for name, (model, loss, length) in models(size, inputs.shape[1]).items():
        box = TrainingBox(model, features(people), LABEL, rows_at_most=size)
        epsilon = 1 if model.rho is None else SHARE
        earlier = earlier_box_law(model.problem(size, inputs.shape[1]), model, 1000)
        told = [law.error(size=size, epsilon=epsilon, beta=BETA) for law in (box.law, earlier)]
        if name == "pure optimum":
            problem = box.at(1).problem(size, inputs.shape[1])
            told[0] = excess_risk_up(problem, epsilon=1, chance=BETA, length=FREE)
        made = [box.at(epsilon).set_params(unsafe_noise=Seeded(seed)).fit(inputs, labels) for seed in range(RUNS)]
        least = best(signed, loss, length)
        excess = [loss(signed @ np.append(fit.coef_, fit.intercept_))[0] - least for fit in made]
        thousandths = [f"{1000 * figure:.1f}" for figure in (max(excess), *told)]
        ratios = [f"{figure / max(excess):.1f}" for figure in told]
        found.append([f"{name}, {size:,} rows", *thousandths, *ratios])
    return found


def main() -> None:
    if not ADULT.exists():
        sys.stdout.write("skipped: needs the Adult data set in ../shared/data beside the project\n")
        return
    announce()
    people = pl.read_csv(ADULT)
    people = people[np.random.default_rng(1).permutation(len(people))[: SIZES[-1]]]
    inputs, labels = design_matrix(people, features(people)), people[LABEL].to_numpy()
    table = [line for size in SIZES for line in lines(inputs[:size], labels[:size], people)]
    headings = ["", "measured", "promised", "earlier", "promised/measured", "earlier/measured"]
    show("Excess risk, thousandths", headings, table, f"largest of {RUNS} runs; promised with probability 0.95")


if __name__ == "__main__":
    main()
