"""A process killed at any point of a transaction leaves a right ledger: charged exactly if committed."""

import signal
from contextlib import nullcontext

import pytest

from chary.ledger import Amount, Parts, RequestAnswered, State, Terms, open_ledger
from tests.children import Python

_ARMED = """
import os, signal, sys
from sqlalchemy import event
from sqlalchemy.engine import Engine
from chary.ledger import Amount, Parts, open_ledger

path, step, point, *names = sys.argv[1:]
ledger = open_ledger(path)

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def arm():
    if point == "before":
        event.listen(Engine, "commit", die)
    elif point == "after":
        dialect = ledger.store.transactions._engine.dialect
        commit = dialect.do_commit
        dialect.do_commit = lambda connection: (commit(connection), die())
    else:
        seen = []
        event.listen(Engine, "after_cursor_execute", lambda *_: seen.append(1) or len(seen) == int(point) and die())

"""
# What a process does that is killed at a point of one of its steps, once it knows how to `arm`.
STEPS = """
parts = Parts("region", 1, tuple(names)) if names else None
if step == "reserve":
    arm()
call = ledger.reserve("visits", "ann", "count", "{}", Amount(4, 2), request="k1", parts=parts)
if step == "settle":
    arm()
if step == "void":
    arm()
    ledger.void(call)
ledger.settle(call, Amount(1), 1, 1, "true", secret=b"x")
raise SystemExit("was to be killed")
"""
CHILD = _ARMED + STEPS

POINTS = ["before", "after", "2", "4", "5", "6"]
# A charge of parts takes some more steps.
IN_PARTS = ["before", "after", "8", "11", "14"]
CASES = [(point, ()) for point in POINTS] + [(point, ("north", "south")) for point in IN_PARTS]


@pytest.mark.parametrize(("point", "names"), CASES)
@pytest.mark.parametrize("step", ["reserve", "settle", "void"])
def test_a_kill_leaves_the_ledger_right(tmp_path, step, point, names):
    path = tmp_path / "test.ledger"
    ledger = open_ledger(path)
    ledger.open(Terms("visits", "ab12", "{}", Amount(10, 10)))
    parts = Parts("region", 1, names) if names else None
    if names:
        ledger.void(ledger.reserve("visits", "bob", "count", "{}", Amount(9, 9), parts=parts))
    ledger.close()
    child = Python("-c", CHILD, path, step, point, *names)
    _out, err = child.communicate(timeout=120)
    assert child.returncode == -signal.SIGKILL, err
    ledger = open_ledger(path)
    committed = point == "after"
    reserved = step != "reserve" or committed
    states = [call.state for call in ledger.calls("visits", analyst="ann")]
    done = {"reserve": State.RESERVED, "settle": State.SETTLED, "void": State.VOIDED}[step]
    assert states == ([] if not reserved else [done] if committed else [State.RESERVED])
    charged = {State.RESERVED: Amount(4, 2), State.SETTLED: Amount(1), State.VOIDED: Amount(0)}
    assert ledger.balance("visits").spent == (charged[states[0]] if states else Amount(0))
    held = {part: amount for each in ledger.partitions("visits") for part, amount in each.parts.items()}
    assert held == dict.fromkeys(names, ledger.balance("visits").spent)
    assert ledger.verify().problems == []
    assert (ledger.replay("visits", "ann", "k1", "count", "{}", parts) is not None) == (states == [State.SETTLED])
    again = pytest.raises(RequestAnswered) if states == [State.SETTLED] else nullcontext()
    with again:
        ledger.reserve("visits", "ann", "count", "{}", Amount(4, 2), request="k1", parts=parts)
    ledger.close()


def test_a_kill_while_the_file_is_made_leaves_room_for_another_try(tmp_path):
    path = tmp_path / "test.ledger"
    script = CHILD.replace("ledger = open_ledger(path)\n", "").replace(
        "\ncall =", "\narm()\nledger = open_ledger(path)\ncall ="
    )
    child = Python("-c", script, path, "open", "3")
    _out, err = child.communicate(timeout=120)
    assert child.returncode == -signal.SIGKILL, err
    ledger = open_ledger(path)
    ledger.open(Terms("visits", "ab12", "{}", Amount(10)))
    assert ledger.verify().ok
    ledger.close()
