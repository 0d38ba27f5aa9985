"""Unequal computations: the optimal total against enumerated coins, equal ones as before, the order of the theorems."""

import math
from fractions import Fraction
from itertools import product

import pytest

from chary.accounting import compose, compose_unequal
from chary.accounting.composition import MOST_CALLS, unequal_total
from chary.errors import InvalidParameter


def enumerated(epsilons, total):
    """The delta at this total of all coins, each outcome by itself."""
    value = 0.0
    for signs in product((1, -1), repeat=len(epsilons)):
        first = math.prod(1 / (1 + math.exp(-sign * e)) for sign, e in zip(signs, epsilons, strict=True))
        loss = sum(sign * e for sign, e in zip(signs, epsilons, strict=True))
        value += max(0.0, -math.expm1(total - loss)) * first
    return value


@pytest.mark.parametrize(
    "epsilons",
    [["0.1"], ["0.1", "0.2"], ["0.5", "0.5", "1.5"], ["0.3"] * 4 + ["0.7", "1.1"], ["1/3", "1/7", "0.01", "2"]],
    ids=str,
)
@pytest.mark.parametrize("delta", [0.3, 0.01, 1e-5])
def test_the_optimal_total_is_that_of_enumerated_coins(epsilons, delta):
    asked = [Fraction(epsilon) for epsilon in epsilons]
    total, sizes = unequal_total(asked, delta), [float(epsilon) for epsilon in asked]
    assert enumerated(sizes, total) <= delta * (1 + 1e-9)
    # Between the kinks delta is linear in e^epsilon, so on the lattice of the common measure it is exact.
    assert total == 0 or enumerated(sizes, total * (1 - 1e-6)) > delta


def test_what_is_rounded_is_rounded_up_by_little():
    epsilons = [Fraction(997, 10_007), Fraction(1009, 10_009), Fraction(1, 3), Fraction(5, 7919)]
    for delta in (0.1, 1e-3):
        total, sizes = unequal_total(epsilons, delta), [float(epsilon) for epsilon in epsilons]
        assert enumerated(sizes, total) <= delta
        assert enumerated(sizes, total - 8 * sum(sizes) / 2**17) > delta


@pytest.mark.parametrize(("epsilon", "times"), [("0.1", 1), ("0.1", 60), ("0.01", 900), ("2", 20)])
def test_equal_ones_have_the_totals_of_compose(epsilon, times):
    one, other = (
        compose(epsilon=epsilon, times=times, delta=1e-6),
        compose_unequal(epsilons=[epsilon] * times, delta=1e-6),
    )
    for name, figure in one.as_dict().items():
        assert other.as_dict()[name] == pytest.approx(figure, rel=1e-6)


@pytest.mark.parametrize("epsilons", [[0.1, 0.2] * 40, [1 / 2**k for k in range(12)], [0.01] * 500 + [1]], ids=len)
def test_order_of_the_theorems(epsilons):
    found, slack = compose_unequal(epsilons=epsilons, delta=1e-6), 1 + 1e-9
    assert found.optimal <= found.renyi * slack
    assert found.renyi <= min(found.basic, found.zcdp) * slack
    assert found.zcdp <= found.advanced * slack
    squares = sum(epsilon**2 for epsilon in epsilons)
    assert found.zcdp == pytest.approx(squares / 2 + math.sqrt(2 * squares * math.log(1e6)), rel=1e-9)
    assert compose_unequal(epsilons=epsilons[::-1], delta=1e-6) == found


def test_shares_of_a_schedule_are_worth_what_was_paid():
    """Runs in epochs by zCDP keep their (epsilon, delta), and the optimal theorem says how much of it they use."""
    shares = [(i + 1) * 1.5**-i / 30 for i in range(60)]
    rho = sum(share**2 for share in shares) / 2
    told = rho + 2 * math.sqrt(rho * math.log(1e6))
    assert compose_unequal(epsilons=shares, delta=1e-6).optimal < told


def test_what_is_refused():
    for wrong in ([], [0.1] * (MOST_CALLS + 1), [0.1, 0], [0.1, -1], [701], ["x"]):
        with pytest.raises(InvalidParameter):
            compose_unequal(epsilons=wrong, delta=1e-6)
    with pytest.raises(InvalidParameter):
        compose_unequal(epsilons=[0.1], delta=0)
