"""Classes by two draws: what is told and charged, where labels meet, what cannot be asked."""

from itertools import pairwise

import numpy as np
import pytest

import chary
from chary import Budget, BudgetExceeded, InvalidParameter, NotPriced, count
from chary.calls import Classify
from chary.core.plan import Data
from chary.noise import Seeded
from tests.session.kit import CLINICS, PAID

DELTA = Budget(epsilon=1, delta=1e-6)
EVERY = count().by("clinic", CLINICS)
FAR = 10**6
CALLS = {
    "decide": lambda **how: Classify(count(), above=0, **how),
    "between": lambda **how: Classify(count(), low=-200, high=300, **how),
    "classify": lambda **how: Classify(EVERY, **how),
}


def told(session, call, value, times, seed=3):
    """The outcomes of so many runs on this exact value."""
    bound, source = call.plan(session.spine), Seeded(seed)
    return [
        bound.present(bound.run(Data([np.array(value)], source, None, None, PAID)).answer, 1).value
        for _ in range(times)
    ]


def test_clear_answers_are_free_and_unclear_ones_charged(opened):
    session = opened(budget=DELTA, unsafe_noise=Seeded(1))
    for _ in range(20):
        assert session.ask(Classify(count(), above=-FAR, hits=9)).value is True
        assert session.ask(Classify(count(), above=FAR, hits=9)).value is False
        assert session.ask(Classify(count(), low=FAR, high=2 * FAR, hits=9)).value == "low"
        assert session.ask(Classify(count(), low=-FAR, high=-9999, hits=9)).value == "high"
    assert session.spent.share == 0
    found = [session.ask(Classify(count(), low=-FAR, high=FAR, hits=9)) for _ in range(9)]
    assert all(answer.value == "between" and answer.hit for answer in found)
    with pytest.raises(BudgetExceeded):
        session.ask(Classify(count(), low=-FAR, high=FAR, hits=9))


@pytest.mark.parametrize("kind", CALLS)
def test_an_unclear_answer_takes_the_part_of_the_budget_that_was_said(opened, kind):
    quote = opened(budget=DELTA).quote(CALLS[kind](price="0.01"))
    assert (quote.price_if_hit, quote.price_if_miss) == (pytest.approx(0.01, rel=1e-9), 0)


@pytest.mark.parametrize("kind", CALLS)
def test_the_least_price_that_is_clear_so_far_from_the_bar(opened, kind):
    session = opened(budget=DELTA)
    quote = session.quote(CALLS[kind](within=500, tests=300))
    assert 480 <= quote.within.error <= 501
    assert quote.price_if_hit < 0.1
    assert quote.within == session.quote(CALLS[kind](within=500, tests=300), tests=300, confidence="0.95").within


def test_the_law_of_a_decision_is_that_of_two_draws(opened):
    session, call = opened(budget=DELTA), Classify(count(), above=100, hits=20)
    draws = call.clearly(session.spine).draws
    for value, depth in ((100, 0), (99, 0), (130, 30), (69, 30)):
        found = told(session, call, value, 1500)
        own, clear = value >= 100, float(draws.clear_chance(depth))
        for answer, chance in ((own, clear), (not own, float(draws.other_chance(depth)))):
            assert abs(found.count(answer) - 1500 * chance) < 5 * (1500 * chance * (1 - chance)) ** 0.5 + 3


@pytest.mark.parametrize(("low", "high"), [(-300, 301), (0, 100), (0, 1), (-2, 1)])
def test_sides_meet_in_the_middle_and_are_told_alike_at_their_bars(opened, low, high):
    session = opened(budget=DELTA)
    bound = Classify(count(), low=low, high=high, hits=20).clearly(session.spine)
    places = {
        value: bound.placed(Data([np.array(value)], None, None, None, PAID)) for value in range(low - 9, high + 9)
    }
    own, depth = places[low - 1]
    assert (own, depth) in ((0, bound.half), (1, 0))
    assert places[high] == (1, bound.half)
    signed = [(-1 if own == 0 else 1) * depth for own, depth in places.values()]
    assert all(0 <= after - before <= 1 for before, after in pairwise(signed))
    assert {abs(place) for place in signed} >= {0}


def test_a_wide_zone_is_surely_between_and_a_narrow_one_is_a_decision(opened):
    session = opened(budget=DELTA)
    wide, narrow = (Classify(count(), low=-gap, high=gap, hits=20).clearly(session.spine) for gap in (400, 1))
    assert wide.draws.labels == 2**32
    assert float(wide.draws.other_chance(0)) < 1e-18
    assert float(wide.draws.clear_chance(wide.half)) == pytest.approx(0.5, abs=0.02)
    assert narrow.draws.labels == 2


def test_the_lead_of_the_largest_key_is_its_depth(opened):
    session = opened(budget=DELTA)
    for neighbors, steps in (("add_remove", 1), ("replace", 2)):
        spine = opened(budget=DELTA, neighbors=neighbors).spine
        bound, costs = Classify(EVERY, hits=20).clearly(spine), chary.sum("cost", bounds=(0, 5), max_rows_per_unit=2)
        assert bound.draws.table.spacing == steps
        assert Classify(costs.by("clinic", CLINICS), hits=20).clearly(spine).draws.table.spacing == 10 * steps
        for dtype in (np.int64, object):
            values = np.array([5, 91, 80], dtype=dtype)
            assert bound.placed(Data([values], None, None, None, PAID)) == (1, 11)
    assert told(session, Classify(EVERY, hits=20), [0, 5000, 4000], 9) == [CLINICS[1]] * 9
    tied = told(session, Classify(EVERY, hits=20), [70, 70, 70], 3000)
    for clinic in CLINICS:
        assert abs(tied.count(clinic) - 3000 / 9) < 5 * (3000 * 8 / 81) ** 0.5


def test_totals_are_decided_on_their_grid(opened):
    session = opened(budget=Budget(epsilon=10**4, delta=1e-6), privacy_unit=None)
    costs = chary.sum("cost", bounds=(0, 60), grid="0.5")
    exact = session.release(costs, epsilon=5000).value
    assert session.ask(Classify(costs, above=exact - 900, hits=10)).value is True
    assert session.ask(Classify(costs, low=exact + 900, high=exact + 2000, hits=10)).value == "low"


@pytest.mark.parametrize("kind", CALLS)
@pytest.mark.parametrize(
    ("how", "refused"),
    [
        ({}, "specify the accuracy or the cost"),
        ({"hits": 5, "epsilon": 1}, "exclude one another"),
        ({"within": 5}, "give tests= as well"),
        ({"epsilon": 1, "tests": 5}, "belongs to an optimal test"),
    ],
)
def test_what_says_nothing_or_too_much_is_refused(kind, how, refused):
    with pytest.raises(InvalidParameter, match=refused):
        CALLS[kind](**how)


@pytest.mark.parametrize("kind", CALLS)
def test_what_this_budget_or_filter_cannot_answer_is_refused(opened, kind):
    with pytest.raises(NotPriced, match="ask with epsilon="):
        opened(budget=Budget(epsilon=1)).ask(CALLS[kind](hits=5))
    with pytest.raises(InvalidParameter, match="farther off"):
        opened(budget=DELTA).ask(CALLS[kind](within=1, tests=10**6))
    with pytest.raises(InvalidParameter, match="at least"):
        opened(budget=DELTA).ask(CALLS[kind](hits=10**12))
