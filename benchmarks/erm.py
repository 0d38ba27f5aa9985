"""Private logistic regression on the Adult census beside scikit-learn's and the majority class.

Run as `python benchmarks/erm.py [--full]`; it needs the data set beside the project. Numbers are scaled to [-1, 1],
lists are columns of ones and zeros, so a row of the 12 features is at most sqrt(12) long. Each of two runs (`--full`:
five) holds other rows back for testing; noise is seeded. *Excess risk* is the mean logistic loss over the training rows
above that of the optimum that scikit-learn finds without privacy. The pure models take the regularisation that
`choose_lam` finds from public numbers for weights of length 3; the approximate one has the same small one everywhere.
"""

import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from chary.learning import PrivateLogisticRegression, PrivateSVC, design_matrix
from chary.learning.linear import PrivateClassifier
from chary.learning.risk_bounds import choose_lam
from chary.noise import Seeded
from measuring import announce, full, seconds, show
from model_selection import ADULT, CLASSES, LABEL, TESTED, features

EPSILONS = ("0.1", "0.3", "1", "3", "10") if full() else ("0.1", "1", "10")
DELTA = Fraction(1, 10**6)
RUNS = 5 if full() else 2
RADIUS = "3.4642"
LENGTH = 3
SMALL = "0.0001"
CAPTION = (
    f"{RUNS} runs, {TESTED:,} rows held back; accuracy in %, excess risk in thousandths; mean ± standard deviation"
)


class Task(NamedTuple):
    """Rows and labels to train on and to test on."""

    rows: NDArray[np.float64]
    labels: NDArray[np.str_]
    tests: NDArray[np.float64]
    truth: NDArray[np.str_]
    run: int

    def judged(self, weights: NDArray[np.float64], intercept: float) -> tuple[float, float]:
        """Accuracy on the rows held back, and mean logistic loss on the training rows."""
        signs = np.where(self.labels == CLASSES[1], 1, -1)
        loss = np.logaddexp(0, -signs * (self.rows @ weights + intercept)).mean()
        right = (self.tests @ weights + intercept > 0) == (self.truth == CLASSES[1])
        return float(right.mean()), float(loss)


def tasks(people: pl.DataFrame) -> list[Task]:
    rows, labels = design_matrix(people, features(people)), people[LABEL].to_numpy()
    made = []
    for run in range(RUNS):
        order = np.random.default_rng(run).permutation(len(rows))
        test, train = order[:TESTED], order[TESTED:]
        made.append(Task(rows[train], labels[train], rows[test], labels[test], run))
    return made


def usual(task: Task, epsilon: str) -> dict[str, object]:
    return {"epsilon": epsilon, "radius": RADIUS, "classes": CLASSES, "unsafe_noise": Seeded(task.run)}


def chosen(task: Task, epsilon: str) -> Fraction:
    problem = PrivateLogisticRegression(lam=1, **usual(task, epsilon)).problem(*task.rows.shape)
    return choose_lam(problem, epsilon=epsilon, chance="0.5", length=LENGTH)


def pure(task: Task, epsilon: str) -> PrivateClassifier:
    return PrivateLogisticRegression(lam=chosen(task, epsilon), **usual(task, epsilon))


def pure_hinge(task: Task, epsilon: str) -> PrivateClassifier:
    return PrivateSVC(lam=chosen(task, epsilon), **usual(task, epsilon))


def approximate(task: Task, epsilon: str) -> PrivateClassifier:
    return PrivateLogisticRegression(lam=SMALL, delta=DELTA, **usual(task, epsilon))


MODELS: dict[str, Callable[[Task, str], PrivateClassifier]] = {
    "logistic, pure": pure,
    "hinge, pure": pure_hinge,
    "logistic, delta 1e-6": approximate,
}


def spread(figures: NDArray[np.float64], factor: int) -> str:
    return f"{factor * figures.mean():.1f} ± {factor * figures.std(ddof=1):.1f}"


def without_privacy(made: list[Task]) -> NDArray[np.float64]:
    """Accuracy and risk of scikit-learn's model for each task."""
    found = []
    for task in made:
        model = LogisticRegression(C=1, max_iter=2000).fit(task.rows, task.labels)
        found.append(task.judged(model.coef_[0], model.intercept_[0]))
    return np.array(found)


def trained(made: list[Task], model: Callable[[Task, str], PrivateClassifier]) -> tuple[list[Any], float]:
    """Accuracy and loss by epsilon and task, and the time of all fits."""
    figures, taken = [], 0.0
    for epsilon in EPSILONS:
        models = [model(task, epsilon) for task in made]
        taken += seconds(lambda: [m.fit(t.rows, t.labels) for m, t in zip(models, made, strict=True)])  # noqa: B023
        figures.append(np.array([t.judged(m.coef_, m.intercept_) for m, t in zip(models, made, strict=True)]))
    return figures, taken


def main() -> None:
    if not ADULT.exists():
        sys.stdout.write("skipped: needs the Adult data set in ../shared/data beside the project\n")
        return
    announce()
    made = tasks(pl.read_csv(ADULT))
    best = without_privacy(made)
    majority = np.array([task.judged(np.zeros(task.rows.shape[1]), -1.0)[0] for task in made])
    headings = ["", *(f"epsilon {epsilon}" for epsilon in EPSILONS), "a run"]
    excess = list[list[str]]()

    def accuracy() -> Iterator[list[str]]:
        for name, model in MODELS.items():
            figures, taken = trained(made, model)
            each = f"{taken / RUNS / len(EPSILONS):.2f} s"
            excess.append([name, *(spread(found[:, 1] - best[:, 1], 1000) for found in figures), each])
            yield [name, *(spread(found[:, 0], 100) for found in figures), each]
        for name, found in (("scikit-learn, no privacy", best[:, 0]), ("majority class", majority)):
            yield [name, *[spread(found, 100)] * len(EPSILONS), ""]

    show("accuracy", headings, accuracy(), CAPTION)
    show("excess risk of the logistic loss", headings, excess[::2], CAPTION)


if __name__ == "__main__":
    main()
