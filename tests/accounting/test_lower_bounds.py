"""Lower bounds against linear programs: the best unbiased epsilon-DP mechanism on tiny domains."""

import math

import numpy as np
import pytest
from scipy.optimize import linprog

from chary.accounting import discrete_chance_up, loss_down, published_loss_down, variance_down
from chary.errors import InvalidParameter
from chary.mechanisms import InverseSensitivity, bits_distances
from chary.noise import ExponentialLaw

EPSILONS = [0.1, 0.5, 1.0, 2.0]


def program(cost, databases, outcomes, epsilon, unfair, means=None):
    """Least cost of a table P[x, t] that is epsilon-DP along the path of databases; `unfair` rows must be <= 0."""
    size = databases * outcomes
    private = []
    for x in range(databases - 1):
        for t in range(outcomes):
            for one, other in ((x, x + 1), (x + 1, x)):
                row = np.zeros(size)
                row[one * outcomes + t], row[other * outcomes + t] = 1, -math.exp(epsilon)
                private.append(row)
    sums = np.kron(np.eye(databases), np.ones(outcomes))
    equal, right = [sums], [np.ones(databases)]
    if means is not None:
        equal.append(np.kron(np.eye(databases), means[0]))
        right.append(np.asarray(means[1], dtype=float))
    rows = np.array([*private, *unfair])
    found = linprog(
        cost, A_ub=rows, b_ub=np.zeros(len(rows)), A_eq=np.vstack(equal), b_eq=np.concatenate(right), method="highs"
    )
    assert found.status == 0
    return found.fun


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("n", [1, 3, 5])
def test_no_unbiased_choice_beats_the_chance(epsilon, n):
    """The number of ones among n bits: databases and answers are 0, ..., n, and D(t) = |x - t|."""
    points = n + 1
    for x in range(points):
        cost = np.zeros(points * points)
        cost[x * points + x] = -1
        unfair = []
        for other in range(points):
            for t in range(points):
                row = np.zeros(points * points)
                row[other * points + t] += 1
                row[other * points + other] -= 1
                unfair.append(row)
        best = -program(cost, points, points, epsilon, unfair)
        bound = discrete_chance_up(epsilon=epsilon, distances=bits_distances(x, n).tolist())
        assert best <= bound + 1e-9
        assert best > 0.35 * bound


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.0])
@pytest.mark.parametrize("n", [2, 4])
def test_no_answer_to_which_no_other_is_closer_beats_the_loss(epsilon, n):
    """The same sum under squared error, with outcomes on a fine grid that reaches beyond the answers."""
    grid = np.arange(-math.ceil(8 * n / epsilon), math.ceil(8 * n / epsilon) + 2 * n + 1) / 2
    databases, outcomes, x = n + 1, len(grid), n // 2
    cost = np.zeros(databases * outcomes)
    cost[x * outcomes : (x + 1) * outcomes] = (grid - x) ** 2
    unfair = []
    for other in range(databases):
        for t in range(databases):
            row = np.zeros(databases * outcomes)
            row[other * outcomes : (other + 1) * outcomes] = (grid - other) ** 2 - (grid - t) ** 2
            unfair.append(row)
    best = program(cost, databases, outcomes, epsilon, unfair)
    changes = [min(k, max(x, n - x)) for k in range(1, n + 1)]
    assert best >= loss_down(epsilon=epsilon, changes=changes) - 1e-9
    assert best >= published_loss_down(epsilon=epsilon, changes=changes) - 1e-9


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_randomized_response_attains_the_variance(epsilon):
    """Two databases: answers 0 and 1, the mean is the true answer."""
    reach = math.ceil(3 / math.tanh(epsilon / 2)) * 8
    truth = math.exp(epsilon) / (1 + math.exp(epsilon))
    yes, no = truth / (2 * truth - 1), -(1 - truth) / (2 * truth - 1)
    grid = np.sort([yes, no, *(np.arange(-reach, reach + 8) / 8)])
    cost = np.concatenate([grid**2, np.zeros(len(grid))])
    best = program(cost, 2, len(grid), epsilon, [], (grid, [0, 1]))
    bound = variance_down(epsilon=epsilon, changes=[1])
    assert best == pytest.approx(bound, rel=1e-6)
    assert best == pytest.approx(-yes * no, rel=1e-6)


@pytest.mark.parametrize("epsilon", [0.3, 1.0])
def test_no_answer_right_in_the_mean_beats_the_variance(epsilon):
    n, x = 4, 2
    grid = np.arange(-60, 61 + 4, dtype=float)
    cost = np.zeros((n + 1) * len(grid))
    cost[x * len(grid) : (x + 1) * len(grid)] = (grid - x) ** 2
    best = program(cost, n + 1, len(grid), epsilon, [], (grid, range(n + 1)))
    bound = variance_down(epsilon=epsilon, changes=[1, 2, 2, 2])
    laplace = 1 / (2 * math.sinh(epsilon / 2) ** 2)
    assert bound - 1e-9 <= best <= laplace + 1e-9
    assert bound == pytest.approx(laplace / 2)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_inverse_sensitivity_attains_the_chance_of_a_quarter_of_its_epsilon(epsilon):
    distances = bits_distances(3, 8)
    law = ExponentialLaw(distances, InverseSensitivity(epsilon).unit).probabilities()
    assert law[3] == pytest.approx(discrete_chance_up(epsilon=epsilon / 4, distances=distances.tolist()))


def test_the_bounds_are_ordered_and_exceed_a_linear_one():
    for epsilon in np.linspace(0.005, 0.5, 100):
        changes = range(1, math.ceil(1 / epsilon) + 1)
        published = published_loss_down(epsilon=float(epsilon), changes=changes)
        assert 1 / (68 * epsilon**2) <= published
        assert 2 * published <= loss_down(epsilon=float(epsilon), changes=changes)
        far = published_loss_down(epsilon=float(epsilon), changes=range(1, math.ceil(2 / epsilon)))
        assert far >= 1 / (35 * epsilon**2)


@pytest.mark.parametrize(
    "ask",
    [
        lambda: discrete_chance_up(epsilon=1, distances=[1, 2]),
        lambda: discrete_chance_up(epsilon=1, distances=[]),
        lambda: discrete_chance_up(epsilon=1, distances=[0, -1]),
        lambda: discrete_chance_up(epsilon=0, distances=[0]),
        lambda: loss_down(epsilon=-1, changes=[1]),
        lambda: loss_down(epsilon=1, changes=["nan"]),
    ],
)
def test_bad_input(ask):
    with pytest.raises(InvalidParameter):
        ask()
