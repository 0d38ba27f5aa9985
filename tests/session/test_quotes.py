"""A quote says what will be charged and how often a call is wrong, without charging or reading."""

import itertools
import math
from fractions import Fraction

import pytest

import chary
from chary import Budget, BudgetExceeded, InvalidInput, InvalidParameter, InvalidQuery, count, mean
from chary.accounting import LaplaceLaw, Targeted, chosen_reach_up
from chary.calls import Classify, Release, ReleaseIf, ThresholdTest, TopK
from chary.core.quote import warns
from chary.numbers import percent
from tests.session.kit import CLINICS, spent

NEVER, SURE = 10**9, -(10**9)
COSTS = chary.sum("cost", bounds=(0, 20), grid="0.5", max_rows_per_unit=2)
KEYED = count().by("clinic", [*CLINICS, "a", "b"], max_groups_per_unit=2)


def charged_share(session, ask):
    before = spent(session)
    ask()
    return (spent(session) - before).main / session.spine.filter.capacity.main


@pytest.mark.parametrize("kind", ["pure", "renyi", "exact"])
def test_a_quote_is_what_is_then_charged(opened, place, kind):
    session = opened(ledger=place, filter=kind, grain="0.02")
    for ask in (session.test, session.release_if):
        quote = session.quote(ThresholdTest(count(), above=5, epsilon="0.02"))
        assert charged_share(session, lambda ask=ask: ask(count(), above=SURE, epsilon="0.02")) == quote.price_if_hit
        assert charged_share(session, lambda ask=ask: ask(count(), above=NEVER, epsilon="0.02")) == quote.price_if_miss
    quote = session.quote(ReleaseIf(KEYED, above=5, epsilon="0.02"))
    worst = charged_share(session, lambda: session.release_if(KEYED, above=SURE, epsilon="0.02"))
    assert worst == pytest.approx(quote.most_charged, rel=1e-12)
    assert quote.most_charged == 2 * quote.price_if_hit
    quote = session.quote(Release(count(), epsilon="0.04"))
    assert charged_share(session, lambda: session.release(count(), epsilon="0.04")) == quote.price_if_hit
    assert quote.price_if_hit == quote.price_if_miss == quote.most_charged


def test_a_quote_for_gaussian_noise_and_for_a_mean(opened):
    session = opened()
    middle = mean("cost", bounds=(0, 20), max_rows_per_unit=1)
    for query, size in ((count(), {"rho": "0.001"}), (middle, {"epsilon": "0.1"}), (KEYED, {"rho": "0.001"})):
        quote = session.quote(Release(query, **size))
        expected = charged_share(session, lambda query=query, size=size: session.release(query, **size))
        assert quote.most_charged == pytest.approx(expected, rel=1e-12)
        assert quote.epsilon == (None if "rho" in size else 0.1)


def test_hits_left_counts_down_to_the_refusal(opened):
    session = opened(filter="exact", grain="0.02", budget=Budget(epsilon="0.4", delta=1e-6))
    first = session.quote(ThresholdTest(count(), above=5, epsilon="0.02")).hits_left
    assert first > 2
    for left in range(first, 0, -1):
        quote = session.quote(ThresholdTest(count(), above=5, epsilon="0.02"))
        assert (quote.hits_left, quote.fits) == (left, True)
        session.test(count(), above=SURE, epsilon="0.02")
    ending = session.quote(ThresholdTest(count(), above=5, epsilon="0.02"))
    assert (ending.hits_left, ending.ends_free_misses) == (20 - first, True)
    for _ in range(20 - first):
        session.test(count(), above=NEVER, epsilon="0.02")
    assert session.quote(ThresholdTest(count(), above=5, epsilon="0.02")).hits_left == 0
    assert not session.quote(ThresholdTest(count(), above=5, epsilon="0.02")).fits
    with pytest.raises(BudgetExceeded):
        session.test(count(), above=NEVER, epsilon="0.02")


def brute_wrong(scale, distance):
    """How often discrete Laplace noise carries a value to the other side of the threshold."""
    weights = {k: math.exp(-abs(k) / scale) for k in range(-3000, 3001)}
    wrong = [w for k, w in weights.items() if (distance + k >= 0) != (distance >= 0)]
    return math.fsum(wrong) / math.fsum(weights.values())


@pytest.mark.parametrize("distance", [0, 1, 30, 100, -1, -30, -100])
def test_wrong_call_is_the_exact_chance(opened, distance):
    quote = opened().quote(ThresholdTest(count(), above=500, epsilon="0.02"), distance=distance)
    assert quote.wrong_call == pytest.approx(brute_wrong(50, distance), rel=1e-9)
    assert quote.distance == distance


def test_wrong_call_counts_grid_steps(opened):
    quote = opened().quote(ThresholdTest(COSTS, above=500, epsilon=1), distance=50)
    assert quote.wrong_call == pytest.approx(brute_wrong(80, 100), rel=1e-9)


def test_error_bar_is_the_least_half_width(opened):
    session = opened()
    whole = math.fsum(math.exp(-abs(k) / 50) for k in range(-3000, 3001))
    inside = itertools.accumulate((2 * math.exp(-k / 50) / whole for k in range(1, 3000)), initial=1 / whole)
    bar = next(m for m, mass in enumerate(inside) if mass >= 0.95)
    quote = session.quote(ThresholdTest(count(), above=500, epsilon="0.02"))
    assert (quote.error_bar, quote.distance) == (None, bar)
    assert session.release(count(), epsilon="0.02").error_bar == bar
    assert session.release_if(count(), above=NEVER, epsilon="0.02").error_bar is None
    assert session.quote(Release(COSTS, epsilon="0.5")).error_bar % 0.5 == 0


def test_noise_that_decides_has_no_error_bar(opened):
    session = opened(filter="renyi", grain="0.02")
    deciding = [
        ThresholdTest(count(), above=500, epsilon="0.02"),
        ReleaseIf(count(), above=500, epsilon="0.02"),
        ReleaseIf(KEYED, above=500, epsilon="0.02"),
        Classify(count(), low=5, high=500, epsilon="0.02"),
        Classify(count(), above=500, epsilon="0.02"),
        TopK(KEYED, k=2, epsilon="0.02"),
    ]
    quotes = [session.quote(call) for call in deciding]
    assert [quote.as_dict()["error_bar"] for quote in quotes] == [None] * 6
    assert not any("a published value is within" in line for quote in quotes for line in quote.lines())
    below, above = chosen_reach_up(LaplaceLaw(50), candidates=len(KEYED.keys), published=2, confidence="0.95")
    assert f"at most {below} too high and {above} too low" in str(quotes[-1])
    fresh = session.quote(ReleaseIf(KEYED, above=500, hits=5))
    assert fresh.error_bar == session.release_if(KEYED, above=-500, hits=5, below_margin=True).error_bar > 0


def test_one_is_told_as_one(opened):
    session = opened(filter="renyi", grain="0.02")
    quote = session.quote(ThresholdTest(count(), above=500, hits=1))
    assert any("pays for 1 such hit;" in line for line in quote.lines())
    assert any("the test does not report a value" in line for line in quote.lines())
    many = session.quote(ThresholdTest(count(), above=500, hits=2), tests=1000)
    assert any("pays for 2 such hits;" in line for line in many.lines())
    assert any("none of 1,000 tests reports a value" in line for line in many.lines())
    session.ask(ThresholdTest(count(), above=NEVER, epsilon="0.02"))
    assert "the 1 call so far with 1 private test (0 hits), and every later one" in session.statement()


def test_a_quote_tells_what_is_left_after_the_worst(opened):
    session = opened(filter="renyi", grain="0.02")
    for call in (Release(count(), epsilon="0.1"), ReleaseIf(KEYED, above=-500, epsilon="0.05", below_margin=True)):
        quote = session.quote(call)
        assert quote.left == pytest.approx(session.remaining.share)
        session.ask(call)
        assert session.remaining.share == pytest.approx(quote.left_after)
        assert any(f"this call leaves at least {percent(quote.left_after)}" in line for line in quote.lines())
    too_much = session.quote(Release(count(), epsilon=5))
    assert not too_much.fits
    assert too_much.left_after < 0
    assert any(line.startswith("The call does not fit") and warns(line) for line in too_much.lines())


def test_a_mean_has_no_error_bar_of_its_own(opened):
    middle = mean("cost", bounds=(0, 20), max_rows_per_unit=1)
    quote = opened().quote(ThresholdTest(middle, above=5, epsilon="0.02"))
    assert (quote.error_bar, quote.distance, quote.wrong_call) == (None, None, None)


def test_a_quote_tells_its_figures(opened):
    quote = opened().quote(ThresholdTest(count(), above=500, epsilon="0.02"), distance=10)
    assert quote.as_dict()["hits_left"] == quote.hits_left
    for told in (
        "Cost: ",
        "a miss is free",
        "remaining budget pays for",
        "misclassified",
        "Guarantee: all answers together",
    ):
        assert told in str(quote)
    released = str(opened().quote(Release(count(), epsilon="0.02")))
    assert "% of the budget, whatever the outcome" in released
    assert "hit" not in released


def test_a_quote_tells_on_which_side_of_the_threshold(opened):
    session, call = opened(), ThresholdTest(count(), above=500, epsilon="0.02")
    assert "A value 150 above the threshold is misclassified" in str(session.quote(call, distance=150))
    assert "misclassified" not in str(session.quote(call))
    assert "A value 10 below the threshold is misclassified" in str(session.quote(call, distance=-10))


def test_a_quote_against_a_share(opened):
    session = opened()
    session.set_quota("analyst", Fraction(1, 10**6))
    assert not session.quote(Release(count(), epsilon="0.1")).fits


@pytest.mark.parametrize(
    "ask",
    [
        lambda s: s.quote(Release(count())),
        lambda s: s.quote(ThresholdTest(count(), above=5)),
        lambda s: s.quote(Release(count(), epsilon=1, rho=1)),
        lambda s: s.quote(Release(count(), epsilon=0)),
        lambda s: s.quote(ThresholdTest(count(), above=float("nan"), epsilon="0.02")),
        lambda s: s.quote(ThresholdTest(count(), above=5, epsilon="0.02"), distance=float("nan")),
        lambda s: s.quote(ThresholdTest(count(), above=5, epsilon="0.02", rho=1)),
        lambda s: s.quote(ThresholdTest(count(), above=5, rho=1)),
    ],
)
def test_bad_quotes_are_refused(opened, ask):
    with pytest.raises(InvalidParameter):
        ask(opened())


@pytest.mark.parametrize(
    "query", [count("nobody = 1"), count().by("clinic", [1]), chary.sum("note", bounds=(0, 1), max_rows_per_unit=1)]
)
def test_what_would_be_refused_gets_no_quote(opened, query):
    session = opened()
    with pytest.raises(InvalidQuery):
        session.quote(Release(query, epsilon="0.02"))


def test_a_mean_with_a_bar_off_the_grid_gets_no_quote(opened):
    with pytest.raises(InvalidInput):
        opened().quote(ThresholdTest(mean("cost", bounds=(0, 20), max_rows_per_unit=1), above="5.5", epsilon="0.02"))


def test_a_watch_that_halts_is_charged_no_more_than_is_left(opened):
    session = opened()
    session.release(count(), epsilon="0.3")
    quote = session.quote(ReleaseIf(count().by("age", range(1000)), above=0, epsilon="0.05"))
    assert quote.most_charged == pytest.approx(session.remaining.share)
    fit = session.spine.filter.price(Targeted("0.05")).hit.copies_in(session.spine.left())
    assert quote.most_charged > (fit - 1) * quote.price_if_hit
