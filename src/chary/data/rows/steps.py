"""The time steps of a series."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from chary.errors import SchemaMismatch


@dataclass(frozen=True, repr=False)
class Steps:
    """The values in order, and the public columns beside them; `types` are those of the columns."""

    counts: npt.NDArray[np.int64]
    orders: tuple[Any, ...] | None
    labels: tuple[Any, ...] | None
    types: Mapping[str, str]

    def then(self, later: "Steps") -> "Steps":
        """With later steps at the end; `SchemaMismatch` if they do not come after these."""
        if self.orders and later.orders and not _before(self.orders[-1], later.orders[0]):
            raise SchemaMismatch("appended time steps must come after those there are; nothing was written")
        counts = np.concatenate([self.counts, later.counts])
        return Steps(counts, _joined(self.orders, later.orders), _joined(self.labels, later.labels), self.types)


@dataclass(frozen=True)
class StepColumns:
    """Which columns of a source make a series."""

    column: str
    order_by: str | None
    labels: str | None

    @property
    def names(self) -> list[str]:
        """The columns, each once."""
        return [name for name in dict.fromkeys((self.column, self.order_by, self.labels)) if name is not None]


def check_steps(cells: Mapping[str, Sequence[Any]], asked: StepColumns) -> None:
    """`SchemaMismatch` that says what must be in each row of a column, where something else, or nothing, was read."""
    for name, values in cells.items():
        if any(value is None for value in values):
            counted = "a whole number of 64 bits: NULL or an empty cell is none, nor is a decimal such as 3.5"
            needed = counted if name == asked.column else "a value that is not NULL, and all of them one type"
            raise SchemaMismatch(f"each row must hold in column {name!r} {needed}")


def _before(first: Any, second: Any) -> bool:
    # Columns whose types were found may differ from file to file, and Python refuses to order two types.
    return type(first) is type(second) and bool(first < second)


def _joined(first: tuple[Any, ...] | None, second: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
    return None if first is None or second is None else first + second
