"""Public classes, and labels as their numbers."""

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chary.errors import InvalidParameter
from chary.learning.linear_estimators import Choices

Classes = tuple[Hashable, ...]
Labels = Iterable[Hashable] | NDArray[Any]


def checked_classes(classes: Sequence[Hashable]) -> Classes:
    """The declared classes, public: at least two, all different.

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
    """The number of each label's class. Errors: `InvalidParameter`, without the label, if one is none of the classes.

    >>> encode(["no", "yes", "no"], ("no", "yes"))
    array([0, 1, 0])
    """
    numbers = {label: number for number, label in enumerate(classes)}
    try:
        found = [numbers.get(label, -1) for label in _plain(labels)]
    except TypeError:
        found = [-1]
    if -1 in found:
        raise InvalidParameter("the labels must be one-dimensional, each one of the declared classes")
    return np.array(found, dtype=np.int64)


def _plain(labels: Labels) -> Iterable[Hashable]:
    listed: Iterable[Hashable] = labels.tolist() if hasattr(labels, "tolist") else labels
    return listed
