"""Bounds of tiny and of huge calls against a hundred digits: never below the truth, and hardly above it."""

import math
from fractions import Fraction

import pytest
from flint import arb
from hypothesis import given, settings
from hypothesis import strategies as st

from chary.accounting import (
    MenuCall,
    compose,
    exact_delta,
    exact_tail_total,
    exact_total,
    gaussian_delta,
    laplace_deviation,
    lattice_curves,
    optimal_total,
    published_total,
    target_total,
)
from chary.accounting.charging_curve import delta_up
from chary.accounting.composition import optimal_delta
from tests.accounting.enclosures import composed_delta, curve_by_recursion, curve_by_sum, many_digits, number, within

SIZES = ["0.5", "0.1", "1e-3", "1e-6", "1e-9", "1e-12", "1e-15", "1e-16", "1e-18", "1e-40", "1e-299", "5", "50", "600"]
log_sizes = st.floats(-299, 2.7)


@pytest.fixture(autouse=True, scope="module")
def _digits():
    with many_digits():
        yield


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("hits", [1, 2, 7])
def test_the_curve_is_the_recursion_rounded_up(size, hits):
    epsilon = float(size)
    for calls, truth in enumerate(curve_by_recursion(epsilon, hits, 12)):
        assert within(delta_up(epsilon, hits, calls), truth, 1e-12)


@settings(deadline=None, max_examples=25)
@given(log_sizes, st.integers(1, 40), st.integers(0, 300))
def test_the_curve_is_its_sum_rounded_up(log_size, hits, calls):
    epsilon = 10.0**log_size
    truth = curve_by_sum(epsilon, hits, calls, 2 * hits + 250)
    if truth > 1e-290:
        assert within(delta_up(epsilon, hits, calls), truth, 1e-11)
    else:
        assert delta_up(epsilon, hits, calls) >= float(truth)


@pytest.mark.parametrize(("hits", "calls", "looseness"), [(1500, 0, 1e-10), (1500, 200, 1e-10), (500, 1800, 1e-10)])
def test_the_curve_of_many_hits_is_its_sum_rounded_up(hits, calls, looseness):
    truth = curve_by_sum(0.004, hits, calls, 4 * hits + 300)
    assert within(delta_up(0.004, hits, calls), truth, looseness)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 300), st.integers(1, 12), st.floats(0.0, 1.0))
def test_totals_of_tiny_calls_are_enough_and_no_more(exponent, hits, share):
    """At any size of call, delta a part of the whole curve: interpolation upwards of an exact curve."""
    epsilon = Fraction(1, 10**exponent) if exponent < 300 else Fraction(1, 10**299)
    curve = curve_by_recursion(epsilon, hits, 40)
    k = 1 + int(share * 30)
    at = Fraction(float(curve[k])) * Fraction(999, 1000)
    if at <= Fraction(1, 10**295) or at >= 1:
        return
    total = Fraction(exact_total(epsilon_per_call=epsilon, hits=hits, delta=at))
    part = (curve[k] - number(at)) / (curve[k] - curve[k + 1])
    truth = k * number(epsilon) + (part * number(epsilon).expm1()).log1p()
    assert within(float(total), truth, 1e-9)
    back = exact_delta(epsilon_per_call=epsilon, hits=hits, epsilon=total)
    assert float(at) * (1 - 1e-6) <= back <= float(at) * (1 + 1e-6)


def test_the_smallest_calls_of_all():
    """What cancellation used to make zero: one hit of a call of 1e-17 at about the twentieth halving."""
    assert exact_total(epsilon_per_call="1e-17", hits=1, delta="6.3578e-24") == pytest.approx(2e-16, rel=1e-5)
    assert exact_delta(epsilon_per_call="1e-17", hits=1, epsilon="2e-16") == pytest.approx(6.3578e-24, rel=1e-4)


@settings(deadline=None, max_examples=40)
@given(log_sizes.filter(lambda size: size < 1.5), st.integers(1, 60), st.floats(0, 1))
def test_optimal_composition_is_the_sum_rounded_up(log_size, times, share):
    epsilon = 10.0**log_size
    total = share * times * epsilon
    truth = composed_delta(epsilon, times, total)
    found = optimal_delta(epsilon, times, total)
    assert within(found, truth, 1e-11) or (truth < 1e-290 and found >= float(truth))


@pytest.mark.parametrize("epsilon", [1e-299, 1e-18, 1e-9, 1e-3, 0.3, 4.0, 30.0])
@pytest.mark.parametrize("times", [1, 2, 9, 400])
@pytest.mark.parametrize("share", [0.9, 0.3, 1e-5])
def test_optimal_totals_keep_their_delta(epsilon, times, share):
    """The delta at the total that comes out is at most what was asked; a part in 1e9 below it, no more."""
    whole = composed_delta(epsilon, times, 0.0)
    delta = float(whole) * share
    if delta < 1e-300:
        return
    total = optimal_total(epsilon, times, delta)
    assert composed_delta(epsilon, times, total) <= arb(delta)
    assert composed_delta(epsilon, times, total * (1 - 1e-9)) >= arb(delta) * (1 - 1e-9)


@pytest.mark.parametrize("q", [1e-3, 0.3, 0.475, 0.9, 1.0])
@pytest.mark.parametrize("epsilon", [0.1, 1e-9, 1e-18, 1e-290])
def test_no_call_is_worth_more_than_the_lattice_says(q, epsilon):
    """The curve is a fixed point from above, in exact arithmetic: no call is worth more anywhere."""
    curves = lattice_curves(epsilon, [MenuCall(1, 1, q)], 40)
    before, after = next(curves), next(curves)
    for earlier, later in (([0.0] * 41, before), (before, after)):
        for k in range(40):
            assert max(_worths(epsilon, q, earlier, later, k)) <= number(float(later[k]))


def _worths(epsilon, q, earlier, later, k):
    size, rate = number(epsilon), number(q)
    p, r = 1 / (1 + (-size).exp()), 1 / (1 + size.exp())
    at = {}
    for name, curve in (("hit", earlier), ("miss", later)):
        values = [number(float(value)) for value in curve]
        below = values[k - 1] if k else -(-size).expm1() + (-size).exp() * values[1]
        at[name] = below, values[min(k + 1, 40)]
    corner = (rate / r, arb(0)) if rate <= r else ((rate - r) / p, arb(1))
    for u, v in ((rate, rate), corner, (corner[1], corner[0])):
        high = p * (u * at["hit"][0] + (1 - u) * at["miss"][0])
        yield high + r * (v * at["hit"][1] + (1 - v) * at["miss"][1])


@pytest.mark.parametrize("exponent", [1, 9, 15, 18, 60])
def test_all_totals_scale_with_tiny_calls(exponent):
    """At delta proportional to epsilon, totals are proportional to epsilon as well."""
    size = Fraction(1, 10**exponent)
    asked = {"epsilon_per_call": size, "hits": 4, "delta": size / 1000}
    assert math.isclose(target_total(**asked, q="0.3") / float(size), 19.83, rel_tol=0.2)
    totals = [total(**asked) / float(size) for total in (exact_total, exact_tail_total, published_total)]
    assert totals == sorted(totals)
    composed = compose(epsilon=size, times=50, delta=size / 1000)
    assert composed.optimal <= composed.renyi <= composed.basic
    assert composed.optimal > 0


@pytest.mark.parametrize("epsilon", [1e-250, 1e-18, 1e-9, 1e-3, 0.7, 3.0, 50.0])
@pytest.mark.parametrize("spread", [1e-3, 0.1, 1.0, 5.0, 30.0])
@pytest.mark.parametrize("least", [1e-6, 1.0])
def test_gaussian_deltas_keep_their_digits(epsilon, spread, least):
    """Against the two terms at 150 digits, for ratios for which they are nearly equal, alike, or far apart."""
    ratio = epsilon / spread if least < 1 else spread
    size, scale = arb(float(epsilon)), arb(float(ratio))
    truth = _normal(scale / 2 - size / scale) - size.exp() * _normal(-scale / 2 - size / scale)
    found = gaussian_delta(epsilon=epsilon, sensitivity=ratio, sigma=1)
    assert found == pytest.approx(float(truth), rel=1e-12) or truth < 1e-300


def _normal(x):
    return (-x / arb(2).sqrt()).erfc() / 2


@pytest.mark.parametrize("scale", [1e-2, 1.0, 1e8, 1e16, 1e200])
def test_the_deviation_of_fine_laplace_noise_keeps_its_digits(scale):
    ratio = (-1 / number(scale)).exp()
    assert laplace_deviation(scale) == pytest.approx(
        float((2 * ratio).sqrt() / -(-1 / number(scale)).expm1()), rel=1e-14
    )
