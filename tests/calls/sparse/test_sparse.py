"""Sparse vectors in a session: charged once, free afterwards, refused, and right without noise."""

import itertools
from contextlib import closing
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import chary
from chary import Budget, BudgetExceeded, count, mean
from chary.accounting import Approximate, Asymmetric, Pure
from chary.calls import Release, SparseTest, SparseVector, SparseWatch
from chary.data import NeighborRelation, RowTable
from chary.errors import InvalidParameter, InvalidQuery, NotPriced, RequestConflict
from chary.mechanisms import OneSidedMachine, SparseVectorMachine
from chary.noise import Seeded
from chary.session import plain_composition
from tests.session.kit import CLINICS, NO_NOISE, PLENTY, spent, visits

PURE = Budget(epsilon=2)
BY_CLINIC = count().by("clinic", CLINICS)


@pytest.mark.parametrize("form", ["one-sided", "tuned", "published"])
def test_without_noise_it_tells_the_truth_and_ends_at_the_last_hit(opened, form):
    session, frame = opened(budget=NO_NOISE, filter="pure"), visits()
    truth = {(clinic,): frame[frame.clinic == clinic].patient.nunique() for clinic in CLINICS}
    bar = sorted(truth.values())[1]
    with session.start(SparseVector(above=bar, hits=4, epsilon=PLENTY, mechanism=form, values=True)) as sparse:
        yes = sparse.ask(count())
        assert (yes.above, yes.value, yes.hits_left, bool(yes)) == (True, 51, 3, True)
        no = sparse.ask(count(), above=52)
        assert (no.above, no.value, no.hits_left, bool(no)) == (False, None, 3, False)
        found = sparse.ask(BY_CLINIC)
        assert found.above == {key: value for key, value in truth.items() if value >= bar}
        assert (found.tested, found.untested, found.hits, found.hits_left) == (3, (), 2, 1)
        last = sparse.ask(BY_CLINIC, above=0)
        assert (last.above, last.tested, last.untested) == (
            {(CLINICS[0],): truth[(CLINICS[0],)]},
            1,
            ((CLINICS[1],), (CLINICS[2],)),
        )
        assert sparse.state.left == last.hits_left == 0
        with pytest.raises(BudgetExceeded, match=r"start\(SparseVector\(above=\.\.\., hits=4, epsilon=\.\.\.\)\)"):
            sparse.ask(BY_CLINIC)


def test_values_are_published_only_where_they_were_asked_for(opened):
    sparse = opened(budget=NO_NOISE, filter="pure").start(SparseVector(above=1, hits=9, epsilon=PLENTY))
    assert (sparse.ask(count()).value, sparse.ask(count()).error_bar) == (None, None)
    assert set(sparse.ask(BY_CLINIC).above.values()) == {None}


def test_it_is_charged_once_and_whole(opened):
    session = opened(budget=PURE)
    sparse = session.start(SparseVector(above=-1000, hits=3, epsilon="0.5"))
    assert spent(session).main == 5 * 10**14
    for _ in range(3):
        assert sparse.ask(count()).above
        assert not sparse.state.left or not sparse.ask(count(), above=9999)
    assert spent(session).main == 5 * 10**14
    assert [entry.share for entry in session.history[1:]] == [0.0] * 5
    assert plain_composition(session).epsilon == 0.5
    assert [entry.hits for entry in session.history] == [0, 1, 0, 1, 0, 1]


def test_the_event_is_that_of_the_form(opened):
    near = NeighborRelation("add_remove", "patient")
    said = {"above": 1, "hits": 2, "epsilon": "0.5"}
    assert SparseVector(**said, mechanism="tuned").law(near).event == Pure("0.5")
    assert SparseVector(**said, delta="1e-7", mechanism="published").law(near).event == Approximate("0.5", "1e-7")
    uneven = SparseVector(**said).law(near).event
    assert isinstance(uneven, Asymmetric)
    assert uneven.epsilon == Fraction(1, 2) > uneven.reverse
    assert SparseVector(**said, monotone=False).law(near).event == Pure("0.5")
    session = opened(budget=Budget(epsilon=1, delta=1e-6), delta_reserve="5e-7", filter="pure")
    session.start(SparseVector(above=1, hits=2, epsilon="0.5", delta="1e-7", mechanism="published"))
    assert (spent(session).main, spent(session).delta) == (5 * 10**14, 10**11)
    with pytest.raises(NotPriced, match="delta_reserve"):
        opened(budget=PURE).start(SparseVector(above=1, hits=2, epsilon="0.5", delta="1e-7", mechanism="published"))


def test_the_declared_sensitivity_counts_in_steps_of_the_grid():
    """Noise is drawn in steps of the grid, so its scale in the units of the questions stays that of the sensitivity."""
    near = NeighborRelation("add_remove", "patient")
    said = {"above": 0, "hits": 2, "epsilon": "0.5", "values": True, "sensitivity": 3, "mechanism": "tuned"}
    coarse, fine = (SparseVector(**said, grid=grid).law(near) for grid in (1, "0.25"))
    assert (coarse.machine.sensitivity, fine.machine.sensitivity) == (3, 12)
    assert fine.machine.answers.scale == 4 * coarse.machine.answers.scale
    assert fine.error_bar == pytest.approx(coarse.error_bar, abs=0.25)


@pytest.mark.parametrize("grid", ["0.5", 1, 2])
def test_a_question_moves_by_steps_of_its_own_grid(opened, grid):
    asked = chary.sum("cost", bounds=(0, 4), grid=grid, max_rows_per_unit=1)
    opening = {"above": 1, "hits": 1, "epsilon": "0.5", "grid": grid}
    session = opened(budget=PURE)
    with pytest.raises(InvalidQuery, match="sensitivity=4"):
        session.start(SparseVector(**opening, sensitivity=2)).ask(asked)
    session.start(SparseVector(**opening, sensitivity=4)).ask(asked)


BODY = {"above": "51", "delta": "0", "epsilon": "1/2", "grid": "1", "hits": 2, "monotone": True, "sensitivity": "1"}


def test_new_runs_are_one_sided_and_say_so(opened):
    session = opened(budget=PURE)
    for given, form, tests in (
        ({}, "one-sided", 1000),
        ({"tests": 7}, "one-sided", 7),
        ({"mechanism": "tuned"}, "tuned", None),
    ):
        run = session.start(SparseVector(above=51, hits=2, epsilon="0.5", **given))
        body = session.history[-1].question
        assert body == BODY | {"values": False, "form": form} | ({} if tests is None else {"tests": tests})
        assert isinstance(run.law.machine, OneSidedMachine if tests else SparseVectorMachine)


@pytest.mark.parametrize("form", [{}, {"form": "tuned"}])
def test_what_was_opened_before_there_were_forms_goes_on_with_laplace_noise(form):
    near = NeighborRelation("add_remove", "patient")
    old = SparseVector.recorded(BODY | {"values": True} | form).law(near)
    assert isinstance(old.machine, SparseVectorMachine)
    assert old.event == Pure("0.5")
    assert old.call.question_body() == BODY | {"values": True, "form": "tuned"}


def test_a_repeated_request_finds_what_was_opened_when_tuned_was_the_default(opened):
    session = opened(budget=PURE)
    given = {"above": 51, "hits": 2, "epsilon": "0.5"}
    old = session.start(SparseVector(**given, mechanism="tuned"), request="one")
    assert session.start(SparseVector(**given), request="one").call == old.call
    assert session.start(SparseVector(**given, tests=9), request="one").call == old.call
    for other in ({"mechanism": "one-sided"}, {"above": 52}, {"values": True}):
        with pytest.raises(RequestConflict):
            session.start(SparseVector(**(given | other)), request="one")
    new = session.start(SparseVector(**given), request="two")
    assert session.start(SparseVector(**given), request="two").call == new.call != old.call
    with pytest.raises(RequestConflict):
        session.start(SparseVector(**given, mechanism="tuned"), request="two")
    assert len(session.history) == 2


def test_an_uneven_opening_costs_less_at_a_renyi_order(opened):
    session = opened(budget=Budget(epsilon=1, delta=1e-6), filter="renyi")
    given = {"above": 51, "hits": 3, "epsilon": "0.1"}
    costs = [session.quote(SparseVector(**given, mechanism=form)).most_charged for form in ("one-sided", "tuned")]
    assert costs[0] < 0.95 * costs[1]
    session.start(SparseVector(**given))
    assert session.spent.share == costs[0]


def test_it_refuses_what_does_not_fit_and_says_what_would(opened):
    session = opened(budget=PURE)
    with pytest.raises(BudgetExceeded, match=r"epsilon=1\.9"):
        session.start(SparseVector(above=1, hits=3, epsilon=3))
    assert session.history == []


@pytest.mark.statistical
def test_a_watch_is_the_same_as_asking_key_by_key(opened):
    """By the law of what is found above: the runs of both ways cannot be told apart, those of another noise can."""
    runs, keys = 250, [(clinic,) for clinic in CLINICS]
    found = {}
    for name, epsilon in (("watch", "0.4"), ("one by one", "0.4"), ("other noise", "4")):
        session = opened(budget=Budget(epsilon=10**4), unsafe_noise=Seeded(4))
        outcomes = []
        for _ in range(runs):
            sparse = session.start(SparseVector(above=30, hits=2, epsilon=epsilon))
            if name != "one by one":
                watched = sparse.ask(BY_CLINIC).above
                outcomes.append(tuple(key in watched for key in keys))
                continue
            above = [False] * len(keys)
            for position, (clinic,) in enumerate(keys):
                above[position] = bool(sparse.state.left and sparse.ask(count(f"clinic = '{clinic}'")))
            outcomes.append(tuple(above))
        found[name] = np.array([outcomes.count(one) for one in itertools.product((False, True), repeat=3)])
    assert gap(found["watch"], found["one by one"]) < 4.5
    assert gap(found["watch"], found["other noise"]) > 5.5


def gap(first, second):
    """The largest difference of two counts, in its standard deviations."""
    return np.max(np.abs(first - second) / np.sqrt(np.maximum(first + second, 1)))


def test_one_unit_in_every_key_costs_no_more(opened):
    """What a session of plain releases would pay for each key."""
    sparse = opened(budget=PURE).start(SparseVector(above=10**6, hits=1, epsilon=1))
    found = sparse.ask(count().by("patient", range(5000)))
    assert (found.tested, found.hits, found.hits_left) == (5000, 0, 1)


@pytest.mark.parametrize(
    ("neighbors", "form", "expected"),
    [
        ("add_remove", "one-sided", True),
        ("add_remove", "tuned", True),
        ("add_remove", "published", False),
        ("replace", "one-sided", False),
        ("replace", "tuned", False),
    ],
)
def test_monotone_is_the_default_where_it_holds(opened, neighbors, form, expected):
    session = opened(budget=PURE, neighbors=neighbors)
    session.start(SparseVector(above=1, hits=2, epsilon=1, mechanism=form))
    assert session.history[0].question["monotone"] is expected


COST = {"bounds": (0, 9), "max_rows_per_unit": 1}


@pytest.mark.parametrize(
    "query",
    [
        count(),
        count("age > 30", without="age > 50"),
        count("age > 30", without="age > 50").by("clinic", CLINICS, max_groups_per_unit=1),
        chary.sum("age", **COST),
        chary.sum("age", bounds=(-3, 3), unit_total=(0, 9)),
    ],
)
def test_what_a_further_unit_cannot_lower_is_monotone(opened, query):
    session = opened(budget=PURE)
    sparse = session.start(SparseVector(above=10**6, hits=1, epsilon=1, sensitivity=9))
    sparse.ask(query)


@pytest.mark.parametrize("bounds", [(-1, 1), (-1, 0)])
def test_what_it_may_lower_is_not(opened, bounds):
    session = opened(budget=PURE)
    query = chary.sum("age", bounds=bounds, max_rows_per_unit=1)
    with pytest.raises(InvalidQuery, match="monotone=False"):
        session.start(SparseVector(above=10**6, hits=1, epsilon="0.1")).ask(query)
    assert session.start(SparseVector(above=10**6, hits=1, epsilon="0.1", monotone=False)).ask(query).hits_left == 1


TINY = [
    {"u": unit, "k": key, "x": value}
    for unit, key, value in [(1, "a", 3), (1, "b", -2), (2, "a", 1), (3, "b", 5), (3, "b", -5), (3, "a", 0)]
]
MOVING_UP = [
    count(),
    count("x > 0"),
    count("x > 0", without="x < 0"),
    count("x > 0", without="k = 'b'").by("k", ["a", "b"]),
    count().by("k", ["b", "a"], max_groups_per_unit=1),
    chary.sum("x", bounds=(0, 4), max_rows_per_unit=2).by("k", ["a", "b"]),
    chary.sum("x", bounds=(-4, 4), unit_total=(0, 3)),
]


@pytest.mark.parametrize("unit", [1, 2, 3])
def test_no_unit_lowers_what_is_called_monotone(unit):
    """By any part of its own rows beside the rows of all others."""
    assert all(query.contribution(NeighborRelation("add_remove", "u")).low == 0 for query in MOVING_UP)
    others, own = [row for row in TINY if row["u"] != unit], [row for row in TINY if row["u"] == unit]
    without = answers(others)
    for size in range(1, len(own) + 1):
        for part in itertools.combinations(own, size):
            assert np.all(answers([*others, *part]) >= without)


def answers(rows):
    """All of them, one after another."""
    table = RowTable.open(pd.DataFrame(rows), neighbor_relation=NeighborRelation("add_remove", "u"))
    with closing(table):
        return np.concatenate([np.atleast_1d(table.prepare(query).run()) for query in MOVING_UP])


def test_questions_keep_the_declared_sensitivity_and_grid(opened):
    session = opened(budget=PURE)
    sparse = session.start(SparseVector(above=1, hits=2, epsilon="0.5"))
    with pytest.raises(InvalidQuery, match="sensitivity=9"):
        sparse.ask(chary.sum("age", **COST))
    with pytest.raises(InvalidQuery, match=r"grid=0\.5"):
        sparse.ask(chary.sum("cost", bounds=(0, 1), grid="0.5", max_rows_per_unit=1))
    with pytest.raises(InvalidQuery, match="counts, sums and series"):
        sparse.ask(mean("age", **COST))
    with pytest.raises(InvalidQuery, match="counts, sums and series"):
        sparse.ask("age > 3")
    assert len(session.history) == 1


def test_the_shape_of_a_question_says_how_it_is_asked(opened):
    session = opened(budget=PURE)
    sparse = session.start(SparseVector(above=10**6, hits=2, epsilon="0.5"))
    assert isinstance(sparse.ask(BY_CLINIC), SparseWatch)
    assert isinstance(sparse.ask(count()), SparseTest)
    assert [entry.kind for entry in session.history[1:]] == ["sparse_watch", "sparse_test"]


def test_coarser_questions_are_counted_in_finer_steps(opened):
    session = opened(budget=NO_NOISE, filter="pure")
    sizes = {"hits": 5, "epsilon": 3 * PLENTY, "sensitivity": 4, "grid": "0.5", "values": True}
    with session.start(SparseVector(above=10, **sizes)) as sparse:
        assert sparse.ask(count()).value == 51
        fine = chary.sum("cost", bounds=(0, 4), grid="0.5", max_rows_per_unit=1)
        coarse = chary.sum("cost", bounds=(0, 4), grid=2, max_rows_per_unit=1)
        assert [sparse.ask(query).value for query in (fine, coarse)] == [
            session.release(query, epsilon=PLENTY // 5).value for query in (fine, coarse)
        ]
        exact = session.release(fine, epsilon=PLENTY // 5).value
        assert sparse.ask(fine, above=exact)
        assert not sparse.ask(fine, above=Fraction(exact) + Fraction(1, 100))


def test_the_noise_scales_with_sensitivity(opened):
    session = opened(budget=PURE)
    openings = (SparseVector(above=0, hits=2, epsilon=1, sensitivity=size, values=True) for size in (1, 9))
    one, nine = (session.quote(opening, tests=10) for opening in openings)
    assert 8 < nine.within.error / one.within.error < 10
    assert 8 < nine.error_bar / one.error_bar < 10


def test_a_series_needs_no_more_noise_for_being_long():
    frame = pd.DataFrame({"n": [5, 700, 5, 800, 900, 5]})
    with chary.open_counts(frame, column="n", sensitivity=2, budget=Budget(epsilon=1), ledger=":memory:") as session:
        with session.start(SparseVector(above=400, hits=2, epsilon="0.8", sensitivity=2)) as sparse:
            found = sparse.ask(session.series())
            assert (list(found.above), found.untested) == ([(1,), (3,)], ((4,), (5,)))
        with pytest.raises(InvalidParameter, match="monotone"):
            session.start(SparseVector(above=1, hits=1, epsilon="0.1", monotone=True))


def test_it_goes_on_while_the_table_grows(opened):
    session = opened(budget=NO_NOISE, filter="pure")
    sparse = session.start(SparseVector(above=52, hits=1, epsilon=PLENTY))
    assert not sparse.ask(count())
    row = {"patient": 7, "clinic": "north", "age": 1, "cost": 1.0, "note": "none"}
    session.append(pd.DataFrame([row]))
    assert sparse.ask(count())


def test_accuracy_and_quote_agree_and_the_published_form_has_its_bound(opened):
    session = opened(budget=PURE)
    opening = SparseVector(above=1, hits=3, epsilon="0.5", mechanism="published", values=True)
    quote = session.quote(opening, tests=1000)
    assert session.history == []
    sparse = session.start(opening)
    assert sparse.state.accuracy(tests=1000) == quote.within
    assert quote.within.error < quote.within.published
    assert (quote.most_charged, quote.price_if_miss, quote.fits) == (0.25, 0.25, True)
    assert "25 % of the budget" in str(quote)
    assert "With 95 % confidence, all of 1000 tests are right for values" in str(quote)
    assert quote.as_dict()["within"] == quote.within.as_dict()
    tuned = session.quote(SparseVector(above=1, hits=3, epsilon=9), tests=1000)
    assert (tuned.within.published, tuned.fits, tuned.error_bar) == (None, False, None)
    assert "The call does not fit: 75 % of the budget is left" in str(tuned)


def test_how_far_off_it_may_be_is_told_for_a_number_of_tests(opened):
    session, opening = opened(budget=PURE), SparseVector(above=1, hits=3, epsilon="0.5")
    few, many, surer = (
        session.quote(opening, **told).within
        for told in ({"tests": 10}, {"tests": 1000}, {"tests": 10, "confidence": "0.999"})
    )
    assert few.error < min(many.error, surer.error)
    assert (few.confidence, surer.confidence, surer.tests) == (0.95, 0.999, 10)
    quote = session.quote(opening)
    assert (quote.within, quote.distance, quote.wrong_call) == (None, None, None)
    assert session.quote(Release(count(), epsilon="0.1"), tests=10).within is None
    for wrong in ({"tests": 0}, {"tests": 1.5}, {"tests": 10, "confidence": 1}):
        with pytest.raises(InvalidParameter):
            session.quote(opening, **wrong)


def test_a_question_to_it_is_quoted_as_free(opened):
    session = opened(budget=PURE)
    told = {}
    for values in (True, False):
        opening = SparseVector(above=1, hits=3, epsilon="0.5", values=values)
        quote = session.start(opening).quote(count())
        assert (quote.most_charged, quote.hits_left, quote.fits) == (0, None, True)
        told[values] = quote.error_bar, session.quote(opening).error_bar
    assert told[True][0] == told[True][1] > 0
    assert told[False] == (None, None)


@pytest.mark.parametrize(
    "given",
    [
        {"epsilon": 0},
        {"epsilon": None},
        {"hits": 0},
        {"hits": True},
        {"above": "many"},
        {"above": None},
        {"delta": "1e-7"},
        {"mechanism": "broken"},
        {"tests": 0},
        {"tests": "7"},
        {"mechanism": "one-sided", "delta": "1e-7"},
        {"mechanism": "tuned", "tests": 7},
        {"mechanism": "published", "tests": 7},
        {"monotone": 1},
        {"values": None},
        {"sensitivity": "0.5"},
        {"sensitivity": -1},
        {"grid": 0},
        {"mechanism": "published", "monotone": True},
        {"mechanism": "published", "delta": 1},
        {"call": 1},
    ],
)
def test_bad_openings_charge_nothing(opened, given):
    session = opened(budget=PURE)
    with pytest.raises(InvalidParameter):
        session.start(SparseVector(**({"above": 1, "hits": 2, "epsilon": 1} | given)))
    assert session.history == []
