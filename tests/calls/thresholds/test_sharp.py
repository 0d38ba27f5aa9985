"""Sharp tests in sessions: what is charged, what fits, what a hit is worth, and what cannot be asked."""

import numpy as np
import pytest

import chary
from chary import Budget, BudgetExceeded, InvalidParameter, NotPriced, NotWithheld, count, mean
from chary.accounting.sharp_tests import LEAST_SPEED, least_price
from chary.calls import Classify, ReleaseIf, ThresholdTest, Widen
from chary.core.plan import Data
from chary.noise import Seeded
from tests.session.kit import CLINICS, PAID, spent

DELTA = Budget(epsilon=1, delta=1e-6)
FAR = 10**6
EVERY = count().by("clinic", CLINICS)


def test_so_many_hits_fit_and_no_more_and_misses_are_free(opened):
    session = opened(budget=DELTA, unsafe_noise=Seeded(1))
    assert not any(session.test(count(), above=FAR, hits=7) for _ in range(50))
    assert session.spent.share == 0
    assert all(session.test(count(), above=-FAR, hits=7) for _ in range(7))
    with pytest.raises(BudgetExceeded):
        session.test(count(), above=-FAR, hits=7)


def test_a_hit_takes_the_part_of_the_budget_that_was_said(opened):
    session = opened(budget=DELTA)
    quote = session.quote(ThresholdTest(count(), above=-FAR, price="0.01"))
    assert (quote.price_if_hit, quote.price_if_miss) == (pytest.approx(0.01, rel=1e-9), 0)
    assert session.ask(ThresholdTest(count(), above=-FAR, price="0.01")).charged.share == quote.price_if_hit <= 0.01


@pytest.mark.parametrize("within", [150, 400])
def test_the_least_price_that_is_right_so_near(opened, within):
    session = opened(budget=DELTA)
    call = ThresholdTest(count(), above=0, within=within, tests=500)
    quote = session.quote(call, tests=500)
    assert 0.98 * within <= quote.within.error <= within + 1
    cheaper = session.quote(ThresholdTest(count(), above=0, price=0.9 * quote.price_if_hit, tests=500), tests=500)
    assert cheaper.within.error > within


@pytest.mark.parametrize("within", [10**7, 10**300])
def test_a_test_that_may_be_off_by_anything_takes_the_least_price_of_a_table(opened, within):
    """No search walks as many sensitivities as were named."""
    session = opened(budget=DELTA)
    bound = ThresholdTest(count(), above=3, within=within, tests=3).plan(session.spine)
    order = session.spine.filter.order
    assert 1 <= bound.event.price / least_price(order, LEAST_SPEED) < 1.01
    with pytest.raises(InvalidParameter, match="fewer tests"):
        ThresholdTest(count(), above=3, within=50, tests=10**300).plan(session.spine)


def test_a_small_budget_sells_many_hits(opened):
    """The table of such a test has one chance for several sensitivities."""
    session = opened(budget=Budget(epsilon="0.01", delta=1e-6))
    quote = session.quote(ThresholdTest(count(), above=3, hits=200, tests=1000))
    assert quote.price_if_hit == pytest.approx(1 / 200)
    assert 30_000 < quote.within.error < 60_000
    assert not session.ask(ThresholdTest(count(), above=10**6, hits=200)).value
    assert session.ask(ThresholdTest(count(), above=-(10**6), hits=200)).value


def test_what_another_order_would_sell_is_refused_with_the_grain_that_sells_it(opened):
    """The order is fixed with the dataset; the usual one is that of many small calls."""
    nearer, out_of_reach = (ThresholdTest(count(), above=3, within=within, tests=100) for within in (85, 20))
    with pytest.raises(InvalidParameter, match=r"not even the whole budget .* grain=") as refused:
        opened(budget=DELTA).quote(nearer)
    grain = str(refused.value).split("grain=")[1].split(",")[0]
    assert opened(budget=DELTA, grain=grain).quote(nearer).fits
    with pytest.raises(InvalidParameter) as refused:
        opened(budget=DELTA).quote(out_of_reach)
    assert "grain=" not in str(refused.value)


def test_more_is_told_for_the_same_than_by_laplace_noise(opened):
    """The same number of hits fits into the same budget."""
    session = opened(budget=DELTA, grain="0.05")
    laplace = session.quote(ThresholdTest(count(), above=0, epsilon="0.05"))
    sharp = session.quote(ThresholdTest(count(), above=0, hits=laplace.hits_left, tests=1000), tests=1000)
    by_laplace = np.log(1000 / 0.05) / 0.05
    assert sharp.within.error < 0.5 * by_laplace


def test_a_watch_publishes_fresh_values_of_the_hits_alone(opened):
    session = opened(budget=Budget(epsilon=1000, delta=1e-6))
    frame = count().by("clinic", [*CLINICS, "nowhere"])
    found = session.release_if(frame, above=20, hits=8)
    exact = session.release(frame, epsilon=400).value
    assert {key for (key,) in found.above} == {key for key, value in exact.items() if value >= 20}
    assert all(abs(found.value[key] - exact[key]) <= 8 for key in found.value)
    assert found["nowhere"] == {
        "clinic": "nowhere",
        "hit": False,
        "value": None,
        "low": None,
        "high": None,
        "caution": None,
    }


def drawn(session, call, values, times):
    """Hits and values of so many runs on these exact values."""
    made = call.plan(session.spine)
    touched = Data([np.array(values)] * len(made.reads(session.spine.rows)), Seeded(5), None, None, PAID)
    return [made.run(touched).answer for _ in range(times)]


def test_the_value_of_a_hit_has_noise_of_its_own(opened):
    """Unbiased at the bar, with the variance of its part of the price; a scale off by a tenth is found out."""
    session = opened(budget=DELTA)
    call = ReleaseIf(EVERY, above=0, hits=20)
    sigma = float(call.law(session.spine, EVERY).noise.sigma_squared) ** 0.5
    runs = drawn(session, call, [0, 0, FAR], 6000)
    noisy = np.array([run["noisy"][run["positions"].index(0)] for run in runs if 0 in run["positions"]])
    assert abs(len(noisy) - 3000) < 5 * (6000 / 4) ** 0.5
    assert abs(noisy.mean()) < 5 * sigma / len(noisy) ** 0.5
    spread = noisy.var() / sigma**2
    tolerance = 5 * (2 / len(noisy)) ** 0.5
    assert abs(spread - 1) < tolerance < abs(spread - 1.1**2)


def test_the_law_of_a_hit_is_that_of_the_table(opened):
    session = opened(budget=DELTA)
    call = ThresholdTest(count(), above=0, hits=20, tests=100)
    sharpness = call.sharply(session.spine, count())
    table = sharpness.sampler.table
    for value in (-40, 0, 60, 90):
        chance = float(table.hit_chance(value + sharpness.bar))
        hits = sum(run["hit"] for run in drawn(session, call, value, 4000))
        assert abs(hits - 4000 * chance) < 5 * (4000 * chance * (1 - chance)) ** 0.5 + 3


@pytest.mark.parametrize("verb", ["test", "release_if"])
def test_keys_halt_when_their_hits_run_out(opened, verb):
    session = opened(budget=DELTA)
    while session.quote(ThresholdTest(count(), above=0, hits=10)).hits_left > 2:
        session.test(count(), above=-FAR, hits=10)
    found = getattr(session, verb)(EVERY, above=-FAR, hits=10)
    assert (found.tested, found.hits, found.untested) == (2, 2, (("east",),))


def test_a_unit_in_several_keys_pays_for_each_hit(opened):
    session = opened(budget=DELTA)
    quotes = [
        session.quote(ReleaseIf(EVERY, above=0, hits=40)),
        session.quote(ThresholdTest(count(), above=0, hits=40)),
    ]
    assert quotes[0].most_charged == pytest.approx(3 * quotes[1].most_charged, rel=1e-9)


def test_sums_and_means_are_tested_in_their_own_units(opened):
    session = opened(budget=Budget(epsilon=10**4, delta=1e-6), privacy_unit=None)
    costs, average = chary.sum("cost", bounds=(0, 60), grid="0.5"), mean("cost", bounds=(0, 60))
    exact = session.release(costs, epsilon=5000).value
    assert session.test(costs, above=exact - 600, hits=10)
    assert not session.test(costs, above=exact + 600, hits=10)
    truth = session.release(average, epsilon=1000).value
    assert session.test(average, above=int(truth) - 10, hits=10)
    assert not session.test(average, above=int(truth) + 10, hits=10)


@pytest.mark.parametrize("max_rows_per_unit", [1024, 2048, 2**20])
def test_how_a_test_of_sums_beyond_64_bits_fails_says_nothing_of_the_sum(opened, max_rows_per_unit):
    """Once it was an error of one kind for a sum that fits, and another for one that does not."""
    session = opened(budget=DELTA)
    sums = chary.sum("cost", bounds=(0, 2**53), max_rows_per_unit=max_rows_per_unit)
    for asked in (ThresholdTest(sums, above=10, price="0.02"), Classify(sums, above=10, price="0.02")):
        with pytest.raises(InvalidParameter, match="coarser grid"):
            session.ask(asked)
    assert session.history == []
    assert session.test(chary.sum("cost", bounds=(0, 2**53), max_rows_per_unit=512), above=-(10**30), price="0.02")


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ({}, "specify the accuracy or the cost"),
        ({"hits": 5, "price": "0.1"}, "hits= and price= exclude one another: give one of"),
        ({"epsilon": 1, "within": 5, "tests": 9}, "epsilon= and within= exclude one another"),
        ({"within": 5}, "give tests= as well"),
        ({"hits": 5, "confidence": "0.9"}, "give tests= as well"),
        ({"epsilon": 1, "tests": 5}, "belongs to an optimal test"),
        ({"hits": 10**12}, "at least"),
        ({"within": "0.001", "tests": 10}, r"within 0\.001: let them be farther off, or give fewer tests="),
        ({"hits": 0}, "hits"),
        ({"price": 1}, "price"),
        ({"hits": 3, "tests": 5, "confidence": 1}, "confidence"),
    ],
)
def test_what_says_nothing_or_too_much_is_refused_untouched(opened, how, told):
    session = opened(budget=DELTA)
    with pytest.raises(InvalidParameter, match=told):
        session.test(count(), above=5, **how)
    with pytest.raises(InvalidParameter, match=told):
        session.release_if(EVERY, above=5, **how)
    assert session.history == []


@pytest.mark.parametrize("options", [{"budget": Budget(epsilon=1)}, {"filter": "exact", "grain": "0.05"}])
def test_other_filters_name_the_alternative(opened, options):
    session = opened(**({"budget": DELTA} | options))
    with pytest.raises(NotPriced, match="ask with epsilon="):
        session.test(count(), above=5, hits=5)
    assert spent(session) == spent(opened(**({"budget": DELTA} | options)))


def test_a_value_without_a_sharp_test_is_refused(opened):
    with pytest.raises(InvalidParameter, match="belongs to an optimal test"):
        opened(budget=DELTA).ask(ReleaseIf(EVERY, above=5, epsilon=1, value="0.5"))


def test_a_conditional_release_has_a_fresh_value_and_holds_nothing(opened):
    session = opened(budget=Budget(epsilon=10**4, delta=1e-6), privacy_unit=None)
    costs, average = chary.sum("cost", bounds=(0, 60), grid="0.5"), mean("cost", bounds=(0, 60))
    for query, near, far in ((costs, 600, 10**5), (average, 10, 60)):
        truth = session.release(query, epsilon=2000).value
        found = session.release_if(query, above=int(truth) - near, hits=10)
        assert found.value == pytest.approx(truth, abs=20)
        held = session.release_if(query, above=far, hits=10)
        assert (held.value, held.charged.share) == (None, 0)
        for way in (lambda held=held: held.widen(above=0), lambda held=held: session.ask(Widen(held.call, above=0))):
            with pytest.raises(NotWithheld):
                way()


def test_the_value_is_told_apart_from_the_test(opened):
    """What is published of a hit does not depend on how near to the bar it was."""
    session = opened(budget=DELTA)
    call = ReleaseIf(count(), above=0, hits=20)
    noisy = [found["value"] for found in drawn(session, call, 0, 4000) if found["value"] is not None]
    sigma = float(call.law(session.spine, count()).noise.sigma_squared) ** 0.5
    assert abs(np.mean(noisy)) < 5 * sigma / len(noisy) ** 0.5
    assert abs(np.var(noisy) / sigma**2 - 1) < 5 * (2 / len(noisy)) ** 0.5


@pytest.mark.parametrize("query", [count(), EVERY])
@pytest.mark.parametrize("kind", [ThresholdTest, ReleaseIf])
def test_a_quote_tells_how_near_the_tests_that_a_call_names_are_right(opened, kind, query):
    session = opened(budget=DELTA)
    call = kind(query, above=5, hits=20, tests=50, confidence="0.9")
    quote = session.quote(call)
    assert quote.within == session.quote(call, tests=50, confidence="0.9").within
    assert (quote.within.tests, quote.within.confidence) == (50, 0.9)
    assert "With 90 % confidence, all of 50 tests are right for values" in str(quote)
    assert session.quote(kind(query, above=5, hits=20)).within is None


def test_a_quote_tells_how_often_a_value_near_the_bar_is_called_wrongly(opened):
    session = opened(budget=DELTA)
    near, far = (session.quote(ThresholdTest(count(), above=0, hits=20), distance=apart) for apart in (50, 400))
    assert 0.01 < near.wrong_call < 0.5
    assert far.wrong_call < 1e-6
    assert (
        session.quote(
            ThresholdTest(mean("cost", bounds=(0, 60), max_rows_per_unit=1), above=5, hits=20), distance=5
        ).wrong_call
        is None
    )
