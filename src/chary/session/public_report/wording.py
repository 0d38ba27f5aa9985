"""Questions and answers in words, from what a ledger stores of them."""

import json
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final

from chary.answers import Answer, Table
from chary.calls.answers import AboveOrNot, ChosenKey, NumberOrNothing, TestedKeys, YesOrNo
from chary.calls.thresholds import Tested
from chary.data.queries.bodies import query_of
from chary.errors import CharyError
from chary.numbers import plain
from chary.session.public_report.rebuilding import names_of_runs, opened_by

# What follows from the rest, or is told elsewhere in a report.
_LEFT_OUT: Final = {"query", "values", "parallel", "grid", "error_bar", "error_bars", "kind"}
_LONGEST: Final = 400
_KEYS: Final = 6


def titled(kind: str) -> str:
    """A kind of call as people read it.

    >>> titled("release_if")
    'Release if'
    """
    return kind.replace("_", " ").capitalize()


def question_told(body: Mapping[str, Any]) -> str:
    """What was asked, in a line.

    >>> question_told({"query": {"kind": "count", "where": "age >= 65", "by": None}, "above": "500", "epsilon": "1/50"})
    'count where age >= 65, above 500, epsilon 0.02'
    """
    query = body.get("query")
    asked = [_query(query)] if isinstance(query, Mapping) else []
    if isinstance(body.get("values"), Mapping):
        asked.append(_query(body["values"]))
    opened = opened_by(body)
    told = [
        f"of call {opened}" if name in names_of_runs() and value == opened else f"{_plainly(name)} {_said(value)}"
        for name, value in body.items()
        if _tells(name, value)
    ]
    return _cut(", ".join(asked + told)) or "no terms"


def _plainly(name: str) -> str:
    return name.replace("_", " ")


def _tells(name: str, value: Any) -> bool:
    return name not in _LEFT_OUT and value not in (None, {}, []) and value is not False


def _query(body: Mapping[str, Any]) -> str:
    try:
        return query_of(body).describe()
    except (CharyError, KeyError, TypeError, ValueError, AttributeError):
        return ", ".join(f"{name} {_said(value)}" for name, value in body.items() if _tells(name, value))


def _said(value: Any) -> str:
    if isinstance(value, str):
        return _number(value)
    if isinstance(value, (list, tuple)):
        more = f" and {len(value) - _KEYS} more" if len(value) > _KEYS else ""
        return "; ".join(_said(each) for each in value[:_KEYS]) + more
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_said(each)}" for name, each in value.items() if each is not None)
    return plain(value) if isinstance(value, float) else json.dumps(value, default=str)


def _number(text: str) -> str:
    """An exact number as a short decimal; any other text as it is."""
    try:
        return plain(Fraction(text)) if "/" in text else text
    except (ValueError, ZeroDivisionError, OverflowError):
        return text


def outcome_told(answer: Any, body: Mapping[str, Any]) -> str:
    """What was answered to the question of this body, in a line; values have a column of their own.

    >>> outcome_told(YesOrNo(3, False), {}), outcome_told({"option": "yes", "charged": True}, {})
    ('no', 'option yes, charged true')
    """
    if isinstance(answer, TestedKeys):
        return _tested(answer)
    if isinstance(answer, (AboveOrNot, YesOrNo)):
        return _yes(answer)
    if isinstance(answer, NumberOrNothing) and answer.value is None:
        return "not published"
    if isinstance(answer, Table):
        return f"{len(answer)} values" if len(answer) != 1 else "1 value"
    if isinstance(answer, ChosenKey) and answer.shortfall is not None:
        near = f"at most {plain(answer.shortfall)} below the largest, 95 times in 100"
        return f"{_cut(_in_words(answer.value))} ({near})"
    if isinstance(answer, Answer):
        return _cut(_in_words(answer.value))
    return "opened" if isinstance(answer, int) or not answer else _cut(_in_words(_named(answer, body)))


def _named(answer: Any, body: Mapping[str, Any]) -> Any:
    """What is stored by its place among the keys or candidates, by its name."""
    names = _candidates(body)
    if not isinstance(answer, dict) or not names:
        return answer
    places = answer.get("positions", [answer.get("position")])
    if not all(type(place) is int and 0 <= place < len(names) for place in places):
        return answer
    rest = {name: value for name, value in answer.items() if name not in ("position", "positions")}
    return {"chosen": "; ".join(names[place] for place in places)} | rest


def _candidates(body: Mapping[str, Any]) -> list[str]:
    query, listed = body.get("query"), body.get("candidates")
    by = query.get("by") if isinstance(query, Mapping) else None
    if isinstance(by, Mapping):
        return [", ".join(map(str, key)) for key in by.get("keys", ())]
    found = listed if isinstance(listed, list) else []
    return [str(each.get("algorithm", each)) if isinstance(each, Mapping) else str(each) for each in found]


def _yes(answer: AboveOrNot | YesOrNo) -> str:
    from_bar = isinstance(answer, (AboveOrNot, Tested))
    words = ("at or above the threshold", "below the threshold") if from_bar else ("yes", "no")
    return words[0] if answer else words[1]


def _tested(answer: TestedKeys) -> str:
    untested = len(answer.untested)
    rest = f", {untested} not tested" if untested else ""
    return f"{answer.hits} of {answer.tested} at or above the threshold{rest}"


def _in_words(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_in_words(each)}" for name, each in value.items() if each is not None)
    if isinstance(value, (float, Fraction)) and not isinstance(value, bool):
        return plain(value)
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
