"""One request key used twice at the same time: the second waits for the first, or is told."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from chary import Budget, BudgetExceeded, NotWithheld, RequestInFlight, count
from chary.core import transaction as spine
from tests.session.interruption_kit import Interruption, Stop
from tests.session.kit import spent

EPSILON, SURE, NEVER = "0.02", -(10**9), 10**9


def ask(session, key="key"):
    return session.release(count(), epsilon=EPSILON, request=key)


class Gate:
    """An `on_step` that stops the first call that reaches a step until it is opened."""

    def __init__(self, step):
        self.step, self.reached, self.open = step, threading.Event(), threading.Event()

    def __call__(self, step):
        if step == self.step and not self.reached.is_set():
            self.reached.set()
            assert self.open.wait(30)


@pytest.mark.parametrize("step", ["reserved", "evaluated", "ran"])
def test_the_second_waits_and_has_the_answer_of_the_first_for_free(opened, place, step):
    gate = Gate(step)
    session = opened(ledger=place, on_step=gate)
    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(ask, session)
        assert gate.reached.wait(30)
        others = [pool.submit(ask, session) for _ in range(2)]
        assert not any(other.done() for other in others)
        gate.open.set()
        assert {repr(call.result()) for call in (first, *others)} == {repr(first.result())}
    assert len(session.history) == 1


def test_the_waiting_is_bounded_and_nothing_is_charged_for_it(opened, place, monkeypatch):
    monkeypatch.setattr(spine, "PATIENCE", 0.05)
    nested = []

    def within(step):
        if step == "evaluated" and not nested:
            nested.append(True)
            with pytest.raises(RequestInFlight):
                ask(session)

    session = opened(ledger=place, on_step=within)
    answer = ask(session)
    assert ask(session) == answer
    assert (nested, len(session.history)) == ([True], 1)


def test_the_second_is_told_the_answer_even_where_the_first_took_all_that_was_left(opened, place):
    gate = Gate("ran")
    session = opened(ledger=place, on_step=gate, budget=Budget(epsilon=1))
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(lambda: session.release(count(), epsilon="0.9", request="key"))
        assert gate.reached.wait(30)
        second = pool.submit(lambda: session.release(count(), epsilon="0.9", request="key"))
        with pytest.raises(BudgetExceeded):
            session.release(count(), epsilon="0.9")
        gate.open.set()
        assert first.result() == second.result()


def test_the_second_is_told_the_answer_even_where_the_first_left_nothing_to_ask_for(opened, place):
    """A revision that publishes forgets the outcome; the same request behind it is no question about a lost one."""
    session = opened(ledger=place, grain=EPSILON)
    held = session.release_if(count(), above=NEVER, epsilon=EPSILON, request="held")
    stored, looked = session.spine.ledger.replay, []

    def overtaken(*arguments, **options):
        found = stored(*arguments, **options)
        if not looked:
            looked.append(True)
            looked.append(held.widen(above=SURE, request="key"))
        return found

    session.spine.ledger.replay = overtaken
    assert held.widen(above=SURE, request="key") == looked[1]
    with pytest.raises(NotWithheld):
        held.widen(above=SURE, request="another")


def test_a_call_that_failed_frees_its_key_and_stays_charged(opened, place):
    stop = Interruption("ran")
    session = opened(ledger=place, on_step=stop)
    with pytest.raises(Stop) as kept:
        ask(session)
    stop.armed = False
    ask(session)
    assert [entry.state for entry in session.history] == ["reserved", "settled"]
    assert kept.type is Stop
    assert spent(session).main == 2 * session.spine.ledger.call(session.history[0].call).worst.main
