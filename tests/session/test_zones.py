"""Between two bars, decisions with a boundary, and classification."""

import math

import numpy as np
import pytest

import chary
from chary import Budget, InvalidParameter, InvalidQuery, count, mean, total
from chary.accounting import BoundaryCall, Targeted, between_q_down
from chary.amounts import Amount
from chary.mechanisms import BOUNDARY
from chary.noise import Seeded
from tests.session.kit import CLINICS, NO_NOISE, spent

UNITS = 51


@pytest.mark.parametrize(
    ("low", "high", "zone"),
    [(51, 52, "between"), (52, 60, "low"), (40, 51, "high"), (50.5, 51.5, "between"), (0, 100, "between")],
)
def test_zones_without_noise(opened, low, high, zone):
    session = opened(budget=NO_NOISE)
    assert session.between(count(), low=low, high=high, epsilon=1000) == zone
    assert (spent(session) == Amount(0)) is False  # so large a call has no price per hit


def test_only_between_is_paid(opened):
    session = opened(grain="0.02")
    assert session.between(count(), low=10**6, high=2 * 10**6, epsilon="0.02") == "low"
    assert session.between(count(), low=-(10**7), high=-(10**6), epsilon="0.02") == "high"
    assert spent(session) == Amount(0)
    assert session.between(count(), low=-(10**6), high=10**6, epsilon="0.02") == "between"
    q = between_q_down("0.02", width=2 * 10**6, sensitivity=1)
    assert spent(session) == session.spine.filter.price(Targeted("0.02", q)).hit


def test_a_narrow_zone_costs_more(opened):
    session = opened(grain="0.005")
    prices = []
    for half in (50, 300, 10**6):
        made = chary.session.zones.SortBetween(count(), session.spine.rows.neighbouring, -half, half, "0.005")
        prices.append(session.spine.filter.price(made.event).hit.main)
    assert prices == sorted(prices, reverse=True)
    assert prices[0] > 2 * prices[1]


def test_the_law_of_the_zones(opened):
    session = opened(budget=Budget(epsilon=10**4), unsafe_noise=Seeded(7))
    zones = [session.between(count(), low=UNITS - 5, high=UNITS + 5, epsilon="0.1") for _ in range(2000)]
    r = math.exp(-0.1)
    expected = {"low": r**6 / (1 + r), "high": r**5 / (1 + r)}
    for zone, chance in expected.items():
        spread = math.sqrt(chance * (1 - chance) / 2000)
        assert abs(zones.count(zone) / 2000 - chance) < 4.9 * spread


def test_both_clear_answers_are_free_and_the_boundary_is_paid(opened):
    session = opened(grain="0.02", unsafe_noise=Seeded(3))
    assert session.decide(count(), above=10**6, epsilon="0.02") is False
    assert session.decide(count(), above=-(10**6), epsilon="0.02") is True
    assert spent(session) == Amount(0)
    found = [session.decide(count(), above=UNITS, epsilon="0.02") for _ in range(12)]
    assert 0 < found.count(BOUNDARY) < 12
    paid = session.spine.filter.price(BoundaryCall("0.02", 2)).hit
    assert spent(session) == paid.times(found.count(BOUNDARY))


def test_the_law_of_a_decision(opened):
    """At the bar the boundary has chance x/(1+x) or 1/3, x the chance of the rarer outcome."""
    session = opened(budget=Budget(epsilon=10**4), unsafe_noise=Seeded(17))
    found = [session.decide(count(), above=UNITS + 10, epsilon="0.1") for _ in range(2000)]
    x = math.exp(-1) / (1 + math.exp(-0.1))
    expected = {BOUNDARY: x / (1 + x), True: x / (1 + x), False: (1 - x) / (1 + x)}
    for outcome, chance in expected.items():
        spread = math.sqrt(chance * (1 - chance) / 2000)
        assert abs(found.count(outcome) / 2000 - chance) < 4.9 * spread


def test_the_largest_key_is_named(opened):
    session = opened(grain="0.02")
    ages = count().by("age", [44, 10**6])
    clinics = count("age < 0").by("clinic", CLINICS)
    assert session.classify(ages, epsilon="0.02") in (44, 10**6, BOUNDARY)
    assert session.classify(clinics, epsilon="0.02") in (*CLINICS, BOUNDARY)
    golden = opened(budget=NO_NOISE)
    assert golden.classify(ages, epsilon=20) == 44
    pairs = count().by(["clinic", "age"], [("north", 44), ("east", -1)])
    assert golden.classify(pairs, epsilon=20) == ("north", 44)


def test_counts_under_add_remove_need_half_the_noise(opened):
    made = {}
    for relation in ("add/remove", "replace"):
        session = opened(relation=relation, ledger=":memory:")
        asked = chary.session.zones.Classify(count().by("clinic", CLINICS), session.spine.rows.neighbouring, "0.1")
        made[relation] = asked.mechanism.chooser.unit
    assert made["add/remove"] == 2 * made["replace"]


def test_a_total_is_not_monotone(opened):
    question = total("cost", bounds=(-5, 5), rows_per_unit=1).by("clinic", CLINICS)
    asked = chary.session.zones.Classify(question, opened().spine.rows.neighbouring, "0.1")
    assert not asked.mechanism.chooser.monotone


@pytest.mark.parametrize(
    "ask",
    [
        lambda s: s.between(count(), low=5, high=5, epsilon="0.02"),
        lambda s: s.between(count(), low=5.1, high=5.2, epsilon="0.02"),
        lambda s: s.between(count(), low=5, high=math.nan, epsilon="0.02"),
        lambda s: s.between(count(), low=5, high=9, epsilon=0),
        lambda s: s.between(count().by("clinic", CLINICS), low=5, high=9, epsilon="0.02"),
        lambda s: s.between(mean("cost", bounds=(0, 9), rows_per_unit=1), low=5, high=9, epsilon="0.02"),
        lambda s: s.decide(count(), above=math.inf, epsilon="0.02"),
        lambda s: s.decide(count().by("clinic", CLINICS), above=5, epsilon="0.02"),
        lambda s: s.decide(count("nothere > 3"), above=5, epsilon="0.02"),
        lambda s: s.classify(count(), epsilon="0.02"),
        lambda s: s.classify(count().by("clinic", ["north"]), epsilon="0.02"),
        lambda s: s.classify(count().by("clinic", CLINICS), epsilon=-1),
    ],
)
def test_bad_questions_cost_nothing(opened, ask):
    session = opened()
    with pytest.raises((InvalidParameter, InvalidQuery)):
        ask(session)
    assert session.history == []


def test_answers_are_repeated(opened, place):
    session = opened(ledger=place, unsafe_noise=Seeded(1))
    asks = {
        "a": lambda: session.between(count(), low=45, high=55, epsilon="0.02", request="a"),
        "b": lambda: session.decide(count(), above=50, epsilon="0.02", request="b"),
        "c": lambda: session.classify(count().by("clinic", CLINICS), epsilon="0.02", request="c"),
    }
    first = {key: ask() for key, ask in asks.items()}
    assert all(ask() == first[key] for _ in range(5) for key, ask in asks.items())
    assert len(session.history) == 3
    assert np.all([entry.tests == 1 for entry in session.history])
