"""What is charged, under each of the filters."""

from fractions import Fraction
from types import SimpleNamespace

import pytest

import chary
from chary import Budget, BudgetExceeded, InvalidParameter, NotPriced, count, mean
from chary.accounting import Approximate, DiscreteLaplace, Pure, Repeated, Targeted, ZeroConcentrated
from chary.amounts import Amount
from chary.calls import Release, ReleaseIf, ThresholdTest
from chary.core.plan import laplace_for
from chary.mechanisms import Laplace
from tests.session.kit import CLINICS, NO_NOISE, USUAL, spent, steps

SURE, NEVER = -(10**6), 10**9
# Ages as keys: a patient could have rows in all of them.
AGES = count().by("age", range(20, 81))


@pytest.fixture(params=["renyi", "exact"])
def charging(request, opened, place):
    """A session whose misses are free and which prices 0.02 and its double."""
    return opened(ledger=place, filter=request.param, grain="0.02")


def hit_price(session, epsilon="0.02"):
    return session.spine.filter.price(Targeted(epsilon)).hit


def test_nothing_is_spent_at_first(charging):
    assert spent(charging) == Amount(0)
    assert (charging.spent.share, charging.spent.charged) == (0, 0)
    assert charging.remaining.share == 1
    assert charging.history == []


def test_misses_are_free(charging):
    assert charging.test(count(), above=NEVER, epsilon="0.02") is False
    assert not charging.release_if(count(), above=NEVER, epsilon="0.02").published
    assert charging.release_if(AGES, above=NEVER, epsilon="0.02").hits == 0
    assert spent(charging) == Amount(0)


def test_each_hit_costs_its_price(charging):
    hit = hit_price(charging)
    assert hit != Amount(0)
    assert charging.test(count(), above=SURE, epsilon="0.02") is True
    assert spent(charging) == hit
    assert charging.release_if(count(), above=SURE, epsilon="0.02").published
    assert spent(charging) == hit.times(2)


def test_a_revision_costs_the_hit_of_the_first_call(charging):
    size = {"exact": Fraction("0.02"), "renyi": Fraction("0.01")}[charging.spine.filter.kind]
    held = charging.release_if(count(), above=NEVER, epsilon=size)
    held = held.widen(above=NEVER - 1)
    assert spent(charging) == Amount(0)
    assert held.widen(above=SURE).published
    assert spent(charging) == hit_price(charging, size)


@pytest.mark.parametrize(("options", "size"), [({"budget": Budget(epsilon=1)}, "0.4"), ({"grain": "0.02"}, "0.2")])
def test_a_revision_of_an_outcome_that_was_paid_hit_or_miss_is_free(opened, options, size):
    session = opened(**options)
    held = session.release_if(count(), above=NEVER, epsilon=size)
    paid = spent(session)
    assert paid != Amount(0)
    assert held.widen(above=SURE).published
    assert spent(session) == paid


def test_an_ordinary_release_costs_its_event(opened, place):
    session = opened(ledger=place)
    price, cell = session.spine.filter.price, chary.sum("cost", bounds=(0, 5), max_rows_per_unit=2)
    questions = [
        (lambda: session.release(count(), epsilon="0.1"), DiscreteLaplace(10, 1)),
        (lambda: session.release(count(), rho="0.001"), ZeroConcentrated("0.001")),
        (lambda: session.release(cell, epsilon="0.1"), DiscreteLaplace(100, 10)),
        (lambda: session.release(count().by("clinic", CLINICS), epsilon="0.3"), Repeated(DiscreteLaplace(10, 1), 3)),
        (
            lambda: session.release(mean("cost", bounds=(0, 6), max_rows_per_unit=1), epsilon="0.1"),
            DiscreteLaplace(60, 6),
        ),
    ]
    for ask, event in questions:
        before = spent(session)
        ask()
        assert spent(session) - before == price(event).hit


@pytest.mark.parametrize("neighbors", ["add_remove", "replace"])
def test_the_relation_decides_the_sensitivity(opened, neighbors):
    session = opened(neighbors=neighbors)
    session.release(chary.sum("cost", bounds=(-5, 5), max_rows_per_unit=1), epsilon="0.1")
    change = {"add_remove": 5, "replace": 10}[neighbors]
    assert spent(session) == session.spine.filter.price(DiscreteLaplace(change * 10, change)).hit


def test_ten_tenths_fit_into_one_and_the_eleventh_is_refused_untouched(opened, place):
    seen = []
    session = opened(ledger=place, budget=Budget(epsilon=1.0), on_step=seen.append)
    for _ in range(10):
        session.release(count(), epsilon=0.1)
    assert spent(session) == Amount(steps(1)) == session.spine.filter.capacity
    seen.clear()
    with pytest.raises(BudgetExceeded) as refusal:
        session.release(count(), epsilon=0.1)
    assert not {"reserved", "evaluated", "ran", "settled"} & set(seen)
    assert spent(session) == Amount(steps(1))
    assert len(session.history) == 10
    for told in ("0.1", "epsilon 1", "0 % is left"):
        assert told in str(refusal.value)


def test_ordinary_releases_end_at_the_capacity(charging):
    while charging.quote(Release(count(), epsilon="0.04")).fits:
        charging.release(count(), epsilon="0.04")
    with pytest.raises(BudgetExceeded):
        charging.release(count(), epsilon="0.04")
    basic = charging.spine.accounts().basic
    assert spent(charging).fits_into(charging.spine.filter.capacity) or (basic.alone and basic.fits(0))
    assert charging.history[-1].state == "settled"


@pytest.mark.parametrize(("keep", "charged"), [(1, 1), (2, 2), (3, 3), (None, 3)])
def test_a_watch_charges_at_most_the_keys_of_a_unit(charging, keep, charged):
    query = count().by("clinic", CLINICS, max_groups_per_unit=keep)
    found = charging.release_if(query, above=SURE, epsilon="0.02")
    assert found.hits == 3
    assert spent(charging) == hit_price(charging).times(charged)


def test_a_watch_charges_the_hits_where_they_are_fewer(charging):
    query = count().by("clinic", [*CLINICS, "a", "b", "c"], assumed_groups_per_unit=5)
    counts = {0: NEVER, 6: SURE}
    for hits, above in counts.items():
        before = spent(charging)
        assert charging.release_if(query, above=above, epsilon="0.02").hits == hits
        assert spent(charging) - before == hit_price(charging).times(min(hits, 5))


def test_replacing_a_unit_reaches_twice_as_many_keys(opened):
    session = opened(neighbors="replace", filter="renyi", grain="0.02")
    session.release_if(count().by("age", range(20, 81), max_groups_per_unit=2), above=SURE, epsilon="0.02")
    assert spent(session) == hit_price(session).times(4)
    session.release_if(count().by("clinic", CLINICS, max_groups_per_unit=2), above=SURE, epsilon="0.02")
    assert spent(session) == hit_price(session).times(4 + 3)


def test_a_watch_halts_where_the_budget_ends(charging):
    fits = hit_price(charging).copies_in(charging.spine.filter.capacity)
    assert 1 < fits < 61
    found = charging.release_if(AGES, above=SURE, epsilon="0.02")
    assert (found.hits, found.tested) == (fits, fits)
    assert found.states() == [True] * fits + [None] * (61 - fits)
    assert found.untested == AGES.keys[fits:]
    assert spent(charging) == hit_price(charging).times(fits)
    with pytest.raises(BudgetExceeded):
        charging.release_if(AGES, above=NEVER, epsilon="0.02")


def test_a_halting_watch_that_finds_nothing_tests_everything(charging):
    found = charging.release_if(AGES, above=NEVER, epsilon="0.02")
    assert found.states() == [False] * 61
    assert spent(charging) == Amount(0)


def test_a_watch_is_not_halted_when_its_worst_price_fits(opened):
    session = opened(filter="renyi", grain="0.02")
    found = session.release_if(count().by("age", range(20, 81), max_groups_per_unit=1), above=SURE, epsilon="0.02")
    assert found.hits == 61
    assert spent(session) == hit_price(session)


def test_a_call_too_large_for_a_hit_price_is_paid_hit_or_miss(opened):
    session = opened(budget=Budget(epsilon=5, delta=1e-6), grain="0.02")
    price = session.spine.filter.price(Targeted("0.5"))
    assert price.hit == price.miss != Amount(0)
    assert price.hit == session.spine.filter.price(Pure("0.5")).hit
    assert session.test(count(), above=NEVER, epsilon="0.5") is False
    assert spent(session) == price.miss
    two = count().by("clinic", CLINICS, max_groups_per_unit=2)
    session.release_if(two, above=NEVER, epsilon="0.5")
    assert spent(session) == price.miss.times(3)


def test_the_pure_filter_charges_hit_or_miss(opened, place):
    session = opened(ledger=place, budget=Budget(epsilon=1))
    session.test(count(), above=NEVER, epsilon="0.1")
    assert spent(session) == Amount(steps("0.1"))
    session.release_if(count().by("clinic", CLINICS), above=NEVER, epsilon="0.1")
    assert spent(session) == Amount(steps("0.4"))
    session.release_if(count().by("clinic", CLINICS, max_groups_per_unit=1), above=SURE, epsilon="0.1")
    assert (spent(session), session.spent.charged, session.spent.unit) == (Amount(steps("0.5")), 0.5, "epsilon")


def test_a_watch_that_cannot_halt_is_refused_whole(opened):
    session = opened(budget=Budget(epsilon=1))
    with pytest.raises(BudgetExceeded):
        session.release_if(AGES, above=NEVER, epsilon="0.1")
    assert spent(session) == Amount(0)


def test_gaussian_noise_has_no_pure_price(opened):
    session = opened(budget=Budget(epsilon=1))
    with pytest.raises(NotPriced):
        session.release(count(), rho="0.01")
    assert (spent(session), session.history) == (Amount(0), [])


def test_the_exact_filter_has_a_menu_of_targets_and_sells_releases_of_any_size(opened):
    session = opened(filter="exact", grain="0.02")
    for epsilon in ("0.02", "0.04", "0.05", "0.1"):
        session.release(count(), epsilon=epsilon)
    before = spent(session)
    refused = [
        lambda: session.test(count(), above=5, epsilon="0.05"),
        lambda: session.test(count(), above=5, epsilon="0.1"),
        lambda: session.release(count(), epsilon="0.9"),
        lambda: session.release(count(), rho="0.0001"),
    ]
    for ask in refused:
        with pytest.raises(NotPriced) as refusal:
            ask()
        assert "0.02" in str(refusal.value)
    assert spent(session) == before


def test_the_exact_filter_affords_more_hits_than_the_renyi_filter(opened):
    hits = []
    for kind in ("renyi", "exact"):
        session = opened(filter=kind, grain="0.02")
        hits.append(0)
        while not session.quote(ThresholdTest(count(), above=SURE, epsilon="0.02")).ends_free_misses:
            session.test(count(), above=SURE, epsilon="0.02")
            hits[-1] += 1
    assert 20 < hits[0] < hits[1] < 50


def test_delta_set_aside_pays_for_approximate_events(opened):
    session = opened(delta_reserve="4e-7")
    assert session.spine.filter.price(Approximate("0.01", "1e-7")).hit.delta == 10**11
    assert session.spine.filter.capacity.delta == 4 * 10**11
    sessions = [opened(grain="0.02", delta_reserve=aside) for aside in (0, "4e-7", "9.9e-7")]
    hits = [hit_price(each).copies_in(each.spine.filter.capacity) for each in sessions]
    assert hits[0] > hits[1] > hits[2]
    with pytest.raises(NotPriced):
        opened().spine.filter.price(Approximate("0.01", "1e-7"))


def test_the_larger_part_of_a_charge_counts_wherever_it_is_told(opened):
    session = opened(filter="pure", delta_reserve="4e-7")
    asked = Release(count(), epsilon="0.01", delta="3e-7")
    quote = session.quote(asked)
    assert (quote.price_if_hit, quote.price_if_miss, quote.most_charged) == (0.75, 0.75, 0.75)
    assert (quote.hits_left, quote.left, quote.left_after) == (1, 1, 0.25)
    assert "Cost: 75 % of the budget" in str(quote)
    assert "this call leaves at least 25 %" in str(quote)
    answer = session.ask(asked)
    assert (answer.charged.share, answer.left.share) == (0.75, 0.25)
    assert (session.history[0].share, session.spent.share, session.remaining.share) == (0.75, 0.75, 0.25)
    assert "75 % of this budget is charged so far" in session.statement()
    with pytest.raises(
        BudgetExceeded, match=r"can cost 75 % of the budget .* and 25 % is left; it also takes"
    ) as caught:
        session.ask(asked)
    assert (caught.value.figures["asked"], caught.value.figures["left"]) == (0.75, 0.25)


@pytest.mark.parametrize("kind", ["pure", "renyi"])
@pytest.mark.parametrize("aside", [-0.1, "-1e-20", 1e-5, 0.5, 2, float("nan"), True])
def test_what_is_set_aside_is_a_part_of_delta(opened, kind, aside):
    with pytest.raises(InvalidParameter):
        opened(filter=kind, delta_reserve=aside)


def test_a_pure_budget_has_no_delta_to_set_aside(opened):
    with pytest.raises(InvalidParameter):
        opened(budget=Budget(epsilon=1), delta_reserve=1e-9)


@pytest.mark.parametrize("kind", ["pure", "renyi", "exact"])
def test_a_budget_too_large_to_count_is_cut_short_or_refused(opened, kind):
    """An amount has 62 bits; a smaller capacity is safe, a wrong parameter is honest, a crash is neither."""
    try:
        session = opened(budget=Budget(epsilon=10**9, delta=1e-6), filter=kind, grain="0.02")
    except InvalidParameter:
        return
    assert session.spine.filter.capacity.main <= 2**62
    session.test(count(), above=SURE, epsilon="0.02")
    assert 0 < spent(session).main < session.spine.filter.capacity.main


@pytest.mark.parametrize("filter_", ["pure", "renyi"])
def test_a_price_too_large_to_count_is_refused_like_any_other(opened, filter_):
    session = opened(budget=Budget(epsilon=10, delta=1e-6), filter=filter_)
    many = count().by("patient", range(100_000))
    for ask in (
        lambda: session.release(count(), epsilon=10**5),
        lambda: session.release_if(many, above=NEVER, epsilon=5),
        lambda: session.release(chary.sum("cost", bounds=(0, 2**40), max_rows_per_unit=10**4), epsilon=10**5),
    ):
        with pytest.raises(BudgetExceeded):
            ask()
    assert spent(session) == Amount(0)
    assert session.quote(ReleaseIf(many, above=5, epsilon=5)).fits is False


def test_small_prices_do_not_vanish(opened):
    session = opened(budget=NO_NOISE)
    session.test(count(), above=-(10**12), epsilon="1e-9")
    assert spent(session).main > 0


def test_usual_budget_is_what_the_fixture_says(opened):
    assert opened().spine.filter.budget == USUAL


def test_a_change_that_is_no_multiple_of_the_largest_single_one_counts_as_the_next():
    moved = SimpleNamespace(sensitivity=lambda near: 2, l1=lambda near: 5)
    assert laplace_for(moved, None, 1) == Laplace.for_epsilon(1, sensitivity=2, times=3)
