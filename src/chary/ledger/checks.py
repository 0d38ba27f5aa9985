"""What may be written into a ledger: checked once, at the door, for every implementation alike."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from chary.amounts import LIMIT, Amount
from chary.errors import InvalidParameter
from chary.ledger.records import SecretMoved, VersionMoved

# Tallies add counts up in 64 bits: 2**32 calls of this size still fit.
COUNT_LIMIT = 2**31 - 1


def _repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) != len(pairs):
        raise ValueError("a key is repeated")
    return dict(pairs)


_write: Callable[[object], str] = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode
_read: Callable[[str], Any] = json.JSONDecoder(object_pairs_hook=_repeats).decode


def canonical(value: object) -> str:
    """The one JSON text of a value: sorted keys, no spaces, ASCII only.

    NaN, infinities and values JSON cannot hold raise `InvalidParameter`.

    >>> canonical({"unit": "patient", "budget": [1, "1e-6"]})
    '{"budget":[1,"1e-6"],"unit":"patient"}'
    """
    try:
        return _write(value)
    except (TypeError, ValueError, RecursionError):
        pass
    raise InvalidParameter("a ledger stores only what JSON can hold, without NaN and infinities")


def parsed(text: str, name: str) -> Any:
    """The value of a JSON text; `InvalidParameter` if it is not JSON or repeats a key.

    >>> parsed('{"unit": "patient"}', "conditions")
    {'unit': 'patient'}
    """
    try:
        return _read(text)
    except (TypeError, ValueError, RecursionError):
        pass
    raise InvalidParameter(f"{name} must be a JSON text")


def text(value: str, name: str) -> str:
    """A text every engine stores unchanged: no lone surrogates and no NUL; it may be empty.

    >>> text("count", "kind")
    'count'
    """
    if isinstance(value, str) and "\0" not in value and (value.isascii() or _encodes(value)):
        return value
    raise InvalidParameter(f"{name} must be a text without NUL and lone surrogates")


def label(value: str, name: str) -> str:
    """A text that is not empty: the name of a dataset, an analyst, a kind or a request.

    >>> label("", "analyst")
    Traceback (most recent call last):
    ...
    chary.errors.InvalidParameter: analyst must not be empty
    """
    if text(value, name):
        return value
    raise InvalidParameter(f"{name} must not be empty")


def count(value: int, name: str) -> int:
    """A whole number from 0 to 2^31 - 1.

    >>> count(3, "hits")
    3
    """
    # `type` and not `isinstance`: True is an int, and would be stored as 1 and hashed as true.
    if type(value) is not int or not 0 <= value <= COUNT_LIMIT:
        raise InvalidParameter(f"{name} must be a whole number from 0 to 2^31 - 1")
    return value


def parts(value: Amount, name: str) -> tuple[int, int]:
    """Both parts of an amount, checked once more: the ledger believes nobody.

    >>> parts(Amount(3, 1), "worst")
    (3, 1)
    """
    main, delta = getattr(value, "main", None), getattr(value, "delta", None)
    if type(main) is int and type(delta) is int and 0 <= main <= LIMIT and 0 <= delta <= LIMIT:
        return main, delta
    raise InvalidParameter(f"{name} must be an amount of whole numbers from 0 to 2^62")


def whole_steps(value: int, name: str) -> int:
    """A whole number of steps.

    >>> whole_steps(3, "basic")
    3
    """
    if type(value) is int and 0 <= value <= LIMIT:
        return value
    raise InvalidParameter(f"{name} must be a whole number from 0 to 2^62")


def masked(value: bytes | None, name: str) -> bytes | None:
    """A secret: bytes or nothing. The message never shows it."""
    if value is None or isinstance(value, bytes):
        return value
    raise InvalidParameter(f"{name} must be bytes or None")


def still(seen: Mapping[int, Any], now: Callable[[int], Any]) -> None:
    """Raise `SecretMoved` unless each secret (or its digest) is still the one that was seen."""
    for call, secret in seen.items():
        if now(call) != secret:
            raise SecretMoved("the secret state of an earlier call changed while this call ran: ask again")


def unchanged(version: int, after: int | None) -> None:
    """Raise `VersionMoved` unless the dataset's version is the expected one, if any is.

    >>> unchanged(3, after=3), unchanged(3, after=None)
    (None, None)
    """
    if after is not None and version != after:
        raise VersionMoved(f"the dataset is at version {version}, no longer at {after}")


def _encodes(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
