"""What a guarantee says of several units and of a mechanism drawn with an error: exact sums, attained laws."""

from fractions import Fraction

import flint
import pytest

from chary.accounting import group_privacy_up, sampler_delta_up
from chary.errors import InvalidParameter
from tests.accounting.enclosures import many_digits, number


@pytest.mark.parametrize("epsilon", ["1e-12", "0.01", 1, 20])
@pytest.mark.parametrize("units", [1, 2, 7, 100])
def test_groups_pay_one_unit_after_another(epsilon, units):
    delta = Fraction(1, 10**30)
    total, failure = group_privacy_up(epsilon=epsilon, delta=delta, units=units)
    assert total == units * Fraction(epsilon)
    with many_digits():
        true = number(delta) * sum(((k * number(epsilon)).exp() for k in range(units)), flint.arb(0))
        if not true < 1:
            assert failure == 1
        elif units == 1:
            assert failure == delta
        else:
            assert true <= number(failure) <= true * (1 + number("1e-15"))


def test_edges_of_groups():
    assert group_privacy_up(epsilon=2, units=50) == (100, 0)
    assert group_privacy_up(epsilon=2, delta=1e-6, units=10**9) == (2 * 10**9, 1)
    assert group_privacy_up(epsilon=2, delta="0.9", units=5)[1] == 1


@pytest.mark.parametrize("epsilon", ["1e-12", "0.5", 30])
def test_a_sampler_pays_its_distance_twice(epsilon):
    with many_digits():
        true = number("1e-6") + (1 + number(epsilon).exp()) * number("1e-20")
        found = number(sampler_delta_up(epsilon=epsilon, delta="1e-6", distance="1e-20"))
        assert true <= found <= true * (1 + number("1e-15"))


def test_a_sampler_that_errs_as_much_as_it_may_needs_that_delta():
    """Two laws with ratio 2, each moved by 1/20 the wrong way: nothing smaller is kept."""
    away = Fraction(1, 20)
    under, over = Fraction(1, 3) - away, Fraction(2, 3) + away
    delta = sampler_delta_up(epsilon="0.693147180559946", distance=away)
    assert 0 <= delta - (over - 2 * under) < Fraction(1, 10**10)


def test_edges_of_samplers():
    assert sampler_delta_up(epsilon=1, delta=1e-6, distance=0) == Fraction(1, 10**6)
    assert sampler_delta_up(epsilon=10**9, distance=1e-9) == 1
    assert sampler_delta_up(epsilon=1, distance="0.9") == 1


@pytest.mark.parametrize("wrong", [{"epsilon": 0}, {"delta": -1}, {"delta": 2}, {"units": 0}, {"distance": 2}])
def test_bad_input(wrong):
    if "distance" not in wrong:
        with pytest.raises(InvalidParameter):
            group_privacy_up(**({"epsilon": 1, "delta": 0, "units": 1} | wrong))
    if "units" not in wrong:
        with pytest.raises(InvalidParameter):
            sampler_delta_up(**({"epsilon": 1, "delta": 0, "distance": 0} | wrong))
