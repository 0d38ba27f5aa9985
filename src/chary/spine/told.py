"""What calls of one kind have told so far, kept between looks at the ledger."""

import json
from itertools import chain
from typing import Generic, TypeVar

from chary.answer import handed_out
from chary.ledger import State
from chary.spine.interaction import Interaction
from chary.spine.spine import Spine

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
