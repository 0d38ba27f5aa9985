"""What every kind of call must do, whatever it asks: see samples.py."""

import json
import pickle
from functools import partial
from inspect import signature

import pytest

from chary import Budget, BudgetExceeded
from chary.amounts import Amount
from chary.answers import Answer, Table
from chary.calls import Run
from chary.mechanisms.additive import MARK, unpadded
from chary.noise import Seeded
from chary.session import STEPS, findings, plain_composition
from tests.conformance.sample import PATIENTS
from tests.conformance.samples import ALL, EVERY, answering
from tests.conformance.secrets import SECRETS
from tests.processors import processor
from tests.session.interruption_kit import Interruption, Stop
from tests.session.kit import WORDS_OF_ACCOUNTING, shows_data, spent

ROOM = {"grain": "0.02", "budget": Budget(epsilon=2, delta=1e-6)}
PUBLIC_STATES = {name for name, sample in EVERY.items() if sample.public}


def last(session):
    return session.history[-1]


@pytest.fixture(params=EVERY)
def kind(request):
    return ALL[request.param]


@pytest.fixture
def opened(request, opened):
    """Opens what can answer the kind."""
    return partial(answering, request.node.callspec.params["kind"], opened=opened)


def kept(answer):
    """All that an answer says but its price, which is charged once."""
    told = answer.to_dict() if isinstance(answer, Answer) else {}
    return repr(answer), {name: value for name, value in told.items() if name not in ("charged", "left")}


@pytest.mark.parametrize("kind", [*EVERY, "greedy", "greedy of keys"], indirect=True)
def test_a_repeated_request_is_the_same_free_and_unread_also_after_a_restart(opened, kind, tmp_path):
    place, steps = tmp_path / "visits.ledger", []
    first = opened(ledger=place, on_step=steps.append, **ROOM)
    ask = kind(first, "one")
    answer, paid, found = kept(ask("monday")), spent(first), findings(first).rows(simultaneous=True)
    steps.clear()
    assert kept(ask("monday")) == answer
    first.close()
    again = opened(ledger=place, on_step=steps.append, **ROOM)
    if kind.rows == PATIENTS:  # elsewhere their number is public, and asked of the rows
        again.spine.rows.close()
    assert kept(kind(again, "one")("monday")) == answer
    assert set(steps) == {"asked"}
    assert (spent(again), findings(again).rows(simultaneous=True)) == (paid, found)


def test_nothing_shows_a_row(opened, kind):
    session = opened(unsafe_noise=Seeded(1), **ROOM)
    answer = kind(session, "one")(None)
    shown = [answer, session.history, session.statement(), list(session.spine.ledger.export("data"))]
    assert not shows_data(repr(shown) + (str(answer.to_dict()) if isinstance(answer, Answer) else ""))


def test_an_answer_is_of_one_family_and_knows_its_price(opened, kind):
    session = opened(**ROOM)
    answer = kind(session, "one")(None)
    if isinstance(answer, (Run, int)):
        return
    entry = last(session)
    assert isinstance(answer, Answer)
    assert answer.call == entry.call
    assert answer.charged.amount == session.spine.ledger.call(entry.call).charged
    assert answer.left == session.remaining
    told = answer.to_dict()
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    assert {"call", "value", "interval", "hit", "charged", "left"} <= told.keys()
    copied = pickle.loads(pickle.dumps(answer))
    assert copied.to_dict() == {name: told[name] for name in told.keys() - {"charged", "left"}}
    shown = answer._repr_html_()
    assert "<table>" in shown
    price = f"{f'charged {answer.charged}' if answer.charged.share else 'free'}, {answer.left} left"
    for text in (str(answer), shown):
        assert price in text
        assert not WORDS_OF_ACCOUNTING.search(text)
    assert price not in str(copied) + copied._repr_html_()
    if isinstance(answer, Table):
        assert len(answer) == len(answer.to_arrow()) == len(answer.rows()) == len(list(answer))


def test_the_question_is_plain_json_and_names_its_kind(opened, kind):
    session = opened(**ROOM)
    kind(session, "one")(None)
    question = last(session).question
    assert json.loads(json.dumps(question, allow_nan=False)) == question
    assert last(session).kind == session.spine.ledger.call(last(session).call).kind
    assert plain_composition(session).calls >= 0


def test_what_is_charged_is_at_most_what_was_reserved(opened, kind):
    session = opened(unsafe_noise=Seeded(5), **ROOM)
    for number in range(4):
        kind(session, str(number))(None)
        call = session.spine.ledger.call(last(session).call)
        assert call.price.fits_into(call.worst)
    assert session.spine.ledger.verify().ok


def test_a_secret_state_has_a_public_length(opened, kind):
    """Which it is for each kind is asked below."""
    session = opened(**ROOM)
    kind(session, "one")(None)
    ledger = session.spine.ledger
    kept = {call.kind: ledger.secret(call.number) for call in ledger.calls("data") if ledger.secret(call.number)}
    if not kind.public and not kept.keys() <= PUBLIC_STATES:
        assert all(MARK in secret for secret in kept.values())
        assert kept.keys() <= SECRETS.keys()


@pytest.mark.parametrize("states", SECRETS.values(), ids=SECRETS.keys())
def test_neither_the_length_of_a_state_nor_its_words_tell_what_is_secret_in_it(states):
    dumped = [state if isinstance(state, bytes) else state.dump() for state in states]
    assert len(set(dumped)) == len(dumped)
    assert len({len(state) for state in dumped}) == 1
    assert len({repr(state) for state in states if not isinstance(state, bytes)}) <= 1
    for state in {type(state) for state in states if hasattr(type(state), "load")}:
        for data in dumped:
            more = ("0",) if "call" in signature(state.load).parameters else ()
            read, old = state.load(data, *more), state.load(unpadded(data), *more)
            assert read.dump() == old.dump() == data


@pytest.mark.parametrize("step", STEPS)
def test_an_interruption_leaves_the_worst_price_or_nothing(opened, kind, step):
    stop = Interruption(step, armed=False)
    session = opened(on_step=stop, **ROOM)
    ask = kind(session, "one")
    before = spent(session)
    stop.armed = True
    with pytest.raises(Stop):
        ask("interrupted")
    stop.armed = False
    if step in ("asked", "reserved"):
        assert spent(session) == before
    elif step != "settled":
        call = session.spine.ledger.call(last(session).call)
        assert call.state == "reserved"
        assert spent(session) - before == call.worst
    answer = repr(ask("interrupted"))
    assert repr(ask("interrupted")) == answer


def test_without_room_nothing_is_read(opened, kind):
    """All that is left is less than one hit: refused before any data are touched, unless nothing is charged."""
    seen = []
    session = opened(on_step=seen.append, **ROOM)
    ask = kind(session, "one")
    room = session.spine.left()
    session.spine.ledger.reserve("data", "another", "release", '{"epsilon":"1"}', Amount(room.main - 1, room.delta))
    seen.clear()
    if kind.free:
        ask(None)
        assert seen == list(STEPS)
        return
    with pytest.raises(BudgetExceeded):
        ask(None)
    assert seen == ["asked"]


def test_a_kind_goes_on_for_the_same_price_on_another_processor(opened, kind, tmp_path):
    """The same words are the same request, what was paid stays, and the next call is charged from the same budget."""
    place = tmp_path / "visits.ledger"
    with processor(1):
        first = opened(ledger=place, **ROOM)
        answer, paid = repr(kind(first, "one")("monday")), spent(first)
        cap = first.spine.filter.capacity
        first.close()
    with processor(2):
        again = opened(ledger=place, **ROOM)
        assert (spent(again), again.spine.filter.capacity) == (paid, cap)
        ask = kind(again, "one")
        assert repr(ask("monday")) == answer
        assert spent(again) == paid
        kind(again, "two")("tuesday")
        assert spent(again).fits_into(cap)
        assert again.spine.ledger.verify().ok
