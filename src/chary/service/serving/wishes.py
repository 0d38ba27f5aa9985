"""What is asked through the service, as JSON that can be kept and asked again: a call, a run, a question to a run."""

import inspect
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from chary.calls.call import Call, kinds, read
from chary.calls.fields import of_code
from chary.calls.run import Opening, Run
from chary.core.history import numbered
from chary.data.queries.bodies import query_of
from chary.errors import InvalidParameter, InvalidQuery, UnknownHeld
from chary.service.access.roles import Principal
from chary.service.serving.served_datasets import Served
from chary.service.serving.shared_answers import SharedAnswers
from chary.service.wire.strict_json import check_fields
from chary.session import Session

Action = Literal["ask", "start", "question"]
# What a run is told beside its question.
_BESIDE: Final = {"multiplicative_weights": ("must_verify",), "sparse_weights": ("must_verify",)}
_FLAGS: Final = frozenset({"must_verify", "only_new"})
_OBJECTS: Final = frozenset({"priors", "targets"})


@dataclass(frozen=True)
class Wish:
    """Something to be asked: `body` is a call, or the words of a question to the run of that number.

    >>> Wish("ask", {"kind": "test", "query": {"kind": "count"}, "above": 5, "epsilon": "0.1"}).kind
    'test'
    """

    action: Action
    body: Mapping[str, Any]
    run: int | None = None

    @property
    def kind(self) -> str:
        """Its kind, as metrics count it; unknown kinds have one name."""
        if self.action == "question":
            return "question"
        named = self.body.get("kind")
        return named if isinstance(named, str) and named in kinds() else "unknown"

    def written(self) -> dict[str, Any]:
        """As JSON, from which `of_written` makes an equal one."""
        return {"action": self.action, "body": dict(self.body), "run": self.run}

    @classmethod
    def of_written(cls, written: str) -> "Wish":
        """The wish that was kept."""
        said = json.loads(written)
        return cls(said["action"], said["body"], said["run"])


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
    """The answer, or the run that was opened; under a request key that came before the stored one, for free. With
    `begins` a question begins so many rounds of a growing sparse vector at most.

    Errors: those of the call, of `shown_call`, and of `run_shown` for a run.
    """
    if wish.action == "question":
        run = run_shown(served, who, session, wish.run or 0)
        limit = {} if begins is None or run.kind != "growing_sparse_vector" else {"begins": begins}
        return run.ask(**words_of(run, wish.body), **limit, request=request)
    call = shown_call(served, who, session, wish.body)
    if wish.action == "start":
        return session.start(opening(call), request=request)
    if isinstance(call, Opening):
        raise InvalidQuery("this opens a run: start it")
    told = answers.told(session, call, request) if served.shared else None
    return session.ask(call, request=request) if told is None else told


def shown_call(served: Served, who: Principal, session: Session, body: Mapping[str, Any]) -> Call[Any]:
    """The call of a body. `UnknownHeld` where it goes on with a call that is not shown to somebody, as for one that is
    not there: nobody learns, takes or publishes what another analyst's call held back."""
    call = read(body)
    held = getattr(call, "held", None)
    if held is not None and not served.shows(who, numbered(session.spine, held).analyst):
        raise UnknownHeld("there is no call of that number")
    return call


def opening(call: Call[Any]) -> Opening[Any]:
    """The call, if it opens a run."""
    if not isinstance(call, Opening):
        raise InvalidQuery("this opens no run: ask it")
    return call


def readable_kinds() -> dict[str, type[Call[Any]]]:
    """The kinds of call that JSON can say: all but those that bring code of their author's."""
    return {
        name: kind
        for name, kind in sorted(kinds().items())
        if not of_code(kind) and getattr(kind, "brought", Opening.brought) is Opening.brought
    }


def run_shown(served: Served, who: Principal, session: Session, number: int) -> Run[Any, Any]:
    """The run of that number; `UnknownHeld` for one that is not shown to somebody, as for one that is not there."""
    try:
        record = numbered(session.spine, number)
    except UnknownHeld:
        record = None
    if record is None or record.dataset != session.spine.dataset or not served.shows(who, record.analyst):
        raise UnknownHeld(f"call {number} opened no run of this dataset")
    return session.resume(number)


def words_of(run: Run[Any, Any], said: Mapping[str, Any]) -> dict[str, Any]:
    """The words of a question to a run, from JSON; `InvalidParameter` for others than it knows and for missing ones."""
    known = run.words
    allowed = [*known, *_BESIDE.get(run.kind, ())]
    missing = [name for name, word in known.items() if word.default is inspect.Parameter.empty and name not in said]
    told = f"a {run.kind} is asked with {', '.join(allowed) or 'no words'}"
    check_fields(said, allowed, told)
    if missing:
        raise InvalidParameter(f"{told}; {missing[0]} is missing")
    return {name: _word(name, value) for name, value in said.items()}


def _word(name: str, value: Any) -> Any:
    if name in _FLAGS and type(value) is not bool:
        raise InvalidParameter(f"{name} is true or false")
    if name in _OBJECTS and not isinstance(value, dict):
        raise InvalidParameter(f"{name} is an object with an entry for each target")
    if name == "query" and not isinstance(value, dict):
        raise InvalidQuery('query is the body of a query, such as {"kind": "count"}')
    if name == "algorithm":
        return read(value)
    return query_of(value) if name in ("query", "where") and isinstance(value, dict) else value
