"""What private linear models share: training, the guarantee, predicting."""

from abc import abstractmethod
from collections.abc import Hashable, Sequence
from fractions import Fraction
from typing import Any, Final, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted

from chary.accounting import zero_concentrated_rho_down
from chary.errors import InvalidParameter
from chary.learning.erm.audited import Objective, audited_optimum
from chary.learning.erm.calls import LinearAlgorithm
from chary.learning.erm.descent.ball_descent import BallDescent
from chary.learning.erm.descent.noisy_descent import NoisyDescent
from chary.learning.erm.descent.spherical import cells, gaussian_cells, grid_for
from chary.learning.erm.design import clipped, width
from chary.learning.erm.losses import Floats, Loss
from chary.learning.erm.problem import Problem
from chary.learning.erm.roots import root_up
from chary.learning.features import Column, Feature, numbered
from chary.learning.linear_estimators import matrix
from chary.learning.pate.labels import checked_classes
from chary.noise import OperatingSystem, Source
from chary.numbers import Number, failing, positive, whole

Json = dict[str, Any]

# Clipped rows are too long by some d roundings of 2**-53 at most: 2**-30 holds that for eight million columns.
ROUNDING: Final = 1 + Fraction(1, 2**30)
# Products of three such sizes are still floats.
LARGEST: Final = 10**50
# For checks before the size is known: a model that could not be trained on a million rows is refused at once.
TYPICAL_ROWS: Final = 1 << 20


class PrivateLinear(BaseEstimator):  # type: ignore[misc]
    """What private linear models share: weights that minimise `mean(loss) + lam/2 |w|^2`, released once.

    Guarantee: `coef_` and `intercept_` are (epsilon, delta)-DP, or with `rho` in place of both rho-zCDP, when one row
    with its label is replaced by any other; the number of rows is public. With `epsilon` alone the audited optimum gets
    noise of density `exp(-epsilon |b| / sensitivity)`. With a delta or a rho:

    - by default, gradient descent of `steps` steps gets discrete Gaussian noise in each of them;
    - with `length`, a public bound on the weights (L2, the intercept among them), accelerated descent in that ball of
      at most `steps` steps (`BallDescent`), the excess risk of which has a proven bound;
    - with `steps=0`, the audited optimum gets Gaussian noise.

    - `radius`: a public bound on the rows' length (L2). Longer rows are CLIPPED to it, in training and predicting.
    - `lam`: the regularisation; it applies to the intercept, a column of ones, too. More of it needs less noise.
    - `length`: also what `TrainingBox` compares an optimum with that gets noise, which it does not change.
    - `unsafe_noise`: where noise comes from, in tests; None for the operating system.

    Errors: `InvalidParameter` for parameters that cannot be right, arrays that do not fit together, no rows, and
    numbers which are not finite; none shows a value. That a row was refused is not private. A descent takes at most
    2^34 rows, with `length` 2^25, which is as many as it can sum up exactly.
    """

    epsilon: Number | None
    delta: Number
    lam: Number
    radius: Number
    fit_intercept: bool
    steps: int
    rho: Number | None
    length: Number | None
    unsafe_noise: Source | None

    @property
    @abstractmethod
    def loss_function(self) -> Loss:
        """The loss, which is public."""

    @abstractmethod
    def targets(self, labels: Any) -> Floats:
        """Labels as targets of the loss, NaN for what is none."""

    def problem(self, size: int, features: int) -> Problem:
        """What is public about training on so many rows of so many numbers: bounds, tolerance, sensitivity."""
        radius = positive(self.radius, "radius")
        row = root_up(radius**2 + 1) if self.fit_intercept else radius
        lam, rows = Fraction(float(positive(self.lam, "lam"))), whole(size, "the number of rows")
        length = positive(self.length, "length") if self.length is not None and self.descends else None
        return Problem(self.loss_function, row * ROUNDING, lam, rows, self._width(features), length)

    @property
    def descends(self) -> bool:
        """Whether noise goes into the steps of a descent; otherwise an optimum gets it."""
        return bool((self.rho is not None or failing(self.delta)) and self.steps)

    @property
    def concentrated(self) -> Fraction | None:
        """The rho of its zCDP; None if it is epsilon-DP."""
        if self.rho is not None:
            return positive(self.rho, "rho")
        delta = failing(self.delta)
        epsilon = positive(self.epsilon or 0, "epsilon")
        return zero_concentrated_rho_down(epsilon=epsilon, delta=delta) if delta else None

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:  # noqa: N803
        """Train on rows (n x d, finite numbers) and one label each."""
        self._checked()
        rows = matrix(X, "X")
        if not len(rows) or not rows.shape[1] or np.shape(y) != (len(rows),):
            raise InvalidParameter("X needs at least one row and one column, and y one label for each row")
        targets = self.targets(y)
        if not np.isfinite(rows).all() or np.isnan(targets).any():
            raise InvalidParameter("X must hold finite numbers, and y labels of the declared kind")
        return self.restore(self.trained(rows, targets, self.unsafe_noise or OperatingSystem()))

    def trained(self, rows: Floats, targets: Floats, source: Source) -> Json:
        """What is learnt from rows and targets, in JSON. A row whose target is NaN counts as zeros."""
        problem = self.problem(*rows.shape)
        known = np.isfinite(targets)
        inputs = np.where(known[:, None], self._inputs(rows), 0.0)
        aims = np.where(known, targets, 0.0)
        if self.descends:
            weights = self._descent(problem).weights(inputs, aims, source)
        else:
            weights = self._perturbed(problem, audited_optimum(Objective(problem, inputs, aims)), source)
        return {"weights": weights.tolist()}

    def restore(self, state: Json) -> Self:
        """Take over what a model with the same parameters learnt, such as a session's outcome."""
        weights = np.array(state["weights"], dtype=np.float64)
        self.coef_ = weights[:-1] if self.fit_intercept else weights
        self.intercept_ = float(weights[-1]) if self.fit_intercept else 0.0
        self.n_features_in_ = len(self.coef_)
        return self

    def decision_function(self, X: ArrayLike) -> Floats:  # noqa: N803
        """The linear function of each row, clipped like those of training."""
        check_is_fitted(self, "coef_")
        rows = clipped(matrix(X, "X", self.n_features_in_), positive(self.radius, "radius"))
        found: Floats = rows @ self.coef_ + self.intercept_
        return found

    def algorithm(
        self,
        *,
        features: Sequence[Column | Feature],
        label: str,
        name: str = "linear model",
        unit: str | None = None,
        size: int | None = None,
    ) -> LinearAlgorithm:
        """The training as a call of a session: `model.restore(session.ask(Compute(model.algorithm(...))).value)`.

        See `LinearAlgorithm` for `unit` and `size`, and `design_matrix` for what features become.
        """
        self._checked(TYPICAL_ROWS if size is None else whole(size, "size"), width(features))
        return LinearAlgorithm.of(clone(self), features, label, name=name, unit=unit, size=size)

    def body(self) -> Json:
        """Its public parameters, in JSON; none that was left out."""
        given = {name: value for name, value in self.get_params().items() if value is not None}
        told = {name: value for name, value in given.items() if name not in ("unsafe_noise", "classes")}
        plain = {name: value if isinstance(value, (bool, int)) else str(value) for name, value in told.items()}
        return {"learner": type(self).__name__} | plain

    def _perturbed(self, problem: Problem, optimum: Floats, source: Source) -> Floats:
        rho, center = self.concentrated, [Fraction(weight) for weight in optimum.tolist()]
        if rho is None:
            scale = problem.sensitivity / positive(self.epsilon or 0, "epsilon")
            found = cells(center, scale, grid := grid_for(scale), source)
        else:
            scale = root_up(problem.sensitivity**2 / (2 * rho))
            found = gaussian_cells(center, scale, grid := grid_for(scale), source)
        return np.array([float((cell + Fraction(1, 2)) * grid) for cell in found])

    def _descent(self, problem: Problem) -> NoisyDescent | BallDescent:
        rho = self.concentrated or Fraction(0)
        if problem.length is None:
            return NoisyDescent(problem, rho, self.steps)
        return BallDescent(problem, rho, self.steps)

    def _inputs(self, rows: Floats) -> Floats:
        short = clipped(rows, positive(self.radius, "radius"))
        return np.column_stack([short, np.ones(len(short))]) if self.fit_intercept else short

    def _width(self, features: int) -> int:
        return features + bool(self.fit_intercept)

    def _checked(self, rows: int = TYPICAL_ROWS, features: int = 1) -> None:
        """Refuse what cannot be trained on so many rows of so many numbers, before anything is charged or read."""
        if (self.epsilon is None) == (self.rho is None):
            raise InvalidParameter("say how private the model is as one of epsilon= (with a delta=) and rho=")
        for name in ("epsilon", "rho", "length", "lam", "radius", "label_bound", "smoothing"):
            if (value := getattr(self, name, None)) is not None:
                _in_range(value, name)
        if failing(self.delta) and self.rho is not None:
            raise InvalidParameter("a model with rho= has no delta")
        whole(self.steps, "steps", least=int(self.concentrated is None))
        problem = self.problem(rows, features)
        if self.descends:
            self._descent(problem).noisy  # noqa: B018 - refuses too small a rho, and too many rows


def _in_range(value: Number, name: str) -> None:
    if not Fraction(1, LARGEST) <= positive(value, name) <= LARGEST:
        raise InvalidParameter(f"{name} must be between 1e-50 and 1e50: sizes beyond do not fit into float64")


class PrivateClassifier(ClassifierMixin, PrivateLinear):  # type: ignore[misc]
    """A private linear model of two public classes; the second one is where the linear function is positive."""

    classes: Sequence[Hashable]

    def restore(self, state: Json) -> Self:
        self.classes_ = np.array(self.classes)
        return super().restore(state)

    def predict(self, X: ArrayLike) -> NDArray[Any]:  # noqa: N803
        """The class of each row."""
        second = self.decision_function(X) > 0
        chosen: NDArray[Any] = self.classes_[second.astype(np.int64)]
        return chosen

    def body(self) -> Json:
        return super().body() | {"classes": list(self.classes)}

    def targets(self, labels: Any) -> Floats:
        """-1 and 1 for the two classes, NaN for other labels."""
        return np.array([np.nan, -1.0, 1.0])[numbered(labels, self.classes)]

    def _checked(self, rows: int = TYPICAL_ROWS, features: int = 1) -> None:
        super()._checked(rows, features)
        if len(checked_classes(self.classes)) != 2:
            raise InvalidParameter("classes must be the two labels, public: classes=['no', 'yes']")
