"""The student: trained on public points with released labels, so it may be published."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from chary.errors import InvalidParameter
from chary.learning.linear_estimators import UNLABELLED, Model, accepts, choose, learn, matrix, rehearse
from chary.learning.pate.labels import Classes, Labels, checked_classes, encode


@dataclass(frozen=True)
class Student:
    """A classifier of public points; post-processing of released labels, so as private as these are.

    >>> from sklearn.neighbors import NearestCentroid
    >>> student = train_student([[0.0], [1.0]], ["low", "high"], estimator=NearestCentroid(), classes=["low", "high"])
    >>> student.predict([[0.2], [0.9]])
    ['low', 'high']
    """

    model: Model
    classes: Classes
    features: int
    default: int

    def choose(self, points: ArrayLike) -> list[int]:
        """The number of the class that the student predicts, for each point: a prior for the next release."""
        chosen = choose(self.model, matrix(points, "points", self.features), len(self.classes), self.default)
        return [int(choice) for choice in chosen]

    def predict(self, points: ArrayLike) -> list[Hashable]:
        """The class that the student predicts, for each point."""
        return [self.classes[choice] for choice in self.choose(points)]

    def accuracy(self, points: ArrayLike, labels: Labels) -> float:
        """The share of points it labels right. With a private test set this is an exact figure about private rows.

        Errors: `InvalidParameter` for labels outside the classes, as many as points, at least one.
        """
        truth = encode(labels, self.classes)
        chosen = self.choose(points)
        if len(chosen) != len(truth) or not chosen:
            raise InvalidParameter("points and labels must be equally many, at least one")
        return float(np.mean(truth == np.array(chosen)))


def train_student(
    points: ArrayLike,
    labels: Labels,
    *,
    estimator: Any,
    classes: Sequence[Hashable],
    default: Hashable | None = None,
    unlabelled: ArrayLike | None = None,
    seed: int = 0,
) -> Student:
    """Train a clone of `estimator` on public points and their released labels.

    Without labels, the student predicts `default` (the first class if None) everywhere; with labels of one class only,
    that class. `unlabelled` are more public points for an estimator that learns from such, as those of
    `sklearn.semi_supervised` do. `seed` is for estimators whose random state was left open.

    Errors: `InvalidParameter` for labels outside the classes, or not as many as points, for an estimator that does not
    work, and for points that it does not accept, such as missing values.
    """
    declared = checked_classes(classes)
    table, choices = matrix(points, "points"), encode(labels, declared)
    if len(table) != len(choices):
        raise InvalidParameter("points and labels must be equally many")
    start = 0 if default is None else int(encode([default], declared)[0])
    rehearsed = rehearse(estimator, table.shape[1], len(declared))
    accepts(rehearsed, table)
    if unlabelled is not None:
        more = matrix(unlabelled, "unlabelled", table.shape[1])
        accepts(rehearsed, more)
        table, choices = np.vstack([table, more]), np.append(choices, np.full(len(more), UNLABELLED))
    return Student(learn(estimator, table, choices, start, seed), declared, table.shape[1], start)
