"""Histograms that tell hard from easy by sharp tests: laws, prices, what is told, refusals."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.stats

from chary import Budget
from chary.accounting.sharp_widths import half_width
from chary.calls import PMW
from chary.data import Bins, NeighborRelation
from chary.errors import InvalidParameter, NotPriced
from chary.filters import RenyiFilter
from chary.mechanisms.weights import Transcript
from chary.noise import Seeded
from tests.calls.weights.weighting_kit import QUESTIONS, UNIVERSE, true_share, weights_of
from tests.session.kit import visits

BUDGET = Budget(epsilon=1, delta=1e-6)
CLEAR = Budget(epsilon=1000, delta=1e-6)
FILTER = RenyiFilter.best(BUDGET)
ALPHA = 1e-6


def sharply(session, **how):
    return weights_of(session, epsilon=None, **how)


def asked(size=400, start=400, **how):
    """How a question is told of a histogram opened at `start`, and the easy counts where its answer is a half."""
    law = opened(start, **how)
    return law.at(size), law.rule.easy(0.5, size)


def opened(start, **how):
    """The law of a histogram."""
    return PMW(universe={"age": Bins([0, 1])}, alpha="0.3", **how).law(FILTER, NeighborRelation("replace", None), start)


def found(made, easy, count, source):
    """The noisy count of a hard answer; None of an easy one."""
    return made.test(Transcript(), easy, count, source).noisy


def test_a_miss_is_free_and_a_hit_takes_its_share_of_the_whole_budget(rows):
    session = rows(budget=CLEAR)
    weights = sharply(session, hits=40)
    assert (session.spent.share, weights.state.standing().hard_left) == (0, 40)
    hard = 0
    for text in QUESTIONS * 2:
        hard += weights.ask(text).hard
        assert session.spent.share == pytest.approx(hard / 40)
    assert 0 < hard < 12


def test_where_noise_says_nothing_answers_are_within_alpha_and_hard_ones_true(rows):
    weights, frame = sharply(rows(budget=CLEAR, unsafe_noise=Seeded(1)), hits=30), visits()
    for text in QUESTIONS * 2:
        answer, truth = weights.ask(text), true_share(frame, text)
        assert abs(answer.share - truth) < (0.01 if answer.hard else 0.06)
        assert (answer.interval is not None) == answer.hard


@pytest.mark.parametrize("distance", [-60, 1, 40])
def test_the_chance_of_hard_is_that_of_the_chain_on_either_side(distance):
    """As far outside of what is easy above it as below it."""
    made, easy = asked(hits=20)
    table, drawn, source = made.sharpness.sampler.table, 4000, Seeded(3)
    chance = float(table.hit_chance(distance - 1))
    for count in (easy.high + distance, easy.low - distance):
        hits = sum(found(made, easy, count, source) is not None for _ in range(drawn))
        assert scipy.stats.binomtest(hits, drawn, chance).pvalue > ALPHA
        if 0.1 < chance < 0.9:
            assert scipy.stats.binomtest(hits, drawn, chance * 2 / 3).pvalue < ALPHA


def test_a_published_count_has_fresh_noise_whatever_made_it_be_published():
    """Its interval covers the truth 95 times in 100, also where a hit was unlikely."""
    made, easy = asked(hits=20)
    count, source = easy.high - 20, Seeded(4)
    drawn = [found(made, easy, count, source) for _ in range(5000)]
    values = np.array([value for value in drawn if value is not None]) - count
    assert 500 < len(values) < 4000
    covered = (np.abs(values) <= made.noise.error_bar()).sum()
    assert scipy.stats.binomtest(int(covered), len(values), 0.95, "less").pvalue > ALPHA
    sigma = float(made.noise.sigma_squared) ** 0.5
    assert (
        scipy.stats.kstest(values + np.random.default_rng(1).uniform(-0.5, 0.5, len(values)), "norm", (0, sigma))[1]
        > ALPHA
    )
    wrong = scipy.stats.kstest(values, "norm", (0, 1.5 * sigma))
    assert wrong[1] < ALPHA


def test_the_price_follows_the_square_of_the_size_or_stays():
    same, follows = asked(size=1600, hits=20, follow_size=False)[0], asked(size=1600, hits=20)[0]
    assert follows.event.price == same.event.price / 16
    assert same.event.price == asked(hits=20)[0].event.price
    uneven = asked(size=1601, hits=20)[0].event.price
    assert follows.event.price == uneven


def test_tests_alone_take_the_least_price_at_which_all_are_told_within_a_third_of_alpha():
    made, _ = asked(4000, 4000, tests=100)
    chance, within = 0.05 / 200, 0.3 / 3 * 4000
    price = Fraction(made.event.price) * Fraction(3, 4)
    assert half_width(made.event.__class__(FILTER.order, price), chance) <= within
    assert half_width(made.event.__class__(FILTER.order, price * Fraction(97, 100)), chance) > within
    assert 0.3 < opened(4000, tests=100).reached(Transcript(), 4000, 100, None) < 0.33
    assert made.forecast().foreseen.error <= within + 2


def test_a_bar_for_so_many_tests_lies_above_the_middle():
    """Sharp tests miss nothing far above their bar and take long to fall below it, so the bar is put up."""
    plain, placed = asked(hits=20)[0], asked(hits=20, tests=1000)[0]
    assert placed.sharpness.bar < plain.sharpness.bar == 0
    assert placed.forecast().within(1000, "0.95").error < plain.forecast().within(1000, "0.95").error


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ({}, "specify the accuracy or the cost"),
        ({"hits": 3, "price": "0.1"}, "exclude one another"),
        ({"epsilon": "0.1", "tests": 5}, "belongs to an optimal test"),
        ({"epsilon": "0.1", "value": "0.5"}, "belongs to an optimal test"),
        ({"hits": 3, "confidence": "0.9"}, "give tests="),
        ({"price": 1}, "price"),
        ({"value": 0, "hits": 3}, "value"),
    ],
)
def test_what_is_said_twice_or_halfway_is_refused(how, told):
    with pytest.raises(InvalidParameter, match=told):
        PMW(universe=UNIVERSE, alpha="0.06", **how)


def test_too_many_hits_are_refused_before_anything_is_stored(rows):
    session = rows(budget=BUDGET)
    with pytest.raises(InvalidParameter, match="at least"):
        sharply(session, hits=10**9)
    assert session.history == []


@pytest.mark.parametrize("how", [{"price": "0.1"}, {"tests": 10}, {"hits": 10, "value": "0.5"}])
def test_other_filters_have_no_price_for_sharp_tests(rows, how):
    with pytest.raises(NotPriced, match="epsilon="):
        sharply(rows(budget=Budget(epsilon=1), filter="pure"), **how)
