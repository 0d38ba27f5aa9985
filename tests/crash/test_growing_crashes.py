"""kill -9 in the middle of what is asked of growing rows: no answer, change or batch is lost, and none is free."""

import hashlib
import json
import os
import signal

import duckdb
import polars as pl
import pyarrow as pa
import pytest

import chary
from chary.calls import PMW, Rerun
from chary.cli import run
from chary.growth import CountsBox
from chary.ledger import Ledger, open_ledger
from chary.session import STEPS
from tests.children import FORKED, ended, killing, started

# Processes are copies of one that has read the modules, and done nothing else.
FORKED.set_forkserver_preload([__name__])
START, ARRIVING = 300, 100
EPSILON, ROWS = 1, 3000
REQUEST = "the one question"
BOX = CountsBox(chary.count("ward <= 1"))
PUBLIC = {
    "privacy_unit": None,
    "neighbors": "replace",
    "dataset": "wards",
    "budget": chary.Budget(epsilon=1000, delta=1e-6),
}


def killed(work, folder, *arguments):
    assert ended(started(work, folder, *arguments)) == -signal.SIGKILL


def sound(folder):
    ledger = open_ledger(folder / "wards.ledger")
    verdict = ledger.verify()
    ledger.close()
    return verdict.ok


def asked_rows(folder, on_step=None):
    """Rows of which most are in one ward."""
    rows = pl.DataFrame({"ward": [max(0, i % 9 - 5) for i in range(ROWS)], "half": [i % 2 for i in range(ROWS)]})
    return chary.open(rows, ledger=folder / "wards.ledger", on_step=on_step, **PUBLIC)


def begun(folder):
    """A histogram that one hard answer changed, and the price of such an answer."""
    with asked_rows(folder) as session:
        universe = {"ward": range(4), "half": [0, 1]}
        weights = session.start(PMW(universe=universe, alpha="0.1", epsilon=EPSILON))
        assert weights.ask("ward = 0").hard
        return weights.call, session.spent.share


def known(folder, call):
    """What is spent, how many changes there were, and the histogram's bits."""
    with asked_rows(folder) as session:
        weights = session.resume(call)
        bits = hashlib.sha256(weights.state.histogram().tobytes()).hexdigest()
        return session.spent.share, len(weights.state.changes), bits


@pytest.mark.parametrize("step", STEPS)
def test_a_killed_ask_is_paid_and_leaves_the_histogram_whole(tmp_path, step):
    call, price = begun(tmp_path)
    before = known(tmp_path, call)
    killed(ask, tmp_path, call, step)
    spent, changes, bits = known(tmp_path, call)
    stored = step == "settled"
    assert spent == pytest.approx(price if step == "asked" else 2 * price)
    assert (changes, bits == before[2]) == ((2, False) if stored else (1, True))
    with asked_rows(tmp_path) as session:
        weights = session.resume(call)
        answer = weights.ask("half = 0", request=REQUEST)
        assert answer.hard
        assert weights.ask("half = 0", request=REQUEST) == answer
        assert session.spent.share == pytest.approx(spent + (0 if stored else price))
        assert len(weights.state.changes) == 2
        here = hashlib.sha256(weights.state.histogram().tobytes()).hexdigest()
    if stored:
        assert ended(started(look, tmp_path, call)) == 0
        assert (tmp_path / "seen").read_text() == here
    assert sound(tmp_path)


def stored_rows(folder):
    with duckdb.connect(str(folder / "wards.duckdb")) as connection:
        connection.execute(f"CREATE TABLE wards AS SELECT range % 3 AS ward FROM range({START})")
    for name in ("first", "second"):
        (folder / f"{name}.csv").write_text("ward\n" + "".join(f"{i % 3}\n" for i in range(ARRIVING)))


def stored_session(folder, on_step=None):
    place = folder / "wards.duckdb"
    return chary.open(place, table="wards", ledger=folder / "wards.ledger", on_step=on_step, **PUBLIC)


@pytest.mark.parametrize("step", ["asked", "reserved", "settled"])
def test_a_batch_and_the_run_that_it_made_due(tmp_path, step):
    """Killed while the run after an append was under way: the batch stays, and the run is done once, for nothing."""
    stored_rows(tmp_path)
    with stored_session(tmp_path) as session:
        schedule = session.start(Rerun(BOX, epsilon=1, beta="0.05", growth="0.1"))
        schedule.ask()
        call, paid, first = schedule.call, session.spent.share, schedule.state.latest
    killed(append, tmp_path, call, step)
    with stored_session(tmp_path) as session:
        assert [version.size for version in session.versions] == [START, START + ARRIVING]
        schedule = session.resume(call, bring=BOX)
        done = schedule.state.results
        assert done[0] == first
        assert len(done) == (2 if step == "settled" else 1)
        schedule.ask()
        assert schedule.state.results[: len(done)] == done
        assert [entry.size for entry in schedule.state.results] == [START, START + ARRIVING]
        assert schedule.ask() is None
        assert session.spent.share == paid
    assert sound(tmp_path)


def line(folder):
    rules = "--row-level --neighbors replace --table wards --budget-epsilon 5 --count --by ward --keys 0,1,2"
    terms = "--epsilon 1 --growth 0.1"
    files = [part for name in ("first", "second") for part in ("--append", str(folder / f"{name}.csv"))]
    ledger = str(folder / "wards.ledger")
    return ["rerun", str(folder / "wards.duckdb"), *rules.split(), *terms.split(), "--ledger", ledger, *files, "--json"]


@pytest.mark.parametrize("notes", [1, 2])
def test_a_killed_command_goes_on_when_it_is_repeated(tmp_path, capsys, notes):
    """Killed after the rows are in the file and before they have a version, of the first or the second file."""
    stored_rows(tmp_path)
    killed(grow, tmp_path, notes)
    for _ in range(2):
        assert run(line(tmp_path)) == 0
        told = json.loads(capsys.readouterr().out)
        assert [batch["version"] for batch in told["appended"]] == [2, 3]
        assert told["latest"]["size"] == START + 2 * ARRIVING
        with duckdb.connect(str(tmp_path / "wards.duckdb")) as connection:
            assert connection.execute("SELECT count(*) FROM wards").fetchone() == (START + 2 * ARRIVING,)
    ledger = open_ledger(tmp_path / "wards.ledger")
    kinds = [call.kind for terms in ledger.datasets() for call in ledger.calls(terms.name)]
    assert kinds.count(Rerun.kind) == 1
    ledger.close()
    assert sound(tmp_path)


def ask(folder, call, step):
    weights = asked_rows(folder, killing(step)).resume(call)
    weights.ask("half = 0", request=REQUEST)


def look(folder, call):
    (folder / "seen").write_text(known(folder, call)[2])


def append(folder, call, step):
    """The steps of the append's run only: the opening has none."""
    session = stored_session(folder, killing(step))
    schedule = session.resume(call, bring=BOX)
    session.append(pa.table({"ward": [i % 3 for i in range(ARRIVING)]}), request="batch")
    schedule.ask()


def grow(folder, notes):
    """Version 1 are the rows that were there; those of the files follow."""
    original, seen = Ledger.note, []

    def counted(*given, **options):
        if len(seen) == notes:
            os.kill(os.getpid(), signal.SIGKILL)
        seen.append(original(*given, **options))
        return seen[-1]

    Ledger.note = counted
    run(line(folder))
