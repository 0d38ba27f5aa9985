"""Questions and answers of earlier calls, found in the ledger."""

import json
from collections.abc import Iterator
from itertools import chain
from typing import Any, Generic, TypeVar

from chary.answers import handed_out
from chary.core.plan import Interaction
from chary.core.transaction import Spine
from chary.errors import InvalidParameter, LedgerError, UnknownHeld
from chary.ledger import CallRecord, State
from chary.numbers import whole

# Earlier calls of a dataset, as the ledger holds them.


def openings(
    spine: Spine, *kinds: str, analyst: str | None = None, after: int = 0, newest: bool = False
) -> Iterator[CallRecord]:
    """The calls of these kinds that were not interrupted, of everybody or of one analyst, oldest or newest first."""
    calls = spine.ledger.calls(spine.dataset, after, kinds=kinds, analyst=analyst, newest=newest)
    return (call for call in calls if call.state == State.SETTLED)


def numbered(spine: Spine, call: int) -> CallRecord:
    """The call of that number, of whatever kind and dataset; `UnknownHeld` if there is none."""
    try:
        return spine.ledger.call(whole(call, "call"))
    except (LedgerError, InvalidParameter):
        raise UnknownHeld("there is no call of that number") from None


def earlier(spine: Spine, call: int, kind: str, told: str) -> dict[str, Any]:
    """The question of an earlier call of that kind, from the ledger; `UnknownHeld` if there is none.

    `told` names the kind for the error, such as "a conditional release".
    """
    stored = numbered(spine, call)
    if stored.kind != kind or stored.dataset != spine.dataset:
        raise UnknownHeld(f"call {call} is not {told} of this dataset")
    body: dict[str, Any] = json.loads(stored.body)
    return body


# What calls of one kind have told so far, kept between looks at the ledger.

Answer = TypeVar("Answer")


class Told(Generic[Answer]):
    """The answers to one question that is asked again and again from an opening on, as the analyst sees them.

    Only what came since the last look is read. Calls that were under way are looked at again, one by one, since one
    that was killed stays so.
    """

    def __init__(self, spine: Spine, asked: Interaction, after: int) -> None:
        self._spine, self._asked, self._body = spine, asked, asked.text()
        self._known: tuple[int, dict[int, Answer], tuple[int, ...]] = (after, {}, ())

    def all(self) -> list[Answer]:
        """In the order of the calls."""
        ledger, (after, done, began) = self._spine.ledger, self._known
        found, waiting = dict(done), []
        kinds = (self._asked.kind,)
        for call in chain(map(ledger.call, began), ledger.calls(self._spine.dataset, after=after, kinds=kinds)):
            after = max(after, call.number)
            if call.body == self._body:
                if call.state == State.SETTLED:
                    answer = self._asked.present(json.loads(call.answer or "{}"), call.number)
                    found[call.number] = handed_out(answer, self._spine)
                elif call.state == State.RESERVED:
                    waiting.append(call.number)
        self._known = after, found, tuple(waiting)
        return [found[number] for number in sorted(found)]
