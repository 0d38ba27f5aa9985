"""Report noisy max: exact laws with shared ties, privacy of all small neighbours, and what is equal in law."""

import math
from collections import Counter, defaultdict
from fractions import Fraction
from itertools import permutations, product

import numpy as np
import pytest
from scipy import stats

from chary import noise
from chary.accounting import Pure
from chary.errors import InvalidParameter
from chary.mechanisms import ReportNoisyMax
from chary.mechanisms.choices import largest
from chary.noise import Seeded
from tests.mechanisms.test_exponential import flips, softmax

REACH = 400
RATIO = Fraction(4, 5)
STEPS = np.arange(-REACH, REACH + 1)


def laplace(ratio):
    return ratio ** np.abs(STEPS) * (1 - ratio) / (1 + ratio)


def geometric(ratio):
    return np.where(STEPS >= 0, ratio ** np.maximum(STEPS, 0) * (1 - ratio), 0)


MASSES = {"laplace": laplace, "exponential": geometric}


def winners(utilities, ratio, shape, fair=True):
    """The law of the winner, by going through all values of the maximum and all ways to share it.

    Mass outside the reach is below 0.8^300. Without `fair` the first of equals wins.
    """
    mass, law = MASSES[shape](float(ratio)), np.zeros(len(utilities))
    equal = [np.interp(STEPS - u, STEPS, mass, left=0, right=0) for u in utilities]
    below = [np.cumsum(p) - p for p in equal]
    for tied in product((False, True), repeat=len(utilities)):
        if any(tied):
            chances = [p if at else b for p, b, at in zip(equal, below, tied, strict=True)]
            chance = np.prod(chances, axis=0).sum()
            places = np.flatnonzero(tied) if fair else np.flatnonzero(tied)[:1]
            law[places] += chance / len(places)
    assert law.sum() == pytest.approx(1, abs=1e-12)
    return law


def worst(utilities, moves, ratio, shape, fair=True):
    one, other = (winners(values, ratio, shape, fair) for values in (utilities, np.add(utilities, moves)))
    return np.abs(np.log(one / other)).max()


def most(values, loss):
    """The largest loss of three utilities that each move by one step, and of those that all move together."""
    general, together = 0.0, 0.0
    for utilities, moves in product(product(values, repeat=3), product((-1, 0, 1), repeat=3)):
        found = loss(utilities, moves)
        general = max(general, found)
        if min(moves) >= 0 or max(moves) <= 0:
            together = max(together, found)
    return general, together


@pytest.mark.parametrize("shape", MASSES)
@pytest.mark.parametrize("fair", [True, False])
def test_no_neighbours_pass_epsilon_and_some_come_close(shape, fair):
    """A step of sensitivity costs two of the noise, or one where all utilities move together; ties cost nothing."""
    step = -math.log(RATIO)
    general, together = most((0, 1, 40), lambda utilities, moves: worst(utilities, moves, RATIO, shape, fair))
    assert 0.9 * 2 * step < general <= 2 * step * (1 + 1e-9)
    assert 0.9 * step < together <= step * (1 + 1e-9)


def test_noise_for_half_the_change_is_caught():
    """The negative control: utilities that move apart need twice the noise of those that move together."""
    assert worst([0, 40], [1, -1], RATIO, "laplace") > -math.log(RATIO) * 1.5


@pytest.mark.parametrize("utilities", [[0], [3, 3], [0, 1, 9], [5, 5, 0, 2], [-4, -9, 7, 7, 1]])
def test_exponential_noise_is_permute_and_flip(utilities):
    expected = [float(p) for p in flips(utilities, RATIO)]
    assert winners(utilities, RATIO, "exponential") == pytest.approx(expected, abs=1e-12)
    assert winners(utilities, RATIO, "laplace") != pytest.approx(expected, abs=1e-3) or len(set(utilities)) == 1
    if len(set(utilities)) < len(utilities):
        assert winners(utilities, RATIO, "exponential", fair=False) != pytest.approx(expected, abs=1e-3)


def test_gumbel_noise_is_the_exponential_mechanism():
    """By its density: the winner of utilities plus Gumbel noise of scale 1/unit."""
    utilities, unit = [0, 3, 5], 0.25
    grid = np.linspace(-60, 160, 400_001)
    scaled = [np.exp(-unit * (grid - u)) for u in utilities]
    others = [np.exp(-sum(x for i, x in enumerate(scaled) if i != j)) for j in range(3)]
    chances = [np.trapezoid(unit * x * np.exp(-x) * rest, grid) for x, rest in zip(scaled, others, strict=True)]
    expected = [float(p) for p in softmax(utilities, Fraction(math.exp(-unit)))]
    assert chances == pytest.approx(expected, abs=1e-9)
    chooser = ReportNoisyMax("0.5", 1, shape="gumbel")
    assert chooser.exponential.law(utilities).probabilities() == pytest.approx(expected, abs=1e-12)


@pytest.mark.statistical
@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize("shape", ["laplace", "exponential", "gumbel"])
def test_samples_follow_the_law(shape, monotone):
    utilities, size, source = [3, 0, 5, 4], 8000, noise.Seeded(23)
    chooser = ReportNoisyMax("0.4" if monotone else "0.8", 1, monotone, shape)
    counts = np.bincount([chooser.step(utilities, source) for _ in range(size)], minlength=4)
    for step, follows in ((0.4, True), (0.6, False), (0.4 / 1.5, False)):
        ratio = Fraction(math.exp(-step))
        law = softmax(utilities, ratio) if shape == "gumbel" else winners(utilities, ratio, shape)
        law = np.array([float(p) for p in law])
        assert (stats.chisquare(counts, law / law.sum() * size).pvalue > 1e-6) == follows


@pytest.mark.statistical
def test_equals_have_equal_chances():
    counts = np.bincount(
        [ReportNoisyMax(5, 1).step([7] * 6, source) for source in [noise.Seeded(5)] * 6000], minlength=6
    )
    assert stats.chisquare(counts).pvalue > 1e-6


@pytest.mark.parametrize("shape", ["laplace", "exponential", "gumbel"])
def test_practically_without_noise(shape):
    source = noise.OperatingSystem()
    assert ReportNoisyMax(10**6, 1, shape=shape).step(np.array([4, 2**62, -(2**62)]), source) == 1
    assert ReportNoisyMax(10**6, 1, shape=shape).step([2**80, 2**80 + 10**4], source) == 1
    assert ReportNoisyMax(10**6, 1, shape=shape).step([-1, 2**63, 2**63 - 1], source) == 1
    assert ReportNoisyMax("0.1", 3, shape=shape).event() == Pure("0.1")


def test_the_largest_are_all_of_them():
    assert largest(np.array([2, 5, 5, 1, 5])).tolist() == [1, 2, 4]


@pytest.mark.parametrize(
    ("epsilon", "sensitivity", "shape"),
    [
        (0, 1, "laplace"),
        ("nan", 1, "laplace"),
        (-1, 1, "gumbel"),
        (1, 0, "laplace"),
        (1, 1, "gauss"),
        (1e-14, 1, "laplace"),
    ],
)
def test_parameters_are_checked(epsilon, sensitivity, shape):
    with pytest.raises(InvalidParameter):
        ReportNoisyMax(epsilon, sensitivity, shape=shape)


@pytest.mark.parametrize("utilities", [[], [0.5, 1.0], [True, False], [math.nan, 1]])
@pytest.mark.parametrize("shape", ["laplace", "exponential", "gumbel"])
def test_utilities_are_integers(utilities, shape):
    with pytest.raises(InvalidParameter):
        ReportNoisyMax(1, 1, shape=shape).step(utilities, noise.OperatingSystem())


@pytest.mark.parametrize(("monotone", "times"), [(False, 2), (True, 1)])
@pytest.mark.parametrize("shape", ["laplace", "exponential"])
def test_noise_grows_with_the_sensitivity_twice_as_much_where_candidates_part(monotone, times, shape):
    assert ReportNoisyMax("0.4", 3, monotone, shape).scale == times * 3 / Fraction("0.4")


def leads(utilities, ratio, *, plain=False, most=6):
    """The law of winner and lead, by going through all orders of equals and all values that the winner must reach.

    With `plain` the gap to the runner-up, where the first of equals wins.
    """
    mass = laplace(ratio)
    equal = [np.interp(STEPS - u, STEPS, mass, left=0, right=0) for u in utilities]
    upto = [np.cumsum(p) for p in equal]
    law = defaultdict(float)
    size = len(utilities)
    orders = [tuple(range(size))] if plain else list(permutations(range(size)))
    for order in orders:
        for winner in range(size):
            others = [j for j in range(size) if j != winner]
            ahead = [order[j] < order[winner] for j in others]
            # A gap of 0 is a win only where no equal comes first.
            reach = [np.roll(upto[j], 1) if first else upto[j] for j, first in zip(others, ahead, strict=True)]
            needed = np.diff(np.prod(reach, axis=0), prepend=0)
            gaps = np.diff(np.prod([upto[j] for j in others], axis=0), prepend=0)
            for lead in range(most):
                needs = gaps if plain and lead else needed
                if plain and not lead:
                    behind = [upto[j] - equal[j] if first else upto[j] for j, first in zip(others, ahead, strict=True)]
                    needs = np.prod(behind, axis=0) - np.prod([upto[j] - equal[j] for j in others], axis=0)
                law[winner, lead] += (equal[winner][lead:] * needs[: len(needs) - lead]).sum() / len(orders)
    return law


def lost(utilities, moves, ratio, **options):
    one, other = (leads(values, ratio, **options) for values in (utilities, tuple(np.add(utilities, moves))))
    return max(abs(math.log(one[told] / other[told])) for told in one if max(one[told], other[told]) > 1e-60)


@pytest.mark.parametrize("ratio", [0.1, 0.6])
def test_winner_and_lead_lose_no_more_than_the_winner(ratio):
    step = -math.log(ratio)
    general, together = most((0, 1, 5), lambda utilities, moves: lost(utilities, moves, ratio))
    assert 0.99 * 2 * step < general <= 2 * step * (1 + 1e-9)
    assert 0.99 * step < together <= step * (1 + 1e-9)


def test_the_plain_gap_where_the_first_of_equals_wins_loses_nearly_twice_as_much():
    """The negative control: the third wins by 0 where the fourth is level with it, and both are above two others."""
    moved = [(1, 1, -1, -1), (1, 1, 1, 1)]
    worst = max(lost(u, m, 0.02, plain=True) for u in product((0, 1, 6), repeat=4) for m in moved)
    assert worst > 1.9 * 2 * -math.log(0.02)


@pytest.mark.parametrize("utilities", [[0, 3, 1], [2, 2, 2, 2], [7, 7, 0]])
def test_drawn_winners_and_leads_follow_the_law(utilities):
    source, times = Seeded(4), 20_000
    mechanism = ReportNoisyMax("0.8", 1, monotone=True)
    found = Counter(mechanism.step_with_lead(utilities, source) for _ in range(times))
    law = leads(utilities, math.exp(-0.8), most=30)
    assert sum(law.values()) == pytest.approx(1, abs=1e-9)
    likely = [told for told, chance in law.items() if chance * times >= 10]
    counts, chances = [found[told] for told in likely], [law[told] for told in likely]
    counts, chances = [*counts, times - sum(counts)], [*chances, 1 - sum(chances)]
    assert stats.chisquare(counts, np.multiply(chances, times)).pvalue > 1e-6


def test_a_lead_needs_two_candidates_and_laplace_noise():
    for mechanism, utilities in ((ReportNoisyMax(1, 1), [3]), (ReportNoisyMax(1, 1, shape="exponential"), [3, 4])):
        with pytest.raises(InvalidParameter, match="at least two candidates, with Laplace noise"):
            mechanism.step_with_lead(utilities, Seeded(1))
    far = [10**30, 0]
    winner, lead = ReportNoisyMax(1, 1).step_with_lead(far, Seeded(1))
    assert winner == 0
    assert abs(lead - 10**30) < 1000
