"""The matrix mechanism: what one unit changes, which strategy is the best, and how far answers are off."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import chary
from chary import InvalidQuery, count
from chary.accounting import laplace_deviation
from chary.accounting.accuracy import gaussian_sum_error_up, laplace_multiple_up, laplace_sum_error_up
from chary.accounting.intervals import Combination
from chary.data import NeighborRelation
from chary.mechanisms.workloads import (
    CellChange,
    LinearQueries,
    MatrixMeasurement,
    Noising,
    SumStrategy,
    best_measurement,
    hierarchy,
    strategies,
)
from chary.noise import Seeded

LAPLACE, GAUSS = Noising(1, gaussian=False), Noising("0.5", gaussian=True)
ONE = CellChange(1, 1, 1)


def line(size):
    return tuple((place,) for place in range(size))


GRID = tuple(itertools.product("fm", range(3)))
WORKLOADS = {
    "prefixes": LinearQueries.of("prefixes", line(12), ("k",)),
    "ranges": LinearQueries.of("ranges", line(9), ("k",)),
    "marginals": LinearQueries.of([["sex"], ["sex", "age"], []], GRID, ("sex", "age")),
    "rows": LinearQueries.of([[1, 2, 0, 0], [0, -1, 3, 3]], line(4), ("k",)),
}
CELLS = {"prefixes": line(12), "ranges": line(9), "marginals": GRID, "rows": line(4)}


def changes(query, neighbors, size):
    """All changes of the cells by one unit, of a small query, by brute force."""
    cell = query.contribution(NeighborRelation(neighbors, "patient"))
    parts = range(cell.low, cell.high + 1)
    each = [
        row
        for row in itertools.product(
            range(min(parts) * (cell.rows or 1), max(parts) * (cell.rows or 1) + 1), repeat=size
        )
        if np.count_nonzero(row) <= cell.spread
        and sum(map(abs, row)) <= (cell.rows or cell.spread) * max(-cell.low, cell.high)
    ]
    arrays = np.array(each)
    if neighbors == "replace":
        return np.unique((arrays[:, None, :] - arrays[None, :, :]).reshape(-1, size), axis=0)
    return np.concatenate([arrays, -arrays])


KEYED = {
    "one": lambda keys: count().by("k", keys, max_groups_per_unit=1),
    "two": lambda keys: count().by("k", keys, max_groups_per_unit=2),
    "all": lambda keys: count().by("k", keys),
    "signed": lambda keys: chary.sum("x", bounds=(-1, 2), unit_total=(-1, 2)).by("k", keys, max_groups_per_unit=1),
    "rows": lambda keys: chary.sum("x", bounds=(-1, 1), max_rows_per_unit=2).by("k", keys),
}


@pytest.mark.parametrize("neighbors", ["add_remove", "replace"])
@pytest.mark.parametrize("limit", KEYED)
@pytest.mark.parametrize("noising", [LAPLACE, GAUSS], ids=["laplace", "gauss"])
def test_the_noise_of_every_strategy_makes_it_private(neighbors, limit, noising):
    """All changes of four cells: the losses of all sums together stay within the size, and some come near."""
    query, neighbor_relation = KEYED[limit](range(4)), NeighborRelation(neighbors, "patient")
    change = CellChange(
        query.sensitivity(neighbor_relation), query.together(neighbor_relation), query.l1(neighbor_relation)
    )
    moved, tight = changes(query, neighbors, 4), 0.0
    assert np.abs(moved).max() == change.single
    asked = LinearQueries.of([[1, 1, 0, 0], [0, 2, -1, 1], [0, 0, 1, 1]], line(4), ("k",))
    for strategy in strategies(asked, line(4)):
        shares = tuple(Fraction(1, len(strategy.groups)) for _ in strategy.groups)
        made = MatrixMeasurement(asked, strategy, shares, change, noising)
        losses = np.zeros(len(moved))
        for group, noise in zip(strategy.groups, made.noises, strict=True):
            differences = moved @ group.T
            most, added = change.of(group)
            assert np.abs(differences).max() <= most
            assert np.abs(differences).sum(axis=1).max() <= added
            squares = (differences**2).sum(axis=1)
            scaled = np.abs(differences).sum(axis=1) / float(getattr(noise, "scale", 1))
            losses += squares / (2 * float(noise.sigma_squared)) if noising.gaussian else scaled
        assert losses.max() <= float(Fraction(noising.size)) * (1 + 1e-9)
        tight = max(tight, losses.max())
    assert tight > float(Fraction(noising.size)) * 0.6


@pytest.mark.parametrize("name", WORKLOADS)
@pytest.mark.parametrize("noising", [LAPLACE, GAUSS], ids=["laplace", "gauss"])
def test_answers_are_unbiased_and_as_exact_as_is_told(name, noising):
    asked = WORKLOADS[name]
    for strategy in strategies(asked, CELLS[name]):
        shares = tuple(Fraction(1, len(strategy.groups)) for _ in strategy.groups)
        made = MatrixMeasurement(asked, strategy, shares, ONE, noising)
        assert np.allclose(made.combination @ made.sums, asked.weights, atol=1e-8)
        deviations = [
            math.sqrt(n.sigma_squared) if noising.gaussian else laplace_deviation(n.scale) for n in made.noises
        ]
        each = np.repeat(deviations, [len(group) for group in strategy.groups])
        solved = asked.weights @ np.linalg.pinv(made.sums / each[:, None])
        assert np.allclose(np.sqrt((solved**2).sum(axis=1)), made.deviations, rtol=0.02 if noising is LAPLACE else 1e-6)


def test_the_best_strategy_is_the_best_of_those_that_are_tried():
    for name, asked in WORKLOADS.items():
        for noising in (LAPLACE, GAUSS):
            best = best_measurement(asked, CELLS[name], ONE, noising)
            for strategy in strategies(asked, CELLS[name]):
                try:
                    made = best_measurement(asked, CELLS[name], ONE, noising, strategy.name)
                except InvalidQuery:
                    continue
                assert best.rms <= made.rms / 0.999
                equal = tuple(Fraction(1, len(strategy.groups)) for _ in strategy.groups)
                assert made.rms <= MatrixMeasurement(asked, strategy, equal, ONE, noising).rms * 1.01


def test_known_best_strategies():
    cells = LinearQueries.of("cells", line(8), ("k",))
    assert best_measurement(cells, line(8), ONE, LAPLACE).strategy.name == "identity"
    only = LinearQueries.of([[1] * 8], line(8), ("k",))
    assert best_measurement(only, line(8), ONE, LAPLACE).strategy.name == "workload"
    assert best_measurement(only, line(8), ONE, LAPLACE).rms == pytest.approx(laplace_deviation(1))
    many = LinearQueries.of("prefixes", line(64), ("k",))
    found = best_measurement(many, line(64), ONE, GAUSS)
    assert found.strategy.name.startswith("hierarchy")
    # No strategy can have less, by the singular values (Li, Miklau 2013); the hierarchy is within a fifth of it.
    values = np.linalg.svd(many.weights.astype(float), compute_uv=False)
    limit = math.sqrt(values.sum() ** 2 / 64 / 64 / (2 * 0.5))
    assert limit <= found.rms <= 1.2 * limit


@pytest.mark.statistical
@pytest.mark.parametrize("noising", [LAPLACE, GAUSS], ids=["laplace", "gauss"])
def test_errors_are_as_large_as_is_told(noising):
    """The mean of the squares of 4,000 errors; a scale that is wrong by 2/3 or 3/2 is rejected."""
    made = best_measurement(WORKLOADS["ranges"], line(9), ONE, noising)
    source, runs, cells = Seeded(8), 4000, np.arange(9) * 7
    truth = WORKLOADS["ranges"].weights @ cells
    drawn = [
        noise.draw(source, runs * len(sums)).reshape(runs, -1)
        for sums, noise in zip(made.exact(cells), made.noises, strict=True)
    ]
    noisy = np.concatenate([exact.astype(float) + d for exact, d in zip(made.exact(cells), drawn, strict=True)], axis=1)
    errors = noisy @ made.combination.T - truth
    question = int(np.argmax(made.deviations))
    squares = errors[:, question] ** 2
    spread = stats.norm.isf(1e-6 / 2) * squares.std() / math.sqrt(runs)
    assert abs(squares.mean() - made.deviations[question] ** 2) < spread
    for wrong in (2 / 3, 3 / 2):
        assert abs(squares.mean() - (wrong * made.deviations[question]) ** 2) > spread
    reach = [
        Combination(float(d), float(a), float(s), noising.gaussian).reach()
        for d, a, s in zip(
            made.smooth_deviations, abs(made.combination).sum(axis=1), (made.combination**2).sum(axis=1), strict=True
        )
    ]
    misses = (np.abs(errors) > reach).sum(axis=0)
    assert misses.max() <= stats.binom.isf(1e-6, runs, 0.05)


def laplace_masses(scale, weight, reach):
    """The law of weight times a discrete Laplace noise on -reach..reach."""
    found, r = np.zeros(2 * reach + 1), math.exp(-1 / scale)
    for k in range(-(reach // weight), reach // weight + 1):
        found[reach + weight * k] = r ** abs(k) * (1 - r) / (1 + r)
    return found


@pytest.mark.parametrize("beta", [0.05, 0.01])
@pytest.mark.parametrize(
    "terms",
    [[(20, 1)], [(20, 1)] * 2, [(20, 1)] * 8, [(5, 3), (30, 1)], [(1, 1)] * 5, [(40, 1), (3, 1), (3, 2)]],
    ids=str,
)
def test_a_weighted_sum_of_laplace_noises_stays_within_its_reach(terms, beta):
    """By the exact law of the sum; and the reach is at most a third more than what is needed."""
    size = 3000
    law = np.zeros(2 * size + 1)
    law[size] = 1
    for scale, weight in terms:
        law = np.convolve(law, laplace_masses(scale, weight, size), mode="full")[size : 3 * size + 1]
    deviation = math.sqrt(sum(2 * (scale * weight) ** 2 for scale, weight in terms))
    weights = [weight for _, weight in terms]
    reach = laplace_sum_error_up(deviation, sum(weights), sum(w * w for w in weights), beta)
    beyond = np.abs(np.arange(-size, size + 1))
    assert law[beyond > reach].sum() <= beta
    if deviation > 25:
        assert law[beyond > 0.75 * reach].sum() > beta


def test_the_multiple_of_laplace_noise_is_near_that_of_a_single_one():
    for beta in (0.05, 0.01, 1e-3, 1e-6):
        single = math.log(1 / beta) / math.sqrt(2)
        assert single <= laplace_multiple_up(beta) <= 1.03 * single
    assert 0.5 <= laplace_multiple_up(0.999) < 1


def test_gaussian_sums_are_bounded_by_both_tails():
    assert gaussian_sum_error_up(100, 1, "0.05") == pytest.approx(196.9964, abs=1e-3)
    assert gaussian_sum_error_up(1, 9, "0.05") == pytest.approx(math.sqrt(2 * math.log(40)))


def test_totals_of_any_size_are_summed_exactly():
    made = best_measurement(WORKLOADS["ranges"], line(9), ONE, LAPLACE)
    huge = np.array([2**70 + 1] + [3] * 8, dtype=object)
    sums = made.exact(huge)
    assert all(type(value) is int for group in sums for value in group)
    assert max(max(group) for group in sums) > 2**70


def test_shapes_of_workloads():
    marginals = WORKLOADS["marginals"]
    assert marginals.columns == ("sex", "age")
    assert marginals.keys[:2] == (("f", None), ("m", None))
    assert marginals.keys[-1] == (None, None)
    assert marginals.weights.sum(axis=1).tolist() == [3, 3, *[1] * 6, 6]
    assert WORKLOADS["ranges"].keys[1] == (0, 1)
    assert len(WORKLOADS["ranges"].keys) == 45
    named = LinearQueries.of({"old": [0, 0, 1], "all": [1, 1, 1]}, line(3), ("k",))
    assert named.keys == (("old",), ("all",))
    assert [len(level) for level in hierarchy(10, 2).groups] == [10, 5, 3, 2, 1]


@pytest.mark.parametrize(
    ("workload", "cells"),
    [
        ("all", line(4)),
        ("ranges", line(1)),
        ("ranges", line(257)),
        ("ranges", line(250)),
        ([], line(4)),
        ([[1, 2]], line(3)),
        ([[0, 0, 0]], line(3)),
        ([[1, 2, 2**21]], line(3)),
        ([[1, 0.5, 1]], line(3)),
        ([["sex"], ["height"]], GRID),
        ([["sex", "sex"]], GRID),
        ([["sex"], ["sex"]], GRID),
    ],
)
def test_what_is_no_workload_is_refused(workload, cells):
    with pytest.raises(InvalidQuery):
        LinearQueries.of(workload, cells, ("sex", "age"))


def test_a_strategy_that_cannot_answer_is_refused():
    asked = LinearQueries.of([[1, 1, 0]], line(3), ("k",))
    with pytest.raises(InvalidQuery, match="one of identity, workload"):
        best_measurement(asked, line(3), ONE, LAPLACE, "marginals")
    made = best_measurement(asked, line(3), ONE, LAPLACE)
    less = replace(made, strategy=SumStrategy("one", (np.array([[1, 0, 0]]),)), shares=(Fraction(1),))
    assert not np.allclose(less.combination @ less.sums, asked.weights)


def test_changes_beyond_64_bits_are_counted_exactly():
    """Those of units with many rows of large values; they raised before the noise could be refused."""
    change = CellChange(single=2**70, together=2**71, l1=2**72)
    assert change.of(np.array([[1, 1, 0], [0, 1, -1]])) == (2**71, 2**73)
