"""Private learning from teachers: labels bought and student accuracy at a budget, beside Confident-GNMax.

Run as `python benchmarks/learning.py`; Adult needs the data sets beside the project and is left out without them.
`python benchmarks/learning.py pilot` runs all of GRIDS on seeds of their own; SETTINGS holds, for every method, data
set and budget, the one with the best mean accuracy of the student there, a favour done to all alike. Seeds shuffle
private rows, public points and test rows and start the seeded noise. Every label goes through a session and a ledger.

- Digits: 1,000 private rows, 400 public points, 397 test rows. Teachers are nearest-neighbour classifiers, the student
  spreads labels over all public points. Points are asked one a cluster, as many clusters as the setting says.
- Adult: 34,842 private rows, 4,000 public points, 10,000 test rows, columns scaled by public constants; all models
  are logistic regressions. Points are asked in random order.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.semi_supervised import LabelSpreading

from chary import Budget
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
    label_confident,
    label_confident_as_reported,
    split,
    spread_points,
    teach,
)
from chary.learning.pate import Pupil
from chary.noise import Seeded

ADULT = Path(__file__).resolve().parents[2] / "shared" / "data" / "adult_all.csv.gz"
DELTA = 1e-5
SEEDS, PILOTS = range(5), (100, 101, 102)
POINTS, TESTS = 4000, 10_000
HEADINGS = ["", "setting", "asked", "paid", "labels", "right", "student right"]
NAMES = ("workclass", "marital_status", "occupation", "relationship", "race", "sex")
EVERY, CLEAR, BAR, AGREED, CORRECTED = (
    "(a) every label",
    "(b) clear labels",
    "(b) with low",
    "(c) test",
    "(d) corrections",
)
GNMAX, REPORTED = "Confident-GNMax", "Confident-GNMax, no guarantee"


@dataclass(frozen=True)
class Setting:
    """One way to spend a budget: how many teachers, how many points are asked (0: all) and by what."""

    method: str
    teachers: int
    points: int
    way: Strategy | ConfidentGnmax

    def __str__(self) -> str:
        told = f"{self.teachers} teachers, "
        if isinstance(self.way, ConfidentGnmax):
            sigmas = f"sigma {float(self.way.sigma_threshold):g} and {float(self.way.sigma):g}"
            return told + f"threshold {self.way.threshold}, {sigmas}"
        bar = getattr(self.way, "above", None) or getattr(self.way, "low", None)
        return told + f"epsilon {self.way.epsilon} a call" + (f", bar {bar}" if bar else "")


@dataclass(frozen=True)
class Task:
    """A data set: how it is split, what teaches, what learns."""

    name: str
    split: Callable[[int], Split]
    classes: tuple[int, ...]
    teacher: Any
    student: Any
    unlabelled: bool


def adult(seed: int) -> Split:
    """Indicators of categories and five numbers scaled by constants; income is predicted."""
    table = duckdb.sql(f"SELECT * FROM read_csv('{ADULT}')")
    columns = table.fetchnumpy()
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


LOGISTIC = LogisticRegression(max_iter=200)
TASKS = {
    "Digits": Task(
        "Digits",
        lambda seed: digits(seed=seed),
        tuple(range(10)),
        KNeighborsClassifier(1),
        LabelSpreading(kernel="knn", n_neighbors=7, max_iter=100),
        unlabelled=True,
    ),
    "Adult": Task("Adult", adult, (0, 1), LOGISTIC, LOGISTIC, unlabelled=False),
}


@cache
def data(task: str, seed: int) -> Split:
    """The split of a seed."""
    return TASKS[task].split(seed)


@cache
def trained(task: str, seed: int, teachers: int) -> Teachers:
    """The teachers of a seed; their shards are drawn by seeded noise."""
    made, rows = TASKS[task], data(task, seed)
    return Teachers.train(
        rows.rows,
        rows.labels,
        estimator=made.teacher,
        classes=made.classes,
        teachers=teachers,
        progress=False,
        unsafe_noise=Seeded(seed),
    )


@cache
def voted(task: str, seed: int, teachers: int) -> Any:
    """The exact votes on all points."""
    return trained(task, seed, teachers).votes(data(task, seed).points)


@cache
def order(task: str, seed: int, points: int) -> list[int]:
    """Which points are asked, in which order."""
    return spread_points(data(task, seed).points, points) if points else list(range(len(data(task, seed).points)))


def run(task: str, setting: Setting, epsilon: float, seed: int) -> tuple[float, ...]:
    """Asked, paid, labels, share of right labels, accuracy of the student."""
    if isinstance(setting.way, ConfidentGnmax):
        return confident(task, setting, epsilon, seed)
    rows, made = data(task, seed), TASKS[task]
    budget, size = Budget(epsilon=epsilon, delta=DELTA), setting.way.epsilon
    learned = teach(
        trained(task, seed, setting.teachers),
        rows.points,
        strategy=setting.way,
        student=made.student,
        budget=budget,
        grain=None if isinstance(setting.way, EveryLabel) else grain(budget, size),
        ask=order(task, seed, setting.points),
        unlabelled=made.unlabelled,
        truth=rows.truth.tolist(),
        test=(rows.test_rows, rows.test_labels),
        progress=False,
        unsafe_noise=Seeded(1000 + seed),
    )
    report, released = learned.report, learned.released
    right = np.nan if report.label_accuracy is None else report.label_accuracy
    return released.asked, released.charged, report.labels, right, report.student_accuracy or 0.0


def grain(budget: Budget, size: Any) -> Any:
    """The usual call for which the filter is tuned: that size where a hit of it can be priced at all."""
    return size if RenyiFilter.best(budget, grain=size) else None


def confident(task: str, setting: Setting, epsilon: float, seed: int) -> tuple[float, ...]:
    """The same figures for Confident-GNMax on the same votes and points."""
    rows, made, way = data(task, seed), TASKS[task], setting.way
    asked = order(task, seed, setting.points)
    label = label_confident_as_reported if setting.method == REPORTED else label_confident
    found = label(
        voted(task, seed, setting.teachers)[asked],
        threshold=way.threshold,
        sigma_threshold=way.sigma_threshold,
        sigma=way.sigma,
        epsilon=epsilon,
        delta=DELTA,
        unsafe_noise=Seeded(1000 + seed),
    )
    labels = {asked[place]: made.classes[number] for place, number in found.labels.items()}
    student = Pupil(rows.points, made.classes, made.student, made.unlabelled).train(labels)
    right = label_accuracy(labels, rows.truth.tolist())
    accuracy = student.accuracy(rows.test_rows, rows.test_labels)
    return found.asked, found.asked, len(labels), np.nan if right is None else right, accuracy


def gnmax_grid(method: str, teachers: Iterable[int], points: Iterable[int], sigmas: Iterable[int]) -> list[Setting]:
    """Confident-GNMax with thresholds and tests from nearly none to strict."""
    return [
        Setting(method, m, n, ConfidentGnmax(threshold * m // 100, test * sigma, sigma))
        for m in teachers
        for n in points
        for sigma in sigmas
        for threshold, test in ((0, 20), (60, 3), (75, 3), (75, 1))
    ]


def digits_grid(epsilon: int) -> list[Setting]:
    """What was tried on digits."""
    m = 100
    counts = (8, 10, 12, 16) if epsilon == 1 else (16, 20, 26, 32)
    sizes = (".12", ".15", ".18") if epsilon == 1 else (".15", ".18", ".2", ".24")
    small = (".02", ".03", ".05") if epsilon == 1 else (".04", ".06", ".08")
    every = [Setting(EVERY, voters, n, EveryLabel(e)) for voters in (50, m, 150) for n in counts for e in sizes]
    clear = [Setting(CLEAR, m, n, ClearLabels(e)) for n in (10, 20, 40) for e in small]
    tests = [Setting(AGREED, m, n, AgreedLabels(e, 30, e)) for n in (10, 20, 40) for e in small[:2]]
    corrected = [Setting(CORRECTED, m, n, Corrections(e)) for n in (10, 20, 40) for e in small]
    sigmas = (12, 16, 20) if epsilon == 1 else (8, 12, 16)
    peers = gnmax_grid(GNMAX, (m,), counts, sigmas) + gnmax_grid(REPORTED, (m,), (*counts, 40), sigmas)
    return every + clear + tests + corrected + peers


def adult_grid(epsilon: int) -> list[Setting]:
    """What was tried on Adult."""
    sizes = (".01", ".015", ".02", ".03") if epsilon == 1 else (".015", ".02", ".03", ".04")
    made: list[Setting] = []
    for m in (250, 500):
        made += [Setting(EVERY, m, 0, EveryLabel(e)) for e in sizes]
        made += [Setting(CLEAR, m, 0, ClearLabels(e)) for e in sizes]
        made += [Setting(BAR, m, 0, ClearLabels(e, low=bar * m // 100)) for e in sizes[1:3] for bar in (60, 75)]
        made += [Setting(AGREED, m, 0, AgreedLabels(e, 60 * m // 100, e)) for e in sizes[:3]]
        made += [Setting(CORRECTED, m, 0, Corrections(e)) for e in sizes]
    sigmas = (60, 100, 150) if epsilon == 1 else (30, 60, 100)
    peers = gnmax_grid(GNMAX, (250, 500), (0,), sigmas) + gnmax_grid(REPORTED, (250, 500), (0,), sigmas)
    return made + peers


GRIDS = {"Digits": digits_grid, "Adult": adult_grid}


def figures(task: str, setting: Setting, epsilon: int, seeds: Iterable[int]) -> Any:
    """One row of figures for each seed."""
    return np.array([run(task, setting, epsilon, seed) for seed in seeds])


def pilot(task: str, epsilon: int) -> list[Setting]:
    """The best setting of each method."""
    best: dict[str, tuple[float, Setting]] = {}
    for setting in GRIDS[task](epsilon):
        accuracy = float(figures(task, setting, epsilon, PILOTS)[:, -1].mean())
        if accuracy > best.get(setting.method, (-1.0, setting))[0]:
            best[setting.method] = accuracy, setting
    return [setting for _accuracy, setting in best.values()]
