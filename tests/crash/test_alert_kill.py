"""kill -9 between an append and the look of an alert, and races of those that follow: each version is told once."""

import signal

import duckdb
import pyarrow as pa
import pytest

import chary
from chary.calls import Alert
from chary.errors import LedgerLocked
from tests.children import FORKED, ended, killing, started

FORKED.set_forkserver_preload([__name__])
ALERT = Alert(chary.count("kwh >= 250"), above=500, clear_below=200, hits=20)
BATCHES = [100, 500, 90]
OPTIONS = {
    "table": "loads",
    "privacy_unit": None,
    "neighbors": "replace",
    "dataset": "loads",
    "budget": chary.Budget(epsilon=10**6, delta=1e-6),
}


def load(high):
    return pa.table({"kwh": pa.array([300.0] * high + [100.0] * 10)})


def metered(folder, on_step=None):
    return chary.open(folder / "loads.duckdb", ledger=folder / "ledger.db", on_step=on_step, **OPTIONS)


@pytest.fixture
def watched(tmp_path):
    """The number of an alert that has looked at the first version."""
    with duckdb.connect(tmp_path / "loads.duckdb") as file:
        file.register("first", load(0))
        file.execute("CREATE TABLE loads AS FROM first")
    with metered(tmp_path) as session:
        return session.start(ALERT, follow=True).call


def told(folder, call):
    with metered(folder) as session:
        state = session.resume(call).state
        return [(each.version, each.changed) for each in state.results], state.skipped, session.spent.share


def grow(folder, call, step):
    """Killed at that step of the first look after an append that nobody followed."""
    with metered(folder) as session:
        session.append(load(BATCHES[0]))
    session = metered(folder, killing(step))
    session.resume(call, follow=True)


@pytest.mark.parametrize("step", ["asked", "reserved", "evaluated", "settled"])
def test_a_version_whose_look_was_killed_is_looked_at(tmp_path, watched, step):
    assert ended(started(grow, tmp_path, watched, step)) == -signal.SIGKILL
    with metered(tmp_path) as session:
        before = session.spent.share
        for high in BATCHES[1:]:
            session.append(load(high))
        run = session.resume(watched)
        assert [each.version for each in run.follow()] == ([] if step == "settled" else [2]) + [3, 4]
        assert session.spent.share == pytest.approx(before + 0.05)
    # A look that was killed after it had read stays charged at its worst.
    assert before == pytest.approx(0.05 * (step in ("reserved", "evaluated")))
    assert told(tmp_path, watched)[:2] == ([(1, False), (2, False), (3, True), (4, False)], ())


def follow(folder, call, begin):
    with metered(folder) as session:
        run = session.resume(call)
        begin.wait()
        while run.state.version < 2 + 4 * len(BATCHES):
            try:
                run.follow()
            except LedgerLocked:
                continue


def test_processes_that_follow_at_once_tell_each_version_once(tmp_path, watched):
    with metered(tmp_path) as session:
        for high in [0, *BATCHES * 4]:
            session.append(load(high))
    begin = FORKED.Barrier(3)
    children = [started(follow, tmp_path, watched, begin) for _ in range(3)]
    assert [ended(child) for child in children] == [0, 0, 0]
    results, skipped, share = told(tmp_path, watched)
    assert [version for version, _ in results] == list(range(1, 3 + 4 * len(BATCHES)))
    assert [version for version, changed in results if changed] == [4]
    assert skipped == ()
    assert share == pytest.approx(0.05)
