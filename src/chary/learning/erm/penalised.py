"""Linear models trained privately, as scikit-learn estimators."""

from collections.abc import Hashable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit
from sklearn.base import RegressorMixin

from chary.errors import InvalidParameter
from chary.learning.erm.linear import PrivateClassifier, PrivateLinear
from chary.learning.erm.losses import Floats, Logistic, Loss, SmoothedHinge, SquaredError, SquaredHinge
from chary.learning.features import floats
from chary.noise import Source
from chary.numbers import Number, positive

LOSSES: Final[dict[str, type[SmoothedHinge] | type[SquaredHinge]]] = {
    "smoothed_hinge": SmoothedHinge,
    "squared_hinge": SquaredHinge,
}


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

    Guarantee, parameters and errors: see `PrivateLinear`. `loss` is "smoothed_hinge" (Huber's) or "squared_hinge",
    that of scikit-learn's `LinearSVC`, which needs far more noise: its slope is bounded at an optimum only.

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
        self.fit_intercept = fit_intercept
        self.steps = steps
        self.rho = rho
        self.length = length
        self.unsafe_noise = unsafe_noise
        self._checked()

    @property
    def loss_function(self) -> Loss:
        if self.loss not in LOSSES:
            raise InvalidParameter(f"loss must be one of {', '.join(map(repr, LOSSES))}, got {self.loss!r}")
        return LOSSES[self.loss]()


class PrivateRidge(RegressorMixin, PrivateLinear):  # type: ignore[misc]
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

    def predict(self, X: ArrayLike) -> Floats:  # noqa: N803
        """The label of each row."""
        return self.decision_function(X)

    def targets(self, labels: Any) -> Floats:
        """Numbers, clipped to the bound; NaN for what is none."""
        bound = float(positive(self.label_bound, "label_bound"))
        found: Floats = np.clip(floats(labels), -bound, bound)
        return found
