"""Growing sparse vectors restarted, repeated, raced and interrupted: each round paid once, never answered twice."""

import pytest

from chary import Budget, count
from chary.calls import GrowingRun, GrowingTests
from chary.calls.growing_tests import RoundMoved
from tests.calls.growing.growing_sparse_kit import ALWAYS, NEVER, charges
from tests.session.interruption_kit import in_between
from tests.session.kit import NO_NOISE, PLENTY, spent, steps

pytestmark = pytest.mark.usefixtures("any_threshold")


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
