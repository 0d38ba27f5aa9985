"""What every filter must pass, and what each one promises."""

import json
from fractions import Fraction
from itertools import islice, permutations

import pytest

from chary.accounting import (
    Approximate,
    Asymmetric,
    DiscreteLaplace,
    ExPost,
    Extendable,
    Joint,
    MenuCall,
    Pure,
    Repeated,
    SharpTest,
    Targeted,
    ZeroConcentrated,
    exact_total,
    hit_price_up,
    lattice_curves,
)
from chary.accounting.composition import convex_upper
from chary.amounts import LIMIT, MAIN_STEPS, Accounts, Amount
from chary.errors import InvalidParameter, LedgerMismatch, NotPriced
from chary.filters import (
    Budget,
    ExactFilter,
    Price,
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
    RenyiFilter.best(BUDGET, grain=GRAIN, delta_reserve=Fraction(1, 10**7)),
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
    Asymmetric(GRAIN, GRAIN / 2),
    # Of an order so high that every filter here has a lower one.
    SharpTest(1000, 5, "0.01"),
]


PURE, PURE_APART, RENYI, RENYI_APART, EXACT, MENU = FILTERS
# What a filter has no price for; it prices everything else.
UNPRICED = {
    PURE: [ZeroConcentrated("0.001"), Approximate(GRAIN, "1e-9"), EVENTS[-1]],
    PURE_APART: [ZeroConcentrated("0.001"), EVENTS[-1]],
    RENYI: [Approximate(GRAIN, "1e-9")],
    RENYI_APART: [],
    EXACT: [Targeted(2 * GRAIN), ZeroConcentrated("0.001"), Approximate(GRAIN, "1e-9"), ExPost(GRAIN), EVENTS[-1]],
    MENU: [ZeroConcentrated("0.001"), Approximate(GRAIN, "1e-9"), ExPost(GRAIN), EVENTS[-1]],
}
PAIRS = [(filter_, event) for filter_ in FILTERS for event in EVENTS]
PRICED = [(filter_, event) for filter_, event in PAIRS if event not in UNPRICED[filter_]]


def costs(price):
    """What a hit and a miss cost the main account."""
    return price.hit, price.miss


@pytest.mark.parametrize(("filter_", "event"), [pair for pair in PAIRS if pair not in PRICED])
def test_what_has_no_price_is_refused(filter_, event):
    with pytest.raises(NotPriced):
        filter_.price(event)


@pytest.mark.parametrize(("filter_", "event"), PRICED)
class TestEveryFilter:
    def test_a_miss_never_costs_more_than_a_hit(self, filter_, event):
        price = filter_.price(event)
        assert price.miss.fits_into(price.hit)
        assert price.hit.main > 0

    def test_order_does_not_matter(self, filter_, event):
        others = [event, *(e for e in EVENTS[:2] if e != event)]
        prices = [filter_.price(e).hit for e in others if (filter_, e) in PRICED]
        totals = {sum(order[1:], order[0]) for order in permutations(prices)}
        assert len(totals) == 1

    def test_copies_that_fit_are_counted_in_whole_amounts(self, filter_, event):
        price, capacity = filter_.price(event).hit, filter_.capacity
        copies = price.copies_in(capacity)
        assert price.times(copies).fits_into(capacity)
        assert not price.times(copies + 1).fits_into(capacity)

    def test_it_comes_back_from_json(self, filter_, event):
        body = json.loads(json.dumps(filter_.body()))
        assert restore(filter_.budget, body) == filter_
        assert restore(filter_.budget, body).price(event) == filter_.price(event)


# A menu prices sizes of calls: see test_a_menu_prices_a_repetition_by_its_whole_epsilon.
@pytest.mark.parametrize(("filter_", "event"), [pair for pair in PRICED if pair[0].kind != "exact"])
def test_k_at_once_cost_k_one_by_one_but_for_rounding_once(filter_, event):
    one, together = filter_.price(event), filter_.price(Repeated(Repeated(event, 5), 2))
    for at_once, single in ((together.hit, one.hit), (together.miss, one.miss)):
        assert at_once.fits_into(single.times(10))
        assert single.times(10).main - at_once.main < 10
        assert at_once.delta == single.delta * 10


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
    generous = ExactFilter(BUDGET, GRAIN, (MenuCall(1, 1), MenuCall(5, 1, 1.0)))
    assert generous.capacity.main < FILTERS[5].capacity.main / 2


def test_the_exact_filter_affords_more_hits_than_renyi():
    renyi = RenyiFilter.best(BUDGET, grain=GRAIN)
    assert renyi.price(Targeted(GRAIN)).hit.copies_in(renyi.capacity) < FILTERS[4].capacity.main


def test_delta_reserves_add_up_and_need_room():
    filter_ = FILTERS[3]
    price = filter_.price(Approximate(GRAIN, "3e-8"))
    assert price.hit.delta == 3 * 10**10
    assert price.hit.copies_in(Amount(LIMIT, filter_.capacity.delta)) == 3
    with pytest.raises(NotPriced, match="delta_reserve"):
        FILTERS[2].price(Approximate(GRAIN, "3e-8"))


def test_a_delta_below_the_resolution_is_not_free():
    price = RENYI_APART.price(Approximate(GRAIN, "1e-19"))
    assert (price.hit.delta, price.miss.delta) == (1, 1)
    assert RENYI_APART.price(Approximate(GRAIN, "1.000000000000000001e-9")).hit.delta == 10**9 + 1
    for filter_ in (RENYI, PURE):
        with pytest.raises(NotPriced, match="delta_reserve"):
            filter_.price(Approximate(GRAIN, "1e-19"))


def test_capacities_of_delta_are_rounded_down():
    assert PureFilter(BUDGET, Fraction(19, 10**19)).capacity.delta == 1
    assert PureFilter(BUDGET, Fraction(9, 10**19)).capacity.delta == 0
    assert PureFilter(BUDGET, Fraction(1, 10**6)).capacity.delta == 10**12


@pytest.mark.parametrize(
    "event", [Targeted(GRAIN, None, "1e-9"), Extendable(GRAIN / 2, "1e-9"), Approximate(GRAIN, "1e-300")]
)
@pytest.mark.parametrize("filter_", [EXACT, MENU])
def test_no_menu_lists_an_event_with_a_delta(filter_, event):
    with pytest.raises(NotPriced):
        filter_.price(event)


def test_a_target_on_the_menu_is_one_of_its_own_q():
    with pytest.raises(NotPriced):
        EXACT.price(Targeted(GRAIN, "0.3"))
    third = ExactFilter(BUDGET, GRAIN, (MenuCall(1, 1, 0.25), MenuCall(2, 3)), tokens=9)
    assert costs(third.price(Targeted(GRAIN, "0.25"))) == (Amount(1), Amount(0))
    assert costs(third.price(Targeted(2 * GRAIN))) == (Amount(3), Amount(0))
    for other in (Targeted(3 * GRAIN), Targeted(2 * GRAIN, "0.25"), Targeted(GRAIN, "0.2")):
        with pytest.raises(NotPriced):
            third.price(other)


def test_a_target_that_is_nearly_sure_is_no_release_whose_misses_are_free():
    for missing in (Fraction(1, 10**17), Fraction(1, 10**30)):
        with pytest.raises(NotPriced):
            EXACT.price(Targeted(GRAIN, 1 - missing))
    assert costs(EXACT.price(Targeted(GRAIN, 1))) == (Amount(1), Amount(1))


def test_a_menu_is_priced_for_the_least_q_that_its_float_stands_for(monkeypatch):
    seen = []

    def curves(grain, menu, top):
        seen.extend(menu)
        return lattice_curves(grain, menu, top)

    monkeypatch.setattr("chary.accounting.menu_curve.lattice_curves", curves)
    filter_ = ExactFilter(BUDGET, GRAIN, (MenuCall(1, 1, 0.28), MenuCall(2, 3), MenuCall(1, 1, 1.0)))
    assert Fraction("0.28") < Fraction(0.28)
    assert costs(filter_.price(Targeted(GRAIN, "0.28"))) == (Amount(1), Amount(0))
    assert [call.q is None or call.q <= Fraction("0.28") or call.q == 1 for call in seen] == [True, True, True]
    assert filter_.menu[0].q == 0.28


def test_the_session_menu_keeps_nearly_all_hits_and_sells_what_it_does_not_list():
    assert [(call.steps, call.tokens, call.q) for call in MENU.menu] == [(1, 1, None), (2, 15, None), (1, 1, 1.0)]
    assert EXACT.tokens > MENU.tokens >= Fraction(11, 12) * EXACT.tokens
    assert costs(MENU.price(Targeted(GRAIN / 3))) == (Amount(1), Amount(0))
    prices = [MENU.price(Pure(size)) for size in ("0.01", "0.02", "0.05", "0.1", "0.3")]
    assert all(price.hit == price.miss for price in prices)
    tokens = [price.hit.main for price in prices]
    assert tokens == sorted(tokens)
    assert tokens[:2] == [1, 1]
    assert tokens[3] <= MENU.tokens / 4
    assert tokens[4] <= MENU.tokens


def test_what_is_too_large_is_refused_and_told_what_is_not():
    with pytest.raises(NotPriced, match=r"releases up to epsilon 0\.3"):
        MENU.price(Pure("0.9"))


@pytest.mark.parametrize(
    "menu", [(MenuCall(1, 1), MenuCall(3, 4, 1.0)), (MenuCall(1, 2), MenuCall(2, 15), MenuCall(1, 1, 1.0))]
)
def test_a_menu_with_one_more_token_would_break_its_budget(menu):
    made = ExactFilter(BUDGET, GRAIN, menu)
    curves = list(islice(lattice_curves(float(GRAIN), made.menu, 450), made.tokens + 1))
    totals = [convex_upper(curve, float(GRAIN), 1e-6) for curve in curves[-2:]]
    assert totals[0] <= 1 < totals[1]


def test_a_price_of_parallel_calls():
    price = Price(Amount(7, 2), Amount(0, 2))
    assert [price.total(hits, 5) for hits in (0, 1, 5)] == [Amount(0, 10), Amount(7, 10), Amount(35, 10)]
    assert (price.total(0, 1), price.total(1, 1), price.free_miss) == (Amount(0, 2), Amount(7, 2), True)
    full = Price(Amount(7), Amount(4))
    assert (full.total(2, 5), full.free_miss) == (Amount(26), False)
    assert price.total(2, 1) == Amount(14, 2)
    assert Price(Amount(LIMIT // 2, LIMIT // 2), Amount(0)).total(3, 3) == Amount(LIMIT, LIMIT)


@pytest.mark.parametrize(
    ("filter_", "event"),
    [(FILTERS[0], ZeroConcentrated(1)), (FILTERS[4], Targeted("0.03")), (FILTERS[4], Joint((Pure(1), Pure(2))))],
)
def test_off_the_menu_is_refused(filter_, event):
    with pytest.raises(NotPriced):
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
        lambda: RenyiFilter.best(BUDGET, delta_reserve=Fraction(1, 10**6)),
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
    size = largest_call_left(filter_, Accounts(left, Amount(0)), 4)
    assert filter_.price(Targeted(size)).hit.copies_in(left) >= 4
    assert filter_.price(Targeted(size * Fraction(11, 10))).hit.copies_in(left) < 4
    with pytest.raises(InvalidParameter):
        largest_call_left(filter_, Accounts(Amount(0), Amount(0)), 1)


def test_a_menu_prices_a_repetition_by_its_whole_epsilon():
    assert FILTERS[5].price(Repeated(Pure(GRAIN), 5)) == FILTERS[5].price(Pure(5 * GRAIN))
    assert FILTERS[5].price(Repeated(DiscreteLaplace(100, 1), 2)) == FILTERS[5].price(Pure(GRAIN))


def test_a_release_over_three_keys_costs_its_epsilon_and_no_step_more():
    filter_ = FILTERS[0]
    thirds = Repeated(DiscreteLaplace(30, 1), 3)
    assert filter_.price(thirds).hit.copies_in(filter_.capacity) == 10


@pytest.mark.parametrize("make", [PureFilter, RenyiFilter.best])
def test_a_large_budget_is_counted_whole_in_coarser_steps_and_old_ledgers_go_on_with_theirs(make):
    most = make(Budget(epsilon=400, delta="1e-6"))
    assert most.for_new_data() is most
    cut = make(Budget(epsilon=10**9, delta="1e-6"))
    assert cut.capacity.main == LIMIT - 1
    assert restore(cut.budget, cut.body()).capacity == cut.capacity
    whole = cut.for_new_data()
    assert LIMIT / 11 < whole.capacity.main < LIMIT - 1
    assert whole.charged(whole.capacity) > 4 * 10**5 > cut.charged(cut.capacity)
    again = restore(whole.budget, whole.body())
    assert (again, again.capacity, again.price(Pure(1))) == (whole, whole.capacity, whole.price(Pure(1)))


@pytest.mark.parametrize("make", [PureFilter, RenyiFilter.best])
def test_prices_in_coarser_steps_are_rounded_up(make):
    whole = make(Budget(epsilon=10**9, delta="1e-6")).for_new_data()
    assert whole.price(Pure("1e-15")).hit.main == 1
    exactly = make(Budget(epsilon=10**9, delta="1e-6")).price(Pure("0.7")).hit.main
    assert whole.price(Pure("0.7")).hit.main * (10**15 // whole.steps) >= exactly


def test_a_budget_beyond_all_counting_is_refused():
    with pytest.raises(InvalidParameter, match="more than can be counted"):
        PureFilter(Budget(epsilon=10**20)).for_new_data()


def test_a_fine_grain_opens_a_menu_in_the_end():
    """Values far from the diagonal become too small for floats, which once kept the curve from settling."""
    filter_ = ExactFilter.with_revisions(Budget(epsilon="0.1", delta="1e-9"), Fraction(1, 1000))
    assert 100 < filter_.tokens < 2000
    assert ExactFilter.with_revisions(Budget(epsilon=1, delta="1e-6"), Fraction(1, 50)).tokens == 42


def test_a_release_of_two_grains_for_one_token_leaves_fewer_tokens():
    """It is no part of the closed form, which knows targets of one size alone."""
    budget = Budget(epsilon=1, delta="1e-6")
    usual = ExactFilter(budget, GRAIN)
    assert ExactFilter(budget, GRAIN, (MenuCall(1, 1), MenuCall(2, 1, 1.0))).tokens < usual.tokens
