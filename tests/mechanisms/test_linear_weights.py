"""Weighted cells: histograms as arrays, entropy lost by a change, MWEM and SmallDB by brute force over neighbours."""

import itertools
import math
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

from chary.mechanisms.small_database import Classes, SmallDatabases
from chary.mechanisms.weights import MultiplicativeWeights, MwemRounds, PublicHistogram, WeightVector
from chary.noise import OperatingSystem, Seeded
from tests.mechanisms.laws import entropy


@dataclass(frozen=True, eq=False)
class Weighed:
    """Cells with weights, and the same by hand."""

    which: np.ndarray
    patterns: np.ndarray
    levels: np.ndarray

    @property
    def counts(self):
        return np.bincount(self.numbers.ravel(), minlength=len(self.levels)).astype(float)

    @property
    def count(self):
        return float(self.counts @ self.levels)

    @property
    def numbers(self):
        return self.patterns[self.which]

    @property
    def weights(self):
        return self.levels[self.numbers]


def any_cells(random, rows=7, columns=5, levels=(0, 0.25, 0.5, 1)):
    patterns = random.integers(0, len(levels), (3, columns)).astype(np.int32)
    return Weighed(random.integers(0, 3, rows), patterns, np.array(levels, float))


def test_a_histogram_weighs_and_tilts_as_an_array_does():
    random = np.random.default_rng(0)
    histogram, plain = PublicHistogram(7, 5), np.ones((7, 5))
    for _ in range(20):
        cells, factor = any_cells(random), float(np.exp(random.normal()))
        histogram.multiply(cells, factor)
        plain = plain * factor**cells.weights
        assert histogram.share(cells) == pytest.approx((plain * cells.weights).sum() / plain.sum(), rel=1e-5)
        masses = [plain[cells.numbers == level].sum() / plain.sum() for level in range(len(cells.levels))]
        assert histogram.masses(cells) == pytest.approx(masses, abs=1e-6)


@pytest.mark.parametrize("update", ["projected", "published"])
def test_a_change_takes_the_entropy_that_the_proof_says(update):
    """[GROW] Corollary 16 needs alpha^2/36 a change, or 2 alpha^2/9 by projection, for weights as for conditions."""
    random, alpha, changes = np.random.default_rng(5), 0.12, 0
    rule = MultiplicativeWeights("0.12", update, "0.1")
    each = 2 * alpha**2 / 9 if update == "projected" else alpha**2 / 36
    for _ in range(300):
        histogram = WeightVector(rule, 7, 5, 1000)
        for _ in range(3):
            cells = any_cells(random)
            answer = random.random()
            histogram.apply(histogram.change("", cells, 1000, answer, 0.02), cells)
        people, cells = random.dirichlet(np.full(35, 0.2)), any_cells(random)
        truth, share = float(people @ cells.weights.ravel()), histogram.share(cells, 1000)
        answer = truth + random.uniform(-alpha / 3, alpha / 3)
        if abs(answer - share) <= 2 * alpha / 3:
            continue
        before = entropy(people, histogram.shares(1000))
        change = histogram.change("", cells, 1000, answer, 0.04)
        histogram.apply(change, cells)
        assert before - entropy(people, histogram.shares(1000)) >= each - 1e-5
        changes += 1
    assert changes > 100


def test_a_tilt_is_the_factor_of_a_condition_and_reaches_its_goal():
    rule = MultiplicativeWeights("0.06")
    for share, answer in ((0.3, 0.5), (0.7, 0.2), (0.97, 0.999), (0.02, 0.0)):
        found = rule.tilt(np.array([0.0, 1.0]), np.array([1 - share, share]), answer, 0.01)
        assert found == pytest.approx(rule.factor(share, answer, 0.01), rel=1e-9)
    levels, masses = np.array([0, 0.2, 0.9]), np.array([0.5, 0.3, 0.2])
    for answer in (0.05, 0.6):
        times = masses * rule.tilt(levels, masses, answer, 0.01) ** levels
        goal = answer + (0.01 if answer < 0.24 else -0.01)
        assert times @ levels / times.sum() == pytest.approx(goal, rel=1e-9)
    assert rule.tilt(levels, np.array([0, 0, 1.0]), 0.99, 0.01) == 1


def sums(grid):
    """Two linear queries of two rows with weights in steps, for all pairs of neighbours."""
    kinds = list(itertools.product(range(grid + 1), repeat=2))
    for kept, one, other in itertools.product(kinds, repeat=3):
        yield tuple(map(sum, zip(kept, one, strict=True))), tuple(map(sum, zip(kept, other, strict=True)))


@pytest.mark.parametrize("grid", [1, 2, 3])
def test_no_neighbours_are_told_apart_by_more_than_half_of_the_epsilon_in_a_pick(grid):
    """All neighbours of two rows: the law of the pick, and how far the measured sum moves in scales of its noise."""
    made, shares, worst, moved = MwemRounds(1, epsilon=1, grid=grid), np.array([0.31, 0.64]), 0.0, 0
    seen = {}

    def law(exact):
        if exact not in seen:
            recorder = Recorder()
            own = MwemRounds(1, epsilon=1, grid=grid)
            own.__dict__["chooser"] = recorder
            own.step(np.array(exact), shares, 2, OperatingSystem())
            seen[exact] = flipped(recorder.seen.tolist(), made)
        return seen[exact]

    for one, other in sums(grid):
        losses = [abs(math.log(a / b)) for a, b in zip(law(one), law(other), strict=True)]
        worst = max(worst, *losses)
        moved = max(moved, *(abs(a - b) for a, b in zip(one, other, strict=True)))
    assert 0.3 < worst <= 0.5 + 1e-9
    assert moved / float(made.noise.scale) == pytest.approx(0.5)
    # What is charged is that of a grid of 1, which finer steps never exceed.
    assert made.event.epsilon == 1
    for order in (Fraction(3, 2), Fraction(4), Fraction(64)):
        assert made.event.log_moment_up(order) <= MwemRounds(1, epsilon=1).event.log_moment_up(order)


def flipped(errors, made):
    """The law of permute-and-flip among two: the better one, unless the other is looked at first and accepted."""
    other = math.exp(-float(made.chooser.epsilon) * abs(errors[0] - errors[1]) / (2 * made.parts)) / 2
    return (1 - other, other) if errors[0] >= errors[1] else (other, 1 - other)


class Recorder:
    def step(self, utilities, source):
        self.seen = utilities
        return 0


LEVELS = [[0, 1, 4], [2, 0, 3]]
GRID = 4


def chances(data, rows, epsilon):
    """The law over candidates by the definition: each weighs exp(-epsilon n (largest error)/2)."""
    size, weights = sum(data), {}
    for database in itertools.combinations_with_replacement(range(3), rows):
        worst = max(
            abs(
                Fraction(sum(w * n for w, n in zip(query, data, strict=True)), size * GRID)
                - Fraction(sum(query[cell] for cell in database), rows * GRID)
            )
            for query in LEVELS
        )
        weights[database] = math.exp(-epsilon * size / 2 * worst)
    return {database: weight / sum(weights.values()) for database, weight in weights.items()}


def drawn(data, rows, epsilon, source=None):
    made = SmallDatabases(epsilon, rows, Classes.of(3, np.array(LEVELS), GRID))
    steps = [int(np.dot(query, data)) for query in LEVELS]
    if source is not None:
        return tuple(made.step(steps, sum(data), source))
    scores, which = made.scored(steps, sum(data))
    each = made.law(scores, which).probabilities()
    members = made.members(np.arange(len(which)))
    cells = {label: cell for cell, label in enumerate(made.classes.labels.tolist())}
    shared = Counter(which.tolist())
    return {
        tuple(sorted(cells[label] for label in members[:, number])): each[score] / shared[score]
        for number, score in enumerate(which.tolist())
    }


@pytest.mark.parametrize("rows", [1, 2, 4])
def test_small_databases_have_the_law_of_the_definition(rows):
    for data in ([3, 1, 0], [2, 2, 3]):
        known, found = chances(data, rows, 0.8), drawn(data, rows, "0.8")
        assert known.keys() == found.keys()
        for database, chance in known.items():
            assert found[database] == pytest.approx(chance, rel=1e-12)


def test_small_databases_keep_epsilon_for_all_neighbours_of_three_rows():
    worst = 0.0
    for data in itertools.combinations_with_replacement(range(3), 3):
        for place, other in itertools.product(range(3), range(3)):
            moved = [*data[:place], other, *data[place + 1 :]]
            laws = [drawn([list(each).count(cell) for cell in range(3)], 2, "0.8") for each in (data, moved)]
            worst = max(worst, *(abs(math.log(laws[0][key] / laws[1][key])) for key in laws[0]))
    assert 0.4 < worst <= 0.8 + 1e-12


def test_draws_are_those_of_the_law():
    source, many = Seeded(7), 2000
    tally = Counter(drawn([3, 1, 2], 2, 4, source) for _ in range(many))
    known = chances([3, 1, 2], 2, 4)
    statistic = sum((tally[key] - many * chance) ** 2 / (many * chance) for key, chance in known.items())
    # Chi-square of 5 degrees of freedom at alpha = 1e-6; the law of half the epsilon is rejected.
    assert statistic < 35.89
    wrong = chances([3, 1, 2], 2, 2)
    assert sum((tally[key] - many * chance) ** 2 / (many * chance) for key, chance in wrong.items()) > 35.89
