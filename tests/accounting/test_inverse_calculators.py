"""Laws turned round for the budget, the population, and the number of queries: the least that does, and no less."""

from fractions import Fraction

import pytest

from chary.accounting import zero_concentrated_rho_down
from chary.accounting.schedules import (
    Law,
    best_growth,
    epochs_epsilon,
    epochs_error,
    population_risk_up,
    population_rows,
    static_epsilon,
)
from chary.accounting.weights import exact_queries_allowed, round_alpha_up, weight_rounds
from chary.errors import InvalidParameter

LAWS = [Law(1, 2), Law("1/3", 4, 10, base="0.01"), Law(1, 2, 5, "1/2", size_power="3/4", size_log=1)]


@pytest.mark.parametrize("law", LAWS, ids=range(len(LAWS)))
def test_the_epsilon_of_one_run_is_the_least(law):
    epsilon = static_epsilon(law, accuracy="0.2", size=10_000, beta="0.05")
    assert law.error(size=10_000, epsilon=epsilon, beta="0.05") <= 0.2 * (1 + 1e-9)
    assert law.error(size=10_000, epsilon=epsilon * 0.999, beta="0.05") > 0.2


@pytest.mark.parametrize("growth", [None, "0.05"])
@pytest.mark.parametrize("delta", [None, "1e-6"])
def test_the_budget_of_a_schedule_is_the_least(growth, delta):
    law, terms = Law(1, 2, 10), {"start": 10**6, "beta": "0.05"}
    epsilon = epochs_epsilon(law, accuracy="0.08", growth=growth, delta=delta, **terms)

    def error(size):
        given = {"epsilon": size}
        if delta:
            exact = {"epsilon": _fraction(size), "delta": _fraction("1e-6")}
            given = {"rho": zero_concentrated_rho_down(**exact)}
        own = best_growth(law, **terms, **given) if growth is None else growth
        return epochs_error(law, growth=own, **terms, **given)

    assert error(epsilon) <= 0.08 * (1 + 1e-9)
    assert error(epsilon * 0.98) > 0.08
    with pytest.raises(InvalidParameter, match="no epsilon"):
        epochs_epsilon(law, accuracy="0.04", growth="0.05", **terms)


def _fraction(number):

    return Fraction(number) if isinstance(number, str) else Fraction(f"{number:.12g}")


@pytest.mark.parametrize("radius", [None, 1])
def test_rows_for_the_population_are_the_least(radius):
    law, given = Law(2, 3), {"lam": "0.1", "lipschitz": 1, "radius": radius}
    size = population_rows(law, risk="0.2", epsilon=1, beta="0.05", **given)

    def risk(rows):
        excess = law.error(size=rows, epsilon=1, beta="0.025")
        return population_risk_up(excess=excess, size=rows, beta="0.025", **given)

    assert risk(size) <= 0.2 < risk(size - 1)


@pytest.mark.parametrize("size", [4000, 7000])
def test_queries_are_the_most(size):
    terms = {"cells": 100, "epsilon": 3, "rounds": 5}
    found = exact_queries_allowed(alpha="0.1", size=size, **terms)
    rounds = weight_rounds(alpha="0.1", start=size, **terms)

    def alpha(queries):
        spread = min(queries, rounds.allowance.most(size))
        return round_alpha_up(rounds.noise(1, size), size=size, queries=queries, rounds=spread)

    assert alpha(found) <= 0.1 < alpha(found + max(1, found // 99))


def test_too_few_rows_allow_none():
    assert exact_queries_allowed(alpha="0.1", cells=100, size=100, epsilon=1, rounds=5) == 0
