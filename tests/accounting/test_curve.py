import math
from decimal import Decimal, localcontext

import numpy as np
import pytest

from chary.accounting import (
    MenuCall,
    exact_delta,
    exact_tail_total,
    exact_total,
    lattice_curves,
    published_total,
    target_total,
)
from chary.accounting.charging_curve import delta_up
from chary.accounting.composition import convex_upper
from chary.accounting.menu_curve import _options
from chary.errors import InvalidParameter
from tests.accounting.strategies import (
    Leaf,
    best_response,
    divergence,
    random_leaves,
    random_pair,
    response_pair,
)
from tests.paths import reference


def curve(epsilon, hits, length):
    return np.array([delta_up(epsilon, hits, calls) for calls in range(length)])


def test_reference_numbers_are_met_and_never_undercut():
    for row in reference("target_charging.csv"):
        asked = {"epsilon_per_call": row["epsilon_per_call"], "hits": int(row["hits"]), "delta": row["delta"]}
        known = float(row["epsilon_exact"])
        rounding = 0.5 * 10 ** -len(row["epsilon_exact"].split(".")[1])
        assert exact_total(**asked) >= known - rounding
        assert exact_total(**asked) == pytest.approx(known, rel=1e-4)
        assert published_total(**asked) == pytest.approx(float(row["epsilon_published_upper"]), rel=1e-4)


@pytest.mark.parametrize("hits", [1, 2, 3])
@pytest.mark.parametrize("epsilon", [0.1, 0.7])
def test_no_random_analyst_exceeds_the_curve(hits, epsilon):
    rng = np.random.default_rng(hits)
    bound = curve(epsilon, hits, 8)
    for _ in range(60):
        leaves = random_leaves(rng, [epsilon], hits, 6)
        assert sum(leaf.p0 for leaf in leaves) == pytest.approx(1)
        for k, limit in enumerate(bound):
            assert divergence(leaves, k * epsilon) <= limit * (1 + 1e-12)


def test_smaller_calls_stay_below_the_curve_of_larger_ones():
    rng = np.random.default_rng(5)
    bound = curve(0.6, 2, 6)
    for _ in range(60):
        leaves = random_leaves(rng, [0.1, 0.3, 0.6], 2, 6)
        assert all(divergence(leaves, k * 0.6) <= limit * (1 + 1e-12) for k, limit in enumerate(bound))


@pytest.mark.parametrize(("epsilon", "hits"), [(0.1, 1), (0.3, 2), (0.5, 3), (1.5, 3)])
def test_randomized_response_attains_the_curve(epsilon, hits):
    bound = curve(epsilon, hits, 6)
    for k in range(6):
        assert best_response(epsilon, hits, k, 160) == pytest.approx(bound[k], rel=1e-9)


def test_a_curve_of_two_thirds_the_hits_would_be_exceeded():
    """The brute force can fail: the best analyst beats the curve of one hit fewer."""
    assert best_response(0.3, 3, 4, 160) > curve(0.3, 2, 5)[4] * 1.1


@pytest.mark.parametrize(("epsilon", "hits"), [(0.02, 40), (0.1, 7), (0.5, 3), (2.0, 2)])
def test_closed_recursion_equals_policy_iteration(epsilon, hits):
    curves = lattice_curves(epsilon, [MenuCall(1, 1)], 500)
    general = [next(curves) for _ in range(hits)][-1]
    assert general[:150] == pytest.approx(curve(epsilon, hits, 150), rel=2e-9)


@pytest.mark.parametrize("epsilon", [0.05, 0.5])
def test_policy_iteration_equals_value_iteration(epsilon):
    """An independent oracle: iterate theory 1.3 from above on both sides of the diagonal."""
    top = round(30 / epsilon)
    log_ratio = np.arange(-top, top + 1) * epsilon
    x, y, c = np.exp(log_ratio / 2), np.exp(-log_ratio / 2), 2 * math.cosh(epsilon / 2)
    level = np.maximum(0, x - y)
    for _ in range(2):
        before, level = level, x.copy()
        for _ in range(3000):
            best = np.maximum(level[2:] + before[:-2], before[2:] + level[:-2]) / c
            level[1:-1] = np.maximum(np.maximum(0, x - y)[1:-1], best)
            level[0] = 0
    below = level[top::-1][: top // 3] * np.exp(np.arange(top // 3) * epsilon / 2)
    assert below == pytest.approx(curve(epsilon, 2, top // 3), rel=1e-6)


def test_q_targets_lie_between_their_neighbours():
    asked = {"epsilon_per_call": 0.1, "hits": 5, "delta": 1e-6}
    not_prior = exact_total(**asked)
    q = 1 / (math.exp(0.1) + 1)
    totals = [target_total(**asked, q=rate) for rate in (0.05, 0.2, q, 0.6, 1.0)]
    assert totals == sorted(totals, reverse=True)
    assert totals[2] >= not_prior * (1 - 1e-9)
    assert totals[4] == pytest.approx(0.5, rel=1e-4)


def test_q_target_curve_dominates_random_analysts():
    """Calls whose two parts both hit with at least q, with a common part that never does."""
    rng = np.random.default_rng(3)
    epsilon, q, calls = 0.4, 0.25, 5
    curves = lattice_curves(epsilon, [MenuCall(1, 1, q)], 300)
    bound = [next(curves) for _ in range(2)][-1]
    for _ in range(80):
        leaves = _q_leaves(rng, epsilon, q, 2, calls)
        for k in range(8):
            assert divergence(leaves, k * epsilon) <= bound[k] * (1 + 1e-12)


def _q_leaves(rng, epsilon, q, most_hits, calls):
    p = 1 / (1 + math.exp(-epsilon))

    def grow(p0, p1, hits, left):
        if left == 0 or hits == most_hits:
            return [Leaf(p0, p1, (epsilon,) * hits)]
        while True:
            u, v = rng.random(2) if rng.random() < 0.5 else rng.choice([0.0, q, min(1.0, q / (1 - p))], 2)
            if min(u * p + v * (1 - p), u * (1 - p) + v * p) >= q - 1e-12:
                break
        common = rng.choice([0.0, 0.0, 0.5])
        parts = [(common, common, 0)]
        for a, b, hit in ((p, 1 - p, u), (1 - p, p, v)):
            parts += [((1 - common) * a * hit, (1 - common) * b * hit, 1)]
            parts += [((1 - common) * a * (1 - hit), (1 - common) * b * (1 - hit), 0)]
        return [leaf for a, b, hit in parts if a + b > 0 for leaf in grow(p0 * a, p1 * b, hits + hit, left - 1)]

    return grow(1.0, 1.0, 0, calls)


def test_menu_curve_dominates_mixed_analysts():
    """Calls of one and of three grains, a hit of the larger costing two tokens."""
    rng = np.random.default_rng(8)
    grain = 0.2
    curves = lattice_curves(grain, [MenuCall(1, 1), MenuCall(3, 2), MenuCall(2, 1, 1.0)], 300)
    bound = [next(curves) for _ in range(3)][-1]
    for _ in range(40):
        leaves = _menu_leaves(rng, grain, 3, 5)
        for k in range(10):
            assert divergence(leaves, k * grain) <= bound[k] * (1 + 1e-12)


def _menu_leaves(rng, grain, tokens, calls):
    def grow(p0, p1, left, remaining):
        kinds = [kind for kind in ((1, 1, False), (3, 2, False), (2, 1, True)) if kind[1] <= left]
        if remaining == 0 or not kinds:
            return [Leaf(p0, p1, ())]
        steps, cost, release = kinds[rng.integers(len(kinds))]
        laws = response_pair(steps * grain) if rng.random() < 0.7 else random_pair(rng, steps * grain)
        prior = None if release else rng.integers(len(laws[0]))
        return [
            leaf
            for outcome, (a, b) in enumerate(zip(*laws, strict=True))
            for leaf in grow(p0 * a, p1 * b, left if outcome == prior else left - cost, remaining - 1)
        ]

    return grow(1.0, 1.0, tokens, calls)


def test_curve_is_below_its_competitors():
    for epsilon, hits in ((0.1, 1), (0.1, 20), (0.02, 50), (0.5, 3)):
        asked = {"epsilon_per_call": epsilon, "hits": hits, "delta": 1e-6}
        assert exact_total(**asked) <= exact_tail_total(**asked) <= published_total(**asked)


def test_delta_and_total_are_inverse():
    total = exact_total(epsilon_per_call=0.07, hits=9, delta=1e-7)
    assert exact_delta(epsilon_per_call=0.07, hits=9, epsilon=total) == pytest.approx(1e-7, rel=1e-9)


def test_interpolation_rounds_up():
    """A convex curve sampled coarsely gives at least the epsilon of the fine one."""
    fine = curve(0.1, 3, 200)
    for delta in (1e-3, 1e-6, 3e-9):
        assert convex_upper(fine[::2], 0.2, delta) >= convex_upper(fine, 0.1, delta) - 1e-12


@pytest.mark.parametrize(
    "bad",
    [
        {"epsilon_per_call": 0},
        {"epsilon_per_call": float("nan")},
        {"epsilon_per_call": "inf"},
        {"hits": 0},
        {"hits": 1.5},
        {"delta": 0},
        {"delta": 1},
        {"epsilon_per_call": 701},
        {"delta": "1e-301"},
        {"hits": 10**6 + 1},
    ],
)
def test_bad_numbers_are_refused(bad):
    with pytest.raises(InvalidParameter):
        exact_total(**{"epsilon_per_call": 0.1, "hits": 1, "delta": 1e-6, **bad})


@pytest.mark.parametrize(("grain", "steps"), [(0.1, 1), (0.02, 2), (0.1, 50), (0.1, 300), (0.1, 3000)])
@pytest.mark.parametrize("part", [None, 0.3, 1 - 1e-9, 1.5])
def test_chances_of_a_call_are_known_to_a_fraction_of_what_the_lattice_rounds_up_by(grain, steps, part):
    """However many grains it has, and however near q is to the chance of the less likely atom."""
    allowed = 2.0**-48 / 16  # a worth of a call of two atoms may be off by 32 units
    with localcontext(prec=100):
        odds = (-steps * Decimal(grain)).exp()
        p, r = 1 / (1 + odds), odds / (1 + odds)
        call = MenuCall(steps, 1, None if part is None else part * float(r))
        q = Decimal(call.q or 0)
        exact = [(p * q, p * (1 - q), r * q, r * (1 - q)), (p * q / r, p * (r - q) / r, 0, r), (0, p, q, r - q)]
        if q > r:
            exact[1:] = [(q - r, 1 - q, r, 0), (p, 0, r * (q - r) / p, r * (1 - q) / p)]
        if part is None:
            exact = [(0, p, r, 0), (p, 0, 0, r)]
        for option, chances in zip(_options(grain, call), exact, strict=True):
            found = (option.hit_high, option.miss_high, option.hit_low, option.miss_low)
            assert all(
                abs(Decimal(one) - other) <= other * Decimal(allowed) for one, other in zip(found, chances, strict=True)
            )
