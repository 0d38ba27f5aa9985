"""Ctrl-C at any moment: no lock stays behind, nothing is half done, and the interrupt comes through."""

import signal
import sqlite3
import sys
import threading

import pytest

from chary.errors import LedgerError
from chary.interruption import Uninterrupted
from chary.ledger import Amount, open_ledger

from .kit import ANSWER, QUESTION, terms


@pytest.fixture
def ledger(tmp_path):
    ledger = open_ledger(tmp_path / "test.ledger", timeout=5)
    ledger.open(terms(main=10**6))
    yield ledger
    ledger.close()


def stepped(act, at=None):
    """Run with Ctrl-C pressed before the instruction `at`; how many instructions there were."""
    count = 0

    def trace(frame, event, _argument):
        nonlocal count
        frame.f_trace_opcodes = True
        if event == "opcode":
            count += 1
            if count == at:
                signal.raise_signal(signal.SIGINT)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        act()
    finally:
        sys.settrace(before)
    return count


def pressed(act, at, ledger):
    """Whether Ctrl-C there came through; whether or not, no lock stays and the next call works.

    The interpreter drops what is raised in a finalizer, and the length of a call varies by a few instructions, so a
    few presses may come to nothing.
    """
    try:
        stepped(act, at)
    except KeyboardInterrupt:
        came_through = True
    else:
        came_through = False
    free(ledger.store.transactions.path)
    act()
    return came_through


def free(path):
    other = sqlite3.connect(path, timeout=0, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    other.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_no_moment_of_a_call_leaves_a_lock(ledger):
    def whole():
        call = ledger.reserve("visits", "ann", "count", QUESTION, Amount(4))
        ledger.settle(call, Amount(1), 1, 1, ANSWER)
        ledger.balance("visits")

    whole()
    steps = stepped(whole)
    assert steps > 2000
    came_through = [pressed(whole, at, ledger) for at in range(1, steps, steps // 40 - 7)]
    assert sum(came_through) >= 0.9 * len(came_through) > 30
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert ledger.verify().problems == []


def test_a_handler_that_only_remembers_is_told_and_nothing_is_lost(ledger):
    told = []
    before = signal.signal(signal.SIGINT, lambda *given: told.append(given))
    try:
        with ledger.store.transactions.writing():
            signal.raise_signal(signal.SIGINT)
            assert told == []
        assert len(told) == 1
    finally:
        signal.signal(signal.SIGINT, before)


def test_waiting_for_others_ends_with_the_interrupt(ledger):
    held, done = threading.Event(), threading.Event()

    def hold():
        with ledger.store.transactions.writing():
            held.set()
            done.wait(20)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    timer = threading.Timer(0.1, signal.raise_signal, [signal.SIGINT])
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        ledger.balance("visits")
    assert thread.is_alive()
    done.set()
    thread.join()


class Odd(BaseException):
    """Stands for whatever may be raised in the middle."""


@pytest.mark.parametrize("error", [Odd, MemoryError, GeneratorExit])
def test_whatever_is_raised_inside_closes_the_connection_at_once(ledger, error):
    connections = []

    def torn():
        with ledger.store.transactions.writing() as connection:
            connections.append(connection.connection.driver_connection)
            connection.exec_driver_sql("UPDATE datasets SET version = 7")
            raise error

    with pytest.raises(error) as caught:
        torn()
    free(ledger.store.transactions.path)
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connections[0].execute("SELECT 1")
    assert ledger.version("visits") == 0
    del caught


def test_an_error_of_ours_only_rolls_back(ledger):
    ledger.version("visits")
    connection = ledger.store.transactions._connection
    with pytest.raises(LedgerError):
        ledger.void(type(ledger.reserve("visits", "ann", "count", QUESTION, Amount(1)))(99))
    assert ledger.store.transactions._connection is connection
    free(ledger.store.transactions.path)


def test_the_block_holds_up_nothing_in_other_threads():
    handlers = []

    def look():
        with Uninterrupted():
            handlers.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert handlers == [signal.default_int_handler]
