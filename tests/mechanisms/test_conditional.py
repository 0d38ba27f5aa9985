"""Noisy test, conditional release and revisions: every transcript with its exact probability."""

import itertools
import json
import math
from fractions import Fraction

import numpy as np
import pytest

from chary.errors import InvalidParameter
from chary.mechanisms import BarTests, Held, Published, judge, revise
from chary.mechanisms.additive import unpadded
from tests.mechanisms.laws import Given, epsilon_of, moment, price_of, transcripts, worst_ratio

RATIOS = [Fraction(9, 10), Fraction(97, 100), Fraction(1, 2)]
THRESHOLDS = range(-4, 6)
NEIGHBOURS = [(0, 1), (1, 0)]


def noisy_test(threshold):
    """The noisy test: True or False."""
    return lambda y: bool(BarTests(Given((y,)), threshold).step(np.array([0]), None).positions)


def released(*bars):
    """A conditional release and its revisions: the stage at which the value was published and the value, or nothing."""

    def run(y):
        outcome = judge(y, y, bars[0])
        for stage, bar in enumerate(bars):
            outcome = outcome if stage == 0 else revise(outcome, bar)
            if isinstance(outcome, Published):
                return stage, outcome.value
        return None

    return run


def law(value, ratio, run, low=-6, high=7):
    return transcripts([value], ratio, low, high, run)


def published_law(value, ratio, *bars):
    return law(value, ratio, released(*bars))


def price(ratio, order, first=1, later=2):
    """What a transcript of `released` costs: epsilon for the first stage, 2 epsilon for a revision, nothing else."""
    prices = [price_of(size * epsilon_of(ratio), order) for size in (first, later)]
    return lambda transcript: 0.0 if transcript is None else prices[transcript[0] > 0]


def orders(ratio, size):
    """Orders at which a call of that many epsilons has a price."""
    epsilon = size * float(epsilon_of(ratio))
    return [a for a in (2, 3, 5, 8, 12, 20) if math.exp(a * epsilon) < 1 + math.exp(epsilon) - 0.01]


@pytest.mark.parametrize("ratio", RATIOS)
def test_a_noisy_test_attains_its_epsilon_and_never_passes_it(ratio):
    worst = [worst_ratio(*(law(x, ratio, noisy_test(bar)) for x in (0, 1))) for bar in THRESHOLDS]
    assert max(worst) == 1 / ratio


@pytest.mark.parametrize("ratio", RATIOS)
def test_a_conditional_release_attains_its_epsilon_and_never_passes_it(ratio):
    worst = [worst_ratio(*(published_law(x, ratio, bar) for x in (0, 1))) for bar in THRESHOLDS]
    assert max(worst) == 1 / ratio


@pytest.mark.parametrize("ratio", RATIOS)
def test_a_release_with_all_its_revisions_is_one_release(ratio):
    """Without charging by hits, the whole sequence publishes no more than the noisy value."""
    worst = [worst_ratio(*(published_law(x, ratio, *bars) for x in (0, 1))) for bars in ((3, 1), (4, 2, 0, -3))]
    assert max(worst) == 1 / ratio


def given_a_miss(transcript_law, stages):
    """The law of the rest, once the first stages have published nothing."""
    rest = {t: mass for t, mass in transcript_law.items() if t is None or t[0] >= stages}
    return {t: mass / sum(rest.values()) for t, mass in rest.items()}


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("stages", [1, 2])
def test_a_revision_after_a_miss_is_two_epsilon_private(ratio, stages):
    worst = Fraction(1)
    for bars in itertools.combinations(sorted(THRESHOLDS, reverse=True), stages + 1):
        laws = [given_a_miss(published_law(x, ratio, *bars), stages) for x in (0, 1)]
        worst = max(worst, worst_ratio(*laws))
    assert worst <= ratio**-2
    if ratio > Fraction(4, 5):
        assert math.log(worst) > 0.9 * math.log(ratio**-2)


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize(("one", "other"), NEIGHBOURS)
def test_a_charged_hit_bounds_the_moment_of_a_test(ratio, one, other):
    for order in orders(ratio, 1):
        hit = price_of(epsilon_of(ratio), order)
        for bar in THRESHOLDS:
            laws = [law(x, ratio, noisy_test(bar)) for x in (one, other)]
            assert moment(*laws, order, lambda found, hit=hit: hit * found) <= 1 + 1e-12


@pytest.mark.parametrize("ratio", RATIOS[:2])
@pytest.mark.parametrize(("one", "other"), NEIGHBOURS)
@pytest.mark.parametrize("revisions", [0, 1, 2, 3])
def test_charging_only_what_is_published_bounds_the_moment_of_release_and_revisions(ratio, one, other, revisions):
    for bars in itertools.combinations(range(3, -4, -1), revisions + 1):
        laws = [published_law(x, ratio, *bars) for x in (one, other)]
        for order in orders(ratio, 2)[-2:]:
            assert moment(*laws, order, price(ratio, order)) <= 1 + 1e-12


def test_cheaper_hits_would_break_the_moment():
    """The inequality has teeth: it fails at two thirds of the price."""
    ratio, order = Fraction(97, 100), 8
    laws = [[published_law(x, ratio, bar) for x in pair] for bar in THRESHOLDS for pair in NEIGHBOURS]
    full = price(ratio, order)
    assert max(moment(*pair, order, full) for pair in laws) <= 1 + 1e-12
    assert max(moment(*pair, order, lambda t: 2 / 3 * full(t)) for pair in laws) > 1


def test_only_the_value_is_published_and_the_score_decides():
    assert judge(4.25, 17, 17) == Published(4.25)
    assert judge(4.25, 16, 17) == Held(4.25, 16, 17)


def test_a_bar_that_is_exactly_reached_publishes():
    assert judge(500, 500, 500) == Published(500)
    assert isinstance(judge(499, 499, 500), Held)
    assert revise(Held(499, 499, 500), 499) == Published(499)


@pytest.mark.parametrize("bar", [500, 501, 10**30])
def test_a_revision_must_lower_the_bar(bar):
    with pytest.raises(InvalidParameter) as refusal:
        revise(Held(424242, 424242, 500), bar)
    assert "424242" not in str(refusal.value)


def test_a_held_outcome_shows_nothing_but_its_floor():
    held = Held(424242, 424242, 500)
    for shown in (repr(held), str(held), f"{held}", f"{held!r}"):
        assert "424242" not in shown
        assert "500" in shown


@pytest.mark.parametrize("value", [7, -(2**60 + 1), 2**80, 0.1, 1e-300, -3.5])
def test_a_held_outcome_survives_the_ledger_unchanged(value):
    held = Held(value, -(2**70), 2**65)
    again = Held.load(held.dump())
    assert again == held
    assert type(again.value) is type(value)
    assert json.loads(unpadded(held.dump()))[0] == value
