"""Renyi costs against enumerated laws of two and three classes."""

from fractions import Fraction

import numpy as np
import pytest
from tests.learning.laws import check_law, log_moment, masses, moved, winner_law

from chary import InvalidParameter
from chary.learning import ConfidentGnmax
from chary.learning.pate_labels import converted
from chary.noise import Seeded
from chary_research import reported_labels as moments
from chary_research.reported_labels import label_as_reported, likely_moments, log_doubt, log_upset

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


CALL = {"epsilon": 2, "delta": 1e-5}


def test_the_reported_cost_of_agreement_is_far_smaller():
    gnmax = ConfidentGnmax(150, 40, 20)
    guaranteed = gnmax.label([[240, 10]] * 300, unsafe_noise=Seeded(1), **CALL)
    reported = label_as_reported(gnmax, [[240, 10]] * 300, unsafe_noise=Seeded(1), **CALL)
    assert guaranteed.guaranteed
    assert not reported.guaranteed
    assert len(guaranteed.labels) < 60
    assert reported.asked == 300
    assert 0 < reported.epsilon <= 2


def test_the_reported_budget_stops_where_teachers_disagree():
    gnmax, split = ConfidentGnmax(0, 40, 20), [[34, 33, 33]] * 400
    found = label_as_reported(gnmax, split, unsafe_noise=Seeded(1), **CALL)
    guaranteed = gnmax.label(split, unsafe_noise=Seeded(1), **CALL)
    assert guaranteed.asked <= found.asked < 400
    assert found.epsilon <= 2


@pytest.mark.parametrize("votes", [[1, 2], [[1], [2]], [[1.0, 2.0]], [[-7, 9]], [["7", "9"]]])
def test_votes_that_are_no_counts(votes):
    with pytest.raises(InvalidParameter) as refused:
        label_as_reported(ConfidentGnmax(60, 40, 20), votes, **CALL)
    assert "7" not in str(refused.value)


@pytest.mark.parametrize("wrong", [{"epsilon": 0}, {"delta": 0}, {"delta": 1}])
def test_budgets_that_are_none_are_refused(wrong):
    with pytest.raises(InvalidParameter):
        label_as_reported(ConfidentGnmax(60, 40, 20), [[95, 5, 0]] * 400, **(CALL | wrong))
