"""The Renyi price of runs of above threshold: the integral by another way, and every adversary that brute force has."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.integrate
from scipy.special import log_ndtr, logsumexp, ndtr

from chary.accounting import halted_epsilon_up
from chary.accounting.gaussian_runs import RunHit, RunNoise, RunOpening, ThresholdRun, run_moments_up
from chary.errors import InvalidParameter, NotPriced

Z = np.linspace(-11, 11, 701)
WEIGHTS = -Z * Z / 2 + math.log((Z[1] - Z[0]) / math.sqrt(2 * math.pi))
OWN, OTHER, BAR = 0.5, 0.8, 0.6
SIZES = [(0.05, 12), (0.3, 2), (0.3, 4), (0.6, 2)]


def moments_of(order, moved):
    return run_moments_up(order, sensitivity=moved, threshold_noise=OWN, query_noise=OTHER, threshold=BAR)


def log_law(values):
    """ln P(halted at 1, 2, ...), and last ln P(running)."""
    below, found = WEIGHTS, []
    for value in values:
        found.append(logsumexp(below + log_ndtr((value - BAR - OWN * Z) / OTHER)))
        below = below + log_ndtr((BAR + OWN * Z - value) / OTHER)
    return np.array([*found, logsumexp(below)])


def charged(order, one, two, *, hit, opening):
    """ln of the moment of order a, each outcome discounted by what it is charged; the worse direction."""
    charges = np.full(one.size, opening + hit)
    charges[-1] = opening
    return max(logsumexp(order * p + (1 - order) * q - charges) for p, q in ((one, two), (two, one)))


def adversaries(moved):
    """Values that move either way, all of some steps; and long runs whose last values move the other way."""
    for values in itertools.product([0.0, 0.9], repeat=3):
        for moves in itertools.product([-moved, 0, moved], repeat=3):
            yield list(values), [value + move for value, move in zip(values, moves, strict=True)]
    for value, early, last in itertools.product([0.0, 0.4, 1.0], [0, 30], [1, 30]):
        yield [value] * early + [0.0] * last, [value - moved] * early + [moved] * last


def in_range(values):
    return all(value >= -1e-12 for value in values)


@pytest.mark.parametrize(("moved", "order"), SIZES)
def test_no_adversary_is_undercharged_whole_or_by_parts(moved, order):
    price = moments_of(order, moved)
    assert price.opening < price.whole < price.opening + price.hit
    worst = {"whole": -math.inf, "parts": -math.inf}
    for one, two in adversaries(moved):
        if not in_range([*one, *two]):
            continue
        laws = log_law(one), log_law(two)
        worst["whole"] = max(worst["whole"], charged(order, *laws, hit=0, opening=price.whole))
        worst["parts"] = max(worst["parts"], charged(order, *laws, hit=price.hit, opening=price.opening))
    assert max(worst.values()) <= 1e-12


def test_what_a_hit_costs_cannot_be_left_out():
    """A negative control: with the loss of the threshold alone some adversary is undercharged."""
    order, moved = 6, 0.3
    gaussian = order * (order - 1) * moved**2 / (2 * OWN**2)
    pairs = [([top] * early + [0.0], [top - moved] * early + [moved]) for top in (1, 3) for early in (4, 8, 30)]
    assert max(charged(order, log_law(one), log_law(two), hit=0, opening=gaussian) for one, two in pairs) > 1


@pytest.mark.parametrize("order", [1.5, 4, 12])
def test_the_price_is_the_integral_rounded_up(order):
    moved = 0.1
    shift, place = 2 * moved / OTHER, BAR + order * moved

    def step(z):
        y = -(place + OWN * z) / OTHER
        rise, fall = log_ndtr(y + shift) - log_ndtr(y), log_ndtr(-y - shift) - log_ndtr(-y)
        return ndtr(y) * math.exp(order * rise) / -math.expm1(log_ndtr(-y) + order * fall)

    def mean(least):
        worth = lambda z: max(least, step(z)) * math.exp(-z * z / 2) / math.sqrt(2 * math.pi)  # noqa: E731
        return scipy.integrate.quad(worth, -9, 14, limit=400, epsabs=0, epsrel=1e-10, points=[0])[0]

    price, gaussian = moments_of(order, moved), order * (order - 1) * moved**2 / (2 * OWN**2)
    hit = math.log(mean(0))
    assert hit <= price.hit <= hit * 1.003
    assert price.whole == pytest.approx(gaussian + price.hit, rel=1e-8)
    opening = gaussian + math.log(mean(math.exp(hit))) - hit
    assert opening <= price.opening <= gaussian + (opening - gaussian) * 1.01 + 1e-9


def worth(y, shift, order):
    """A/(1 - B) of a step whose hit moves by `shift`."""
    hit, moved = ndtr(y), ndtr(y + shift)
    stays = (1 - moved) ** order * (1 - hit) ** (1 - order)
    return moved**order * hit ** (1 - order) / (1 - stays)


@pytest.mark.parametrize("order", [1.01, 1.5, 3, 20])
@pytest.mark.parametrize("shift", [0.01, 0.3, 2])
def test_the_worst_step_is_the_unlikeliest_hit_that_moves_most(order, shift):
    y = np.linspace(-6, 4, 400)
    falling = worth(y, shift, order)
    assert (np.diff(falling) <= 1e-7 * falling[1:]).all()
    assert (worth(y, shift / 2, order) <= falling * (1 + 1e-7)).all()


def test_small_changes_keep_their_digits():
    """Where the change of a value is a millionth of its noise the price is that of the second order."""
    first, second = (run_moments_up(18, sensitivity=moved, **NOISE) for moved in ("1e-7", "1e-9"))
    assert first.whole / second.whole == pytest.approx(10**4, rel=1e-4)
    assert first.hit / second.hit == pytest.approx(10**4, rel=1e-4)


NOISE = {"threshold_noise": "0.1", "query_noise": "0.1733", "threshold": "0.5"}


@pytest.mark.parametrize(
    "changed",
    [{"sensitivity": "0.02"}, {"threshold": 1}, {"threshold_noise": "0.05"}, {"query_noise": "0.1"}, {"low": "-0.5"}],
)
def test_more_distance_and_less_noise_cost_more(changed):
    usual = run_moments_up(10, sensitivity="0.01", **NOISE)
    dearer = run_moments_up(10, **({"sensitivity": "0.01"} | NOISE | changed))
    assert dearer.whole > usual.whole


@pytest.mark.parametrize("threshold", [-50, -5, "0.5", 3])
def test_thresholds_anywhere_have_a_price_or_none(threshold):
    found = run_moments_up(18, sensitivity="0.001", **(NOISE | {"threshold": threshold}))
    assert found is None or 0 < found.opening <= found.whole < 50


@pytest.mark.parametrize(
    "changed", [{"sensitivity": 1}, {"query_noise": "0.001"}, {"threshold_noise": 100}, {"threshold": 10**6}]
)
def test_no_budget_pays_for_hardly_any_noise(changed):
    given = {"sensitivity": "0.001"} | NOISE | changed
    assert run_moments_up(18, **given) is None
    noise = RunNoise(given["sensitivity"], given["threshold_noise"], given["query_noise"], given["threshold"])
    with pytest.raises(NotPriced, match="more noise"):
        ThresholdRun(noise).log_moment_up(Fraction(18))


@pytest.mark.parametrize("far", ["1e-300", "1e300"])
@pytest.mark.parametrize("name", ["sensitivity", "threshold_noise", "query_noise", "threshold", "low"])
def test_numbers_of_any_size_have_a_price_or_none(name, far):
    found = run_moments_up(18, **({"sensitivity": "0.001"} | NOISE | {name: far}))
    assert found is None or all(0 < part < math.inf for part in found)


def test_runs_cost_far_less_than_their_losses_at_an_order():
    """What the price is for: losses count (order - 1) times."""
    lost = halted_epsilon_up(1000, sensitivity="0.001", **NOISE)
    assert run_moments_up(18, sensitivity="0.001", **NOISE).whole < 17 * lost / 10


def test_events_charge_the_parts():
    noise, order = RunNoise("0.001", "0.1", "0.1733", "0.5"), Fraction(18)
    found = noise.moments_up(order)
    events = RunOpening(noise), RunHit(noise), ThresholdRun(noise)
    assert [float(event.log_moment_up(order)) for event in events] == [found.opening, found.hit, found.whole]
    assert [event.hit_price_up(order) for event in events] == [None, Fraction(found.hit), None]
    for wrong in ({"sensitivity": 0}, {"threshold_noise": -1}, {"query_noise": "x"}, {"above_low": None}):
        with pytest.raises(InvalidParameter):
            RunNoise(**({"sensitivity": 1, "threshold_noise": 1, "query_noise": 1, "above_low": 1} | wrong))
