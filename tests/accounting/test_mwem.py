"""MWEM's calculators: margins against the exact laws of noise and choice, the published bound, laws, bad input."""

import math
from fractions import Fraction

import pytest

from chary.accounting.synthesis import (
    GRID,
    MOST_ROUNDS,
    best_rounds,
    earlier_mwem_law,
    mwem_error_up,
    mwem_law,
    mwem_margins_up,
)
from chary.errors import InvalidParameter
from chary.mechanisms.weights import MwemRounds
from chary_research.published import published_mwem_error

SIZES = [{"epsilon": "0.3"}, {"epsilon": 8}, {"rho": "0.001"}, {"rho": 2}]


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize(("queries", "rounds"), [(1, 1), (3, 5), (2000, 20)])
def test_margins_keep_both_halves_of_every_round_and_smaller_ones_would_not(sizes, queries, rounds):
    beta, made = 0.1, MwemRounds(rounds, **sizes)
    margins = mwem_margins_up(queries=queries, rounds=rounds, confidence=1 - beta, **sizes)

    def noise_fails(steps):
        return -math.expm1(rounds * math.log1p(-2 * made.noise.at_least(steps + 1)))

    def pick_fails(steps):
        """By the worst errors: one query on top, all others lower by one part of a row more than `steps`."""
        utilities = [math.floor(steps * GRID) + 1] + [0] * min(queries - 1, 20)
        miss = 1 - made.chooser.law(utilities).probabilities()[0]
        return rounds * miss

    assert noise_fails(margins.noise) <= beta / 2
    assert noise_fails(math.floor(margins.noise * 2 / 3)) > beta / 2 or margins.noise <= 2
    if queries <= 20:
        assert pick_fails(margins.loss) <= beta / 2
        assert pick_fails(margins.loss * 2 / 3) > beta / 2 or not margins.loss
    assert margins.tested == pytest.approx(margins.noise + margins.loss + 1 / GRID)


@pytest.mark.parametrize("sizes", [{"epsilon": 1}, {"rho": "0.5"}])
@pytest.mark.parametrize("rounds", [1, 7, 40])
@pytest.mark.parametrize("beta", ["0.5", "0.05", "0.000001"])
@pytest.mark.parametrize("part", ["1", "0.1", "0.001"])
def test_the_law_promises_no_more_than_the_exact_margins(sizes, rounds, beta, part):
    """At epsilon, and at `rho = epsilon^2/2`; the law's noise is at most 2.5 times as far away, mostly far less."""
    gaussian, size, epsilon = "rho" in sizes, 10**6, Fraction(part)
    given = {"rho": epsilon**2 / 2} if gaussian else {"epsilon": epsilon}
    told = mwem_law(cells=5000, queries=300, rounds=rounds, gaussian=gaussian)
    exact = mwem_error_up(cells=5000, queries=300, rounds=rounds, size=size, confidence=1 - Fraction(beta), **given)
    law = told.error(size=size, epsilon=epsilon, beta=beta)
    assert exact <= min(1.0, law) + 1e-12
    if exact < 1:
        noise_of_law, base = law - float(told.base), float(told.base)
        assert noise_of_law <= 2.5 * (exact - base) + 5 / size


@pytest.mark.parametrize("gaussian", [False, True])
@pytest.mark.parametrize("rounds", [1, 6])
@pytest.mark.parametrize("beta", [0.1, 0.01])
def test_the_exact_laws_of_all_rounds_keep_the_noise_of_the_law_and_not_three_quarters(gaussian, rounds, beta):
    """Both parts by the mechanism's own laws: discrete noise, and the worst errors for a pick among six queries."""
    epsilon, queries, root = Fraction(1, 50), 6, math.sqrt(rounds)
    sizes = {"rho": epsilon**2 / 2} if gaussian else {"epsilon": epsilon}
    made, told = MwemRounds(rounds, **sizes), mwem_law(cells=50, queries=queries, rounds=rounds, gaussian=gaussian)
    height = math.log(float(told.choices) / beta)
    noise = 2 * rounds * 5 if not gaussian else 5 * 2 * root / (2 * math.sqrt(math.log(400 * rounds)))
    spent = float(told.factor) * height / float(epsilon)
    unit = root * math.sqrt(2) if gaussian else 4 * rounds
    part = noise / (noise + unit)
    loss = unit * math.log(rounds * (queries - 1) / (1 - part) / beta / (1 if gaussian else 2)) / float(epsilon)

    def fails(scale):
        reach, steps = scale * (spent - loss) / 5, scale * loss
        noisy = 2 * made.noise.at_least(math.floor(reach) + 1)
        worst = [math.floor(steps * GRID) + 1] + [0] * (queries - 1)
        missed = 1 - made.chooser.law(worst).probabilities()[0]
        return 1 - ((1 - noisy) * (1 - missed)) ** rounds

    assert fails(1) <= beta
    assert fails(0.75) > beta


@pytest.mark.parametrize("gaussian", [False, True])
@pytest.mark.parametrize("queries", [2, 2000])
@pytest.mark.parametrize("beta", ["0.05", "0.000001"])
def test_the_law_promises_more_than_that_of_earlier_versions(gaussian, queries, beta):
    known = {"cells": 1000, "queries": queries, "rounds": 20, "gaussian": gaussian}
    now, before = mwem_law(**known), earlier_mwem_law(**known)
    at = {"size": 10**6, "epsilon": 1, "beta": beta}
    assert now.base == before.base
    assert now.error(**at) < before.error(**at)


@pytest.mark.parametrize("rounds", [1, 7, 40])
@pytest.mark.parametrize("each", [1, 30, 1000])
def test_the_law_is_kept_by_runs_of_many_times_the_epsilon_of_a_round(rounds, each):
    told = mwem_law(cells=5000, queries=300, rounds=rounds)
    exact = mwem_error_up(cells=5000, queries=300, rounds=rounds, size=1000, confidence="0.95", epsilon=each * rounds)
    assert exact <= told.error(size=1000, epsilon=each * rounds, beta="0.05")


def test_the_published_bound_and_ours():
    known = {"cells": 1000, "queries": 100, "rounds": 10, "size": 10**5}
    assert published_mwem_error(**known, epsilon=1) == pytest.approx(
        2 * math.sqrt(math.log(1000) / 10) + 10 * 10 * math.log(100) / 10**5
    )
    huge = {**known, "size": 10**12}
    ratio = published_mwem_error(**huge, epsilon=1) / mwem_error_up(**huge, epsilon=1)
    assert ratio == pytest.approx(2 * math.sqrt(2), rel=1e-4)


@pytest.mark.parametrize("sizes", [{"epsilon": 1}, {"rho": "0.02"}])
@pytest.mark.parametrize("size", [20_000, 10**6])
def test_the_best_rounds_are_the_best_of_all(sizes, size):
    known = {"cells": 10_000, "queries": 50, "size": size} | sizes
    found = best_rounds(**known)
    least = mwem_error_up(**known, rounds=found)
    assert all(mwem_error_up(**known, rounds=rounds) >= least * (1 - 2e-3) for rounds in range(1, MOST_ROUNDS, 9))


@pytest.mark.parametrize(
    "bad",
    [
        lambda: mwem_margins_up(queries=0, rounds=1, epsilon=1),
        lambda: mwem_margins_up(queries=3, rounds=0, epsilon=1),
        lambda: mwem_margins_up(queries=3, rounds=MOST_ROUNDS + 1, epsilon=1),
        lambda: mwem_margins_up(queries=3, rounds=1),
        lambda: mwem_margins_up(queries=3, rounds=1, epsilon=1, rho=1),
        lambda: mwem_margins_up(queries=3, rounds=1, epsilon=-1),
        lambda: mwem_margins_up(queries=3, rounds=1, epsilon=1, confidence=1),
        lambda: mwem_error_up(cells=1, queries=3, rounds=1, size=10, epsilon=1),
        lambda: mwem_error_up(cells=10, queries=3, rounds=1, size=0, epsilon=1),
        lambda: published_mwem_error(cells=10, queries=3, rounds=1, size=10, epsilon=0),
        lambda: mwem_law(cells=10, queries=0, rounds=1),
    ],
)
def test_bad_parameters_are_refused(bad):
    with pytest.raises(InvalidParameter):
        bad()
