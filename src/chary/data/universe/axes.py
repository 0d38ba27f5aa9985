"""Universes of cells: categories and bins of each axis, the product of axes, and rows drawn from its cells."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chary.data.columns import Schema, TypeClass, classify, declare, listed
from chary.data.predicates import conditions
from chary.data.predicates.conditions import OPERATORS, Compare, Condition, Every, Holds, IsNull, Not, OneOf, show
from chary.data.queries.histogram import Outside, histogram
from chary.data.queries.keys import Domain, Key
from chary.errors import InvalidQuery
from chary.numbers import Number, set_fields, whole

# How one column of a data universe is cut into cells.

# Above it doubles leave out integers, and a comparison would hold in other cells than was asked.
LARGEST: Final = 2**53
Flags = NDArray[np.bool_]


class Axis(ABC):
    """How one column is cut into cells. After those comes one more, *missing*, for NULL and whatever was not declared.
    In a universe an undeclared value is read as NULL, so that every row lies in exactly one cell.
    """

    @property
    @abstractmethod
    def declared(self) -> int:
        """How many cells there are before the missing one."""

    @abstractmethod
    def check(self, column: str, kind: TypeClass) -> None:
        """Refuse a column of another type."""

    @abstractmethod
    def met(self, atom: Condition, kind: TypeClass) -> Flags:
        """For each declared cell whether all its values satisfy the condition; `InvalidQuery` if only some do, or if
        it names a value that is not declared where values are."""

    @abstractmethod
    def inside(self, column: str, kind: TypeClass) -> Condition:
        """The condition that a value is declared; never true of NULL."""

    @abstractmethod
    def drawn(self, cells: NDArray[np.int64], kind: TypeClass, random: np.random.Generator) -> list[Any]:
        """A value from each of these cells; None from the missing one."""

    @abstractmethod
    def middles(self) -> list[Fraction]:
        """The number that each declared cell stands for; `InvalidQuery` for strings."""

    @abstractmethod
    def body(self) -> dict[str, Any]:
        """A JSON-able description."""


@dataclass(frozen=True)
class Categories(Axis):
    """One cell for each public value: strings, integers or Booleans."""

    values: tuple[Key, ...]

    @classmethod
    def of(cls, values: Iterable[Any]) -> "Categories":
        """Checked as the keys of a query are."""
        domain = Domain.of("values", values)
        if domain.kinds[0] not in ("boolean", "integer", "string"):
            raise InvalidQuery("categories of a universe are strings, integers or Booleans")
        return cls(tuple(key for (key,) in domain.rows))

    @property
    def declared(self) -> int:
        return len(self.values)

    @cached_property
    def _array(self) -> NDArray[Any]:
        return np.array(self.values)

    @cached_property
    def _known(self) -> frozenset[Key]:
        return frozenset(self.values)

    def check(self, column: str, kind: TypeClass) -> None:
        fits = conditions.CLASSES[type(self.values[0])]
        if kind is not fits:
            hint = declare(column, kind, "BOOLEAN" if fits is TypeClass.BOOLEAN else "BIGINT")
            raise InvalidQuery(f"column {column!r} is {kind.words}, but its categories are not of that type{hint}")

    def met(self, atom: Condition, kind: TypeClass) -> Flags:
        match atom:
            case Holds() if kind is TypeClass.BOOLEAN:
                return np.array(self._array)
            case Compare(column=str(column), sign=sign, other=other):
                literal = self._comparable(atom, other)
                literal = self._named(column, literal) if sign in ("=", "<>") else literal
                return np.asarray(OPERATORS[sign](self._array, literal))
            case OneOf(column=str(column), values=values):
                return np.isin(self._array, [self._named(column, self._comparable(atom, value)) for value in values])
        raise InvalidQuery(f"a universe cannot answer {atom.text()!r}: list the values with IN")

    def _named(self, column: str, literal: Any) -> Any:
        # No row of the universe has it, so the answer would be 0 and a misspelling would look like knowledge.
        if literal not in self._known:
            declared = listed([show(value) for value in self.values])
            raise InvalidQuery(f"{show(literal)} is no declared value of {column}: {declared}")
        return literal

    def _comparable(self, atom: Condition, literal: Any) -> Any:
        kinds = (int, float) if type(self.values[0]) is int else (type(self.values[0]),)
        if type(literal) not in kinds:
            raise InvalidQuery(f"{atom.text()!r} compares what has different types")
        return literal

    def inside(self, column: str, kind: TypeClass) -> Condition:
        return OneOf(column, self.values)

    def drawn(self, cells: NDArray[np.int64], kind: TypeClass, random: np.random.Generator) -> list[Any]:
        values = [*self.values, None]
        return [values[cell] for cell in cells]

    def middles(self) -> list[Fraction]:
        if any(isinstance(value, str) for value in self.values):
            raise InvalidQuery("strings have no average: give each a weight, as in weighted({\"sex = 'f'\": 1})")
        return [Fraction(int(value)) for value in self.values]  # type: ignore[arg-type]

    def body(self) -> dict[str, Any]:
        return {"values": list(self.values)}


@dataclass(frozen=True)
class Bins(Axis):
    """One cell for each interval between neighbouring public edges: at or above one, below the next.

    A value outside all of them is missing, or with `outside="edges"` lies in the first or the last one.

    >>> Bins([17, 25, 45, 91]).declared
    3
    """

    edges: tuple[Fraction, ...]
    outside: Outside = "ignore"

    def __init__(self, edges: Iterable[Number], outside: Outside = "ignore") -> None:
        set_fields(self, edges=histogram("bins", bins=edges, outside=outside).edges, outside=outside)

    @property
    def declared(self) -> int:
        return len(self.edges) - 1

    def check(self, column: str, kind: TypeClass) -> None:
        if kind not in (TypeClass.INTEGER, TypeClass.FLOAT):
            hint = declare(column, kind, "DOUBLE")
            raise InvalidQuery(f"bins need a column of numbers; {column!r} is {kind.words}{hint}")

    def met(self, atom: Condition, kind: TypeClass) -> Flags:
        match atom:
            case Compare(sign=sign, other=other):
                return self._compared(atom, sign, self._number(atom, other), kind)
            case OneOf(values=values):
                each = [self._compared(atom, "=", self._number(atom, value), kind) for value in values]
                return np.asarray(np.any(each, axis=0))
        raise InvalidQuery(f"a universe cannot answer {atom.text()!r}: compare the column with numbers")

    def _number(self, atom: Condition, literal: Any) -> float:
        if type(literal) not in (int, float) or not abs(literal) <= LARGEST:
            raise InvalidQuery(f"{atom.text()!r} must compare with numbers of at most 2**53")
        return float(literal)

    def _compared(self, atom: Condition, sign: str, number: float, kind: TypeClass) -> Flags:
        if sign in ("=", "<>"):
            equal = self._below(atom, number, kind, True) & ~self._below(atom, number, kind, False)
            return equal if sign == "=" else ~equal
        below = self._below(atom, number, kind, sign in ("<=", ">"))
        return ~below if sign in (">", ">=") else below

    def _below(self, atom: Condition, number: float, kind: TypeClass, orequal: bool) -> Flags:
        if kind is TypeClass.INTEGER:
            number, orequal = (math.floor(number) + 1 if orequal else math.ceil(number)), False
        bounds = self._bounds(kind)
        whole = bounds[1:] <= number
        partly = bounds[:-1] <= number if orequal else bounds[:-1] < number
        if np.any(whole != partly):
            raise InvalidQuery(f"{atom.text()!r} cuts through a bin: compare with edges of the universe")
        return np.asarray(whole)

    def _bounds(self, kind: TypeClass) -> NDArray[np.float64]:
        bounds = np.array(ends_of(self, kind), np.float64)
        if self.outside == "edges":
            bounds[0], bounds[-1] = -math.inf, math.inf
        return bounds

    def inside(self, column: str, kind: TypeClass) -> Condition:
        if self.outside == "edges":
            return Not(IsNull(column))
        low, *_, high = ends_of(self, kind)
        return Every((Compare(column, ">=", low), Compare(column, "<", high)))

    def drawn(self, cells: NDArray[np.int64], kind: TypeClass, random: np.random.Generator) -> list[Any]:
        edges = np.array(ends_of(self, TypeClass.FLOAT))
        known = np.minimum(cells, self.declared - 1)
        places = edges[known] + random.random(len(cells)) * (edges[known + 1] - edges[known])
        if kind is TypeClass.INTEGER:
            lows, highs = np.ceil(edges[known]), np.ceil(edges[known + 1])
            places = np.maximum(lows, np.floor(lows + random.random(len(cells)) * (highs - lows)))
        convert = int if kind is TypeClass.INTEGER else float
        return [None if cell == self.declared else convert(place) for cell, place in zip(cells, places, strict=True)]

    def middles(self) -> list[Fraction]:
        return [(low + high) / 2 for low, high in pairwise(self.edges)]

    def body(self) -> dict[str, Any]:
        return {"edges": [str(edge) for edge in self.edges], "outside": self.outside}


def ends_of(bins: Bins, kind: TypeClass) -> list[int | float]:
    """The edges as values of a column: of integers the least one at or above each."""
    return [math.ceil(edge) if kind is TypeClass.INTEGER else float(edge) for edge in bins.edges]


# A data universe: finitely many public cells, one of which every row lies in.

# A weight for each cell takes 800 MB as a double.
MOST_CELLS: Final = 10**8
MOST_COLUMNS: Final = 24


@dataclass(frozen=True)
class Universe:
    """The product of the cells of a few columns; rows in one cell are not distinguished. All of it is public.

    A list of values makes categories, `Bins` intervals of numbers. Every column has one cell more, *missing*, for NULL
    and undeclared values, so every row lies in exactly one cell of the universe. With `missing=False` there are no such
    cells: the caller expects that no row needs one. Privacy does not depend on it. A row that does lies in no cell, so
    that a histogram over the universe may be off by the fraction of such rows.

    Errors: `InvalidQuery` for no columns, more than 24, or more than 100,000,000 cells.

    >>> Universe({"age": Bins([17, 45, 91]), "sex": ["Female", "Male"]})
    Universe(age: 3, sex: 3; 9 cells)
    """

    columns: tuple[tuple[str, Axis], ...]
    missing: bool

    def __init__(self, columns: Mapping[str, Axis | Iterable[Any]], *, missing: bool = True) -> None:
        if not isinstance(columns, Mapping) or not 1 <= len(columns) <= MOST_COLUMNS:
            raise InvalidQuery('name 1 to 24 columns and their values, such as universe={"sex": ["f", "m"]}')
        if not all(isinstance(name, str) for name in columns):
            raise InvalidQuery("columns of a universe are named by strings")
        axes = tuple((name, axis if isinstance(axis, Axis) else Categories.of(axis)) for name, axis in columns.items())
        set_fields(self, columns=axes, missing=missing)
        if type(missing) is not bool:
            raise InvalidQuery("missing is True or False")
        if self.cells > MOST_CELLS:
            raise InvalidQuery("a universe may have 100,000,000 cells at most: take fewer columns or coarser bins")

    @classmethod
    def of(cls, columns: "Universe | Mapping[str, Axis | Iterable[Any]]") -> "Universe":
        """A universe as sessions accept it."""
        return columns if isinstance(columns, Universe) else cls(columns)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Cells of each column, the missing one included if there is one."""
        return tuple(axis.declared + self.missing for _, axis in self.columns)

    @cached_property
    def cells(self) -> int:
        """Cells in all."""
        return math.prod(self.shape)

    def check(self, schema: Schema) -> None:
        """Refuse a schema without these columns or with other types."""
        for name, axis in self.columns:
            axis.check(name, classify(schema, name))

    def place(self, name: str) -> int:
        """Which column it is; `InvalidQuery` for none of them."""
        names = [column for column, _ in self.columns]
        if name not in names:
            raise InvalidQuery(f"column {name!r} is not in the universe, which has {', '.join(names)}")
        return names.index(name)

    def body(self) -> dict[str, Any]:
        """A JSON-able description."""
        return {"columns": [[name, axis.body()] for name, axis in self.columns], "missing": self.missing}

    @classmethod
    def of_body(cls, body: dict[str, Any]) -> "Universe":
        """The universe that a body describes."""
        columns = {name: Bins(**axis) if "edges" in axis else axis["values"] for name, axis in body["columns"]}
        return cls(columns, missing=body["missing"])

    def __repr__(self) -> str:
        listed = ", ".join(f"{name}: {cells}" for (name, _), cells in zip(self.columns, self.shape, strict=True))
        return f"Universe({listed}; {self.cells} cells)"


# Synthetic rows from the cells of a universe: nothing private is read.


def rows_in(universe: Universe, schema: Schema, cells: NDArray[np.intp], random: np.random.Generator) -> pa.Table:
    """A row in each of these cells, which are numbered as in a table over the universe: None where a value is missing.

    Within a bin, numbers are drawn evenly. Columns have the types of the schema, also where all values are missing.

    >>> universe = Universe({"sex": ["f", "m"], "smoker": [True, False]})
    >>> schema = {"sex": "string", "smoker": "boolean"}
    >>> rows_in(universe, schema, np.array([0, 5]), np.random.default_rng(0)).to_pylist()
    [{'sex': 'f', 'smoker': True}, {'sex': 'm', 'smoker': None}]
    """
    made = {}
    places = np.unravel_index(cells, universe.shape)
    for (name, axis), place in zip(universe.columns, places, strict=True):
        kind = classify(schema, name)
        made[name] = pa.array(axis.drawn(place, kind, random), pa.type_for_alias(kind))
    return pa.table(made)


def rows_drawn(universe: Universe, schema: Schema, shares: NDArray[np.float64], *, rows: int, seed: int) -> pa.Table:
    """This many independent rows, each cell as likely as its weight says; the same seed gives the same table.

    `InvalidParameter` for no integer of rows of at least 1, and of a seed of at least 0.
    """
    random = np.random.default_rng(whole(seed, "seed", least=0))
    sums = np.cumsum(shares.ravel())
    drawn = np.searchsorted(sums, random.random(whole(rows, "rows")) * sums[-1], side="right")
    return rows_in(universe, schema, np.minimum(drawn, len(sums) - 1), random)
