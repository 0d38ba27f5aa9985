"""Releases that no menu lists: whatever is asked at the prices of an exact filter, the budget holds, and cheaper ones
would break it. Sessions are worked out by a value iteration of their own, from the prices that the filter tells."""

import json
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from chary import Budget, NotPriced
from chary.accounting import (
    Approximate,
    Asymmetric,
    BoundaryCall,
    Concentrated,
    DiscreteLaplace,
    ExPost,
    Joint,
    MenuCall,
    Pure,
    Repeated,
    Targeted,
    ZeroConcentrated,
)
from chary.amounts import Amount
from chary.filters import ExactFilter, restore
from chary.filters.exact import Unlisted, schedules
from tests.processors import processor

REACH = 220
PLACES = np.arange(-REACH, REACH + 1)
SMALL = Budget(epsilon=1, delta="1e-3")
MENUS = {
    "of a session": lambda: ExactFilter.with_revisions(SMALL, Fraction(1, 20)),
    "of a session, fine": lambda: ExactFilter.with_revisions(Budget(epsilon="0.4", delta="1e-2"), Fraction(1, 50)),
    "one call": lambda: ExactFilter(SMALL, Fraction(1, 20)),
    "one call, no release": lambda: ExactFilter(SMALL, Fraction(1, 20), (MenuCall(1, 1),)),
    "two targets": lambda: ExactFilter(SMALL, Fraction(1, 20), (MenuCall(1, 1), MenuCall(2, 4))),
    "hits of three tokens": lambda: ExactFilter(SMALL, Fraction(1, 20), (MenuCall(2, 3), MenuCall(4, 9, 1.0))),
}


def told(filter_, steps):
    """All that is sold, as (grains, tokens, whether a miss is free): targets of some grains, releases of many."""
    found = []
    for size in range(1, steps + 1):
        for event, free in ((Targeted(size * filter_.grain), True), (Pure(size * filter_.grain), False)):
            try:
                found.append((size, filter_.price(event).hit.main, free))
            except NotPriced:
                continue
    return found


def moved(value, grain, steps):
    places = PLACES - steps
    inside = value[np.clip(places, -REACH, REACH) + REACH]
    low = 1 - np.exp(np.minimum(0, places) * grain)
    return np.where(places < -REACH, low, np.where(places > REACH, 0.0, inside))


def worth(filter_, calls):
    """The delta that the best analyst reaches at the budget's epsilon."""
    grain = float(filter_.grain)
    stopped = np.maximum(0, 1 - np.exp(PLACES * grain))
    values = [stopped]
    for left in range(1, filter_.tokens + 1):
        value, known = stopped, []
        for steps, tokens, free in calls:
            if tokens > left:
                continue
            p, after = 1 / (1 + np.exp(-steps * grain)), values[left - tokens]
            high, low = p * moved(after, grain, steps), (1 - p) * moved(after, grain, -steps)
            if free:
                known += [(low, p, steps), (high, 1 - p, -steps)]
            else:
                value = np.maximum(value, high + low)
        while True:
            better = value
            for fixed, chance, steps in known:
                better = np.maximum(better, fixed + chance * moved(value, grain, steps))
            if (better - value).max() < 1e-12:
                break
            value = better
        values.append(better)
    at = float(filter_.budget.exact[0]) / grain
    assert at == pytest.approx(round(at))
    return float(values[-1][REACH + round(at)])


@pytest.mark.parametrize("name", MENUS)
def test_no_session_passes_the_budget_whatever_it_releases(name):
    filter_ = MENUS[name]()
    calls = told(filter_, round(filter_.budget.exact[0] / filter_.grain))
    sizes = {steps for steps, _, free in calls if not free}
    assert len(sizes) > 3
    assert worth(filter_, calls) <= float(filter_.budget.exact[1])


@pytest.mark.parametrize("name", ["one call", "two targets", "hits of three tokens"])
def test_a_cheaper_schedule_would_pass_it(name):
    filter_ = MENUS[name]()
    chain = schedules(*filter_.budget.exact, filter_.tokens)
    place = chain.index(filter_._sold)
    assert place > 0
    cheaper = ExactFilter(*_terms(filter_), tokens=filter_.tokens, unlisted=chain[place - 1])
    assert worth(filter_, told(cheaper, 20)) > float(filter_.budget.exact[1])


def _terms(filter_):
    return filter_.budget, filter_.grain, filter_.menu


def test_releases_are_no_dearer_where_no_schedule_leaves_as_many_hits_as_is_wished():
    few = ExactFilter.with_revisions(Budget(epsilon=8, delta="1e-3"), Fraction(1, 4))
    assert few.tokens < Fraction(11, 12) * ExactFilter(few.budget, few.grain).tokens
    assert few.price(Pure("0.5")).hit.main <= few.tokens / 4


def test_schedules_are_a_chain():
    """So the curve of the cheaper one covers both, whichever of them a processor finds."""
    chain = schedules(Fraction(1), Fraction(1, 10**6), 45)
    costs = [[sold.tokens(Fraction(size, 50), Fraction(1, 50), Fraction(1)) for size in range(1, 51)] for sold in chain]
    for cheap, dear in pairwise(costs):
        assert (np.array(cheap) <= dear).all()
        assert sum(cheap) < sum(dear)


@pytest.mark.parametrize("name", ["of a session", "one call", "hits of three tokens"])
def test_prices_are_the_same_from_the_ledger_and_on_every_processor(name):
    made = MENUS[name]()
    before, body = told(made, 8), json.loads(json.dumps(made.body()))
    assert told(restore(made.budget, body), 8) == before
    for number in (1, 2):
        with processor(number):
            assert told(restore(made.budget, body), 8) == before


def test_a_ledger_from_before_sells_releases_beside_its_own_menu():
    budget = Budget(epsilon=1, delta=1e-6)
    menu = [[1, 1, None], [2, 10, None], [1, 1, 1.0], [2, 2, 1.0], [5, 7, 1.0]]
    body = {"kind": "exact", "grain": "1/50", "menu": menu, "tokens": 39}
    old = restore(budget, body)
    assert old.body() == body
    assert [old.price(Pure(size)).hit.main for size in ("0.02", "0.04", "0.05", "0.1")] == [1, 2, 5, 7]
    assert 7 < old.price(Pure("0.2")).miss.main <= 39
    full = restore(budget, body | {"tokens": 10**6})
    with pytest.raises(NotPriced):
        full.price(Pure("0.2"))


@pytest.mark.parametrize(
    ("event", "like"),
    [
        (DiscreteLaplace(10, 1), Pure("0.1")),
        (Repeated(Pure("0.05"), 3), Pure("0.15")),
        (Joint((Pure("0.1"), Pure("0.05"))), Pure("0.15")),
        (Asymmetric("0.2", "0.1"), Pure("0.2")),
        (Concentrated("0.2", "0.001"), Pure("0.2")),
        (Targeted("0.2", 1), Pure("0.2")),
    ],
    ids=str,
)
def test_any_release_with_an_epsilon_is_sold_hit_or_miss(event, like):
    filter_ = MENUS["of a session"]()
    price = filter_.price(event)
    assert price == filter_.price(like)
    assert price.hit == price.miss


def test_what_has_no_epsilon_beforehand_or_a_free_miss_is_not_sold_unlisted():
    filter_ = MENUS["of a session"]()
    for event in (ZeroConcentrated("0.001"), ExPost("0.01"), Targeted("0.15"), BoundaryCall("0.05")):
        with pytest.raises(NotPriced):
            filter_.price(event)
    assert filter_.price(Targeted("0.06")).hit == filter_.price(Targeted("0.1")).hit


def test_a_delta_of_a_release_is_paid_apart():
    apart = ExactFilter.with_revisions(SMALL, Fraction(1, 20), delta_reserve=Fraction(1, 10**4))
    price = apart.price(Approximate("0.15", "1e-6"))
    assert (price.hit, price.miss) == (Amount(price.hit.main, 10**12),) * 2
    assert apart.price(Pure("0.15")).hit.main == price.hit.main


def test_a_schedule_says_nothing_of_more_than_the_budget():
    sold = Unlisted(Fraction(20), Fraction(4))
    assert sold.tokens(Fraction(1), Fraction(1, 50), Fraction(1)) is not None
    assert sold.tokens(Fraction(101, 100), Fraction(1, 50), Fraction(1)) is None
    assert sold.calls(Fraction(1, 50), Fraction(1), 3)[-1].tokens <= 3
