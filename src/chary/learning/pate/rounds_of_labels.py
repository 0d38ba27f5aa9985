"""From private rows to a student that may be published, in one call."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from chary.accounting import Pure
from chary.calls.choices import Option
from chary.errors import InvalidParameter
from chary.filters import Budget, Filter, PureFilter, RenyiFilter
from chary.learning.linear_estimators import Points, accepts, matrix, rehearse
from chary.learning.pate.confident import ConfidentGnmax, Counts, label_confident
from chary.learning.pate.labelling import Released, TeacherVotes, label_points
from chary.learning.pate.labels import Labels
from chary.learning.pate.report import LabelReport, label_accuracy
from chary.learning.pate.strategies import Strategy
from chary.learning.pate.student import Student, train_student
from chary.learning.pate.teachers import Teachers
from chary.ledger import Ledger
from chary.noise import Source
from chary.numbers import Number
from chary.session import open_rows

Labelled = tuple[ArrayLike, Labels]


@dataclass(frozen=True)
class Learned:
    """The student and the labels it was trained on, both public, and what they took; `statement` says what is
    guaranteed.
    """

    student: Student
    released: Released
    report: LabelReport
    statement: str


@dataclass(frozen=True)
class Pupil:
    """How a student is made of labels: its estimator, whether it also learns from the points without a label."""

    points: Points
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
    strategy: Strategy,
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
    - `budget`, `ledger`, `grain`, `dataset`: see `chary.session.open_rows`. `request`: see `label_points`.
    - `truth`: the true label of each point, `test`: rows and labels, to judge by. `confident`: the comparison that
      the report makes on the same votes, for a budget with a delta; for experiments, since it has a budget of its own.

    Errors: `InvalidParameter`, nothing charged, for points that the teachers' or the student's estimator does not
    accept, such as missing values, and labels that are none of the classes.
    """
    table = matrix(points, "points", teachers.features)
    accepts(rehearse(student, table.shape[1], len(teachers.classes)), table)
    pupil = Pupil(table, teachers.classes, student, unlabelled)
    if truth is not None and len(truth) != len(table):
        raise InvalidParameter("truth must hold one label for each point")
    votes = teachers.votes(table, progress=progress)
    order = range(len(table)) if ask is None else ask
    guess = pupil.guess if strategy.guided else None
    rows = TeacherVotes(votes, teachers.classes)
    with open_rows(
        rows, dataset=dataset, ledger=ledger, budget=budget, grain=grain, unsafe_noise=unsafe_noise
    ) as session:
        released = label_points(session, order, strategy, guess=guess, request=request, progress=progress)
        share, statement = session.spent.share, session.statement()
    taught = pupil.train(released.labels)
    report = LabelReport(
        points=len(table),
        labels=len(released.labels),
        label_accuracy=None if truth is None else label_accuracy(released.labels, truth),
        student_accuracy=None if test is None else taught.accuracy(*test),
        share=share,
        plain_share=plain_share(budget, strategy, released.asked),
        confident=None if confident is None else _confident(confident, votes, budget, unsafe_noise),
    )
    return Learned(taught, released, report, statement)


def plain_share(budget: Budget, strategy: Strategy, asked: int) -> float:
    """The part of the budget that so many answers take when every one is paid, by the better of the two filters.

    >>> from chary.learning.pate.strategies import ClearLabels
    >>> round(plain_share(Budget(epsilon=1, delta=1e-5), ClearLabels("0.05"), 1000), 1)
    10.2
    """
    delta = budget.exact[1]
    filter_: Filter = RenyiFilter.best(budget) if delta else PureFilter(budget)
    event = strategy.plain if delta else Pure(strategy.pure)
    return filter_.shares.taken(filter_.price(event).hit.times(asked))


def _confident(gnmax: ConfidentGnmax, votes: Counts, budget: Budget, source: Source | None) -> int:
    epsilon, delta = budget.exact
    found = label_confident(
        votes,
        threshold=gnmax.threshold,
        sigma_threshold=gnmax.sigma_threshold,
        sigma=gnmax.sigma,
        epsilon=epsilon,
        delta=delta,
        unsafe_noise=source,
    )
    return len(found.labels)
