"""What no attacker can do better: closed forms against the best that a linear program finds."""

import numpy as np
import pytest
from scipy.optimize import linprog

from chary import InvalidParameter
from chary_research.attacks import advantage_limit, auc_limit, guess_limit, roc_limit, value_limit

SIZES = [("0.1", 0), (1, 0), (3, 0), ("0.5", "0.1"), (1, "1e-6"), (2, "0.3")]


def best_guess(shares, epsilon):
    """The largest chance of a right guess over all channels any two rows of which are epsilon-indistinguishable."""
    k = len(shares)
    rows = []
    for guess in range(k):
        for one in range(k):
            for other in set(range(k)) - {one}:
                row = np.zeros((k, k))
                row[one, guess], row[other, guess] = 1, -np.exp(epsilon)
                rows.append(row.ravel())
    sums = np.kron(np.eye(k), np.ones(k))
    found = linprog(-np.diag(shares).ravel(), rows, np.zeros(len(rows)), sums, np.ones(k))
    return -found.fun


@pytest.mark.parametrize("shares", [[0.5, 0.5], [0.7, 0.3], [0.4, 0.35, 0.25], [0.1, 0.6, 0.1, 0.2], [0.25] * 4])
@pytest.mark.parametrize("epsilon", [0.1, 1, 3])
def test_several_values_are_guessed_as_well_as_the_best_channel_allows(shares, epsilon):
    assert value_limit(epsilon, shares) == pytest.approx(best_guess(shares, epsilon), rel=1e-9)


@pytest.mark.parametrize(("epsilon", "delta"), SIZES)
def test_the_roc_limit_is_that_of_the_best_test(epsilon, delta):
    """Maximise the true-positive rate under all four inequalities, of the event and of its complement, both ways."""
    power, spare = np.exp(float(epsilon)), float(delta)
    for fpr in (0, 0.01, 0.05, 0.3, 0.7, 1):
        bounds = [power * fpr + spare, power * (1 - fpr) + spare - 1, spare - fpr, power + spare - 1 + fpr]
        best = linprog([-1], [[1], [-1], [-power], [power]], bounds, bounds=(0, 1))
        assert roc_limit(fpr, epsilon, delta) == pytest.approx(-best.fun, abs=1e-9)


@pytest.mark.parametrize(("epsilon", "delta"), SIZES)
def test_the_other_limits_follow_from_the_roc(epsilon, delta):
    rates = np.linspace(0, 1, 200_001)
    curve = roc_limit(rates, epsilon, delta)
    assert auc_limit(epsilon, delta) == pytest.approx(np.trapezoid(curve, rates), abs=1e-8)
    assert advantage_limit(epsilon, delta) == pytest.approx(np.max(curve - rates), abs=1e-4)
    assert guess_limit(epsilon, delta) == pytest.approx(np.max(curve + 1 - rates) / 2, abs=1e-4)
    assert np.all(np.diff(curve) >= 0)
    assert np.all(curve >= rates)


@pytest.mark.parametrize("epsilon", [0, -1, float("nan"), float("inf"), "701", "1e400", "many"])
@pytest.mark.parametrize("limit", [guess_limit, auc_limit, advantage_limit])
def test_sizes_out_of_range(limit, epsilon):
    with pytest.raises(InvalidParameter):
        limit(epsilon)


@pytest.mark.parametrize("shares", [[], [0.5, 0.6], [1.5, -0.5]])
def test_shares_that_are_none(shares):
    with pytest.raises(InvalidParameter, match="add up to 1"):
        value_limit(1, shares)


@pytest.mark.parametrize("fpr", [-0.1, 1.1, [0.5, float("nan")]])
def test_rates_that_are_none(fpr):
    with pytest.raises(InvalidParameter, match="between 0 and 1"):
        roc_limit(fpr, 1)
