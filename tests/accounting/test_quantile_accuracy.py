"""Promised rank errors: against exact laws on hostile data, and how halving adds them up."""

from fractions import Fraction

import numpy as np
import pytest

from chary.accounting import rank_error_up, rank_errors_up
from chary.accounting.accuracy import halvings
from chary.errors import InvalidParameter
from chary.mechanisms import InverseSensitivity, Order, RankDistance


@pytest.mark.parametrize("epsilon", ["0.2", "1"])
@pytest.mark.parametrize("q", ["0.5", "0.1"])
@pytest.mark.parametrize("replace", [False, True])
def test_the_worst_data_exceed_it_as_seldom_as_promised(epsilon, q, replace):
    """All values on one place but a cliff: beyond it the whole grid is as many ranks off as one likes."""
    points, size, beta = 10_000, 4000, 0.05
    change = Fraction(1) if replace else max(Fraction(q), 1 - Fraction(q))
    limit = rank_error_up(epsilon=epsilon, points=points, beta=str(beta), change=change)
    worst = 0.0
    for beyond in range(max(1, limit - 3), limit + 60, 3):
        above = int((1 - Fraction(q)) * size) - beyond
        if above < 0:
            continue
        places, counts = np.array([0, 1, points - 1]), np.array([size - above - 1, 1, max(1, above)])
        order = Order(places, counts, points)
        stretches = RankDistance(q, replace).stretches(order)
        law = InverseSensitivity(epsilon).law(stretches)
        levels = dict(zip(law.levels.tolist(), law.probabilities(), strict=True))
        n = int(counts.sum())
        below = np.array([counts[places < start].sum() for start in stretches.starts])
        on = np.array([counts[places == start].sum() for start in stretches.starts])
        errors = np.maximum(below - float(q) * n, (n - below - on) - (1 - float(q)) * n)
        totals = np.bincount(stretches.distances, weights=stretches.widths)
        chances = np.array([levels[d] / totals[d] for d in stretches.distances]) * stretches.widths
        worst = max(worst, float(chances[errors > limit].sum()))
    assert worst <= beta
    assert worst > beta / 20


def test_halving_visits_each_quantile_once_and_parents_first():
    for many in range(1, 40):
        at = [Fraction(k, many + 1) for k in range(1, many + 1)]
        choices = list(halvings(at))
        assert sorted(choice.position for choice in choices) == list(range(many))
        assert 1 + max(choice.depth for choice in choices) == many.bit_length()
        seen = {None: -1}
        for choice in choices:
            assert choice.depth == seen[choice.parent] + 1
            seen[choice.position] = choice.depth
            assert 0 < choice.relative < 1


def test_relative_levels_put_together_are_the_quantiles():
    at = [Fraction(k, 100) for k in (3, 10, 11, 50, 77, 99)]
    edges = {None: (Fraction(0), Fraction(1))}
    for choice in halvings(at):
        low, high = edges[choice.parent]
        if choice.parent is not None:
            cut = at[choice.parent]
            low, high = (cut, high) if choice.position > choice.parent else (low, cut)
        assert low + choice.relative * (high - low) == at[choice.position]
        edges[choice.position] = (low, high)


def test_errors_shrink_with_epsilon_and_grow_with_the_grid():
    sizes = {"at": ["0.25", "0.5", "0.75"], "beta": "0.05", "replace": True}
    base = rank_errors_up(epsilon=1, points=1000, **sizes)
    assert all(a < b for a, b in zip(rank_errors_up(epsilon=2, points=1000, **sizes), base, strict=True))
    assert all(a > b for a, b in zip(rank_errors_up(epsilon=1, points=10**6, **sizes), base, strict=True))
    [single] = rank_errors_up(epsilon=1, at=["0.5"], points=1000, beta="0.05", replace=True)
    assert single == rank_error_up(epsilon=1, points=1000, beta="0.05", change=1)
    many = rank_errors_up(epsilon=1, at=["0.5", "0.6"], points=1000, beta="0.05", replace=False, moves=3)
    assert many[0] == rank_error_up(epsilon="0.5", points=1000, beta="0.025", change="1.5")


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("many", [1, 2, 3, 6, 7])
def test_the_promised_error_is_the_sum_over_the_choices_that_lead_there(replace, many):
    """From the shares themselves: a round gets its part of epsilon; under replace later choices see two units move."""
    at = [Fraction(k, many + 1) for k in range(1, many + 1)]
    rounds = next(r for r in range(1, 10) if 2**r > many)
    chosen = {choice.position: choice for choice in halvings(at)}

    def error(place):
        choice = chosen[place]
        first = choice.parent is None
        share = Fraction(1, rounds) if first or not replace else Fraction(1, 2 * rounds)
        change = 1 if replace and first else max(choice.relative, 1 - choice.relative)
        own = rank_error_up(epsilon=share, points=1000, beta=Fraction(1, 20 * many), change=change)
        return own if first else own + error(choice.parent)

    found = rank_errors_up(epsilon=1, at=at, points=1000, beta="0.05", replace=replace)
    assert found == [error(place) for place in range(many)]


@pytest.mark.parametrize("wrong", [{"epsilon": 0}, {"points": 0}, {"beta": 0}, {"beta": 1}, {"change": 0}])
def test_bad_input(wrong):
    with pytest.raises(InvalidParameter):
        rank_error_up(**({"epsilon": 1, "points": 10, "beta": "0.05", "change": 1} | wrong))
