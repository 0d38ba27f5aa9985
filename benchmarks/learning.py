"""Private learning from teachers: labels that a budget buys, what a student learns from them, beside peers and limits.

Run as `python benchmarks/learning.py [--full]`; Adult needs the data sets beside the project and is left out without
them. Seeds shuffle private rows, public points and test rows and start the seeded noise; settings are the same for all
of them. Every label of ours goes through a session and a ledger.

- Digits: 1,000 private rows, 400 public points, 397 test rows. Teachers are nearest-neighbour classifiers, the student
  spreads labels over all public points. Points are asked one a cluster, as many clusters as the setting says.
- Adult: 34,842 private rows, 4,000 public points, 10,000 test rows, columns scaled by public constants; all models are
  logistic regressions. Points are asked in random order.
- Plain composition pays every label as an epsilon-DP call. Limits: the teachers' exact majority on all points, and
  students of its labels and of the true ones.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from joblib import Parallel, delayed
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.semi_supervised import LabelSpreading

from chary import Budget
from chary.accounting import Pure
from chary.filters import RenyiFilter
from chary.learning import (
    AgreedLabels,
    ClearLabels,
    ConfidentGnmax,
    Corrections,
    EveryLabel,
    Split,
    Strategy,
    Teachers,
    digits,
    label_accuracy,
    split,
    spread_points,
    teach,
)
from chary.learning.pate import Pupil
from chary.noise import Seeded
from chary_research.reported_labels import label_as_reported
from measuring import announce, full, show

ADULT = Path(__file__).resolve().parents[2] / "shared" / "data" / "adult_all.csv.gz"
DELTA = 1e-5
EPSILONS = (1, 2) if full() else (1,)
SEEDS = range(5 if full() else 2)
POINTS, TESTS = 4000, 10_000
HEADINGS = ["", "setting", "asked", "paid", "labels", "right %", "student %", "budget %"]
NAMES = ("workclass", "marital_status", "occupation", "relationship", "race", "sex")
PLAIN, GNMAX, REPORTED = "plain composition", "Confident-GNMax", "GNMax, data-dependent*"
NOTE = "* no guarantee: what it charges, and so where it stops, depends on exact votes, which leaks"


@dataclass(frozen=True)
class Setting:
    """One way to spend a budget: how many points are asked (0: all) and by what.

    It is told as the epsilon of a call (and of the test) and the bar, or as threshold and sigmas of Confident-GNMax.
    """

    method: str
    points: int
    way: Strategy | ConfidentGnmax

    def __str__(self) -> str:
        way = self.way
        if isinstance(way, ConfidentGnmax):
            return f"{way.threshold}, {float(way.sigma_threshold):g}, {float(way.sigma):g}"
        bar = getattr(way, "above", None) or getattr(way, "low", None)
        test = getattr(way, "test_epsilon", None)
        return ", ".join(str(part) for part in (way.epsilon, test, bar) if part)


@dataclass(frozen=True)
class Task:
    """A data set: how it is split, what teaches, what learns, what is compared at each epsilon."""

    name: str
    split: Callable[[int], Split]
    classes: tuple[int, ...]
    teachers: int
    teacher: Any
    student: Any
    unlabelled: bool
    settings: dict[int, list[Setting]]


def adult(seed: int) -> Split:
    """Indicators of categories and five numbers scaled by constants; income is predicted."""
    columns = duckdb.sql(f"SELECT * FROM read_csv('{ADULT}')").fetchnumpy()
    scaled = [
        columns["age"] / 90,
        columns["education_num"] / 16,
        np.log1p(columns["capital_gain"]) / 12,
        np.log1p(columns["capital_loss"]) / 9,
        columns["hours_per_week"] / 99,
    ]
    indicators = [columns[name] == value for name in NAMES for value in sorted(set(columns[name]))]
    rich = (columns["income"] == ">50K").astype(np.int64)
    return split(np.column_stack([*scaled, *indicators]), rich, points=POINTS, test=TESTS, seed=seed)


def compared(
    every: EveryLabel, agreed: AgreedLabels, gnmax: ConfidentGnmax, few: int = 0, points: int = 0
) -> list[Setting]:
    """Every method: a `few` points are asked where all are paid, and calls have one epsilon where hits are."""
    size = agreed.epsilon
    ways: dict[str, Strategy | ConfidentGnmax] = {
        "(b) clear labels": ClearLabels(size),
        "(b) with low": ClearLabels(size, low=agreed.above),
        "(c) test first": agreed,
        "(d) corrections": Corrections(size),
        GNMAX: gnmax,
        REPORTED: gnmax,
    }
    paid = [Setting(method, few, every) for method in (PLAIN, "(a) every label")]
    return paid + [Setting(method, points, way) for method, way in ways.items()]


TASKS = [
    Task(
        "Digits",
        lambda seed: digits(seed=seed),
        tuple(range(10)),
        100,
        KNeighborsClassifier(1),
        LabelSpreading(kernel="knn", n_neighbors=7, max_iter=100),
        unlabelled=True,
        settings={
            1: compared(EveryLabel("0.155"), AgreedLabels("0.05", 30, "0.025"), ConfidentGnmax(40, 36, 18), 10, 28),
            2: compared(EveryLabel("0.186"), AgreedLabels("0.05", 30, "0.025"), ConfidentGnmax(40, 30, 15), 25, 40),
        },
    ),
    Task(
        "Adult",
        adult,
        (0, 1),
        500,
        LogisticRegression(C=3, max_iter=300),
        LogisticRegression(max_iter=300),
        unlabelled=False,
        settings=dict.fromkeys(
            EPSILONS,
            compared(EveryLabel("0.02"), AgreedLabels("0.02", 300, "0.01"), ConfidentGnmax(375, 360, 120)),
        ),
    ),
]


class Trial:
    """One seed of a task: who teaches, what is asked, what is tested, and the one ensemble that all methods share."""

    def __init__(self, task: Task, seed: int) -> None:
        self.task, self.seed, self.rows = task, seed, task.split(seed)
        self.truth = [int(label) for label in self.rows.truth]
        self.teachers = Teachers.train(
            self.rows.rows,
            self.rows.labels,
            estimator=task.teacher,
            classes=task.classes,
            teachers=task.teachers,
            progress=False,
            unsafe_noise=Seeded(seed),
        )
        self.votes = self.teachers.votes(self.rows.points)

    def order(self, points: int) -> list[int]:
        """Which points are asked, in which order."""
        return spread_points(self.rows.points, points) if points else list(range(len(self.truth)))

    @classmethod
    def figures(cls, task: Task, seed: int) -> list[list[list[float]]]:
        """For each epsilon those of its settings and of the limits: the exact majority and the true labels."""
        trial = cls(task, seed)
        limits = [
            [np.nan, np.nan, len(labels), *trial.graded(dict(enumerate(labels))), np.nan]
            for labels in (trial.votes.argmax(axis=1).tolist(), trial.truth)
        ]
        return [[trial.run(setting, epsilon) for setting in task.settings[epsilon]] + limits for epsilon in EPSILONS]

    def run(self, setting: Setting, epsilon: int) -> list[float]:
        """Asked, paid, labels, share of right labels, accuracy of the student, share of the budget."""
        way, asked = setting.way, self.order(setting.points)
        if isinstance(way, ConfidentGnmax):
            return self.confident(setting.method, way, asked, epsilon)
        budget, plain = Budget(epsilon=epsilon, delta=DELTA), setting.method == PLAIN
        learned = teach(
            self.teachers,
            self.rows.points,
            strategy=way,
            student=self.task.student,
            budget=budget,
            grain=None if isinstance(way, EveryLabel) else way.epsilon,
            ask=asked[: paid_plainly(budget, way)] if plain else asked,
            unlabelled=self.task.unlabelled,
            progress=False,
            unsafe_noise=Seeded(1000 + self.seed),
        )
        released, share = learned.released, 1.0 if plain else learned.report.share
        return [released.asked, released.charged, len(released.labels), *self.graded(released.labels), share]

    def confident(self, method: str, way: ConfidentGnmax, asked: list[int], epsilon: int) -> list[float]:
        """The same figures for Confident-GNMax on the same votes and points."""
        label = partial(label_as_reported, way) if method == REPORTED else way.label
        total = {"epsilon": epsilon, "delta": DELTA, "unsafe_noise": Seeded(1000 + self.seed)}
        found = label(self.votes[asked], **total)
        labels = {asked[place]: self.task.classes[number] for place, number in found.labels.items()}
        return [found.asked, found.asked, len(labels), *self.graded(labels), found.epsilon / epsilon]

    def graded(self, labels: dict[int, Any]) -> tuple[float, float]:
        """The share of right labels and the accuracy of their student."""
        right, rows = label_accuracy(labels, self.truth), self.rows
        student = Pupil(rows.points, self.task.classes, self.task.student, self.task.unlabelled).train(labels)
        return np.nan if right is None else right, student.accuracy(rows.test_rows, rows.test_labels)


def paid_plainly(budget: Budget, way: Strategy) -> int:
    """How many labels the budget pays when each is any epsilon-DP call."""
    filter_ = RenyiFilter.best(budget)
    return filter_.price(Pure(way.pure)).hit.copies_in(filter_.capacity) or 0


def lines(settings: list[Setting], figures: Any) -> Iterator[list[str]]:
    """Mean and standard deviation over seeds, a line for each setting and limit."""
    named = [(setting.method, str(setting)) for setting in settings]
    limits = [("limit: exact majority", "-"), ("limit: true labels", "-")]
    for (method, told), several in zip([*named, *limits], np.moveaxis(figures, 1, 0), strict=True):
        scaled = several * [1, 1, 1, 100, 100, 100]
        yield [method, told, *(spread(column, digits=place > 2) for place, column in enumerate(scaled.T))]


def spread(column: Any, *, digits: bool) -> str:
    """Mean and standard deviation of the seeds for which there is a figure."""
    known = column[~np.isnan(column)]
    return f"{known.mean():.{int(digits)}f}±{known.std():.{int(digits)}f}" if len(known) else "-"


def main() -> None:
    announce()
    for task in TASKS:
        if task.name == "Adult" and not ADULT.exists():
            print("Adult is left out: the data sets are not beside the project")
            continue
        figures = np.array(Parallel(n_jobs=-1)(delayed(Trial.figures)(task, seed) for seed in SEEDS))
        for place, epsilon in enumerate(EPSILONS):
            title = f"{task.name}: epsilon {epsilon}, delta {DELTA:g}, {task.teachers} teachers, {len(SEEDS)} seeds"
            show(title, HEADINGS, lines(task.settings[epsilon], figures[:, place]), NOTE)


if __name__ == "__main__":
    main()
