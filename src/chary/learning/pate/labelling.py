"""Labels for many points, by one strategy, until there are no points or no budget left."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from numpy.typing import ArrayLike
from rich.console import Console
from rich.progress import track

from chary.calls.choices import Option, polled
from chary.data import Ballots, Poll
from chary.errors import BudgetRefused, InvalidParameter, InvalidQuery, NoPrice
from chary.learning.pate.confident import checked_votes
from chary.learning.pate.labels import checked_classes
from chary.learning.pate.strategies import Strategy
from chary.session import Session

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


class TeacherVotes(Ballots):
    """The votes of teachers as rows of a session: question k is row k of the counts, one voter is one teacher.

    Every row adds up to the same number of teachers, at least two, which is public. Errors: `InvalidParameter`, before
    anything is opened or charged, for counts that are not so, or not one for each class; classes are strings or whole
    numbers.
    `InvalidQuery`, nothing charged, for a question that is no row.

    >>> rows = TeacherVotes([[7, 3], [5, 5]], ["cat", "dog"])
    >>> rows, rows.prepare(rows.poll(0)).run().tolist()
    (TeacherVotes(2 questions, 2 options, of each teacher), [7, 3])
    """

    def __init__(self, votes: ArrayLike, classes: Sequence[Hashable]) -> None:
        counts = checked_votes(votes)
        names = [name for name in checked_classes(classes) if isinstance(name, (str, int))]
        if not len(names) == len(classes) == counts.shape[1] or any(isinstance(name, bool) for name in names):
            raise InvalidParameter("votes need a column for each class, and classes that are strings or whole numbers")
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
    so far; it is asked before the first call and whenever the number of answers has doubled, from 8 on. `request` is
    the beginning of request keys: run again on the same questions after an interruption, what was answered is read
    from the ledger, free.

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
        except NoPrice:
            raise
        except BudgetRefused:
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
