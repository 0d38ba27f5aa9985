"""What is asked, as JSON that a service reads."""

from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import Any

from chary.calls.call import Call, asked, read
from chary.data import Mean, Predicate, Query
from chary.errors import CharyError, InvalidQuery


def call_said(call: Any) -> dict[str, Any]:
    """The body of a call; `InvalidQuery` for what brings code of its author's, which no service runs."""
    made = asked(call)
    try:
        body = made.body()
        read(body)
    except CharyError:
        raise InvalidQuery(f"a service runs no code of yours, so that this {made.kind} is asked of a session") from None
    return body


def words_said(words: Sequence[str], question: Sequence[Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """The words of a question to a run, by name."""
    if len(question) > len(words):
        raise InvalidQuery(f"this run is asked with {', '.join(words) or 'no words'}")
    return {name: _said(value) for name, value in [*zip(words, question, strict=False), *options.items()]}


def _said(value: Any) -> Any:
    if isinstance(value, (Query, Mean)):
        return value.body()
    if isinstance(value, Call):
        return call_said(value)
    if isinstance(value, Predicate):
        return value.text
    if isinstance(value, (Fraction, Decimal)):
        return str(value)
    if isinstance(value, Mapping):
        return {name: _said(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_said(inner) for inner in value]
    if value is None or isinstance(value, (bool, int, float, str, date)):
        return value
    raise InvalidQuery("a service runs no code of yours: ask this of a session")
