"""Features: the cell of each value and the vector of each row, by public rules that depend on one row each."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import pairwise, repeat
from numbers import Real
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from chary.errors import AlgorithmFailed, InvalidParameter, brought
from chary.learning.losses import Floats
from chary.numbers import Number, checked, exact, float_or_nan, set_fields, whole

# Public descriptions of columns: a cell for each possible value.

# Names of Arrow's numeric types begin like this; below, those of DuckDB, with all their other names.
NUMERIC: Final = ("int", "uint", "float", "decimal")
_NUMBERS: Final = re.compile(r"boolean|u?(tiny|small|big|huge)?int(eger|\d+)?|float\d*|double|decimal.*")
# Scikit-learn's message for anything that is no table.
NO_TABLE: Final = "Reshape your data if it has one dimension. Complex data not supported, nor sparse."

Cells = NDArray[np.int64]
Column = str | int


@dataclass(frozen=True, repr=False)
class Feature(ABC):
    """A column whose values fall into cells; cell 0 holds missing values, those that are no number, and unforeseen
    ones.

    Guarantee: every value has exactly one cell, which depends on that value and on public numbers only.
    """

    column: Column

    @abstractmethod
    def size(self, bins: int) -> int:
        """The number of cells; `bins` matters to a `Span` only."""

    @abstractmethod
    def code(self, values: Any, bins: int) -> Cells:
        """The cell of each value."""

    @property
    def width(self) -> int:
        """How many numbers a value becomes in a vector."""
        return self.size(1) - 1

    def vectors(self, values: Any) -> Floats:
        """Each value as numbers: a 1 for its cell, zeros if it is missing or unforeseen."""
        return np.asarray(self.code(values, 1)[:, None] == np.arange(1, self.size(1)), dtype=np.float64)

    def check(self, kind: str) -> None:
        """Refuse a column whose type makes all its values missing."""
        if _NUMBERS.fullmatch(kind) is None:
            raise InvalidParameter(
                f"{self.column!r} is of type {kind}, and the feature needs numbers: list its values with "
                f"Categorical({self.column!r}, [...]), or bring a column of numbers"
            )

    def body(self) -> Any:
        """Its parameters, as JSON."""
        return [type(self).__name__, self.column]

    def __repr__(self) -> str:
        kind, *given = self.body()
        return f"{kind}({', '.join(map(repr, given))})"


@dataclass(frozen=True, repr=False)
class Span(Feature):
    """Numbers between public bounds, in `bins` cells of equal width; numbers outside count as the nearest bound.

    >>> Span("age", 0, 100).code([-5, 49, 50, 120, float("nan")], bins=2).tolist()
    [1, 1, 2, 2, 0]
    """

    low: Number
    high: Number

    def __post_init__(self) -> None:
        checked(self, low=exact, high=exact)
        if self._bounds[0] >= self._bounds[1]:
            raise InvalidParameter("low must be below high, both public: Span('age', 0, 100)")

    def size(self, bins: int) -> int:
        return 1 + bins

    def code(self, values: Any, bins: int) -> Cells:
        low, high = self._bounds
        points = [float(low + (high - low) * step / bins) for step in range(1, bins)]
        return _between(values, points)

    @property
    def width(self) -> int:
        return 1

    def vectors(self, values: Any) -> Floats:
        low, high = float(self.low), float(self.high)
        return np.nan_to_num((2 * np.clip(floats(values), low, high) - low - high) / (high - low), nan=0.0)[:, None]

    def body(self) -> Any:
        return [*super().body(), str(self.low), str(self.high)]

    @property
    def _bounds(self) -> tuple[Fraction, Fraction]:
        return Fraction(self.low), Fraction(self.high)


@dataclass(frozen=True, repr=False)
class Cuts(Feature):
    """Numbers divided by public cut points: a cell below the first one, and one from each point on.

    >>> Cuts("gain", [1, 5000]).code([0, 1, 4999, 5000, None, "much"], bins=8).tolist()
    [1, 2, 2, 3, 0, 0]
    """

    points: Sequence[Number]

    def __post_init__(self) -> None:
        points = tuple(exact(point, "a cut point") for point in self.points)
        set_fields(self, points=points)
        if not points or any(here >= there for here, there in pairwise(points)):
            raise InvalidParameter("cut points must ascend, at least one of them: Cuts('gain', [1, 5000])")

    def size(self, bins: int) -> int:
        return 2 + len(self.points)

    def code(self, values: Any, bins: int) -> Cells:
        return _between(values, [float(point) for point in self.points])

    def body(self) -> Any:
        return [*super().body(), [str(point) for point in self.points]]


@dataclass(frozen=True, repr=False)
class Categorical(Feature):
    """Values of a public list.

    >>> Categorical("sex", ["f", "m"]).code(["m", "f", "unheard of", None], bins=8).tolist()
    [2, 1, 0, 0]
    """

    values: Sequence[Hashable]

    def __post_init__(self) -> None:
        set_fields(self, values=tuple(self.values))
        if not self.values or len(set(self.values)) < len(self.values):
            raise InvalidParameter("values must be listed once each: Categorical('sex', ['f', 'm'])")

    def size(self, bins: int) -> int:
        return 1 + len(self.values)

    def code(self, values: Any, bins: int) -> Cells:
        return numbered(values, self.values)

    def check(self, kind: str) -> None:
        if kind == "string":
            possible = any(isinstance(value, str) for value in self.values)
        elif kind == "boolean":
            possible = any(value in (False, True) for value in self.values)
        else:
            possible = not kind.startswith(NUMERIC) or any(isinstance(value, Real | Decimal) for value in self.values)
        if not possible:
            told = ", ".join(map(repr, self.values))
            reason = f"is of type {kind}, so none of the values {told} can occur: list others"
            raise InvalidParameter(f"{self.column!r} {reason}")

    def body(self) -> Any:
        return [*super().body(), list(self.values)]


@dataclass(frozen=True, repr=False)
class Plain(Feature):
    """A column's numbers unchanged, 0 for anything else; a name alone in a list of features."""

    def size(self, bins: int) -> int:
        return 2

    def code(self, values: Any, bins: int) -> Cells:
        return (~np.isnan(floats(values))).astype(np.int64)

    def vectors(self, values: Any) -> Floats:
        return np.nan_to_num(floats(values), nan=0.0)[:, None]

    def body(self) -> Any:
        return self.column


def numbered(values: Any, known: Sequence[Any]) -> Cells:
    """One more than the position of each value in a list; 0 for a value that is not in it.

    >>> numbered([3, 5, None], [5, 4]).tolist()
    [0, 1, 0]
    """
    places = {value: place for place, value in enumerate(known, start=1)}
    found = listed(values)
    try:
        numbers = list(map(places.get, found, repeat(0)))
    except TypeError:  # a value without a hash is not in the list
        numbers = [_place(value, places) for value in found]
    return np.array(numbers, dtype=np.int64)


def listed(values: Any) -> list[Any]:
    """The values of a column of any library, unchanged: a NULL among integers turns none of them into a float.

    >>> import pyarrow as pa
    >>> listed(pa.chunked_array([[2**53 + 1, None]]))
    [9007199254740993, None]
    """
    for method in ("to_pylist", "to_list", "tolist"):
        if hasattr(values, method):
            with suppress(ValueError, OverflowError):
                return list(getattr(values, method)())
    return [_single(value) for value in (values if hasattr(values, "__iter__") else np.asarray(values, dtype=object))]


def _single(value: Any) -> Any:
    """A value as a Python object; None if Python cannot represent it, such as a date in the year 20000."""
    try:
        return value.as_py() if hasattr(value, "as_py") else value
    except (ValueError, OverflowError):
        return None


def take(table: Any, column: Column) -> Any:
    """One column of an Arrow table, a frame or a mapping, by name; of rows of values, by number.

    Errors: `InvalidParameter` for a missing column, instead of the errors of each library.
    """
    rows = table if isinstance(column, str) else array_of(table)
    try:
        return rows[column] if isinstance(column, str) else rows[:, column]
    except Exception:
        size = "" if isinstance(column, str) else f": X has {rows.shape[1]} feature(s)"
        missing = InvalidParameter(f"the rows have no column {column!r}{size}")
    raise missing


def array_of(table: Any) -> NDArray[Any]:
    """Rows of values as a two-dimensional array of unchanged values; `InvalidParameter` for anything else."""
    # Without the type, one text among integers would make strings of all of them: a row would move every other.
    rows = table if isinstance(table, np.ndarray) else np.asarray(table, dtype=object)
    if rows.ndim != 2 or np.iscomplexobj(rows):
        raise InvalidParameter(f"X must be a table. {NO_TABLE}")
    return rows


def _between(values: Any, points: Sequence[float]) -> Cells:
    numbers = floats(values)
    return np.where(np.isnan(numbers), 0, 1 + np.searchsorted(np.array(points), numbers, side="right"))


def floats(values: Any) -> NDArray[np.float64]:
    """Each value as a float, NaN if it is no number, so that no value affects the others."""
    try:
        column = values.to_numpy() if hasattr(values, "to_numpy") else values
    except (ValueError, OverflowError):
        column = None
    if isinstance(column, np.ndarray) and column.dtype.kind in "biuf":
        return column.astype(np.float64)
    return np.array([float_or_nan(value) for value in listed(values)], dtype=np.float64)


def _place(value: Any, places: dict[Any, int]) -> int:
    try:
        return places.get(value, 0)
    except TypeError:
        return 0


# Rows of a table as vectors of numbers, by public rules that depend on one row each.

KNOWN: Final = (str, int, Feature)


def design_matrix(rows: Any, features: Sequence[Column | Feature]) -> Floats:
    """One row of numbers for each row of a table, whatever it holds.

    - a column's name (or number): its numbers, 0 for what is none;
    - `Span`: the number between its bounds, scaled to [-1, 1], or 0 for what is none;
    - `Cuts`, `Categorical`: a 1 in the column of its cell, nothing for a missing or unforeseen value.

    So a row of k features that are none of the first kind is at most sqrt(k) long. Errors: `InvalidParameter` for what
    is no list of features, and for a column that the table does not have.

    >>> from chary.learning import Categorical, Span
    >>> rows = {"age": [20, 75, None], "sex": ["f", "m", "?"]}
    >>> design_matrix(rows, [Span("age", 0, 100), Categorical("sex", ["f", "m"])]).tolist()
    [[-0.6, 1.0, 0.0], [0.5, 0.0, 1.0], [0.0, 0.0, 0.0]]
    """
    return np.column_stack([each.vectors(take(rows, each.column)) for each in described(features)])


@dataclass(eq=False, repr=False)
class PublicFeatures(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """`design_matrix` as a step of a scikit-learn `Pipeline`: it learns nothing from the rows.

    >>> PublicFeatures([Span("age", 0, 100), "height"]).fit_transform({"age": [20, 75], "height": [1.5, None]}).tolist()
    [[-0.6, 1.5], [0.5, 0.0]]
    """

    features: Sequence[Column | Feature]

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: N803
        """Check the features; the rows are not read."""
        described(self.features)
        return self

    def transform(self, X: Any) -> Floats:  # noqa: N803
        """One row of numbers for each row."""
        return design_matrix(X, self.features)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit, tags.no_validation = False, True
        return tags


def width(features: Sequence[Column | Feature]) -> int:
    """How many numbers a row becomes.

    >>> from chary.learning import Categorical, Span
    >>> width([Span("age", 0, 100), Categorical("sex", ["f", "m"]), "height"])
    4
    """
    return sum(feature.width for feature in described(features))


def described(features: Sequence[Column | Feature]) -> list[Feature]:
    """The features, with names as `Plain`; `InvalidParameter` for an empty list, or anything else."""
    listed = isinstance(features, Sequence) and not isinstance(features, str)
    if not listed or not features or any(isinstance(one, bool) or not isinstance(one, KNOWN) for one in features):
        raise InvalidParameter('name the features, in a list: features=["age", Categorical("sex", ["f", "m"])]')
    return [one if isinstance(one, Feature) else Plain(one) for one in features]


@dataclass(frozen=True)
class RowTransform:
    """A fixed public step before training: `function(row)` makes `outputs` numbers of the `inputs` of one row.

    It is called with one row at a time, so no row reaches another; what it knows must be public, such as the components
    of public rows. A row for which it raises, or gives anything but this many finite numbers, counts as zeros. `name`
    stands for the function in ledgers. Assumes that it keeps nothing from call to call.

    >>> square = RowTransform("square", lambda row: [row[0], row[0] ** 2], inputs=1, outputs=2)
    >>> square.apply(np.array([[0.5], [np.nan]])).tolist()
    [[0.5, 0.25], [0.0, 0.0]]
    """

    name: str
    function: Callable[[Floats], Sequence[float] | Floats]
    inputs: int
    outputs: int

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name or not callable(self.function):
            raise InvalidParameter('a step has a name and a function: RowTransform("square", f, inputs=1, outputs=2)')
        checked(self, inputs=whole, outputs=whole)

    def __str__(self) -> str:
        return f"{self.name}, {self.inputs} to {self.outputs}"

    def apply(self, rows: Floats) -> Floats:
        """The transformed rows."""
        if rows.shape[1:] != (self.inputs,):
            raise InvalidParameter(f"the step {self.name!r} takes rows of {self.inputs} numbers")
        made = np.zeros((len(rows), self.outputs))
        for place, row in enumerate(rows):
            with suppress(AlgorithmFailed), np.errstate(all="ignore"):
                made[place] = brought(partial(self._of, row.copy()), self.name)
        return made

    def _of(self, row: Floats) -> Floats:
        found = np.asarray(self.function(row), dtype=np.float64)
        if found.shape != (self.outputs,) or not np.isfinite(found).all():
            raise InvalidParameter("this many finite numbers")
        return found


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
