"""Several queries at once, and many sums of the cells of one, asked of a session."""

import itertools
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import chary
from chary import Budget, InvalidParameter, InvalidQuery, count, histogram, mean
from chary.accounting import Joint, Pure, ZeroConcentrated
from chary.calls import MatrixMechanism, Release, ReleaseAll
from chary.calls.releases import noises_together
from chary.data import NeighborRelation, RowTable
from chary.data.queries import overlap as joint_change
from chary.data.queries.overlap import JointChange
from chary.filters import PureFilter
from chary.report import report
from chary.session import findings
from tests.session.kit import CLINICS, NO_NOISE, PUBLIC, spent, visits

GROUPS = [count(f"age >= {low} AND age < {low + 10}") for low in range(0, 90, 10)]
COST = {"column": "cost", "grid": "0.5"}


def steps(row, low, high):
    """The clipped cost in half units."""
    return 2 * min(max(row["cost"], low), high)


# Each query, and its exact answers for a table of one row.
MIXED = [
    (count("age < 50"), lambda row: [row["age"] < 50]),
    (count("age >= 50"), lambda row: [row["age"] >= 50]),
    (
        count("age < 50", without="clinic = 'north'"),
        lambda row: [row["age"] < 50 and row["clinic"] != "north"],
    ),
    (
        chary.sum(bounds=(-2, 6), where="clinic = 'north'", **COST),
        lambda row: [(row["clinic"] == "north") * steps(row, -2, 6)],
    ),
    (chary.sum(bounds=(1, 3), **COST), lambda row: [steps(row, 1, 3)]),
    (
        count("age < 70").by("clinic", CLINICS[:2]),
        lambda row: [row["age"] < 70 and row["clinic"] == name for name in CLINICS[:2]],
    ),
    (histogram("age", bins=[0, 40, 80]), lambda row: [row["age"] < 40, 40 <= row["age"] < 80]),
]
ROWS = [
    {"age": age, "clinic": clinic, "cost": cost}
    for age, clinic, cost in itertools.product([20, 45, 60, 90], CLINICS, [-9.0, 2.0, 9.0])
]
SCHEMA = {"age": "int64", "clinic": "string", "cost": "float64"}


def every_move(pairs, neighbors):
    """How every row, or every pair of them, changes the queries, in multiples of their sensitivities."""
    single = [query.sensitivity(NeighborRelation(neighbors, None)) for query, _ in pairs]
    alone = [
        [np.array(exact(row), dtype=float) / each for (_, exact), each in zip(pairs, single, strict=True)]
        for row in ROWS
    ]
    if neighbors == "add_remove":
        return alone
    return [[a - b for a, b in zip(one, other, strict=True)] for one in alone for other in alone]


@pytest.mark.parametrize("row", ROWS[::5])
def test_the_answers_for_a_row_are_those_of_the_engine(row):
    columns = {"age": pa.int64(), "clinic": pa.string(), "cost": pa.float64()}
    rows = pa.table({name: pa.array([row[name]], kind) for name, kind in columns.items()})
    table = RowTable.open(rows, neighbor_relation=NeighborRelation("replace", None))
    for query, exact in MIXED:
        assert np.atleast_1d(table.prepare(query).run()).tolist() == exact(row)


@pytest.mark.parametrize("neighbors", ["add_remove", "replace"])
@pytest.mark.parametrize("numbers", [range(7), [0, 1], [0, 2, 3], [3, 4, 5], [0, 6], [1, 3, 5]], ids=str)
def test_no_row_changes_queries_farther_than_is_proved(neighbors, numbers, monkeypatch):
    pairs = [MIXED[number] for number in numbers]
    queries = [query for query, _ in pairs]
    moves = [np.concatenate(move) for move in every_move(pairs, neighbors)]
    most = max(np.abs(move).sum() for move in moves)
    squares = max((move**2).sum() for move in moves)
    change = JointChange.of(queries, NeighborRelation(neighbors, None), SCHEMA)
    assert most <= change.l1 <= most + 1.6
    assert squares <= change.l2_squared <= squares + 2.1
    separately = sum(
        Fraction(q.l1(NeighborRelation(neighbors, None)), q.sensitivity(NeighborRelation(neighbors, None)))
        for q in queries
    )
    assert change.l1 <= separately
    monkeypatch.setattr(joint_change, "MOST_PAIRED", 1)
    roughly = JointChange.of(queries, NeighborRelation(neighbors, None), SCHEMA)
    assert change.l1 <= roughly.l1
    assert change.l2_squared <= roughly.l2_squared


def drawn(asked, session):
    near = session.spine.rows.neighbor_relation
    return noises_together(asked, near, JointChange.of(tuple(asked.queries), near, session.schema))


def test_disjoint_groups_cost_as_much_as_one(opened):
    session = opened(privacy_unit=None)
    together, single = ReleaseAll(GROUPS, epsilon="0.1"), Release(GROUPS[0], epsilon="0.1").plan(session.spine)
    assert {noise.scale for noise in drawn(together, session)} == {10}
    assert together.plan(session.spine).price(session.spine.filter) == single.price(session.spine.filter)
    assert {noise.scale for noise in drawn(together, opened())} == {90}
    overlapping = ReleaseAll([*GROUPS, count()], rho="0.01")
    assert {noise.sigma_squared for noise in drawn(overlapping, session)} == {100}
    assert overlapping.plan(session.spine).event == ZeroConcentrated("0.01")


@pytest.mark.parametrize("neighbors", ["add_remove", "replace"])
def test_the_event_is_that_of_the_whole(opened, neighbors):
    """Losses of all sums by brute force over rows, and log-moments no larger than those of a pure event."""
    session = opened(privacy_unit=None, neighbors=neighbors)
    for pairs in (MIXED[:2], MIXED[:3], MIXED[3:5], [MIXED[0], MIXED[5]]):
        queries = [query for query, _ in pairs]
        made = ReleaseAll(queries, epsilon="0.4")
        event = made.plan(session.spine).event
        assert event.epsilon == Fraction(2, 5)
        assert event.log_moment_up(Fraction(9)) <= Pure("0.4").log_moment_up(Fraction(9)) * (1 + Fraction(1, 10**9))
        single = [query.sensitivity(session.spine.rows.neighbor_relation) for query in queries]
        scales = [float(noise.scale) / each for noise, each in zip(drawn(made, session), single, strict=True)]
        worst = max(
            sum(float(np.abs(part).sum()) / scale for part, scale in zip(move, scales, strict=True))
            for move in every_move(pairs, neighbors)
        )
        assert 0.19 < worst <= 0.4 + 1e-9


def test_answers_without_noise(opened):
    session, rows = opened(budget=NO_NOISE), visits()
    by_clinic = count().by("clinic", CLINICS)
    asked = [count("age >= 44"), chary.sum("cost", bounds=(0, 20), grid="0.5", max_rows_per_unit=3), by_clinic]
    told = session.ask(ReleaseAll(asked, epsilon=10**5), request="once")
    known = [rows[rows.clinic == clinic].patient.nunique() for clinic in CLINICS]
    assert told.value[0] == rows[rows.age >= 44].patient.nunique()
    assert [told.value[2, clinic] for clinic in CLINICS] == known
    assert told[2, by_clinic.describe(), "south"]["value"] == known[1]
    assert told.parts[1].value == session.release(asked[1], epsilon=1000).value
    assert list(told.parts[2].values) == known
    assert len(told.findings) == len(told) == 5
    assert {each.key: each.value for each in told.findings} == told.value
    assert session.ask(ReleaseAll(asked, epsilon=10**5), request="once") == told
    assert len(findings(session)) >= 5


def test_an_answer_is_told_by_what_was_drawn(opened, monkeypatch):
    """Also where it is proved later that less noise would do, and by a report, which knows no columns."""
    session = opened(privacy_unit=None)
    asked = ReleaseAll(GROUPS, epsilon="0.1")
    told = session.ask(asked, request="once")
    shown = report(session).datasets[0].calls[-1].values
    assert [(each.low, each.high) for each in shown] == [part.interval for part in told.parts]
    monkeypatch.setattr(JointChange, "of", lambda *asked: JointChange(Fraction(7), Fraction(7)))
    assert repr(session.ask(asked, request="once")) == repr(told)
    assert session.quote(asked).interval.startswith("with 95 % confidence, values are within these of the truth: 210 ")


def test_a_quote_tells_how_exact_each_is(opened):
    session = opened(privacy_unit=None)
    quote = session.quote(ReleaseAll([*GROUPS[:5], chary.sum("cost", bounds=(0, 100))], epsilon="0.1"))
    assert "60 (count where age >= 0 AND age < 10)" in str(quote)
    assert "and 1 more" in str(quote)


@pytest.mark.parametrize(
    "make",
    [
        lambda: ReleaseAll([], epsilon=1),
        lambda: ReleaseAll([count(), count()], epsilon=1),
        lambda: ReleaseAll([mean("age", bounds=(0, 120))], epsilon=1),
        lambda: ReleaseAll(["age > 5"], epsilon=1),
        lambda: ReleaseAll([count()]),
        lambda: ReleaseAll([count()], epsilon=1, rho=1),
        lambda: ReleaseAll([count()], rho=1, delta="0.1"),
        lambda: MatrixMechanism(count().by("age", range(9)), 5, epsilon=1),
        lambda: MatrixMechanism(count().by("age", range(9)), [5], epsilon=1),
        lambda: MatrixMechanism(count().by("age", range(9)), "ranges"),
    ],
)
def test_what_cannot_be_released_is_refused(make):
    with pytest.raises(InvalidParameter):
        make()


@pytest.mark.parametrize(
    "make",
    [
        lambda: MatrixMechanism(count(), "ranges", epsilon=1),
        lambda: MatrixMechanism(mean("age", bounds=(0, 9)).by("age", [1, 2]), "ranges", epsilon=1),
        lambda: MatrixMechanism(count().by("age", range(9)), "all", epsilon=1),
        lambda: MatrixMechanism(count().by("age", range(300)), "prefixes", epsilon=1),
    ],
)
def test_what_has_no_cells_is_refused(make):
    with pytest.raises(InvalidQuery):
        make()


def test_a_series_is_no_table():
    days = pd.DataFrame({"cnt": [5, 900, 7]})
    with chary.open_counts(days, column="cnt", sensitivity=3, budget=NO_NOISE, ledger=":memory:") as session:
        with pytest.raises(InvalidQuery):
            session.ask(ReleaseAll([session.series()], epsilon=1))
        told = session.ask(MatrixMechanism(session.series(), "prefixes", epsilon=10**5))
        assert [round(value) for value in told.values] == [5, 905, 912]


AGES = count().by("age", range(20, 60), max_groups_per_unit=1)


@pytest.mark.parametrize("strategy", [None, "identity", "hierarchy of 4"])
@pytest.mark.parametrize("size", [{"epsilon": 10**5}, {"rho": 10**9}])
def test_sums_of_cells_without_noise(opened, strategy, size):
    session = opened(budget=Budget(epsilon=10**12, delta=1e-6))
    told = session.ask(MatrixMechanism(AGES, "ranges", strategy=strategy, **size))
    cells = session.release(AGES, epsilon=10**5).values
    assert told.columns == ("first", "last")
    for (low, high), value in zip(told.keys, told.values, strict=True):
        assert value == pytest.approx(sum(cells[low - 20 : high - 19]), abs=1e-6)
    assert strategy in (None, told.strategy)


def test_sums_are_told_alike_for_ever(opened, tmp_path):
    place = tmp_path / "visits.ledger"
    session = opened(ledger=place, budget=Budget(epsilon=2, delta=1e-6))
    asked = MatrixMechanism(AGES, "prefixes", epsilon="0.2", delta="1e-7")
    before = session.quote(asked)
    told = session.ask(asked, request="once")
    paid = spent(session)
    session.close()
    again = opened(ledger=place, budget=Budget(epsilon=2, delta=1e-6))
    once_more = again.ask(asked, request="once")
    assert (repr(once_more), once_more.rows(), spent(again)) == (repr(told), told.rows(), paid)
    assert "root mean square" in before.interval
    assert told.strategy in before.interval
    assert f"{min(told.deviations):.3g}" in before.interval
    assert all(row["low"] <= max(0, row["value"]) <= row["high"] for row in told)
    assert min(row["low"] for row in told) == 0


def test_estimates_are_consistent(opened):
    told = opened().ask(MatrixMechanism(AGES, "ranges", epsilon="0.5", strategy="hierarchy of 2")).value
    for low, middle, high in itertools.combinations(range(20, 60, 7), 3):
        assert told[low, high] == pytest.approx(told[low, middle] + told[middle + 1, high], abs=1e-6)


def test_marginals_of_public_rows(opened):
    session = opened(**PUBLIC, budget=NO_NOISE)
    young = count("age < 40").by(["clinic", "age"], [(clinic, age) for clinic in CLINICS for age in range(20, 40)])
    told = session.ask(MatrixMechanism(young, [["clinic"], []], epsilon=10**5))
    rows = visits().query("age < 40")
    known = [int((rows.clinic == clinic).sum()) for clinic in CLINICS]
    assert [round(told.value[clinic, None]) for clinic in CLINICS] == known
    assert round(told.value[None, None]) == len(rows)


def test_each_filter_prices_the_measured_sums(opened):
    spine = opened().spine
    pure = MatrixMechanism(AGES, "prefixes", epsilon="0.3").plan(spine)
    assert isinstance(pure.event, Joint)
    assert pure.event.epsilon == Fraction(3, 10)
    assert pure.price(PureFilter(Budget(epsilon=1))).hit.main > 0
    gauss = MatrixMechanism(AGES, "prefixes", rho="0.001").plan(spine)
    assert sum(event.rho for event in gauss.event.events) <= Fraction(1, 1000)
