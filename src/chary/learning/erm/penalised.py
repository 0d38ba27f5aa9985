"""Linear models trained privately, as scikit-learn estimators."""

from collections.abc import Hashable, Sequence
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit
from sklearn.base import RegressorMixin

from chary.errors import InvalidParameter
from chary.learning.erm.kinked_losses import Hinge, Quantile
from chary.learning.erm.linear import PrivateClassifier, PrivateLinear
from chary.learning.erm.losses import Floats, Logistic, Loss, SmoothedHinge, SquaredError, SquaredHinge
from chary.learning.features import floats
from chary.noise import Source
from chary.numbers import Number, positive, probability

LOSSES: Final[dict[str, type[SmoothedHinge] | type[SquaredHinge]]] = {
    "smoothed_hinge": SmoothedHinge,
    "squared_hinge": SquaredHinge,
}
# Up to here float64 errs by less than `Problem.float_error`: where it could not, no prediction comes near the corner.
WIDEST: Final = Fraction(1, 2)


class PrivateLogisticRegression(PrivateClassifier):
    """Logistic regression with differential privacy. scikit-learn's `C` is `1 / (n lam)`.

    Guarantee, parameters and errors: see `PrivateLinear`. Every other label than the two `classes` is refused.

    >>> X = np.array([[0.1], [0.2], [0.8], [0.9]] * 5000)
    >>> model = PrivateLogisticRegression(epsilon=1, lam="0.001", radius=1, classes=["low", "high"])
    >>> model.fit(X, ["low", "low", "high", "high"] * 5000).predict([[0.0], [1.0]]).tolist()
    ['low', 'high']
    """

    def __init__(
        self,
        *,
        epsilon: Number | None = None,
        lam: Number,
        radius: Number,
        classes: Sequence[Hashable],
        delta: Number = 0,
        fit_intercept: bool = True,
        steps: int = 80,
        rho: Number | None = None,
        length: Number | None = None,
        unsafe_noise: Source | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.lam = lam
        self.radius = radius
        self.classes = classes
        self.fit_intercept = fit_intercept
        self.steps = steps
        self.rho = rho
        self.length = length
        self.unsafe_noise = unsafe_noise
        self._checked()

    @property
    def loss_function(self) -> Loss:
        return Logistic()

    def predict_proba(self, X: ArrayLike) -> Floats:  # noqa: N803
        """The probability of each of the two classes, for each row."""
        found = self.decision_function(X)
        return np.column_stack([expit(-found), expit(found)])


class PrivateSVC(PrivateClassifier):
    """A linear support vector classifier with differential privacy. scikit-learn's `C` is `1 / (n lam)`.

    Guarantee, parameters and errors: see `PrivateLinear`. `loss` is "smoothed_hinge" (Huber's), "squared_hinge", that
    of scikit-learn's `LinearSVC`, which needs far more noise: its slope is bounded at an optimum only; or "hinge", the
    true one with its corner rounded off within `smoothing` (at most 1/2), which no loss exceeds by more than a quarter
    of `smoothing`. `TrainingBox` promises the risk of the true hinge.

    >>> model = PrivateSVC(epsilon=1, lam="0.001", radius=1, classes=[0, 1], delta=1e-6)
    >>> X = np.array([[0.1], [0.2], [0.8], [0.9]] * 5000)
    >>> model.fit(X, [0, 0, 1, 1] * 5000).predict([[0.0], [1.0]]).tolist()
    [0, 1]
    """

    def __init__(
        self,
        *,
        epsilon: Number | None = None,
        lam: Number,
        radius: Number,
        classes: Sequence[Hashable],
        loss: str = "smoothed_hinge",
        smoothing: Number | None = None,
        delta: Number = 0,
        fit_intercept: bool = True,
        steps: int = 80,
        rho: Number | None = None,
        length: Number | None = None,
        unsafe_noise: Source | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.lam = lam
        self.radius = radius
        self.classes = classes
        self.loss = loss
        self.smoothing = smoothing
        self.fit_intercept = fit_intercept
        self.steps = steps
        self.rho = rho
        self.length = length
        self.unsafe_noise = unsafe_noise
        self._checked()

    @property
    def loss_function(self) -> Loss:
        if self.loss not in (*LOSSES, "hinge"):
            told = ", ".join(map(repr, (*LOSSES, "hinge")))
            raise InvalidParameter(f"loss must be one of {told}, got {self.loss!r}")
        if (self.loss == "hinge") != (self.smoothing is not None):
            raise InvalidParameter(
                'loss="hinge" takes smoothing=, how far its corner is rounded off, and no other does: smoothing="0.1"; '
                '"smoothed_hinge" is rounded off within 1/2'
            )
        if self.smoothing is not None:
            return Hinge(_smoothing(self.smoothing, WIDEST))
        return LOSSES[self.loss]()


class PrivateRegressor(RegressorMixin, PrivateLinear):  # type: ignore[misc]
    """What private regressions share: labels are numbers, clipped to a public bound; the linear function predicts."""

    label_bound: Number

    def predict(self, X: ArrayLike) -> Floats:  # noqa: N803
        """The label of each row, or the quantile of it that was asked for."""
        return self.decision_function(X)

    def targets(self, labels: Any) -> Floats:
        """Numbers, clipped to the bound; NaN for what is none."""
        most = float(positive(self.label_bound, "label_bound"))
        found: Floats = np.clip(floats(labels), -most, most)
        return found


class PrivateRidge(PrivateRegressor):
    """Least squares with a penalty, with differential privacy. scikit-learn's `alpha` is `n lam`.

    Guarantee, parameters and errors: see `PrivateLinear`. `label_bound`: a public bound on the size of labels; larger
    ones are CLIPPED to it.

    >>> X = np.array([[0.1], [0.2], [0.8], [0.9]] * 5000)
    >>> model = PrivateRidge(epsilon=10, lam="0.01", radius=1, label_bound=1, fit_intercept=False)
    >>> model.fit(X, X[:, 0]).predict([[0.5]]).round(1).tolist()
    [0.5]
    """

    def __init__(
        self,
        *,
        epsilon: Number | None = None,
        lam: Number,
        radius: Number,
        label_bound: Number,
        delta: Number = 0,
        fit_intercept: bool = True,
        steps: int = 80,
        rho: Number | None = None,
        length: Number | None = None,
        unsafe_noise: Source | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.lam = lam
        self.radius = radius
        self.label_bound = label_bound
        self.fit_intercept = fit_intercept
        self.steps = steps
        self.rho = rho
        self.length = length
        self.unsafe_noise = unsafe_noise
        self._checked()

    @property
    def loss_function(self) -> Loss:
        return SquaredError(positive(self.label_bound, "label_bound"))


class PrivateQuantileRegressor(PrivateRegressor):
    """Quantile regression with differential privacy; `level` 1/2 is median regression, by least absolute errors.

    Guarantee, parameters and errors: see `PrivateLinear`. A share `level` of labels lies below what is predicted.
    `label_bound`: a public bound on the size of labels; larger ones are CLIPPED to it. `smoothing`: how far the loss's
    corner is rounded off, in the unit of labels, at most `label_bound`; no loss falls short of the true one by more
    than a quarter of it. Scores are coefficients of determination, as in scikit-learn.

    >>> X = np.array([[0.1], [0.2], [0.8], [0.9]] * 500)
    >>> terms = {"level": "0.5", "smoothing": "0.05", "label_bound": 1, "fit_intercept": False}
    >>> model = PrivateQuantileRegressor(rho=1, lam="0.0001", radius=1, length=2, steps=100, **terms)
    >>> model.fit(X, X[:, 0]).predict([[0.5]]).round(1).tolist()
    [0.5]
    """

    def __init__(
        self,
        *,
        level: Number,
        smoothing: Number,
        epsilon: Number | None = None,
        lam: Number,
        radius: Number,
        label_bound: Number,
        delta: Number = 0,
        fit_intercept: bool = True,
        steps: int = 80,
        rho: Number | None = None,
        length: Number | None = None,
        unsafe_noise: Source | None = None,
    ) -> None:
        self.level = level
        self.smoothing = smoothing
        self.epsilon = epsilon
        self.delta = delta
        self.lam = lam
        self.radius = radius
        self.label_bound = label_bound
        self.fit_intercept = fit_intercept
        self.steps = steps
        self.rho = rho
        self.length = length
        self.unsafe_noise = unsafe_noise
        self._checked()

    @property
    def loss_function(self) -> Loss:
        bound = positive(self.label_bound, "label_bound")
        return Quantile(probability(self.level, "level"), bound, _smoothing(self.smoothing, bound))


def _smoothing(width: Number, most: Fraction) -> Fraction:
    if positive(width, "smoothing") > most:
        raise InvalidParameter(f"smoothing must be at most {most}")
    return Fraction(positive(width, "smoothing"))
