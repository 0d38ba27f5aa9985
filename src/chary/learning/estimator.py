"""Private estimators as scikit-learn means them: parameters, training, pipelines that keep the guarantee."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Self

from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import column_or_1d, validate_data

from chary.errors import InvalidParameter
from chary.noise import OperatingSystem, Source
from chary.numbers import Number

Json = dict[str, Any]


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateEstimator(BaseEstimator):  # type: ignore[misc]
    """What private estimators share: parameters are stored as they are given, and checked before each training.

    `fit` charges nothing: anyone who calls it keeps count of what all fits reveal together. What it learns is also
    learnt by a call of a session, which charges it, and `restore` takes that over.
    """

    epsilon: Number | None = None
    unsafe_noise: Source | None = None

    @abstractmethod
    def check(self) -> None:
        """Refuse parameters that cannot be right, by `InvalidParameter`; nothing is read."""

    @abstractmethod
    def read(self, X: Any, y: Any) -> tuple[Any, Any]:  # noqa: N803
        """Rows and labels as `trained` takes them."""

    @abstractmethod
    def trained(self, rows: Any, labels: Any, source: Source) -> Json:
        """What is learnt, in JSON."""

    @abstractmethod
    def restore(self, state: Json) -> Self:
        """Take over what a model with the same parameters learnt, such as a session's outcome."""

    @abstractmethod
    def body(self) -> Json:
        """Its public parameters, in JSON."""

    def fit(self, X: Any, y: Any) -> Self:  # noqa: N803
        """Train on rows and one label each; nothing is charged.

        Errors: `InvalidParameter`, which shows no value of a row; that one is raised is not private.
        """
        self.check()
        rows, labels = self.read(X, _flat(y))
        return self.restore(self.trained(rows, labels, self.unsafe_noise or OperatingSystem()))

    def _keep_columns(self, X: Any, *, reset: bool) -> None:  # noqa: N803
        """Keep names and number of columns in training (`reset`), else refuse others than those; both are public."""
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
    """Labels as they are; a single column of an array or a frame is flattened, with scikit-learn's warning."""
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
        """Train the last step on what the others make of the rows."""
        for name, step in self.steps[:-1]:
            free = step in (None, "passthrough") or isinstance(step, FrozenEstimator)
            if not free and get_tags(step).requires_fit:
                raise InvalidParameter(
                    f"step {name!r} is fitted to the rows, which no noise protects: scale by public bounds"
                )
        fitted: Self = super().fit(X, y, **params)
        return fitted
