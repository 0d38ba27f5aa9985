"""A data universe: finitely many public cells, one of which every row lies in."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from chary.data.columns import Schema, classify
from chary.data.domain.axes import Axis, Bins, Categories
from chary.errors import InvalidQuery

# A weight for each cell takes 800 MB as a double.
MOST_CELLS: Final = 10**8
MOST_COLUMNS: Final = 24


@dataclass(frozen=True)
class Universe:
    """The product of a few columns' cells: what rows are told apart by, and no more. All of it is public.

    A list of values makes categories, `Bins` intervals of numbers. Every column has one cell more, *missing*, for NULL
    and undeclared values, so every row lies in exactly one cell of the universe. With `missing=False` there are no such
    cells: the caller expects that no row needs one. Privacy does not depend on it; a row that does lies in no cell, so
    that a histogram over the universe may be off by the share of such rows.

    Errors: `InvalidQuery` for no columns, more than 24, or more than 100,000,000 cells.

    >>> Universe({"age": Bins([17, 45, 91]), "sex": ["Female", "Male"]})
    Universe(age: 3, sex: 3; 9 cells)
    """

    columns: tuple[tuple[str, Axis], ...]
    missing: bool

    def __init__(self, columns: Mapping[str, Axis | Iterable[Any]], *, missing: bool = True) -> None:
        if not isinstance(columns, Mapping) or not 1 <= len(columns) <= MOST_COLUMNS:
            raise InvalidQuery('name 1 to 24 columns, such as Universe({"sex": ["f", "m"], "age": Bins([0, 65, 120])})')
        if not all(isinstance(name, str) for name in columns):
            raise InvalidQuery("columns of a universe are named by texts")
        axes = tuple((name, axis if isinstance(axis, Axis) else Categories.of(axis)) for name, axis in columns.items())
        object.__setattr__(self, "columns", axes)
        object.__setattr__(self, "missing", missing)
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
