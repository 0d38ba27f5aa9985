"""Renyi costs against enumerated laws of two and three classes."""

from fractions import Fraction

import numpy as np
import pytest

from chary.learning import ConfidentGnmax
from chary.learning import confident_gnmax as moments
from chary.learning.confident_gnmax import converted, likely_moments, log_doubt, log_upset
from tests.learning.laws import check_law, log_moment, masses, moved, winner_law

ORDERS = np.array([1.05, 1.5, 2.0, 3.0, 5.0, 9.0, 17.0, 33.0])
VOTES = [
    [10, 10],
    [9, 10],
    [8, 11],
    [12, 8],
    [17, 3],
    [20, 0],
    [0, 20],
    [14, 4, 2],
    [7, 7, 6],
    [3, 25, 2],
    [30, 0, 0],
    [28, 1, 1],
]
SIGMAS = [Fraction(2), Fraction(5), Fraction(9), Fraction(30)]
SLACK = 1e-10


def worst_of(law, votes, order):
    return max(log_moment(law(votes), law(other), order) for other in moved(votes))


def brute_winner(votes, variance, order):
    return worst_of(lambda counts: winner_law(counts, float(variance)), votes, order)


def brute_check(votes, threshold, variance, order):
    return worst_of(lambda counts: check_law(counts, threshold, float(variance)), votes, order)


@pytest.mark.parametrize("variance", SIGMAS)
@pytest.mark.parametrize("votes", VOTES, ids=str)
def test_the_cost_of_an_answer_bounds_every_neighbour(votes, variance):
    log_q = log_upset(np.array([votes]), variance)
    bounds = likely_moments(log_q, float(1 / variance), ORDERS)[0]
    for order, bound in zip(ORDERS, bounds, strict=True):
        assert brute_winner(votes, variance, order) <= bound + SLACK


@pytest.mark.parametrize("variance", SIGMAS)
@pytest.mark.parametrize("votes", VOTES, ids=str)
def test_the_cost_of_a_test_bounds_every_neighbour(votes, variance):
    for threshold in (0, 8, 12, 20, 28):
        log_q = log_doubt(np.array([votes]), threshold, variance)
        bounds = likely_moments(log_q, float(1 / (2 * variance)), ORDERS)[0]
        for order, bound in zip(ORDERS, bounds, strict=True):
            assert brute_check(votes, threshold, variance, order) <= bound + SLACK


def test_costs_understated_by_half_would_be_found():
    """Of the bounds, those at q / 10^4 and at rho / 4 are broken by some neighbour."""
    votes, variance = [17, 3], Fraction(9)
    log_q = log_upset(np.array([votes]), variance)
    true = np.array([brute_winner(votes, variance, order) for order in ORDERS])
    assert (true > likely_moments(log_q - np.log(1e4), float(1 / variance), ORDERS)[0]).any()
    assert (true > likely_moments(log_q, float(1 / variance) / 4, ORDERS)[0]).any()


@pytest.mark.parametrize("sigma", [2, 5, 10])
def test_the_stated_rho_is_attained_by_the_noisy_counts(sigma):
    """The test shifts one count by one, the answer two: both figures are the least that hold."""
    gnmax = ConfidentGnmax(0, sigma, sigma)
    _support, mass = masses(sigma**2)
    for order in (2.0, 5.0):
        shifted = float(np.logaddexp.reduce(order * np.log(mass[1:]) + (1 - order) * np.log(mass[:-1])))
        assert shifted == pytest.approx(order * (order - 1) * float(gnmax.check_rho), rel=1e-6)
        assert 2 * shifted == pytest.approx(order * (order - 1) * float(gnmax.answer_rho), rel=1e-6)


def test_agreement_is_far_cheaper_than_the_worst_case():
    cost = likely_moments(log_upset(np.array([[240, 5, 5]]), Fraction(400)), 1 / 400, ORDERS)[0]
    assert (cost[:5] < ORDERS[:5] * (ORDERS[:5] - 1) / 400 / 1000).all()


def test_without_a_likely_outcome_the_worst_case_is_charged():
    worst = ORDERS * (ORDERS - 1) / 400
    for log_q in (np.array([0.0]), np.array([0.5]), np.log([0.5])):
        assert likely_moments(log_q, 1 / 400, ORDERS)[0].tolist() == worst.tolist()


def test_the_cost_never_falls_with_doubt():
    log_q = -np.geomspace(1e-3, 5000, 3000)[::-1]
    for rho in (0.0001, 0.01, 0.3):
        costs = likely_moments(log_q, rho)
        assert (np.diff(costs, axis=0) >= -1e-15).all()
        assert (costs >= 0).all()


@pytest.mark.parametrize("variance", [Fraction(1, 2), *SIGMAS])
@pytest.mark.parametrize("votes", VOTES, ids=str)
def test_doubt_bounds_the_enumerated_chances(votes, variance):
    law = winner_law(votes, float(variance))
    upset = float(np.exp(log_upset(np.array([votes]), variance)[0]))
    wrong = 1 - law[int(np.argmax(votes))]
    assert wrong <= upset * (1 + 1e-6) + 1e-14
    if len(votes) == 2 and wrong > 1e-9 and votes[0] < votes[1]:
        assert upset == pytest.approx(wrong, rel=1e-5)
    doubt = float(np.exp(log_doubt(np.array([votes]), 15, variance)[0]))
    assert doubt == pytest.approx(check_law(votes, 15, float(variance)).min(), rel=1e-6, abs=1e-14)


def test_the_epsilon_of_a_gaussian_release():
    rho = 0.02
    values = converted(moments.ORDERS * (moments.ORDERS - 1) * rho, 1e-5)
    best = values.min()
    orders = np.linspace(1.01, 200, 400_000)
    exact = orders * rho + np.log1p(-1 / orders) - np.log(1e-5 * orders) / (orders - 1)
    assert exact.min() <= best <= exact.min() + 1e-3
