"""A public histogram killed in the middle of a round, and processes that ask it at once: answers, histogram and hidden
threshold are never apart, and nothing is had twice.

The processes are forked from one that has imported everything and done nothing: importing takes seconds each time.
"""

import multiprocessing
import os
import signal

import polars as pl
import pytest

import chary
from chary.calls import PMW
from chary.calls.public_histograms import HistogramRound
from chary.errors import BudgetExceeded
from chary.ledger import SecretMoved

FORKED = multiprocessing.get_context("forkserver")
FORKED.set_forkserver_preload([__name__])
ROUNDS, PROCESSES, PATIENCE = 12, 3, 120
UNIVERSE = {"ward": [0, 1, 2, 3]}
EASY, HARD = "ward >= 9", "ward = 0"


def opened(folder, on_step=None):
    rows = pl.DataFrame({"ward": [0] * 360 + [1] * 40})
    place, budget = folder / "wards.ledger", chary.Budget(epsilon=4500)
    terms = {"privacy_unit": None, "neighbors": "replace", "budget": budget, "dataset": "wards", "on_step": on_step}
    return chary.open(rows, ledger=place, **terms)


def begun(folder, rounds=ROUNDS):
    with opened(folder) as session:
        given = {"alpha": "0.3", "epsilon": 4000, "rounds": rounds, "update": "published", "mixing": 1}
        return session.start(PMW(prepaid=True, universe=UNIVERSE, **given)).call


def kept(session, call):
    return session.spine.ledger.secret(call)


def started(work, *arguments):
    child = FORKED.Process(target=work, args=arguments)
    child.start()
    return child


def ended(child):
    """How it ended; it is not left behind."""
    child.join(PATIENCE)
    if child.is_alive():
        child.kill()
        child.join()
        pytest.fail("the process took too long")
    return child.exitcode


@pytest.mark.parametrize(("asked", "step"), [(EASY, "ran"), (HARD, "ran"), (HARD, "settled")])
def test_a_kill_in_the_middle_of_a_round_loses_nothing_and_gives_nothing_for_free(tmp_path, asked, step):
    call = begun(tmp_path)
    with opened(tmp_path) as session:
        session.resume(call).ask(EASY)
        before, share = kept(session, call), session.spent.share
    assert HistogramRound.load(before).shift is not None
    assert ended(started(killed, tmp_path, call, asked, step)) == -signal.SIGKILL
    assert not (tmp_path / "answer").exists()
    with opened(tmp_path) as session:
        assert (kept(session, call) != before) == (step == "settled")
        weights = session.resume(call)
        answers = [weights.ask(asked, request="once") for _ in range(2)]
        assert answers[0] == answers[1]
        assert answers[0].hard == (asked == HARD)
        after = HistogramRound.load(kept(session, call))
        assert (after.begun, len(after.transcript.changes)) == (1, int(asked == HARD))
        assert after.shift == (None if asked == HARD else HistogramRound.load(before).shift)
        assert session.spent.share == share
        assert session.spine.ledger.verify().ok


def test_a_kill_before_the_first_threshold_is_stored_leaves_the_round_unbegun(tmp_path):
    call = begun(tmp_path)
    assert ended(started(killed, tmp_path, call, EASY, "ran")) == -signal.SIGKILL
    with opened(tmp_path) as session:
        assert HistogramRound.load(kept(session, call)) == HistogramRound()
        assert not session.resume(call).ask(EASY).hard
        assert HistogramRound.load(kept(session, call)).begun == 1


def test_processes_that_ask_at_once_share_the_rounds(tmp_path):
    call = begun(tmp_path, rounds=5)
    together = FORKED.Barrier(PROCESSES)
    children = [started(ask_all, tmp_path, call, together, number) for number in range(PROCESSES)]
    assert [ended(child) for child in children] == [0] * PROCESSES
    assert sum(int((tmp_path / f"hard {number}").read_text()) for number in range(PROCESSES)) == 5
    with opened(tmp_path) as session:
        weights = session.resume(call)
        assert len(weights.state.changes) == 5
        rounds = [entry.answer["round"] for entry in session.history if entry.hits]
        assert sorted(rounds) == [1, 2, 3, 4, 5]
        assert session.spine.ledger.verify().ok


def killed(folder, call, asked, step):
    """Dies at this step; an answer that it should not have lived to see is left in a file."""

    def kill(reached):
        if reached == step:
            os.kill(os.getpid(), signal.SIGKILL)

    found = opened(folder, kill).resume(call).ask(asked, request="once")
    (folder / "answer").write_text(str(found.share))


def ask_all(folder, call, together, number):
    """Until no round may begin; leaves behind how many hard answers it had."""
    hard = 0
    with opened(folder) as session:
        weights = session.resume(call)
        together.wait(PATIENCE)
        while True:
            try:
                hard += weights.ask(HARD, must_verify=True).hard
            except SecretMoved:
                continue
            except BudgetExceeded:
                break
    (folder / f"hard {number}").write_text(str(hard))
