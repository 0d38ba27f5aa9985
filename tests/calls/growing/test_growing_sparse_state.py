"""Growing sparse vectors restarted, repeated, raced and interrupted: each round paid once, never answered twice."""

import pandas as pd
import pytest

import chary
from chary import Budget, BudgetExceeded, count
from chary.calls import GrowingTests
from chary.calls.growing_tests import GrowingRun, RoundMoved
from chary.errors import LedgerLocked, RequestConflict
from chary.ledger import SecretMoved
from tests.calls.growing.growing_sparse_kit import ALWAYS, NEVER, PURE, charges, more, state
from tests.session.interruption_kit import Interruption, Stop, hits_of_threads, in_between
from tests.session.kit import NO_NOISE, PLENTY, spent, steps, visits

pytestmark = pytest.mark.usefixtures("any_threshold")


@pytest.fixture
def rows(rows):
    """Sessions in which each visit is a unit and is replaced, with a budget of epsilon alone."""
    return lambda **options: rows(**({"budget": PURE} | options))


def test_it_survives_a_restart_in_the_middle_of_a_round(tmp_path):
    file, options = tmp_path / "visits.ledger", {"privacy_unit": None, "neighbors": "replace", "budget": PURE}
    terms = {
        "above": "0.5",
        "epsilon": "0.01",
        "exponent": "0.5",
        "values": True,
        "rounds": 3,
        "mechanism": "published",
    }
    with chary.open(visits(), ledger=file, **options) as session:
        growing = session.start(GrowingTests(**terms), request="one")
        growing.ask(count(), above=ALWAYS)
        session.append(more(80))
        missed = growing.ask(count(), above=NEVER, request="miss")
        hidden, charged = state(session, growing.call), spent(session)
        assert session.start(GrowingTests(**terms), request="one").call == growing.call
        with pytest.raises(RequestConflict):
            session.start(GrowingTests(**terms | {"above": "0.4"}), request="one")
    grown = pd.concat([visits(), more(80)])
    with chary.open(grown, ledger=file, **options) as session:
        again = session.resume(growing.call)
        assert repr(again) == repr(growing)
        assert session.runs == [(growing.call, "growing_sparse_vector")]
        assert again.ask(count(), above=NEVER, request="miss") == missed
        assert state(session, again.call) == hidden
        assert (again.state.rounds, again.state.open_round.size) == (2, 200)
        again.ask(count(), above=NEVER)
        assert state(session, again.call) == hidden
        hit = again.ask(count(), above=ALWAYS)
        assert (hit.round, hit.size, spent(session)) == (2, 200, charged)
        assert again.state.next_epsilon == growing.state._law.terms.epsilon_down(200)
        assert (again.state.left, again.ask(count(), above=ALWAYS).round, again.state.left) == (1, 3, 0)
        with pytest.raises(BudgetExceeded, match="all 3 rounds"):
            again.ask(count())


def test_a_repeated_request_is_answered_without_a_new_round(rows):
    session = rows()
    growing = session.start(GrowingTests(above="0.5", epsilon="0.25"))
    hit = growing.ask(count(), above=ALWAYS, request="one")
    session.append(more(10))
    assert growing.ask(count(), above=ALWAYS, request="one") == hit
    assert (growing.state.rounds, spent(session).main) == (1, steps("0.25"))
    with pytest.raises(RequestConflict):
        growing.ask(count(), above=NEVER, request="one")
    assert growing.state.rounds == 1


def test_a_round_that_another_ended_meanwhile_is_never_answered_against(rows, monkeypatch):
    """Another process hits between reading and storing: the outcome is thrown away, and a new round begins."""
    session = rows(budget=NO_NOISE, filter="pure")
    growing = session.start(GrowingTests(above="0.5", epsilon=PLENTY))
    in_between(monkeypatch, "growing_sparse_test", lambda: growing.ask(count()))
    assert growing.ask(count()).round == 2
    hits = [entry.hits for entry in session.history if entry.kind == "growing_sparse_test"]
    assert (sum(hits), growing.state.rounds, len(charges(session))) == (2, 2, 2)
    assert session.spine.ledger.verify().ok


def test_a_round_that_another_began_meanwhile_is_used_and_not_paid_twice(rows, monkeypatch):
    session = rows()
    growing = session.start(GrowingTests(above="0.5", epsilon="0.25"))
    in_between(monkeypatch, "growing_sparse_round", lambda: growing.ask(count(), above=NEVER))
    assert growing.ask(count(), above=NEVER).round == 1
    assert (growing.state.rounds, spent(session).main) == (1, steps("0.25"))
    assert session.spine.ledger.verify().ok


def test_it_gives_up_when_others_end_every_round(rows, monkeypatch):
    session = rows(budget=Budget(epsilon=100))
    growing = session.start(GrowingTests(above="0.5", epsilon="0.01"))
    begun = GrowingRun._begun

    def begin(run, request):
        found = begun(run, request)
        if run is growing:
            session.resume(growing.call).ask(count(), above=ALWAYS)
        return found

    monkeypatch.setattr(GrowingRun, "_begun", begin)
    with pytest.raises(RoundMoved):
        growing.ask(count())
    assert growing.state.rounds == len(charges(session)) == 5


def test_threads_together_pay_each_round_once(rows):
    session = rows()
    growing = session.start(GrowingTests(above=0, epsilon="0.1", rounds=6))
    assert hits_of_threads(3, growing, (SecretMoved, LedgerLocked)) == 6
    assert (growing.state.rounds, growing.state.left, spent(session).main) == (6, 0, steps("0.6"))
    assert session.spine.ledger.verify().ok


@pytest.mark.parametrize("step", ["reserved", "evaluated", "ran", "settled"])
def test_an_interrupted_beginning_is_free_or_paid_and_never_an_unpaid_round(rows, step):
    stop = Interruption(step, armed=False)
    session = rows(on_step=stop)
    growing = session.start(GrowingTests(above="0.5", epsilon="0.25"))
    stop.armed = True
    with pytest.raises(Stop):
        growing.ask(count(), above=NEVER)
    stop.armed = False
    assert growing.state.rounds == (step == "settled")
    assert spent(session).main == (0 if step == "reserved" else steps("0.25"))
    assert growing.ask(count(), above=NEVER).round == 1
    assert spent(session).main == (steps("0.5") if step in ("evaluated", "ran") else steps("0.25"))
