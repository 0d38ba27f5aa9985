"""Signatures of webhooks, as the Standard Webhooks specification says: HMAC-SHA256 of number, time and body."""

import base64
import hmac
import time
from collections.abc import Mapping
from typing import Final

from chary.errors import InvalidParameter

WINDOW: Final = 300.0


def signed(secret: bytes, number: str, moment: int, body: bytes) -> dict[str, str]:
    """The headers of a message.

    >>> signed(b"a secret of twenty-four b", "msg_1", 1674087231, b"{}")["webhook-signature"][:3]
    'v1,'
    """
    told = f"{number}.{moment}.".encode() + body
    mark = base64.b64encode(hmac.digest(secret, told, "sha256")).decode()
    return {"webhook-id": number, "webhook-timestamp": str(moment), "webhook-signature": f"v1,{mark}"}


def check_webhook(secret: bytes, headers: Mapping[str, str], body: bytes, *, now: float | None = None) -> str:
    """The number of a message that a service has signed within the last five minutes.

    Anyone who gets messages keeps the numbers of that time and leaves out what came before: then nothing can be
    replayed. Errors: `InvalidParameter` for another signature, a message that is older or from the future, and missing
    headers.

    >>> check_webhook(b"s", signed(b"s", "7", 1000, b"{}"), b"{}", now=1100.0)
    '7'
    """
    lower = {name.lower(): value for name, value in headers.items()}
    number, moment = lower.get("webhook-id", ""), lower.get("webhook-timestamp", "")
    plain = moment.isascii() and moment.isdigit() and len(moment) < 16
    if not plain or abs((time.time() if now is None else now) - int(moment)) > WINDOW:
        raise InvalidParameter("this message is not of the last five minutes")
    expected = signed(secret, number, int(moment), body)["webhook-signature"].encode()
    given = lower.get("webhook-signature", "").split(" ")
    if not any(hmac.compare_digest(expected, each.encode()) for each in given):
        raise InvalidParameter("this message was not signed with this secret, or was changed")
    return number
