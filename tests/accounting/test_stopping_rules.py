"""Rules with a delta by which runs stop, and losses of runs that hold but for a delta: formulas, and exact laws."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import log_ndtr, logsumexp

from chary.accounting.gaussian_runs import (
    NOTHING_TOLD,
    CountedRuns,
    Losses,
    SelfReportingStopping,
    WhitehouseFilter,
    run_pdp_epsilon_up,
    runs_within,
    stopping_pdp_epsilon,
)
from chary.accounting.gaussian_selection import whitehouse_filter_epsilon
from chary.errors import InvalidParameter

Z = np.linspace(-11, 11, 701)
WEIGHTS = -Z * Z / 2 + math.log((Z[1] - Z[0]) / math.sqrt(2 * math.pi))
NOISE = {"sensitivity": "0.2", "threshold_noise": "0.5", "query_noise": "0.9"}
LOSSES = Losses(np.array([0.3, 0.4, 0.5]), np.array([0.1, 0.2, 0.3]))


def log_law(values, threshold=0.6):
    """ln P(halted at 1, 2, ...), and last ln P(running)."""
    below, found = WEIGHTS, []
    for value in values:
        found.append(logsumexp(below + log_ndtr((value - threshold - 0.5 * Z) / 0.9)))
        below = below + log_ndtr((threshold + 0.5 * Z - value) / 0.9)
    return np.array([*found, logsumexp(below)])


def number_of_tests(law):
    """The law of the number of tests, of at most so many values."""
    chances, length = np.exp(law), len(law) - 1
    counted = {count: float(chance) for count, chance in enumerate(chances[:-1], 1)}
    return counted | {length: counted[length] + float(chances[-1])}


@pytest.mark.parametrize("delta", [1e-2, 1e-4, 1e-6])
def test_losses_exceed_their_epsilon_at_most_with_delta(delta):
    """The bound by a law takes that of the neighbour whose answers the losses compare with."""
    any_length = run_pdp_epsilon_up(**NOISE, threshold="0.6", delta=delta)
    for values in ([0.3] * 20, [0.9] * 5, [0.5] * 10 + [0.0] * 10):
        for move in (-0.2, 0.2):
            one, two = log_law(values), log_law([max(0.0, value + move) for value in values])
            for p, q in ((one, two), (two, one)):
                for epsilon in (any_length, stopping_pdp_epsilon(number_of_tests(q), **NOISE, delta=delta)):
                    assert np.exp(p[p - q > epsilon]).sum() <= delta


def test_the_law_of_the_stopping_time_tells_more_than_its_maximum():
    noise = NOISE | {"delta": 1e-6}
    rarely = stopping_pdp_epsilon({1: 1 - 1e-9, 10**9: 1e-9}, **noise)
    most = stopping_pdp_epsilon({10**9: 1}, **noise)
    assert stopping_pdp_epsilon({1: 1}, **noise) < rarely < most


def test_a_law_by_hand():
    """At any order and exponent the formula is a bound; the figure is the least of them."""
    moved, law = 0.2, {2: 0.25, 8: 0.75}
    found = stopping_pdp_epsilon(law, **NOISE, delta=1e-6)
    for order, exponent in itertools.product([2, 5, 12, 40], [1.1, 2, 5]):
        conjugate = exponent / (exponent - 1)
        moment = math.log(0.25 * 2**exponent + 0.75 * 8**exponent) / exponent
        gaussian = order * (order * conjugate - 1) * moved**2 / (2 * 0.5**2)
        total = 2 * order * (order - 1) * moved**2 / 0.9**2 + gaussian + moment
        assert found <= (total + math.log(1e6)) / (order - 1) * 1.0000001
    assert found > 0.5


@pytest.mark.parametrize("law", [{}, {1: 0.5}, {0: 1}, {1: 1.5, 2: -0.5}, {1: 0.5, 2: 0.6}])
def test_laws_add_up(law):
    with pytest.raises(InvalidParameter):
        stopping_pdp_epsilon(law, **NOISE, delta=1e-6)


def test_more_room_is_for_more_runs():
    noise = {"sensitivity": "0.001", "threshold_noise": "0.1", "query_noise": "0.1733", "threshold": "0.5"}
    found = [runs_within(epsilon, 1e-6, **noise) for epsilon in ("0.2", 1)]
    assert 0 < found[0] < found[1]
    assert runs_within("0.001", 1e-6, **noise) == 0
    with pytest.raises(InvalidParameter, match="too small"):
        run_pdp_epsilon_up(**(noise | {"query_noise": "1e-5"}), delta=1e-6)


def test_self_reporting_starts_a_run_if_its_epsilon_fits_beside_the_losses():
    rule, told = SelfReportingStopping(Fraction(1), Fraction(1, 2), 9), NOTHING_TOLD
    started = 0
    while rule.admits(told, LOSSES):
        started += not told.steps
        told = told.after(above=told.steps == 1, losses=LOSSES)
    # Runs lose 0.4 each: a third one would begin at 0.8.
    assert (started, told.halted, told.steps) == (2, 2, 0)
    assert SelfReportingStopping(Fraction(1), Fraction(1, 2), 1).admits(told, LOSSES) is False
    assert rule.admits(NOTHING_TOLD.after(above=False, losses=LOSSES), LOSSES)


def test_runs_are_counted():
    told = NOTHING_TOLD.after(above=True, losses=LOSSES)
    assert [CountedRuns(runs).admits(told, LOSSES) for runs in (1, 2)] == [False, True]


@pytest.mark.parametrize("size", ["0.3", "0.05", "0.001"])
def test_the_filter_admits_calls_until_their_total_or_their_deltas_pass(size):
    rule = WhitehouseFilter(1, "5e-7", "5e-7")
    found = rule.times(size, 0)
    assert rule.admits([(size, 0)] * found)
    assert not rule.admits([(size, 0)] * (found + 1))
    assert whitehouse_filter_epsilon([Fraction(size)] * (found + 1), delta=5e-7) > 1
    assert rule.times("1e-5", "1e-7") == 5
    assert not rule.admits([("1e-5", "1e-7")] * 6)
    assert rule.admits([])
