"""PATE: teachers on disjoint shards, a student on released labels, and the way between them in one call."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike, NDArray
from rich.console import Console
from rich.progress import track

from chary.accounting import Pure
from chary.calls.choices import Option
from chary.data import Neighbors
from chary.errors import InvalidParameter
from chary.filters import Budget, Filter, PureFilter, RenyiFilter
from chary.learning import classifiers, pate_labels
from chary.learning.pate_labels import ConfidentGnmax
from chary.ledger import Ledger
from chary.noise import OperatingSystem, Source, uniform_integers
from chary.numbers import Number, whole
from chary.session import open_votes

# Disjoint shards of rows, one for each teacher, such that a privacy unit touches one shard only.

Numbers = NDArray[np.int64]


def number_units(units: ArrayLike | None, rows: int) -> Numbers:
    """The number of each row's unit: equal names have equal numbers; None makes every row a unit of its own.

    Names are integers or strings. Errors: `InvalidParameter` for names of another kind (floats and missing values
    among them, since two of those may be one person) or another number of rows.

    >>> number_units(["ann", "bob", "ann"], 3)
    array([0, 1, 0])
    """
    if units is None:
        return np.arange(rows, dtype=np.int64)
    names = np.asarray(units)
    if names.dtype == object and all(isinstance(name, str) for name in names.flat):
        names = names.astype(str)
    if names.shape != (rows,) or names.dtype.kind not in "iuUS":
        raise InvalidParameter("units must hold one name for each row, all integers or all strings, none missing")
    numbers: Numbers = np.unique(names, return_inverse=True)[1]
    return numbers.astype(np.int64)


def draw_shards(units: Numbers, shards: int, source: Source | None = None) -> Numbers:
    """The shard of each row, uniform and independent for each unit: shards of unequal size, some perhaps empty.

    Guarantee, under add/remove and under replace: condition on the draws of all other units, which have the same
    distribution with and without a unit. Then the rows of that unit are the only ones that differ, and all lie in one
    shard. So neighbours can be coupled such that all shards but one are equal, row by row and in the same order.

    `units` are numbers 0, 1, ... as `number_units` gives them. Errors: `InvalidParameter` for fewer than 1 shard.

    >>> sorted(set(draw_shards(np.array([0, 1, 0, 1]), 1)))
    [np.int64(0)]
    """
    drawn = uniform_integers(source or OperatingSystem(), whole(shards, "shards"), _count(units))
    return drawn[units]


def equal_shards(units: Numbers, shards: int, source: Source | None = None) -> Numbers:
    """The shard of each row, of sizes that differ by one unit at most: for the relation "replace" only.

    Guarantee, under replace: the units are a uniformly random arrangement in shards of public sizes. The unit that is
    added takes the place of the one that is removed, so all shards but one are equal. Under add/remove this is false:
    the size of a shard would depend on how many units there are.

    Errors: `InvalidParameter` for fewer than 1 shard.

    >>> sorted(equal_shards(np.arange(6), 3).tolist())
    [0, 0, 1, 1, 2, 2]
    """
    number = _count(units)
    places = np.arange(number, dtype=np.int64) % whole(shards, "shards")
    return places[_permutation(number, source or OperatingSystem())][units]


def _permutation(size: int, source: Source) -> Numbers:
    """A uniformly random order: sorted by random numbers, all drawn again when two are equal."""
    while True:
        keys = uniform_integers(source, 2**62, size)
        if np.unique(keys).size == size:
            return np.argsort(keys).astype(np.int64)


def _count(units: Numbers) -> int:
    return int(units.max()) + 1 if units.size else 0


# Teachers: one model a shard, whose votes change in one place when one privacy unit changes.

# Below 2**32, the limit of scikit-learn's random states.
SEEDS = 2**31
Result = TypeVar("Result")


class Teachers:
    """An ensemble of classifiers, each trained on a shard of its own; secret, and so are its votes.

    Guarantee: one privacy unit changes at most one teacher (see `draw_shards`). So for any point at most two of the
    counts that `votes` returns change, one going down by one and one going up by one. Every teacher votes for exactly
    one class on every point. A teacher without rows votes for a public default, and one whose training fails for the
    most frequent class of its shard. Errors, warnings and `repr` show nothing of the rows.

    >>> from sklearn.naive_bayes import GaussianNB
    >>> rows, labels = [[0.0], [0.1], [1.0], [1.1]] * 50, ["low", "low", "high", "high"] * 50
    >>> teachers = Teachers.train(
    ...     rows, labels, teachers=5, estimator=GaussianNB(), classes=["low", "high"], progress=False)
    >>> teachers
    Teachers(5, classes=('low', 'high'), <secret>)
    >>> teachers.votes([[0.05], [1.05]])
    array([[5, 0],
           [0, 5]])
    """

    def __init__(
        self,
        models: Sequence[classifiers.Model],
        classes: tuple[Hashable, ...],
        rehearsed: classifiers.Model,
        features: int,
    ) -> None:
        self._models = tuple(models)
        self._rehearsed = rehearsed
        self.features = features
        self.classes = classes

    @classmethod
    def train(
        cls,
        rows: ArrayLike,
        labels: classifiers.Labels,
        *,
        estimator: Any,
        classes: Sequence[Hashable],
        teachers: int = 250,
        units: ArrayLike | None = None,
        neighbors: Neighbors | str = Neighbors.ADD_REMOVE,
        jobs: int | None = None,
        progress: bool = True,
        unsafe_noise: Source | None = None,
    ) -> "Teachers":
        """Deal the privacy units out to the teachers and train a clone of `estimator` on each shard.

        - `rows`: a table of numbers, one row a training example. `labels`: one of `classes` for each row.
        - `estimator`: a scikit-learn classifier. It is tried on synthetic rows first.
        - `classes`: all labels there can be; public, so they are declared and never read off the labels.
        - `units`: the name of each row's privacy unit; None when each row is a unit of its own.
        - `neighbors`: "add_remove" draws each unit's shard independently; "replace" makes shards of equal size.
        - `jobs`: how many processes train (None: one; -1: as many as there are cores). Rows are never written to disk.

        Errors: `InvalidParameter` for fewer than two teachers or more teachers than units, an estimator that does not
        work, labels outside `classes`, rows that are no table of numbers. They hold no value of the rows, but that one
        is raised at all reveals something of them: training is for those who hold the rows. `unsafe_noise` voids every
        guarantee; it is for tests.
        """
        table, declared = classifiers.matrix(rows, "rows"), classifiers.checked_classes(classes)
        choices = classifiers.encode(labels, declared)
        if len(choices) != len(table):
            raise InvalidParameter("rows and labels must be equally many")
        source = unsafe_noise or OperatingSystem()
        shards = _shards(number_units(units, len(table)), whole(teachers, "teachers", least=2), neighbors, source)
        rehearsed = classifiers.rehearse(estimator, table.shape[1], len(declared))
        seeds = uniform_integers(source, SEEDS, teachers).tolist()
        work = (
            delayed(classifiers.learn)(estimator, table[shard], choices[shard], number % len(declared), seeds[number])
            for number, shard in enumerate(shards)
        )
        models = _run(work, teachers, jobs, "training teachers" if progress else None)
        return cls(list(models), declared, rehearsed, table.shape[1])

    def votes(self, points: ArrayLike, *, jobs: int | None = None, progress: bool = False) -> NDArray[np.int64]:
        """The exact counts of votes, secret: one row for each point, one column for each class.

        Every row adds up to the number of teachers. The points are public: errors may say about them.

        Errors: `InvalidParameter` for points that are no table of as many columns as the training rows, or that the
        estimator does not accept (missing values, say).
        """
        table = classifiers.matrix(points, "points", self.features)
        classifiers.accepts(self._rehearsed, table)
        counts = np.zeros((len(table), len(self.classes)), dtype=np.int64)
        positions = np.arange(len(table))
        for chosen in self._choices(table, jobs, "asking teachers" if progress else None):
            counts[positions, chosen] += 1
        return counts

    def _choices(self, table: classifiers.Points, jobs: int | None, title: str | None) -> Iterator[NDArray[np.int64]]:
        classes = len(self.classes)
        work = (
            delayed(classifiers.choose)(model, table, classes, number % classes)
            for number, model in enumerate(self._models)
        )
        return _run(work, len(self), jobs, title)

    def __len__(self) -> int:
        return len(self._models)

    def __repr__(self) -> str:
        return f"Teachers({len(self)}, classes={self.classes!r}, <secret>)"


def _shards(
    units: NDArray[np.int64], teachers: int, neighbors: Neighbors | str, source: Source
) -> list[NDArray[np.int64]]:
    """The row numbers of each teacher's shard."""
    if neighbors not in (Neighbors.ADD_REMOVE, Neighbors.REPLACE):
        raise InvalidParameter(f"neighbors must be 'add_remove' or 'replace', got {neighbors!r}")
    if len(np.unique(units)) < teachers:
        raise InvalidParameter("there are more teachers than privacy units: train fewer teachers")
    deal = draw_shards if neighbors == Neighbors.ADD_REMOVE else equal_shards
    shard_of_row = deal(units, teachers, source)
    return [np.flatnonzero(shard_of_row == number) for number in range(teachers)]


def _run(
    work: Iterable[tuple[Callable[..., Result], Any, Any]], total: int, jobs: int | None, title: str | None
) -> Iterator[Result]:
    """The results in order, behind a progress bar on standard error when there is a title; arrays stay in memory."""
    if jobs is not None and (isinstance(jobs, bool) or not isinstance(jobs, int) or jobs == 0):
        raise InvalidParameter("jobs must be None or an integer other than 0")
    results = Parallel(n_jobs=jobs, max_nbytes=None, return_as="generator")(work)
    console = Console(stderr=True)
    yield from track(results, title or "", total=total, console=console, transient=True, disable=title is None)


# The student: trained on public points with released labels, so it may be published.


@dataclass(frozen=True)
class Student:
    """A classifier of public points; post-processing of released labels, so as private as these are.

    >>> from sklearn.neighbors import NearestCentroid
    >>> student = train_student([[0.0], [1.0]], ["low", "high"], estimator=NearestCentroid(), classes=["low", "high"])
    >>> student.predict([[0.2], [0.9]])
    ['low', 'high']
    """

    model: classifiers.Model
    classes: classifiers.Classes
    features: int
    default: int

    def choose(self, points: ArrayLike) -> list[int]:
        """The number of the class that the student predicts, for each point: a prior for the next release."""
        chosen = classifiers.choose(
            self.model, classifiers.matrix(points, "points", self.features), len(self.classes), self.default
        )
        return [int(choice) for choice in chosen]

    def predict(self, points: ArrayLike) -> list[Hashable]:
        """The class that the student predicts, for each point."""
        return [self.classes[choice] for choice in self.choose(points)]

    def accuracy(self, points: ArrayLike, labels: classifiers.Labels) -> float:
        """The proportion of points it labels right. With a private test set this is an exact figure about private rows.

        Errors: `InvalidParameter` for labels outside the classes, as many as points, at least one.
        """
        truth = classifiers.encode(labels, self.classes)
        chosen = self.choose(points)
        if len(chosen) != len(truth) or not chosen:
            raise InvalidParameter("points and labels must be equally many, at least one")
        return float(np.mean(truth == np.array(chosen)))


def train_student(
    points: ArrayLike,
    labels: classifiers.Labels,
    *,
    estimator: Any,
    classes: Sequence[Hashable],
    default: Hashable | None = None,
    unlabelled: ArrayLike | None = None,
    seed: int = 0,
) -> Student:
    """Train a clone of `estimator` on public points and their released labels.

    Without labels, the student predicts `default` (the first class if None) everywhere; with labels of one class only,
    that class. `unlabelled` are more public points for an estimator that learns from such, as those of
    `sklearn.semi_supervised` do. `seed` is for estimators whose random state was left open.

    Errors: `InvalidParameter` for labels outside the classes, or not as many as points. The same for an estimator that
    does not work, and for points that it does not accept, such as missing values.
    """
    declared = classifiers.checked_classes(classes)
    table, choices = classifiers.matrix(points, "points"), classifiers.encode(labels, declared)
    if len(table) != len(choices):
        raise InvalidParameter("points and labels must be equally many")
    start = 0 if default is None else int(classifiers.encode([default], declared)[0])
    rehearsed = classifiers.rehearse(estimator, table.shape[1], len(declared))
    classifiers.accepts(rehearsed, table)
    if unlabelled is not None:
        more = classifiers.matrix(unlabelled, "unlabelled", table.shape[1])
        classifiers.accepts(rehearsed, more)
        table, choices = np.vstack([table, more]), np.append(choices, np.full(len(more), classifiers.UNLABELLED))
    return Student(classifiers.learn(estimator, table, choices, start, seed), declared, table.shape[1], start)


# From private rows to a student that may be published, in one call.

Labelled = tuple[ArrayLike, classifiers.Labels]


@dataclass(frozen=True)
class Learned:
    """The student and the labels it was trained on, both public, and what they took; `statement` says what is
    guaranteed.
    """

    student: Student
    released: pate_labels.Released
    report: pate_labels.LabelReport
    statement: str


@dataclass(frozen=True)
class Pupil:
    """How a student is made of labels: its estimator, whether it also learns from the points without a label."""

    points: classifiers.Points
    classes: Sequence[Hashable]
    estimator: Any
    unlabelled: bool = False

    def train(self, labels: Mapping[int, Option]) -> Student:
        """A student of the labels by number of point; the same labels make the same student."""
        known = sorted(labels)
        rest = [point for point in range(len(self.points)) if point not in labels]
        more = self.points[rest] if self.unlabelled else None
        given = [labels[point] for point in known]
        return train_student(self.points[known], given, estimator=self.estimator, classes=self.classes, unlabelled=more)

    def guess(self, labels: Mapping[int, Option]) -> list[Any]:
        """Its prediction for every point."""
        return self.train(labels).predict(self.points)


def teach(
    teachers: Teachers,
    points: ArrayLike,
    *,
    strategy: pate_labels.Strategy,
    student: Any,
    budget: Budget,
    ledger: str | Path | Ledger = ":memory:",
    grain: Number | None = None,
    dataset: str = "votes",
    ask: Iterable[int] | None = None,
    unlabelled: bool = False,
    truth: Sequence[Hashable] | None = None,
    test: Labelled | None = None,
    confident: ConfidentGnmax | None = None,
    request: str | None = None,
    progress: bool = True,
    unsafe_noise: Source | None = None,
) -> Learned:
    """Have public points labelled by teachers under a budget, and train a student on the labels.

    Guarantee: student and labels are (epsilon, delta)-DP together, as `budget` says, when one privacy unit of the
    teachers' rows changes (`statement`). What `report` says about accuracy is exact and no part of it: `truth` and
    `test` must be public.

    - `strategy`: `EveryLabel`, `ClearLabels`, `AgreedLabels`, `Corrections`. `ask`: which points, in which order (all).
    - `student`: a scikit-learn classifier; with `unlabelled`, one that also learns from points without a label, which
      are given to it as well.
    - `budget`, `ledger`, `grain`, `dataset`: see `chary.session.open_votes`. `request`: see `label_points`.
    - `truth`: the true label of each point, `test`: rows and labels, to judge by. `confident`: the comparison that
      the report makes on the same votes, for a budget with a delta; for experiments, since it has a budget of its own.

    Errors: `InvalidParameter`, nothing charged, for points that the teachers' or the student's estimator does not
    accept, such as missing values, and labels that are none of the classes.
    """
    table = classifiers.matrix(points, "points", teachers.features)
    classifiers.accepts(classifiers.rehearse(student, table.shape[1], len(teachers.classes)), table)
    pupil = Pupil(table, teachers.classes, student, unlabelled)
    if truth is not None and len(truth) != len(table):
        raise InvalidParameter("truth must hold one label for each point")
    votes = teachers.votes(table, progress=progress)
    order = range(len(table)) if ask is None else ask
    guess = pupil.guess if strategy.guided else None
    rows = pate_labels.TeacherVotes(votes, teachers.classes)
    with open_votes(
        rows, dataset=dataset, ledger=ledger, budget=budget, grain=grain, unsafe_noise=unsafe_noise
    ) as session:
        released = pate_labels.label_points(session, order, strategy, guess=guess, request=request, progress=progress)
        share, statement = session.spent.share, session.statement()
    taught = pupil.train(released.labels)
    terms: dict[str, Any] = dict(zip(("epsilon", "delta"), budget.exact, strict=True))
    compared = None if confident is None else confident.label(votes, **terms, unsafe_noise=unsafe_noise)
    report = pate_labels.LabelReport(
        points=len(table),
        labels=len(released.labels),
        label_accuracy=None if truth is None else pate_labels.label_accuracy(released.labels, truth),
        student_accuracy=None if test is None else taught.accuracy(*test),
        share=share,
        plain_share=plain_share(budget, strategy, released.asked),
        confident=None if compared is None else len(compared.labels),
    )
    return Learned(taught, released, report, statement)


def plain_share(budget: Budget, strategy: pate_labels.Strategy, asked: int) -> float:
    """The part of the budget that this many answers take when every one is paid, by the better of the two filters.

    >>> from chary.learning.pate_labels import ClearLabels
    >>> round(plain_share(Budget(epsilon=1, delta=1e-5), ClearLabels("0.05"), 1000), 1)
    10.2
    """
    delta = budget.exact[1]
    filter_: Filter = RenyiFilter.best(budget) if delta else PureFilter(budget)
    event = strategy.plain if delta else Pure(strategy.pure)
    return filter_.shares.taken(filter_.price(event).hit.times(asked))
