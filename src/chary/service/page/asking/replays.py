"""Calls of the ledger as people read them: the question in words, the answer again, as it was shown."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from chary.answer import Answer
from chary.ledger import CallRecord
from chary.ledger.sql.kept_ledger import KeptLedger
from chary.pictures import Chart
from chary.service.access.roles import Principal
from chary.service.serving.served_datasets import Served
from chary.session.public_report.rebuilding import Rebuilder
from chary.session.public_report.wording import outcome_told, question_told, titled
from chary.session.reporting import Entry, entry_of
from chary.spine.spine import Spine

_FIRST_LOOK: Final = 64


@dataclass(frozen=True)
class Replay:
    """A call with its answer presented again from the ledger: nothing is read, nothing is charged."""

    entry: Entry
    title: str
    question: str
    outcome: str
    answer: Any

    @property
    def chart(self) -> Chart | None:
        """What a picture of the answer shows."""
        return self.answer.chart() if isinstance(self.answer, Answer) else None

    @property
    def hit(self) -> bool | None:
        """Whether it hit; None for what has no target or no answer."""
        return self.entry.hits > 0 if self.entry.tests else None


def replays(served: Served, records: list[CallRecord]) -> list[Replay]:
    """These calls, in their order."""
    rebuilder = _rebuilder(served)
    return [_replay(served, rebuilder, record) for record in records]


def newest(served: Served, who: Principal, before: int | None, limit: int) -> list[CallRecord]:
    """So many calls that are shown to somebody, newest first, of those before a number."""
    found: list[CallRecord] = []
    for record in _backwards(served, before):
        if served.shows(who, record.analyst):
            found.append(record)
        if len(found) == limit:
            break
    return found


def _backwards(served: Served, before: int | None) -> Iterator[CallRecord]:
    """Calls from the last one on; a ledger hands them out in order, so it is looked at in growing pieces."""
    spine, size = served.session.spine, _FIRST_LOOK
    end = _end(spine) if before is None else before
    while end > 1:
        begin = max(1, end - size)
        piece = []
        for record in spine.ledger.calls(spine.dataset, after=begin - 1, limit=end - begin):
            if record.number >= end:
                break
            piece.append(record)
        yield from reversed(piece)
        end, size = begin, 2 * size


def _end(spine: Spine) -> int:
    """A number above those of all calls."""
    if isinstance(spine.ledger, KeptLedger):
        return spine.ledger.head().entries + 1
    return 1 + max((call.number for call in spine.ledger.calls(spine.dataset)), default=0)


def _replay(served: Served, rebuilder: Rebuilder, record: CallRecord) -> Replay:
    body = rebuilder.body(record)
    answer = None if record.answer is None else rebuilder.rebuilt(record).answer
    outcome = "" if record.answer is None else outcome_told(answer, body)
    entry = entry_of(record, served.session.spine.filter)
    return Replay(entry, titled(record.kind), question_told(body), outcome, answer)


def _rebuilder(served: Served) -> Rebuilder:
    spine = served.session.spine
    terms = next(terms for terms in spine.ledger.datasets() if terms.name == spine.dataset)
    return Rebuilder.of(spine.ledger, terms)
