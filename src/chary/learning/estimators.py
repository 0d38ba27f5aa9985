"""Private estimators with the interface of scikit-learn, and naive Bayes from noisy counts."""

from abc import abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from chary.data import Neighbors
from chary.errors import InvalidParameter
from chary.learning.classifiers import checked_classes
from chary.learning.features import Cells, Column, Feature, array_of, numbered, take
from chary.learning.losses import Floats
from chary.mechanisms import Laplace
from chary.noise import OperatingSystem, Source
from chary.numbers import Number, exact, positive, whole

Json = dict[str, Any]


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateEstimator(BaseEstimator):  # type: ignore[misc]
    """Base of private estimators: parameters are stored as given, and checked before each training.

    `fit` charges nothing: its caller accounts for what all fits reveal together. A call of a session trains the same
    model and charges it; `restore` takes over its result.
    """

    epsilon: Number | None = None
    unsafe_noise: Source | None = None

    @abstractmethod
    def check(self) -> None:
        """Refuse invalid parameters by `InvalidParameter`; nothing is read."""

    @abstractmethod
    def read(self, X: Any, y: Any) -> tuple[Any, Any]:  # noqa: N803
        """Rows and labels in the form that `trained` takes."""

    @abstractmethod
    def trained(self, rows: Any, labels: Any, source: Source) -> Json:
        """The learnt state, as JSON."""

    @abstractmethod
    def restore(self, state: Json) -> Self:
        """Take over the state of a model with the same parameters, such as the outcome of a session's call."""

    @abstractmethod
    def body(self) -> Json:
        """Its public parameters, as JSON."""

    def fit(self, X: Any, y: Any) -> Self:  # noqa: N803
        """Train on rows and one label each; nothing is charged.

        Errors: `InvalidParameter`, which shows no value of a row; whether it is raised is not private.
        """
        self.check()
        rows, labels = self.read(X, _flat(y))
        return self.restore(self.trained(rows, labels, self.unsafe_noise or OperatingSystem()))

    def _keep_columns(self, X: Any, *, reset: bool) -> None:  # noqa: N803
        """Store names and number of columns in training (`reset`), later refuse any others; both are public."""
        refused = None
        try:
            validate_data(self, X, reset=reset, skip_check_array=True)
        except ValueError as error:
            refused = InvalidParameter(str(error))
        if refused is not None:
            raise refused

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        return tags


def _flat(labels: Any) -> Any:
    """Labels unchanged; a single column of an array or a frame is flattened, with scikit-learn's warning."""
    if labels is None:
        raise InvalidParameter("training requires y to be passed, but the target y is None")
    column = getattr(labels, "ndim", 1) == 2 and labels.shape[1] == 1
    return column_or_1d(labels, warn=True) if column else labels


class PrivatePipeline(Pipeline):  # type: ignore[misc]
    """A scikit-learn `Pipeline` whose guarantee is that of its last step, since nothing before it learns from the rows.

    Errors: `InvalidParameter`, before any row is read, for a step before the last that is fitted to the rows, such as
    `StandardScaler`. What it learnt would be published unprotected, and one row would move all others. Steps that
    declare that they need no fitting pass: `PublicFeatures`, `Normalizer`, `Binarizer`, and `FunctionTransformer`,
    whose function must treat rows one by one. `FrozenEstimator` of a step that was fitted to public rows passes, too;
    nobody checks that they are public.

    >>> from sklearn.preprocessing import StandardScaler
    >>> from chary.learning import PrivateLogisticRegression
    >>> model = PrivateLogisticRegression(epsilon=1, lam="0.01", radius=1, classes=["no", "yes"])
    >>> PrivatePipeline([("scale", StandardScaler()), ("model", model)]).fit([[1.0]], ["no"])
    Traceback (most recent call last):
    ...
    chary.errors.InvalidParameter: step 'scale' is fitted to the rows, which no noise protects: scale by public bounds
    """

    def fit(self, X: Any, y: Any = None, **params: Any) -> Self:  # noqa: N803
        """Train the last step on the output of the others."""
        for name, step in self.steps[:-1]:
            free = step in (None, "passthrough") or isinstance(step, FrozenEstimator)
            if not free and get_tags(step).requires_fit:
                raise InvalidParameter(
                    f"step {name!r} is fitted to the rows, which no noise protects: scale by public bounds"
                )
        fitted: Self = super().fit(X, y, **params)
        return fitted


# Naive Bayes from exact counts with exact noise; everything else is post-processing.


@dataclass(kw_only=True, eq=False, repr=False)
class CountingBayes(ClassifierMixin, PrivateEstimator):  # type: ignore[misc]
    """A naive Bayes classifier of columns with public cells, trained on counts with discrete Laplace noise.

    Guarantee: when each privacy unit has at most one row, what `fit` learns is epsilon-DP under `neighbors`. A row adds
    one to the count of its class and, for each of F features, one to the count of its cell within its class. So F + 1
    counts change by one under add/remove, and twice as many at most under replace. All of them get discrete Laplace
    noise of that number over epsilon. Clipping at 0, smoothing and predicting are post-processing.

    - `features`: the columns (`Span`, `Cuts`, `Categorical`); `use`: the names of those that count, None for all.
    - `classes`: all labels there can be, public. Rows with another label are left out.
    - `bins`: cells of a `Span`. `smoothing`: added to every count.
    - `epsilon=None` adds no noise: NOT private. `unsafe_noise`: where noise comes from, None for the operating system.

    Missing and unforeseen values have a cell of their own, so no row makes it fail. A row's prediction depends on the
    noisy counts and on that row only. Errors: `InvalidParameter` for what cannot be right.

    >>> from chary.learning.features import Categorical, Span
    >>> rows = {"age": [20, 30, 60, 70] * 500, "sex": ["f", "m", "f", "m"] * 500}
    >>> model = CountingBayes(
    ...     [Span("age", 0, 100), Categorical("sex", ["f", "m"])], classes=["no", "yes"], epsilon=1, bins=4)
    >>> model.fit(rows, ["no", "no", "yes", "yes"] * 500).predict({"age": [25, 65], "sex": ["m", None]})
    array(['no', 'yes'], dtype='<U3')
    """

    features: Sequence[Feature] = field(kw_only=False)
    classes: Sequence[Hashable]
    bins: int = 8
    smoothing: Number = 1
    use: Sequence[Column] | None = None
    neighbors: Neighbors | str = "add_remove"

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns it reads, apart from the labels."""
        return tuple(feature.column for feature in self._used())

    def read(self, X: Any, y: Any) -> tuple[list[Cells], Cells]:  # noqa: N803
        """The cells of each column, and the number of each label's class, -1 for other labels."""
        classes, cells = numbered(y, self.classes) - 1, self._cells(X, reset=True)
        if any(len(column) != len(classes) for column in cells):
            raise InvalidParameter("rows and labels must be equally many")
        return cells, classes

    def trained(self, rows: list[Cells], labels: Cells, source: Source) -> Json:
        """The noisy counts of classes, and of cells within each class, clipped at 0."""
        known, classes = labels >= 0, len(self.classes)
        counts = [np.bincount(labels[known], minlength=classes)]
        for column, size in zip(rows, self._sizes(), strict=True):
            counts.append(np.bincount(labels[known] * size + column[known], minlength=size * classes))
        return {"counts": self._noisy(np.concatenate(counts), source).tolist()}

    def state(self) -> Json:
        """The noisy counts, as JSON."""
        return {"counts": self.counts_.tolist()}

    def restore(self, state: Json) -> Self:
        """Take over the state of a model with the same parameters."""
        counts, size = np.array(state["counts"], dtype=np.int64), len(self.classes)
        ends = np.cumsum([size, *(size * cells for cells in self._sizes())])
        if counts.shape != (ends[-1],):
            raise InvalidParameter("these counts are of a model with other parameters")
        prior, *tables = np.split(counts, ends[:-1])
        self.counts_, self.classes_ = counts, np.array(self.classes)
        self.log_prior_ = self._log_shares(prior)
        self.log_tables_ = [self._log_shares(table.reshape(size, -1)) for table in tables]
        return self

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """The likeliest class for each row, the first one of a tie."""
        check_is_fitted(self, "counts_")
        likeliest: NDArray[Any] = self.classes_[self.log_weights(X).argmax(axis=0)]
        return likeliest

    def log_weights(self, rows: Any) -> Floats:
        """Log-probabilities of the classes, up to a constant for each row: classes by rows."""
        cells = self._cells(rows)
        weights = np.repeat(self.log_prior_[:, None], len(cells[0]), axis=1)
        for column, table in zip(cells, self.log_tables_, strict=True):
            weights += table[:, column]
        return weights

    def body(self) -> Json:
        """All its public parameters, as JSON."""
        return {
            "learner": "counting Bayes",
            "features": [feature.body() for feature in self._used()],
            "classes": list(self.classes),
            "bins": self.bins,
            "smoothing": str(self.smoothing),
        }

    def _cells(self, rows: Any, *, reset: bool = False) -> list[Cells]:
        if not all(isinstance(column, str) for column in self.columns):
            array_of(rows)
            self._keep_columns(rows, reset=reset)
        return [feature.code(take(rows, feature.column), self.bins) for feature in self._used()]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _sizes(self) -> list[int]:
        return [feature.size(self.bins) for feature in self._used()]

    def _used(self) -> list[Feature]:
        return [feature for feature in self.features if self.use is None or feature.column in self.use]

    def _noisy(self, counts: Cells, source: Source) -> Cells:
        if self.epsilon is None:
            return counts
        times = (2 if self.neighbors == Neighbors.REPLACE else 1) * (1 + len(self._used()))
        noisy = Laplace.for_epsilon(self.epsilon, sensitivity=1, times=times).apply(counts, source)
        return np.maximum(noisy, 0)

    def _log_shares(self, counts: Cells) -> Floats:
        smoothed = counts + float(exact(self.smoothing, "smoothing"))
        logs: Floats = np.log(smoothed / smoothed.sum(axis=-1, keepdims=True))
        return logs

    def check(self) -> None:
        checked_classes(self.classes)
        if np.array(self.classes).tolist() != list(self.classes):
            raise InvalidParameter("classes must be of one kind: all strings or all integers")
        names = [feature.column for feature in self.features]
        if len(set(names)) < len(names) or not set(self.use or ()) <= set(names) or not self._used():
            raise InvalidParameter("features have a column each, and `use` names at least one of those columns")
        whole(self.bins, "bins")
        positive(self.smoothing, "smoothing")
        if self.epsilon is not None:
            positive(self.epsilon, "epsilon")
        if self.neighbors not in (Neighbors.ADD_REMOVE, Neighbors.REPLACE):
            raise InvalidParameter(f"neighbors must be 'add_remove' or 'replace', got {self.neighbors!r}")
