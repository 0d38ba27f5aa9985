"""Scikit-learn classifiers whose errors and warnings reveal nothing of the data; classes and labelled data."""

import warnings
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.datasets import load_digits

from chary.errors import InvalidParameter
from chary.learning.features import NO_TABLE, numbered
from chary.numbers import whole

# Scikit-learn classifiers, trained and used such that errors and warnings reveal nothing of the data.

Points = NDArray[np.float64]
Choices = NDArray[np.int64]

# Ten rows a class, for estimators that need several of each.
REHEARSAL_ROWS = 10
# Below every class number; scikit-learn uses the same for "no label".
UNLABELLED = -1


class Model(Protocol):
    """A trained model: predicts a class, as a number, for each point."""

    def predict(self, points: Points, /) -> ArrayLike:
        """One prediction for each point."""


@dataclass(frozen=True)
class Constant:
    """A model that always predicts the same class."""

    choice: int

    def predict(self, points: Points, /) -> Choices:
        """The class, once for each point."""
        return np.full(len(points), self.choice, dtype=np.int64)


def rehearse(estimator: Any, features: int, classes: int) -> Model:
    """Train a clone on synthetic rows and let it predict, to find errors of the estimator before data are read.

    Errors: `InvalidParameter` if it cannot be cloned, trained or used, or predicts something that is no class.
    """
    generator = np.random.default_rng(0)
    choices = np.arange(REHEARSAL_ROWS * classes) % classes
    rows = generator.random((len(choices), features))
    try:
        model = fitted(estimator, rows, choices, 0)
        chosen = _predicted(model, rows)
    except Exception as error:
        raise InvalidParameter(f"the estimator fails on synthetic rows: {type(error).__name__}") from error
    if not _valid(chosen, len(rows)) or not np.isin(chosen, choices).all():
        raise InvalidParameter("the estimator must be a classifier: it must choose one of the classes it was shown")
    return model


def learn(estimator: Any, rows: Points, choices: Choices, default: int, seed: int) -> Model:
    """Train a model; returns one for any rows.

    No rows give the constant `default`; rows of one class, or rows on which training or predicting fails, give the most
    frequent class. Rows that are `UNLABELLED` do not count. Warnings are suppressed, since they depend on the rows.
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
    """The model's predictions as class numbers; `default` for each invalid one, and for all if it fails."""
    try:
        chosen = _predicted(model, points)
    except Exception:
        return np.full(len(points), default, dtype=np.int64)
    if not _valid(chosen, len(points)):
        return np.full(len(points), default, dtype=np.int64)
    return np.where((chosen >= 0) & (chosen < classes), chosen, default).astype(np.int64)


def fitted(estimator: Any, rows: Points, choices: Choices, seed: int) -> Model:
    """A trained clone. Every random state that is not set is seeded, so that no two models share one."""
    model = clone(estimator)
    open_states = [
        name for name, value in model.get_params().items() if name.endswith("random_state") and value is None
    ]
    with _quiet():
        model.set_params(**dict.fromkeys(open_states, seed)).fit(rows, choices)
    trained: Model = model
    return trained


def matrix(values: ArrayLike, name: str, features: int | None = None) -> Points:
    """Numbers in two dimensions; `InvalidParameter`, without any value, for anything else."""
    array: NDArray[Any] = np.empty(0)
    if not (hasattr(values, "dtype") and np.iscomplexobj(values)):
        with suppress(TypeError, ValueError, OverflowError):
            array = np.asarray(values, dtype=np.float64)
    if array.ndim != 2 or features not in (None, array.shape[1]):
        columns = "columns" if features is None else f"the {features} columns of the training rows"
        raise InvalidParameter(f"{name} must be a table of numbers: one row each, {columns}. {NO_TABLE}")
    return array


def accepts(model: Model, points: Points) -> None:
    """Errors: `InvalidParameter` if a model trained on synthetic rows fails on the public points."""
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


# Public classes, and labels as their numbers.

Classes = tuple[Hashable, ...]
Labels = Iterable[Hashable] | NDArray[Any]


def checked_classes(classes: Sequence[Hashable]) -> Classes:
    """The declared, public classes: at least two, all different.

    >>> checked_classes(["no", "yes"])
    ('no', 'yes')
    """
    declared = tuple(classes)
    try:
        different = len(set(declared))
    except TypeError:
        different = 0
    if len(declared) < 2 or different < len(declared):
        raise InvalidParameter("classes must be at least two different labels")
    return declared


def encode(labels: Labels, classes: Classes) -> Choices:
    """The number of each label's class. Errors: `InvalidParameter`, without the label, for one that is not a class.

    >>> encode(["no", "yes", "no"], ("no", "yes"))
    array([0, 1, 0])
    """
    found = numbered(labels, classes) - 1
    if (found < 0).any():
        raise InvalidParameter("the labels must be one-dimensional, each one of the declared classes")
    return found


# Labelled rows in three parts: private ones for teachers, public points to be labelled, and a test set.

DIGITS = tuple(range(10))
# The digits have 17 shades, from 0 to 16.
DARKEST = 16


@dataclass(frozen=True)
class Split:
    """Rows and labels for the teachers, points to be labelled with their true labels (to evaluate), and a test set."""

    rows: Points
    labels: NDArray[Any]
    points: Points
    truth: NDArray[Any]
    test_rows: Points
    test_labels: NDArray[Any]

    def __repr__(self) -> str:
        return f"Split({len(self.rows)} rows, {len(self.points)} points, {len(self.test_rows)} tests)"


def split(rows: ArrayLike, labels: ArrayLike, *, points: int, test: int, seed: int = 0) -> Split:
    """Shuffle and split: `points` of the rows to be labelled, `test` for testing, the rest for the teachers.

    For experiments on public data: the split is reproducible, not private.

    >>> split(np.eye(10), np.arange(10), points=2, test=3)
    Split(5 rows, 2 points, 3 tests)
    """
    table, names = matrix(rows, "rows"), np.asarray(labels)
    first = whole(points, "points", least=0)
    second = first + whole(test, "test", least=0)
    if names.shape != (len(table),) or second > len(table):
        raise InvalidParameter("rows and labels must be equally many, and as many as points and test together")
    order = np.random.default_rng(seed).permutation(len(table))
    asked, tested, kept = order[:first], order[first:second], order[second:]
    return Split(table[kept], names[kept], table[asked], names[asked], table[tested], names[tested])


def digits(*, points: int = 400, test: int = 397, seed: int = 0) -> Split:
    """The 1,797 handwritten digits of 8 x 8 pixels that come with scikit-learn, darkness scaled to [0, 1].

    >>> digits()
    Split(1000 rows, 400 points, 397 tests)
    """
    pixels, labels = load_digits(return_X_y=True)
    return split(pixels / DARKEST, labels, points=points, test=test, seed=seed)
