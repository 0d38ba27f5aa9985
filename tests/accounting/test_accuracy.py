"""Error bounds: exact against the laws of the mechanisms, attained by their worst case, and nowhere passed."""

import math
from itertools import product

import numpy as np
import pytest
from scipy import stats

from chary.accounting import (
    exponential_loss_up,
    flip_loss_up,
    laplace_loss_up,
    share_error_up,
    share_interval,
    utility_loss_up,
    vote_lead_up,
)
from chary.accounting.accuracy import _best_wins
from chary.errors import InvalidParameter
from chary.mechanisms import Exponential, MajorityVote, PermuteAndFlip
from tests.mechanisms.test_noisy_max import winners

UNIT = 0.25
BOUNDS = {Exponential: exponential_loss_up, PermuteAndFlip: flip_loss_up}


def failing(kind, utilities, loss):
    law = kind(str(2 * UNIT), 1).law(utilities).probabilities()
    return sum(p for p, u in zip(law, utilities, strict=True) if max(utilities) - u >= loss)


@pytest.mark.parametrize("kind", BOUNDS)
@pytest.mark.parametrize("beta", [0.001, 0.05, 0.3])
@pytest.mark.parametrize("candidates", [2, 3, 20, 32])
def test_the_bound_is_attained_by_one_best_and_all_others_just_below(kind, beta, candidates):
    loss = BOUNDS[kind](str(UNIT), candidates, str(beta))
    edge = math.ceil(loss)
    if edge > 1:
        assert failing(kind, [edge] + [0] * (candidates - 1), edge) <= beta
        assert failing(kind, [edge - 1] + [0] * (candidates - 1), edge - 1) > beta
    assert loss <= utility_loss_up(str(UNIT), candidates, str(beta))


@pytest.mark.parametrize("kind", BOUNDS)
def test_no_other_utilities_pass_the_bound(kind):
    loss = BOUNDS[kind](str(UNIT), 4, "0.1")
    edge = math.ceil(loss)
    for utilities in product((0, 1, edge - 1, edge, edge + 3), repeat=4):
        assert failing(kind, list(utilities), loss) <= 0.1 + 1e-12


@pytest.mark.parametrize("beta", [0.01, 0.2])
@pytest.mark.parametrize("candidates", [2, 5])
def test_the_bound_of_laplace_noise_is_the_least_by_the_exact_law(beta, candidates):
    loss = laplace_loss_up(str(UNIT), candidates, str(beta))
    for gap, holds in ((loss, True), (loss - 1, False)):
        law = winners([gap] + [0] * (candidates - 1), math.exp(-UNIT), "laplace")
        assert (law[1:].sum() <= beta) == holds


def test_fine_steps_of_laplace_noise_cost_little_in_blocks():
    """The law itself at 16 times finer steps than blocks have, and a step so fine that no array would hold it."""
    coarse, fine = (laplace_loss_up(2.0**-power, 100, "0.05") for power in (10, 14))
    assert 16 * coarse <= fine <= 16 * (coarse + 6)
    assert 1 - _best_wins(2.0**-14, 99, fine) <= 0.05 < 1 - _best_wins(2.0**-14, 99, fine - 16 * 6)
    assert laplace_loss_up("1e-9", 100, "0.05") == pytest.approx(coarse * 2.0**-10 / 1e-9, rel=0.002)
    with pytest.raises(InvalidParameter):
        laplace_loss_up("0.1", 100, "1e-10")


def test_very_rare_failures_fall_back_to_the_published_bound():
    assert flip_loss_up("0.1", 100, "1e-16") == utility_loss_up("0.1", 100, "1e-16")
    assert flip_loss_up("0.1", 100, "1e-12") < utility_loss_up("0.1", 100, "1e-12")


def test_bounds_are_ordered_and_fall_with_epsilon():
    for candidates, beta in product((2, 100, 100_000), ("0.001", "0.05", "0.4")):
        flip, plain = (bound("0.05", candidates, beta) for bound in (flip_loss_up, exponential_loss_up))
        assert flip <= plain <= utility_loss_up("0.05", candidates, beta)
        for bound in (flip_loss_up, exponential_loss_up, utility_loss_up):
            assert bound("0.1", candidates, beta) == pytest.approx(bound("0.05", candidates, beta) / 2)
    assert (
        flip_loss_up("0.05", 1, "0.1")
        == exponential_loss_up("0.05", 1, "0.1")
        == laplace_loss_up("0.05", 1, "0.1")
        == 0
    )


@pytest.mark.parametrize(("epsilon", "beta"), [("0.1", "0.05"), (1, "0.001"), (3, "0.4")])
def test_the_lead_of_a_vote_is_the_least(epsilon, beta):
    r = vote_lead_up(epsilon, beta)
    assert 1 - MajorityVote(epsilon).chance(2 * r - 1) <= float(beta)
    assert r == 1 or 1 - MajorityVote(epsilon).chance(2 * r - 3) > float(beta)


@pytest.mark.parametrize("lie", [0.25, 0.45, 0.02])
@pytest.mark.parametrize("units", [1, 30, 1000])
def test_the_error_of_a_share_is_rarely_passed(lie, units):
    for yes in (0, units // 3, units):
        error = share_error_up(units, lie=lie, beta="0.05") * units * (1 - 2 * lie)
        middle = yes * (1 - lie) + (units - yes) * lie
        ones = np.arange(units + 1)
        law = np.convolve(
            stats.binom.pmf(np.arange(yes + 1), yes, 1 - lie),
            stats.binom.pmf(np.arange(units - yes + 1), units - yes, lie),
        )
        assert law[np.abs(ones - middle) >= error].sum() <= 0.05


@pytest.mark.parametrize("ones", [0, 3, 17, 40])
def test_the_interval_holds_what_the_exact_tails_leave_open(ones):
    units, lie, beta = 40, 0.3, 0.1
    kept = []
    for yes in range(units + 1):
        law = np.convolve(
            stats.binom.pmf(np.arange(yes + 1), yes, 1 - lie),
            stats.binom.pmf(np.arange(units - yes + 1), units - yes, lie),
        )
        if min(law[: ones + 1].sum(), law[ones:].sum()) > beta / 2:
            kept.append(yes / units)
    found = share_interval(ones, units, lie=lie, beta=str(beta))
    assert found == ((min(kept), max(kept)) if kept else found)
    assert found[0] <= found[1]


def test_the_interval_of_a_million_is_close_to_the_normal_one():
    units, lie = 10**6, 0.25
    low, high = share_interval(400_000, units, lie=lie, beta="0.05")
    spread = 1.96 * math.sqrt(lie * (1 - lie) / units) / (1 - 2 * lie)
    assert (high - low) / 2 == pytest.approx(spread, rel=0.01)
    assert (high + low) / 2 == pytest.approx(0.3, abs=1e-4)


@pytest.mark.parametrize("bound", [utility_loss_up, exponential_loss_up, flip_loss_up, laplace_loss_up])
@pytest.mark.parametrize(
    ("unit", "candidates", "beta"), [(0, 2, 0.1), (1, 0, 0.1), (1, 2, 0), (1, 2, 1), (1, 2, math.nan)]
)
def test_bounds_have_a_domain(bound, unit, candidates, beta):
    with pytest.raises(InvalidParameter):
        bound(unit, candidates, beta)


def test_answers_must_be_true_more_often_than_not():
    with pytest.raises(InvalidParameter):
        share_error_up(10, lie=0.5, beta="0.1")
    with pytest.raises(InvalidParameter):
        share_interval(1, 10, lie=0.6, beta="0.1")
