"""Small databases in a session: best without noise, as accurate as told, the same after a restart."""

import math
from itertools import combinations_with_replacement

import numpy as np
import pandas as pd
import pytest

import chary
from chary import Bins, Budget, BudgetExceeded, InvalidParameter, count
from chary.accounting import Pure, ZeroConcentrated
from chary.accounting.synthesis import coarseness_up
from chary.calls import SmallDatabase
from chary.calls.synthesis import Workload
from chary.data import Predicate
from chary.noise import Seeded
from tests.calls.synthesis.small_database_kit import QUERIES, small
from tests.calls.weights.weighting_kit import UNIVERSE, true_share
from tests.session.kit import CLINICS, NO_NOISE, PLENTY, spent, visits


def error(made, frame):
    return max(abs(made.share(text) - true_share(frame, text)) for text in QUERIES)


@pytest.mark.parametrize("measure", ["classes", "databases"])
def test_without_noise_it_is_the_best_there_is(rows, measure):
    session, frame = rows(budget=NO_NOISE, filter="pure"), visits()
    made = small(session, epsilon=4 * PLENTY, measure=measure)
    truths = np.array([true_share(frame, text) for text in QUERIES])
    holds = np.array([[north, middle, other] for north in (0, 1) for middle in (0, 1) for other in (0, 1)])
    possible = holds[[not (north and other and middle) for north, middle, other in holds]]
    each = combinations_with_replacement(range(len(possible)), 6)
    least = min(float(np.abs(possible[list(database)].mean(axis=0) - truths).max()) for database in each)
    assert error(made, frame) == pytest.approx(least)
    assert error(made, frame) <= made.error_bar <= coarseness_up(rows=6, queries=3) + 1e-3
    assert (made.rows, len(made.cells)) == (6, 6)


@pytest.mark.statistical
@pytest.mark.parametrize("measure", ["classes", "databases"])
def test_errors_are_within_the_bar(rows, measure):
    """A bar of 95 % would be missed 15 times in 60 with a chance of 2e-7 only."""
    session, frame = rows(budget=Budget(epsilon=10**6), filter="pure", unsafe_noise=Seeded(11)), visits()
    made = [small(session, epsilon="1.5", rows=4, measure=measure) for _ in range(60)]
    missed = sum(error(one, frame) > one.error_bar for one in made)
    assert made[0].error_bar < 1
    assert missed < 15
    assert len({one.cells for one in made}) > 20


def test_a_repeated_request_is_the_same_after_a_restart_and_growth(rows, tmp_path):
    place = {"ledger": tmp_path / "visits.ledger", "dataset": "visits"}
    first = rows(**place)
    made, paid = small(first, rows=None, request="monday"), spent(first)
    first.close()
    again = rows(**place)
    again.append(pd.concat([visits()] * 20))
    repeated = small(again, rows=None, request="monday")
    assert repeated == made
    assert repr(repeated) == repr(made)
    assert repeated.share(QUERIES[0]) == made.share(QUERIES[0])
    assert spent(again) == paid
    assert small(again, rows=None).rows > made.rows


def test_it_is_read_once_and_free_afterwards(rows):
    seen = []
    session = rows(on_step=seen.append)
    made, paid = small(session), spent(session)
    seen.clear()
    table = made.table()
    assert made.share(None) == 1
    assert made.share("clinic IN ('north', 'south', 'east') OR clinic IS NULL") == 1
    assert made.share(Predicate.parse(QUERIES[0])) == made.share(count(QUERIES[0])) == made.share(QUERIES[0])
    assert (table.num_rows, table.column_names) == (6, ["clinic", "age"])
    assert seen == []
    assert spent(session) == paid


def test_the_table_has_the_shares_it_tells(rows):
    made = small(rows(), rows=40, queries=QUERIES[:1])
    frame = made.table().to_pandas()
    for text in QUERIES:
        assert true_share(frame, text) == pytest.approx(made.share(text))
    assert made.share("clinic IS NULL") == frame.clinic.isna().mean() > 0
    assert made.table(seed=1) != made.table() == made.table(seed=0)
    assert frame.age.dropna().between(20, 80).all()
    with pytest.raises(InvalidParameter):
        made.table(seed=-1)


def test_keyed_counts_are_a_query_for_each_key(rows):
    session = rows(budget=NO_NOISE, filter="pure")
    made = small(session, queries=count().by("clinic", CLINICS), epsilon=4 * PLENTY, rows=30)
    listed = small(session, queries=[count(f"clinic = '{clinic}'") for clinic in CLINICS], rows=30)
    bodies = [entry.question["queries"] for entry in session.history]
    assert bodies[0] == bodies[1] == [f"clinic = '{clinic}'" for clinic in CLINICS]
    for clinic in CLINICS:
        assert made.share(f"clinic = '{clinic}'") == pytest.approx(
            true_share(visits(), f"clinic == '{clinic}'"), abs=1 / 30
        )
    assert listed.rows == 30


def test_equal_queries_count_once(rows):
    session = rows()
    small(session, queries=[QUERIES[0], "clinic   =  'north'", QUERIES[1]])
    assert session.history[-1].question["queries"] == QUERIES[:2]


def test_sizes_are_those_of_alpha_or_the_best(rows):
    session = rows(budget=NO_NOISE)
    assert small(session, rows=None, alpha="0.4").rows == math.ceil(math.log(3) / 0.4**2)
    assert session.history[-1].question["rows"] == 7
    best = small(session, queries=QUERIES[:1], rows=None, epsilon=1)
    assert session.history[-1].question["rows"] is None
    for other in (best.rows - 1, best.rows + 1):
        assert small(session, queries=QUERIES[:1], rows=other, epsilon=1).error_bar > best.error_bar
    assert small(session, queries=QUERIES[:1], rows=None, epsilon=2).rows > best.rows > 1
    with pytest.raises(InvalidParameter, match="rows= or alpha="):
        small(session, alpha="0.4")


def test_the_best_size_of_the_published_law_is_one_that_can_be_weighed(rows):
    """At epsilon 10^5 hundreds of rows promise least, and numbers of so many multisets take minutes to weigh."""
    session = rows(budget=NO_NOISE)
    wide = {"universe": {"cost": Bins(range(4001)), "age": Bins(range(91))}, "queries": ["age >= 30"], "rows": None}
    sizes = [small(session, **wide, epsilon=10**5, measure=measure).rows for measure in ("databases", "classes")]
    assert 40 < sizes[0] < 100 < sizes[1]


def test_it_costs_the_lower_of_its_two_prices(rows):
    plenty = Budget(epsilon=1, delta=1e-6)
    session = rows(budget=plenty)
    small(session, epsilon="0.2")
    filter_ = session.spine.filter
    assert spent(session) == filter_.price(ZeroConcentrated("0.005")).hit
    assert spent(session).main < filter_.price(Pure("0.2")).hit.main
    pure = rows(budget=Budget(epsilon=1))
    small(pure, epsilon="0.2")
    assert pure.spent.share == pytest.approx(0.2)
    with pytest.raises(BudgetExceeded):
        small(pure, epsilon="0.9")


def test_a_quote_tells_the_shortfall_and_the_error_bar_is_public(rows):
    session = rows(budget=NO_NOISE)
    quoted = session.quote(SmallDatabase(universe=UNIVERSE, queries=QUERIES, epsilon=1, rows=6))
    made = small(session, epsilon=1, rows=6)
    classes = len(Workload.of(UNIVERSE, QUERIES, session.schema).classes.sizes)
    assert made.error_bar == pytest.approx(min(1, quoted.shortfall + coarseness_up(rows=6, queries=3, classes=classes)))
    assert small(session, epsilon=1, rows=6).error_bar == made.error_bar


def test_rows_outside_the_universe_add_no_more_than_their_share(rows):
    frame = visits()
    session = rows(budget=NO_NOISE, filter="pure")
    universe = chary.Universe({"clinic": ["north", "south"]}, missing=False)
    made = small(session, universe=universe, queries=["clinic = 'north'", "clinic = 'south'"], epsilon=4 * PLENTY)
    off = max(abs(made.share(f"clinic = '{c}'") - true_share(frame, f"clinic == '{c}'")) for c in ("north", "south"))
    east = true_share(frame, "clinic == 'east'")
    assert 0 < off <= made.error_bar + east


def test_a_row_that_moves_changes_each_count_by_one_at_most(rows):
    """The sensitivity of what is read, through the engine: NULL, undeclared and declared values alike."""
    workload = Workload.of(UNIVERSE, QUERIES, rows().schema)
    frame = visits()[["clinic", "age"]]
    counts = []
    for clinic, age in (("north", 44.0), (None, None), ("west", 7.0), ("east", 25.0)):
        moved = pd.concat([frame.iloc[:-1], pd.DataFrame({"clinic": [clinic], "age": [age]})])
        session = rows(moved.astype({"age": "Int64"}))
        counts.append([session.spine.rows.prepare(query).run() for query in (*workload.counts, count())])
        session.close()
    assert np.ptp(np.array(counts), axis=0).tolist() == [1, 1, 1, 0]
