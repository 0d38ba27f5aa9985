"""One request key in many processes at once: one answer, one charge, and what a killed call leaves behind.

The processes are forked from one that has imported everything and done nothing: importing takes seconds each time.
"""

import multiprocessing
import os
import signal

import pytest

import chary
from chary import RequestInFlight, count
from chary.core import transaction as spine
from chary.ledger import Amount

FORKED = multiprocessing.get_context("forkserver")
FORKED.set_forkserver_preload([__name__])
PROCESSES, KEYS = 4, 12
EPSILON = "0.1"


def opened(folder, on_step=None):
    rows = folder / "rows.csv"
    if not rows.exists():
        rows.write_text("unit,age\n" + "".join(f"{unit},{unit % 90}\n" for unit in range(50)))
    return chary.open(
        rows,
        privacy_unit="unit",
        columns={"unit": "int64", "age": "int64"},
        ledger=folder / "rows.ledger",
        budget=chary.Budget(epsilon=10),
        on_step=on_step,
    )


def ask(session, key):
    return session.release(count(), epsilon=EPSILON, request=key)


def ask_all(folder, start, answers):
    with opened(folder) as session:
        for number in range(KEYS):
            start.wait()
            answers.put((number, repr(ask(session, f"key {number}"))))


def hang_at(folder, at, reached):
    def hang(step):
        if step == at:
            reached.set()
            signal.pause()

    ask(opened(folder, hang), "key")


def test_racing_processes_get_one_answer_for_one_charge(tmp_path):
    with opened(tmp_path) as session:
        start, answers = FORKED.Barrier(PROCESSES), FORKED.Queue()
        running = [FORKED.Process(target=ask_all, args=(tmp_path, start, answers)) for _ in range(PROCESSES)]
        for process in running:
            process.start()
        told = [answers.get(timeout=60) for _ in range(PROCESSES * KEYS)]
        for process in running:
            process.join()
        assert len(set(told)) == KEYS
        assert len(session.history) == KEYS
        assert session.spent.amount.main == KEYS * 10**14
        assert session.spine.ledger.verify().ok
    assert not list(tmp_path.glob("*-call-*"))


@pytest.mark.parametrize("step", ["reserved", "evaluated", "ran"])
def test_a_key_in_flight_is_told_and_that_of_a_killed_call_is_charged_anew(tmp_path, monkeypatch, step):
    monkeypatch.setattr(spine, "PATIENCE", 0.1)
    with opened(tmp_path) as session:
        reached = FORKED.Event()
        process = FORKED.Process(target=hang_at, args=(tmp_path, step, reached))
        process.start()
        assert reached.wait(60)
        with pytest.raises(RequestInFlight, match="ask again under the same key"):
            ask(session, "key")
        assert session.spine.ledger.balance("rows").spent == Amount(10**14)
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        answer = ask(session, "key")
        assert ask(session, "key") == answer
        assert [entry.state for entry in session.history] == ["reserved", "settled"]
        assert session.spine.ledger.balance("rows").spent == Amount(2 * 10**14)
    assert not list(tmp_path.glob("*-call-*"))
