"""What each event says, beside its own law: sizes, words of menus, moments by enumeration, prices attained."""

import math
from fractions import Fraction
from itertools import product

import flint
import pytest

from chary.accounting import (
    Approximate,
    Asymmetric,
    BestOf,
    BoundaryCall,
    BoundedRange,
    Concentrated,
    DiscreteLaplace,
    ExPost,
    Extendable,
    Joint,
    NarrowChoice,
    Pure,
    Repeated,
    SharpTest,
    Targeted,
    TwiceCall,
    UnanimousCall,
    ZeroConcentrated,
    unanimous_q_down,
)
from chary.accounting.gaussian_runs import RunHit, RunNoise, ThresholdRun
from chary.accounting.numerics import LARGEST_EXPONENT
from chary.errors import InvalidParameter
from chary.numbers import SMALLEST_EPSILON

EPSILON, ORDER = Fraction(1, 20), Fraction(9, 2)
CLOSE = Fraction(1, 10**25)
OF_ONE_SIZE = [Pure, Targeted, Extendable, BoundaryCall, BoundedRange, NarrowChoice, TwiceCall]


def arb(number):
    return flint.arb(flint.fmpq(number.numerator, number.denominator))


def response(epsilon):
    """The two atoms of randomized response under both neighbours, to 60 digits."""
    flint.ctx.prec = 200
    likely = 1 / (1 + (-arb(epsilon)).exp())
    return [(likely, 1 - likely), (1 - likely, likely)]


def moment(pairs, order):
    """`ln sum p0^a p1^(1-a)` of a law."""
    a = arb(order)
    return sum((p0**a * p1 ** (1 - a) for p0, p1 in pairs), flint.arb(0)).log()


def is_just_above(found, truth):
    """A bound that is no less than the truth, and no more than its guard above."""
    return truth <= arb(found) < truth + arb(CLOSE)


@pytest.mark.parametrize("event", [Pure(EPSILON), Approximate(EPSILON, "1e-9"), Targeted(EPSILON), Extendable(EPSILON)])
@pytest.mark.parametrize("order", [Fraction(11, 10), ORDER, Fraction(60)])
def test_one_run_has_the_moment_of_randomized_response(event, order):
    assert is_just_above(event.log_moment_up(order), moment(response(EPSILON), order))


@pytest.mark.parametrize("order", [Fraction(11, 10), ORDER, Fraction(60)])
@pytest.mark.parametrize(("up", "down"), [("0.3", "0.1"), ("0.1", "0.3"), ("2", "0.001")])
def test_uneven_losses_have_the_moment_of_the_dearer_order(order, up, down):
    flint.ctx.prec = 200
    high, low = arb(Fraction(up)).exp(), (-arb(Fraction(down))).exp()
    chance = (1 - low) / (high - low)
    pairs = [(chance * high, chance), ((1 - chance) * low, 1 - chance)]
    truth = moment(pairs, order).max(moment([pair[::-1] for pair in pairs], order))
    assert is_just_above(Asymmetric(up, down).log_moment_up(order), truth)


@pytest.mark.parametrize("order", [Fraction(11, 10), ORDER, Fraction(60)])
def test_two_runs_have_the_moment_of_both(order):
    both = [(a * c, b * d) for (a, b), (c, d) in product(response(EPSILON), repeat=2)]
    assert is_just_above(TwiceCall(EPSILON).log_moment_up(order), moment(both, order))
    assert TwiceCall(EPSILON).epsilon == 2 * EPSILON


@pytest.mark.parametrize("outcomes", [2, 3, None])
def test_the_boundary_wrapper_is_a_call_of_its_own_epsilon(outcomes):
    call = BoundaryCall(EPSILON, outcomes)
    assert is_just_above(call.log_moment_up(ORDER), moment(response(call.epsilon), ORDER))
    assert EPSILON < call.epsilon <= EPSILON * 4 / 3
    assert (BoundaryCall(EPSILON, 2).epsilon < call.epsilon) == (outcomes != 2)
    assert call.listed[0] == call.epsilon
    assert 0 < call.listed[1] < Fraction(1, 2)


def test_a_narrow_choice_takes_the_smaller_of_two_moments():
    """The zCDP bound epsilon^2/8 at small orders, randomized response at large ones."""
    narrow = NarrowChoice(EPSILON)
    assert narrow.log_moment_up(ORDER) == ORDER * (ORDER - 1) * EPSILON**2 / 8
    assert narrow.log_moment_up(Fraction(10_000)) == Pure(EPSILON).log_moment_up(Fraction(10_000))
    assert (narrow.epsilon, narrow.listed) == (EPSILON, (EPSILON, None))


@pytest.mark.parametrize("targets", [1, 2, 3, 100])
def test_the_best_of_several_costs_the_logarithm_at_every_order(targets):
    flint.ctx.prec = 200
    for order in (Fraction(2), ORDER):
        assert is_just_above(BestOf(targets).log_moment_up(order), flint.arb(targets).log())
    assert BestOf(targets).epsilon is None
    assert BestOf(targets).hit_price_up(ORDER) is None


@pytest.mark.parametrize("event", [Targeted(EPSILON), Extendable(EPSILON)])
def test_the_price_of_a_hit_is_attained(event):
    """Either atom as the prior: the walk to the first hit has moment 1 exactly."""
    flint.ctx.prec = 200
    (likely, rare), a = response(EPSILON)[0], arb(ORDER)
    miss, hit = (p**a * q ** (1 - a) for p, q in ((likely, rare), (rare, likely)))
    assert is_just_above(event.hit_price_up(ORDER), (hit / (1 - miss)).log())


@pytest.mark.parametrize("q", ["0.05", "0.3", "0.487", "0.5", "0.7", "0.95", "1"])
def test_the_price_of_a_q_target_is_that_of_its_dearest_vertex(q):
    flint.ctx.prec = 200
    share, a = arb(Fraction(q)), arb(Fraction(3, 2))
    (likely, rare) = response(EPSILON)[0]
    high, low = likely**a * rare ** (1 - a), rare**a * likely ** (1 - a)
    # The chances that the atoms hit, where both mixtures hit with at least q and one exactly so.
    corner = (share / rare, flint.arb(0)) if share < rare else ((share - rare) / likely, flint.arb(1))
    vertices = [(share, share), corner, corner[::-1]]
    prices = [((u * high + v * low) / (1 - (1 - u) * high - (1 - v) * low)).log() for u, v in vertices]
    found = arb(Targeted(EPSILON, q).hit_price_up(Fraction(3, 2)))
    assert all(price < found + arb(CLOSE) for price in prices)
    assert any(abs(price - found) < arb(CLOSE) for price in prices)


@pytest.mark.parametrize(
    ("event", "size", "delta"),
    [
        (Pure(EPSILON), (EPSILON, 1), 0),
        (Approximate(EPSILON, "1e-9"), (EPSILON, 1), Fraction(1, 10**9)),
        (Asymmetric(EPSILON, "0.02"), (EPSILON, 1), 0),
        (Asymmetric("0.02", EPSILON), (EPSILON, 1), 0),
        (Concentrated(EPSILON, 1), (EPSILON, 1), 0),
        (DiscreteLaplace(50, 3), (Fraction(3, 50), 1), 0),
        (ZeroConcentrated("0.01"), (None, 1), 0),
        (ExPost("0.3"), (None, 1), 0),
        (Targeted(EPSILON), (EPSILON, None), 0),
        (Targeted(EPSILON, "0.25", "1e-7"), (EPSILON, Fraction(1, 4)), Fraction(1, 10**7)),
        (Targeted(EPSILON, 1), (EPSILON, 1), 0),
        (Extendable(EPSILON, "1e-8"), (EPSILON, None), Fraction(1, 10**8)),
        (UnanimousCall(EPSILON, 3), (3 * EPSILON, unanimous_q_down(EPSILON, 3)), 0),
        (BestOf(2), (None, 1), 0),
        (SharpTest(18, "0.2"), (None, 1), 0),
        (ThresholdRun(RunNoise("0.01", 1, 2, 3)), (None, 1), 0),
        (RunHit(RunNoise("0.01", 1, 2, 3)), (None, 1), 0),
        (Repeated(Approximate(EPSILON, "1e-9"), 3), (3 * EPSILON, 1), Fraction(3, 10**9)),
        (Repeated(ZeroConcentrated(1), 3), (None, 1), 0),
        (Joint((Pure(EPSILON), Approximate(EPSILON, "1e-9"))), (2 * EPSILON, 1), Fraction(1, 10**9)),
        (Joint((Pure(EPSILON), BestOf(2))), (None, 1), 0),
    ],
    ids=str,
)
def test_what_menus_and_deltas_are_told(event, size, delta):
    assert event.listed == size
    assert event.delta == delta
    assert event.copies == ((event.event, 3) if isinstance(event, Repeated) else (event, 1))


def test_copies_of_copies_multiply():
    assert Repeated(Repeated(Pure(EPSILON), 5), 2).copies == (Pure(EPSILON), 10)


@pytest.mark.parametrize(
    "event",
    [
        Pure(1),
        Asymmetric(1, 2),
        Approximate(1, "1e-9"),
        BoundedRange("0.01"),
        ZeroConcentrated(1),
        ExPost(1),
        DiscreteLaplace(9, 1),
    ],
)
def test_what_has_no_target_has_no_price_of_a_hit(event):
    assert event.hit_price_up(Fraction(3, 2)) is None


@pytest.mark.parametrize(
    "event",
    [Pure, Targeted, Extendable, lambda size: DiscreteLaplace(1 / size, 1), lambda size: Asymmetric(size, size / 2)],
)
def test_where_exponentials_would_be_too_large_the_plain_bound_takes_over(event):
    """On either side of the limit the bounds agree as far as the plain one can."""
    order, edge = Fraction(2), Fraction(LARGEST_EXPONENT, 2)
    exactly, plainly = event(edge).log_moment_up(order), event(edge * 2).log_moment_up(order)
    assert plainly == (order - 1) * edge * 2
    assert exactly == pytest.approx(edge, abs=1)
    assert exactly < plainly


def test_an_outcome_in_hindsight_costs_its_loss_at_every_order():
    assert ExPost("0.3").log_moment_up(Fraction(5)) == Fraction(12, 10)


def test_concentrated_noise_costs_rho_at_every_order():
    assert [ZeroConcentrated("0.01").log_moment_up(Fraction(order)) for order in (2, 7)] == [
        Fraction(2, 100),
        Fraction(42, 100),
    ]


@pytest.mark.parametrize("event", OF_ONE_SIZE)
def test_epsilons_below_the_resolution_of_budgets_are_refused(event):
    assert Fraction(1, 10**15) == SMALLEST_EPSILON
    assert event(SMALLEST_EPSILON).epsilon >= SMALLEST_EPSILON
    with pytest.raises(InvalidParameter, match="1e-15"):
        event(SMALLEST_EPSILON * Fraction(99, 100))


@pytest.mark.parametrize("failure", [-1, 1, "1.5"])
@pytest.mark.parametrize("event", [lambda delta: Targeted(1, None, delta), lambda delta: Extendable(1, delta)])
def test_a_failure_is_a_probability(event, failure):
    with pytest.raises(InvalidParameter):
        event(failure)


def test_prices_and_moments_are_finite_numbers():
    for make, order in product(OF_ONE_SIZE, (Fraction(11, 10), ORDER)):
        assert 0 < make(EPSILON).log_moment_up(order) < math.inf
