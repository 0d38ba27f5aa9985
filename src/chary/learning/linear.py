"""Private linear models as scikit-learn estimators and as calls of a session: the guarantee, training, prediction."""

from abc import abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import ClassifierMixin, RegressorMixin, clone
from sklearn.utils.validation import check_is_fitted

from chary.accounting import zero_concentrated_rho_down
from chary.calls import Algorithm
from chary.data import Neighbors, Reading, Rows
from chary.errors import InvalidParameter
from chary.learning import classifiers, descent, losses, search
from chary.learning.estimators import Json, PrivateEstimator
from chary.learning.features import (
    Categorical,
    Column,
    Feature,
    RowTransform,
    clipped,
    described,
    design_matrix,
    floats,
    numbered,
    width,
)
from chary.learning.losses import Floats
from chary.learning.optimum import Objective, Problem, audited_optimum, cells, gaussian_cells, grid_for
from chary.noise import Source, uniform_integers
from chary.numbers import Number, failing, positive, probability, whole, work_out

# What private linear models share: training, the guarantee, predicting.

# Clipped rows are too long by some d roundings of 2**-53 at most: 2**-30 holds that for eight million columns.
ROUNDING: Final = 1 + Fraction(1, 2**30)
# Products of three such sizes are still floats.
LARGEST: Final = 10**50
# For checks before the size is known: a model that could not be trained on a million rows is refused at once.
TYPICAL_ROWS: Final = 1 << 20


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateLinear(PrivateEstimator):
    """What private linear models share: weights that minimise `mean(loss) + lam/2 |w|^2`, released once.

    Guarantee: `coef_` and `intercept_` are (epsilon, delta)-DP, or with `rho` in place of both rho-zCDP. This is when
    one row with its label is replaced by any other; the number of rows is public. With `epsilon` alone the audited
    optimum gets noise of density `exp(-epsilon |b| / sensitivity)`. With a delta or a rho:

    - by default, gradient descent of `steps` steps gets discrete Gaussian noise in each of them;
    - with `length`, a public bound on the weights (L2, including the intercept), accelerated descent in that ball of at
      most `steps` steps (`BallDescent`). Its excess risk has a proven bound;
    - with `steps=0`, the audited optimum gets Gaussian noise.

    With `epsilon` alone, a `length` and `points`, weights are drawn from a lattice in the ball of that radius
    (`DrawnWeights`). On each axis it has `points` points from its middle to its edge. This is for few columns, of any
    loss.

    - `radius`: a public bound on the rows' length (L2). Longer rows are CLIPPED to it, in training and predicting.
    - `lam`: the regularisation; it applies to the intercept, a column of ones, too. More of it needs less noise.
    - `length`: also what `TrainingBox` compares an optimum with that gets noise, which it does not change.
    - `row_transform`: a fixed public step (`RowTransform`) before rows are clipped, in training and predicting.
    - `unsafe_noise`: where noise comes from, in tests; None for the operating system.

    Errors: `InvalidParameter` for parameters that cannot be right, arrays that do not fit together, no rows, and
    numbers which are not finite; none shows a value. That a row was refused is not private. A descent takes at most
    2^34 rows, with `length` 2^25, which is as many as it can sum up exactly.
    """

    lam: Number
    radius: Number
    delta: Number = 0
    fit_intercept: bool = True
    steps: int = 80
    rho: Number | None = None
    length: Number | None = None
    points: int | None = None
    row_transform: RowTransform | None = None

    @property
    def _unknown(self) -> str:
        return "y must hold numbers"

    @property
    @abstractmethod
    def loss_function(self) -> losses.Loss:
        """The loss, which is public."""

    @abstractmethod
    def targets(self, labels: Any) -> Floats:
        """Labels as targets of the loss, NaN for what is none."""

    def problem(self, size: int, features: int) -> Problem:
        """What is public about training on this many rows of this many numbers: bounds, tolerance, sensitivity."""
        radius = positive(self.radius, "radius")
        row = losses.root_up(radius**2 + 1) if self.fit_intercept else radius
        lam, rows = Fraction(float(positive(self.lam, "lam"))), whole(size, "the number of rows")
        bounded = self.descends or self.points is not None
        length = positive(self.length, "length") if self.length is not None and bounded else None
        return Problem(self.loss_function, row * ROUNDING, lam, rows, features + bool(self.fit_intercept), length)

    def trained_width(self, features: int) -> int:
        """How many numbers a row of this many has once its step was applied."""
        return features if self.row_transform is None else self.row_transform.outputs

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

    def read(self, X: Any, y: Any) -> tuple[Floats, Floats]:  # noqa: N803
        """Finite numbers (n x d), and the targets of labels that are of the declared kind."""
        rows, targets = self._matrix(X, reset=True), self.targets(y)
        if not len(rows) or targets.shape != (len(rows),):
            raise InvalidParameter("X needs at least one row, and y one label for each row")
        if np.isnan(targets).any():
            raise InvalidParameter(self._unknown)
        return rows, targets

    def trained(self, rows: Floats, targets: Floats, source: Source) -> Json:
        """What is learnt from rows and targets, in JSON. A row whose target is NaN counts as zeros."""
        problem = self.problem(len(rows), self.trained_width(rows.shape[1]))
        known = np.isfinite(targets)
        inputs = np.where(known[:, None], self._inputs(rows), 0.0)
        aims = np.where(known, targets, 0.0)
        if self.points is not None:
            made = descent.DrawnWeights(problem, self.points)
            weights = made.weights(inputs, aims, positive(self.epsilon or 0, "epsilon"), source)
        elif self.descends:
            weights = self._descent(problem).weights(inputs, aims, source)
        else:
            weights = self._perturbed(problem, audited_optimum(Objective(problem, inputs, aims)), source)
        return {"weights": weights.tolist()}

    def restore(self, state: Json) -> Self:
        """Take over what a model with the same parameters learnt, such as a session's outcome."""
        weights = np.array(state["weights"], dtype=np.float64)
        self.coef_ = weights[:-1] if self.fit_intercept else weights
        self.intercept_ = float(weights[-1]) if self.fit_intercept else 0.0
        self.n_features_in_ = len(self.coef_) if self.row_transform is None else self.row_transform.inputs
        return self

    def _predicted(self, X: Any) -> Floats:  # noqa: N803
        """The linear function of each row, clipped like those of training."""
        check_is_fitted(self, "coef_")
        found: Floats = self._short(self._matrix(X, reset=False)) @ self.coef_
        return found + self.intercept_

    def _short(self, rows: Floats) -> Floats:
        """Rows after the step, clipped."""
        made = rows if self.row_transform is None else self.row_transform.apply(rows)
        return clipped(made, positive(self.radius, "radius"))

    def _matrix(self, X: Any, *, reset: bool) -> Floats:  # noqa: N803
        """Rows as numbers, finite; `reset` in training, else as many columns, of the same names, as there."""
        rows = classifiers.matrix(X, "X")
        self._keep_columns(X, reset=reset)
        if not rows.shape[1]:
            raise InvalidParameter(f"X has 0 feature(s) (shape={rows.shape}) while a minimum of 1 is required.")
        if not np.isfinite(rows).all():
            raise InvalidParameter("X must hold finite numbers: no NaN, no inf")
        return rows

    def algorithm(
        self,
        *,
        features: Sequence[Column | Feature],
        label: str,
        name: str = "linear model",
        unit: str | None = None,
        size: int | None = None,
    ) -> "LinearAlgorithm":
        """The training as a call of a session: `model.restore(session.ask(RunAlgorithm(model.algorithm(...))).value)`.

        See `LinearAlgorithm` for `unit` and `size`, and `design_matrix` for what features become.
        """
        rows = None if size is None else whole(size, "size")
        known = described(features)
        if self.row_transform is not None and width(features) != self.row_transform.inputs:
            raise InvalidParameter(
                f"the step takes {self.row_transform.inputs} numbers, the features are {width(features)}"
            )
        self.check(rows or TYPICAL_ROWS, width(features))
        if not isinstance(label, str):
            raise InvalidParameter('name the column to predict: label="ill"')
        if label in (feature.column for feature in known):
            raise InvalidParameter(f"the label {label!r} is one of the columns it would be predicted from")
        columns = [*(str(feature.column) for feature in known), label, *([] if unit is None else [unit])]
        told = {"features": [feature.body() for feature in known], "label": label, "unit": unit, "size": rows}
        model = clone(self)
        return LinearAlgorithm(
            name,
            partial(train, model.targets, model.trained, features, label, unit, rows),
            self.epsilon,
            self.delta,
            list(dict.fromkeys(columns)),
            self.body() | told,
            rho=self.rho,
            unit=unit,
            rows_declared=rows,
            read=[*known, *([Categorical(label, self.classes)] if isinstance(self, PrivateClassifier) else [])],
        )

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
            scale = losses.root_up(problem.sensitivity**2 / (2 * rho))
            found = gaussian_cells(center, scale, grid := grid_for(scale), source)
        return np.array([float((cell + Fraction(1, 2)) * grid) for cell in found])

    def _descent(self, problem: Problem) -> descent.NoisyDescent | descent.BallDescent:
        made = descent.NoisyDescent if problem.length is None else descent.BallDescent
        return made(problem, self.concentrated or Fraction(0), self.steps)

    def _inputs(self, rows: Floats) -> Floats:
        short = self._short(rows)
        return np.column_stack([short, np.ones(len(short))]) if self.fit_intercept else short

    def check(self, rows: int = TYPICAL_ROWS, features: int = 1) -> None:
        """Refuse what cannot be trained on this many rows of this many numbers, before anything is charged or read."""
        if (self.epsilon is None) == (self.rho is None):
            raise InvalidParameter("say how private the model is as one of epsilon= (with a delta=) and rho=")
        for name in ("epsilon", "rho", "length", "lam", "radius", "label_bound", "smoothing"):
            if (value := getattr(self, name, None)) is not None:
                _in_range(value, name)
        if failing(self.delta) and self.rho is not None:
            raise InvalidParameter("a model with rho= has no delta")
        whole(self.steps, "steps", least=int(self.concentrated is None))
        if self.row_transform is not None and not isinstance(self.row_transform, RowTransform):
            raise InvalidParameter("row_transform= is a RowTransform")
        problem = self.problem(rows, self.trained_width(features))
        if isinstance(problem.loss, losses.OwnLoss) and not self.descends:
            raise InvalidParameter(losses.DESCENTS_ONLY)
        if self.points is not None:
            whole(self.points, "points")
            if self.concentrated is not None or self.length is None:
                raise InvalidParameter("points= is for models with epsilon= alone and a length=")
            work_out(descent.DrawnWeights(problem, self.points))
        if self.descends:
            work_out(self._descent(problem).noisy)  # refuses too small a rho, and too many rows


def _in_range(value: Number, name: str) -> None:
    if not Fraction(1, LARGEST) <= positive(value, name) <= LARGEST:
        raise InvalidParameter(f"{name} must be between 1e-50 and 1e50: sizes beyond do not fit into float64")


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateClassifier(ClassifierMixin, PrivateLinear):  # type: ignore[misc]
    """A private linear model of two public classes; the second one is where the linear function is positive."""

    classes: Sequence[Hashable]

    @property
    def _unknown(self) -> str:
        declared = list(self.classes)
        return f"Unknown label type: the declared classes are {declared}. Only binary classification is supported."

    def restore(self, state: Json) -> Self:
        self.classes_ = np.array(self.classes)
        return super().restore(state)

    def decision_function(self, X: Any) -> Floats:  # noqa: N803
        """The linear function of each row, clipped like those of training."""
        return self._predicted(X)

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """The class of each row."""
        second = self.decision_function(X) > 0
        return self.classes_[second.astype(np.int64)]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def body(self) -> Json:
        return super().body() | {"classes": list(self.classes)}

    def targets(self, labels: Any) -> Floats:
        """-1 and 1 for the two classes, NaN for other labels."""
        return np.array([np.nan, -1.0, 1.0])[numbered(labels, self.classes)]

    def check(self, rows: int = TYPICAL_ROWS, features: int = 1) -> None:
        super().check(rows, features)
        if len(classifiers.checked_classes(self.classes)) != 2:
            raise InvalidParameter("classes must be the two labels, public: classes=['no', 'yes']")


# Linear models trained privately, as scikit-learn estimators.

LOSSES: Final[dict[str, Callable[..., losses.Loss]]] = {
    "smoothed_hinge": losses.SmoothedHinge,
    "squared_hinge": losses.SquaredHinge,
    "hinge": losses.Hinge,
}
# Up to here float64 errs by less than `Problem.float_error`: where it could not, no prediction comes near the corner.
WIDEST: Final = Fraction(1, 2)


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateLogisticRegression(PrivateClassifier):
    """Logistic regression with differential privacy. scikit-learn's `C` is `1 / (n lam)`.

    Guarantee, parameters and errors: see `PrivateLinear`. Every other label than the two `classes` is refused.

    >>> X = np.array([[0.1], [0.2], [0.8], [0.9]] * 5000)
    >>> model = PrivateLogisticRegression(epsilon=1, lam="0.001", radius=1, classes=["low", "high"])
    >>> model.fit(X, ["low", "low", "high", "high"] * 5000).predict([[0.0], [1.0]]).tolist()
    ['low', 'high']
    """

    @property
    def loss_function(self) -> losses.Loss:
        return losses.Logistic()

    def predict_proba(self, X: Any) -> Floats:  # noqa: N803
        """The probability of each of the two classes, for each row."""
        found = self.decision_function(X)
        return np.column_stack([expit(-found), expit(found)])


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateSVC(PrivateClassifier):
    """A linear support vector classifier with differential privacy. scikit-learn's `C` is `1 / (n lam)`.

    Guarantee, parameters and errors: see `PrivateLinear`. `loss` is "smoothed_hinge" (Huber's), "squared_hinge" or
    "hinge". "squared_hinge" is that of scikit-learn's `LinearSVC`, which needs far more noise: its slope is bounded at
    an optimum only. "hinge" is the true one with its corner rounded off within `smoothing` (at most 1/2); no loss
    exceeds it by more than a quarter of `smoothing`. `TrainingBox` promises the risk of the true hinge.

    >>> model = PrivateSVC(epsilon=1, lam="0.001", radius=1, classes=[0, 1], delta=1e-6)
    >>> X = np.array([[0.1], [0.2], [0.8], [0.9]] * 5000)
    >>> model.fit(X, [0, 0, 1, 1] * 5000).predict([[0.0], [1.0]]).tolist()
    [0, 1]
    """

    loss: str = "smoothed_hinge"
    smoothing: Number | None = None

    @property
    def loss_function(self) -> losses.Loss:
        if self.loss not in LOSSES:
            raise InvalidParameter(f"loss must be one of {', '.join(map(repr, LOSSES))}, got {self.loss!r}")
        if (self.loss == "hinge") != (self.smoothing is not None):
            raise InvalidParameter(
                'loss="hinge" takes smoothing=, how far its corner is rounded off, and no other does: smoothing="0.1"; '
                '"smoothed_hinge" is rounded off within 1/2'
            )
        return LOSSES[self.loss](*([] if self.smoothing is None else [_smoothing(self.smoothing, WIDEST)]))


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateRegressor(RegressorMixin, PrivateLinear):  # type: ignore[misc]
    """What private regressions share: labels are numbers, clipped to a public bound; the linear function predicts."""

    label_bound: Number

    def predict(self, X: Any) -> Floats:  # noqa: N803
        """The label of each row, or the quantile of it that was asked for."""
        return self._predicted(X)

    def targets(self, labels: Any) -> Floats:
        """Numbers, clipped to the bound; NaN for what is none."""
        most = float(positive(self.label_bound, "label_bound"))
        return np.clip(floats(labels), -most, most)


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateRidge(PrivateRegressor):
    """Least squares with a penalty, with differential privacy. scikit-learn's `alpha` is `n lam`.

    Guarantee, parameters and errors: see `PrivateLinear`. `label_bound`: a public bound on the size of labels; larger
    ones are CLIPPED to it.

    >>> X = np.array([[0.1], [0.2], [0.8], [0.9]] * 5000)
    >>> model = PrivateRidge(epsilon=10, lam="0.01", radius=1, label_bound=1, fit_intercept=False)
    >>> model.fit(X, X[:, 0]).predict([[0.5]]).round(1).tolist()
    [0.5]
    """

    @property
    def loss_function(self) -> losses.Loss:
        return losses.SquaredError(positive(self.label_bound, "label_bound"))


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateQuantileRegressor(PrivateRegressor):
    """Quantile regression with differential privacy; `level` 1/2 is median regression, by least absolute errors.

    Guarantee, parameters and errors: see `PrivateLinear`. A proportion `level` of labels lies below what is predicted.
    `label_bound`: a public bound on the size of labels; larger ones are CLIPPED to it. `smoothing`: how far the loss's
    corner is rounded off, in the unit of labels, at most `label_bound`. No loss falls short of the true one by more
    than a quarter of it. Scores are coefficients of determination, as in scikit-learn.

    >>> X = np.array([[0.1], [0.2], [0.8], [0.9]] * 500)
    >>> terms = {"level": "0.5", "smoothing": "0.05", "label_bound": 1, "fit_intercept": False}
    >>> model = PrivateQuantileRegressor(rho=1, lam="0.0001", radius=1, length=2, steps=100, **terms)
    >>> model.fit(X, X[:, 0]).predict([[0.5]]).round(1).tolist()
    [0.5]
    """

    level: Number
    smoothing: Number

    @property
    def loss_function(self) -> losses.Loss:
        bound = positive(self.label_bound, "label_bound")
        return losses.Quantile(probability(self.level, "level"), bound, _smoothing(self.smoothing, bound))


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateConvexRegressor(PrivateRegressor):
    """A linear model of a convex loss of your own (`OwnLoss`), with differential privacy, by descent: rho or a delta.

    Guarantee, parameters and errors: see `PrivateLinear` and `OwnLoss`. `label_bound`: a public bound on the size of
    labels; larger ones are CLIPPED to it. For two classes, bring labels -1 and 1.

    >>> from chary.learning import OwnLoss
    >>> huber = OwnLoss("huber", lambda p, t: np.clip(p - t, -0.2, 0.2), slope="0.2", curvature=1)
    >>> X = np.array([[0.1], [0.2], [0.8], [0.9]] * 5000)
    >>> terms = {"lam": "0.0001", "radius": 1, "length": 2, "label_bound": 1, "fit_intercept": False, "steps": 200}
    >>> PrivateConvexRegressor(loss=huber, rho=1, **terms).fit(X, X[:, 0]).predict([[0.5]]).round(1).tolist()
    [0.5]
    """

    loss: losses.OwnLoss

    @property
    def loss_function(self) -> losses.Loss:
        if not isinstance(self.loss, losses.OwnLoss):
            raise InvalidParameter('bring the loss as OwnLoss("huber", slopes, slope=1, curvature=1)')
        return self.loss

    def check(self, rows: int = TYPICAL_ROWS, features: int = 1) -> None:
        super().check(rows, features)
        problem = self.problem(rows, self.trained_width(features))
        self.loss.try_out(float(problem.norm * problem.radius), float(positive(self.label_bound, "label_bound")))


def _smoothing(width: Number, most: Fraction) -> Fraction:
    if (found := positive(width, "smoothing")) > most:
        raise InvalidParameter(f"smoothing must be at most {most}")
    return Fraction(found)


# Training as a private algorithm of a session.


@dataclass(frozen=True)
class LinearAlgorithm(Algorithm):
    """Training as a call of a session, (epsilon, delta)-DP or rho-zCDP, as the model, under the session's relation.

    How much a row counts for depends on the number of rows, so that must be public. It is under `replace` where each
    row is a unit of its own. Otherwise declare `size`: as many rows are trained on, whatever there are. Of each `unit`,
    the session's column of units, one row is drawn. Of more rows than `size`, `size` are drawn at random; fewer are
    filled up with rows of zeros. One unit more or less is then one row replaced.

    No row makes it fail: what is no number counts as 0, a row without one of the labels as zeros.

    Errors: `InvalidParameter`, before anything is charged, in a session whose relation or unit do not allow it. The
    same for classes or categories none of which can occur in a column of its type. For example, yes and no in a column
    of a CSV that is declared BOOLEAN are Booleans. The same for strings and dates where a feature needs numbers.
    """

    unit: str | None = None
    rows_declared: int | None = None
    read: Sequence[Feature] = ()

    def prepare(self, rows: Rows) -> Reading:
        neighbors, unit = rows.neighbor_relation.neighbors, rows.neighbor_relation.unit
        if neighbors is Neighbors.BOUNDED_CHANGE:
            raise InvalidParameter("a series of counts has no rows to train on")
        if unit != self.unit:
            raise InvalidParameter(f"the session's units are those of {unit!r}: say unit={unit!r}")
        if self.rows_declared is None and (neighbors is not Neighbors.REPLACE or unit is not None):
            raise InvalidParameter("the number of units is no public number here: declare size=, how many to train on")
        plan = super().prepare(rows)
        for feature in self.read:
            feature.check(rows.schema[str(feature.column)])
        return plan


def train(
    targets: Callable[[Any], Floats],
    trained: Callable[[Floats, Floats, Source], Json],
    features: Sequence[Column | Feature],
    label: str,
    unit: str | None,
    size: int | None,
    rows: pa.Table,
    source: Source,
    /,
    **_: Any,
) -> dict[str, Any]:
    """What `trained` learns; a dataset without rows is trained on as one row of zeros."""
    kept = sample(search.one_row_each(rows, unit, source), size, source)
    short = max(1, size or 0) - len(kept)
    inputs = np.pad(design_matrix(kept, features), ((0, max(0, short)), (0, 0)))
    aims = np.pad(targets(kept[label]), (0, max(0, short)), constant_values=np.nan)
    return trained(inputs, aims, source)


def sample(rows: pa.Table, size: int | None, source: Source) -> pa.Table:
    """At most `size` rows, drawn at random: those with the least random keys, so that one row more displaces one.

    >>> from chary.noise import OperatingSystem
    >>> sample(pa.table({"age": [1, 2, 3]}), 2, OperatingSystem()).num_rows
    2
    """
    if size is None:
        return rows
    keys = uniform_integers(source, search.KEYS, len(rows))
    return rows.take(np.sort(np.argsort(keys, kind="stable")[:size]))
