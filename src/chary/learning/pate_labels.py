"""Labels by the votes of teachers: strategies, many points under one budget, a report, and Confident-GNMax."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from rich.console import Console
from rich.progress import track
from sklearn.cluster import KMeans

from chary.accounting import Event, Joint, Pure, Targeted, ZeroConcentrated, capacity_down, choose_order, epsilon_up
from chary.answers import handed_out
from chary.calls import Agreement, Label
from chary.calls.choices import Labelled, Level, Option, polled
from chary.data import Poll, Votes
from chary.errors import BudgetExceeded, InvalidParameter, InvalidQuery, NotPriced
from chary.learning import classifiers
from chary.learning.losses import Floats
from chary.noise import OperatingSystem, Source, checked_variance, discrete_gaussian
from chary.numbers import Number, exact, plain, positive, probability, set_fields, whole
from chary.session import Session

# Ways to put one question to the teachers: what is published, and what of it is paid.


class Strategy(Protocol):
    """One question at a time, by calls of a session, each under an idempotency key of its own."""

    @property
    def guided(self) -> bool:
        """Whether it needs a guess, the student's prediction."""

    @property
    def plain(self) -> Event:
        """What a question that is answered would reveal if all of it were paid."""

    @property
    def pure(self) -> Number:
        """The epsilon of that."""

    def ask(self, session: Session, question: int, guess: Option | None, request: str | None) -> Labelled:
        """The label, or why there is none; `BudgetExceeded` when it does not fit."""


@dataclass(frozen=True)
class _Sized:
    epsilon: Number

    def __post_init__(self) -> None:
        positive(self.epsilon, "epsilon")

    @property
    def guided(self) -> bool:
        """Most need no guess."""
        return False

    @property
    def pure(self) -> Number:
        """That of one choice."""
        return self.epsilon

    @property
    def plain(self) -> Event:
        """The exponential mechanism on votes (`chary.calls.choices`)."""
        return ZeroConcentrated(positive(self.epsilon, "epsilon") ** 2 / 8)


@dataclass(frozen=True)
class _Every(_Sized):
    flip: bool = False

    @property
    def plain(self) -> Event:
        return Pure(self.epsilon) if self.flip else super().plain

    def ask(self, session: Session, question: int, guess: Option | None, request: str | None) -> Labelled:
        """See `chary.calls.Label`."""
        return session.ask(Label(question, epsilon=self.epsilon, guess=guess, flip=self.flip), request=request)


@dataclass(frozen=True)
class EveryLabel(_Every):
    """A label for every point, every one paid; `flip` chooses by permute-and-flip, which suits a pure budget.

    >>> EveryLabel("0.1").plain
    ZeroConcentrated(rho=Fraction(1, 800))
    """


@dataclass(frozen=True)
class ClearLabels(_Sized):
    """A label where the vote is clear, free; "boundary" where it is not, paid.

    With `low`, also where it is clear that no class has this many votes, nothing is paid and no label released.
    """

    low: int | None = None

    def ask(self, session: Session, question: int, guess: Option | None, request: str | None) -> Labelled:
        """See `chary.calls.Label`."""
        return session.ask(Label(question, epsilon=self.epsilon, low=self.low, clear=True), request=request)


@dataclass(frozen=True)
class AgreedLabels(_Sized):
    """First a noisy test whether some class has at least `above` votes, then, if so, `ClearLabels`.

    The test is charged when it does not come out as expected. Expect "high" where most points find agreement, which
    makes their labels free altogether. Expect "low" where few do, and every point that does is paid.
    """

    above: int
    test_epsilon: Number
    expect: Level = "high"

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self.test_epsilon, "test_epsilon")
        whole(self.above, "above", least=0)

    @property
    def pure(self) -> Number:
        return positive(self.epsilon, "epsilon") + positive(self.test_epsilon, "test_epsilon")

    @property
    def plain(self) -> Event:
        return Joint((Pure(self.test_epsilon), super().plain))

    def ask(self, session: Session, question: int, guess: Option | None, request: str | None) -> Labelled:
        """See `chary.calls.Agreement` and `Label`."""
        first, second = (None, None) if request is None else (f"{request}/agreement", f"{request}/label")
        above, size = self.above, self.test_epsilon
        agreed = session.ask(Agreement(question, above=above, epsilon=size, expect=self.expect), request=first)
        tested = agreed.surprising or not session.spine.filter.price(Targeted(size)).free_miss
        if not agreed:
            return handed_out(Labelled(agreed.call, "low", None, tested), session.spine)
        label = session.ask(Label(question, epsilon=self.epsilon, clear=True), request=second)
        both = Labelled(label.call, label.state, label.option, label.paid or tested, agreed=agreed.call)
        return handed_out(both, session.spine)


@dataclass(frozen=True)
class Corrections(_Every):
    """A label for every point, paid where it differs from what the student predicts; it is trained as labels arrive."""

    @property
    def guided(self) -> bool:
        """By the student."""
        return True


# Labels for many points, by one strategy, until there are no points or no budget left.

Guess = Callable[[Mapping[int, Option]], Sequence[Option]]
# Guesses are made anew at 8, 16, 32, ... labels: all trainings together cost at most twice the last.
FIRST_ROUND = 8


@dataclass(frozen=True)
class Released:
    """What a strategy published about the points it asked, in order.

    `labels`: point to label. `asked`: how many points were answered in some way; `charged` of them were paid.
    `halted`: whether the budget ended before the points did; the labels up to there are all there are.
    """

    labels: dict[int, Option]
    asked: int
    charged: int
    halted: bool = False


class TeacherVotes(Votes):
    """The votes of teachers as rows of a session: question k is row k of the counts, one voter is one teacher.

    Every row adds up to the same number of teachers, at least two, which is public. Errors: `InvalidParameter`, before
    anything is opened or charged, for counts that are not so, or not one for each class; classes are strings or
    integers. `InvalidQuery`, nothing charged, for a question that is no row.

    >>> rows = TeacherVotes([[7, 3], [5, 5]], ["cat", "dog"])
    >>> rows, rows.prepare(rows.poll(0)).run().tolist()
    (TeacherVotes(2 questions, 2 options, of each teacher), [7, 3])
    """

    def __init__(self, votes: ArrayLike, classes: Sequence[Hashable]) -> None:
        counts = checked_votes(votes)
        names = [name for name in classifiers.checked_classes(classes) if isinstance(name, (str, int))]
        if not len(names) == len(classes) == counts.shape[1] or any(isinstance(name, bool) for name in names):
            raise InvalidParameter("votes need a column for each class, and classes that are strings or integers")
        teachers = set(counts.sum(axis=1).tolist())
        if len(teachers) > 1 or min(teachers, default=2) < 2:
            raise InvalidParameter("every teacher must vote once on every question, and there must be two at least")
        super().__init__(lambda question: counts[question], names, voter="teacher")
        self._questions = len(counts)

    def poll(self, question: str | int) -> Poll:
        if isinstance(question, str) or not 0 <= question < self._questions:
            raise InvalidQuery(f"questions are numbered from 0 to {self._questions - 1}")
        return super().poll(question)

    def __repr__(self) -> str:
        return f"TeacherVotes({self._questions} questions, {len(self.options)} options, of each teacher)"


def label_points(
    session: Session,
    points: Iterable[int],
    strategy: Strategy,
    *,
    guess: Guess | None = None,
    request: str | None = None,
    progress: bool = True,
) -> Released:
    """Ask for the label of each of the `points`, numbers of questions, in order.

    Guarantee: that of the session, whose budget, quotas and ledger hold for every call. When a call is refused for
    lack of budget, the labels so far are returned and `halted` is True; any other error is raised.

    `guess`, for a strategy that is `guided`, gives a label for each question (all, by number) from the labels released
    so far. It is asked before the first call and whenever the number of answers has doubled, from 8 on. `request` is
    the beginning of idempotency keys. Run again on the same questions after an interruption, and earlier answers are
    read from the ledger, free.

    Errors: `InvalidQuery` for points that are no questions; `InvalidParameter` for points listed twice, a guided
    strategy without `guess`, or a guess that leaves points out. All but the last are raised before anything is asked.
    """
    order = _checked(session, points)
    if strategy.guided != (guess is not None):
        raise InvalidParameter("give guess= to a strategy that corrects a student, and to no other")
    labels: dict[int, Option] = {}
    guesses: Sequence[Option] = ()
    charged = retrain = 0
    work = track(order, "labelling", console=Console(stderr=True), transient=True, disable=not progress)
    for asked, point in enumerate(work):
        if guess is not None and asked == retrain:
            guesses, retrain = guess(labels), max(FIRST_ROUND, 2 * asked)
            if len(guesses) <= max(order):
                raise InvalidParameter("guess must return a label for each question, all of them, by number")
        try:
            label = strategy.ask(session, point, None if guess is None else guesses[point], _key(request, point))
        except NotPriced:
            raise
        except BudgetExceeded:
            return Released(labels, asked, charged, halted=True)
        charged += label.paid
        if label.option is not None:
            labels[point] = label.option
    return Released(labels, len(order), charged)


def _checked(session: Session, points: Iterable[int]) -> list[int]:
    """The points, all of them questions of the session, so that the last cannot fail after the first was paid."""
    order = list(points)
    for point in order:
        polled(session.spine.rows, point)
    if len(set(order)) < len(order):
        raise InvalidParameter("a point is listed twice: a second label of it would be paid as well")
    return order


def _key(request: str | None, point: int) -> str | None:
    return None if request is None else f"{request}/{point}"


# Which public points to ask about when only a few labels can be paid.


def spread_points(points: ArrayLike, count: int, *, seed: int = 0) -> list[int]:
    """The numbers of `count` different points, each the nearest of its cluster (k-means) to the centre.

    The points are public and nothing else is used, so nothing is charged. Typical points are also those on which
    teachers agree most, so a label buys more here than at a random point.

    Errors: `InvalidParameter` for more than there are different points.

    >>> sorted(spread_points([[0.0], [0.1], [0.2], [5.0], [5.1], [5.2]], 2))
    [1, 4]
    """
    table = classifiers.matrix(points, "points")
    if not np.isfinite(table).all() or len(np.unique(table, axis=0)) < whole(count, "count"):
        raise InvalidParameter("there are not this many different points, or some hold no finite numbers")
    clusters = KMeans(count, n_init=4, random_state=seed).fit(table)
    distances = clusters.transform(table)
    members = [np.flatnonzero(clusters.labels_ == cluster) for cluster in range(count)]
    return [int(inside[distances[inside, cluster].argmin()]) for cluster, inside in enumerate(members)]


# What labelling achieved, beside what other ways would have.


@dataclass(frozen=True)
class LabelReport:
    """The labels that a budget bought.

    - `points`: how many there were; `labels`: released.
    - `label_accuracy`, `student_accuracy`: against a test set, None where there was none. Neither is private by itself:
      both need true labels, which only a public test set may show.
    - `share`: of the budget, charged. `plain_share`: what the same labels take when each is paid for by ordinary
      composition, above 1 where the budget would not do. `confident`: how many labels Confident-GNMax released on the
      same votes at the same (epsilon, delta); None if it was not tried.

    >>> print(LabelReport(points=400, labels=380, label_accuracy=0.93, student_accuracy=0.9, share=0.8,
    ...     plain_share=21.0, confident=12))
    380 labels of 400 points, 93 % right; the student is right on 90 %. 80 % of the budget is charged; plain
    composition would take 2100 %. Confident-GNMax released 12 labels.
    """

    points: int
    labels: int
    label_accuracy: float | None
    student_accuracy: float | None
    share: float
    plain_share: float
    confident: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """All figures by name."""
        return asdict(self)

    def __str__(self) -> str:
        right = "" if self.label_accuracy is None else f", {_percent(self.label_accuracy)} right"
        student = (
            "" if self.student_accuracy is None else f"; the student is right on {_percent(self.student_accuracy)}"
        )
        confident = "" if self.confident is None else f" Confident-GNMax released {self.confident} labels."
        return (
            f"{self.labels} labels of {self.points} points{right}{student}. {_percent(self.share)} of the budget is "
            f"charged; plain composition would take {_percent(self.plain_share)}.{confident}"
        )


def label_accuracy(released: Mapping[int, Hashable], truth: Sequence[Hashable]) -> float | None:
    """The proportion of the released labels that are true, or None if there are none; `released` maps positions in
    `truth` to labels.

    >>> label_accuracy({0: "yes", 2: "no"}, ["yes", "no", "yes"])
    0.5
    """
    if any(not 0 <= position < len(truth) for position in released):
        raise InvalidParameter("every released label needs its true one")
    if not released:
        return None
    return float(sum(bool(truth[position] == label) for position, label in released.items()) / len(released))


def _percent(share: float) -> str:
    return f"{plain(100 * share)} %"


# Confident-GNMax (Papernot et al. 2018), for comparison: label what most teachers agree on, with Gaussian noise.

Counts = NDArray[np.int64]
# From little above 1 to 2001, 400 of them evenly in logarithms; each gives a bound, so a coarse grid only loosens it.
ORDERS: Floats = 1 + np.geomspace(0.05, 2000, 400)
# Tails are summed over 60 deviations in arrays: with 2**16 these are millions of numbers.
LARGEST_SIGMA = 2**16
Stop = Callable[[NDArray[np.bool_]], tuple[int, float]]


@dataclass(frozen=True)
class ConfidentLabels:
    """Released labels: point to class number. `asked` points were tested, and `epsilon` is what that took by the
    accounting chosen, which is bookkeeping: the guarantee, where it is `guaranteed`, is the whole budget. Where not,
    the figure depends on the votes.
    """

    labels: dict[int, int]
    asked: int
    epsilon: float
    guaranteed: bool


@dataclass(frozen=True)
class ConfidentGnmax:
    """Answer a point if `most votes + N(0, sigma_threshold^2) >= threshold`, by the largest `votes + N(0, sigma^2)`.

    The noise is discrete Gaussian, drawn exactly. One unit moves one vote, so the test is `check_rho`-zCDP (the largest
    count changes by one at most) and the answer is `answer_rho`-zCDP (two counts change by one each).

    >>> ConfidentGnmax(60, 40, 20).check_rho, ConfidentGnmax(60, 40, 20).answer_rho
    (Fraction(1, 3200), Fraction(1, 400))
    """

    threshold: int
    sigma_threshold: Number
    sigma: Number

    def __post_init__(self) -> None:
        whole(self.threshold, "threshold", least=0)
        for name in ("sigma_threshold", "sigma"):
            sigma = positive(getattr(self, name), name)
            checked_variance(sigma**2)
            if sigma > LARGEST_SIGMA:
                raise InvalidParameter(f"{name} must be at most {LARGEST_SIGMA}")
            set_fields(self, **{name: sigma})

    @property
    def variances(self) -> tuple[Fraction, Fraction]:
        """Of the test and of the answer."""
        return exact(self.sigma_threshold, "sigma_threshold") ** 2, exact(self.sigma, "sigma") ** 2

    @property
    def check_rho(self) -> Fraction:
        """What every point costs: the test."""
        return 1 / (2 * self.variances[0])

    @property
    def answer_rho(self) -> Fraction:
        """What an answered point costs on top."""
        return 1 / self.variances[1]

    def outcomes(self, votes: Counts, source: Source) -> tuple[NDArray[np.bool_], Counts]:
        """Which points pass the test, and the noisy winner of each (secret where it does not pass)."""
        check, answer = self.variances
        passed = votes.max(axis=1) + discrete_gaussian(source, check, len(votes)) >= self.threshold
        winners = (votes + discrete_gaussian(source, answer, votes.size).reshape(votes.shape)).argmax(axis=1)
        return passed, winners

    def label(
        self, votes: ArrayLike, *, epsilon: Number, delta: Number, unsafe_noise: Source | None = None
    ) -> ConfidentLabels:
        """Label points in order until the worst case of the next one does not fit into the budget.

        Guarantee: (epsilon, delta)-DP for one vote moved, by zCDP at the best Renyi order: `check_rho` for each point
        asked, `answer_rho` for each label.

        `votes` holds counts, a row for each point and a column for each class. Errors: `InvalidParameter` for votes
        that are no such table, epsilon not positive, delta outside (0, 1).

        >>> found = ConfidentGnmax(60, 100, 40).label([[90, 10]] * 50, epsilon=1, delta=1e-5)
        >>> found.epsilon <= 1, len(found.labels) < 50
        (True, True)
        """
        total, spare = positive(epsilon, "epsilon"), probability(delta, "delta")

        def stop(passed: NDArray[np.bool_]) -> tuple[int, float]:
            order = choose_order(total, spare)
            left = capacity = capacity_down(total, spare, order) / (order * (order - 1))
            asked = 0
            while asked < len(passed) and left >= self.check_rho + self.answer_rho:
                left -= self.check_rho + (self.answer_rho if passed[asked] else 0)
                asked += 1
            return asked, min(float(total), _gaussian_epsilon(capacity - left, spare))

        return self.stopped(checked_votes(votes), stop, unsafe_noise, guaranteed=True)

    def stopped(self, votes: Counts, stop: Stop, source: Source | None, *, guaranteed: bool) -> ConfidentLabels:
        """The labels up to where `stop` says, from which points pass, how many are asked and what that took."""
        passed, winners = self.outcomes(votes, source or OperatingSystem())
        asked, epsilon = stop(passed)
        labels = {point: int(winners[point]) for point in np.flatnonzero(passed[:asked]).tolist()}
        return ConfidentLabels(labels, asked, epsilon, guaranteed)


def _gaussian_epsilon(rho: Fraction, delta: Fraction) -> float:
    """The epsilon of rho-zCDP at delta and the best order of a grid; rounded up, 0 at no cost."""
    if not rho:
        return 0.0
    best = converted(ORDERS * (ORDERS - 1) * float(rho), float(delta)).argmin()
    order = Fraction(float(ORDERS[best]))
    return float(epsilon_up(order * (order - 1) * rho, order, delta))


def checked_votes(votes: ArrayLike) -> Counts:
    """Counts of votes, a row for each point and a column for each class; `InvalidParameter` for anything else."""
    counts = np.asarray(votes)
    if counts.ndim != 2 or counts.shape[1] < 2 or counts.dtype.kind not in "iu" or counts.min(initial=0) < 0:
        raise InvalidParameter("votes must be a table of integers: a row for each point, a column for each class")
    return counts.astype(np.int64)


def converted(log_moments: Floats, delta: float, orders: Floats = ORDERS) -> Floats:
    """The epsilon that a log-moment gives at each order, the last axis; the least one is the one to take."""
    return log_moments / (orders - 1) + np.log1p(-1 / orders) - np.log(delta * orders) / (orders - 1)
