"""Losses with corners: how far their rounding is from them, their bounds, what is learnt, what is promised."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import optimize
from scipy.optimize import check_grad
from sklearn.linear_model import QuantileRegressor

from chary import InvalidParameter
from chary.learning import PrivateQuantileRegressor, PrivateSVC, TrainingBox
from chary.learning.losses import Hinge, Quantile
from chary.noise import Seeded

from .estimators_kit import median, rows_of, svc

WIDTHS = [Fraction(1, 2), Fraction(1, 10), Fraction(1, 1000)]
AT = np.linspace(-4, 4, 8001)


def hinges(width):
    return [(Hinge(width), target, np.maximum(0, 1 - target * AT), 1) for target in (-1.0, 1.0)]


def quantiles(width):
    for level in (Fraction(1, 10), Fraction(1, 2), Fraction(4, 5)):
        for target in (-1.0, 0.3):
            exact = np.maximum(float(level) * (target - AT), float(level - 1) * (target - AT))
            yield Quantile(level, Fraction(1), width), target, exact, -1


@pytest.mark.parametrize("width", WIDTHS)
def test_rounding_the_corner_off_changes_a_loss_by_its_bias_at_most_and_by_that_at_the_corner(width):
    for loss, target, exact, side in [*hinges(width), *quantiles(width)]:
        off = side * (loss.values(AT, np.full(AT.shape, target)) - exact)
        assert off.min() > -1e-12
        assert 0.99 * float(loss.bias) < off.max() <= float(loss.bias) * (1 + 1e-9)


@pytest.mark.parametrize("width", WIDTHS)
def test_slope_curvature_and_pull_are_bounded_as_said_and_the_bounds_are_reached(width):
    for loss, target, _exact, _side in [*hinges(width), *quantiles(width)]:
        targets = np.full(AT.shape, target)
        slopes = loss.slopes(AT, targets)
        assert np.abs(slopes).max() <= float(loss.slope_up(Fraction(4))) * (1 + 1e-12)
        assert (np.diff(slopes) <= float(loss.curvature) * np.diff(AT) * (1 + 1e-6)).all()
        assert (np.diff(slopes) >= -1e-12).all()
        assert loss.curvatures(AT, targets).max() == pytest.approx(float(loss.curvature))
        assert (-slopes * AT).max() <= float(loss.pull) * (1 + 1e-9)

        def value(p, loss=loss, target=target):
            return loss.values(p, np.array([target]))[0]

        def slope(p, loss=loss, target=target):
            return loss.slopes(p, np.array([target]))

        for p in (-3.3, 0.21, 0.99):
            assert check_grad(value, slope, np.array([p]), epsilon=1e-7) < 1e-3
    assert (
        max((-loss.slopes(AT, np.full(AT.shape, t)) * AT).max() / float(loss.pull) for loss, t, _, _ in hinges(width))
        > 0.99
    )


def test_without_noise_the_quantile_is_scikit_learns():
    rows, _, numbers = rows_of(300)
    for level in (0.2, 0.5, 0.9):
        known = QuantileRegressor(quantile=level, alpha=0, solver="highs").fit(rows, numbers)
        found = median(epsilon=10**12, level=str(level), lam="1e-4", smoothing="0.01").fit(rows, numbers)
        assert found.predict(rows) == pytest.approx(known.predict(rows), abs=0.05)
        assert (numbers <= found.predict(rows)).mean() == pytest.approx(level, abs=0.03)


def best_of(values, columns, length):
    """The least mean of a loss with corners in a ball, nearly, from a smooth start."""
    ball = {"type": "ineq", "fun": lambda w: length**2 - w @ w}
    return min(
        optimize.minimize(values, start, constraints=ball, options={"ftol": 1e-12}).fun for start in np.eye(columns)
    )


SVC = {"radius": 2, "classes": ["no", "yes"], "loss": "hinge", "smoothing": "0.2", "length": 3}
MEDIAN = {"radius": 2, "level": "0.5", "label_bound": 1, "smoothing": "0.2", "length": 3}
MODELS = {
    "hinge, ball": PrivateSVC(rho=1, lam="1e-4", **SVC),
    "hinge, pure": PrivateSVC(epsilon=1, lam="0.1", **SVC),
    "median, ball": PrivateQuantileRegressor(rho=1, lam="1e-4", **MEDIAN),
    "median, gaussian": PrivateQuantileRegressor(rho=1, lam="0.1", steps=0, **MEDIAN),
}


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_the_risk_of_the_true_loss_is_below_the_promise(model):
    rows, labels, numbers = rows_of(1500)
    hinge = isinstance(model, PrivateSVC)
    aims = labels if hinge else numbers
    whole = np.column_stack([rows, np.ones(len(rows))])

    def risk(weights):
        if hinge:
            return np.maximum(0, 1 - np.where(labels == "yes", 1, -1) * (whole @ weights)).mean()
        return np.abs(numbers - whole @ weights).mean() / 2

    best = best_of(risk, 4, 3)
    box = TrainingBox(model, ["a", "b", "c"], "y")
    told = box.law.error(size=1500, epsilon="0.5", beta="0.2")
    found = [box.at("0.5").set_params(unsafe_noise=Seeded(seed)).fit(rows, aims) for seed in range(10)]
    excess = [risk(np.append(made.coef_, made.intercept_)) - best for made in found]
    assert max(excess) <= told
    assert float(box.law.base) >= 0.05 * (1 - 1e-9)


@pytest.mark.parametrize(
    "make",
    [
        lambda: svc(loss="hinge"),
        lambda: svc(smoothing="0.1"),
        lambda: svc(loss="hinge", smoothing="0.6"),
        lambda: svc(loss="hinge", smoothing=0),
        lambda: median(smoothing=2),
        lambda: median(smoothing=None),
        lambda: median(level=0),
        lambda: median(level=1),
    ],
)
def test_what_is_no_width_or_level_is_refused(make):
    with pytest.raises(InvalidParameter):
        make().check()


def test_a_body_without_smoothing_is_what_it_was():
    assert set(svc().body()) == {
        "learner",
        "epsilon",
        "lam",
        "radius",
        "loss",
        "delta",
        "fit_intercept",
        "steps",
        "classes",
    }
