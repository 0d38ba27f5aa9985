"""Small databases as a black box: the law against the exact exponential mechanism, and schedules on growing data."""

from fractions import Fraction

import numpy as np
import polars as pl
import pytest

from chary import Bins, Budget, InvalidParameter, InvalidQuery, NeighborRelation, count
from chary.accounting import BoundedRange, ZeroConcentrated
from chary.calls import Rerun
from chary.growth import SmallDatabaseBox, draw_schedule
from tests.session.kit import PUBLIC, sessions, spent

ROWS = NeighborRelation("replace", None)
SCHEMA = {"ward": "int64", "age": "int64"}
UNIVERSE = {"ward": [0, 1, 2], "age": Bins([0, 30, 60, 90])}
QUERIES = ["ward = 0", "age >= 30", "ward = 1 AND age < 60"]


def box(**options):
    given = {"universe": UNIVERSE, "queries": QUERIES, "rows": 8, "schema": SCHEMA} | options
    return SmallDatabaseBox(given.pop("universe"), given.pop("queries"), **given)


def rows(first, last):
    """Those of the first 2,000 differ from the later ones."""
    return pl.DataFrame(
        {"ward": [i % 3 if i < 2000 else 0 for i in range(first, last)], "age": [i % 90 for i in range(first, last)]},
        schema={"ward": pl.Int64, "age": pl.Int64},
    )


@pytest.fixture
def grown():
    """Open sessions on so many rows; whatever is still open in the end is closed."""
    with sessions(**PUBLIC, dataset="wards") as make:
        yield lambda size=1000, **options: make(rows(0, size), **options)


@pytest.mark.parametrize("concentrated", [False, True])
@pytest.mark.parametrize("measure", ["classes", "databases"])
@pytest.mark.parametrize("epsilon", ["0.01", "0.3", "4"])
@pytest.mark.parametrize("beta", ["0.5", "0.05", "1e-9"])
def test_the_law_holds_by_the_exact_law_of_the_choice(concentrated, measure, epsilon, beta):
    made, size = box(measure=measure, concentrated=concentrated, rows=4), 300
    mechanism, told = made.mechanism(Fraction(epsilon)), made.law
    random = np.random.default_rng(6)
    for _ in range(6):
        data = random.multinomial(size, random.dirichlet(np.full(len(mechanism.classes.sizes), 0.4)))
        scores, which = mechanism.scored((mechanism.classes.holds.T @ data).tolist(), size)
        chances = np.array(mechanism.law(scores, which).probabilities())
        most = told.error(size=size, epsilon=epsilon, beta=beta) * 4 * size
        assert chances[np.array(scores) > most].sum() <= float(beta)
        assert scores[0] <= float(told.base) * 4 * size


def test_one_condition_is_a_list_of_one():
    asked = [box(queries=queries).plan(Fraction(1), ROWS).body for queries in ("ward = 0", ["ward = 0"])]
    assert asked[0] == asked[1]


@pytest.mark.parametrize("concentrated", [False, True])
def test_a_law_of_a_smaller_factor_would_not_hold(concentrated):
    """A row for each of many cells, all data in one: nearly all candidates are as wrong as can be."""
    universe, queries = {"ward": range(300)}, count().by("ward", range(300))
    made = box(universe=universe, queries=queries, rows=1, concentrated=concentrated)
    beta, size = 0.05, 1000
    epsilon = float(made.law.factor) * np.log(301 / beta) / size * 0.98
    mechanism = made.mechanism(Fraction(epsilon))
    scores, which = mechanism.scored([size] + 299 * [0], size)
    chances = np.array(mechanism.law(scores, which).probabilities())
    shortfall = made.law.error(size=size, epsilon=epsilon, beta=beta) - float(made.law.base)
    assert chances[np.array(scores) > shortfall * size].sum() <= beta
    assert chances[np.array(scores) > 0.9 * shortfall * size].sum() > beta


def test_calls_are_as_private_as_asked_and_the_same_question_at_every_epsilon():
    assert box().plan(Fraction(1, 7), ROWS).event == BoundedRange(Fraction(1, 7))
    assert box(concentrated=True).plan(Fraction(1, 7), ROWS).event == ZeroConcentrated(Fraction(1, 98))
    assert box().body(ROWS) == box(queries=[count(query) for query in QUERIES]).body(ROWS)
    others = [box(rows=7), box(queries=QUERIES[:2]), box(measure="databases"), box(concentrated=True)]
    bodies = [str(made.body(ROWS)) for made in (box(), *others)]
    assert len(set(bodies)) == 5


@pytest.mark.parametrize(
    "terms",
    [
        {"epsilon": "0.5"},
        {"epsilon": "0.5", "growth": "0.5"},
        {"rho": "0.01"},
        {"rho": "0.01", "exponent": "0.1"},
    ],
)
def test_the_latest_run_answers_as_the_data_grow_and_after_a_restart(grown, tmp_path, terms):
    place, made = tmp_path / "wards.ledger", box(concentrated="rho" in terms)
    with grown(ledger=place, size=20_000) as session:
        schedule = session.start(Rerun(made, beta="0.05", **terms), follow=True)
        paid = spent(session)
        first = schedule.state.latest
        assert first.answer.rows == 8
        assert schedule.state.table(1)[0].error > float(made.law.base)
    session = grown(20_000, ledger=place)
    schedule = session.resume(schedule.call, bring=made, follow=True)
    assert schedule.state.results == [first]
    assert schedule.state.latest.answer.share("ward = 0") == first.answer.share("ward = 0")
    session.append(rows(20_000, 60_000))
    latest = schedule.state.latest
    assert latest.size == 60_000
    assert latest.run > first.run
    frame = rows(0, 60_000)
    for query in QUERIES:
        known = frame.filter(pl.sql_expr(query)).height / 60_000
        assert abs(latest.answer.share(query) - known) <= schedule.state.at(60_000).error + 1e-9
    assert spent(session) == paid
    assert session.spine.ledger.verify().ok


def test_another_box_cannot_go_on(grown):
    session = grown()
    call = session.start(Rerun(box(), epsilon="0.5", beta="0.05")).call
    for other in (box(rows=7), box(queries=QUERIES[:2]), box(measure="databases")):
        with pytest.raises(InvalidParameter, match="another black box"):
            session.resume(call, bring=other)
    assert session.resume(call, bring=box()).ask().run == 0


def test_a_schedule_of_epsilon_refuses_what_is_concentrated_only(grown):
    with pytest.raises(InvalidParameter, match="not epsilon-DP"):
        grown().start(Rerun(box(concentrated=True), epsilon="0.5", beta="0.05"))


def test_it_can_be_drawn_and_nothing_is_read(grown, tmp_path):
    seen = []
    session = grown(on_step=seen.append, budget=Budget(epsilon=1))
    schedule = session.start(Rerun(box(), epsilon="0.5", beta="0.05"))
    seen.clear()
    draw_schedule(schedule.state, tmp_path / "schedule.png")
    assert seen == []


def test_columns_of_another_type_are_refused_at_the_opening(grown):
    session = grown()
    with pytest.raises(InvalidQuery, match="another type"):
        session.start(Rerun(box(schema={"ward": "int64", "age": "float64"}), epsilon="0.5", beta="0.05"))
    assert session.history == []


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"rows": 0}, InvalidParameter),
        ({"rows": 10_000}, InvalidQuery),
        ({"queries": []}, InvalidQuery),
        ({"queries": ["age >= 35"]}, InvalidQuery),
        ({"schema": {"age": "int64"}}, InvalidQuery),
        ({"schema": {"ward": "string", "age": "int64"}}, InvalidQuery),
    ],
)
def test_what_makes_no_black_box_is_refused(options, error):
    with pytest.raises(error):
        box(**options)


@pytest.mark.parametrize("options", [{"measure": "all"}, {"concentrated": 1}])
def test_unknown_choices_are_refused(options):
    with pytest.raises(InvalidParameter):
        box(**options)
