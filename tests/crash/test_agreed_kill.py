"""Agreed tests whose process is killed at any step, and several processes on the last ones: never more than agreed."""

import signal
import sys
from pathlib import Path

import pytest

import chary
from chary import BudgetExceeded, count
from chary.calls import PrepaidTests
from tests.children import Python
from tests.crash.asking_child import ask_until_refused, killing

UNITS, TESTS, PROCESSES, FAR = 50, 12, 2, 10**6


def opened(folder, on_step=None):
    rows = Path(folder) / "rows.csv"
    if not rows.exists():
        rows.write_text("unit\n" + "\n".join(map(str, range(UNITS))) + "\n")
    budget = chary.Budget(epsilon=1, delta=1e-6)
    return chary.open(rows, privacy_unit="unit", budget=budget, ledger=Path(folder) / "rows.ledger", on_step=on_step)


def started(folder, mode, *arguments):
    return Python("-m", "tests.crash.test_agreed_kill", mode, folder, *arguments)


@pytest.mark.parametrize("step", ["reserved", "ran", "settled"])
def test_a_kill_leaves_answer_and_number_together_and_the_hit_charged(tmp_path, step):
    """A hit is reserved before anything is read; what was killed before its answer was stored uses up no test."""
    with opened(tmp_path) as session:
        run = session.start(PrepaidTests(tests=2, hits=2, misses="0.2"))
        before, hit = session.spent.share, run.state.price_if_hit
    child = started(tmp_path, "kill", run.call, step)
    out, err = child.communicate(timeout=120)
    assert (child.returncode, out) == (-signal.SIGKILL, ""), err
    with opened(tmp_path) as session:
        again = session.resume(run.call)
        assert again.state.left == (1 if step == "settled" else 2)
        charged = 0 if step == "settled" else hit
        assert session.spent.share == pytest.approx(before + charged, rel=1e-9)
        assert [again.ask(count(), above=FAR, request="once").tests_left for _ in range(2)] == [1, 1]
        assert again.ask(count(), above=FAR).tests_left == 0
        with pytest.raises(BudgetExceeded):
            again.ask(count(), above=FAR)
        assert session.spine.ledger.verify().ok


def test_processes_that_ask_at_once_share_the_tests(tmp_path):
    with opened(tmp_path) as session:
        call = session.start(PrepaidTests(tests=TESTS, hits=4)).call
    children = [started(tmp_path, "all", call) for _ in range(PROCESSES)]
    results = [child.communicate(timeout=300) for child in children]
    assert [child.returncode for child in children] == [0] * PROCESSES, results
    left = [int(line) for out, _err in results for line in out.split()]
    assert sorted(left) == list(range(TESTS))
    with opened(tmp_path) as session:
        assert session.resume(call).state.left == 0
        assert session.spine.ledger.verify().ok


def killed(folder, call, step):
    found = opened(folder, killing(step)).resume(int(call)).ask(count(), above=FAR, request="once")
    sys.stdout.write(f"answer {found.tests_left}\n")


def ask_all(folder, call):
    with opened(folder) as session:
        run = session.resume(int(call))
        ask_until_refused(lambda: run.ask(count(), above=FAR).tests_left)


if __name__ == "__main__":
    {"kill": killed, "all": ask_all}[sys.argv[1]](*sys.argv[2:])
