"""Answers, runs and quotes as a service tells them: figures for everybody, and for chary's own client typed values."""

from typing import Any

from chary.answers import Answer
from chary.calls.run import Run
from chary.service.wire.strict_json import finite
from chary.service.wire.typed_values import in_typed
from chary.session import Quote, Session


def told_result(found: Any, session: Session, *, typed: bool) -> dict[str, Any]:
    """What was answered or opened, with its price; `typed` adds what the client makes an equal answer of."""
    if isinstance(found, Run):
        return told_run(found, session, typed=typed)
    if not isinstance(found, Answer):
        return {"answer": finite(found)}
    told: dict[str, Any] = finite(found.to_dict()) | {"charged_in": found.charged.unit}
    return told | ({"typed": in_typed(found), "price": _typed_price(found.charged, session)} if typed else {})


def told_run(run: Run[Any, Any], session: Session, *, typed: bool) -> dict[str, Any]:
    """A run: its number, how it is asked, what is public of it."""
    spent = run.spent
    told: dict[str, Any] = {"run": run.call, "kind": run.kind, "charged": spent.share}
    told |= {"words": list(run.words), "left": session.remaining.share, "state": told_state(run)}
    return told | ({"price": _typed_price(spent, session)} if typed else {})


def told_state(run: Run[Any, Any]) -> dict[str, Any]:
    """The figures among what is public of a run: numbers, texts and truths, by name."""
    state = run.state
    names = [name for name in dir(type(state)) if not name.startswith("_") and _is_figure(state, name)]
    names += [name for name in vars(state) if not name.startswith("_")] if hasattr(state, "__dict__") else []
    found = {name: getattr(state, name) for name in names}
    return {name: finite(value) for name, value in found.items() if isinstance(value, (bool, int, float, str))}


def told_quote(found: Quote, *, alternatives: bool, typed: bool) -> dict[str, Any]:
    """The figures of a quote; what else would do only where it was asked for, since that takes a second."""
    plain = found if alternatives else _alone(found)
    told: dict[str, Any] = finite(plain.as_dict()) | {"says": plain.lines()}
    return told | ({"typed": in_typed(found)} if typed else {})


def _alone(found: Quote) -> Quote:
    return Quote(**{**vars(found), "compared": None})


def _is_figure(state: Any, name: str) -> bool:
    kind = getattr(type(state), name)
    return isinstance(kind, property) or type(kind).__name__ in ("cached_property", "_tuplegetter", "member_descriptor")


def _typed_price(charged: Any, session: Session) -> dict[str, Any]:
    return {"charged": in_typed(charged), "left": in_typed(session.remaining)}
