"""A run of threshold tests killed at any step, and several processes testing at once: answers and state never part."""

import os
import signal
import sys
from pathlib import Path

import pytest

import chary
from chary.calls import GaussianAboveThreshold
from chary.calls.gaussian_runs import RunState
from chary.errors import LedgerLocked
from chary.mechanisms.gaussian import GaussianThreshold
from chary.session import STEPS
from tests.children import Python

ROOT = Path(__file__).resolve().parents[2]
TERMS = {"threshold": 60, "threshold_noise": 20, "low": 0, "high": 100}
PROCESSES, ASKS = 2, 4


@pytest.fixture
def folder(tmp_path):
    rows = "\n".join(f"{unit},{unit % 5}" for unit in range(50))
    (tmp_path / "rows.csv").write_text(f"unit,area\n{rows}\n")
    return tmp_path


def opened(folder, on_step=None):
    common = {"privacy_unit": "unit", "budget": chary.Budget(epsilon=50)}
    columns = {"unit": "int64", "area": "int64"}
    return chary.open(
        Path(folder) / "rows.csv", ledger=Path(folder) / "rows.ledger", on_step=on_step, columns=columns, **common
    )


def started(folder, mode, *arguments):
    return Python("-m", "tests.crash.test_gaussian_kill", mode, folder, *arguments)


def state_of(session, call):
    return RunState.load(session.spine.ledger.secret(call))


@pytest.mark.parametrize("step", [*STEPS, "published"])
def test_a_kill_leaves_answer_and_state_together(folder, step):
    with opened(folder) as session:
        run = session.start(GaussianAboveThreshold(**TERMS))
        first = state_of(session, run.call)
    child = started(folder, "kill", run.call, step)
    out, err = child.communicate(timeout=120)
    assert child.returncode == -signal.SIGKILL, err
    stored = step in ("settled", "published")
    assert out == ("answer False\n" if step == "published" else "")
    with opened(folder) as session:
        now = state_of(session, run.call)
        assert (now.steps, now.halted) == (int(stored), False)
        assert now.held.floor >> now.held.bits - 31 == first.held.floor >> first.held.bits - 31
        paid = session.spent.amount.main
        assert (paid > 0) == (step not in ("asked",))
        answer = ask(session, run.call)
        assert state_of(session, run.call).steps == 1
        assert answer is ask(session, run.call)
        assert (session.spent.amount.main == paid) is stored
        assert session.spine.ledger.verify().ok


def test_processes_that_test_at_once_lose_no_step(folder):
    with opened(folder) as session:
        call = session.start(GaussianAboveThreshold(**TERMS)).call
    children = [started(folder, "many", call) for _ in range(PROCESSES)]
    results = [child.communicate(timeout=300) for child in children]
    assert [child.returncode for child in children] == [0] * PROCESSES, results
    with opened(folder) as session:
        state = state_of(session, call)
        steps = sorted(entry.answer["step"] for entry in session.history[1:] if entry.answer)
        assert steps == list(range(1, PROCESSES * ASKS + 1))
        assert state.steps == PROCESSES * ASKS
        assert session.spine.ledger.verify().ok


def ask(session, call):
    return session.resume(int(call)).ask(chary.count(), request="once").value


def scripted():
    """Every answer is False, whatever the noise."""
    GaussianThreshold.step = lambda self, value, held, source: (False, held)


def killed(folder, call, step):
    def kill(reached):
        if reached == step:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.stdout.write(f"answer {ask(opened(folder, kill), call)}\n")
    sys.stdout.flush()
    kill("published")


def many(folder, call):
    with opened(folder) as session:
        run, answered = session.resume(int(call)), 0
        while answered < ASKS:
            try:
                run.ask(chary.count())
                answered += 1
            except LedgerLocked:
                continue


if __name__ == "__main__":
    scripted()
    {"kill": killed, "many": many}[sys.argv[1]](*sys.argv[2:])
