"""Steps of a continual count while rows arrive: on every append, after restarts, beside others that step."""

import threading
from itertools import pairwise

import polars as pl
import pytest

from chary import BudgetExceeded, LedgerMismatch, SchemaMismatch
from chary.calls import ContinualCount
from chary.ledger import SecretMoved
from tests.calls.growing.continual_streams import EXACT, WARDS, exactly, rows
from tests.session.kit import NO_NOISE


def test_used_up_steps_are_refused_with_what_to_call_and_appending_goes_on(grown):
    session = grown()
    counting = session.start(ContinualCount(steps=2, epsilon="0.1"), follow=True)
    session.append(rows(100, 110))
    told = counting.state.results
    assert [(step.step, step.size) for step in told] == [(1, 100), (2, 110)]
    before = len(session.history)
    with pytest.raises(
        BudgetExceeded, match=r"all 2 steps .* session\.start\(ContinualCount\(\.\.\., steps=\.\.\.\)\)"
    ):
        counting.ask()
    session.append(rows(110, 120))
    assert len(session.history) == before
    assert counting.follow() is None
    assert counting.state.results == told


def test_appending_steps_once_a_batch_and_a_repeated_one_does_not(grown):
    session = grown()
    by_hand = session.start(ContinualCount(steps=9, epsilon="0.1"))
    by_itself = session.start(ContinualCount(steps=9, epsilon="0.1"), follow=True)
    for _ in range(2):
        session.append(rows(100, 110), request="monday")
    assert [told.size for told in by_itself.state.results] == [100, 110]
    again = session.resume(by_itself.call, follow=True)
    assert again.state.steps_left == 7
    session.append(rows(110, 111))
    assert [told.size for told in again.state.results] == [100, 110, 111]
    assert by_hand.state.results == []
    assert by_hand.ask().step == 1


def test_another_step_in_between_makes_it_the_next_step(grown, tmp_path):
    """The run of the slower one is thrown away and repeated: two steps, told once each."""
    place, meanwhile = tmp_path / "wards.ledger", []

    def interfere(step):
        if step == "ran" and meanwhile:
            meanwhile.pop()(request="other")

    session = grown(ledger=place, on_step=interfere, budget=NO_NOISE)
    counting = session.start(ContinualCount(steps=9, epsilon=10**5))
    other = grown(ledger=place, budget=NO_NOISE).resume(counting.call)
    meanwhile.append(other.ask)
    assert counting.ask().step == 2
    assert [(told.step, told.value) for told in other.state.results] == [(1, 100), (2, 100)]
    assert session.spine.ledger.verify().ok


def test_another_follower_in_between_leaves_nothing_to_do(grown, tmp_path):
    place, meanwhile = tmp_path / "wards.ledger", []

    def interfere(step):
        if step == "ran" and meanwhile:
            meanwhile.pop()()

    session = grown(ledger=place, on_step=interfere)
    counting = session.start(ContinualCount(steps=9, epsilon="0.1"))
    meanwhile.append(grown(ledger=place).resume(counting.call).follow)
    assert counting.follow() is None
    assert [told.step for told in counting.state.results] == [1]


def test_data_that_shrank_are_refused(grown, tmp_path):
    place = tmp_path / "wards.ledger"
    small, large = grown(100, ledger=place), grown(100, ledger=place)
    counting = large.start(ContinualCount(steps=9, epsilon="0.1"))
    large.append(rows(100, 150))
    counting.ask()
    with pytest.raises(LedgerMismatch, match="150 rows before and these are 100: a stream never shrinks"):
        small.resume(counting.call).ask()
    assert counting.state.steps_left == 8


@pytest.mark.parametrize("terms", EXACT)
def test_a_count_that_falls_is_told_as_it_is(grown, tmp_path, terms):
    """Against the assumption that rows never change: no error may depend on what is in them."""
    place, budget = tmp_path / "wards.ledger", NO_NOISE
    session = grown(100, ledger=place, budget=budget)
    counting = session.start(ContinualCount("ward = 0", steps=9, **terms))
    assert counting.ask().value == 34
    changed = grown(pl.DataFrame({"ward": [1] * 100}), ledger=place, budget=budget)
    again = changed.resume(counting.call)
    assert (again.ask().value, again.ask().value) == (0, 0)


def test_rows_that_another_process_appended_to_its_own_copy_are_missed(grown, tmp_path):
    """A step without them would use up the version that they brought, and their own follower would find nothing new."""
    place = tmp_path / "wards.ledger"
    stale, ahead = grown(100, ledger=place, budget=NO_NOISE), grown(100, ledger=place, budget=NO_NOISE)
    counting = ahead.start(ContinualCount(steps=9, epsilon=10**5))
    ahead.append(rows(100, 150))
    behind = stale.resume(counting.call)
    for ask in (behind.ask, behind.follow):
        with pytest.raises(LedgerMismatch, match=r"150 rows before and these are 100: .* open the dataset with all"):
            ask()
    told = counting.follow()
    assert (told.step, told.size, told.value) == (1, 150, 150)


@pytest.mark.parametrize(
    ("error", "told"),
    [(SecretMoved("ask again"), r"SecretMoved: ask again\."), (ValueError("17 rows"), r"ValueError\.")],
)
def test_a_follower_that_fails_stops_neither_the_append_nor_the_others(grown, error, told):
    armed = []

    def fail(step):
        if armed and step == "asked":
            raise armed.pop()

    session = grown(on_step=fail)
    first, second = (session.start(ContinualCount(steps=9, epsilon="0.1"), follow=True) for _ in range(2))
    armed.append(error)
    with pytest.warns(
        RuntimeWarning, match=f"version 2: do not append .* of the 2 that follow, 1 failed: {told}"
    ) as seen:
        assert session.append(rows(100, 110)) == 2
    assert seen[0].filename == __file__
    assert [[told.size for told in each.state.results] for each in (first, second)] == [[100], [100, 110]]
    session.append(rows(110, 120))
    assert [[told.size for told in each.state.results] for each in (first, second)] == [[100, 120], [100, 110, 120]]


def test_an_append_that_fails_is_followed_by_nothing_and_the_next_one_by_a_step(grown):
    session = grown()
    counting = session.start(ContinualCount(steps=9, epsilon="0.1"), follow=True)
    with pytest.raises(SchemaMismatch):
        session.append(pl.DataFrame({"clinic": ["north"]}))
    assert (counting.state.steps_left, session.size) == (8, 100)
    session.append(rows(100, 110))
    assert [told.size for told in counting.state.results] == [100, 110]


def test_an_interruption_of_what_follows_goes_through(grown):
    session, stops = grown(), [KeyboardInterrupt()]
    counting = session.start(ContinualCount(steps=9, epsilon="0.1"), follow=True)

    def stop():
        raise stops.pop()

    session._followers.insert(0, stop)
    with pytest.raises(KeyboardInterrupt):
        session.append(rows(100, 110))
    assert (session.size, counting.state.steps_left) == (110, 8)
    assert counting.follow().size == 110


def test_rows_of_secret_size_found_at_an_opening_are_no_arrival_and_told_by_a_step(grown, tmp_path):
    options = {"ledger": tmp_path / "wards.ledger", "neighbors": "add_remove", "budget": NO_NOISE}
    counting = grown(100, **options).start(ContinualCount(steps=9, epsilon=10**5), follow=True)
    again = grown(160, **options).resume(counting.call, follow=True)
    assert [told.value for told in again.state.results] == [100]
    assert again.ask().value == 160


@pytest.mark.parametrize("neighbors", ["replace", "add_remove"])
def test_steps_beside_appends_of_another_thread_never_lose_a_row(grown, neighbors):
    """Whatever a step reads, the next one reads too, and after the last append everything was told."""
    session, batches = grown(neighbors=neighbors, budget=NO_NOISE), 25
    counting = session.start(ContinualCount(WARDS, steps=5000, epsilon=10**7), follow=True)

    def append():
        for batch in range(batches):
            session.append(rows(100 + 7 * batch, 107 + 7 * batch))

    thread = threading.Thread(target=append)
    thread.start()
    while thread.is_alive():
        counting.ask()
    told = counting.state.results
    assert [each.step for each in told] == list(range(1, len(told) + 1))
    for before, after in pairwise(told):
        assert all(here <= there for here, there in zip(before.values, after.values, strict=True))
    assert len(told) >= batches
    assert counting.ask().values == exactly(100 + 7 * batches)
    assert session.spine.ledger.verify().ok
