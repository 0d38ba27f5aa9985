"""Rounds killed as they begin or in the middle, and asked by several processes at once: nothing lost, nothing free."""

import os
import signal
from multiprocessing import get_context
from pathlib import Path

import polars as pl
import pytest

import chary
from chary import BudgetExceeded, count
from chary.calls import GrowingTests
from chary.calls.growing_tests import GrowingRoundState
from chary.errors import LedgerLocked
from chary.ledger import SecretMoved

FRESH = get_context("forkserver")
FRESH.set_forkserver_preload([__name__])
START, GROWN, ROUNDS, PROCESSES = 20_000, 80_000, 12, 2
NOBODY = count("ward > 2")
EPSILON, COST = "0.25", 0.125


def opened(folder, on_step=None, size=START):
    rows = pl.DataFrame({"ward": [i % 3 for i in range(size)]})
    terms = {"privacy_unit": None, "neighbors": "replace", "budget": chary.Budget(epsilon=2), "dataset": "wards"}
    return chary.open(rows, ledger=Path(folder) / "wards.ledger", on_step=on_step, **terms)


def started(work, *arguments):
    """A process of its own; all come from one that imported everything once and opened nothing."""
    child = FRESH.Process(target=work, args=arguments)
    child.start()
    return child


def exits(child):
    child.join(timeout=120)
    return child.exitcode


def killed_child(work, folder, call, step):
    assert exits(started(work, folder, call, step)) == -signal.SIGKILL
    assert not (folder / "survived").exists()


def state(session, call):
    return GrowingRoundState.load(session.spine.ledger.secret(call))


@pytest.mark.parametrize("step", ["ran", "settled"])
def test_a_kill_inside_a_round_leaves_it_open_or_ended_by_the_stored_hit(tmp_path, step):
    with opened(tmp_path) as session:
        growing = session.start(GrowingTests(above="0.5", epsilon=EPSILON, values=True, exponent="0.5"))
        growing.ask(NOBODY, above=1)
        before = state(session, growing.call)
    killed_child(killed, tmp_path, growing.call, step)
    with opened(tmp_path, size=GROWN) as session:
        again, now = session.resume(growing.call), state(session, growing.call)
        assert now == (before.ended() if step == "settled" else before)
        answers = [again.ask(count(), above=0, request="once") for _ in range(2)]
        assert answers[0] == answers[1]
        assert (answers[0].above, answers[0].round) == (True, 1)
        assert answers[0].size == (START if step == "settled" else GROWN)
        assert (again.state.rounds, again.state.open_round, session.spent.share) == (1, None, COST)
        assert again.ask(count(), above=0).round == 2
        assert session.spent.share == pytest.approx(1.5 * COST)
        assert session.spine.ledger.verify().ok


def test_a_kill_while_a_round_begins_leaves_it_paid_and_unbegun(tmp_path):
    with opened(tmp_path) as session:
        call = session.start(GrowingTests(above="0.5", epsilon=EPSILON)).call
    killed_child(beginning, tmp_path, call, "ran")
    with opened(tmp_path) as session:
        growing = session.resume(call)
        assert (growing.state.rounds, session.spent.share) == (0, COST)
        assert not growing.ask(NOBODY, above=1)
        assert (growing.state.rounds, session.spent.share) == (1, 2 * COST)
        assert session.spine.ledger.verify().ok


def test_processes_that_ask_at_once_pay_each_round_once(tmp_path):
    with opened(tmp_path) as session:
        call = session.start(GrowingTests(above=0, epsilon="0.125", rounds=ROUNDS)).call
    together = FRESH.Barrier(PROCESSES)
    children = [started(ask_all, tmp_path, call, number, together) for number in range(PROCESSES)]
    assert [exits(child) for child in children] == [0] * PROCESSES
    rounds = [int(line) for number in range(PROCESSES) for line in (tmp_path / f"{number}").read_text().split()]
    assert sorted(rounds) == list(range(1, ROUNDS + 1))
    with opened(tmp_path) as session:
        assert session.resume(call).state.left == 0
        assert session.spent.share == ROUNDS / 16
        assert session.spine.ledger.verify().ok


def at(step):
    """Kills this process when it reaches the step."""

    def kill(reached):
        if reached == step:
            os.kill(os.getpid(), signal.SIGKILL)

    return kill


def killed(folder, call, step):
    opened(folder, at(step)).resume(call).ask(count(), above=0, request="once")
    (folder / "survived").touch()


def beginning(folder, call, step):
    opened(folder, at(step)).resume(call).ask()
    (folder / "survived").touch()


def ask_all(folder, call, number, together):
    with opened(folder) as session, (folder / f"{number}").open("w") as answers:
        growing = session.resume(call)
        together.wait(60)
        while True:
            try:
                answers.write(f"{growing.ask(count()).round}\n")
            except (SecretMoved, LedgerLocked):
                continue
            except BudgetExceeded:
                return
