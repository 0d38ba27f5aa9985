"""Answers of growing sparse vectors: their law, their accuracy, and what none gets."""

from fractions import Fraction

import numpy as np
import polars as pl
import pytest

import chary
from chary import Budget, count, mean
from chary.accounting import Pure, error_up
from chary.accounting.sparse_vector import growing_error_up, published_growing_error, reach, round_noise
from chary.amounts import Amount
from chary.calls import GrowingRun, GrowingTests
from chary.calls.growing_tests import GrowingRoundState, RoundsLaw
from chary.core.plan import Data
from chary.errors import InvalidParameter, InvalidQuery, NotPriced
from chary.filters import Price
from chary.noise import Seeded
from tests.calls.growing.growing_sparse_kit import PURE, ROW, more
from tests.mechanisms.sparse_laws import pmf
from tests.session.kit import CLINICS, NO_NOISE, spent, visits


@pytest.mark.parametrize("form", ["tuned", "published"])
def test_a_round_has_the_noise_of_its_epsilon(form):
    sizes = {"exponent": "0.5", "values": True, "mechanism": form, "sensitivity": 6, "grid": "0.5"}
    made = RoundsLaw(GrowingTests(above="0.5", epsilon="0.3", **sizes), ROW, 100)
    opened = made.round(made.terms.epsilon_down(400))
    assert opened.machine.sizes == round_noise(made.terms.epsilon_down(400), values=True, form=form)
    assert (opened.machine.sensitivity, opened.event) == (12, Pure(made.terms.epsilon_down(400)))
    assert run_of(made)._begin(400).event == opened.event


def run_of(law):
    """A run of these terms, without rows and ledger."""
    run = GrowingRun(None, 1, {})
    run.law = law
    return run


RUNS, BEYOND = 1200, 15
PRICE = Price(Amount(0), Amount(0))


def rate(epsilon, value, size):
    """How often a value is called above half of the rows, in rounds that began at 120 rows and were asked at `size`.

    The opening was at 60 rows, where a round was worth twice as much.
    """
    opening, source, hits = GrowingTests(above="0.5", epsilon=2 * Fraction(epsilon), exponent=0), Seeded(8), 0
    run = run_of(RoundsLaw(opening, ROW, 60))
    asked, begin = run._at(size, count(), "0.5"), run._begin(120)
    for _ in range(RUNS):
        began = begin.run(Data([], source, GrowingRoundState().dump(), None, PRICE))
        hits += asked.run(Data([value], source, began.secrets[1], None, PRICE)).hits
    return hits / RUNS


@pytest.mark.statistical
def test_answers_have_the_law_of_the_round_at_a_later_size_and_other_scales_have_not():
    noise, shifts, size = round_noise("0.2"), np.arange(-900, 901), 1200
    reached = reach(noise.test, (shifts - BEYOND).astype(float))
    expected = float(pmf(noise.threshold, shifts) @ reached)
    deviation = (expected * (1 - expected) / RUNS) ** 0.5
    off = [abs(rate(epsilon, size // 2 + BEYOND, size) - expected) / deviation for epsilon in ("0.2", "0.3", "2/15")]
    assert off[0] < 4.9
    assert min(off[1:]) > 4.9


def test_accuracy_is_that_of_the_open_round_at_the_size_of_now(rows):
    session = rows()
    published = {"mechanism": "published", "sensitivity": 2, "grid": "0.5", "exponent": "0.5", "values": True}
    growing = session.start(GrowingTests(above="0.5", epsilon="0.2", **published))
    first, terms = growing.state.accuracy(tests=50), growing.state._law.terms
    told = growing_error_up(terms, size=120, tests=50, sensitivity=4)
    assert (first.error, first.size) == (told / 2, 120)
    assert first.published == 2 * published_growing_error(terms, size=120, tests=50)
    assert first.error < first.published
    growing.ask()
    session.append(more(120))
    later = growing.state.accuracy(tests=50)
    assert (later.error, later.size) == (pytest.approx(first.error / 2), 240)
    many = growing.state.accuracy(tests=50, rounds=3, confidence="0.9")
    assert many.error == growing_error_up(terms, size=240, tests=50, number=3, sensitivity=4, confidence="0.9") / 2
    assert many.as_dict()["rounds"] == 3
    tuned = session.start(GrowingTests(above="0.5", epsilon="0.2")).state.accuracy(tests=50)
    assert tuned.published is None
    assert tuned.error == pytest.approx(error_up(round_noise("0.2"), tests=50, confidence="0.95") / 240)


def test_totals_are_averages_in_their_own_units(rows):
    session, frame = rows(budget=NO_NOISE, filter="pure", unsafe_noise=Seeded(1)), visits()
    average = Fraction(int(frame.age.clip(0, 50).sum()), 120)
    terms = {"epsilon": 3000, "values": True, "sensitivity": 50, "grid": "0.5"}
    growing = session.start(GrowingTests(above=average, **terms))
    asked = chary.sum("age", bounds=(0, 50))
    assert not growing.ask(asked, above=average + Fraction(1, 1000))
    assert growing.ask(asked).value == pytest.approx(float(average))


def test_questions_that_cannot_be_asked_begin_no_round(rows):
    session = rows()
    growing = session.start(GrowingTests(above="0.5", epsilon="0.5"))
    refused = {
        "sensitivity=50": chary.sum("age", bounds=(0, 50)),
        r"grid=0\.5": chary.sum("cost", bounds=(0, 1), grid="0.5"),
        "counts, sums": mean("age", bounds=(0, 50)),
        "one group at a time": count().by("clinic", CLINICS),
        "unknown column": count("unknown > 3"),
    }
    for message, query in refused.items():
        with pytest.raises(InvalidQuery, match=message):
            growing.ask(query)
    for bad in ("many", float("nan"), None):
        with pytest.raises((InvalidParameter, InvalidQuery)):
            growing.ask(bad if bad is None else count(), above=bad)
    with pytest.raises(InvalidParameter, match=r"ask\(query, above=\.\.\.\)"):
        growing.ask(above="0.2")
    assert (growing.state.rounds, spent(session).main, len(session.history)) == (0, 0, 1)


@pytest.mark.parametrize(
    ("query", "above", "message"),
    [
        (count("age >= 65"), 30, "0.3 is 30 %; got 30"),
        (count("age >= 65"), "1.000001", "0.3 is 30 %"),
        (count("age >= 65"), "-0.01", "0.3 is 30 %"),
        (chary.sum("age", bounds=(-10, 50)), 51, "average over all rows, from -10 to 50 here; got 51"),
        (chary.sum("age", bounds=(20, 50)), -1, "from 0 to 50 here"),
    ],
)
def test_a_threshold_that_no_average_can_have_is_refused_before_anything_is_charged(rows, query, above, message):
    session = rows()
    growing = session.start(GrowingTests(above=above, epsilon="0.5", sensitivity=60))
    with pytest.raises(InvalidParameter, match=message):
        growing.ask(query)
    assert (growing.state.rounds, spent(session).main, len(session.history)) == (0, 0, 1)


@pytest.mark.parametrize(
    ("above", "sensitivity"), [(30, 1), ("1.01", 1), ("-1.01", 1), (51, 50), (-51, 50), ("0.51", "0.5")]
)
def test_a_threshold_that_no_question_can_have_is_refused_at_the_opening(rows, above, sensitivity):
    session = rows()
    with pytest.raises(InvalidParameter, match=r"0.3 is 30 %"):
        session.start(GrowingTests(above=above, epsilon="0.5", sensitivity=sensitivity, grid="0.5"))
    assert session.history == []


def test_an_earlier_opening_with_any_threshold_goes_on(rows):
    session = rows()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GrowingTests, "_check_average", lambda _call: None)
        call = session.start(GrowingTests(above=30, epsilon="0.5")).call
    growing = session.resume(call)
    assert session.runs == [(call, "growing_sparse_vector")]
    assert growing.ask(count(), above=1).round == 1


@pytest.mark.parametrize(("query", "above"), [(count(), 0), (count(), 1), (chary.sum("age", bounds=(-10, 0)), -10)])
def test_thresholds_at_the_bounds_can_be_asked(rows, query, above):
    growing = rows().start(GrowingTests(above="0.5", epsilon="0.5", sensitivity=10))
    assert growing.ask(query, above=above).round == 1


@pytest.mark.parametrize(
    "given",
    [
        {"epsilon": 0},
        {"epsilon": None},
        {"epsilon": "1e-16"},
        {"above": "many"},
        {"above": None},
        {"exponent": "4.5"},
        {"exponent": "1.5", "epsilon": None, "hits": 3},
        {"exponent": -1},
        {"rounds": 0},
        {"rounds": True},
        {"rounds": 1.5},
        {"mechanism": "broken"},
        {"values": 1},
        {"sensitivity": "0.5"},
        {"sensitivity": -1},
        {"grid": 0},
        {"call": 1},
    ],
)
def test_bad_openings_charge_nothing(rows, given):
    session = rows()
    with pytest.raises(InvalidParameter):
        session.start(GrowingTests(**{"above": "0.5", "epsilon": "0.1"} | given))
    assert session.history == []


@pytest.mark.parametrize(
    "options",
    [
        {"privacy_unit": "patient", "neighbors": "add_remove"},
        {"privacy_unit": None, "neighbors": "add_remove"},
        {"privacy_unit": "patient", "neighbors": "replace"},
    ],
)
def test_a_secret_size_is_refused_before_anything_is_read(rows, options):
    seen = []
    session = rows(on_step=seen.append, **options)
    with pytest.raises(InvalidQuery, match="secret"):
        session.start(GrowingTests(above="0.5", epsilon="0.1"))
    assert (seen, session.history) == ([], [])


def test_a_series_has_no_rows_to_average_over():
    """Its size is public, but a round would be charged in which nothing can be asked."""
    days = pl.DataFrame({"day": ["Mo", "Tu"], "rides": [5, 7]})
    options = {"column": "rides", "sensitivity": 1, "labels": "day", "budget": PURE, "ledger": ":memory:"}
    with chary.open_counts(days, **options) as session:
        with pytest.raises(InvalidQuery, match="rows of a table"):
            session.start(GrowingTests(above="0.5", epsilon="0.1"))
        assert session.history == []


def test_a_table_without_rows_or_one_that_shrank_is_refused(rows):
    with pytest.raises(InvalidQuery, match="append some first"):
        rows(rows=visits().iloc[:0]).start(GrowingTests(above="0.5", epsilon="0.1"))
    made = run_of(RoundsLaw(GrowingTests(above="0.5", epsilon="0.1"), ROW, 100))
    with pytest.raises(InvalidParameter, match="does not shrink"):
        made._begin(99)


def test_a_filter_without_a_price_for_rounds_refuses_the_opening(rows):
    session = rows(budget=Budget(epsilon=1, delta=1e-6), filter="exact", grain="0.02")
    with pytest.raises(NotPriced):
        session.start(GrowingTests(above="0.5", epsilon="0.9"))
    assert session.start(GrowingTests(above="0.5", epsilon="0.02")).ask(count()).round == 1
