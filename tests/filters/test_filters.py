"""What every filter must pass, and what each one promises."""

import json
from fractions import Fraction
from itertools import permutations

import pytest

from chary.accounting import (
    Approximate,
    Call,
    DiscreteLaplace,
    ExPost,
    Joint,
    Pure,
    Repeated,
    Targeted,
    ZeroConcentrated,
    exact_total,
    hit_price_up,
)
from chary.amounts import LIMIT, MAIN_STEPS, Amount
from chary.errors import InvalidParameter, LedgerMismatch, NoPrice
from chary.filters import (
    Budget,
    ExactFilter,
    PureFilter,
    RenyiFilter,
    exact_filter_for,
    largest_call,
    largest_call_left,
    restore,
)

BUDGET = Budget(epsilon=1, delta=1e-6)
GRAIN = Fraction(1, 50)
FILTERS = [
    PureFilter(Budget(epsilon=1)),
    PureFilter(Budget(epsilon=1, delta=1e-6), Fraction(1, 10**7)),
    RenyiFilter.best(BUDGET),
    RenyiFilter.best(BUDGET, grain=GRAIN, approximate_delta=Fraction(1, 10**7)),
    ExactFilter(BUDGET, GRAIN),
    ExactFilter.with_revisions(BUDGET, GRAIN),
]
EVENTS = [
    Pure(GRAIN),
    Targeted(GRAIN),
    Targeted(2 * GRAIN),
    DiscreteLaplace(50, 1),
    DiscreteLaplace(500, 10),
    ZeroConcentrated("0.001"),
    Approximate(GRAIN, "1e-9"),
    ExPost(GRAIN),
]


def priced(filter_, event):
    try:
        return filter_.price(event)
    except NoPrice:
        pytest.skip("not priced by this filter")


@pytest.mark.parametrize("filter_", FILTERS, ids=lambda f: f.kind)
@pytest.mark.parametrize("event", EVENTS, ids=str)
class TestEveryFilter:
    def test_a_miss_never_costs_more_than_a_hit(self, filter_, event):
        price = priced(filter_, event)
        assert price.miss.fits_into(price.hit)
        assert price.hit.main > 0

    def test_k_at_once_cost_k_one_by_one_but_for_rounding_once(self, filter_, event):
        if filter_.kind == "exact":
            pytest.skip("a menu prices sizes of calls: see test_a_menu_prices_a_repetition_by_its_whole_epsilon")
        one, together = priced(filter_, event), filter_.price(Repeated(Repeated(event, 5), 2))
        for at_once, single in ((together.hit, one.hit), (together.miss, one.miss)):
            assert at_once.fits_into(single.times(10))
            assert single.times(10).main - at_once.main < 10
            assert at_once.delta == single.delta * 10

    def test_order_does_not_matter(self, filter_, event):
        others = [event, *(e for e in EVENTS[:2] if e != event)]
        prices = [priced(filter_, e).hit for e in others]
        totals = {sum(order[1:], order[0]) for order in permutations(prices)}
        assert len(totals) == 1

    def test_copies_that_fit_are_counted_in_whole_amounts(self, filter_, event):
        price, capacity = priced(filter_, event).hit, filter_.capacity
        copies = price.copies_in(capacity)
        assert price.times(copies).fits_into(capacity)
        assert not price.times(copies + 1).fits_into(capacity)

    def test_it_comes_back_from_json(self, filter_, event):
        body = json.loads(json.dumps(filter_.body()))
        assert restore(filter_.budget, body) == filter_
        priced(restore(filter_.budget, body), event)


@pytest.mark.parametrize("filter_", FILTERS, ids=lambda f: f.kind)
def test_charges_are_told_in_the_unit_of_the_filter(filter_):
    assert filter_.charged(Amount(0)) == 0
    assert filter_.charged(filter_.capacity) > 0
    assert filter_.describe()
    assert filter_.unit.split()[0] in ("epsilon", "log-moment", "tokens")


def test_ten_tenths_fit_into_one_and_the_eleventh_does_not():
    filter_ = FILTERS[0]
    spent = Amount(0)
    for _ in range(10):
        spent += filter_.price(Pure(0.1)).hit
        assert spent.fits_into(filter_.capacity)
    assert spent == filter_.capacity
    assert not (spent + filter_.price(Pure(0.1)).hit).fits_into(filter_.capacity)


def test_thirds_are_rounded_against_the_analyst():
    filter_ = FILTERS[0]
    assert filter_.price(Pure("1/3")).hit.copies_in(filter_.capacity) == 2


def test_renyi_prices_are_those_of_theory():
    filter_ = FILTERS[2]
    hit = hit_price_up(Targeted(GRAIN), filter_.order)
    assert filter_.price(Targeted(GRAIN)).hit.main == -(-hit * MAIN_STEPS // 1)
    assert filter_.price(Targeted(GRAIN)).miss == Amount(0)
    release = DiscreteLaplace(50, 1)
    moment = release.log_moment_up(filter_.order)
    assert filter_.price(release).hit == filter_.price(release).miss == Amount(int(-(-moment * MAIN_STEPS // 1)))


def test_calls_too_large_for_a_hit_price_are_charged_hit_or_miss():
    price = FILTERS[2].price(Targeted("0.2"))
    assert price.hit == price.miss == FILTERS[2].price(Pure("0.2")).hit


def test_exact_tokens_are_the_most_that_fit():
    tokens = FILTERS[4].capacity.main
    assert exact_total(epsilon_per_call=GRAIN, hits=tokens, delta=1e-6) <= 1
    assert exact_total(epsilon_per_call=GRAIN, hits=tokens + 1, delta=1e-6) > 1
    assert FILTERS[5].capacity.main <= tokens


def test_a_cheaper_menu_has_fewer_tokens():
    """The curve accounts for whatever the menu says: releases of five grains for one token buy far fewer of them."""
    generous = ExactFilter(BUDGET, GRAIN, (Call(1, 1), Call(5, 1, 1.0)))
    assert generous.capacity.main < FILTERS[5].capacity.main / 2


def test_the_exact_filter_affords_more_hits_than_renyi():
    renyi = RenyiFilter.best(BUDGET, grain=GRAIN)
    assert renyi.price(Targeted(GRAIN)).hit.copies_in(renyi.capacity) < FILTERS[4].capacity.main


def test_approximate_deltas_add_up_and_need_room():
    filter_ = FILTERS[3]
    price = filter_.price(Approximate(GRAIN, "3e-8"))
    assert price.hit.delta == 3 * 10**10
    assert price.hit.copies_in(Amount(LIMIT, filter_.capacity.delta)) == 3
    with pytest.raises(NoPrice, match="approximate_delta"):
        FILTERS[2].price(Approximate(GRAIN, "3e-8"))


@pytest.mark.parametrize(
    ("filter_", "event"),
    [(FILTERS[0], ZeroConcentrated(1)), (FILTERS[4], Targeted("0.03")), (FILTERS[4], Joint((Pure(1), Pure(2))))],
)
def test_off_the_menu_is_refused(filter_, event):
    with pytest.raises(NoPrice):
        filter_.price(event)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Budget(epsilon=0),
        lambda: Budget(epsilon=-1),
        lambda: Budget(epsilon="nan"),
        lambda: Budget(epsilon=float("inf")),
        lambda: Budget(epsilon=1, delta=1),
        lambda: Budget(epsilon=1, delta=-1e-9),
        lambda: Budget(epsilon=True),
        lambda: RenyiFilter.best(Budget(epsilon=1)),
        lambda: RenyiFilter(BUDGET, Fraction(1)),
        lambda: RenyiFilter(BUDGET, Fraction(2)),
        lambda: RenyiFilter.best(BUDGET, approximate_delta=Fraction(1, 10**6)),
        lambda: ExactFilter(Budget(epsilon=1), GRAIN),
        lambda: ExactFilter(BUDGET, Fraction(1, 2)),
    ],
)
def test_impossible_budgets_are_refused(make):
    with pytest.raises(InvalidParameter):
        make()


def test_unknown_kinds_are_refused():
    with pytest.raises(LedgerMismatch):
        restore(BUDGET, {"kind": "tomorrow"})


@pytest.mark.parametrize("kind", ["pure", "renyi", "exact"])
def test_largest_call_pays_for_the_hits(kind):
    size = largest_call(BUDGET, 20, kind)
    makers = {
        "pure": lambda: PureFilter(BUDGET),
        "renyi": lambda: RenyiFilter.best(BUDGET, grain=size),
        "exact": lambda: ExactFilter(BUDGET, size),
    }
    filter_ = makers[kind]()
    assert filter_.price(Targeted(size)).hit.copies_in(filter_.capacity) >= 20


@pytest.mark.parametrize("hits", [10, 50])
def test_an_exact_filter_with_revisions_pays_for_the_hits_it_was_sized_for(hits):
    filter_ = exact_filter_for(BUDGET, hits)
    assert filter_.price(Targeted(filter_.grain)).hit.copies_in(filter_.capacity) == hits
    assert filter_ == ExactFilter.with_revisions(BUDGET, filter_.grain)
    assert ExactFilter.with_revisions(BUDGET, filter_.grain * Fraction(101, 100)).tokens < hits


def test_largest_call_of_what_is_left():
    filter_ = FILTERS[2]
    left = Amount(filter_.capacity.main // 3)
    size = largest_call_left(filter_, left, 4)
    assert filter_.price(Targeted(size)).hit.copies_in(left) >= 4
    assert filter_.price(Targeted(size * Fraction(11, 10))).hit.copies_in(left) < 4
    with pytest.raises(InvalidParameter):
        largest_call_left(filter_, Amount(0), 1)


def test_a_menu_prices_a_repetition_by_its_whole_epsilon():
    assert FILTERS[5].price(Repeated(Pure(GRAIN), 5)) == FILTERS[5].price(Pure(5 * GRAIN))
    assert FILTERS[5].price(Repeated(DiscreteLaplace(100, 1), 2)) == FILTERS[5].price(Pure(GRAIN))


def test_a_release_over_three_keys_costs_its_epsilon_and_no_step_more():
    filter_ = FILTERS[0]
    thirds = Repeated(DiscreteLaplace(30, 1), 3)
    assert filter_.price(thirds).hit.copies_in(filter_.capacity) == 10
