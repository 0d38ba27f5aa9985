"""From Renyi moments to losses that are exceeded with probability delta: attained, and never passed by any law."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import logsumexp, ndtr

from chary.accounting import (
    DiscreteLaplace,
    Pure,
    ZeroConcentrated,
    epsilon_up,
    gaussian_delta,
    least_pdp_epsilon_up,
    pdp_epsilon_up,
)
from chary.errors import InvalidParameter

# (log-moment, order, delta): the epsilon of two outcomes whose moment is that, found by bisection in floats.
REFERENCE = [
    ("0.1", 20, 1e-06, 0.608602),
    ("0.01", 2, 0.01, 0.962951),
    (1, 2, 0.01, 5.157977),
    (3, 10, 1e-06, 1.862716),
    ("0.5", 50, 1e-09, 0.414092),
    ("0.2", "1.5", 0.05, 3.548485),
    (12, 25, 1e-06, 1.075646),
]


def moment_of(p, q, order):
    return p * (p / q) ** (order - 1) + (1 - p) * ((1 - p) / (1 - q)) ** (order - 1)


@pytest.mark.parametrize(("log_moment", "order", "delta", "epsilon"), REFERENCE)
def test_reference_rows_are_attained_by_two_outcomes(log_moment, order, delta, epsilon):
    found, a, most = (
        float(pdp_epsilon_up(log_moment, order, delta)),
        float(Fraction(order)),
        float(Fraction(log_moment)),
    )
    assert found == pytest.approx(epsilon, abs=2e-6)
    # One outcome has probability delta and this loss: the moment is used up, and a little less loss is not enough.
    used = math.log(moment_of(delta, delta * math.exp(-found), a))
    assert used == pytest.approx(most, rel=1e-6)
    less = math.log(moment_of(delta, delta * math.exp(-found * 0.99), a))
    assert less < most
    markov = (most - math.log(delta)) / (a - 1)
    assert found <= markov * (1 + 1e-12)
    # Probabilistic loss is the stronger statement; the usual conversion to the weaker one is loose for small moments.
    if most >= 1:
        assert epsilon_up(Fraction(log_moment), Fraction(order), Fraction(delta)) < found


def laws(seed):
    """Pairs of laws of a few outcomes, near to each other and far apart."""
    random = np.random.default_rng(seed)
    for size, spread in itertools.product([2, 3, 6], [0.05, 0.5, 3.0]):
        p = random.dirichlet(np.full(size, random.choice([0.2, 1.0, 5.0])))
        q = p * np.exp(spread * random.normal(size=size))
        yield p, q / q.sum()


@pytest.mark.parametrize("order", [1.2, 2, 8, 40])
def test_no_law_loses_more(order):
    for p, q in itertools.chain.from_iterable(laws(seed) for seed in range(8)):
        kept = p > 0
        losses = np.log(p[kept] / q[kept])
        moment = float(logsumexp(np.log(p[kept]) + (order - 1) * losses))
        for delta in (0.3, 0.05, 1e-3):
            bound = float(pdp_epsilon_up(max(moment, 0.0) + 1e-12, order, delta))
            assert p[kept][losses > bound].sum() <= delta + 1e-12


def test_a_curve_is_used_at_its_best_order():
    rho, delta = Fraction(1, 100), 1e-6
    found = float(least_pdp_epsilon_up(ZeroConcentrated(rho).log_moment_up, delta=delta))
    each = [pdp_epsilon_up(rho * a * (a - 1), a, delta) for a in map(Fraction, range(5, 200))]
    assert found <= float(min(each)) * 1.002
    # The loss of Gaussian noise itself: normal with mean rho and variance 2 rho. A bound is above its quantile.
    sigma = math.sqrt(2 * float(rho))
    assert 1 - ndtr((found - float(rho)) / sigma) < delta
    # As (epsilon, delta)-DP the same noise is better: probabilistic loss is the stronger statement.
    assert gaussian_delta(epsilon=found, sensitivity=sigma, sigma=1) < delta / 5


@pytest.mark.parametrize("event", [Pure("0.1"), Pure(2), DiscreteLaplace(10, 1)])
def test_a_pure_call_never_loses_much_more_than_its_epsilon(event):
    assert float(least_pdp_epsilon_up(event.log_moment_up, delta=1e-6)) <= float(event.epsilon) * 1.01


def test_no_moment_is_no_loss_and_orders_without_one_are_left_out():
    assert pdp_epsilon_up(0, 20, 1e-6) < Fraction(1, 10**12)
    capped = lambda order: Fraction(1, 10) if order < 3 else math.inf  # noqa: E731
    assert least_pdp_epsilon_up(capped, delta=0.01) < 5
    with pytest.raises(InvalidParameter, match="no log-moment"):
        least_pdp_epsilon_up(lambda order: math.inf, delta=0.01)


@pytest.mark.parametrize(
    "wrong", [(-1, 2, 0.1), (1, 1, 0.1), (1, "0.5", 0.1), (1, 2, 0), (1, 2, 1), (math.nan, 2, 0.1), (1, 2, None)]
)
def test_what_is_no_moment_is_refused(wrong):
    with pytest.raises(InvalidParameter):
        pdp_epsilon_up(*wrong)
