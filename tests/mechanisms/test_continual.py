"""Continual counting: the exact joint law of all steps, what one row can do to it, and that noise has its scale."""

import itertools
import json
import math
from fractions import Fraction

import numpy as np
import pytest

from chary.accounting import Repeated, ZeroConcentrated
from chary.accounting.continual import PrefixTree, best_tree, root_length, root_weights
from chary.errors import InvalidParameter
from chary.mechanisms import Gaussian, Laplace
from chary.mechanisms.additive import unpadded
from chary.mechanisms.continual import BinaryTree, RootFactorisation
from chary.noise import OperatingSystem, Seeded
from tests.noise.helpers import ALPHA, p_value

RATIO = Fraction(1, 3)


class Script:
    """Noise that was decided beforehand."""

    def __init__(self, noise):
        self.left = list(noise)

    def draw(self, source, size):
        return np.array([self.left.pop(0) for _ in range(size)], dtype=np.int64)


def told(make, increments, noise):
    """What all steps tell for these increments of a count, with this noise; and the last state."""
    mechanism, count, found = make(Script(noise)), 0, []
    state = mechanism.start()
    for step, more in enumerate(increments, 1):
        count += more
        values, state = mechanism.tell(step, state, np.array([count]), None)
        found.append(values[0])
    return tuple(found), state


def tree_of(tree):
    return lambda noise: BinaryTree(tree.steps, noise, tree)


def needed(make, before, after, noise):
    """The noise with which neighbours tell the same, step by step."""
    wanted, found = told(make, before, noise)[0], []
    for step in range(1, len(before) + 1):
        short = told(make, after[:step], [*found, 0])[0][-1]
        found.append(wanted[step - 1] - short)
    assert told(make, after, found)[0] == wanted
    return found


def moved(steps, place, by):
    """Increments, and those of a neighbour: one row in one step counts or does not."""
    before = [7 * step % 3 for step in range(steps)]
    after = list(before)
    after[place] += by
    return before, after


@pytest.mark.parametrize(("steps", "reach", "parts"), [(3, 1, 3), (3, 2, 2), (5, 2, 2), (3, 3, 1), (4, 3, 2)])
def test_the_joint_law_of_all_steps_is_as_private_as_the_reach_says_and_no_more(steps, reach, parts):
    """Noise is one to one with what is told, so the likelihood ratio of what is told is that of the noise."""
    make, worst = tree_of(PrefixTree(steps, reach, parts)), Fraction(0)
    for place, by in itertools.product(range(steps), (-1, 1)):
        before, after = moved(steps, place, by)
        shift = needed(make, before, after, [0] * steps)
        for noise in itertools.product((-2, 0, 1, 2), repeat=steps):
            other = [here + more for here, more in zip(noise, shift, strict=True)]
            exponent = sum(map(abs, other)) - sum(map(abs, noise))
            worst = max(worst, RATIO**-exponent, RATIO**exponent)
        assert needed(make, before, after, noise) == other
    used = max(tree_reach(PrefixTree(steps, reach, parts)))
    assert worst == RATIO**-used
    assert used <= reach


def tree_reach(tree):
    """In how many sums each step is."""
    make = tree_of(tree)
    for place in range(tree.steps):
        before, after = moved(tree.steps, place, 1)
        yield sum(map(abs, needed(make, before, after, [0] * tree.steps)))


@pytest.mark.parametrize("steps", [1, 2, 6, 13, 40])
@pytest.mark.parametrize("power", [1, 2])
def test_a_row_moves_the_noise_of_its_sums_by_one_each(steps, power):
    tree = best_tree(steps, power=power)
    make, largest = tree_of(tree), 0
    for place in range(steps):
        shift = needed(make, *moved(steps, place, 1), [0] * steps)
        assert set(shift) <= {0, -1}
        largest = max(largest, sum(map(abs, shift)))
    assert largest == tree.reach


@pytest.mark.parametrize("steps", [1, 6, 13, 40])
def test_a_step_has_the_noise_of_as_many_sums_as_its_height(steps):
    tree = best_tree(steps, power=1)
    for step in range(1, steps + 1):
        _, state = told(tree_of(tree), [0] * step, range(step))
        assert len(json.loads(unpadded(state))) == tree.height(step)


@pytest.mark.parametrize("steps", [1, 2, 9, 30])
def test_a_row_moves_the_noise_of_the_root_by_a_column_and_nothing_else_changes(steps):
    """With the noise moved by the column of the step, neighbours tell the same and keep the same, bit by bit."""
    weights, random = root_weights(steps).tolist(), np.random.default_rng(3)

    def make(noise):
        return RootFactorisation(steps, noise)

    largest = 0
    for place in range(steps):
        before, after = moved(steps, place, 1)
        noise = random.integers(-(2**20), 2**20, steps).tolist()
        column = [0] * place + weights[: steps - place]
        other = [here - there for here, there in zip(noise, column, strict=True)]
        (first, kept), (second, kept_there) = told(make, before, noise), told(make, after, other)
        assert first == second
        assert kept[len(kept) // 2 :] == kept_there[len(kept) // 2 :]
        largest = max(largest, sum(weight**2 for weight in column))
    made = RootFactorisation.for_rho("0.01", steps=steps)
    assert largest == made.noise.l2_squared == root_length(steps)
    assert made.event() == ZeroConcentrated("0.01")
    assert largest / (2 * made.noise.sigma_squared) == Fraction(1, 100)


def test_events_are_what_was_asked_for_whatever_the_keys():
    for l1 in (1, 2):
        tree = BinaryTree.for_epsilon("0.3", steps=1000, keys=5, l1=l1)
        assert isinstance(tree.event(), Repeated)
        assert tree.event().epsilon == Fraction(3, 10)
        assert tree.noise.scale == 3 * l1 / Fraction(3, 10)
        tree = BinaryTree.for_rho("0.3", steps=1000, keys=5, l1=l1)
        root = RootFactorisation.for_rho("0.3", steps=1000, keys=5, l1=l1)
        assert tree.event() == root.event() == ZeroConcentrated("0.3")
        assert tree.noise.sigma_squared == 4 * l1 / Fraction(6, 10)
        assert root.noise.sigma_squared == root_length(1000) * l1 / Fraction(6, 10)


def test_an_event_is_that_of_what_is_done_whatever_its_noise_was_made_for():
    tree = PrefixTree(5, 2, 2)
    assert BinaryTree(5, Laplace(Fraction(50), 1), tree, 3, 2).event().epsilon == Fraction(4, 50)
    assert BinaryTree(5, Gaussian(Fraction(50), 1), tree, 3, 2).event() == ZeroConcentrated(Fraction(4, 100))
    length = root_length(5)
    assert RootFactorisation(5, Gaussian(Fraction(length), 1), 3, 2).event() == ZeroConcentrated(1)
    with pytest.raises(InvalidParameter, match="another number of steps"):
        BinaryTree(6, Laplace(Fraction(50), 1), tree)


def exactly(mechanism, counts):
    """What is told of the rows of an array, one step after another."""
    state, found = mechanism.start(), []
    for step, row in enumerate(counts, 1):
        values, state = mechanism.tell(step, state, row, OperatingSystem())
        found.append(values)
    return found


@pytest.mark.parametrize("keys", [1, 3])
@pytest.mark.parametrize("steps", [1, 2, 17, 100])
def test_without_noise_the_counts_are_told(steps, keys):
    counts = np.random.default_rng(4).integers(-5, 10**6, (steps, keys)).cumsum(axis=0)
    size = {"steps": steps, "keys": keys}
    for mechanism in (
        BinaryTree.for_epsilon(10**6, **size),
        BinaryTree.for_rho(10**12, **size),
        RootFactorisation.for_rho(10**12, **size),
    ):
        assert exactly(mechanism, counts) == counts.tolist()


def test_counts_of_any_size_neither_wrap_nor_round():
    counts = np.array([[2**60 + 1], [-(2**59)], [2**61]])
    assert exactly(BinaryTree.for_epsilon(10**6, steps=3), counts) == counts.tolist()
    near = exactly(RootFactorisation.for_rho(10**12, steps=3), counts)
    assert all(abs(a - b) <= abs(b) * 1e-12 for (a,), (b,) in zip(near, counts.tolist(), strict=True))


def below(beyond):
    """P(noise < k) of symmetric whole noise."""
    return np.vectorize(lambda k: beyond(-int(k)) / 2 if k <= 0 else 1 - beyond(int(k) - 1) / 2)


MAKERS = {
    "tree, Laplace": lambda factor, **size: BinaryTree.for_epsilon(Fraction(1, 10) / factor, **size),
    "tree, Gaussian": lambda factor, **size: BinaryTree.for_rho(Fraction(1, 200) / factor**2, **size),
    "root": lambda factor, **size: RootFactorisation.for_rho(Fraction(1, 20_000) / factor**2, **size),
}


@pytest.mark.statistical
@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("step", [1, 4, 12])
def test_every_step_has_the_noise_that_was_asked_for(name, step):
    size = {"steps": 12, "keys": 20_000}
    right = MAKERS[name](Fraction(1), **size)
    reach = 5 * right.deviation(step)
    edges = np.unique(np.round(np.linspace(-reach, reach, 80)).astype(np.int64))

    def measured(factor):
        mechanism, nothing = MAKERS[name](factor, **size), np.zeros(size["keys"], dtype=np.int64)
        state, source = mechanism.start(), Seeded(6)
        for number in range(1, step + 1):
            values, state = mechanism.tell(number, state, nothing, source)
        return p_value(np.array(values), below(right.chance_beyond(step)), edges)

    assert measured(Fraction(1)) > ALPHA
    assert max(measured(Fraction(2, 3)), measured(Fraction(3, 2))) < ALPHA


@pytest.mark.statistical
@pytest.mark.parametrize("name", MAKERS)
def test_error_bars_and_the_worst_error_hold_as_often_as_they_say(name):
    size, keys = {"steps": 60}, 4000
    single = MAKERS[name](Fraction(1), **size)
    many = MAKERS[name](Fraction(1), **size, keys=keys)
    found = np.abs(exactly(many, np.zeros((60, keys), dtype=np.int64)))
    for step in (1, 30, 60):
        outside = float((found[step - 1] > single.error_bar(step)).mean())
        assert 0.025 < outside < 0.075
        assert np.std(found[step - 1]) < single.deviation(step) < 1.1 * math.sqrt((found[step - 1] ** 2.0).mean())
    assert (found.max(axis=0) > single.worst_error()).mean() < 0.06
    assert (found.max(axis=0) > single.worst_error() / 2).mean() > 0.06
    assert single.worst_error() < many.worst_error()


def test_the_root_is_less_than_half_as_far_off_as_the_binary_tree():
    for steps in (100, 1000, 10_000):
        root = RootFactorisation.for_rho("0.01", steps=steps)
        height = steps.bit_length()
        binary = math.sqrt(50 * height * max(step.bit_count() for step in range(1, steps + 1)))
        tree = BinaryTree.for_rho("0.01", steps=steps)
        assert root.deviation(steps) < binary / 2
        assert root.deviation(steps) < max(map(tree.deviation, range(1, steps + 1))) < binary


@pytest.mark.parametrize("bad", [{"steps": 0}, {"steps": 5, "keys": 0}, {"steps": 5, "l1": 0}, {"steps": True}])
def test_bad_sizes_are_refused(bad):
    for make in (BinaryTree.for_rho, RootFactorisation.for_rho):
        with pytest.raises(InvalidParameter):
            make("0.1", **bad)


def test_what_cannot_be_kept_or_told_is_refused():
    with pytest.raises(InvalidParameter, match="steps times keys"):
        RootFactorisation.for_rho("0.1", steps=2**15, keys=33)
    for step in (0, 6):
        with pytest.raises(InvalidParameter, match="step"):
            BinaryTree.for_rho("0.1", steps=5).error_bar(step)
        with pytest.raises(InvalidParameter, match="step"):
            RootFactorisation.for_rho("0.1", steps=5).deviation(step)
    with pytest.raises(InvalidParameter, match="sigma"):
        RootFactorisation.for_rho("1e-30", steps=5)
