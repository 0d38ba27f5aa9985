"""Rows of a table as vectors of numbers, by public rules that depend on one row each."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Final

import numpy as np

from chary.errors import InvalidParameter
from chary.learning.erm.losses import Floats
from chary.learning.features import Column, Feature, Span, floats, take

KNOWN: Final = (str, int, Feature)


def design_matrix(rows: Any, features: Sequence[Column | Feature]) -> Floats:
    """One row of numbers for each row of a table, whatever it holds.

    - a column's name (or number): its numbers, 0 for what is none;
    - `Span`: the number between its bounds, scaled to [-1, 1]; 0 for what is none;
    - `Cuts`, `Categorical`: a 1 in the column of its cell, nothing for a missing or unforeseen value.

    So a row of k features that are none of the first kind is at most sqrt(k) long. Errors: `InvalidParameter` for what
    is no list of features, and for a column that the table does not have.

    >>> from chary.learning import Categorical, Span
    >>> rows = {"age": [20, 75, None], "sex": ["f", "m", "?"]}
    >>> design_matrix(rows, [Span("age", 0, 100), Categorical("sex", ["f", "m"])]).tolist()
    [[-0.6, 1.0, 0.0], [0.5, 0.0, 1.0], [0.0, 0.0, 0.0]]
    """
    named(features)
    return np.column_stack([_columns(rows, feature) for feature in features])


def width(features: Sequence[Column | Feature]) -> int:
    """How many numbers a row becomes.

    >>> from chary.learning import Categorical, Span
    >>> width([Span("age", 0, 100), Categorical("sex", ["f", "m"]), "height"])
    4
    """
    named(features)
    return sum(_width(feature) for feature in features)


def named(features: Sequence[Column | Feature]) -> list[Column]:
    """The columns of the features; `InvalidParameter` where there is none, and for what is no list of them."""
    listed = isinstance(features, Sequence) and not isinstance(features, str)
    if not listed or not features or any(isinstance(one, bool) or not isinstance(one, KNOWN) for one in features):
        raise InvalidParameter('name the features, in a list: features=["age", Categorical("sex", ["f", "m"])]')
    return [feature.column if isinstance(feature, Feature) else feature for feature in features]


def clipped(rows: Floats, radius: Fraction) -> Floats:
    """Rows longer than the radius shortened to it, up to a rounding of `2**-40` of the radius.

    >>> clipped(np.array([[3.0, 4.0], [0.0, 1e308]]), Fraction(1)).round(9).tolist()
    [[0.6, 0.8], [0.0, 1.0]]
    """
    bound = float(radius)
    largest = np.maximum(np.abs(rows).max(axis=1, initial=0), bound)
    lengths = np.linalg.norm(rows / largest[:, None], axis=1)
    long = lengths > bound / largest
    short = rows / largest[:, None] * (bound / np.maximum(lengths, 1))[:, None]
    return np.where(long[:, None], short, rows)


def _width(feature: Column | Feature) -> int:
    return 1 if isinstance(feature, Span) or not isinstance(feature, Feature) else feature.size(1) - 1


def _columns(rows: Any, feature: Column | Feature) -> Floats:
    if not isinstance(feature, Feature):
        return np.nan_to_num(floats(_taken(rows, feature)), nan=0.0)[:, None]
    values = _taken(rows, feature.column)
    if isinstance(feature, Span):
        low, high = float(feature.low), float(feature.high)
        return np.nan_to_num((2 * np.clip(floats(values), low, high) - low - high) / (high - low), nan=0.0)[:, None]
    cells = feature.code(values, bins=1)
    return np.asarray(cells[:, None] == np.arange(1, feature.size(1)), dtype=np.float64)


def _taken(rows: Any, column: Column) -> Any:
    """A column; what is raised where there is none differs between libraries."""
    try:
        return take(rows, column)
    except Exception:
        missing = InvalidParameter(f"the rows have no column {column!r}")
    raise missing
