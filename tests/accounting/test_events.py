import math
from fractions import Fraction

import flint
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chary.accounting import Approximate, DiscreteLaplace, ExPost, Joint, Pure, Repeated, Targeted, ZeroConcentrated
from chary.errors import InvalidParameter

EVENTS = [
    Pure("0.1"),
    DiscreteLaplace("7.5", 3),
    ZeroConcentrated("0.01"),
    Approximate("0.2", "1e-9"),
    Targeted("0.05"),
    Targeted("0.05", "0.3"),
    ExPost("0.25"),
]
ORDERS = [Fraction(11, 10), Fraction(2), Fraction(17), Fraction(400)]


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("order", ORDERS)
def test_k_at_once_is_k_one_by_one_permuted(event, order):
    single = event.log_moment_up(order)
    assert Repeated(event, 5).log_moment_up(order) == 5 * single
    assert Joint((event,) * 5).log_moment_up(order) == 5 * single
    other = ZeroConcentrated("0.02")
    assert Joint((event, other)).log_moment_up(order) == Joint((other, event)).log_moment_up(order)
    assert Repeated(event, 5).delta == Joint((event,) * 5).delta == 5 * event.delta
    assert Repeated(event, 5).epsilon == Joint((event,) * 5).epsilon


@pytest.mark.parametrize("event", EVENTS)
def test_moments_grow_with_the_order_and_stay_below_pure(event):
    moments = [event.log_moment_up(order) for order in ORDERS]
    assert moments == sorted(moments)
    if event.epsilon is not None:
        assert all(m <= (a - 1) * event.epsilon + Fraction(1, 10**20) for m, a in zip(moments, ORDERS, strict=True))


def _brute(scale, sensitivity, order):
    """Sum P(k)^a P(k-D)^(1-a) over the integers by ball arithmetic, far beyond the last digit that matters."""
    flint.ctx.prec = 200
    r = (-flint.arb(flint.fmpq(scale.denominator, scale.numerator))).exp()
    a = flint.arb(flint.fmpq(order.numerator, order.denominator))
    reach = int(60 * scale) + sensitivity + 60
    total = sum(
        (r ** (a * abs(k) + (1 - a) * abs(k - sensitivity)) for k in range(-reach, reach + sensitivity)), flint.arb(0)
    )
    return ((1 - r) / (1 + r) * total).log()


@pytest.mark.parametrize("sensitivity", [1, 2, 9])
@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(5), Fraction(25, 2)])
@pytest.mark.parametrize("order", [Fraction(3, 2), Fraction(6), Fraction(31)])
def test_discrete_laplace_closed_form(scale, sensitivity, order):
    found = DiscreteLaplace(scale, sensitivity).log_moment_up(order)
    truth = _brute(scale, sensitivity, order)
    assert float(found) == pytest.approx(float(truth), rel=1e-12)
    assert flint.arb(flint.fmpq(found.numerator, found.denominator)) > truth - flint.arb("1e-25")


def test_discrete_laplace_of_one_step_is_randomized_response():
    for order in ORDERS:
        one, pure = DiscreteLaplace(20, 1).log_moment_up(order), Pure("0.05").log_moment_up(order)
        assert abs(one - pure) < Fraction(1, 10**25)


@given(st.fractions(min_value="0.1", max_value=50), st.integers(1, 40), st.integers(1, 40), st.integers(2, 30))
def test_one_coordinate_is_the_worst_way_to_split_an_l1_change(scale, first, second, order):
    """The curve is convex in the sensitivity and 0 at 0, hence superadditive."""
    together = DiscreteLaplace(scale, first + second).log_moment_up(Fraction(order))
    apart = sum(DiscreteLaplace(scale, part).log_moment_up(Fraction(order)) for part in (first, second))
    assert apart <= together + Fraction(1, 10**20)


def test_pure_moment_against_direct_arithmetic():
    flint.ctx.prec = 200
    a, eps = flint.arb(17), flint.arb(flint.fmpq(1, 10))
    truth = ((((a * eps).sinh()) - ((a - 1) * eps).sinh()) / eps.sinh()).log()
    assert float(Pure("0.1").log_moment_up(Fraction(17))) == pytest.approx(float(truth), rel=1e-14)


def test_huge_epsilons_do_not_overflow():
    for event in (Pure(10**7), DiscreteLaplace(Fraction(1, 10**7), 1), Targeted(10**7)):
        moment = event.log_moment_up(Fraction(2))
        assert math.isfinite(moment)
        assert moment >= 10**7 - 1


def test_free_event_costs_nothing():
    assert ExPost(0).log_moment_up(Fraction(9)) == 0


@pytest.mark.parametrize(
    "make",
    [
        lambda: Pure(0),
        lambda: Pure(float("nan")),
        lambda: Pure(-1),
        lambda: Pure(float("inf")),
        lambda: Approximate(1, 0),
        lambda: Approximate(1, 1),
        lambda: ExPost(-1),
        lambda: Targeted(1, 0),
        lambda: Targeted(1, 2),
        lambda: DiscreteLaplace(0, 1),
        lambda: DiscreteLaplace(1, 0),
        lambda: ZeroConcentrated(0),
        lambda: Repeated(Pure(1), 0),
    ],
)
def test_bad_events_are_refused(make):
    with pytest.raises(InvalidParameter):
        make()
