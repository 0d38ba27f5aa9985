"""Requests of a service: calls read from JSON, their schemas, and results as JSON."""

import inspect
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from chary.answers import Answer
from chary.calls import fields
from chary.calls.call import EARLIER, MEANINGS, Call, adapter, kinds, read
from chary.calls.growing_tests import GrowingRun
from chary.calls.language import spoken
from chary.calls.run import Opening, Run, run_of
from chary.calls.weights import HistogramRun
from chary.client.wire import in_typed
from chary.core.transaction import numbered
from chary.data.queries.bodies import check_fields, query_of
from chary.data.queries.stored import current, current_kind
from chary.errors import CharyError, InvalidParameter, InvalidQuery, NotWithheld
from chary.service.auth.tokens import Principal
from chary.service.core.datasets import Served, SharedAnswers
from chary.service.core.problems import FIELDS
from chary.session import Quote, Session

# Requests as JSON that can be stored and asked again: a call, an opening of a run, a question to a run.

Action = Literal["ask", "start", "question", "lesson"]


@dataclass(frozen=True)
class Wish:
    """A request: `body` is a call, or the words of a question to the run with that number, or a lesson for it.

    `blocks` are the blocks that a call reads, from `since` until `until`, in a dataset whose budget renews. `opened`
    says that the run was opened for the subscription that asks it.

    >>> Wish("ask", {"kind": "test", "query": {"kind": "count"}, "above": 5, "epsilon": "0.1"}).kind
    'test'
    """

    action: Action
    body: Mapping[str, Any]
    run: int | None = None
    blocks: Mapping[str, Any] | None = None
    opened: bool = False

    @classmethod
    def of_body(cls, action: Action, body: Mapping[str, Any]) -> "Wish":
        """The request of a body that names its blocks next to its call."""
        call = {name: value for name, value in body.items() if name != "blocks"}
        return cls(action, call, blocks=body.get("blocks"))

    @property
    def kind(self) -> str:
        """Its kind in metrics; all unknown kinds share one name."""
        if self.action in ("question", "lesson"):
            return self.action
        named = current_kind(str(self.body.get("kind")))
        return named if named in kinds() else "unknown"

    def written(self) -> dict[str, Any]:
        """As JSON, which `of_written` reads."""
        more: dict[str, Any] = {} if self.blocks is None else {"blocks": self.blocks}
        more |= {"opened": True} if self.opened else {}
        return {"action": self.action, "body": dict(self.body), "run": self.run} | more

    @classmethod
    def of_written(cls, written: str) -> "Wish":
        """Read what `written` returned."""
        said = json.loads(written)
        return cls(said["action"], current(said["body"]), said["run"], said.get("blocks"), said.get("opened", False))


def fulfilled(
    answers: SharedAnswers,
    served: Served,
    who: Principal,
    session: Session,
    wish: Wish,
    request: str,
    *,
    begins: int | None = None,
) -> Any:
    """The answer, or the run that was opened; a repeated idempotency key replays the stored answer for free. With
    `begins` a question begins at most this many rounds of a growing sparse vector.

    Errors: those of the call, of `shown_call`, and of `run_shown` for a run.
    """
    if wish.action == "question":
        run = run_shown(served, who, session, wish.run or 0)
        limit = {"begins": begins} if begins is not None and isinstance(run, GrowingRun) else {}
        return run.ask(**words_of(run, wish.body), **limit, request=request)
    if wish.action == "lesson":
        return taught_run(served, who, session, wish.run or 0).learn(*_lesson(wish.body), request=request)
    session = in_blocks(session, wish.blocks)
    call = shown_call(served, who, session, wish.body)
    if wish.action == "start":
        return session.start(opening(call), request=request)
    if isinstance(call, Opening):
        raise InvalidQuery("this opens a run: start it")
    told = answers.told(session, call, request) if served.shared else None
    return session.ask(call, request=request) if told is None else told


def in_blocks(session: Session, said: Any) -> Session:
    """The session of these blocks, `{"since": ..., "until": ...}`; without blocks the session of all.

    Errors: `InvalidParameter` for another form, for an unknown block, and if the budget does not renew; `InvalidQuery`
    for blocks that may not be read.
    """
    if said is None:
        return session
    try:
        if session.spine.blocks is None:
            raise InvalidParameter(
                "the budget of this dataset does not renew, so its rows are in no blocks: leave them out"
            )
        check_fields(said, _ENDS, _BLOCKS) if isinstance(said, dict) else None
        if not isinstance(said, dict) or not all(isinstance(end, (str, type(None))) for end in said.values()):
            raise InvalidParameter(_BLOCKS)
        return session.blocks(**said)
    except CharyError as error:
        told = _BLOCKS_ASKED.sub(r'blocks: {"since": "\1", "until": "\2"}', str(error))
        error.args, error.field = (told, *error.args[1:]), "blocks"
        raise


_ENDS: Final = ("since", "until")
_BLOCKS: Final = 'blocks are said by the first and the last one, such as {"since": "2012-01", "until": "2012-06"}'
_BLOCKS_ASKED: Final = re.compile(r"session\.blocks\('([^']+)', '([^']+)'\)")


def shown_call(served: Served, who: Principal, session: Session, body: Mapping[str, Any]) -> Call[Any]:
    """The call of a body. `NotWithheld` if it continues a call that this analyst is not shown, as for an unknown one.
    So nobody learns, takes or publishes what another analyst's call withheld, or copies its histogram.
    """
    call = read_shown(body)
    for name in EARLIER:
        earlier = getattr(call, name, None)
        if earlier is not None and not served.shows(who, numbered(session.spine, earlier).analyst):
            raise NotWithheld("there is no call of that number")
    return call


def read_shown(body: Mapping[str, Any]) -> Call[Any]:
    """The call of a body; an error about one field names its valid values, if the rest of the body is valid."""
    try:
        return read(body)
    except CharyError as error:
        error.example = _would_do(body, error.field)
        raise


def _would_do(body: Mapping[str, Any], field: str | None) -> dict[str, Any] | None:
    kind = kinds().get(str(body.get("kind")))
    known = () if kind is None else fields.declared(kind)
    example = {each.name: fields.type_of(each).example for each in known if each.name == field}
    try:
        read({**body, **example})
    except CharyError:
        return None
    return None if None in example.values() else example


def opening(call: Call[Any]) -> Opening[Any]:
    """The call, if it opens a run."""
    if not isinstance(call, Opening):
        raise InvalidQuery("this opens no run: ask it")
    return call


def readable_kinds() -> dict[str, type[Call[Any]]]:
    """The kinds of call that JSON can express: all but those that contain code of their author."""
    return {
        name: kind
        for name, kind in sorted(kinds().items())
        if not fields.of_code(kind) and getattr(kind, "brought", Opening.brought) is Opening.brought
    }


def run_shown(served: Served, who: Principal, session: Session, number: int) -> Run[Any, Any]:
    """The run with that number; `NotWithheld` for one that this analyst is not shown, as for an unknown one."""
    try:
        record = numbered(session.spine, number)
    except NotWithheld:
        record = None
    if record is None or record.dataset != session.spine.dataset or not served.shows(who, record.analyst):
        raise NotWithheld(f"call {number} opened no run of this dataset")
    return session.resume(number)


def taught_run(served: Served, who: Principal, session: Session, number: int) -> HistogramRun:
    """The same for a run that takes lessons; `InvalidQuery` for any other."""
    run = run_shown(served, who, session, number)
    if not isinstance(run, HistogramRun):
        raise InvalidQuery(f"a run of {run.kind} is not taught: public histograms are")
    return run


def _lesson(said: Mapping[str, Any]) -> tuple[Any, tuple[Any, Any]]:
    """The question of a lesson, and the ends of its fraction."""
    told = 'a lesson has a condition and two ends, such as {"where": "age >= 65", "low": "0.2", "high": "0.3"}'
    check_fields(said, _OF_LESSON, told)
    if said.keys() != set(_OF_LESSON):
        raise InvalidParameter(told)
    where, low, high = (said[name] for name in _OF_LESSON)
    return WORDS["where"][0].check(where, "where"), (low, high)


_OF_LESSON: Final = ("where", "low", "high")


def words_of(run: Run[Any, Any], said: Mapping[str, Any]) -> dict[str, Any]:
    """The words of a question to a run, from JSON; `InvalidParameter` for unknown and for missing ones."""
    known = run.words
    allowed = [*known, *run_of(run.kind).beside]
    missing = [name for name, word in known.items() if word.default is inspect.Parameter.empty and name not in said]
    told = f"{run.kind} is asked with {', '.join(allowed) or 'no words'}"
    check_fields(said, allowed, told)
    if missing:
        raise InvalidParameter(f"{told}; {missing[0]} is missing")
    return {name: WORDS.get(name, (ANY,))[0].check(value, name) for name, value in said.items()}


def _truth(value: Any, name: str) -> Any:
    if type(value) is not bool:
        raise InvalidParameter(f"{name} is true or false")
    return value


def _entries(value: Any, name: str) -> Any:
    if not isinstance(value, dict):
        raise InvalidParameter(f"{name} is an object with an entry for each target")
    return value


def _query(value: Any, name: str) -> Any:
    if not isinstance(value, dict):
        raise InvalidQuery('query is the body of a query, such as {"kind": "count"}')
    return query_of(value)


# A question to a run consists of words; each has a type, like a field of a call, and a description.
ANY: Final = replace(fields.TEXT, check=lambda value, _: value)
_ALGORITHM: Final = 'A call, such as {"kind": "test", "query": {"kind": "count"}, "above": 500, "hits": 20}.'
WORDS: Final[Mapping[str, tuple[fields.FieldType, str]]] = {
    "above": (replace(fields.NUMBER, check=ANY.check), "The threshold of this question, where it brings its own."),
    "algorithm": (replace(fields.JSON, check=lambda value, _: read(value)), _ALGORITHM),
    "must_verify": (replace(fields.FLAG, check=_truth), "Refuse what could only be answered unverified."),
    "only_new": (replace(fields.FLAG, check=_truth), "Only what is not reported yet."),
    "priors": (replace(fields.JSON, check=_entries), "What is expected of each target."),
    "query": (replace(fields.QUERY, check=_query), MEANINGS["query"]),
    "targets": (replace(fields.JSON, check=_entries), "What is a hit, for each target."),
    "where": (
        replace(ANY, check=lambda value, _: query_of(value) if isinstance(value, dict) else value, control="predicate"),
        "The condition whose proportion is asked.",
    ),
}

# JSON schemas of calls, made from their declarations, so that a new kind of call needs no change here.

_PLACE: Final = "#/components/schemas/{model}"
_RANGE: Final = _PLACE.format(model="BlockRange")
_END: Final = {"type": ["string", "null"], "description": "A block, such as 2012-01, or a day in one."}
BLOCK_RANGE: Final = {
    "type": "object",
    "description": "Of a dataset whose budget renews: which blocks are read and charged, both ends included.",
    "properties": dict.fromkeys(_ENDS, _END),
    "additionalProperties": False,
}


def call_schemas() -> dict[str, dict[str, Any]]:
    """A schema for each kind of call that JSON can express, by the name of its class, and the schemas they share."""
    found: dict[str, dict[str, Any]] = {}
    for name, kind in readable_kinds().items():
        schema = adapter(kind).json_schema(ref_template=_PLACE, mode="validation")
        found |= schema.pop("$defs", {})
        schema["properties"] = {"kind": {"const": name}} | schema.get("properties", {}) | {"blocks": {"$ref": _RANGE}}
        schema["required"] = ["kind", *schema.get("required", [])]
        told = (inspect.getdoc(kind) or "").partition("\n\n")[0]
        found[kind.__name__] = schema | {"description": told, "additionalProperties": False}
    return found | {"BlockRange": BLOCK_RANGE}


def calls_schema(*, openings: bool) -> dict[str, Any]:
    """The schema of a body: one of the calls that open runs, or one of all others."""
    named = {name: kind for name, kind in readable_kinds().items() if issubclass(kind, Opening) == openings}
    places = {name: _PLACE.format(model=kind.__name__) for name, kind in named.items()}
    return {
        "oneOf": [{"$ref": place} for place in places.values()],
        "discriminator": {"propertyName": "kind", "mapping": places},
    }


# Answers, runs and quotes as JSON: figures for any client, and typed values for chary's own.


def finite(value: Any) -> Any:
    """A value for JSON: infinite figures become null.

    >>> finite({"reached": float("inf"), "left": 0.5})
    {'reached': None, 'left': 0.5}
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: finite(inner) for name, inner in value.items()}
    return [finite(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def told_result(found: Any, session: Session, *, typed: bool) -> dict[str, Any]:
    """An answer or an opened run, with its cost; `typed` adds what the client needs to rebuild an equal answer."""
    if isinstance(found, Run):
        return told_run(found, session, typed=typed)
    if not isinstance(found, Answer):
        return {"answer": finite(found)}
    told: dict[str, Any] = finite(found.to_dict()) | {"charged_in": found.charged.unit}
    return told | ({"typed": in_typed(found), "price": _typed_price(found.charged, session)} if typed else {})


def told_run(run: Run[Any, Any], session: Session, *, typed: bool) -> dict[str, Any]:
    """A run: its number, the words of its questions, its public state."""
    spent = run.spent
    told: dict[str, Any] = {"run": run.call, "kind": run.kind, "charged": spent.share}
    told |= {"words": list(run.words), "left": session.remaining.share, "state": told_state(run)}
    return told | ({"price": _typed_price(spent, session)} if typed else {})


def told_state(run: Run[Any, Any]) -> dict[str, Any]:
    """The numbers, strings and booleans of the public state of a run, by name."""
    state = run.state
    names = [name for name in dir(type(state)) if not name.startswith("_") and _is_figure(state, name)]
    names += [name for name in vars(state) if not name.startswith("_")] if hasattr(state, "__dict__") else []
    found = {name: getattr(state, name) for name in names}
    return {name: finite(value) for name, value in found.items() if isinstance(value, (bool, int, float, str))}


def told_quote(found: Quote, *, alternatives: bool, typed: bool) -> dict[str, Any]:
    """The figures of a quote; alternatives only on request, since they take a second."""
    plain = found if alternatives else Quote(**{**vars(found), "compared": None})
    told: dict[str, Any] = finite(plain.as_dict()) | {"says": [spoken(line, FIELDS) for line in plain.lines()]}
    return told | ({"typed": in_typed(found)} if typed else {})


def _is_figure(state: Any, name: str) -> bool:
    kind = getattr(type(state), name)
    return isinstance(kind, property) or type(kind).__name__ in ("cached_property", "_tuplegetter", "member_descriptor")


def _typed_price(charged: Any, session: Session) -> dict[str, Any]:
    return {"charged": in_typed(charged), "left": in_typed(session.remaining)}
