"""Steps of a continual count killed in the middle, and several processes that step at once: each step is told once."""

import os
import signal
import sys
from pathlib import Path

import polars as pl
import pytest

import chary
from chary import BudgetExceeded
from chary.calls import ContinualCount
from chary.ledger import SecretMoved
from tests.children import Python

ROOT = Path(__file__).resolve().parents[2]
STEPS, PROCESSES, SIZE = 24, 2, 90
TERMS = [{"epsilon": "0.1"}, {"rho": "0.001"}]


def opened(folder, on_step=None):
    budget = chary.Budget(epsilon=1, delta=1e-6)
    terms = {"privacy_unit": None, "neighbors": "replace", "budget": budget, "dataset": "wards", "on_step": on_step}
    return chary.open(pl.DataFrame({"ward": range(SIZE)}), ledger=Path(folder) / "wards.ledger", **terms)


def started(folder, mode, *arguments):
    return Python("-m", "tests.crash.test_continual_steps", mode, folder, *arguments)


@pytest.mark.parametrize(("reached", "terms"), [("ran", 0), ("settled", 1), ("published", 0), ("evaluated", 1)])
def test_a_kill_within_or_after_a_step_loses_nothing_and_gives_nothing_away(tmp_path, reached, terms):
    with opened(tmp_path) as session:
        counting = session.start(ContinualCount(steps=STEPS, **TERMS[terms]))
        first, before = counting.ask(), session.spine.ledger.secret(counting.call)
        share = session.spent.share
    child = started(tmp_path, "kill", counting.call, reached)
    out, err = child.communicate(timeout=120)
    assert child.returncode == -signal.SIGKILL, err
    with opened(tmp_path) as session:
        again = session.resume(counting.call)
        stored, settled = again.state.results, reached in ("settled", "published")
        assert (stored[0], len(stored)) == (first, 1 + settled)
        assert (session.spine.ledger.secret(again.call) != before) == settled
        told = again.ask(request="the second")
        assert (told.step, again.state.steps_left) == (2, STEPS - 2)
        assert stored[1:] in ([], [told])
        assert out == (f"{told.value}\n" if reached == "published" else "")
        assert again.state.results == [first, told]
        assert again.ask().step == 3
        assert session.spent.share == share
        assert session.spine.ledger.verify().ok


def test_processes_that_step_at_once_share_the_steps(tmp_path):
    with opened(tmp_path) as session:
        calls = [session.start(ContinualCount(steps=STEPS, **terms)).call for terms in TERMS]
    children = [started(tmp_path, "all", *calls) for _ in range(PROCESSES)]
    outputs = [child.communicate(timeout=300) for child in children]
    assert [child.returncode for child in children] == [0] * PROCESSES, outputs
    told = sorted(tuple(map(int, line.split())) for out, _err in outputs for line in out.splitlines())
    with opened(tmp_path) as session:
        kept = [(call, each.step, each.value) for call in calls for each in session.resume(call).state.results]
        assert told == kept
        assert [(call, step) for call, step, _ in kept] == [(call, step + 1) for call in calls for step in range(STEPS)]
        assert session.spine.ledger.verify().ok


def killed(folder, call, step):
    def kill(reached):
        if reached == step:
            os.kill(os.getpid(), signal.SIGKILL)

    found = opened(folder, kill).resume(int(call)).ask(request="the second")
    sys.stdout.write(f"{found.value}\n")
    sys.stdout.flush()
    kill("published")


def step_all(folder, *calls):
    with opened(folder) as session:
        for call in calls:
            counting = session.resume(int(call))
            while counting.state.steps_left:
                try:
                    told = counting.ask()
                    sys.stdout.write(f"{call} {told.step} {told.value}\n")
                except (SecretMoved, BudgetExceeded):
                    continue


if __name__ == "__main__":
    {"kill": killed, "all": step_all}[sys.argv[1]](*sys.argv[2:])
