"""A scheduled run killed in the middle, and several processes that do what is due at once: each run is stored once."""

import os
import signal
import sys
from pathlib import Path

import polars as pl
import pytest

import chary
from chary.calls import Rerun
from chary.growth import CountsBox
from tests.children import Python

ROOT = Path(__file__).resolve().parents[2]
START, GROWN, SCHEDULES, PROCESSES = 100, 400, 6, 3
BOX = CountsBox(chary.count("ward <= 1"))


def rows(size):
    return pl.DataFrame({"ward": [i % 3 for i in range(size)]})


def opened(folder, on_step=None, size=START):
    budget = chary.Budget(epsilon=1, delta=1e-6)
    place = Path(folder) / "wards.ledger"
    terms = {"privacy_unit": None, "neighbors": "replace", "budget": budget, "dataset": "wards", "on_step": on_step}
    return chary.open(rows(size), ledger=place, **terms)


def begun(folder):
    with opened(folder) as session:
        return session.start(Rerun(BOX, rho="0.001", beta="0.05", growth="0.1")).call


def started(folder, mode, *arguments):
    return Python("-m", "tests.crash.test_schedule_race", mode, folder, *arguments)


@pytest.mark.parametrize("step", ["evaluated", "ran", "settled"])
def test_a_killed_run_is_stored_or_done_again_with_the_same_share(tmp_path, step):
    call = begun(tmp_path)
    child = started(tmp_path, "kill", call, step)
    _out, err = child.communicate(timeout=120)
    assert child.returncode == -signal.SIGKILL, err
    with opened(tmp_path) as session:
        share = session.spent.share
        schedule = session.resume(call, bring=BOX)
        assert len(schedule.state.results) == (step == "settled")
        schedule.ask()
        assert [(run.run, run.epsilon) for run in schedule.state.results] == [
            (0, schedule.state.runs.epsilon_down(0, 0))
        ]
        assert session.spent.share == share
        assert session.spine.ledger.verify().ok


def test_processes_that_run_what_is_due_at_once_do_each_run_once(tmp_path):
    calls = [begun(tmp_path) for _ in range(SCHEDULES)]
    children = [started(tmp_path, "many", *calls) for _ in range(PROCESSES)]
    results = [child.communicate(timeout=300) for child in children]
    assert [child.returncode for child in children] == [0] * PROCESSES, results
    assert sorted(int(call) for out, _err in results for call in out.split()) == calls
    with opened(tmp_path, size=GROWN) as session:
        for schedule in (session.resume(call, bring=BOX) for call in calls):
            last = schedule.state.runs.last(GROWN)
            assert [(run.run, run.epsilon) for run in schedule.state.results] == [
                (last, schedule.state.runs.epsilon_down(0, last))
            ]
        assert session.spine.ledger.verify().ok


def killed(folder, call, step):
    def kill(reached):
        if reached == step:
            os.kill(os.getpid(), signal.SIGKILL)

    opened(folder, kill).resume(int(call), bring=BOX).ask()


def many(folder, *calls):
    with opened(folder, size=GROWN) as session:
        for call in calls:
            if session.resume(int(call), bring=BOX).ask() is not None:
                sys.stdout.write(f"{call}\n")


if __name__ == "__main__":
    {"kill": killed, "many": many}[sys.argv[1]](*sys.argv[2:])
