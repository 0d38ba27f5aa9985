"""Selection with Gaussian noise: reference numbers, ball arithmetic, brute force over queries, calibration."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from flint import acb, arb, ctx, fmpq
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_ndtr, ndtr

from chary.accounting import (
    above_threshold_epsilons_up,
    above_threshold_noise,
    halted_epsilon_up,
    noisy_max_epsilon_up,
    noisy_max_noise,
    running_epsilon_up,
)
from chary.accounting.gaussian_selection import Crossing
from chary.accounting.numerics import LogCdf
from chary.errors import InvalidParameter
from chary.numbers import exact
from tests.paths import reference

ROOT_3 = math.sqrt(3)
BELOW, ABOVE = 1e-13, 1e-12


def test_reference_numbers():
    rows = reference("gaussian_selection.csv")
    assert len(rows) > 40
    for row in rows:
        steps, noise = int(row["steps"]), float(row["noise"])
        if row["mechanism"] == "noisy_max":
            found = noisy_max_epsilon_up(steps, sensitivity=row["sensitivity"], noise=noise)
        else:
            noises = {"threshold_noise": noise, "query_noise": ROOT_3 * noise}
            found = halted_epsilon_up(steps, sensitivity=row["sensitivity"], **noises, threshold=row["threshold"])
        assert -BELOW <= found / float(row["epsilon"]) - 1 <= ABOVE, row


def log_gain(exactly, count, guess):
    """`ln M' - ln M` as a ball, by Arb's verified integration at the digits that the difference of the masses costs.

    `exactly` holds slope, offset, shift and last as rationals; the guess only tells how many digits are needed.
    """
    slope, offset, shift, last = (None if part is None else float(part) for part in exactly)
    loss, places = max(0.0, -math.log(guess)), np.linspace(-160, 160, 6401)
    shapes = [count * log_ndtr(slope * places + offset + moved) - places**2 / 2 for moved in (0, shift)]
    if last is not None:
        shapes = [
            shape + log_ndtr(last + moved - slope * places) for shape, moved in zip(shapes, (0, shift), strict=True)
        ]
    least = float(shapes[0].max()) - loss - 60
    reach = math.sqrt(2 * (40 - least))
    cuts = {0.0, -offset / slope, *(float(places[shape.argmax()]) for shape in shapes)}
    ends = [-reach, *sorted(cut for cut in cuts if -reach < cut < reach), reach]
    before, ctx.prec = ctx.prec, int(300 + 1.5 * loss)
    try:
        balls = [None if part is None else arb(fmpq(part.numerator, part.denominator)) for part in exactly]
        still, rise = (
            sum(
                acb.integral(density, low, high, rel_tol=arb(2) ** -90, abs_tol=arb(least).exp()).real
                for low, high in itertools.pairwise(ends)
            )
            + arb(0, 2) * arb(-reach * reach / 2).exp()
            for density in (
                lambda z, _: ball_density(balls, count, z, arb(0)),
                lambda z, _: ball_density(balls, count, z, balls[2]) - ball_density(balls, count, z, arb(0)),
            )
        )
        return (1 + rise / still).log()
    finally:
        ctx.prec = before


def ball_density(balls, count, z, moved):
    slope, offset, _, last = balls
    root = arb(2).sqrt()
    value = (-z * z / 2).exp() * ((-(slope * z + offset + moved) / root).erfc() / 2) ** count
    return value if last is None else value * ((-(last + moved - slope * z) / root).erfc() / 2)


def units(sensitivity, threshold_noise, query_noise, threshold, halted):
    """A run on queries in [0, 1] as `log_gain` takes it."""
    noise, bar, moved, level = (exact(x, "x") for x in (query_noise, threshold_noise, sensitivity, threshold))
    return bar / noise, (level - 1) / noise, moved / noise, -level / noise if halted else None


powers = st.floats
noises = powers(-2, 1).map(lambda power: 10**power)
moves = powers(-9, 0).map(lambda power: 10**power)
counts = powers(0, 6).map(lambda power: round(10**power))
thresholds = st.one_of(st.sampled_from([0, 1, Fraction(1, 2)]), powers(-0.3, 1.3))
ratios = st.one_of(st.just(ROOT_3), powers(-1, 1.3).map(lambda power: 10**power))


def assert_above(found, ball):
    """The figure is above the truth, by at most 1e-12 of it, whatever point of the ball the truth is."""
    excess = arb(found) / ball - 1
    assert excess > 0
    assert excess < ABOVE


@settings(max_examples=60, deadline=None, derandomize=True)
@given(queries=counts, sensitivity=moves, noise=noises)
def test_noisy_max_is_just_above_the_truth(queries, sensitivity, noise):
    found = noisy_max_epsilon_up(queries + 1, sensitivity=sensitivity, noise=noise)
    scale, moved = exact(noise, "noise"), exact(sensitivity, "sensitivity")
    assert_above(found, log_gain((Fraction(1), -1 / scale, 2 * moved / scale, None), queries, found))


@settings(max_examples=100, deadline=None, derandomize=True)
@given(steps=counts, sensitivity=moves, noise=noises, ratio=ratios, threshold=thresholds, halted=st.booleans())
def test_above_threshold_is_just_above_the_truth(steps, sensitivity, noise, ratio, threshold, halted):
    run = {"sensitivity": sensitivity, "threshold_noise": noise, "query_noise": ratio * noise, "threshold": threshold}
    found = (halted_epsilon_up if halted else running_epsilon_up)(steps, **run)
    if found > 1e-270:
        assert_above(found, log_gain(units(**run, halted=halted), steps - halted, found))


@pytest.mark.parametrize(
    ("slope", "offset", "shift", "last", "count"),
    [
        (1, -100, 200, None, 999_999),
        (1, -50, 100, None, 10**9),
        (Fraction(1, 2), -20, 40, -20, 999),
        (30, -40, 3, -20, 500),
        (Fraction(1, 20), -1, Fraction(1, 10**9), -2, 10**5),
        (1000, 4500, Fraction(1, 1000), None, 3),
    ],
)
def test_far_corners(slope, offset, shift, last, count):
    exactly = tuple(None if part is None else Fraction(part) for part in (slope, offset, shift, last))
    found = Crossing(*(None if part is None else float(part) for part in exactly)).gains(np.array([float(count)]))[0]
    # Below the 7e-13 that are added to it, also where elementary functions err by two units in the last place.
    assert abs(arb(found) / log_gain(exactly, count, found) - 1) < 6e-13


def test_a_loss_below_what_floats_resolve_is_reported_as_something():
    run = {"sensitivity": "1e-9", "threshold_noise": 0.01, "query_noise": 0.02, "threshold": 5}
    assert 0 < running_epsilon_up(10, **run) < 1e-285


@pytest.mark.parametrize("case", [(0.1, 0.5, "0.01"), (0.05, 0, "0.001"), (1, 1.2, "0.3"), (0.01, 0.8, "1e-6")])
def test_all_stopping_times_at_once_are_those_one_by_one(case):
    noise, threshold, sensitivity = case
    run = {"sensitivity": sensitivity, "threshold_noise": noise, "query_noise": 2 * noise, "threshold": threshold}
    halted, running = above_threshold_epsilons_up(1500, **run)
    assert halted.shape == running.shape == (1500,)
    for steps in (1, 2, 3, 7, 100, 511, 512, 513, 1025, 1500):
        assert halted[steps - 1] == pytest.approx(halted_epsilon_up(steps, **run), rel=1e-13)
        assert running[steps - 1] == pytest.approx(running_epsilon_up(steps, **run), rel=1e-13)
    assert (np.diff(halted) > 0).all()
    assert (np.diff(running) > 0).all()
    assert (running[:-1] < halted[1:]).all()


GRID = np.linspace(0, 1, 5)
Z = np.linspace(-12, 12, 4801)
DENSITY = np.exp(-Z * Z / 2) * (Z[1] - Z[0]) / math.sqrt(2 * math.pi)


def neighbours(queries, moved):
    """Every pair of points of the grid that differ by at most `moved` in each query."""
    points = list(itertools.product(GRID, repeat=queries))
    return [(one, two) for one in points for two in points if max(abs(np.subtract(one, two))) <= moved + 1e-12]


@pytest.mark.parametrize(("noise", "moved"), [(0.3, 0.25), (0.5, 0.5), (1.0, 1.0)])
@pytest.mark.parametrize("queries", [2, 3])
def test_no_neighbours_exceed_noisy_max_and_two_attain_it(queries, noise, moved):
    def chance(point):
        return DENSITY @ np.prod([ndtr(Z + (point[0] - other) / noise) for other in point[1:]], axis=0)

    chances = {point: chance(point) for point in itertools.product(GRID, repeat=queries)}
    losses = [math.log(chances[one] / chances[two]) for one, two in neighbours(queries, moved)]
    bound = noisy_max_epsilon_up(queries, sensitivity=moved, noise=noise)
    assert max(losses) == pytest.approx(bound, rel=1e-11)


@pytest.mark.parametrize("halted", [True, False])
@pytest.mark.parametrize(("threshold", "moved"), [(0.5, 0.25), (1.1, 0.5), (-0.2, 1.0)])
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_no_neighbours_exceed_above_threshold_and_two_attain_it(steps, threshold, moved, halted):
    bar = threshold + 0.3 * Z

    def chance(point):
        stay = [ndtr((bar - query) / 0.5) for query in point]
        return DENSITY @ np.prod([*stay[:-1], 1 - stay[-1]] if halted else stay, axis=0)

    chances = {point: chance(point) for point in itertools.product(GRID, repeat=steps)}
    losses = [math.log(chances[one] / chances[two]) for one, two in neighbours(steps, moved)]
    run = {"sensitivity": moved, "threshold_noise": 0.3, "query_noise": 0.5, "threshold": threshold}
    assert max(losses) == pytest.approx((halted_epsilon_up if halted else running_epsilon_up)(steps, **run), rel=1e-10)


def test_only_ratios_matter():
    run = {"sensitivity": "0.01", "threshold_noise": "0.1", "query_noise": "0.2", "threshold": "0.6"}
    wide = {"sensitivity": "0.7", "threshold_noise": "7", "query_noise": "14", "threshold": "37", "low": -5, "high": 65}
    assert halted_epsilon_up(40, **run) == halted_epsilon_up(40, **wide)
    assert running_epsilon_up(40, **run) == running_epsilon_up(40, **wide)
    assert noisy_max_epsilon_up(9, sensitivity=1, noise=3, spread=40) == noisy_max_epsilon_up(
        9, sensitivity="0.025", noise="0.075"
    )


def test_a_sensitivity_above_the_range_is_the_range():
    run = {"threshold_noise": 1, "query_noise": 2, "threshold": "0.5"}
    assert halted_epsilon_up(5, sensitivity=3, **run) == halted_epsilon_up(5, sensitivity=1, **run)
    assert noisy_max_epsilon_up(5, sensitivity=3, noise=1) == noisy_max_epsilon_up(5, sensitivity=1, noise=1)


def test_small_sensitivities_are_charged_in_proportion():
    run = {"threshold_noise": "0.1", "query_noise": "0.2", "threshold": "0.5"}
    small, smaller = (halted_epsilon_up(30, sensitivity=size, **run) for size in ("1e-10", "1e-13"))
    assert small / smaller == pytest.approx(1000, rel=1e-8)


@pytest.mark.parametrize("epsilon", ["1e-4", "0.1", 1, 8])
def test_calibrated_noise_fits_and_is_the_least(epsilon):
    noise = noisy_max_noise(epsilon, 50, sensitivity="0.01")
    assert noisy_max_epsilon_up(50, sensitivity="0.01", noise=noise) <= float(epsilon)
    assert noisy_max_epsilon_up(50, sensitivity="0.01", noise=noise * (1 - 1e-9)) > float(epsilon)
    bar, query = above_threshold_noise(epsilon, 50, sensitivity="0.01", threshold="0.7")
    assert query == pytest.approx(ROOT_3 * bar, rel=1e-15)
    run = {"sensitivity": "0.01", "threshold": "0.7"}
    assert max(worst(50, bar, query, run)) <= float(epsilon)
    assert max(worst(50, bar * (1 - 1e-9), query * (1 - 1e-9), run)) > float(epsilon)


def worst(steps, bar, query, run):
    halted, running = above_threshold_epsilons_up(steps, threshold_noise=bar, query_noise=query, **run)
    return *halted, *running


def test_the_change_of_the_logarithm_keeps_its_digits():
    x = np.array([-300.0, -40, -3, -1e-9, 0, 1e-9, 2, 9, 30])
    for shift in (1e-18, 1e-6, 0.02, 0.49, 0.51, 3, 45, -1e-7, -2):
        for at, change in zip(x, LogCdf(x).change(np.full(9, shift)), strict=True):
            before, ctx.prec = ctx.prec, 4000
            tail = [(-(arb(at) + moved) / arb(2).sqrt()).erfc() / 2 for moved in (arb(shift), arb(0))]
            truth = (tail[0] / tail[1]).log()
            ctx.prec = before
            assert abs(arb(change) / truth - 1) < 2e-13, (at, shift)


@pytest.mark.parametrize(
    "wrong",
    [
        {"sensitivity": 0},
        {"sensitivity": "nan"},
        {"threshold_noise": -1},
        {"query_noise": 0},
        {"low": 1, "high": 1},
        {"steps": 0},
        {"steps": 2.5},
        {"threshold": float("inf")},
        {"threshold_noise": "1e-9"},
        {"sensitivity": "1e-17"},
    ],
)
def test_the_domain_is_checked(wrong):
    run = {
        "steps": 3,
        "sensitivity": 1,
        "threshold_noise": 1,
        "query_noise": 2,
        "threshold": 1,
        "low": 0,
        "high": 9,
    } | wrong
    with pytest.raises(InvalidParameter):
        halted_epsilon_up(**run)


def test_the_domain_of_noisy_max_is_checked():
    for queries, others in ((0, {}), (3, {"noise": 0}), (3, {"spread": -1}), (3, {"sensitivity": "x"})):
        with pytest.raises(InvalidParameter):
            noisy_max_epsilon_up(queries, **({"sensitivity": 1, "noise": 1} | others))
    with pytest.raises(InvalidParameter):
        noisy_max_noise(1, 1, sensitivity=1)


@pytest.mark.parametrize("noise", ["1e-300", "1e-100", "1e300"])
@pytest.mark.parametrize("threshold", [10**9, -(10**9), "1e300"])
def test_a_threshold_beyond_all_floats_of_noise_is_refused_as_one_far_away(threshold, noise):
    noises = {"threshold_noise": noise, "query_noise": "1e-300"}
    with pytest.raises(InvalidParameter, match="within a factor of"):
        halted_epsilon_up(1, sensitivity=1, **noises, threshold=threshold)
