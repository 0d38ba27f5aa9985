"""Histograms, marginals and Gaussian releases by (epsilon, delta) in a session."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import chary
from chary import Budget, count, histogram, mean
from chary.accounting import (
    Approximate,
    ZeroConcentrated,
    discrete_gaussian_delta_up,
    zero_concentrated_rho_down,
)
from chary.amounts import Amount
from chary.calls import Greedy, Histogram, IndividualTests, Marginal, Release, ThresholdTest, TopK
from chary.calls.releases import noises, released
from chary.data import NeighborRelation
from chary.data.queries.histogram import Bin
from chary.errors import BudgetExceeded, InvalidParameter, InvalidQuery, NotPriced, RequestConflict
from chary.noise import Seeded
from tests.session.kit import CLINICS, NO_NOISE, PLENTY, error_texts, shows_data, spent, visits

EDGES = [0, 18, 65, 120]
ALPHA = 1e-6


def people(size=3000):
    generator = np.random.default_rng(4)
    return pd.DataFrame(
        {
            "age": generator.integers(0, 100, size),
            "sex": generator.choice(["f", "m"], size),
            "smoker": generator.random(size) < 0.3,
        }
    )


# Histograms and marginals


def test_without_noise_they_are_the_counts(opened, place):
    frame = people()
    session = opened(frame, privacy_unit=None, budget=NO_NOISE, ledger=place)
    found = session.ask(Histogram("age", bins=EDGES, epsilon=PLENTY))
    expected = np.histogram(frame["age"], [0, 18, 65, 120])[0].tolist()
    assert found.value == {Bin(0, 18): expected[0], (18, 65): expected[1], (65, 120): expected[2]}
    cells = session.ask(Marginal({"sex": ["f", "m", "x"], "smoker": [True, False]}, epsilon=PLENTY))
    assert cells.keys == tuple(itertools.product(["f", "m", "x"], [True, False]))
    for (sex, smoker), value in cells.value.items():
        assert value == ((frame["sex"] == sex) & (frame["smoker"] == smoker)).sum()
    some = session.ask(Marginal({"sex": ["f"]}, where="age < 30", epsilon=PLENTY))
    assert some.values == (int(((frame["sex"] == "f") & (frame["age"] < 30)).sum()),)
    assert session.release_if(histogram("age", bins=EDGES), above=1, epsilon=PLENTY).hits == 3
    assert session.ask(TopK(histogram("age", bins=EDGES), k=1, epsilon=PLENTY)).names == [(Bin(18, 65),)]


def test_a_marginal_is_the_release_of_its_count(opened):
    session = opened(people(), privacy_unit=None, budget=Budget(epsilon=5, delta=1e-6))
    session.ask(Marginal({"sex": ["f", "m"], "smoker": [True, False]}, epsilon="0.1"))
    query = count().by(["sex", "smoker"], itertools.product(["f", "m"], [True, False]))
    session.release(query, epsilon="0.1")
    first, second = session.history
    assert (first.kind, first.question, first.share) == (second.kind, second.question, second.share)


def test_noise_does_not_grow_with_the_bins(opened):
    session = opened(people(), privacy_unit=None, budget=Budget(epsilon=9, delta=1e-6))
    few = session.ask(Histogram("age", bins=EDGES, epsilon="0.1"))
    many = session.ask(Histogram("age", bins=range(0, 121, 2), epsilon="0.1"))
    assert few.error_bar == many.error_bar == session.quote(Release(count(), epsilon="0.1")).error_bar
    replaced = opened(people(), privacy_unit=None, neighbors="replace")
    assert replaced.ask(Histogram("age", bins=EDGES, epsilon="0.1")).error_bar == pytest.approx(
        2 * few.error_bar, abs=1
    )
    units = opened()
    wide = units.ask(Histogram("age", bins=range(0, 121, 2), epsilon="0.1")).error_bar
    kept = units.ask(Histogram("age", bins=range(0, 121, 2), epsilon="0.1", max_groups_per_unit=1)).error_bar
    assert wide > 50 * kept


@pytest.mark.parametrize(
    ("ask", "error"),
    [
        (lambda s: s.ask(Histogram("age", bins=[18, 0], epsilon=1)), InvalidQuery),
        (lambda s: s.ask(Histogram("age", bins=[18], epsilon=1)), InvalidQuery),
        (lambda s: s.ask(Histogram("nowhere", bins=EDGES, epsilon=1)), InvalidQuery),
        (lambda s: s.ask(Histogram("note", bins=EDGES, epsilon=1)), InvalidQuery),
        (lambda s: s.ask(Histogram("patient", bins=EDGES, epsilon=1)), InvalidQuery),
        (lambda s: s.ask(Histogram("age", bins=EDGES)), InvalidParameter),
        (lambda s: s.ask(Histogram("age", bins=EDGES, epsilon=0)), InvalidParameter),
        (lambda s: s.ask(Histogram("age", bins=EDGES, epsilon=1, rho=1)), InvalidParameter),
        (lambda s: s.ask(Marginal({}, epsilon=1)), InvalidQuery),
        (lambda s: s.ask(Marginal(["clinic"], epsilon=1)), InvalidQuery),
        (lambda s: s.ask(Marginal({"clinic": []}, epsilon=1)), InvalidQuery),
        (lambda s: s.ask(Marginal({"clinic": "north"}, epsilon=1)), InvalidQuery),
        (lambda s: s.ask(Marginal({"clinic": CLINICS, "age": range(400_000)}, epsilon=1)), InvalidQuery),
        (lambda s: s.ask(Marginal({"nowhere": [1]}, epsilon=1)), InvalidQuery),
        (lambda s: s.ask(Marginal({"clinic": [1]}, epsilon=1)), InvalidQuery),
        (lambda s: s.ask(Greedy(histogram("age", bins=EDGES), above=1, epsilon="0.01")), InvalidQuery),
        (
            lambda s: s.start(IndividualTests(epsilon="0.02", hits=2)).ask(histogram("age", bins=EDGES), above=1),
            InvalidQuery,
        ),
    ],
)
def test_bad_questions_charge_nothing_and_show_nothing(opened, ask, error):
    session = opened(budget=NO_NOISE)
    with pytest.raises(error) as refused:
        ask(session)
    assert [entry for entry in session.history if entry.kind == "release"] == []
    assert not shows_data(error_texts(refused.value))


# Gaussian noise by (epsilon, delta)

HALF = {"budget": Budget(epsilon=2, delta="2e-6"), "delta_reserve": "1e-6"}


def test_noise_by_delta_keeps_the_promise_on_the_grid(opened):
    session = opened(visits(), budget=Budget(epsilon=9, delta="1e-6"))
    for query, reach in ((count(), 1), (count().by("clinic", CLINICS), 3), (total_of(), 1)):
        session.release(query, epsilon="0.3", delta="1e-7")
        noise = drawn(session, query)
        change = query.sensitivity(session.spine.rows.neighbor_relation)
        delta = discrete_gaussian_delta_up(
            epsilon="0.3", sigma_squared=noise.sigma_squared, largest=change, l2_squared=noise.l2_squared, reach=reach
        )
        assert 0.9e-7 < delta <= 1e-7


@pytest.mark.parametrize(("by", "length"), [(lambda: count().by("clinic", CLINICS), 3), (lambda: total_of(), 200**2)])
def test_gaussian_noise_is_for_the_length_of_what_one_unit_moves(by, length):
    near = NeighborRelation("add_remove", "patient")
    [noise] = noises(by(), near, epsilon=None, rho=Fraction("0.1"))
    assert (noise.l2_squared, noise.sigma_squared) == (length, length / Fraction("0.2"))
    assert released(Release(by(), rho="0.1"), near).event == ZeroConcentrated("0.1")


def test_the_two_parts_of_a_mean_share_what_was_asked_for():
    asked, near = mean("cost", bounds=(0, 9), max_rows_per_unit=2), NeighborRelation("add_remove", "patient")
    assert 0 <= Fraction("0.4") - released(Release(asked, epsilon="0.4"), near).event.epsilon < Fraction(1, 10**9)
    assert sum(part.rho for part in released(Release(asked, rho="0.1"), near).event.events) == Fraction("0.1")
    together = sum(part.rho for part in released(Release(asked, epsilon="0.4", delta="1e-6"), near).event.events)
    assert together == zero_concentrated_rho_down(epsilon=Fraction("0.4"), delta=Fraction("1e-6"))


def total_of():
    return chary.sum("cost", bounds=(0, 100), max_rows_per_unit=2)


def drawn(session, query, epsilon="0.3", delta="1e-7"):
    [noise] = noises(query, session.spine.rows.neighbor_relation, epsilon=Fraction(epsilon), delta=Fraction(delta))
    return noise


def made(session, query, **options):
    return Release(query, **({"epsilon": "0.3", "delta": "1e-7"} | options)).plan(session.spine)


@pytest.mark.statistical
@pytest.mark.parametrize("wrong", [1, 1.5, 2 / 3])
def test_the_noise_is_the_discrete_gaussian(opened, wrong):
    session = opened(people(10), privacy_unit=None, budget=NO_NOISE, unsafe_noise=Seeded(8))
    noise = drawn(session, count(), epsilon=1, delta="1e-5")
    keys = count().by("age", range(1000, 3000))
    found = np.array(session.release(keys, epsilon=1, delta="1e-5").values)
    assert found.size == 2000
    sigma = math.sqrt(noise.sigma_squared) * wrong
    edges = np.arange(-14.5, 15.5)
    inner = np.diff(stats.norm.cdf(edges / sigma))
    expected = np.array([stats.norm.cdf(edges[0] / sigma), *inner, stats.norm.sf(edges[-1] / sigma)]) * found.size
    seen = np.array([(found < edges[0]).sum(), *np.histogram(found, edges)[0], (found > edges[-1]).sum()])
    far = expected < 5
    seen = np.array([*seen[~far], seen[far].sum()])
    expected = np.array([*expected[~far], max(expected[far].sum(), 1e-9)])
    p = stats.chi2.sf(((seen - expected) ** 2 / expected).sum(), len(seen) - 1)
    assert p > ALPHA if wrong == 1 else p < ALPHA


def test_whichever_event_is_cheaper_is_charged(opened):
    session = opened(**HALF)
    filter_ = session.spine.filter
    session.release(count(), epsilon="0.3", delta="1e-9")
    noise = drawn(session, count(), delta="1e-9")
    assert spent(session) == filter_.price(ZeroConcentrated(1 / (2 * noise.sigma_squared))).hit
    pure = opened(budget=Budget(epsilon=1, delta="1e-6"), filter="pure", delta_reserve="1e-6")
    pure.release(count(), epsilon="0.25", delta="1e-7")
    assert spent(pure) == pure.spine.filter.price(Approximate("0.25", "1e-7")).hit == Amount(25 * 10**13, 10**11)
    large = opened(budget=Budget(epsilon=10, delta="1e-3"), delta_reserve="9e-4", filter="renyi")
    large.release(count(), epsilon="0.05", delta="0.0001")
    prices = [large.spine.filter.price(made(large, count(), epsilon="0.05", delta="0.0001").event).hit.main]
    prices.append(large.spine.filter.price(Approximate("0.05", "0.0001")).hit.main)
    assert spent(large).main in prices


def test_a_filter_without_delta_has_no_price(opened):
    session = opened(budget=Budget(epsilon=1))
    with pytest.raises(NotPriced):
        session.release(count(), epsilon="0.1", delta="1e-7")
    assert spent(session) == Amount(0)


def test_a_mean_gets_noise_for_both_parts(opened):
    session = opened(budget=Budget(epsilon=9, delta="1e-6"))
    asked = mean("age", bounds=(0, 100), max_rows_per_unit=1)
    answer = session.release(asked, epsilon=2, delta="1e-7")
    assert 0 <= answer.value <= 100
    events = made(session, asked, epsilon=2, delta="1e-7").event.events
    rho = sum(event.rho for event in events)
    assert len(events) == 2
    assert events[0].rho == events[1].rho
    assert math.sqrt(1 / (2 * rho)) < 1.1 * 2.45


def test_quotes_and_refusals_know_delta(opened):
    session = opened(budget=Budget(epsilon=1, delta="1e-6"))
    quoted = session.quote(Release(count(), epsilon="0.3", delta="1e-7"))
    answer = session.release(count(), epsilon="0.3", delta="1e-7")
    assert quoted.error_bar == answer.error_bar
    assert session.spent.share == pytest.approx(quoted.price_if_hit)
    with pytest.raises(BudgetExceeded, match="would fit"):
        session.release(count(), epsilon=30, delta="1e-7")


@pytest.mark.parametrize(
    "options",
    [
        {"delta": "1e-7"},
        {"rho": 1, "delta": "1e-7"},
        {"epsilon": 1, "rho": 1, "delta": "1e-7"},
        {"epsilon": 1, "delta": 0},
        {"epsilon": 1, "delta": 1},
        {"epsilon": 1, "delta": -1},
        {"epsilon": 0, "delta": "1e-7"},
        {"epsilon": 1, "delta": math.nan},
    ],
)
def test_bad_sizes(opened, options):
    session = opened()
    with pytest.raises(InvalidParameter):
        session.release(count(), **options)
    with pytest.raises(InvalidParameter):
        session.quote(Release(count(), **options))
    assert session.history == []


def test_another_delta_is_another_question(opened):
    session = opened(budget=Budget(epsilon=9, delta="1e-6"))
    first = session.release(count(), epsilon="0.1", delta="1e-7", request="once")
    assert session.release(count(), epsilon="0.1", delta=1e-7, request="once") == first
    for options in ({"delta": "1e-8"}, {}):
        with pytest.raises(RequestConflict):
            session.release(count(), epsilon="0.1", request="once", **options)


def test_a_quote_of_a_threshold_takes_no_delta(opened):
    with pytest.raises(InvalidParameter):
        opened().quote(ThresholdTest(count(), above=3, epsilon="0.1", delta="1e-7"))
