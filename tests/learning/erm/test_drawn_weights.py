"""Weights drawn from a lattice: their exact law, what a row may change of it, and the bound of their risk."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import optimize, stats

from chary import InvalidParameter
from chary.learning import PrivateLogisticRegression, PrivateQuantileRegressor, Span, TrainingBox
from chary.learning.descent import LOSS_BITS, DrawnWeights
from chary.learning.losses import Hinge, Logistic, Quantile, SquaredError
from chary.learning.optimum import Problem
from chary.noise import Seeded

from .growing_kit import ALPHA

LOSSES = [Logistic(), Hinge(Fraction(1, 4)), Quantile(Fraction(1, 2), Fraction(1), Fraction(1, 4))]


def problem(loss=LOSSES[0], size=6, features=1, lam="1e-6", length=2):
    return Problem(loss, Fraction(1), Fraction(lam), size=size, features=features, length=Fraction(length))


def law(made, rows, targets, epsilon):
    return np.array(made.choice(epsilon).law(-made.losses(rows, targets)).probabilities())


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_the_law_is_that_of_the_mean_loss(loss):
    made, random = DrawnWeights(problem(loss, features=2), points=3), np.random.default_rng(1)
    rows, targets = random.uniform(-0.7, 0.7, (6, 2)), random.choice([-1.0, 1.0], 6)
    means = [loss.values(rows @ w, targets).mean() + 5e-7 * w @ w for w in made.lattice]
    weights = np.exp(-2.0 * 6 * np.array(means) / (4 * float(made.most)))
    assert law(made, rows, targets, Fraction(2)) == pytest.approx(weights / weights.sum(), rel=1e-4)


@pytest.mark.parametrize("loss", [*LOSSES, SquaredError(Fraction(1))], ids=lambda loss: type(loss).__name__)
def test_a_replaced_row_changes_no_probability_by_more_than_epsilon(loss):
    made, epsilon, worst = DrawnWeights(problem(loss), points=4), Fraction(3), 0.0
    rows = [(x, t) for x in (-1.0, 0.0, 1.0) for t in (-1.0, 1.0)]
    for others in itertools.combinations_with_replacement(rows, 1):
        laws = []
        for last in rows:
            data = [*others] * 2 + [last]
            inputs, targets = np.array([[x] for x, _ in data]), np.array([t for _, t in data])
            laws.append(np.log(law(made, inputs, targets, epsilon)))
        worst = max(worst, *(np.abs(one - two).max() for one, two in itertools.combinations(laws, 2)))
    assert worst <= float(epsilon)
    # Six times the epsilon with the same noise would be found out by these few rows.
    assert 6 * worst > float(epsilon)


class Steep(Logistic):
    """A loss that is far steeper than it says, and no number for some rows."""

    def values(self, predictions, targets):
        return np.where(predictions > 1.5, np.nan, 1e9 * np.abs(predictions - targets))


def test_a_loss_that_breaks_its_word_costs_no_privacy():
    made, epsilon = DrawnWeights(problem(Steep()), points=4), Fraction(3)
    rows = [(x, t) for x in (-1.0, 0.0, 0.3, 1.0) for t in (-1.0, 1.0)]
    laws = [np.log(law(made, np.array([[0.5], [x]]), np.array([1.0, t]), epsilon)) for x, t in rows]
    worst = max(np.abs(one - two).max() for one, two in itertools.combinations(laws, 2))
    assert float(epsilon) / 2 < worst <= float(epsilon)
    # The penalty, which is public, is two steps at most here.
    assert np.abs(made.losses(np.array([[1.0]]), np.array([-1.0]))).max() <= (1 << LOSS_BITS) + 2


def test_the_sum_does_not_depend_on_where_a_row_stands():
    """Rows at the very edge of rounding: were a product's last digit to depend on its place, all of them could move."""
    made, random = DrawnWeights(problem(features=3, size=5000), points=7), np.random.default_rng(6)
    rows, targets = random.uniform(-0.57, 0.57, (5000, 3)), random.choice([-1.0, 1.0], 5000)
    rows[:2500] = rows[0]
    usual = made.losses(rows, targets)
    for _ in range(3):
        order = random.permutation(5000)
        assert (made.losses(rows[order], targets[order]) == usual).all()
    shifted = made.losses(np.roll(rows, 1, axis=0)[:4999], np.roll(targets, 1)[:4999])
    single = made.losses(np.roll(rows, 1, axis=0)[4999:], np.roll(targets, 1)[4999:])
    # The penalty is public, and rounded by itself.
    assert np.abs(shifted + single - usual).max() <= 1


def test_draws_follow_the_law_and_not_that_of_half_the_noise():
    made, rows = DrawnWeights(problem(size=40), points=2), np.linspace(-1, 1, 40)[:, None]
    targets, epsilon = np.where(rows[:, 0] > 0.2, 1.0, -1.0), Fraction(4)
    draws = [float(made.weights(rows, targets, epsilon, Seeded(seed))[0]) for seed in range(2000)]
    seen = np.array([draws.count(point) for point in made.lattice.ravel().tolist()])
    expected, wrong = (2000 * law(made, rows, targets, size) for size in (epsilon, 2 * epsilon))
    assert stats.chisquare(seen, expected).pvalue > ALPHA
    assert stats.chisquare(seen, wrong).pvalue < ALPHA


@pytest.mark.parametrize("features", [1, 2])
def test_the_law_of_the_box_holds_and_falls_as_one_over_n(features):
    random = np.random.default_rng(2)
    rows = random.uniform(-0.7, 0.7, (3000, features))
    labels = np.where(rows.sum(axis=1) + random.normal(0, 0.3, 3000) > 0, "yes", "no")
    told = {"lam": "1e-8", "radius": 1, "classes": ["no", "yes"], "fit_intercept": False}
    model = PrivateLogisticRegression(epsilon=1, length=2, points=60, **told)
    box = TrainingBox(model, [str(column) for column in range(features)], "ill")
    signs = np.where(labels == "yes", 1.0, -1.0)

    def risk(weights):
        return np.logaddexp(0, -signs * (rows @ weights)).mean()

    ball = {"type": "ineq", "fun": lambda w: 4 - w @ w}
    best = optimize.minimize(risk, np.zeros(features), constraints=ball, options={"ftol": 1e-12}).fun
    models = [box.at(1).set_params(unsafe_noise=Seeded(seed)).fit(rows, labels) for seed in range(20)]
    promised = box.law.error(size=3000, epsilon=1, beta="0.05")
    assert max(risk(made.coef_) - best for made in models) <= promised < math.log(2)
    base = float(box.law.base)
    errors = [box.law.error(size=size, epsilon=1, beta="0.05") - base for size in (10**4, 10**5)]
    assert errors[0] == pytest.approx(10 * errors[1])


def test_lattices_fill_the_ball_and_too_many_points_are_refused():
    made = DrawnWeights(problem(features=3), points=5)
    lengths = np.linalg.norm(made.lattice, axis=1)
    assert lengths.max() == pytest.approx(2)
    assert len(made.lattice) == sum(
        x * x + y * y + z * z <= 25 for x, y, z in itertools.product(range(-5, 6), repeat=3)
    )
    assert made.spacing == pytest.approx(0.4)
    with pytest.raises(InvalidParameter, match="more than a million"):
        DrawnWeights(problem(features=9), points=5)


@pytest.mark.parametrize(
    "wrong",
    [{"points": 0}, {"points": 1.5}, {"length": None}, {"epsilon": None, "rho": 1}, {"delta": 1e-6}, {"points": 10**7}],
)
def test_a_model_that_cannot_be_drawn_is_refused(wrong):
    given = {"epsilon": 1, "lam": "1e-6", "radius": 1, "length": 2, "points": 9, "classes": [0, 1]} | wrong
    with pytest.raises(InvalidParameter):
        PrivateLogisticRegression(**given).check()


def test_a_falling_lam_is_not_for_drawn_weights():
    model = PrivateQuantileRegressor(
        epsilon=1, lam="1e-6", radius=1, length=2, points=9, level="0.5", smoothing="0.1", label_bound=1
    )
    assert TrainingBox(model, [Span("age", 0, 100)], "score").law.power == 1
    with pytest.raises(InvalidParameter, match="falling"):
        TrainingBox(model, [Span("age", 0, 100)], "score", falling=("0.1", 1000))
