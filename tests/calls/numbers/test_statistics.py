"""Statistics of one's own: asked as counts are, at the same price; a failure is charged and tells nothing."""

import json
from fractions import Fraction

import pyarrow as pa
import pytest

import chary
from chary import AlgorithmFailed, Bins, Budget, InvalidParameter, InvalidQuery, count, statistic
from chary.calls import (
    PMW,
    Classify,
    GaussianAboveThreshold,
    GrowingTests,
    IndividualTests,
    OnChange,
    PrepaidTests,
    PublishIf,
    Release,
    ReleaseAll,
    ReleaseIf,
    SparseVector,
    ThresholdTest,
    When,
)
from chary.data import NeighborRelation, weighted
from chary.data.queries.bodies import body_of, query_of
from chary.noise import Seeded
from chary.session import findings
from tests.session.kit import PUBLIC, SECRET_NUMBER, error_texts, shows_data, spent

UNIT, ROW = NeighborRelation("add_remove", "patient"), NeighborRelation("replace", None)
ROOM = {"grain": "0.02", "budget": Budget(epsilon=40, delta=1e-6)}


def patients(rows):
    return len(set(rows["patient"].to_pylist()))


def as_a_count(**more):
    """The number of patients, which is also what count() asks."""
    return statistic("patients", patients, sensitivity=1, columns=["patient"], direction="up", **more)


ASKED = {
    "release": lambda query: Release(query, epsilon="0.1"),
    "release by rho": lambda query: Release(query, rho="0.01"),
    "release by delta": lambda query: Release(query, epsilon="0.1", delta="1e-7"),
    "several": lambda query: ReleaseAll([query, count("age >= 44")], epsilon="0.1"),
    "test": lambda query: ThresholdTest(query, above=20, epsilon="0.1"),
    "test by hits": lambda query: ThresholdTest(query, above=20, hits=9),
    "release if": lambda query: ReleaseIf(query, above=20, epsilon="0.1"),
    "release if by hits": lambda query: ReleaseIf(query, above=20, hits=9),
    "between": lambda query: Classify(query, low=10, high=200, epsilon="0.1"),
    "classify": lambda query: Classify(query, above=20, hits=9),
    "on change": lambda query: OnChange(query, step=50, hits=9),
    "on change, rounded": lambda query: OnChange(query, step=50, epsilon="0.1"),
    "publish if": lambda query: PublishIf(Release(query, epsilon="0.1"), when=When("any", lambda value: True)),
}
RUNS = {
    "sparse vector": (lambda: SparseVector(above=20, hits=2, epsilon="0.1"), {}),
    "prepaid tests": (lambda: PrepaidTests(tests=5, hits=2, misses="0.2"), {"above": 20}),
    "gaussian": (lambda: GaussianAboveThreshold(threshold=5000, threshold_noise=50, low=0, high=100), {}),
}


@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)
def test_it_is_answered_and_priced_as_a_count_with_the_same_sensitivity(opened, ask):
    found = []
    for query in (count(), as_a_count()):
        session = opened(
            unsafe_noise=Seeded(3), **ROOM, delta_reserve="5e-7" if ask is ASKED["release by delta"] else 0
        )
        answer = session.ask(ask(query))
        found.append((answer.value, answer.hit, spent(session), session.quote(ask(query)).most_charged))
        repeated = session.ask(ask(query), request="one")
        assert session.ask(ask(query), request="one") == repeated
        assert session.spine.ledger.verify().ok
    assert found[0] == found[1]


@pytest.mark.parametrize("name", RUNS)
def test_runs_take_it(opened, name):
    opening, said = RUNS[name]
    found = []
    for query in (count(), as_a_count()):
        session = opened(unsafe_noise=Seeded(3), **ROOM)
        run = session.start(opening())
        answers = [run.ask(query, **said) for _ in range(2)]
        found.append(([(answer.value, answer.hit) for answer in answers], spent(session)))
    assert found[0] == found[1]


def test_what_needs_more_than_its_number_refuses_it(opened):
    session = opened(**ROOM, **PUBLIC)
    growing = session.start(GrowingTests(above="0.5", epsilon="0.1"))
    with pytest.raises(InvalidQuery, match="no part of each row"):
        growing.ask(as_a_count(), above=0)
    series = chary.open_counts(pa.table({"n": [1, 2]}), column="n", sensitivity=1, ledger=":memory:", budget=Budget(1))
    with pytest.raises(InvalidQuery):
        series.release(as_a_count(), epsilon="0.1")


STREAM = {"grain": "0.02", "budget": Budget(epsilon=400, delta=1e-6)}


def of_patients(run, **more):
    return statistic("of patients", run, sensitivity=1, columns=["patient"], **more)


@pytest.mark.parametrize("opening", [{"epsilon": "0.5"}, {"price": "0.001"}])
@pytest.mark.parametrize("where", [None, "age >= 44"])
def test_in_a_stream_it_is_of_the_living_units_that_take_part(opened, opening, where):
    """The number of patients is the count of them: the same answers, the same units that pay, until all are gone."""
    found = []
    for query, said in ((count(where), {}), (of_patients(patients), {"where": where} if where else {})):
        session = opened(unsafe_noise=Seeded(3), **STREAM)
        stream = session.start(IndividualTests(hits=2, **opening))
        told = []
        for above in (60, 5, 5, 5, 40, 5):
            answer = stream.ask(query, above=above, **said)
            told.append((answer.value, session.spine.ledger.secret(stream.call)))
        found.append((told, spent(session)))
        assert session.spine.ledger.verify().ok
    assert found[0] == found[1]
    assert len({secret for _, secret in told}) > 2


def test_in_a_stream_it_sees_no_row_of_a_unit_that_has_dropped_out(opened):
    seen = []

    def looking(rows):
        seen.append(set(rows["patient"].to_pylist()))
        return 10**6

    session = opened(unsafe_noise=Seeded(3), **STREAM)
    stream = session.start(IndividualTests(epsilon="0.5", hits=1))
    statistic_ = of_patients(looking)
    young = session.spine.rows.snapshot(["patient", "age"]).run().to_pylist()
    old = {row["patient"] for row in young if row["age"] >= 60}
    assert stream.ask(statistic_, above=5, where="age >= 60", request="one").value is not None
    assert stream.ask(statistic_, above=5).value is not None
    assert seen == [old, {row["patient"] for row in young} - old]
    again = session.resume(stream.call).ask(statistic_, above=5, where="age >= 60", request="one")
    assert again.value is not None
    assert len(seen) == 2
    assert session.history[1].question["where"] == "age >= 60"


def test_in_a_stream_it_is_refused_where_nothing_bounds_it(opened):
    stream = opened(neighbors="replace", **STREAM).start(IndividualTests(epsilon="0.5", hits=1))
    with pytest.raises(InvalidQuery, match="come and go"):
        stream.ask(of_patients(patients), above=5)
    session = opened(**STREAM)
    stream = session.start(IndividualTests(epsilon="0.5", hits=1))
    with pytest.raises(InvalidQuery, match="itself"):
        stream.ask(count(), above=5, where="age >= 60")
    with pytest.raises(InvalidQuery, match="unknown column"):
        stream.ask(statistic("odd", len, sensitivity=1, columns=["nowhere"]), above=5)
    before, kept = spent(session), session.spine.ledger.secret(stream.call)
    with pytest.raises(AlgorithmFailed, match="no finite number; nothing was charged") as refused:
        stream.ask(statistic("bad", fails, sensitivity=1), above=5)
    assert not shows_data(error_texts(refused.value))
    assert (spent(session), session.spine.ledger.secret(stream.call)) == (before, kept)


LETTERS = pa.table({"word": ["a", "b", "b", None] * 50, "size": [1, 2, 3, 4] * 50})
CELLS = {"word": ["a", "b"], "size": [1, 2, 3]}


def weight(rows):
    return {"a": 0.25, "b": 0.5}[rows["word"][0].as_py()] * (rows["size"][0].as_py() == 2) + 0.25


def test_in_a_public_histogram_it_is_the_linear_query_of_what_it_makes_of_a_row():
    asked = statistic("weight", weight, sensitivity=1, grid="1/4", columns=["word", "size"])
    cells = [(word, size) for word in ("a", "b") for size in (1, 2, 3)]
    rows = [pa.table({"word": [word], "size": [size]}) for word, size in cells]
    where = [f"word = '{word}' AND size = {size}" for word, size in cells]
    same = weighted([(case, weight(row)) for case, row in zip(where, rows, strict=True)])
    found = []
    for query in (same, asked):
        source = {"ledger": ":memory:", "budget": Budget(9, 1e-6), "unsafe_noise": Seeded(1), **PUBLIC}
        with chary.open(LETTERS, **source) as session:
            run = session.start(PMW(universe=CELLS, alpha="0.1", epsilon="0.5"))
            answer = run.ask(query)
            found.append((answer.share, answer.hard, spent(session), session.history[-1].question))
            # The ledger has the weights of all cells, so that nothing is needed to go on from it.
            assert session.resume(run.call).ask(same).share == run.ask(same).share
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("run", "options", "error"),
    [
        (weight, {}, "each cell"),
        (
            weight,
            {"columns": ["word", "size"], "grid": "1/4", "universe": {"word": ["a"], "size": Bins([0, 2, 4])}},
            "bins",
        ),
        (lambda rows: 2, {"columns": ["word"]}, "from 0 to 1"),
        (lambda rows: -1, {"columns": ["word"]}, "from 0 to 1"),
        (lambda rows: 1, {"columns": ["other"]}, "other"),
        (lambda rows: 1 / 0, {"columns": ["word"]}, "raised"),
    ],
)
def test_what_is_no_linear_query_is_refused_by_a_histogram(run, options, error):
    universe = options.pop("universe", CELLS)
    with chary.open(LETTERS, ledger=":memory:", budget=Budget(9, 1e-6), **PUBLIC) as session:
        histogram = session.start(PMW(universe=universe, alpha="0.1", epsilon="0.5"))
        before = spent(session)
        with pytest.raises((InvalidQuery, AlgorithmFailed), match=error):
            histogram.ask(statistic("odd", run, sensitivity=1, **options))
        assert spent(session) == before


def fails(rows):
    raise ValueError(f"{SECRET_NUMBER} of {rows.to_pylist()[-1]}")


@pytest.mark.parametrize(
    "run", [fails, lambda rows: "many", lambda rows: float("nan"), lambda rows: None, lambda rows: [1]]
)
def test_a_failure_is_charged_and_tells_nothing(opened, run):
    session = opened(**ROOM)
    bad = statistic("bad", run, sensitivity=1)
    worst = session.quote(Release(bad, epsilon="0.1")).most_charged
    with pytest.raises(AlgorithmFailed, match="'bad' raised, or returned no finite number; charged") as refused:
        session.release(bad, epsilon="0.1")
    assert not shows_data(error_texts(refused.value))
    assert refused.value.__cause__ is refused.value.__context__ is None
    assert session.spent.share == pytest.approx(worst)
    assert not shows_data(json.dumps([entry.question for entry in session.history]))


def test_what_an_opening_has_paid_for_is_not_charged_where_a_statistic_fails(opened):
    session = opened(**ROOM)
    run = session.start(SparseVector(above=5, hits=2, epsilon="0.1"))
    before = spent(session)
    with pytest.raises(AlgorithmFailed, match="no finite number; nothing was charged") as refused:
        run.ask(statistic("bad", fails, sensitivity=1, direction="up"))
    assert not shows_data(error_texts(refused.value))
    assert spent(session) == before
    with pytest.raises(AlgorithmFailed, match="no finite number; charged"):
        session.ask(PublishIf(Release(statistic("bad", fails, sensitivity=1), epsilon="0.1"), when=When("any", bool)))
    assert spent(session).main > before.main


def test_values_are_clipped_and_rounded_down_to_the_grid(opened):
    session = opened(unsafe_noise=Seeded(1), budget=Budget(10**6, 1e-6))
    for value, told in ((7.9, 7.5), (-3, 0), (99, 60), (Fraction(1, 3), 0), (7, 7)):
        asked = statistic("v", lambda rows, v=value: v, sensitivity="0.5", grid="0.5", bounds=(0, 60), columns=["age"])
        assert session.release(asked, epsilon=1000).value == told


@pytest.mark.parametrize(
    ("grid", "sensitivity", "steps"), [(1, 1, 1), ("0.5", 1, 2), ("0.4", 1, 3), (1, "0.3", 1), ("0.3", "0.9", 3)]
)
def test_no_two_values_within_the_sensitivity_are_farther_apart_in_steps(grid, sensitivity, steps):
    asked = statistic("v", len, sensitivity=sensitivity, grid=grid)
    for neighbor_relation in (UNIT, ROW):
        assert asked.sensitivity(neighbor_relation) == asked.l1(neighbor_relation) == steps
    values = [Fraction(place, 120) for place in range(-240, 240)]
    placed = [asked._steps(value) for value in values]
    far = max(
        abs(placed[i] - placed[j])
        for i, value in enumerate(values)
        for j in range(i, len(values))
        if values[j] - value <= Fraction(sensitivity)
    )
    assert far == steps


def test_its_direction_makes_it_monotone_and_its_bounds_are_its_range():
    up, down, any_way = (statistic("v", len, sensitivity=2, direction=way) for way in ("up", "down", None))
    cells = [(asked.contribution(UNIT).low, asked.contribution(UNIT).high) for asked in (up, down, any_way)]
    assert cells == [(0, 2), (-2, 0), (-2, 2)]
    assert [asked.known_range(UNIT) for asked in (up, down)] == [(None, None)] * 2
    assert statistic("v", len, sensitivity=2, bounds=(1, "9.5"), grid="0.5").known_range(UNIT) == (2, 19)


def test_two_functions_of_one_name_are_two_questions_to_a_session_and_one_to_its_ledger(opened):
    session = opened(unsafe_noise=Seeded(1), budget=Budget(10**6, 1e-6))
    for value in (3, 5):
        asked = statistic("v", lambda rows, v=value: v, sensitivity=1)
        assert session.release(asked, epsilon=1000).value == value
    repeated = [statistic("v", lambda rows, v=value: v, sensitivity=1) for value in (3, 5)]
    assert {session.release(asked, epsilon=1000, request="one").value for asked in repeated} == {3}


def test_answers_of_a_ledger_are_read_without_the_function_and_none_is_asked(opened):
    session = opened(**ROOM)
    answer = session.release(as_a_count(bounds=(0, 500)), epsilon="0.1")
    assert [found.value for call in findings(session).calls for found in call] == [answer.value]
    told = query_of(body_of(as_a_count(bounds=(0, 500))))
    assert body_of(told) == body_of(as_a_count(bounds=(0, 500)))
    before = spent(session)
    with pytest.raises(InvalidQuery, match="only a program asks"):
        session.release(told, epsilon="0.1")
    assert (spent(session), len(session.history)) == (before, 1)


@pytest.mark.parametrize(
    "said",
    [
        {"name": ""},
        {"run": 5},
        {"sensitivity": 0},
        {"sensitivity": -1},
        {"sensitivity": 2**41},
        {"grid": 0},
        {"bounds": (3, 3)},
        {"bounds": (3, 1)},
        {"direction": "left"},
        {"parameters": {"x": object()}},
        {"parameters": {"x": float("nan")}},
    ],
)
def test_what_is_no_statistic_is_refused(said):
    given = {"name": "v", "run": len, "sensitivity": 1} | said
    with pytest.raises(InvalidParameter):
        statistic(given.pop("name"), given.pop("run"), **given)


def test_unknown_columns_are_refused_before_anything_is_charged(opened):
    session = opened(**ROOM)
    with pytest.raises(InvalidQuery, match="unknown column 'nobody'"):
        session.release(statistic("v", len, sensitivity=1, columns=["nobody"]), epsilon="0.1")
    assert session.history == []
