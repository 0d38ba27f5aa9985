"""What every recipe of the registry does under each filter and between each kind of neighbours, from end to end.

A case is a session of its own with known noise, in which one recipe is asked. Kept of it is each question with its
quote, its text in the ledger, its event and its price, the answer as an analyst sees it, and in the end what stands in
the ledger and what is told of all that was published. What is not sold is kept by its refusal.
"""

import contextlib
import dataclasses
import inspect
import json
import zlib
from unittest.mock import patch

import chary
from chary import Budget, Session
from chary.answers import Answer
from chary.calls import GrowingRun, KeyedRun
from chary.calls.run import RunKind
from chary.errors import CharyError
from chary.noise import Seeded
from chary.session import findings, plain_composition
from tests.conformance.sample import VOTES
from tests.conformance.samples import EVERY
from tests.net.kept import masked, told
from tests.session.kit import PUBLIC, open_teachers, visits

ROOM, PURE = Budget(epsilon=2, delta=1e-6), Budget(epsilon=2)
# Of which size most recipes are: what an exact filter sells are its multiples.
GRAIN = "0.01"
FILTERS = {
    "renyi": {"budget": ROOM, "grain": GRAIN},
    "pure": {"budget": PURE},
    "exact": {"budget": ROOM, "filter": "exact", "grain": GRAIN},
}
NEIGHBORS = {
    "add_remove": {"privacy_unit": "patient"},
    "replace": {"privacy_unit": "patient", "neighbors": "replace"},
    "rows": PUBLIC,
}
# What else would do at the same price takes a second each to find: it is asked here alone.
COMPARED = ("renyi", "replace")


def cases(recipe):
    """The filters and the neighbours under which a recipe is asked."""
    between = ["votes"] if EVERY[recipe].rows == VOTES else NEIGHBORS
    return [(kind, neighbors) for kind in FILTERS for neighbors in between]


def transcript(recipe):
    """All cases of a recipe."""
    return [case(recipe, *each) for each in cases(recipe)]


def case(recipe, kind, neighbors):
    """One session, from its opening to its statement."""
    source, lines = Seeded(zlib.crc32(recipe.encode())), []
    with opened(kind, neighbors, source) as session:
        with recording(session, lines, compared=(kind, neighbors) == COMPARED), contextlib.suppress(CharyError):
            EVERY[recipe](session, "one")("monday")
        ended = ending(session)
    return {"case": f"{kind}, {neighbors}", "asked": lines} | ended


@contextlib.contextmanager
def opened(kind, neighbors, source):
    """The visits of the sessions' tests, or votes, under one filter."""
    given = FILTERS[kind] | {"ledger": ":memory:", "dataset": "data", "unsafe_noise": source}
    visited = NEIGHBORS.get(neighbors)
    session = open_teachers(**given) if visited is None else chary.open(visits(), **given, **visited)
    with session:
        yield session


def ending(session):
    """What stands in the ledger, and what is told of all of it."""
    ledger = session.spine.ledger
    published = findings(session)
    return {
        "ledger": [stored(call) for call in ledger.calls(session.spine.dataset)],
        "findings": told([published.rows(), published.rows(simultaneous=True)]),
        "statement": masked(session.statement()),
        "plain": told(plain_composition(session)),
        "spent": told(session.spent),
        "filter": told(session.spine.filter.body()),
        "runs": told(session.runs),
    }


def stored(call):
    """A call as the ledger has it; whether its answer is written canonically is told apart."""
    names = ("number", "kind", "body", "request", "worst", "price", "hits", "tests")
    known = {name: told(getattr(call, name)) for name in names}
    answer = None if call.answer is None else json.loads(call.answer)
    canonical = call.answer is None or call.answer == json.dumps(answer, sort_keys=True, separators=(",", ":"))
    return known | {"state": str(call.state), "answer": told(answer), "canonical": canonical}


@contextlib.contextmanager
def recording(session, lines, *, compared):
    """Inside, each question to the session or to a run of it leaves a line, with what the spine is handed for it."""

    def asking(owner, name):
        ask = getattr(owner, name)

        def recorded(asked, *given, request=None, **options):
            line = {"how": f"{owner.__name__.removesuffix('Kind')}.{name}", "request": request, "carried": []}
            line["quote"] = attempted(lambda: quoted(asked.quote(*given, **options), compared))
            lines.append(line)
            try:
                answer = ask(asked, *given, request=request, **options)
            except CharyError as error:
                line["answer"] = refusal(error)
                raise
            line["answer"] = shown(answer)
            return answer

        return patch.object(owner, name, recorded)

    perform = type(session.spine).perform

    def carrying(spine, asked, request=None):
        lines[-1]["carried"].append(attempted(lambda: carried(spine, asked)))
        return perform(spine, asked, request)

    questions = ((Session, "ask"), (Session, "start"), (RunKind, "ask"))
    with contextlib.ExitStack() as patched:
        patched.enter_context(patch.object(type(session.spine), "perform", carrying))
        for each in questions:
            patched.enter_context(asking(*each))
        yield


def carried(spine, plan):
    """What the transaction is handed: its text, its event, and what a part and the whole of it cost."""
    price = plan.price(spine.filter)
    known = {"kind": plan.kind, "text": plan.body, "event": told(plan.event)}
    known |= {"price": told(price), "worst": told(plan.worst(price)), "parallel": plan.cost.parts}
    return known | {"basic": plan.epsilons(price), "most": plan.cost.most, "halts": plan.cost.halts}


def quoted(quote, compared):
    """All figures of a quote, its sentences, and its HTML where what else would do is looked for."""
    if not hasattr(quote, "lines"):
        return {"figures": told(quote), "text": str(quote)}
    if compared:
        return {"figures": told(quote.as_dict()), "text": str(quote), "html": quote._repr_html_()}
    names = [each.name for each in dataclasses.fields(quote) if each.repr]
    return {"figures": {name: told(getattr(quote, name)) for name in names}, "text": quote.lines()}


def shown(answer):
    """An answer as it is handed out: as JSON, as text, as HTML without its picture, and what the picture shows."""
    if isinstance(answer, RunKind):
        of = next((each.__name__ for each in (KeyedRun, GrowingRun) if isinstance(answer, each)), "Run")
        return {"of": of, "kind": answer.kind, "call": answer.call, "state": stands(answer.state)}
    if not isinstance(answer, Answer):
        return {"of": type(answer).__name__, "value": told(answer)}
    html = answer._repr_html_().partition("<svg")[0].partition("<?xml")[0]
    known = {"of": type(answer).__name__, "json": told(answer.to_dict()), "text": str(answer), "html": html}
    return known | {"findings": told(answer.findings.rows()), "chart": told(answer.chart())}


def stands(state):
    """What is public of a run now: a value, or an object with properties."""
    if dataclasses.is_dataclass(state) or hasattr(state, "_asdict"):
        return told(state)
    names = [name for name, each in inspect.getmembers(type(state)) if isinstance(each, property) and name[0] != "_"]
    known = {name: attempted(lambda name=name: told(getattr(state, name))) for name in names}
    return known | ({"standing": told(state.standing())} if hasattr(state, "standing") else {})


def attempted(work):
    """What it finds, or how it is refused."""
    try:
        return work()
    except CharyError as error:
        return refusal(error)


def refusal(error):
    """A refusal in words."""
    return {"refused": type(error).__name__, "text": masked(str(error))}
