"""Trees of histograms over blocks: which nodes answer, what each block is charged, restarts, crashes and refusals."""

import threading
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from datetime import date, datetime, timedelta

import pyarrow as pa
import pytest

from chary import Blocks, Budget, Session, Universe, count
from chary.calls import PMW, Release
from chary.data import average
from chary.data import blocks as periods
from chary.errors import BudgetExceeded, InvalidParameter, InvalidQuery
from chary.growth import HistogramTree
from chary.growth.trees import spans
from chary.noise import Seeded
from tests.session.kit import NO_NOISE, PLENTY, sessions

CELLS = Universe({"age": [0, 1, 2, 3], "ill": [0, 1]}, missing=False)
CALL = PMW(universe=CELLS, alpha="0.1", epsilon=PLENTY, rows=100)
SIZE = Release(count(), epsilon=PLENTY)
RELEASED = Release(count(), epsilon=20)
CLEAR = Budget(epsilon=1000, delta=1e-6)
ASKED = ["ill = 1", "age = 0", "ill = 1 AND age IN (0, 1)", average("age", bounds=(0, 3))]


def ill_in(week, more=0):
    """How many of the hundred rows and more of a week are ill."""
    return 10 + 5 * week + more


def weeks_of(weeks, more=None):
    """A hundred rows of each week; of some weeks `more` are there, all of them ill."""
    parts = []
    for week in weeks:
        added = (more or {}).get(week, 0)
        rows, ill = 100 + added, ill_in(week, added)
        parts.append(
            pa.table(
                {
                    "day": pa.array([date(2024, 1, 1) + timedelta(weeks=week)] * rows, pa.date32()),
                    "age": [row % 4 for row in range(rows)],
                    "ill": [int(row < ill) for row in range(rows)],
                }
            )
        )
    return pa.concat_tables(parts)


@pytest.fixture
def weekly(monkeypatch):
    at = {"now": datetime(2024, 2, 26)}  # the ninth week, of which there are no rows yet
    monkeypatch.setattr(periods, "now", lambda: at["now"])
    rule = Blocks("day", every="week", since="2024-W01")
    with sessions(privacy_unit=None, blocks=rule) as make:

        def opened(rows=None, **options):
            return make(weeks_of(range(8)) if rows is None else rows, **options)

        opened.clock = at
        yield opened


def exactly(weekly, *, warm=True, **options):
    """A session practically without noise, and a tree of it."""
    session = weekly(budget=NO_NOISE, filter="pure", **options)
    return session, HistogramTree(session, CALL, size=SIZE, warm=warm)


# Nodes


def test_the_fewest_nodes_make_up_a_range():
    aligned = [(k << level, ((k + 1) << level) - 1) for level in range(6) for k in range(33)]
    for first in range(33):
        fewest = {first - 1: 0}
        for last in range(first, 33):
            fewest[last] = min(fewest[low - 1] + 1 for low, high in aligned if high == last and low >= first)
            found = list(spans(first, last))
            assert len(found) == fewest[last] <= 2 * (last - first + 2).bit_length()
            assert all(node in aligned for node in found)
            assert [place for low, high in found for place in range(low, high + 1)] == list(range(first, last + 1))


def test_an_answer_is_put_together_of_its_nodes(weekly):
    _, tree = exactly(weekly)
    found = tree.ask("ill = 1", "2024-W02", "2024-W07")
    ends = [(node.since[-2:], node.until[-2:], node.rows) for node in found.nodes]
    assert ends == [("02", "02", 100), ("03", "04", 200), ("05", "06", 200), ("07", "07", 100)]
    truth = sum(map(ill_in, range(1, 7)))
    assert (found.rows, found.count, found.share) == (600, pytest.approx(truth), pytest.approx(truth / 600))
    assert found.verified
    assert float(found) == found.share
    assert list(tree.nodes) == [(node.since, node.until) for node in found.nodes]
    again = tree.ask("ill = 1", "2024-W02", "2024-W07")
    assert again.hard == 0
    assert again.error_bar == pytest.approx(2 / 30, abs=0.01)
    assert abs(again.share - found.share) < again.error_bar
    assert [len(tree.ask(None).nodes), tree.ask(None).share] == [1, pytest.approx(1)]


def test_each_block_is_charged_its_own_hard_nodes_and_its_size(weekly):
    session, tree = exactly(weekly)
    hard = dict.fromkeys(session.spent_by_block, 0)
    for where in ASKED:
        for since, until in [("2024-W01", "2024-W03"), ("2024-W03", "2024-W08"), ("2024-W05", "2024-W05")]:
            for node in tree.ask(where, since, until).nodes:
                # A node of m blocks has the same accuracy at the m-th part of the epsilon.
                inside = [name for name in hard if node.since <= name <= node.until]
                for name in inside:
                    hard[name] += 1 / len(inside)
    # Where misses are charged, as here, each question is, hard or not; the size is one more of the same epsilon.
    one = session.spent_by_block["2024-W05"] / (hard["2024-W05"] + 1)
    sized = {name for name, times in hard.items() if times}
    assert sized == {f"2024-W0{week}" for week in range(1, 9)}
    for name, share in session.spent_by_block.items():
        assert share == pytest.approx(one * (hard[name] + (name in sized)))


def test_a_row_of_one_block_changes_nothing_elsewhere(weekly):
    told = []
    for more in ({}, {0: 1}, {0: 60}):
        session, tree = exactly(weekly, warm=False, rows=weeks_of(range(8), more))
        for where in ASKED:
            tree.ask(where, "2024-W01", "2024-W07")
        others = {
            ends: (run.state.histogram().tobytes(), run.law.size)
            for ends, run in tree.nodes.items()
            if ends[0] != "2024-W01"
        }
        spent = session.spent_by_block
        told.append((others, {name: spent[name] for name in spent if name > "2024-W04"}))
        assert len(others) == 2
    assert told[0] == told[1] == told[2]


@pytest.mark.parametrize("update", ["projected", "refitted"])
def test_answers_are_within_what_their_bars_say(weekly, update):
    session = weekly(pa.concat_tables([weeks_of(range(8))] * 40), budget=CLEAR, unsafe_noise=Seeded(8))
    tree = HistogramTree(session, replace(CALL, epsilon=None, hits=4000, update=update), size=RELEASED)
    for where, part in [("ill = 1", 1), ("ill = 0", 0), ("age = 0 AND ill = 1", None)]:
        for first in range(0, 8, 2):
            for last in range(first, 8):
                found = tree.ask(where, f"2024-W0{first + 1}", f"2024-W0{last + 1}")
                ill = [ill_in(week) for week in range(first, last + 1)]
                truth = {1: sum(ill), 0: 100 * len(ill) - sum(ill), None: sum(-(-each // 4) for each in ill)}[part]
                assert abs(found.share - truth / (100 * len(ill))) < 0.1
                assert found.verified


# Warm starts


def test_a_new_node_starts_from_the_nearest_that_has_learned(weekly):
    session, tree = exactly(weekly)
    tree.ask("ill = 1", "2024-W01", "2024-W01")
    tree.ask("ill = 1", "2024-W08", "2024-W08")
    tree.ask("ill = 1", "2024-W03", "2024-W03")
    started = {ends: PMW.recorded(run._terms).warm_start for ends, run in tree.nodes.items()}
    calls = {ends[0][-2:]: run.call for ends, run in tree.nodes.items()}
    assert [started[f"2024-W0{week}", f"2024-W0{week}"] for week in (1, 8, 3)] == [None, calls["01"], calls["01"]]
    cold = HistogramTree(session, CALL, size=SIZE, warm=False)
    cold.ask("ill = 1", "2024-W01", "2024-W02")
    assert {run.call for run in cold.nodes.values()}.isdisjoint(run.call for run in tree.nodes.values())
    assert all(PMW.recorded(run._terms).warm_start is None for run in cold.nodes.values())


# Restarts, crashes, growth


def test_a_tree_goes_on_after_a_restart(weekly, tmp_path):
    place = tmp_path / "tests.ledger"
    with weekly(budget=CLEAR, ledger=place, unsafe_noise=Seeded(1)) as session:
        call = replace(CALL, epsilon="5")
        tree = HistogramTree(session, call, size=RELEASED)
        first = tree.ask("ill = 1", "2024-W01", "2024-W07", request="once")
        kept = {ends: (run.call, run.state.histogram().tobytes()) for ends, run in tree.nodes.items()}
        spent, calls = session.spent_by_block, len(session.history)
        # Another process, at the same time.
        other = HistogramTree(session, call, size=RELEASED)
        assert other.ask("ill = 1", "2024-W01", "2024-W07", request="once") == first
    session = weekly(budget=CLEAR, ledger=place)
    again = HistogramTree(session, call, size=RELEASED)
    assert {ends: (run.call, run.state.histogram().tobytes()) for ends, run in again.nodes.items()} == kept
    found = again.ask("ill = 1", "2024-W01", "2024-W07", request="once")
    assert [node.answer.share for node in found.nodes] == [node.answer.share for node in first.nodes]
    assert (session.spent_by_block, len(session.history)) == (spent, calls)
    assert len(HistogramTree(session, replace(call, alpha="0.2"), size=RELEASED).nodes) == 0


@pytest.mark.parametrize("step", ["reserved", "evaluated", "ran", "settled"])
@pytest.mark.parametrize("dies", [1, 3, 4, 6])
def test_a_tree_whose_process_dies_is_gone_on_with(weekly, step, dies):
    """Whatever was under way: sizes that were settled and nodes that were opened stay what they are."""
    session, steps = weekly(budget=NO_NOISE, filter="pure"), []

    def broken(reached):
        steps.append(reached)
        if steps.count(step) == dies and reached == step:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        HistogramTree(Session(replace(session.spine, on_step=broken)), CALL, size=SIZE).ask(
            "ill = 1", "2024-W01", "2024-W03"
        )
    released = [call.request for call in session.spine.ledger.calls("data") if call.request and "size" in call.request]
    opened = {ends: run.call for ends, run in HistogramTree(session, CALL, size=SIZE).nodes.items()}
    tree = HistogramTree(session, CALL, size=SIZE)
    found = tree.ask("ill = 1", "2024-W01", "2024-W03")
    assert found.share == pytest.approx(sum(map(ill_in, range(3))) / 300, abs=0.07)
    assert {ends: run.call for ends, run in tree.nodes.items()}.items() >= opened.items()
    assert len(tree.nodes) == 2
    assert len(set(released)) <= 3
    assert session.spine.ledger.verify().ok


def test_new_blocks_are_asked_once_they_are_over(weekly):
    session, tree = exactly(weekly)
    assert tree.ask("ill = 1").nodes[-1].until == "2024-W08"
    with pytest.raises(InvalidQuery, match=r"block 2024-W09 is not over, .*: ask until '2024-W08'"):
        tree.ask("ill = 1", until="2024-W09")
    with pytest.raises(InvalidQuery, match=r"block 2024-W09 is not over, and its size still changes$"):
        tree.ask("ill = 1", "2024-W09", "2024-W09")
    session.append(weeks_of([8]))
    weekly.clock["now"] = datetime(2024, 3, 4)
    found = tree.ask("ill = 1")
    assert [(node.since, node.until) for node in found.nodes] == [("2024-W01", "2024-W08"), ("2024-W09", "2024-W09")]
    assert found.share == pytest.approx(sum(map(ill_in, range(9))) / 900, abs=0.07)


def test_closed_blocks_are_asked_no_more(weekly):
    rule = Blocks("day", every="week", since="2024-W01", kept=4)
    session = weekly(budget=NO_NOISE, filter="pure", blocks=rule)
    tree = HistogramTree(session, CALL, size=SIZE)
    assert [node.since for node in tree.ask("ill = 1").nodes] == ["2024-W06", "2024-W07"]
    weekly.clock["now"] = datetime(2024, 3, 11)
    later = HistogramTree(session, CALL, size=SIZE)
    assert list(later.nodes) == []
    assert [node.since for node in later.ask("ill = 1").nodes] == ["2024-W08", "2024-W09"]


# Refusals


@pytest.mark.parametrize(
    ("how", "error", "told"),
    [
        ({"call": replace(CALL, rows=None)}, InvalidParameter, "rows=10_000"),
        ({"call": replace(CALL, warm_start=5)}, InvalidParameter, "the tree says warm_start="),
        ({"call": PMW(prepaid=True, universe=CELLS, alpha="0.1", epsilon=1)}, InvalidParameter, "not prepaid"),
        ({"call": SIZE}, InvalidParameter, "give a PMW"),
        ({"call": replace(CALL, universe={"visits": [0, 1]})}, InvalidQuery, "visits"),
        ({"size": Release(count("ill = 1"), epsilon=1)}, InvalidParameter, "a release of all rows"),
        ({"size": Release(count().by("ill", [0, 1]), epsilon=1)}, InvalidParameter, "a release of all rows"),
        ({"size": 100}, InvalidParameter, "a release of all rows"),
        ({"privacy_unit": "age"}, InvalidQuery, "number of rows is secret"),
        ({"blocks": None}, InvalidQuery, "a tree is over blocks: chary.open"),
    ],
)
def test_trees_that_cannot_be_made_are_refused(weekly, how, error, told):
    options = {name: how[name] for name in ("privacy_unit", "blocks") if name in how}
    session = weekly(budget=NO_NOISE, filter="pure", **options)
    with pytest.raises(error, match=told):
        HistogramTree(session, how.get("call", CALL), size=how.get("size", SIZE))
    assert session.history == []


@pytest.mark.parametrize(
    "asked",
    [
        ("age = 7",),
        ("ill >",),
        ("ill = 1", "2023-W50"),
        ("ill = 1", "2024-W05", "2024-W02"),
        ("ill = 1", "2024-W02", "2024-W20"),
        (count().by("ill", [0, 1]),),
    ],
)
def test_questions_that_cannot_be_right_are_refused_before_anything_is_charged(weekly, asked):
    session, tree = exactly(weekly)
    with pytest.raises(InvalidQuery):
        tree.ask(*asked)
    assert session.history == []


def test_a_block_that_is_spent_answers_alone_or_refuses(weekly):
    session = weekly(budget=Budget(epsilon=1, delta=1e-6), unsafe_noise=Seeded(5))
    tree = HistogramTree(session, replace(CALL, epsilon=None, hits=2), size=Release(count(), rho="0.0001"))
    for where in ("ill = 1", "age = 0", "age = 1 AND ill = 0", "ill = 0 AND age = 3"):
        tree.ask(where, "2024-W01", "2024-W01")
    left = session.blocks("2024-W01", "2024-W01")
    while left.quote(Release(count(), rho="0.01")).fits:
        left.release(count(), rho="0.01")
    alone = tree.ask("age = 2", "2024-W01", "2024-W02")
    assert not alone.verified
    assert alone.error_bar is None
    with pytest.raises(BudgetExceeded):
        tree.ask("age = 2", "2024-W01", "2024-W01", must_verify=True)


def spend(session, block):
    """Leave a block less than any answer of the tests costs."""
    left = session.blocks(block, block)
    for rho in ("0.02", "0.0001"):
        while left.quote(Release(count(), rho=rho)).fits:
            left.release(count(), rho=rho)


def test_no_block_is_charged_for_an_answer_that_another_one_refuses(weekly):
    session = weekly(budget=Budget(epsilon=1, delta=1e-6), unsafe_noise=Seeded(5))
    tree = HistogramTree(session, replace(CALL, epsilon=None, hits=4), size=Release(count(), rho="0.0001"))
    tree.ask("age < 4", "2024-W01", "2024-W03")
    spend(session, "2024-W03")
    before = session.spent_by_block
    with pytest.raises(BudgetExceeded, match="2024-W03"):
        tree.ask("ill = 1", "2024-W01", "2024-W03", must_verify=True)
    assert session.spent_by_block == before
    told = tree.ask("ill = 1", "2024-W01", "2024-W02", must_verify=True, request="told")
    assert told.hard == 1
    # What was answered is told again, and answers are in the order of time.
    with pytest.raises(BudgetExceeded, match="2024-W03"):
        tree.ask("ill = 1", "2024-W01", "2024-W03", must_verify=True, request="told")
    assert [node.until for node in tree.ask("ill = 1", "2024-W01", "2024-W03").nodes] == ["2024-W02", "2024-W03"]


def test_no_size_is_released_where_another_block_cannot_pay_for_its_own(weekly):
    session = weekly(budget=Budget(epsilon=1, delta=1e-6), unsafe_noise=Seeded(5))
    tree = HistogramTree(session, replace(CALL, epsilon=None, hits=2), size=Release(count(), rho="0.0001"))
    tree.ask("ill = 1", "2024-W02", "2024-W02")
    for block in ("2024-W02", "2024-W06"):
        spend(session, block)
    before = session.spent_by_block
    with pytest.raises(BudgetExceeded, match="2024-W06"):
        tree.ask("ill = 1", "2024-W01", "2024-W07")
    assert session.spent_by_block == before
    # A size that was released is not paid for again.
    assert not tree.ask("age = 0", "2024-W01", "2024-W02").verified


def test_a_node_is_opened_from_what_its_first_opening_named(weekly):
    """An opening that died, and one that runs elsewhere: what has learned since is not started from."""
    session, steps = weekly(budget=NO_NOISE, filter="pure"), []

    def broken(reached):
        steps.append(reached)
        if steps.count("ran") == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        HistogramTree(Session(replace(session.spine, on_step=broken)), CALL, size=SIZE).ask(
            "ill = 1", "2024-W02", "2024-W02"
        )
    tree = HistogramTree(session, CALL, size=SIZE)
    tree.ask("ill = 1", "2024-W01", "2024-W01")
    assert tree.ask("ill = 1", "2024-W02", "2024-W02").hard == 1
    assert not any(not change.hard for change in tree.nodes["2024-W02", "2024-W02"].state.changes)


@pytest.mark.parametrize("warm", ["here", "elsewhere"])
def test_two_processes_open_a_node_at_once_from_different_ones(weekly, tmp_path, warm):
    began, goes_on = threading.Event(), threading.Event()

    def waits(reached):
        if reached == "reserved" and slow:
            began.set()
            goes_on.wait(60)

    slow, place = [], tmp_path / "tests.ledger"
    session, other = (weekly(budget=CLEAR, ledger=place, **each) for each in ({"on_step": waits}, {}))
    trees = [HistogramTree(each, replace(CALL, epsilon="5"), size=RELEASED) for each in (session, other)]
    trees[0].ask("ill = 1", "2024-W01", "2024-W01")
    session.blocks("2024-W02", "2024-W02").ask(RELEASED, request=f"{trees[0]._key} size of 2024-W02")
    # One of them has not seen yet what has learned.
    trees[1 if warm == "here" else 0]._nearest = lambda node: None
    slow.append(True)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(trees[0].ask, "age = 0", "2024-W02", "2024-W02")
        assert began.wait(60)
        second = pool.submit(trees[1].ask, "age = 0", "2024-W02", "2024-W02")
        # It has to wait for the first, or to be refused meanwhile.
        wait([second], timeout=1)
        slow.clear()
        goes_on.set()
        assert [answered.result(60).nodes[0].rows for answered in (first, second)] == [first.result().rows] * 2
    calls = [{ends: run.call for ends, run in tree.nodes.items()} for tree in trees]
    assert calls[0] == calls[1]
