"""Answers that analysts share: a question that somebody asked about the rows of now is told again, for free."""

from typing import Any, Final

from sqlalchemy import and_, insert, select

from chary.answers import Answer, handed_out
from chary.calls.call import Call
from chary.core.history import numbered
from chary.core.plan import Interaction
from chary.core.transaction import Spine
from chary.errors import RequestConflict, UnknownHeld
from chary.ledger.records import CallRecord, State
from chary.service.keeping.service_store import ServiceStore
from chary.service.keeping.service_tables import REQUESTS
from chary.session import Session

_UNKNOWN: Final = object()


class SharedAnswers:
    """Which answers are told again.

    Guarantee: a request key has one answer. Whether it is that of its own call, or that of a call of somebody else, is
    written down before either is asked or told, and stays so whatever is asked or appended later, in every process.
    """

    def __init__(self, store: ServiceStore) -> None:
        self._store = store

    def told(self, session: Session, call: Call[Any], request: str) -> Answer | None:
        """What somebody was answered to this very question, about the rows of now: it is public, and telling is free.

        None where nobody asked it since the rows last changed, where the key was asked by a call of its own, and for
        what is several calls, or goes on with an outcome that was held. Errors: `RequestConflict` for a key that came
        before with another question.
        """
        spine = session.spine
        if type(call).perform is not Call.perform:
            return None
        bound = call.bind(spine)
        number = None if bound.held is not None else self._number(spine, bound, request)
        if number is None:
            return None
        found = _call(spine, number)
        # A ledger that was restored to an older state may have no or another call under the number by now.
        asked = spine.dataset, bound.kind, bound.text(), State.SETTLED
        if found is None or (found.dataset, found.kind, found.body, found.state) != asked:
            raise RequestConflict("this request key was used before with another question")
        told: Answer = handed_out(bound.present(found.outcome, number), spine)
        return told

    def _number(self, spine: Spine, bound: Interaction, request: str) -> int | None:
        """The call whose answer the key has; None for its own."""
        key = {"dataset": spine.dataset, "analyst": spine.analyst, "request": request}
        kept = self._kept(key)
        if kept is _UNKNOWN and spine.replays:
            return None
        if kept is _UNKNOWN:
            own = spine.ledger.replay(spine.dataset, spine.analyst, request, bound.kind, bound.text())
            kept = self._keep(key, _latest(spine, bound) if own is None else None)
        number: int | None = kept
        return number

    def _kept(self, key: dict[str, str]) -> Any:
        here = and_(*(REQUESTS.c[name] == value for name, value in key.items()))
        rows = self._store.rows(select(REQUESTS.c.call).where(here))
        return rows[0].call if rows else _UNKNOWN

    def _keep(self, key: dict[str, str], number: int | None) -> Any:
        """Write it down, unless somebody else did; what is kept."""
        return number if self._store.add_once(insert(REQUESTS).values(**key, call=number)) else self._kept(key)


def _call(spine: Spine, number: int) -> CallRecord | None:
    try:
        return numbered(spine, number)
    except UnknownHeld:
        return None


def _latest(spine: Spine, bound: Interaction) -> int | None:
    """The call that asked this last, if it did so after the rows last changed; by their order, whatever clocks say."""
    found = spine.ledger.last_settled(spine.dataset, bound.kind, bound.text())
    note = None if found is None else spine.ledger.last_note(spine.dataset)
    return None if found is None or (note is not None and found.number < note.entry) else found.number
