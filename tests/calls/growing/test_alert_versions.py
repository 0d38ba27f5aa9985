"""Alerts that follow: every version is looked at once, in order and as it was then; what was passed over is told."""

from datetime import datetime

import duckdb
import pyarrow as pa
import pytest

from chary import count
from chary.calls import Alert
from chary.calls.alerts import AlertMemory
from chary.errors import InvalidQuery
from tests.session.kit import NO_NOISE, PUBLIC, sessions

HIGH = count("kwh >= 250")
# How many readings are high after each batch.
BATCHES = [100, 350, 0, 90, 200]
TRUTHS = [100, 450, 450, 540, 740]
ALERT = Alert(HIGH, above=500, clear_below=400, hits=20)


def load(high):
    return pa.table({"kwh": pa.array([300.0] * high + [100.0] * 10)})


@pytest.fixture
def opened():
    with sessions(budget=NO_NOISE) as make:
        yield lambda data=None, **options: make(load(BATCHES[0]) if data is None else data, **(PUBLIC | options))


@pytest.fixture(params=["frame", "duckdb"])
def metered(request, opened, tmp_path):
    """A session of the first batch, in memory or in a file."""
    if request.param == "frame":
        return opened()
    with duckdb.connect(tmp_path / "loads.duckdb") as file:
        file.register("first", load(BATCHES[0]))
        file.execute("CREATE TABLE loads AS FROM first")
    return opened(tmp_path / "loads.duckdb", table="loads")


def grow(session, batches=BATCHES[1:]):
    return [session.append(load(high)) for high in batches]


def test_a_backlog_is_worked_off_as_the_rows_were(metered):
    run = metered.start(ALERT)
    assert [told.version for told in run.follow()] == [1]
    grow(metered)
    told = run.follow()
    assert [(each.version, each.state, each.changed) for each in told] == [
        (2, "quiet", False),
        (3, "quiet", False),
        (4, "active", True),
        (5, "active", False),
    ]
    assert told[2].value == 540
    assert run.follow() == []
    assert (run.state.skipped, run.state.version) == ((), 5)
    assert metered.spent.share == pytest.approx(0.05)


def test_an_alert_begins_at_the_version_of_its_opening(metered):
    grow(metered, BATCHES[1:3])
    run = metered.start(ALERT)
    grow(metered, BATCHES[3:])
    assert [told.version for told in run.follow()] == [3, 4, 5]
    assert run.state.skipped == ()


def test_asking_is_of_now_and_says_what_it_passed_over(metered):
    run = metered.start(ALERT)
    run.follow()
    grow(metered)
    told = run.ask()
    assert (told.version, told.changed, told.value) == (5, True, 740)
    assert run.state.skipped == (2, 3, 4)
    assert run.follow() == []
    # The session of a version looks at that one, and goes back to none.
    session = metered.as_of(4)
    with pytest.raises(InvalidQuery, match="does not go back to version 4"):
        session.resume(run.call).ask()
    assert session.resume(run.call).follow() == []


def test_versions_whose_rows_are_elsewhere_are_passed_over_but_for_the_last(opened, tmp_path):
    """Batches of another session, which live in its memory."""
    ours, theirs = (opened(ledger=tmp_path / "ledger.db") for _ in range(2))
    run = ours.start(ALERT)
    assert grow(theirs, [0]) == [2]
    assert grow(ours, [350]) == [3]
    assert [told.version for told in run.follow()] == [1, 3]
    assert run.state.skipped == (2,)


def test_a_window_ends_as_the_version_came(opened):
    day = datetime.now().astimezone().date()
    rows = load(0).append_column("day", pa.array([day] * 10))
    session = opened(rows)
    run = session.start(Alert(HIGH, above=500, hits=20, time="day", window="7 days"))
    session.append(rows)
    told = run.follow()
    assert [each.version for each in told] == [1, 2]
    ended = [call.outcome["at"] for call in session.spine.ledger.calls("data", after=run.call)]
    assert ended == [version.time[:19].replace("T", " ") for version in session.versions]


def test_alerts_of_old_do_not_tell_when_they_were_opened(opened, monkeypatch):
    """They begin with the last version, as they did."""
    monkeypatch.setattr(AlertMemory, "dump", lambda held: b'{"version": -1, "active": []}')
    session = opened()
    run = session.start(ALERT)
    monkeypatch.undo()
    grow(session)
    assert [told.version for told in run.follow()] == [5]
    assert run.state.skipped == ()
    grow(session, [0])
    assert [told.version for told in run.follow()] == [6]


@pytest.mark.parametrize("step", ["asked", "reserved", "evaluated", "ran", "settled"])
def test_two_that_follow_at_once_look_at_no_version_twice(metered, step):
    """The other works off everything while one is in the middle of a look."""
    run = metered.start(ALERT)
    grow(metered)
    other, seen, told = metered.resume(run.call), [], []

    def between(reached):
        if reached == step and not seen:
            seen.append(step)
            told.extend(other.follow())

    object.__setattr__(metered.spine, "on_step", between)
    told += run.follow()
    assert sorted(each.version for each in told) == [1, 2, 3, 4, 5]
    assert [(each.version, each.changed) for each in run.state.results if each.changed] == [(4, True)]
    assert [each.version for each in run.state.results] == [1, 2, 3, 4, 5]
    assert metered.spent.share == pytest.approx(0.05)
