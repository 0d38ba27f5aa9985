"""Sparse vector with one-sided noise: its split, its bar, its exact error by brute force, and its uneven event."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from chary.accounting import (
    Asymmetric,
    DiscreteLaplace,
    Joint,
    OneSidedNoise,
    Pure,
    Repeated,
    error_up,
    one_sided_error_up,
    one_sided_noise,
    sparse_half_width_up,
    sparse_noise,
)
from chary.accounting.events import two_point_log_moment_up
from chary.accounting.numerics import LARGEST_EXPONENT
from chary.accounting.sparse_vector import one_sided_shares
from chary.errors import InvalidParameter
from chary.mechanisms import OneSidedMachine
from chary.noise import Seeded
from tests.mechanisms.one_sided_laws import geometric
from tests.mechanisms.sparse_laws import pmf

HITS = [1, 2, 7, 30, 200]


@pytest.mark.parametrize("values", [False, True])
@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize("hits", HITS)
def test_the_parts_add_up_to_epsilon_exactly(hits, monotone, values):
    noise = one_sided_noise(epsilon="0.3", hits=hits, monotone=monotone, values=values)
    crossings = hits * (1 if monotone else 2)
    answers = hits / noise.answer if noise.answer else 0
    assert 1 / noise.threshold + crossings / noise.test + answers == Fraction(3, 10)
    assert noise.event.epsilon == noise.scaled(7).event.epsilon == Fraction(3, 10)
    assert (noise.answer is not None) == values


@pytest.mark.parametrize("hits", HITS)
def test_its_event_is_that_of_its_parts(hits):
    noise = one_sided_noise(epsilon="0.3", hits=hits, monotone=True, values=True).scaled(3)
    tests, values = 3 * hits / noise.test, Repeated(DiscreteLaplace(noise.answer, 3), hits)
    assert noise.event == Joint((Asymmetric(3 / noise.threshold + tests, tests), values))
    assert one_sided_noise(epsilon="0.3", hits=hits).event == Pure("0.3")


def failure(noise, tests, error):
    """By definition: the chance that one of the tests, or of the values, is off by more."""
    bars, far = np.arange(3000), np.arange(-9000, 9001)
    law = np.cumsum(np.where(far < 0, 0, geometric(noise.test, np.maximum(far, 0))))
    near = law[9000 + bars + noise.shift + error] - law[9000 + bars + noise.shift - error - 1]
    kept = (geometric(noise.threshold, bars) * near**tests).sum()
    if noise.answer is not None:
        kept *= pmf(noise.answer, np.arange(-error, error + 1)).sum() ** noise.hits
    return 1 - kept


@pytest.mark.parametrize("values", [False, True])
@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize(("epsilon", "hits", "tests"), [(2, 1, 1), (1, 1, 100), (1, 3, 10), (5, 2, 10**6)])
def test_the_error_is_the_least_that_is_kept(epsilon, hits, tests, monotone, values):
    for planned in (1, tests, 10**4):
        noise = one_sided_noise(epsilon=epsilon, hits=hits, tests=planned, monotone=monotone, values=values)
        for confidence in ("0.5", "0.95", "0.999"):
            error = one_sided_error_up(noise, tests=tests, confidence=confidence)
            beta = 1 - float(confidence)
            assert failure(noise, tests, error) <= beta < failure(noise, tests, error - 1)


@pytest.mark.parametrize("scale", [Fraction(1, 100), Fraction(10**7)])
def test_small_and_large_scales_follow_the_same_law(scale):
    noise, usual = (OneSidedNoise(1, size, size, None, True, 100) for size in (scale, Fraction(1000)))
    error, other = (one_sided_error_up(each, tests=100, confidence="0.95") for each in (noise, usual))
    assert error == pytest.approx(other * float(scale) / 1000, rel=0.01, abs=2)


@pytest.mark.parametrize(
    ("tests", "widths"), [(1000, [12, 27, 71, 130]), (10_000, [14, 31, 85, 156])], ids=["1,000", "10,000"]
)
def test_half_widths_are_below_those_of_separate_tails_and_of_laplace(tests, widths):
    """Theory 10 takes each side by itself: `(sqrt(ln(2/beta)) + sqrt(c ln(2N/beta)))^2 / 2` at epsilon 1."""
    for hits, width in zip([1, 3, 10, 20], widths, strict=True):
        apart = (math.sqrt(math.log(40)) + math.sqrt(hits * math.log(40 * tests))) ** 2 / 2
        laplace = error_up(sparse_noise(epsilon=1, hits=hits, monotone=True), tests=tests, confidence="0.95")
        assert sparse_half_width_up(epsilon=1, tests=tests, hits=hits) == width
        assert 0.88 * apart < width < apart
        assert width < 0.65 * laplace


def kept(share, hits, tests, shift, error):
    """The chance that no test errs by more, at epsilon 1, with such a share for the threshold and such a bar."""
    bars, step = np.arange(60 * (hits + 5)), (1 - share) / hits
    below, above = (np.exp(-step * np.maximum(bars + shift + end, 0)) for end in (-error, error + 1))
    return float(geometric(1 / share, bars) @ (below - above) ** tests)


@pytest.mark.parametrize(("hits", "tests"), [(1, 1), (1, 1000), (3, 10), (3, 1000), (20, 10), (20, 1000)])
def test_no_other_split_and_no_other_bar_is_narrower(hits, tests):
    """By more than a step, or two in a hundred."""
    width = sparse_half_width_up(epsilon=1, tests=tests, hits=hits)
    error = min(width - 2, int(0.98 * width))
    noise = one_sided_noise(epsilon=1, hits=hits, tests=tests, monotone=True)
    assert kept(float(1 / noise.threshold), hits, tests, noise.shift, width) >= 0.95
    chances = [
        kept(share, hits, tests, shift, error)
        for share in np.linspace(0.05, 0.7, 27)
        for shift in range(-width, width + 1, 1 + width // 40)
    ]
    assert 0.85 < max(chances) < 0.95


@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize("hits", [1, 5, 40])
@pytest.mark.parametrize("values", [False, True])
def test_it_errs_less_than_laplace_for_other_numbers_of_tests_too_but_for_very_few(hits, monotone, values):
    terms = {"epsilon": "0.5", "hits": hits, "monotone": monotone, "values": values}
    ours, theirs = one_sided_noise(**terms), sparse_noise(**terms)
    for tests, most in ((10, 1.05), (100, 0.85), (10**5, 0.75)):
        asked = {"tests": tests, "confidence": "0.95"}
        assert one_sided_error_up(ours, **asked) <= most * error_up(theirs, **asked)


def test_values_err_about_as_far_as_tests():
    for hits, tests in itertools.product([1, 10, 100], [10, 10**5]):
        noise = one_sided_noise(epsilon=1, hits=hits, tests=tests, monotone=True, values=True)
        alone = OneSidedNoise(hits, noise.threshold, noise.test, None, True, tests)
        both, tested = (one_sided_error_up(each, tests=tests, confidence="0.95") for each in (noise, alone))
        assert tested <= both < 1.25 * tested + 2


@pytest.mark.statistical
@pytest.mark.parametrize("monotone", [False, True])
def test_runs_are_as_accurate_as_told(monotone):
    """Values as far away as the error are called wrongly in at most a tenth of the runs; at two thirds, in more."""
    noise = one_sided_noise(epsilon=1, hits=3, tests=60, monotone=monotone, values=True, confidence="0.9")
    error = one_sided_error_up(noise, tests=60, confidence="0.9")
    machine, source, runs = OneSidedMachine(noise), Seeded(11), 1500

    def wrong(distance):
        values = np.full(60, -distance - 1)
        values[[20, 40, 59]] = distance
        failures = 0
        for _ in range(runs):
            _, crossed = machine.step(machine.start(source), values, 0, source)
            right = crossed.positions == [20, 40, 59]
            failures += not (right and np.abs(np.array(crossed.values) - distance).max() <= distance)
        return failures / runs

    assert wrong(error) <= 0.1 + 5 * math.sqrt(0.09 / runs)
    assert wrong(error * 2 // 3) > 0.2


@pytest.mark.parametrize("share", [Fraction(1, 3), Fraction(1, 2)])
def test_the_bar_is_placed_so_that_each_side_has_its_part_of_the_failures(share):
    """Of beta, `r/(r + s)` for values above that are missed and `s/(r + s)` for those below that are reported."""
    noise = OneSidedNoise(1, 1 / share / Fraction("0.01"), 1 / (1 - share) / Fraction("0.01"), None, True, 1000)
    error = one_sided_error_up(noise, tests=1000, confidence="0.95")
    bars = np.arange(60_000)
    weights, (r, s) = geometric(noise.threshold, bars), (float(noise.threshold), float(noise.test))
    missed = weights[bars + noise.shift - error > 0].sum()
    reported = weights @ -np.expm1(1000 * np.log1p(-np.exp(-np.maximum(bars + noise.shift + error + 1, 0) / s)))
    for found, part in ((missed, r / (r + s)), (reported, s / (r + s))):
        assert 0.85 < found / (0.05 * part) < 1.15


@pytest.mark.parametrize(
    "given",
    [
        {"epsilon": 0},
        {"epsilon": float("nan")},
        {"hits": 0},
        {"hits": 1.5},
        {"tests": 0},
        {"tests": True},
        {"confidence": 0},
        {"confidence": 1},
    ],
)
def test_bad_sizes_are_refused(given):
    with pytest.raises(InvalidParameter):
        one_sided_noise(**({"epsilon": 1, "hits": 3} | given))


def test_a_confidence_beyond_the_precision_is_refused():
    with pytest.raises(InvalidParameter, match="too close to 1"):
        one_sided_error_up(one_sided_noise(epsilon=1, hits=2), tests=10, confidence=1 - Fraction(1, 10**17))


def test_shares_are_within_their_bounds_for_any_sizes():
    for hits, tests, beta in itertools.product([1, 10**9], [1, 10**30], ["0.999999", "1e-300"]):
        for values in (False, True):
            shares = one_sided_shares(hits, tests, 1 - Fraction(beta), monotone=True, values=values)
            assert sum(shares) == 1
            assert min(shares[:2]) > 0
            assert (shares[2] > 0) == values


ORDERS = [Fraction(11, 10), Fraction(3), Fraction(40)]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("up", "down"), [("0.1", "0.07"), ("2", "0.3"), ("0.01", "3")])
def test_no_law_with_such_losses_has_a_larger_moment(order, up, down):
    """Random laws, and the two outcomes that attain it; the event takes the dearer order."""
    u, d, a = float(Fraction(up)), float(Fraction(down)), float(order)
    bound, random = float(two_point_log_moment_up(order, Fraction(up), Fraction(down))), np.random.default_rng(5)
    chance = -math.expm1(-d) / (math.exp(u) - math.exp(-d))
    attained = math.log(chance * math.exp(a * u) + (1 - chance) * math.exp(-a * d))
    assert attained == pytest.approx(bound, rel=1e-9)
    for _ in range(300):
        losses = random.uniform(-d, u, 5)
        weights = random.dirichlet(np.ones(5)) * 0.999
        ends = np.linalg.solve([[1, 1], [math.exp(u), math.exp(-d)]], [1 - weights.sum(), 1 - weights @ np.exp(losses)])
        if min(ends) >= 0:
            moment = weights @ np.exp(a * losses) + ends @ np.exp([a * u, -a * d])
            assert math.log(moment) <= bound * (1 + 1e-9)
    other = float(two_point_log_moment_up(order, Fraction(down), Fraction(up)))
    assert float(Asymmetric(up, down).log_moment_up(order)) == max(bound, other)


@pytest.mark.parametrize("order", ORDERS)
def test_an_uneven_event_lies_between_the_even_ones(order):
    uneven = Asymmetric("0.5", "0.2").log_moment_up(order)
    assert Pure("0.2").log_moment_up(order) < uneven < Pure("0.5").log_moment_up(order)
    assert abs(Asymmetric("0.5", "0.5").log_moment_up(order) - Pure("0.5").log_moment_up(order)) < Fraction(1, 10**25)
    assert Asymmetric("0.2", "0.5").log_moment_up(order) == uneven


def test_beyond_all_exponentials_the_plain_bound_takes_over():
    order, edge = Fraction(2), Fraction(LARGEST_EXPONENT, 2)
    assert Asymmetric(2 * edge, edge).log_moment_up(order) == 2 * edge
    assert Asymmetric(edge, edge / 2).log_moment_up(order) == pytest.approx(edge, abs=1)


@pytest.mark.parametrize(
    ("given", "scales", "shift"),
    [
        ({"epsilon": 1, "hits": 1}, ("200000/58877", "400000/141123"), 8),
        ({"epsilon": "0.5", "hits": 3, "monotone": True, "tests": 1000}, ("200000/25409", "600000/74591"), 25),
        (
            {"epsilon": "0.1", "hits": 20, "monotone": True, "values": True, "tests": 40},
            ("10000000000000/61749660303", "200000000000000/390539339697"),
            1354,
        ),
    ],
)
def test_what_ledgers_imply_never_changes(given, scales, shift):
    """A body holds the sizes alone, so the noise that an open run goes on with follows from them, on every machine."""
    noise = one_sided_noise(**given)
    assert ((str(noise.threshold), str(noise.test)), noise.shift) == (scales, shift)


@pytest.mark.parametrize("nines", [20, 400, 1000])
def test_a_confidence_that_doubles_cannot_tell_from_1_is_refused(nines):
    noise = one_sided_noise(epsilon=1, hits=3, tests=60, monotone=True)
    with pytest.raises(InvalidParameter, match="too close to 1"):
        one_sided_error_up(noise, tests=60, confidence="0." + "9" * nines)
