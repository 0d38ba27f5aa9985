"""Confident-GNMax: what it releases, its worst-case accounting, and its stops."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from chary.accounting import epsilon_up
from chary.errors import InvalidParameter
from chary.learning import ConfidentGnmax
from chary.noise import Seeded
from tests.learning.laws import check_law, winner_law

ALPHA = 1e-6
USUAL = {"threshold": 60, "sigma_threshold": 40, "sigma": 20}
CALL = {"epsilon": 2, "delta": 1e-5}
AGREED = [[95, 5, 0]] * 400
SPLIT = [[34, 33, 33]] * 400


def label(votes, seed=1, **options):
    given = USUAL | CALL | options
    gnmax = ConfidentGnmax(**{name: given[name] for name in USUAL})
    return gnmax.label(votes, unsafe_noise=Seeded(seed), **{name: given[name] for name in CALL})


def test_the_worst_case_fits_into_the_budget_and_the_next_point_does_not():
    gnmax = ConfidentGnmax(60, 40, 20)
    found = label(AGREED)
    spent = found.asked * gnmax.check_rho + len(found.labels) * gnmax.answer_rho
    assert 0 < len(found.labels) <= found.asked < 400
    assert found.epsilon <= 2 < least_epsilon(spent + gnmax.check_rho + gnmax.answer_rho) + 0.001
    assert found.epsilon == pytest.approx(least_epsilon(spent), rel=1e-3)


def least_epsilon(rho):
    delta = Fraction(1, 10**5)
    orders = [1 + Fraction(k, 20) for k in range(1, 2000)]
    return min(float(epsilon_up(order * (order - 1) * rho, order, delta)) for order in orders)


def test_what_is_not_answered_costs_the_test_only():
    split, agreed = label(SPLIT, threshold=1000), label(AGREED, threshold=0)
    assert split.labels == {}
    assert split.asked == 400 or split.asked > 8 * agreed.asked
    assert len(agreed.labels) == agreed.asked


def test_a_smaller_budget_asks_fewer_points():
    asked = [label(AGREED, epsilon=epsilon).asked for epsilon in (0.2, 1, 2, 4)]
    assert asked == sorted(asked)
    assert asked[0] < asked[-1]


def test_nothing_fits_into_nothing():
    found = label(AGREED, epsilon="0.001")
    assert (found.labels, found.asked, found.epsilon) == ({}, 0, 0.0)
    assert label(np.zeros((0, 3), dtype=int)).asked == 0


@pytest.mark.statistical
@pytest.mark.parametrize("wrong", [Fraction(1), Fraction(2, 3), Fraction(3, 2)])
def test_outcomes_follow_the_law_of_the_stated_scale(wrong):
    votes, size = [12, 9, 8], 40_000
    gnmax = ConfidentGnmax(14, 3 * wrong, 4 * wrong)
    passed, winners = gnmax.outcomes(np.tile(votes, (size, 1)), Seeded(11))
    laws = check_law(votes, 14, 9.0), winner_law(votes, 16.0)
    seen = [passed.sum(), size - passed.sum()], np.bincount(winners, minlength=3)
    values = [stats.chisquare(count, law / law.sum() * size).pvalue for count, law in zip(seen, laws, strict=True)]
    assert [value > ALPHA for value in values] == [wrong == 1] * 2


@pytest.mark.parametrize(
    "options",
    [{"sigma": 0}, {"sigma_threshold": -1}, {"sigma": 2**17}, {"sigma": float("nan")}, {"threshold": 1.5},
     {"threshold": -1}, {"epsilon": 0}, {"delta": 0}, {"delta": 1}],
)  # fmt: skip
def test_parameters_outside_their_domain(options):
    with pytest.raises(InvalidParameter):
        label(AGREED, **options)


@pytest.mark.parametrize("votes", [[1, 2], [[1], [2]], [[1.0, 2.0]], [[-7, 9]], [["7", "9"]]])
def test_votes_that_are_no_counts(votes):
    with pytest.raises(InvalidParameter) as refused:
        label(votes)
    assert "7" not in str(refused.value)
