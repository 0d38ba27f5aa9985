"""Scikit-learn classifiers, trained and asked such that nothing of the data shows in errors or warnings."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from chary.errors import InvalidParameter

Points = NDArray[np.float64]
Choices = NDArray[np.int64]

# Ten rows a class let estimators that need several of each be tried, and cost nothing.
REHEARSAL_ROWS = 10
# Below every class number; scikit-learn uses the same for "no label".
UNLABELLED = -1


class Model(Protocol):
    """Something trained: it chooses a class, as a number, for each point."""

    def predict(self, points: Points, /) -> ArrayLike:
        """One choice for each point."""
        ...


@dataclass(frozen=True)
class Constant:
    """A model that always chooses the same class."""

    choice: int

    def predict(self, points: Points, /) -> Choices:
        """The choice, once for each point."""
        return np.full(len(points), self.choice, dtype=np.int64)


def rehearse(estimator: Any, features: int, classes: int) -> Model:
    """Train a clone on made-up rows and ask it, so that a mistake in the estimator shows before data is touched.

    Errors: `InvalidParameter` when it cannot be cloned, trained or asked, or does not choose among the classes.
    """
    generator = np.random.default_rng(0)
    choices = np.arange(REHEARSAL_ROWS * classes) % classes
    rows = generator.random((len(choices), features))
    try:
        model = fitted(estimator, rows, choices, 0)
        chosen = _predicted(model, rows)
    except Exception as error:
        raise InvalidParameter(f"the estimator fails on made-up rows: {type(error).__name__}") from error
    if not _valid(chosen, len(rows)) or not np.isin(chosen, choices).all():
        raise InvalidParameter("the estimator must be a classifier: it must choose one of the classes it was shown")
    return model


def learn(estimator: Any, rows: Points, choices: Choices, default: int, seed: int) -> Model:
    """A model that always exists, whatever the rows.

    No rows give the constant `default`; rows of one class, or rows on which training or predicting fails, give the most
    frequent class. Rows that are `UNLABELLED` do not count. Warnings are silenced, since they tell about the rows.
    """
    known = choices[choices != UNLABELLED]
    fallback = Constant(int(np.bincount(known).argmax()) if len(known) else default)
    if len(np.unique(known)) < 2:
        return fallback
    try:
        model = fitted(estimator, rows, choices, seed)
        works = _valid(_predicted(model, rows), len(rows))
    except Exception:
        works = False
    return model if works else fallback


def choose(model: Model, points: Points, classes: int, default: int) -> Choices:
    """The model's choices as class numbers; `default` wherever it has none, and everywhere when it fails."""
    try:
        chosen = _predicted(model, points)
    except Exception:
        return np.full(len(points), default, dtype=np.int64)
    if not _valid(chosen, len(points)):
        return np.full(len(points), default, dtype=np.int64)
    return np.where((chosen >= 0) & (chosen < classes), chosen, default).astype(np.int64)


def fitted(estimator: Any, rows: Points, choices: Choices, seed: int) -> Model:
    """A trained clone; every random state that was left open is seeded, so that no two models share one."""
    model = clone(estimator)
    open_states = [
        name for name, value in model.get_params().items() if name.endswith("random_state") and value is None
    ]
    with _quiet():
        model.set_params(**dict.fromkeys(open_states, seed)).fit(rows, choices)
    trained: Model = model
    return trained


def matrix(values: ArrayLike, name: str, features: int | None = None) -> Points:
    """Numbers in two dimensions; `InvalidParameter`, without a value in it, when they are not."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.empty(0)
    if array.ndim != 2 or features not in (None, array.shape[1]):
        columns = "columns" if features is None else f"the {features} columns of the training rows"
        raise InvalidParameter(f"{name} must be a table of numbers: one row each, {columns}")
    return array


def accepts(model: Model, points: Points) -> None:
    """Errors: `InvalidParameter` when a model of made-up rows fails on public points."""
    try:
        if len(points):
            _predicted(model, points)
    except Exception as error:
        raise InvalidParameter(f"the estimator does not accept these points: {type(error).__name__}") from error


def _predicted(model: Model, points: Points) -> NDArray[Any]:
    with _quiet():
        return np.asarray(model.predict(points))


def _valid(chosen: NDArray[Any], points: int) -> bool:
    return chosen.shape == (points,) and chosen.dtype.kind in "iu"


@contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield
