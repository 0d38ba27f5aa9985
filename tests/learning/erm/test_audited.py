"""The optimum: how far it moves by brute force, its gradient in exact arithmetic, its bounds, and awkward rows."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx
from scipy.optimize import check_grad

from chary.errors import InvalidParameter
from chary.learning import losses
from chary.learning.losses import (
    Hinge,
    Logistic,
    Quantile,
    SmoothedHinge,
    SquaredError,
    SquaredHinge,
    root_bounds,
    root_up,
)
from chary.learning.optimum import Objective, Problem, audited_optimum, passes

KINKED = [Hinge(Fraction(1, 4)), Quantile(Fraction(1, 2), Fraction(1), Fraction(1, 4))]
ALL = [Logistic(), SmoothedHinge(), SquaredHinge(), SquaredError(Fraction(1)), *KINKED]
TIGHT = {Logistic: 0.45, SmoothedHinge: 0.95, SquaredHinge: 0.75, SquaredError: 0.8, Hinge: 0.95, Quantile: 0.95}
named = pytest.mark.parametrize("loss", ALL, ids=lambda loss: type(loss).__name__)


def objective(loss, rows, targets, lam="0.1", radius=1):
    rows = np.array(rows, dtype=np.float64)
    problem = Problem(loss, Fraction(radius), Fraction(lam), *rows.shape)
    return Objective(problem, rows, np.array(targets, dtype=np.float64))


def unit_rows(size, features, seed):
    generator = np.random.default_rng(seed)
    rows = generator.normal(size=(size, features))
    return rows / np.maximum(1, np.linalg.norm(rows, axis=1))[:, None], generator.choice([-1.0, 1.0], size)


@named
@pytest.mark.parametrize("lam", ["0.1", "10"])
def test_no_replaced_row_moves_the_optimum_further_than_the_bound(loss, lam):
    """All pairs of small datasets of extreme rows in the plane; the worst is near the bound where lam is large."""
    compass = [(np.cos(angle), np.sin(angle)) for angle in np.arange(8) * np.pi / 4]
    worst = 0.0
    for others in [[(1, 0), (1, 0), (1, 0)], [(1, 0), (-1, 0), (0, 1)], [(0.1, 0.2), (-0.3, 0.1), (0, 0)]]:
        found = []
        for row, target in itertools.product(compass, [-1, 1]):
            problem = objective(loss, [*others, row], [1, 1, -1, target], lam)
            found.append(audited_optimum(problem))
        moved = max(np.linalg.norm(here - there) for here, there in itertools.combinations(found, 2))
        worst = max(worst, moved / float(problem.problem.sensitivity))
    assert worst <= 1
    if lam == "10":
        assert worst > TIGHT[type(loss)]


@named
@pytest.mark.parametrize("norm", ["0.1", "3", "30"])
def test_gradients_of_two_rows_are_no_further_apart_than_the_bound(loss, norm):
    """Rows of a dense compass at the same weights; the squared losses come up to it."""
    compass = np.array([(np.cos(angle), np.sin(angle)) for angle in np.arange(120) * np.pi / 60])
    weights = np.array([float(norm), 0])
    alone = [loss.slopes(compass @ weights, np.full(120, target))[:, None] * compass for target in (-1.0, 1.0)]
    points = np.concatenate(alone)
    worst = np.linalg.norm(points[:, None] - points[None], axis=2).max()
    bound = float(loss.apart_up(Fraction(norm), Fraction(1)))
    assert (0.45 if isinstance(loss, Logistic) else 0.85) * bound < worst <= bound * (1 + 1e-12)


@named
def test_replacing_each_row_of_random_data(loss):
    rows, targets = unit_rows(30, 3, 5)
    base = objective(loss, rows, targets, "0.02")
    start = audited_optimum(base)
    for place in range(30):
        for row, target in [(rows[place], -targets[place]), (-start / np.linalg.norm(start), 1.0)]:
            changed = rows.copy(), targets.copy()
            changed[0][place], changed[1][place] = row, target
            moved = audited_optimum(objective(loss, *changed, "0.02")) - start
            assert np.linalg.norm(moved) <= base.problem.sensitivity


@named
def test_the_exact_gradient_is_no_longer_than_the_tolerance(loss):
    """In balls of 200 bits, at the weights as the floats they are."""
    rows, targets = unit_rows(40, 4, 2)
    made = objective(loss, rows, targets, "0.001")
    weights = audited_optimum(made)
    precision, ctx.prec = ctx.prec, 200
    try:
        exact = [exact_gradient(made, weights, column) for column in range(4)]
        length = sum((part * part for part in exact), arb(0)).sqrt()
        assert length < ball(made.problem.tolerance)
        errors = [part - arb(float(near)) for part, near in zip(exact, made.gradient(weights), strict=True)]
        assert sum((part * part for part in errors), arb(0)).sqrt() < ball(made.problem.float_error)
    finally:
        ctx.prec = precision


def exact_gradient(made, weights, column):
    total = arb(0)
    for row, target in zip(made.rows, made.targets, strict=True):
        prediction = sum((arb(float(x)) * arb(float(w)) for x, w in zip(row, weights, strict=True)), arb(0))
        total += exact_slope(made.problem.loss, prediction, arb(float(target))) * arb(float(row[column]))
    return total / made.problem.size + ball(made.problem.lam) * arb(float(weights[column]))


def exact_slope(loss, prediction, target):
    match loss:
        case Logistic():
            return -target / (1 + (target * prediction).exp())
        case SmoothedHinge():
            return -target * min(arb(1), max(arb(0), arb(1.5) - target * prediction))
        case Hinge():
            width = ball(loss.width)
            return -target * min(arb(1), max(arb(0), (1 + width - target * prediction) / (2 * width)))
        case Quantile():
            off = (target - prediction) / ball(loss.width)
            return -min(arb(1), max(arb(-1), off)) / 2 - ball(loss.level - Fraction(1, 2))
        case SquaredHinge():
            return -2 * target * max(arb(0), 1 - target * prediction)
        case SquaredError():
            return prediction - target


def ball(value):
    return arb(value.numerator) / arb(value.denominator)


AWKWARD = {
    "one row": ([[1.0]], [1]),
    "zeros": (np.zeros((5, 3)), [1, 1, 1, -1, -1]),
    "one class": (np.eye(4), [1, 1, 1, 1]),
    "separated": ([[1e-9], [-1e-9], [1.0], [-1.0]], [1, -1, 1, -1]),
    "equal columns": (np.full((6, 4), 0.5), [1, 1, 1, 1, 1, -1]),
    "tiny": (np.full((6, 2), 5e-324), [1, 1, 1, 1, 1, -1]),
    "contradictions": ([[1.0, 0.0]] * 6, [1, -1] * 3),
}


@named
@pytest.mark.parametrize("newton_steps", [100, 1, 0])
@pytest.mark.parametrize("lam", ["0.01", "5"])
@pytest.mark.parametrize("rows", AWKWARD)
def test_every_input_has_an_audited_optimum(loss, newton_steps, lam, rows):
    """By Newton's method, or, where that is cut short, by plain descent."""
    made = objective(loss, *AWKWARD[rows], lam)
    weights = audited_optimum(made, newton_steps)
    assert passes(made, weights)
    distance = np.linalg.norm(weights - audited_optimum(made))
    assert distance <= 2 * made.problem.tolerance / made.problem.lam
    assert np.linalg.norm(weights) <= made.problem.norm + made.problem.tolerance / made.problem.lam


@named
def test_the_audit_can_fail(loss):
    made = objective(loss, np.eye(3), [1, 1, -1])
    assert not passes(made, np.zeros(3))
    assert not passes(made, audited_optimum(made) + 1e-3)


@named
def test_bounds_of_the_optimum_hold_and_are_near(loss):
    """Its length over rows in one dimension, and the steepest slope there."""
    longest = 0.0
    for lam, size, share in itertools.product(["0.001", "0.1", "3"], [1.0, 0.3, 0.03, 0.01], [0.5, 0.9, 1.0]):
        targets = np.where(np.arange(10) < 10 * share, 1, -1)
        made = objective(loss, np.full((10, 1), size), targets, lam)
        weights = audited_optimum(made)
        longest = max(longest, abs(weights[0]) / float(made.problem.norm))
        slopes = loss.slopes(made.rows @ weights, made.targets)
        assert np.abs(slopes).max() <= float(made.problem.slope)
        assert np.abs(slopes).mean() <= float(loss.mean_slope)
    assert 0.8 < longest <= 1


@named
def test_slopes_are_derivatives_and_bend_no_more_than_they_say(loss):
    for target in (-1.0, 1.0):
        aim = np.array([target])
        for start in np.linspace(-3, 3, 41) + 0.013:
            assert check_grad(lambda p: loss.values(p, aim)[0], lambda p: loss.slopes(p, aim), [start]) < 1e-5  # noqa: B023
        points = np.linspace(-4, 4, 4001)
        slopes = loss.slopes(points, np.full(4001, target))
        bends = np.diff(slopes) / np.diff(points)
        assert bends.min() + 1e-9 >= 0
        assert 0.99 * float(loss.curvature) < bends.max() <= float(loss.curvature) + 1e-9
        assert np.abs(loss.curvatures(points, np.full(4001, target))[:-1] - bends).mean() < 0.01
        assert (-slopes * points).max() <= float(loss.pull)
        assert (-slopes * points).max() > 0.99 * float(loss.pull)


def test_shares_do_not_overflow():
    assert losses._shares(np.array([-1e308, -750.0, 0.0, 1e308])).tolist() == [np.exp(-700.0), np.exp(-700.0), 0.5, 1.0]


def test_too_little_regularisation_is_refused():
    with pytest.raises(InvalidParameter, match="lam is too small"):
        Problem(Logistic(), Fraction(1000), Fraction(1, 10**9), 100, 3)


@pytest.mark.parametrize("value", [Fraction(2), Fraction(1, 9), Fraction(10**40, 3), Fraction(1, 3 * 10**40)])
def test_roots_lie_between_their_bounds(value):
    low, high = root_bounds(value, 70)
    assert low**2 <= value < high**2
    assert value <= root_up(value) ** 2 <= value * (1 + Fraction(1, 2**50))
