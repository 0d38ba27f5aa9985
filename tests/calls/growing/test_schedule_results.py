"""What a schedule reads of the ledger to tell its results."""

import polars as pl
import pytest

import chary
from chary.calls import Rerun
from chary.growth import CountsBox

BOX = CountsBox(chary.count("ward <= 1"))


def rows(size):
    return pl.DataFrame({"ward": [i % 3 for i in range(size)]})


@pytest.fixture
def session(tmp_path):
    terms = {"privacy_unit": None, "neighbors": "replace", "budget": chary.Budget(epsilon=1, delta=1e-6)}
    with chary.open(rows(100), ledger=tmp_path / "wards.ledger", dataset="wards", **terms) as opened:
        yield opened


def test_only_calls_that_came_since_are_read(session, monkeypatch):
    schedule = session.start(Rerun(BOX, epsilon="0.1", beta="0.05", growth="0.1"))
    first, read = schedule.ask(), []
    original = session.spine.ledger.calls

    def calls(dataset, **options):
        for call in original(dataset, **options):
            read.append(call.number)
            yield call

    monkeypatch.setattr(session.spine.ledger, "calls", calls)
    assert schedule.state.results == [first]
    assert schedule.state.latest == first
    assert read == [first.call]
    for _ in range(5):
        session.test(chary.count(), above=10**6, epsilon="0.001")
    session.append(rows(20))
    second = schedule.ask()
    assert [schedule.state.latest, schedule.state.latest, *schedule.state.results] == [second, second, first, second]
    assert read == [first.call, second.call]


def test_a_run_that_was_interrupted_is_all_that_is_read_again(session, monkeypatch):
    """It stays under way for ever; the calls after it are read once all the same."""
    schedule = session.start(Rerun(BOX, epsilon="0.1", beta="0.05", growth="0.1"))

    def interrupt(step):
        if step == "reserved":
            raise KeyboardInterrupt

    with monkeypatch.context() as killed:
        killed.setattr(session.spine.ledger, "void", lambda _: None)
        quiet = session.spine.on_step
        object.__setattr__(session.spine, "on_step", interrupt)
        with pytest.raises(KeyboardInterrupt):
            schedule.ask()
        object.__setattr__(session.spine, "on_step", quiet)
    done = schedule.ask()
    session.test(chary.count(), above=10**6, epsilon="0.001")
    assert schedule.state.results == [done]
    read, calls = [], session.spine.ledger.calls
    monkeypatch.setattr(
        session.spine.ledger,
        "calls",
        lambda *given, **more: (read.append(call) or call for call in calls(*given, **more)),
    )
    assert schedule.state.results == [done]
    assert read == []


def test_a_run_that_another_process_is_at_is_not_forgotten(session):
    """Its call is there before its answer is; calls after it may be settled by then."""
    schedule = session.start(Rerun(BOX, epsilon="0.1", beta="0.05", growth="0.1"))
    seen = []

    def look(step):
        if step == "reserved" and not seen:
            seen.append(None)
            session.test(chary.count(), above=10**6, epsilon="0.001")
            seen[0] = schedule.state.results

    object.__setattr__(session.spine, "on_step", look)
    done = schedule.ask()
    assert seen == [[]]
    assert schedule.state.results == [done]
