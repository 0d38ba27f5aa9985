"""Earlier calls of a dataset, as the ledger holds them."""

import json
from collections.abc import Iterator
from typing import Any

from chary.errors import InvalidParameter, LedgerError, UnknownHeld
from chary.ledger import CallRecord, State
from chary.numbers import whole
from chary.spine.spine import Spine


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
