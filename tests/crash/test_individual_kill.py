"""A stream killed at any step, and several processes asking it at once: answers and counters are never apart."""

import os
import signal
import sys
from pathlib import Path

import numpy as np
import pytest

import chary
from chary.calls import IndividualTests
from chary.ledger import SecretMoved
from chary.mechanisms import Laplace
from chary.mechanisms.sketches import Counters
from chary.session import STEPS
from tests.children import Python

UNITS, HITS, PROCESSES, ASKS = 50, 20, 4, 10
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    silence(monkeypatch.setattr)
    rows = "\n".join(f"{unit},{unit % 5}" for unit in range(UNITS))
    (tmp_path / "rows.csv").write_text(f"unit,area\n{rows}\n")
    return tmp_path


def silence(patch):
    """No noise, so that every answer is known."""
    patch(Laplace, "draw", lambda self, source, size: np.zeros(size, np.int64))


def opened(folder, on_step=None):
    budget = chary.Budget(epsilon=1, delta=1e-6)
    common = {"privacy_unit": "unit", "budget": budget, "grain": "0.02", "columns": {"unit": "int64", "area": "int64"}}
    return chary.open(Path(folder) / "rows.csv", ledger=Path(folder) / "rows.ledger", on_step=on_step, **common)


def started(folder, mode, *arguments):
    return Python("-m", "tests.crash.test_individual_kill", mode, folder, *arguments)


def counters(session, call):
    used = Counters.load(session.spine.ledger.secret(call)).used.to_pydict()
    return dict(zip(used["unit"], used["used"], strict=True))


@pytest.mark.parametrize("step", [*STEPS, "published"])
def test_a_kill_leaves_answer_and_counters_together(folder, step):
    with opened(folder) as session:
        call = session.start(IndividualTests(epsilon="0.02", hits=2)).call
        share = session.spent.share
    child = started(folder, "kill", call, step)
    out, err = child.communicate(timeout=120)
    assert child.returncode == -signal.SIGKILL, err
    stored = step in ("settled", "published")
    assert out == ("answer {(1,): 10}\n" if step == "published" else "")
    with opened(folder) as session:
        assert counters(session, call) == (dict.fromkeys(range(1, UNITS, 5), 1) if stored else {})
        for _ in range(2):
            assert ask(session.resume(call), "once").above == {(1,): 10}
            assert counters(session, call) == dict.fromkeys(range(1, UNITS, 5), 1)
        assert ask(session.resume(call), "twice").above == {(1,): 10}
        assert ask(session.resume(call), "thrice").above == {}
        assert session.spent.share == share
        assert session.spine.ledger.verify().ok


def test_processes_that_ask_at_once_lose_no_counter(folder):
    with opened(folder) as session:
        call = session.start(IndividualTests(epsilon="0.02", hits=HITS)).call
    children = [started(folder, "many", call) for _ in range(PROCESSES)]
    results = [child.communicate(timeout=300) for child in children]
    assert [child.returncode for child in children] == [0] * PROCESSES, results
    values = [value for out, _err in results for value in out.split()]
    assert len(values) == PROCESSES * ASKS
    assert values.count(str(UNITS)) == HITS
    assert values.count("None") == PROCESSES * ASKS - HITS
    with opened(folder) as session:
        assert counters(session, call) == dict.fromkeys(range(UNITS), HITS)
        assert session.spine.ledger.verify().ok


def ask(stream, request):
    return stream.ask(chary.count("area <= 1").by("area", [1, 2]), above=1, request=request)


def killed(folder, call, step):
    def kill(reached):
        if reached == step:
            os.kill(os.getpid(), signal.SIGKILL)

    found = ask(opened(folder, kill).resume(int(call)), "once")
    sys.stdout.write(f"answer {found.above}\n")
    sys.stdout.flush()
    kill("published")


def many(folder, call):
    with opened(folder) as session:
        stream, answered = session.resume(int(call)), 0
        while answered < ASKS:
            try:
                sys.stdout.write(f"{stream.ask(chary.count(), above=1).value}\n")
                answered += 1
            except SecretMoved:
                continue


if __name__ == "__main__":
    silence(setattr)
    {"kill": killed, "many": many}[sys.argv[1]](*sys.argv[2:])
