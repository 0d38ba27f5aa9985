"""Private quantiles: distances by brute force, privacy of one and of several by enumerating tiny databases."""

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from chary.accounting import Pure, rank_errors_up
from chary.errors import InvalidParameter
from chary.mechanisms import HalvedQuantiles, InverseSensitivity, Order, RankDistance, Stretches
from chary.mechanisms import quantiles as order_statistics
from chary.mechanisms.quantiles import DITHER_BITS, Coins
from chary.noise import Seeded
from tests.mechanisms.laws import edits, worst
from tests.mechanisms.laws import moves as changes
from tests.mechanisms.test_inverse_sensitivity import per_outcome

LEVELS = ["1/2", "1/4", "3/4", "1/3", "0.9"]


def order_of(values, points):
    """Values 0, ..., points - 1 as what occurs and how often."""
    places, counts = np.unique(np.array(values, dtype=np.int64), return_counts=True)
    return Order(places, counts.astype(np.int64), points)


def distances_of(values, points, q, *, replace, moves=1):
    """D for each place."""
    stretches = RankDistance(q, replace, moves).stretches(order_of(values, points))
    assert stretches.starts.tolist() == [0, *np.cumsum(stretches.widths)[:-1]]
    assert stretches.widths.sum() == points
    return np.repeat(stretches.distances, stretches.widths).tolist()


def is_quantile(counts, t, q):
    below, above, size = sum(counts[:t]), sum(counts[t + 1 :]), sum(counts)
    return below <= q * size and above <= (1 - q) * size


def databases(points, most):
    """All multisets of up to `most` values, as counts."""
    return [c for c in itertools.product(range(most + 1), repeat=points) if sum(c) <= most]


def values_of(counts):
    return [place for place, count in enumerate(counts) for _ in range(count)]


# Distances


@pytest.mark.parametrize("q", LEVELS)
def test_distances_are_the_fewest_units_that_must_change(q):
    """Exact where units are replaced; where they come and go exact, or one less at a place without a value."""
    level, points = Fraction(q), 3
    others = databases(points, 12)
    for counts in databases(points, 4):
        targets = [[c for c in others if is_quantile(c, t, level)] for t in range(points)]
        replaced = distances_of(values_of(counts), points, q, replace=True)
        edited = distances_of(values_of(counts), points, q, replace=False)
        for t in range(points):
            assert replaced[t] == min(changes(counts, c) for c in targets[t])
            fewest = min(edits(counts, c) for c in targets[t])
            assert edited[t] == fewest if counts[t] or q == "1/2" else fewest - 1 <= edited[t] <= fewest


@pytest.mark.parametrize("q", LEVELS)
@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("moves", [1, 2, 3])
def test_a_unit_changes_a_distance_by_one_at_most(q, replace, moves):
    points = 3
    known = {c: distances_of(values_of(c), points, q, replace=replace, moves=moves) for c in databases(points, 6)}
    far = changes if replace else edits
    largest = 0
    for first, second in itertools.combinations(known, 2):
        if far(first, second) <= moves:
            largest = max(largest, *(abs(a - b) for a, b in zip(known[first], known[second], strict=True)))
    assert largest == 1


@pytest.mark.parametrize("q", ["1/1000000", "999999/1000000"])
def test_a_value_more_changes_a_distance_by_one_at_most_where_ranks_pass_64_bits(q):
    """On the one side products of ranks and denominators fit int64, on the other they do not."""
    fitting = (2**63 - 1) // (10**6 - 1)
    for more in (fitting - 1, fitting, 2 * fitting, 10**14):
        found = []
        for size in (0, 1, 2):
            order = Order(np.array([2, 5]), np.array([1, 1 + size]), 10).topped(more - 2)
            stretches = RankDistance(q, replace=False).stretches(order)
            found.append(np.repeat(stretches.distances, stretches.widths))
            assert found[-1].dtype == np.int64
            assert (found[-1].min(), found[-1].max() <= 2 * more) == (0, True)
        for first, second in itertools.pairwise(found):
            assert np.abs(first - second).max() <= 1


@pytest.mark.parametrize("q", LEVELS)
@pytest.mark.parametrize("replace", [False, True])
def test_some_value_is_the_quantile(q, replace):
    for counts in databases(4, 5):
        found = distances_of(values_of(counts), 4, q, replace=replace)
        assert any(not d and (n or not sum(counts)) for d, n in zip(found, counts, strict=True))


def test_an_empty_database_says_nothing():
    assert distances_of([], 5, "1/2", replace=False) == [0] * 5


def test_values_at_the_ends_of_the_grid():
    assert distances_of([0, 0, 9, 9, 9], 10, "1/2", replace=True) == [1] * 9 + [0]
    assert distances_of([0, 0, 9, 9], 10, "1/2", replace=True) == [0] * 10


# Privacy of one


@pytest.mark.parametrize("q", LEVELS)
@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("epsilon", [0.3, 1.5])
def test_one_quantile_is_private(q, replace, epsilon):
    points = 3
    laws = {
        c: per_outcome(InverseSensitivity(epsilon), RankDistance(q, replace).stretches(order_of(values_of(c), points)))
        for c in databases(points, 7)
    }
    far = changes if replace else edits
    ratio = worst(laws, [(x, y) for x, y in itertools.combinations(laws, 2) if far(x, y) == 1])
    assert ratio <= epsilon * (1 + 1e-9)
    assert ratio > 0.55 * epsilon


@pytest.mark.parametrize("replace", [False, True])
def test_the_bound_is_almost_attained(replace):
    """A wide gap holds the median; the unit that leaves it makes one side likelier by almost e^epsilon."""
    epsilon, points = 1.0, 4000
    first, second = [points - 2, points - 1, 0, 0], [points - 2, points - 1, 0, points - 1 if replace else None]
    laws = {}
    for name, values in (("first", first), ("second", second)):
        order = order_of([v for v in values if v is not None], points)
        laws[name] = per_outcome(InverseSensitivity(epsilon), RankDistance("1/2", replace).stretches(order))
    ratio = worst(laws, [("first", "second")])
    assert 0.95 * epsilon < ratio <= epsilon * (1 + 1e-9)


def test_two_places_need_no_half():
    epsilon = 1.0
    for replace, far in ((False, edits), (True, changes)):
        for q in LEVELS:
            chooser, distance = InverseSensitivity(epsilon, whole=True), RankDistance(q, replace)
            laws = {c: per_outcome(chooser, distance.stretches(order_of(values_of(c), 2))) for c in databases(2, 9)}
            ratio = worst(laws, [(x, y) for x, y in itertools.combinations(laws, 2) if far(x, y) == 1])
            assert 0.9 < ratio <= 1 + 1e-9
    assert HalvedQuantiles(("1/2",), 1, False).narrow(2)
    assert not HalvedQuantiles(("1/2",), 1, False).narrow(3)
    assert not HalvedQuantiles(("1/3", "1/2"), 1, False).narrow(2)


# Privacy of several


class Scripted:
    """Stands in for the choices of a run: follows a script, then takes the first outcome, and notes the chances."""

    def __init__(self, script):
        self.script, self.taken, self.sizes, self.chance = list(script), [], [], 1.0

    def choose(self, chooser, distances, part, coins):
        law = per_outcome(chooser, stretches_of(distances, part))
        place = self.script[len(self.taken)] if len(self.taken) < len(self.script) else 0
        self.taken.append(place)
        self.sizes.append(len(law))
        self.chance *= law[place]
        return place


def stretches_of(distances, part):
    """The distances of all places of a part, one by one."""
    ranks = np.array([part.upto(place) for place in range(part.first, part.last + 2)])
    return Stretches.of(distances.of(ranks[:-1], np.diff(ranks), part.size))


def joint_law(made, values, points, monkeypatch):
    """The exact law of the chosen quantiles of values that are told apart as they are, by walking all choices."""
    law, script = Counter(), []
    share = Fraction(made.epsilon) / made.rounds
    while script is not None:
        run = Scripted(script)
        monkeypatch.setattr(order_statistics, "choose_place", run.choose)
        found = made.halved(order_of(values, points).scattered(0, None), share, None)
        assert found == sorted(found)
        assert all(0 <= place < points for place in found)
        law[tuple(found)] += run.chance
        script = following(run)
    assert sum(law.values()) == pytest.approx(1)
    return law


def following(run):
    """The next script in depth-first order, None after the last."""
    taken = run.taken[:]
    while taken and taken[-1] + 1 == run.sizes[len(taken) - 1]:
        taken.pop()
    return [*taken[:-1], taken[-1] + 1] if taken else None


@pytest.mark.parametrize("at", [("1/4", "1/2"), ("1/4", "1/2", "3/4"), ("0.1", "0.5", "0.6", "0.9")])
@pytest.mark.parametrize("replace", [False, True])
def test_several_quantiles_are_private_together(at, replace, monkeypatch):
    epsilon, points, most = 3.0, 3, 4 if len(at) < 4 else 3
    made = HalvedQuantiles(at, epsilon, replace)
    laws = {c: joint_law(made, values_of(c), points, monkeypatch) for c in databases(points, most)}
    far = changes if replace else edits
    pairs = [(x, y) for x, y in itertools.combinations(laws, 2) if far(x, y) == 1]
    ratio = max(abs(math.log(laws[x][t] / laws[y][t])) for x, y in pairs for t in laws[x])
    assert 0.35 * epsilon < ratio <= epsilon * (1 + 1e-9)


@pytest.mark.parametrize("replace", [False, True])
def test_a_round_that_forgot_its_share_would_be_seen(replace, monkeypatch):
    """The negative control: every round at the whole epsilon breaks the promise."""
    epsilon, points = 3.0, 3
    made = HalvedQuantiles(("1/4", "1/2", "3/4"), epsilon, replace)
    monkeypatch.setattr(HalvedQuantiles, "rounds", 1)
    laws = {c: joint_law(made, values_of(c), points, monkeypatch) for c in databases(points, 4)}
    far = changes if replace else edits
    pairs = [(x, y) for x, y in itertools.combinations(laws, 2) if far(x, y) == 1]
    assert max(abs(math.log(laws[x][t] / laws[y][t])) for x, y in pairs for t in laws[x]) > epsilon


@pytest.mark.parametrize("at", [("1/2",), ("1/4", "1/2"), ("1/4", "1/2", "3/4")])
@pytest.mark.parametrize("moves", [1, 2])
def test_quantiles_of_all_values_share_by_their_number_and_those_of_halves_by_rounds(at, moves, monkeypatch):
    """A part of a share for each choice is enough only where the choices are made from parts."""
    asked = []

    def first(chooser, distances, part, coins):
        asked.append((chooser, part.last - part.first + 1))
        return 0

    monkeypatch.setattr(order_statistics, "choose_place", first)
    made = HalvedQuantiles(at, 3, False, moves)
    made.step(order_of([1, 2, 2, 5], 9), Seeded(1))
    halved = moves == 1 and len(at) > 1
    assert made.grid(9) == asked[0][1] == (9 << DITHER_BITS if halved else 9)
    assert [chooser.epsilon for chooser, _ in asked] == [Fraction(3, 2 if halved else len(at))] * len(at)
    assert halved == (asked[-1][1] != asked[0][1])


@pytest.mark.parametrize(
    ("at", "one", "other", "apart"),
    [
        (("1/4", "1/2"), (1, 0, 0, 0, 2, 1), (2, 0, 0, 0, 2, 0), 0.793740387),
        (("0.1", "0.5", "0.9"), (1, 1, 2, 0, 0), (0, 1, 2, 0, 1), 0.466584236),
    ],
)
def test_later_rounds_under_replace_take_half_a_share_for_each_part(at, one, other, apart, monkeypatch):
    """A value that leaves one part for another moves both: with whole shares the first pair is 1.19 epsilon apart."""
    epsilon, made = 3.0, HalvedQuantiles(at, 3, True)
    laws = [joint_law(made, values_of(counts), len(counts), monkeypatch) for counts in (one, other)]
    assert max(math.log(laws[0][t] / laws[1][t]) for t in laws[0]) == pytest.approx(apart * epsilon, rel=1e-7)


def test_chosen_quantiles_ascend_and_stay_on_the_grid(monkeypatch):
    made = HalvedQuantiles(("0.2", "0.4", "0.6", "0.8", "0.9"), 1, True)
    source = Seeded(5)
    for values in ([], [0], [6], [0, 6], [3] * 50, list(range(7)) * 3):
        for _ in range(20):
            found = made.step(order_of(values, 7), source)
            assert found == sorted(found)
            assert all(0 <= place <= 6 for place in found)


# Accuracy


@pytest.mark.parametrize("replace", [False, True])
def test_at_practically_infinite_epsilon_they_are_the_quantiles(replace):
    generator = np.random.default_rng(7)
    for values in (generator.integers(0, 1000, 997), np.repeat([3, 500, 501], [500, 300, 200]), np.arange(1000)):
        order = order_of(values, 1000)
        at = ("0.11", "0.27", "0.5", "0.73", "0.987")
        several = HalvedQuantiles(at, 10**6, replace).step(order, Seeded(1))
        for q, found in zip(at, several, strict=True):
            [single] = HalvedQuantiles((q,), 10**6, replace).step(order, Seeded(1))
            for place, slack in ((single, 0), (found, 3)):
                assert (values < place).sum() <= float(q) * values.size + slack
                assert (values > place).sum() <= (1 - float(q)) * values.size + slack


@pytest.mark.statistical
@pytest.mark.parametrize("replace", [False, True])
def test_rank_errors_are_seldom_exceeded(replace):
    """95 of 100 is promised; over 300 runs, more than 40 failures have a chance below 1e-6."""
    generator, source = np.random.default_rng(1), Seeded(3)
    values = np.sort(generator.integers(0, 10_000, 3000))
    at = ("0.1", "0.25", "0.5", "0.75", "0.9")
    made = HalvedQuantiles(at, "0.5", replace)
    order = order_of(values, 10_000)
    limits = rank_errors_up(
        epsilon=made.epsilon, at=made.at, points=made.grid(10_000), beta="0.05", replace=replace, moves=1
    )
    failures, largest = 0, 0
    for _ in range(300):
        found = made.step(order, source)
        below, above = np.searchsorted(values, found, "left"), values.size - np.searchsorted(values, found, "right")
        wanted = np.array([float(q) for q in at]) * values.size
        errors = np.maximum(below - wanted, above - (values.size - wanted))
        failures += bool(np.any(errors > limits))
        largest = max(largest, float(errors.max()))
    assert failures <= 40
    assert largest > 5


def test_equal_values_are_told_apart_by_their_own_coins():
    fine = order_of([2] * 4000 + [5], 8).scattered(DITHER_BITS, Coins(Seeded(1)))
    ranks = np.array([fine.below(place) for place in range((2 << DITHER_BITS) - 1, (3 << DITHER_BITS) + 1)])
    assert (fine.points, ranks[0], ranks[1], ranks[-1]) == (8 << DITHER_BITS, 0, 0, 4000)
    assert np.diff(ranks).max() < 12
    assert 2300 < np.count_nonzero(np.diff(ranks)) < 2800
    assert [fine.below(place << DITHER_BITS) for place in range(9)] == [0, 0, 0, 4000, 4000, 4000, 4001, 4001, 4001]


def test_units_of_many_values_take_a_round_for_each_quantile():
    made = HalvedQuantiles(("0.25", "0.5", "0.75"), 3, False, moves=4)
    assert (made.rounds, made.event(), made.grid(10)) == (3, Pure(3), 10)
    assert made.step(order_of(list(range(100)) * 40, 100), Seeded(2)) == pytest.approx([25, 50, 75], abs=8)


@pytest.mark.parametrize("at", [(), (0,), (1,), ("0.5", "0.5"), ("0.6", "0.5"), (-1,), ("1e-7",), ("x",), (math.nan,)])
def test_bad_quantiles(at):
    with pytest.raises(InvalidParameter):
        HalvedQuantiles(at, 1, False)
    for q in set(at) - {"0.5", "0.6"}:
        with pytest.raises(InvalidParameter):
            RankDistance(q, replace=False)


def test_units_of_no_values():
    with pytest.raises(InvalidParameter):
        RankDistance("0.5", False, 0)
    with pytest.raises(InvalidParameter):
        HalvedQuantiles(("0.5",), 1, False, 0)


def test_quantiles_of_a_common_denominator_that_is_too_large():
    with pytest.raises(InvalidParameter, match="million"):
        HalvedQuantiles(("1/99991", "2/99989"), 1, False)
