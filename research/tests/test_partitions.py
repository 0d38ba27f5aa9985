"""Ranges of weeks: noise of sums, moments, what each week is charged, and trees of PMW beside those of the library."""

from datetime import date, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest

import chary
from chary.calls import PMW, Release
from chary.data import blocks as periods
from chary.growth import HistogramTree
from chary.noise import Seeded
from chary_research import partitions
from chary_research.partitions import CellsOnce, Partitioned, PMWTree, TurboTree, WholeRanges, laplace_of
from chary_research.workloads import covid_tests

KNOWN = Partitioned(covid_tests(400), 4)
COUNTS = KNOWN.counts(3)
GIVEN = (KNOWN, COUNTS, 0.05, 0.001, 5)
CLEAR = {"budget": "1000000", "hits": 50, "rows": 200}


def test_how_far_sums_of_laplace_noises_are():
    draw = np.random.default_rng(1)
    for nodes in (1, 2, 3, 6):
        assert sum(part for _, part in partitions._mixture(nodes)) == pytest.approx(1)
        sums = np.abs(draw.laplace(size=(200_000, nodes)).sum(axis=1))
        # 200 of 200,000 are beyond, give or take 6 times 14.
        assert 116 < np.sum(sums > laplace_of(nodes, 0.001)) < 284


def test_counts_of_ranges_are_sums_over_their_weeks():
    answering = WholeRanges(*GIVEN)
    for number in (0, 777, 34_424):
        place = KNOWN.workload.place(KNOWN.workload.pool[number])
        truth = sum(int(COUNTS[week][place].sum()) for week in (1, 2))
        assert answering.counted(number, (1, 2)) == truth
        assert answering.truth(number, (1, 2)) == truth / COUNTS[1:3].sum()
    assert COUNTS.reshape(4, -1).sum(axis=1).tolist() == [520, 280, 520, 280]


def test_streams_ask_what_is_there():
    arriving = list(KNOWN.stream(400, 1, 2, arriving=True))
    assert all(last == place // 100 and 0 <= first <= last for place, (_, (first, last)) in enumerate(arriving))
    random = list(KNOWN.stream(400, 1, 2, arriving=False))
    assert {span for _, span in random} == {(first, last) for first in range(4) for last in range(first, 4)}
    assert [number for number, _ in random] == [number for number, _ in arriving]


@pytest.mark.parametrize("made", [WholeRanges, TurboTree])
def test_a_range_is_charged_in_its_weeks_and_again_is_free(made):
    answering = made(*GIVEN)
    first = answering.ask(9, (1, 2))
    used = answering.used()
    assert used[[0, 3]].tolist() == [0, 0]
    assert used[1] > 0
    assert answering.ask(9, (1, 2)) == first
    assert answering.used().tolist() == used.tolist()


def test_a_tree_of_turbo_trusts_what_learned_and_pays_for_its_checks():
    answering = TurboTree(*GIVEN)
    answering._bypass = partitions.BYPASSES["rides"]
    answering._bypass = type(answering._bypass)(1, 1, ((0, 2.0),), 0.0)
    whole = KNOWN.workload.pool.index(tuple(tuple(range(size)) for size in KNOWN.workload.sizes))
    answering._count(7, (0, 3), 1.0, KNOWN.workload.place(KNOWN.workload.pool[whole]))
    before = answering.used()
    answering.ask(11, (0, 3))
    assert answering.resets >= 1
    assert np.all(answering.used() > before)
    # A larger node starts from its children, once both are there.
    warm = TurboTree(*GIVEN, warm=True)
    for week in (0, 1):
        warm._count(5, (week, week), 10.0, KNOWN.workload.place(KNOWN.workload.pool[5]))
    mean = (warm._nodes[0, 0].weights + warm._nodes[1, 1].weights) / 2
    assert warm._opened((0, 1)).weights == pytest.approx(mean)
    assert warm._opened((2, 2)).weights == pytest.approx(warm._nodes[1, 1].weights)
    assert len(set(warm._opened((2, 3)).weights.ravel())) == 1


def test_all_cells_once_are_as_near_as_wanted():
    answering = CellsOnce(*GIVEN)
    off = [abs(answering.ask(n, s) - answering.truth(n, s)) for n, s in KNOWN.stream(300, 0, 1, arriving=False)]
    assert np.sum(np.array(off) > 0.05) <= 5


@pytest.mark.parametrize("update", ["projected", "refitted"])
def test_a_tree_of_pmw_is_that_of_the_library(monkeypatch, update):
    """Practically without noise: the same answers, charged the same, in the same weeks."""
    monkeypatch.setattr(periods, "now", lambda: datetime(2024, 2, 1))
    tables = [KNOWN.workload.table(counts) for counts in COUNTS]
    days = [date(2024, 1, 1) + timedelta(weeks=week) for week, table in enumerate(tables) for _ in range(len(table))]
    rows = pa.concat_tables(tables).append_column("day", pa.array(days, pa.date32()))
    budget = chary.Budget(epsilon=CLEAR["budget"], delta="1e-6")
    rule = chary.Blocks("day", every="week", since="2024-W01")
    options = {"privacy_unit": None, "budget": budget, "ledger": ":memory:", "blocks": rule}
    asked = list(KNOWN.stream(25, 1, 4, arriving=False))
    with chary.open(rows, **options, unsafe_noise=Seeded(1)) as session:
        call = PMW(
            universe=KNOWN.workload.universe, alpha="0.047", hits=CLEAR["hits"], rows=CLEAR["rows"], update=update
        )
        tree = HistogramTree(session, call, size=Release(chary.count(), rho=100))
        ours = PMWTree(*GIVEN, **CLEAR, alpha="0.047", update=update, size="100")
        for number, (first, last) in asked:
            where = KNOWN.workload.condition(KNOWN.workload.pool[number])
            found = tree.ask(where, f"2024-W0{first + 1}", f"2024-W0{last + 1}", request=where)
            assert ours.ask(number, (first, last)) == pytest.approx(found.share, rel=1e-9, abs=1e-12)
        spent = list(session.spent_by_block.values())[:4]
        shares = [float(session.spine.filter.shares.taken(charged)) for charged in ours.charged]
        assert shares == pytest.approx(spent)
        assert ours.hard == sum(run.state.standing().hard for run in tree.nodes.values()) > 5
