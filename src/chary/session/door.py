"""What groups of a session's methods have in common."""

import json
from dataclasses import dataclass
from typing import Any

from chary.errors import InvalidParameter, LedgerError, UnknownHeld
from chary.numbers import whole
from chary.session.spine import Spine


@dataclass(frozen=True)
class Door:
    """A group of methods of a session. Whatever they ask goes through the spine: reserve - run - settle."""

    spine: Spine

    def earlier(self, call: int, kind: str, told: str) -> dict[str, Any]:
        """The question of an earlier call of that kind, from the ledger; `UnknownHeld` if there is none.

        `told` names the kind for the error, such as "a conditional release".
        """
        try:
            stored = self.spine.ledger.call(whole(call, "call"))
        except (LedgerError, InvalidParameter):
            raise UnknownHeld("there is no call of that number") from None
        if stored.kind != kind or stored.dataset != self.spine.dataset:
            raise UnknownHeld(f"call {call} is not {told} of this dataset")
        body: dict[str, Any] = json.loads(stored.body)
        return body
