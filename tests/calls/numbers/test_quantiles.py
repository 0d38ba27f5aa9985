"""Quantiles, modes and fractions in a session."""

import json
import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import chary
from chary import Budget, count, histogram, open_counts
from chary.accounting import Pure, ZeroConcentrated
from chary.amounts import Amount
from chary.calls import Choose, Proportion, Quantile
from chary.calls.choices import inverse_choice
from chary.calls.quantiles import mechanism_of
from chary.core.plan import Data
from chary.data import NeighborRelation
from chary.errors import BudgetExceeded, EngineError, InvalidParameter, InvalidQuery, RequestConflict
from chary.noise import Seeded
from tests.session.kit import CLINICS, NO_NOISE, PLENTY, error_texts, shows_data, spent, visits

AGES = {"bounds": (0, 120), "max_rows_per_unit": 1}
ALPHA = 1e-6
mode = partial(Choose, mechanism="inverse")


def people(ages):
    return pd.DataFrame({"age": ages})


# Without noise


@pytest.mark.parametrize("neighbors", ["add_remove", "replace"])
def test_quantiles_without_noise(opened, place, neighbors):
    ages = np.random.default_rng(2).integers(0, 100, 1001)
    session = opened(people(ages), privacy_unit=None, neighbors=neighbors, budget=NO_NOISE, ledger=place)
    for q in (0.1, 0.5, "2/3"):
        found = session.ask(Quantile("age", q, bounds=(0, 120), epsilon=PLENTY))
        assert found.value == float(found) == np.quantile(ages, float(Fraction(q)), method="inverted_cdf")
    many = session.ask(Quantile("age", [0.1, 0.25, 0.5, 0.9], bounds=(0, 120), epsilon=PLENTY))
    assert list(many.value) == [0.1, 0.25, 0.5, 0.9]
    truth = np.quantile(ages, many.at, method="inverted_cdf")
    assert np.abs(np.array(many.values) - truth).max() <= 1
    half = session.ask(Quantile("age", 0.5, bounds=(0, 120), step=5, epsilon=PLENTY)).value
    assert half == 5 * round(np.median(ages) / 5)
    some = session.ask(Quantile("age", 0.5, bounds=(0, 120), where="age >= 90", epsilon=PLENTY)).value
    assert some == np.quantile(ages[ages >= 90], 0.5, method="inverted_cdf")


def test_of_a_unit_its_middle_value_counts(opened):
    frame = pd.DataFrame({"patient": [1] * 99 + [2] * 3 + [3], "age": [90] * 99 + [0, 10, 80] + [20]})
    session = opened(frame, budget=NO_NOISE)
    assert session.ask(Quantile("age", 0.5, **AGES, epsilon=PLENTY)).value == 20
    crowd = session.ask(Quantile("age", 0.5, bounds=(0, 120), max_rows_per_unit=1000, epsilon=PLENTY)).value
    assert crowd == 90


def test_missing_values_are_nobodys(opened):
    session = opened(people([None, math.nan, 10, 20, 30, None]), privacy_unit=None, budget=NO_NOISE)
    assert session.ask(Quantile("age", 0.5, bounds=(0, 120), epsilon=PLENTY)).value == 20


def test_an_empty_table_gives_any_grid_point(opened):
    session = opened(people([1.0]), privacy_unit=None, budget=NO_NOISE, unsafe_noise=Seeded(1))
    found = [session.ask(Quantile("age", 0.5, bounds=(0, 3), where="age > 9", epsilon=1)).value for _ in range(60)]
    assert set(found) == {0, 1, 2, 3}


@pytest.mark.parametrize("neighbors", ["add_remove", "replace"])
def test_modes_without_noise(opened, neighbors):
    frame = pd.DataFrame({"clinic": ["a"] * 5 + ["b"] * 9 + ["c"] * 7, "age": [10] * 5 + [20] * 9 + [70] * 7})
    session = opened(frame, privacy_unit=None, neighbors=neighbors, budget=NO_NOISE)
    assert session.ask(mode(count().by("clinic", ["a", "b", "c"]), epsilon=PLENTY)).value == "b"
    assert session.ask(mode(count().by("clinic", ["a", "c"]), epsilon=PLENTY)).value == "c"
    assert session.ask(mode(count().by(["clinic", "age"], [("a", 10), ("b", 10)]), epsilon=PLENTY)).value == ("a", 10)
    assert session.ask(mode(histogram("age", bins=[0, 15, 65, 120]), epsilon=PLENTY)).value == (15, 65)


def test_fractions_without_noise(opened, place):
    session = opened(
        people([70] * 30 + [20] * 70), privacy_unit=None, neighbors="replace", budget=NO_NOISE, ledger=place
    )
    found = session.ask(Proportion("age >= 65", epsilon=PLENTY))
    assert (found.value, found.error_bar) == (0.3, 0.0)
    assert session.ask(Proportion("age >= 500", epsilon=PLENTY)).value == 0
    by_unit = opened(visits(), neighbors="replace", budget=NO_NOISE)
    frame = visits()
    old = frame[frame["age"] >= 44]["patient"].nunique() / frame["patient"].nunique()
    assert by_unit.ask(Proportion("age >= 44", epsilon=PLENTY)).value == old


# Laws


def seen(session, made, runs, shown):
    """How often each public answer comes out of runs on one reading of the rows."""
    values = [read.run() for read in made.reads(session.spine.rows)]
    touched = Data(values, Seeded(6), None, None, made.price(session.spine.filter))
    return Counter(shown(made.present(made.run(touched).answer, 1)) for _ in range(runs))


@pytest.mark.statistical
@pytest.mark.parametrize("scale", [1, 1.5, 2 / 3])
def test_the_median_follows_its_law_and_no_other(opened, scale):
    session = opened(people([2, 3, 3, 6]), privacy_unit=None, budget=NO_NOISE)
    made = Quantile("age", ["0.5"], bounds=(0, 7), epsilon="0.8").plan(session.spine)
    runs = 5000
    found = seen(session, made, runs, lambda answer: answer.values[0])
    below, on = np.array([0, 0, 0, 1, 3, 3, 3, 4]), np.array([0, 0, 1, 2, 0, 0, 1, 0])
    above = 4 - below - on
    distances = np.maximum(0, np.maximum(below - above - on, above - below - on))
    weights = np.exp(-0.4 * scale * distances)
    expected = weights / weights.sum() * runs
    p = stats.chisquare([found[t] for t in range(8)], expected).pvalue
    assert p > ALPHA if scale == 1 else p < ALPHA


@pytest.mark.statistical
@pytest.mark.parametrize("scale", [1, 1.5, 2 / 3])
def test_the_fraction_follows_its_law_and_no_other(opened, scale):
    session = opened(people([70, 20, 20, 20, 20]), privacy_unit=None, neighbors="replace", budget=NO_NOISE)
    made = Proportion("age >= 65", epsilon="0.6").plan(session.spine)
    runs = 5000
    found = seen(session, made, runs, lambda answer: round(5 * answer.value))
    r = math.exp(-0.6 * scale)
    tail = [r**k / (1 + r) for k in range(6)]
    law = [tail[1], *[(1 - r) / (1 + r) * r ** abs(k - 1) for k in range(1, 5)], tail[4]]
    assert sum(law) == pytest.approx(1)
    p = stats.chisquare([found[k] for k in range(6)], np.array(law) * runs).pvalue
    assert p > ALPHA if scale == 1 else p < ALPHA


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("neighbors", "distances", "rate"), [("add_remove", [0, 3, 5], 0.9), ("replace", [0, 2, 3], 0.45)]
)
def test_the_mode_follows_its_law(opened, neighbors, distances, rate):
    frame = pd.DataFrame({"clinic": ["a"] * 5 + ["b"] * 2})
    session = opened(frame, privacy_unit=None, neighbors=neighbors, budget=NO_NOISE)
    made = mode(count().by("clinic", ["a", "b", "c"]), epsilon="0.9").plan(session.spine)
    runs = 5000
    found = seen(session, made, runs, lambda answer: answer.value)
    for factor in (1, 1.5, 2 / 3):
        weights = np.exp(-rate * factor * np.array(distances))
        p = stats.chisquare([found[key] for key in "abc"], weights / weights.sum() * runs).pvalue
        assert p > ALPHA if factor == 1 else p < ALPHA


# What is charged


def test_the_lower_of_two_prices_is_charged(opened):
    session = opened(budget=Budget(epsilon=4, delta=1e-6))
    price = session.spine.filter.price
    session.ask(Quantile("age", 0.5, **AGES, epsilon="0.1"))
    first = spent(session)
    assert first == price(ZeroConcentrated(Fraction(1, 800))).hit != price(Pure("0.1")).hit
    session.ask(Quantile("age", [0.25, 0.5, 0.75], **AGES, epsilon="0.1"))
    second = spent(session)
    assert second - first == price(ZeroConcentrated(Fraction(1, 1600))).hit
    session.ask(mode(count().by("clinic", CLINICS), epsilon="0.1"))
    third = spent(session)
    assert third - second == first
    session.ask(Quantile("age", 0.5, bounds=(0, 1), max_rows_per_unit=1, epsilon="0.1"))
    assert spent(session) - third == price(Pure("0.1")).hit


def test_the_pure_filter_adds_up_epsilons(opened):
    session = opened(budget=Budget(epsilon=1))
    session.ask(Quantile("age", [0.25, 0.5, 0.75], **AGES, epsilon="0.1"))
    session.ask(mode(count().by("clinic", CLINICS), epsilon="0.2"))
    assert spent(session) == Amount(3 * 10**14)
    with pytest.raises(BudgetExceeded, match="would fit"):
        session.ask(Quantile("age", 0.5, **AGES, epsilon=1))


def test_two_keys_that_are_replaced_are_paid_in_full(opened):
    frame = pd.DataFrame({"clinic": ["a", "b"]})
    session = opened(frame, privacy_unit=None, neighbors="replace", budget=Budget(epsilon=4, delta=1e-6))
    session.ask(mode(count().by("clinic", ["a", "b"]), epsilon="0.1"))
    assert spent(session) == session.spine.filter.price(Pure("0.1")).hit


def test_rank_errors_are_told(opened):
    rows = opened(people([1.0, 2.0]), privacy_unit=None, budget=NO_NOISE)
    assert rows.ask(Quantile("age", 0.5, bounds=(0, 120), epsilon="0.1")).rank_error == 78
    units = opened(budget=NO_NOISE)
    wide = units.ask(Quantile("age", 0.5, bounds=(0, 120), max_rows_per_unit=4, epsilon="0.1")).rank_error
    assert 4 * 77 <= wide <= 4 * 78
    ten = rows.ask(Quantile("age", [k / 10 for k in range(1, 10)], bounds=(0, 120), epsilon="0.1"))
    assert len(ten.rank_errors) == len(ten.values) == 9
    assert min(ten.rank_errors) == ten.rank_errors[4]


# What goes wrong


@pytest.mark.parametrize(
    ("ask", "error"),
    [
        (lambda s: s.ask(Quantile("age", 0, **AGES, epsilon=1)), InvalidParameter),
        (lambda s: s.ask(Quantile("age", 1, **AGES, epsilon=1)), InvalidParameter),
        (lambda s: s.ask(Quantile("age", "x", **AGES, epsilon=1)), InvalidParameter),
        (lambda s: s.ask(Quantile("age", 0.5, **AGES, epsilon=0)), InvalidParameter),
        (lambda s: s.ask(Quantile("age", 0.5, bounds=(120, 0), max_rows_per_unit=1, epsilon=1)), InvalidQuery),
        (lambda s: s.ask(Quantile("age", 0.5, bounds=(0, 120), epsilon=1)), InvalidQuery),
        (lambda s: s.ask(Quantile("note", 0.5, **AGES, epsilon=1)), InvalidQuery),
        (lambda s: s.ask(Quantile("nowhere", 0.5, **AGES, epsilon=1)), InvalidQuery),
        (lambda s: s.ask(Quantile("age", [], **AGES, epsilon=1)), InvalidParameter),
        (lambda s: s.ask(Quantile("age", [0.5, 0.25], **AGES, epsilon=1)), InvalidParameter),
        (lambda s: s.ask(Quantile("age", [0.5, 0.5], **AGES, epsilon=1)), InvalidParameter),
        (lambda s: s.ask(mode(count(), epsilon=1)), InvalidQuery),
        (lambda s: s.ask(mode(count().by("clinic", ["north"]), epsilon=1)), InvalidQuery),
        (
            lambda s: s.ask(
                mode(chary.sum("age", bounds=(0, 9), max_rows_per_unit=1).by("clinic", CLINICS), epsilon=1)
            ),
            InvalidQuery,
        ),
        (lambda s: s.ask(Quantile("age", 0.5, **AGES, epsilon="0.000001", interval=0.9)), InvalidParameter),
        (lambda s: s.ask(mode("clinic", epsilon=1)), InvalidQuery),
        (lambda s: s.ask(mode(count().by("clinic", CLINICS), epsilon=-1)), InvalidParameter),
        (lambda s: s.ask(Proportion("age > 1", epsilon=1)), InvalidQuery),
        (lambda s: s.ask(Proportion(None, epsilon=1)), InvalidQuery),
    ],
)
def test_bad_questions_charge_nothing_and_show_nothing(opened, ask, error):
    session = opened(budget=NO_NOISE)
    with pytest.raises(error) as refused:
        ask(session)
    assert session.history == []
    assert not shows_data(error_texts(refused.value))


@pytest.mark.parametrize(
    ("neighbors", "keys", "whole"),
    [("add_remove", 3, True), ("add_remove", 2, True), ("replace", 2, True), ("replace", 3, False)],
)
def test_the_half_is_dropped_where_the_distances_allow_it(neighbors, keys, whole):
    asked = count().by("clinic", CLINICS[:keys])
    assert inverse_choice(asked, NeighborRelation(neighbors, None), "0.1").whole is whole


@pytest.mark.parametrize(("neighbors", "replace"), [("add_remove", False), ("replace", True)])
@pytest.mark.parametrize(("unit", "rows", "moves"), [(None, None, 1), ("patient", 3, 3)])
def test_quantiles_follow_the_relation_and_the_values_of_a_unit(neighbors, replace, unit, rows, moves):
    asked = Quantile("age", ["0.25", "0.5", "0.75"], bounds=(0, 120), max_rows_per_unit=rows, epsilon="0.1")
    made = mechanism_of(asked, NeighborRelation(neighbors, unit))
    assert (made.replace, made.moves, made.rounds) == (replace, moves, 2 if unit is None else 3)


def test_replaced_units_need_one_key_each_for_a_mode(opened):
    session = opened(neighbors="replace", budget=NO_NOISE)
    for query in (count().by("clinic", CLINICS), count().by("clinic", CLINICS, max_groups_per_unit=2)):
        with pytest.raises(InvalidQuery, match="leave mechanism= out"):
            session.ask(mode(query, epsilon=PLENTY))
    assert session.ask(mode(count().by("clinic", CLINICS, max_groups_per_unit=1), epsilon=PLENTY)).value in CLINICS


def test_a_series_has_no_columns_of_values():
    frame = pd.DataFrame({"cnt": [1, 2, 3]})
    with (
        open_counts(frame, column="cnt", sensitivity=1, budget=NO_NOISE, ledger=":memory:") as session,
        pytest.raises(InvalidQuery),
    ):
        session.ask(Quantile("cnt", 0.5, bounds=(0, 9), epsilon=1))


def test_a_failing_engine_stays_charged_and_shows_nothing(opened):
    session = opened(budget=NO_NOISE)
    with session.spine.rows.held.database.connection() as connection:
        connection.execute("DROP TABLE temp.main.chary_rows")
    with pytest.raises(EngineError) as failure:
        session.ask(Quantile("age", 0.5, **AGES, epsilon=1))
    assert spent(session) != Amount(0)
    assert not shows_data(error_texts(failure.value))


@pytest.mark.parametrize("limit", [2**20 + 1, 2**44, 2**61, 2**63])
def test_no_limit_is_so_large_that_the_engine_fails_on_some_rows(opened, limit):
    frame = pd.DataFrame({"patient": [1, 1, 2], "age": [10, 20, 30]})
    session = opened(frame)
    asked = {"bounds": (0, 100), "epsilon": "0.001"}
    session.ask(Quantile("age", "1/3", max_rows_per_unit=2**20, **asked))
    before = session.spent.share
    for refused in (
        lambda: session.ask(Quantile("age", "1/3", max_rows_per_unit=limit, **asked)),
        lambda: session.release(chary.sum("age", bounds=(0, 100), max_rows_per_unit=limit), epsilon="0.001"),
        lambda: session.release(count().by("age", [10, 20], max_groups_per_unit=limit), epsilon="0.001"),
    ):
        with pytest.raises(InvalidQuery, match=r"at most 2\*\*20"):
            refused()
    assert session.spent.share == before


# Intervals, and which rows of a unit count


@pytest.mark.parametrize("neighbors", ["add_remove", "replace"])
def test_intervals_without_noise_are_the_quantiles_and_a_few_ranks(opened, neighbors):
    ages = np.random.default_rng(2).integers(0, 1000, 5001)
    session = opened(people(ages), privacy_unit=None, neighbors=neighbors, budget=NO_NOISE)
    found = session.ask(Quantile("age", 0.5, bounds=(0, 1000), epsilon=PLENTY, interval=0.95))
    low, high = found.interval
    assert low <= np.median(ages) <= high
    assert high - low <= 4
    assert found.estimated == "quantiles of age over all rows"
    old = session.ask(Quantile("age", 0.5, bounds=(0, 1000), epsilon=PLENTY, where="age >= 500"))
    assert old.estimated == "quantiles of age over all rows where age >= 500"
    many = session.ask(Quantile("age", [0.25, 0.75], bounds=(0, 1000), epsilon=PLENTY, interval=0.95))
    for row, truth in zip(many, np.quantile(ages, many.at), strict=True):
        assert row["low"] <= truth <= row["high"]
        assert row["high"] - row["low"] <= 6
    assert session.ask(Quantile("age", 0.5, bounds=(0, 1000), epsilon=PLENTY)).interval is None


@pytest.mark.statistical
def test_intervals_cover_on_few_rows_and_say_so_before(opened):
    """What a quote says of ranks holds, and true medians are missed less often than stated."""
    ages = np.sort(np.random.default_rng(3).integers(0, 1000, 400))
    session = opened(people(ages), privacy_unit=None, budget=Budget(epsilon=10**4), unsafe_noise=Seeded(4))
    asked = Quantile("age", 0.5, bounds=(0, 1000), epsilon=3, interval="0.9")
    quoted = session.quote(asked)
    reach, missed = int(quoted.interval.split("at most ")[1].split()[0]), 0
    for _ in range(60):
        low, high = session.ask(asked).interval
        missed += not low <= np.median(ages) <= high
        assert np.searchsorted(ages, low) >= 200 - reach - 1
        assert np.searchsorted(ages, high) <= 200 + reach + 1
    assert stats.binom.sf(missed - 1, 60, 0.1) > ALPHA
    alone = session.quote(replace(asked, interval=None))
    assert 3 * (alone.rank_error - 1) <= quoted.rank_error <= 3 * (alone.rank_error + 1)
    assert "interval=0.95" in str(alone)


def test_what_is_asked_with_and_without_an_interval_are_two_questions(opened):
    session = opened(budget=NO_NOISE)
    plain = Quantile("age", 0.5, **AGES, epsilon=1)
    known = session.ask(plain, request="q")
    assert session.ask(plain, request="q") == known
    for other in (replace(plain, interval=0.9), replace(plain, of_unit="random")):
        with pytest.raises(RequestConflict):
            session.ask(other, request="q")
    guarded = session.ask(replace(plain, interval=0.9), request="g")
    assert session.ask(replace(plain, interval=0.9), request="g").interval == guarded.interval
    assert "interval" not in json.loads(Quantile("age", [0.5], **AGES, epsilon=1).plan(session.spine).body)


STAYS = pd.DataFrame({"patient": [1] * 4 + [2] * 2 + [3], "age": [10, 20, 30, 90, 40, 70, 50]})


@pytest.mark.parametrize(
    ("of_unit", "rows", "at", "expected"),
    [
        ("spread", 1, 0.5, {40}),
        ("mean", 1, 0.5, {50}),
        ("mean", 1, 0.1, {38}),
        ("weighted", 4, 0.5, {50}),
        ("weighted", 4, 0.2, {30}),
        ("random", 4, 0.5, {40}),
        ("random", 1, 0.99, {50, 70, 90}),
    ],
)
def test_which_values_of_a_unit_count(opened, of_unit, rows, at, expected):
    session = opened(STAYS, budget=NO_NOISE)
    limits = {"bounds": (0, 120), "max_rows_per_unit": rows, "of_unit": of_unit}
    found = {session.ask(Quantile("age", at, **limits, epsilon=PLENTY)).value for _ in range(12)}
    assert found == expected if len(expected) == 1 else found <= expected
    assert "patient" in session.ask(Quantile("age", at, **limits, epsilon=PLENTY)).estimated


def test_a_drawn_row_is_drawn_once_a_request_and_negative_means_round_upwards(opened):
    frame = pd.DataFrame({"patient": [1] * 50, "age": range(50)})
    session = opened(frame, budget=NO_NOISE)
    drawn = Quantile("age", 0.5, **AGES, of_unit="random", epsilon=PLENTY)
    assert len({session.ask(drawn, request="again").value for _ in range(9)}) == 1
    assert len({session.ask(drawn).value for _ in range(20)}) > 3
    below = opened(pd.DataFrame({"patient": [1, 1], "age": [-8, -3]}), budget=NO_NOISE)
    mean = Quantile("age", 0.5, bounds=(-10, 10), max_rows_per_unit=1, of_unit="mean", epsilon=PLENTY)
    assert below.ask(mean).value == -5


@pytest.mark.parametrize(
    "wrong",
    [
        {"of_unit": "median"},
        {"of_unit": "mean", "max_rows_per_unit": 2},
        {"of_unit": "random", "max_rows_per_unit": None},
        {"interval": 0},
        {"interval": 1},
        {"interval": "most"},
    ],
)
def test_wrong_choices_are_refused(opened, wrong):
    session = opened(STAYS)
    with pytest.raises((InvalidParameter, InvalidQuery)):
        session.ask(Quantile("age", 0.5, **(AGES | {"epsilon": 1} | wrong)))
    assert session.history == []
