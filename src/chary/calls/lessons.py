"""What published answers say of proportions of rows, which teaches public histograms for free."""

from abc import ABC, abstractmethod
from bisect import bisect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from chary.answers import Answer, Ends, scalar
from chary.calls.history import History, Rebuilt, opened_by
from chary.calls.run import run_of
from chary.core.transaction import Spine, openings
from chary.core.versions import Version
from chary.data import Count
from chary.data.queries.bodies import query_of
from chary.data.queries.stored import current, stored_kinds
from chary.errors import InvalidQuery
from chary.ledger import CallRecord
from chary.numbers import Number

# The kinds of call whose answers teach: what they publish are counts of rows, each with an interval of its own.
RELEASES: Final = ("release", "release_if", "release_all")
HISTOGRAMS: Final = ("multiplicative_weights", "sparse_weights")


class Lesson(NamedTuple):
    """What call `call` published of a proportion of the rows of now: it lies from `low` to `high`, with 95 %
    confidence."""

    call: int
    where: str
    low: float
    high: float


class Taught(ABC):
    """A public histogram that is taught what else is published; of a session, or of a service."""

    @abstractmethod
    def lessons(self) -> list[Lesson]:
        """What published answers of other calls say of shares, where the histogram says something else now.

        These are counts that were released, conditionally too, and hard answers of other histograms, of the rows that
        the histogram is about. Rows that came since may be in any cell, so an interval is wider by them; where their
        number is secret, only answers are taken after which none came. Nothing is read, charged or recorded. A call
        that was asked of an earlier version of the rows (`session.as_of`) is taken to be about those of its time: do
        not teach it.
        """

    @abstractmethod
    def learn(self, where: Any, told: Answer | tuple[Number, Number], *, request: str | None = None) -> Any:
        """Teach the histogram what is known of one share."""

    def learn_published(self) -> int:
        """Teach the histogram all of its `lessons`, in the order of their calls, for free; how many there were.

        Guarantee: as for `learn`. What is interrupted has taught some of them, and the next time the others.
        """
        found = self.lessons()
        for lesson in found:
            self.learn(lesson.where, (lesson.low, lesson.high))
        return len(found)


def in_shares(ends: Ends, size: int, grown: int = 0) -> tuple[float, float]:
    """Ends in rows as shares of this many, of which the last ones came later."""
    low, high = ends
    shares = 0.0 if low is None else low / size, 1.0 if high is None else (high + grown) / size
    return min(1.0, max(0.0, shares[0])), min(1.0, max(0.0, shares[1]))


def published(spine: Spine, run: int, size: int, analyst: str | None = None) -> Iterator[Lesson]:
    """What was published of proportions of the current rows: by everybody's calls, or those of one analyst, but for the
    questions to this run; oldest first."""
    history, notes = History(spine), spine.ledger.notes(spine.dataset)
    places, sizes = [note.entry for note in notes], [Version.of(note).size for note in notes]
    last = len(notes) if spine.version is None else spine.version
    asked = [each.kind for kind in HISTOGRAMS for each in run_of(kind).questions]
    kinds = [word for kind in RELEASES for word in stored_kinds(kind)] + asked
    for call in openings(spine, *kinds, analyst=analyst):
        grown = _grown(sizes[:last], bisect(places, call.number))
        if call.parts != spine.parts or grown is None or opened_by(history.body(call)) == run:
            continue
        found = history.rebuilt(call)
        for where, ends in _told(call, found) if found.plan is not None else ():
            yield Lesson(call.number, where, *in_shares(ends, size, grown))


def _grown(sizes: Sequence[int | None], then: int) -> int | None:
    """How many rows came after this many versions; None where that is secret, and for versions that come later."""
    if then >= len(sizes):
        return 0 if then == len(sizes) else None
    first, last = (sizes[then - 1], sizes[-1]) if then else (None, None)
    return None if first is None or last is None else last - first


def _told(call: CallRecord, found: Rebuilt) -> Iterator[tuple[str, Ends]]:
    """The conditions whose rows an answer counts, and between how many it says that they are."""
    asked = current(call.question)
    if "where" in asked:
        if (ends := found.answer.interval) is not None:
            low, high = (None if end is None else end * call.outcome["size"] for end in ends)
            yield asked["where"], (low, high)
        return
    wheres = _wheres(query_of(asked["query"])) if "query" in asked else _wheres_of_all(asked["queries"])
    for value in found.answer.findings:
        if value.key in wheres:
            yield wheres[value.key], value.interval


def _wheres_of_all(queries: Sequence[Any]) -> Mapping[Any, str]:
    """The same of a release of several."""
    known = [(place, _wheres(query_of(query))) for place, query in enumerate(queries)]
    return {place if key is None else (place, key): text for place, texts in known for key, text in texts.items()}


def _wheres(query: Any) -> Mapping[Any, str]:
    """By group, the condition of the rows that a count counts; none for other queries, and for all rows."""
    if not isinstance(query, Count) or query.without is not None:
        return {}
    if query.keying is None:
        return {} if query.where is None else {None: query.where.text}
    try:
        texts = [condition.text for condition in query.conditions()]
    except InvalidQuery:
        return {}
    return dict(zip(map(scalar, query.keys or ()), texts, strict=True))
