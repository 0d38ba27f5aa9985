"""What every kind of call must do, whatever it asks: see registry.py."""

import json

import pytest

from chary import Budget, BudgetRefused
from chary.amounts import Amount
from chary.data import Ballots
from chary.noise import Seeded
from chary.session import STEPS, open_rows
from tests.session.interruption_kit import Interruption, Stop
from tests.session.kit import spent
from tests.session.registry import FREE, KINDS, OF_REPLACED, OF_ROWS, OF_VOTES

ROOM = {"grain": "0.02", "budget": Budget(epsilon=2, delta=1e-6)}


def last(session):
    return session.history[-1]


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]


@pytest.fixture
def opened(request, opened):
    """Opens votes where the kind asks votes, and units that are replaced where their number must be public."""
    if request.node.callspec.params["kind"] in OF_ROWS:
        return lambda **options: opened(relation="replace", privacy_unit=None, **options)
    if request.node.callspec.params["kind"] in OF_REPLACED:
        return lambda **options: opened(relation="replace", **options)
    if request.node.callspec.params["kind"] not in OF_VOTES:
        return opened
    given = {"dataset": "data", "ledger": ":memory:"}
    return lambda **options: open_rows(
        Ballots(lambda question: [90, 10], ["yes", "no"], voter="teacher"), **(given | options)
    )


def test_a_repeated_request_is_the_same_and_free_also_after_a_restart(opened, kind, tmp_path):
    place = tmp_path / "visits.ledger"
    first = opened(ledger=place, **ROOM)
    ask = kind(first, "one")
    answer, paid = repr(ask("monday")), spent(first)
    assert repr(ask("monday")) == answer
    first.close()
    again = opened(ledger=place, **ROOM)
    assert repr(kind(again, "one")("monday")) == answer
    assert spent(again) == paid


def test_the_question_is_plain_json_and_names_its_kind(opened, kind):
    session = opened(**ROOM)
    kind(session, "one")(None)
    question = last(session).question
    assert json.loads(json.dumps(question, allow_nan=False)) == question
    assert last(session).kind == session.spine.ledger.call(last(session).call).kind
    assert session.plain_composition.calls >= 0


def test_what_is_charged_is_at_most_what_was_reserved(opened, kind):
    session = opened(unsafe_noise=Seeded(5), **ROOM)
    for number in range(4):
        kind(session, str(number))(None)
        call = session.spine.ledger.call(last(session).call)
        assert call.price.fits_into(call.worst)
    assert session.spine.ledger.verify().ok


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


def test_without_room_nothing_is_read(opened, kind, request):
    """All that is left is less than one hit: refused before any data are touched, unless nothing is charged."""
    seen = []
    session = opened(on_step=seen.append, **ROOM)
    ask = kind(session, "one")
    room = session.spine.left()
    session.spine.ledger.reserve("data", "another", "release", '{"epsilon":"1"}', Amount(room.main - 1, room.delta))
    seen.clear()
    if request.node.callspec.params["kind"] in FREE:
        ask(None)
        assert seen == list(STEPS)
        return
    with pytest.raises(BudgetRefused):
        ask(None)
    assert seen == ["asked"]
