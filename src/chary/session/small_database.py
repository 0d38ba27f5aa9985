"""SmallDB in a session: a synthetic database of a few rows that answers a list of public queries."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa

from chary.accounting import Event, Pure, ZeroConcentrated
from chary.data import Count, Neighbouring, Predicate, Query, Reading, Relation, Rows, Universe, count, public_size
from chary.data.columns import Schema, classify
from chary.data.synthetic import rows_in
from chary.errors import InvalidParameter, InvalidQuery
from chary.filters import Filter, Price
from chary.mechanisms.small_database import SmallDatabases
from chary.mechanisms.small_database_classes import (
    Measure,
)
from chary.numbers import Number, plain, positive, whole
from chary.session.choosing import bounded_range_price
from chary.session.interaction import Interaction, Json, Ran, Touched
from chary.session.small_database_workload import Workload
from chary.session.workload import region

RARE: Final = Fraction(1, 20)


@dataclass(frozen=True)
class SmallDatabase:
    """A synthetic database of a few rows, each in a cell of the universe. It was paid for: all use of it is free.

    With probability 0.95 its answers to all queries it was made for are within `error_bar` of the shares of the rows
    then; nothing is promised for other conditions. That is what the theorem says for the worst data, and takes for
    granted that every row lies in a cell of the universe.
    """

    call: int
    universe: Universe
    cells: tuple[int, ...]
    error_bar: float
    schema: Schema = field(compare=False)

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return len(self.cells)

    def __repr__(self) -> str:
        return f"SmallDatabase(call={self.call}, {self.rows} rows, error_bar={plain(self.error_bar)}, {self.universe})"

    def share(self, where: Predicate | Count | str | None) -> float:
        """The share of its rows that satisfy a condition; None is every row. `InvalidQuery` for a condition that the
        universe cannot tell (see `Universe`)."""
        flags = region(self.universe, self.schema, where).flags()
        return int(np.count_nonzero(flags[list(self.cells)])) / self.rows

    def table(self, *, seed: int = 0) -> pa.Table:
        """Its rows with a value for each column of the universe; None in a missing cell.

        Within a bin, numbers are drawn evenly. The same seed gives the same table: the draw hides nothing.
        """
        random = np.random.default_rng(whole(seed, "seed", least=0))
        return rows_in(self.universe, self.schema, np.array(self.cells), random)


@dataclass(frozen=True)
class MakeSmallDatabase(Interaction):
    """The exponential mechanism over all databases of a few rows.

    Guarantee: `Pure(epsilon)`, and (epsilon^2/8)-zCDP, of which it costs the lower; `concentrated` claims the second
    alone. Neighbours differ in one row, so each count by 1; their number is public. `asked` is how many rows the caller
    asked for, None for the best at the size of that time, `rows` what was made of it. `size`, if it is known, is for
    the shortfall of quotes alone. Counts are read one after another: rows that another thread appends meanwhile cost
    accuracy, by their share, and nothing else.
    """

    workload: Workload
    neighbouring: Neighbouring
    epsilon: Number
    asked: int | None
    measure: Measure
    rows: int = field(compare=False)
    concentrated: bool = False
    size: int | None = field(default=None, compare=False)
    kind = "small_database"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive(self.epsilon, "epsilon"))
        if self.neighbouring.relation is not Relation.REPLACE or self.neighbouring.unit is not None:
            raise InvalidQuery(
                'a small database answers shares of rows: open with privacy_unit=None, relation="replace"'
            )
        if type(self.concentrated) is not bool:
            raise InvalidParameter("concentrated is True or False")
        self.workload.check(self.rows, self.measure)
        self.mechanism  # noqa: B018 - refuses a measure there is not

    @cached_property
    def mechanism(self) -> SmallDatabases:
        """The exact choice."""
        return SmallDatabases(self.epsilon, self.rows, self.workload.classes, self.measure)

    @cached_property
    def event(self) -> Event:
        return ZeroConcentrated(Fraction(self.epsilon) ** 2 / 8) if self.concentrated else Pure(self.epsilon)

    def price(self, filter_: Filter) -> Price:
        return super().price(filter_) if self.concentrated else bounded_range_price(filter_, self.epsilon)

    def shortfall(self, beta: Fraction) -> float | None:
        return None if self.size is None else self.mechanism.shortfall(self.size, beta)

    def body(self) -> Json:
        claimed = {"concentrated": True} if self.concentrated else {}
        terms = {"epsilon": str(self.epsilon), "rows": self.asked, "measure": self.measure}
        return self.workload.body() | terms | claimed

    def queries(self) -> Sequence[Query]:
        return [*self.workload.counts, count()]

    def prepare(self, rows: Rows) -> Sequence[Reading]:
        public_size(rows)
        for name, _ in self.workload.universe.columns:
            if classify(rows.schema, name) is not classify(self.workload.schema, name):
                raise InvalidQuery(f"column {name!r} is of another type than the queries were checked for")
        return super().prepare(rows)

    def run(self, touched: Touched) -> Ran:
        *counts, size = (touched.integer(place) for place in range(len(touched.values)))
        return Ran({"cells": self.mechanism.step(counts, size, touched.source), "size": size}, hits=0, tests=0)

    def present(self, answer: Json, call: int) -> SmallDatabase:
        cells = tuple(answer["cells"])
        law = self.workload.law(len(cells), self.measure)
        error = min(1.0, law.error(size=answer["size"], epsilon=self.epsilon, beta=RARE))
        return SmallDatabase(call, self.workload.universe, cells, error, self.workload.schema)
