"""What the targets of boundary wrapper, double runs and zones promise, against every pair of small laws."""

import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx
from scipy.optimize import linprog

from chary.accounting import (
    Targeted,
    between_q_down,
    boundary_epsilon_up,
    boundary_q_down,
    hit_price_up,
    twice_q_down,
)
from chary.errors import InvalidParameter
from tests.accounting.pairs import (
    best_q,
    epsilon_of,
    mixed,
    pairs,
    sampled,
    worst_ratio,
    wrapped,
    wrapped_q,
    wrapped_ratio,
)

RATIOS = [Fraction(51, 50), Fraction(11, 10), Fraction(2), Fraction(9)]
EPSILONS = ["1e-15", "1e-9", "0.02", "0.3", "1", "4", "30"]


def slack(pair, target, ratio, q):
    """The most by which some decomposition of the pair exceeds q on the target: a linear program in what is shed."""
    first, second = (np.array([float(mass) for mass in law]) for law in pair)
    inside, size, e = np.array(target, dtype=float), len(target), float(ratio)
    rows, limits = [], []
    for one, other in ((first, second), (second, first)):
        rows += [np.append((e - 1) * np.eye(size)[x], 0) for x in range(size)]
        limits += list(e * other - one)
        rows.append(np.append(inside - q, 1))
        limits.append(one @ inside - q)
    goal = np.append(np.zeros(size), -1)
    bounds = [(0, min(a, b)) for a, b in zip(first, second, strict=True)] + [(None, None)]
    found = linprog(goal, A_ub=np.array(rows), b_ub=limits, bounds=bounds)
    assert found.success
    return -found.fun


@pytest.mark.parametrize("ratio", RATIOS[1:])
@pytest.mark.parametrize("outcomes", [2, 3, 4])
def test_no_decomposition_beats_shedding_all_outside_the_target(outcomes, ratio):
    for seed in range(15):
        (pair,) = sampled(outcomes, ratio, 1, 100 + seed)
        target = [index <= seed % (outcomes - 1) for index in range(outcomes)]
        q = best_q(pair, target, ratio)
        if q is None or q < Fraction(1, 1000) or pair[0] == pair[1]:
            continue
        assert slack(pair, target, ratio, float(q)) == pytest.approx(0, abs=1e-7)
        assert slack(pair, target, ratio, 0.9 * float(q)) >= -1e-9
        assert slack(pair, target, ratio, 1.1 * float(q)) < -1e-9


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("outcomes", [2, 3, 4])
def test_the_boundary_wrapper_keeps_its_privacy_and_its_q(outcomes, ratio):
    whole, q = wrapped_ratio(ratio, outcomes), wrapped_q(ratio, outcomes)
    for pair in pairs(outcomes, ratio):
        both = wrapped(pair[0]), wrapped(pair[1])
        assert worst_ratio(both) <= whole
        found = best_q(both, [True] + [False] * outcomes, whole)
        assert found is None or found >= q


@pytest.mark.parametrize("ratio", RATIOS)
def test_some_pair_needs_all_of_it(ratio):
    rare = Fraction(1, 10**12)
    half = ([1 - 1 / (2 * ratio), 1 / (2 * ratio)], [Fraction(1, 2)] * 2)
    sure = ([1 - rare, rare], [1 - ratio * rare, ratio * rare])
    test_ratio = max(
        worst_ratio((wrapped(half[0]), wrapped(half[1]))), worst_ratio((wrapped(sure[0]), wrapped(sure[1])))
    )
    assert wrapped_ratio(ratio, 2) * (1 - Fraction(1, 10**9)) <= test_ratio <= wrapped_ratio(ratio, 2)
    for outcomes in (2, 3):
        found = best_q(
            (wrapped(sure[0]), wrapped(sure[1])), [True, False, False], whole := wrapped_ratio(ratio, outcomes)
        )
        assert whole > 1
        assert 1 <= found / wrapped_q(ratio, outcomes) < 1 + Fraction(1, 10**9)


@pytest.mark.parametrize("ratio", RATIOS)
def test_three_outcomes_pass_the_bound_for_tests_and_approach_the_general_one(ratio):
    rare, half = Fraction(1, 10**12), Fraction(1, 2)
    others = (1 / (2 * ratio) - rare, half - rare)
    pair = [1 - ratio * rare - others[0], others[0], ratio * rare], [half, others[1], rare]
    assert worst_ratio(pair) <= ratio * (1 + 5 * rare * ratio**2)
    found = worst_ratio((wrapped(pair[0]), wrapped(pair[1])))
    assert found > wrapped_ratio(ratio, 2)
    assert found == pytest.approx(float(wrapped_ratio(ratio, 3)), rel=1e-9)


@pytest.mark.parametrize("ratio", RATIOS)
def test_the_figures_are_the_formulas_rounded_against_the_analyst(ratio):
    epsilon = epsilon_of(ratio)
    for outcomes, asked in ((2, 2), (3, 3), (3, None)):
        bound, q = boundary_epsilon_up(epsilon, outcomes=asked), boundary_q_down(epsilon, outcomes=asked)
        assert float(bound) == pytest.approx(math.log(wrapped_ratio(ratio, outcomes)), rel=1e-9)
        assert float(q) == pytest.approx(float(wrapped_q(ratio, outcomes)), rel=1e-9)
    assert float(twice_q_down(epsilon)) == pytest.approx(1 / (1 + 2 * float(ratio**2 / (ratio + 1))), rel=1e-12)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_figures_lie_on_the_safe_side_of_published_ones(epsilon):
    eps = Fraction(epsilon)
    test, general = (boundary_epsilon_up(epsilon, outcomes=outcomes) for outcomes in (2, None))
    assert eps <= test < general <= Fraction(4, 3) * eps * (1 + Fraction(1, 10**17))
    for outcomes, bound in ((2, test), (None, general)):
        published = math.expm1(bound) / (2 * math.expm1(eps + bound))
        assert published * (1 - 1e-9) <= boundary_q_down(epsilon, outcomes=outcomes) < 0.5


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_results_are_below_their_values_at_high_precision_and_hardly(epsilon):
    precision, ctx.prec = ctx.prec, 500
    try:
        eps = Fraction(epsilon)
        x = arb(eps.numerator) / arb(eps.denominator)
        e = x.exp()
        third = (e + 0) * 3 / (2 + 1 / e)
        q = 1 / (1 + 2 * e * e / (e + 1))
        zone = (1 - (-7 * x / 3).exp()) / (e + 1)
        for found, exact, sign in (
            (boundary_epsilon_up(epsilon), third.log(), 1),
            (twice_q_down(epsilon), q, -1),
            (between_q_down(epsilon, width=7, sensitivity=3), zone, -1),
        ):
            excess = sign * (arb(found.numerator) / arb(found.denominator) / exact - 1)
            assert 0 < excess < arb("1e-16")
    finally:
        ctx.prec = precision


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("outcomes", [2, 3, 4])
def test_two_runs_keep_their_q(outcomes, ratio):
    q = 1 / (1 + 2 * ratio**2 / (ratio + 1))
    differ = [first != second for first in range(outcomes) for second in range(outcomes)]
    for pair in pairs(outcomes, ratio):
        both = tuple([one * other for one in law for other in law] for law in pair)
        assert worst_ratio(both) <= ratio**2
        found = best_q(both, differ, ratio**2)
        assert found is None or found >= q


def test_two_runs_come_close_to_their_q_for_small_epsilon():
    ratio = Fraction(1001, 1000)
    pair = mixed([Fraction(1), Fraction(0)], [Fraction(0), Fraction(1)], ratio)
    both = tuple([one * other for one in law for other in law] for law in pair)
    assert (
        1
        <= best_q(both, [False, True, True, False], ratio**2) * (1 + 2 * ratio**2 / (ratio + 1))
        < Fraction(1001, 1000)
    )


def test_a_tiny_zone_keeps_a_positive_q():
    q = between_q_down("1e-15", width=1, sensitivity=10**9)
    assert float(q) == pytest.approx(5e-25, rel=1e-9)
    assert between_q_down("1e-15", width=1, sensitivity=1) < Fraction(1, 2 * 10**15)


@pytest.mark.parametrize(("epsilon", "order"), [("0.02", Fraction(15)), ("0.05", Fraction(4)), ("0.1", Fraction(4))])
def test_targets_have_finite_prices_in_the_expected_order(epsilon, order):
    wide = Targeted(epsilon, between_q_down(epsilon, width=10**4, sensitivity=1))
    tests, general = (
        Targeted(boundary_epsilon_up(epsilon, outcomes=k), boundary_q_down(epsilon, outcomes=k)) for k in (2, None)
    )
    twice = Targeted(2 * Fraction(epsilon), twice_q_down(epsilon))
    prices = [hit_price_up(event, order) for event in (Targeted(epsilon), wide, tests, general, twice)]
    assert all(price is not None and 0 < price < 10 for price in prices)
    assert prices[0] == pytest.approx(prices[1], rel=1e-6)
    assert prices[1] < prices[2] < prices[3] < prices[4]


@pytest.mark.parametrize("figure", [boundary_epsilon_up, boundary_q_down, twice_q_down])
@pytest.mark.parametrize("epsilon", [0, -1, "1e-16", 10**6 + 1, math.inf, None])
def test_epsilons_outside_the_domain_are_refused(figure, epsilon):
    with pytest.raises(InvalidParameter):
        figure(epsilon)


@pytest.mark.parametrize(("width", "sensitivity"), [(0, 1), (-3, 1), (1, 0), (1.5, 1), (1, True)])
def test_zones_of_no_width_are_refused(width, sensitivity):
    with pytest.raises(InvalidParameter):
        between_q_down("0.1", width=width, sensitivity=sensitivity)


@pytest.mark.parametrize("outcomes", [1, 0, 2.0, True])
def test_a_wrapper_has_two_outcomes_or_more(outcomes):
    with pytest.raises(InvalidParameter):
        boundary_epsilon_up("0.1", outcomes=outcomes)
