"""Processes on a server that are killed at any point of a transaction, and a server that is killed under them."""

import signal
import threading
import time

import pytest

from chary.errors import RequestInFlight
from chary.ledger import Amount, Parts, RequestAnswered, State, Terms, open_ledger
from tests.children import Python
from tests.crash.test_ledger_kill import STEPS
from tests.servers.postgres import running

_ARMED = """
import os, signal, sys
from chary.ledger import Amount, Parts, open_ledger
from chary.ledger.postgresql import connection as wire

url, step, point, *names = sys.argv[1:]
ledger = open_ledger(url)

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

class Dying:
    def __init__(self, driver):
        self.driver, self.seen = driver, 0

    def __getattr__(self, name):
        return getattr(self.driver, name)

    def execute(self, words, *given, **options):
        if words == "COMMIT" and point == "before":
            die()
        found = self.driver.execute(words, *given, **options)
        self.seen += 1
        if str(self.seen) == point or (words == "COMMIT" and point == "after"):
            die()
        return found

def arm():
    ledger.store.transactions.wire.driver = Dying(ledger.store.transactions.wire.driver)

"""
CHILD = _ARMED + STEPS
ASKING = """
import sys, time
from chary.errors import BudgetExceeded, LedgerLocked, LedgerError
from chary.ledger import Amount, open_ledger

url, name, rounds = sys.argv[1:]
ledger = None
while ledger is None:
    try:
        ledger = open_ledger(url, timeout=60)
    except LedgerError:
        time.sleep(0.1)
for number in range(int(rounds)):
    try:
        call = ledger.reserve("visits", name, "count", "{}", Amount(3, 1))
    except (BudgetExceeded, LedgerLocked):
        continue
    for _ in range(5):
        try:
            ledger.settle(call, Amount(1), 1, 1, str(number))
        except LedgerLocked:
            continue
        print(call.call, flush=True)
        break
"""


@pytest.mark.parametrize(("point", "names"), [("before", ()), ("after", ()), ("1", ()), ("after", ("north", "south"))])
@pytest.mark.parametrize("step", ["reserve", "settle", "void"])
def test_a_kill_leaves_the_ledger_right(postgres, step, point, names):
    url = postgres.schema()
    ledger = open_ledger(url)
    ledger.open(Terms("visits", "ab12", "{}", Amount(10, 10)))
    child = Python("-c", CHILD, url, step, point, *names)
    _out, err = child.communicate(timeout=120)
    assert child.returncode == -signal.SIGKILL, err
    committed = point == "after"
    done = {"reserve": State.RESERVED, "settle": State.SETTLED, "void": State.VOIDED}[step]
    expected = [done] if committed else [] if step == "reserve" else [State.RESERVED]
    charged = {State.RESERVED: Amount(4, 2), State.SETTLED: Amount(1), State.VOIDED: Amount(0)}
    again = _reserved_again(ledger, Parts("region", 1, names) if names else None)
    states = [call.state for call in ledger.calls("visits") if again is None or call.number != again.call]
    assert states == expected
    spent = charged[states[0]] if states else Amount(0)
    assert ledger.balance("visits").spent == (spent if again is None else spent + Amount(4, 2))
    assert (again is None) == (states == [State.SETTLED])
    assert ledger.verify().problems == []
    ledger.close()


def _reserved_again(ledger, parts):
    """Under the key of the killed process, once the server has noticed; None if it was answered."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return ledger.reserve("visits", "ann", "count", "{}", Amount(4, 2), request="k1", parts=parts)
        except RequestAnswered:
            return None
        except RequestInFlight:
            assert time.monotonic() < deadline
            time.sleep(0.02)


def test_a_server_killed_under_several_processes_loses_nothing_and_overspends_nothing():
    with running() as server:
        url, rounds, names = server.url(schema="visits"), 12, ["ann", "bob", "cy"]
        ledger = open_ledger(url, timeout=60)
        ledger.open(Terms("visits", "ab12", "{}", Amount(1000, 1000)))
        children = [Python("-c", ASKING, url, name, rounds) for name in names]
        stop = threading.Event()

        def kill():
            while not stop.wait(1.0):
                server.kill()
                server.start()

        killer = threading.Thread(target=kill)
        killer.start()
        results = [child.communicate(timeout=240) for child in children]
        stop.set()
        killer.join()
        assert [child.returncode for child in children] == [0] * len(names), results
        calls = {call.number: call for call in ledger.calls("visits")}
        told = [int(line) for out, _err in results for line in out.split()]
        assert set(told) <= set(calls)
        assert all(calls[number].state == State.SETTLED for number in told)
        charged = sum((call.charged for call in calls.values()), Amount(0))
        assert ledger.balance("visits").spent == charged
        assert ledger.verify().problems == []
        ledger.close()
