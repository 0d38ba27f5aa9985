"""Threads that change the same held state: none is overtaken again and again, and none waits for ever."""

import gc
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor, TimeoutError

import pytest

from chary.amounts import Amount
from chary.calls import ContinualCount
from chary.core import transaction as spine
from chary.core import transaction as turns
from chary.interruption import Torn, Uninterrupted
from chary.ledger import SecretMoved, State
from tests.calls.growing.continual_streams import WARDS, streams
from tests.session.kit import NO_NOISE

THREADS, TIMES = 4, 25
LONG = 60


@pytest.fixture
def held():
    """Another thread that works on what call 7 of the dataset visits holds."""
    begun, ended = threading.Event(), threading.Event()

    def work():
        with turn("visits", 7):
            begun.set()
            ended.wait(LONG)

    with ThreadPoolExecutor(1) as pool:
        task = pool.submit(work)
        begun.wait(LONG)
        yield ended
        ended.set()
        task.result()


@pytest.fixture
def counting(opened):
    """A continual count in wards, whose every step changes what its opening holds."""
    return streams(opened)(budget=NO_NOISE).start(ContinualCount(WARDS, steps=5000, epsilon=10**7))


def turn(dataset, call, patience=LONG, given_up=lambda: False):
    return turns.turn(dataset, call, patience, given_up)


def entered(*named, **how):
    with turn(*named, **how):
        return True


def test_steps_of_many_threads_are_all_done(counting, monkeypatch):
    monkeypatch.setattr(spine, "ATTEMPTS", 1)
    monkeypatch.setattr(spine, "WAIT", LONG)
    with ThreadPoolExecutor(THREADS) as pool:
        told = list(pool.map(lambda _: counting.ask().step, range(THREADS * TIMES)))
    assert sorted(told) == list(range(1, THREADS * TIMES + 1))


def test_another_thread_is_waited_for(held):
    with ThreadPoolExecutor(1) as pool:
        task = pool.submit(entered, "visits", 7)
        with pytest.raises(TimeoutError):
            task.result(0.3)
        held.set()
        assert task.result()


@pytest.mark.parametrize("named", [("visits", None), ("visits", 8), ("stays", 7)])
def test_nobody_waits_for_what_others_hold(held, named):
    assert entered(*named)


def test_nobody_waits_for_ever(held):
    assert entered("visits", 7, patience=0.05)


def test_who_gives_up_waits_no_longer(held):
    assert entered("visits", 7, given_up=lambda: True)


def test_a_call_within_a_call_does_not_wait_for_itself():
    with turn("visits", 7):
        assert entered("visits", 7)


def test_nothing_is_kept_of_turns_that_are_over():
    entered("visits", 7)
    gc.collect()
    assert not turns._turns


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_a_fork_waits_for_no_thread_of_its_parent(held):
    child = os.fork()
    if not child:
        lock = turns._lock_of(("visits", 7))
        os._exit(0 if lock.acquire(blocking=False) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def interrupting_turn(monkeypatch, number):
    """The interrupt comes while the call waits for its turn for the time of that number."""
    waits, taken = [], turns._taken

    def waiting(lock, until, given_up):
        waits.append(lock)
        if len(waits) == number:
            signal.raise_signal(signal.SIGINT)
        return taken(lock, until, given_up)

    monkeypatch.setattr(turns, "_taken", waiting)


@pytest.mark.parametrize("number", [1, 2])
def test_an_interrupt_while_it_waits_costs_nothing(counting, monkeypatch, number):
    """Also where something was read before, and thrown away unseen since the state had moved."""
    asked, moved = counting._spine, []
    ledger = asked.ledger

    def settle(self, *given):
        moved.append(given)
        raise SecretMoved("it moved")

    interrupting_turn(monkeypatch, number)
    monkeypatch.setattr(type(ledger), "settle", settle)
    with pytest.raises(KeyboardInterrupt):
        counting.ask()
    assert len(moved) == number - 1
    assert list(ledger.calls(asked.dataset))[-1].state == State.VOIDED
    assert not [lock for lock in turns._turns.values() if lock._is_owned()]


def test_what_is_given_back_is_given_back_whenever_the_next_interrupts_come(counting, monkeypatch):
    """One before the first is dealt with, when interrupts still come through, and one while it is."""
    asked = counting._spine
    void = type(asked.ledger).void

    def leaving(self, *_):
        raise KeyboardInterrupt

    def voiding(self, reservation):
        signal.raise_signal(signal.SIGINT)
        void(self, reservation)

    def stopped(self, running):
        raise KeyboardInterrupt

    monkeypatch.setattr(spine.Spine, "_run_and_settle", stopped)
    monkeypatch.setattr(Torn, "__exit__", leaving)
    monkeypatch.setattr(type(asked.ledger), "void", voiding)
    question = counting.plan()
    reservation = asked.ledger.reserve(asked.dataset, asked.analyst, question.kind, "{}", Amount(0), None)
    running = spine._Running(question, (), None, reservation, 1)
    with pytest.raises(KeyboardInterrupt), Uninterrupted() as block:
        asked._finish(running, block)
    assert list(asked.ledger.calls(asked.dataset))[-1].state == State.VOIDED


def test_interrupts_wait_while_one_is_dealt_with():
    """The second one does not tear what the first one makes be given back."""
    dealt = []
    with pytest.raises(KeyboardInterrupt), Uninterrupted() as block:  # noqa: PT012
        signal.raise_signal(signal.SIGINT)
        try:
            with block.torn():
                dealt.append("torn")
        except KeyboardInterrupt:
            signal.raise_signal(signal.SIGINT)
            dealt.append("given back")
    assert dealt == ["given back"]
