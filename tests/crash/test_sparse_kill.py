"""A sparse vector killed at any step, and several processes asking it at once: hits and threshold are never apart."""

import signal
import sys
from pathlib import Path

import pytest

import chary
from chary import count
from chary.calls import SparseVector
from chary.mechanisms import HiddenThreshold
from tests.children import Python
from tests.crash.asking_child import ask_until_refused, killing

UNITS, HITS, PROCESSES = 50, 12, 2
ROOT = Path(__file__).resolve().parents[2]
SURE = {"above": 1, "epsilon": 1000, "mechanism": "published"}


def opened(folder, on_step=None):
    rows = Path(folder) / "rows.csv"
    if not rows.exists():
        rows.write_text("unit\n" + "\n".join(map(str, range(UNITS))) + "\n")
    budget = chary.Budget(epsilon=2000)
    return chary.open(rows, privacy_unit="unit", budget=budget, ledger=Path(folder) / "rows.ledger", on_step=on_step)


def started(folder, mode, *arguments):
    return Python("-m", "tests.crash.test_sparse_kill", mode, folder, *arguments)


@pytest.mark.parametrize("step", ["reserved", "ran", "settled"])
def test_a_kill_leaves_answer_and_state_together(tmp_path, step):
    with opened(tmp_path) as session:
        sparse = session.start(SparseVector(**SURE, hits=2))
        before, share = session.spine.ledger.secret(sparse.call), session.spent.share
    child = started(tmp_path, "kill", sparse.call, step)
    out, err = child.communicate(timeout=120)
    assert child.returncode == -signal.SIGKILL, err
    assert out == ""
    with opened(tmp_path) as session:
        stored = session.spine.ledger.secret(sparse.call)
        assert (stored != before) == (step == "settled")
        again = session.resume(sparse.call)
        assert [again.ask(count(), request="once").hits_left for _ in range(2)] == [1, 1]
        assert again.ask(count()).hits_left == 0
        assert HiddenThreshold.load(session.spine.ledger.secret(sparse.call)).used == 2
        assert session.spent.share == share
        assert session.spine.ledger.verify().ok


def test_processes_that_ask_at_once_share_the_hits(tmp_path):
    with opened(tmp_path) as session:
        call = session.start(SparseVector(**SURE, hits=HITS)).call
    children = [started(tmp_path, "all", call) for _ in range(PROCESSES)]
    results = [child.communicate(timeout=300) for child in children]
    assert [child.returncode for child in children] == [0] * PROCESSES, results
    left = [int(line) for out, _err in results for line in out.split()]
    assert sorted(left) == list(range(HITS))
    with opened(tmp_path) as session:
        assert session.resume(call).state.left == 0
        assert session.spine.ledger.verify().ok


def killed(folder, call, step):
    found = opened(folder, killing(step)).resume(int(call)).ask(count(), request="once")
    sys.stdout.write(f"answer {found.hits_left}\n")


def ask_all(folder, call):
    with opened(folder) as session:
        sparse = session.resume(int(call))
        ask_until_refused(lambda: sparse.ask(count()).hits_left)


if __name__ == "__main__":
    {"kill": killed, "all": ask_all}[sys.argv[1]](*sys.argv[2:])
