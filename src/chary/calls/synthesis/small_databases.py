"""SmallDB in a session: a synthetic database of a few rows that answers a list of public queries."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa

from chary.accounting import Event, Pure, ZeroConcentrated
from chary.accounting.synthesis import best_rows, published_rows
from chary.answers import Answer
from chary.calls.call import Bound, Call, call
from chary.calls.fields import Cells, Conditions, Positive, Whole
from chary.calls.selection.choices import bounded_range_price
from chary.calls.synthesis.small_database_workload import Workload
from chary.calls.workload import AskedShare, Share, promised, region
from chary.core.plan import Json, Ran, Touched
from chary.core.transaction import Spine
from chary.data import Query, Reading, Relation, Rows, Universe, count, public_size
from chary.data.columns import Schema, classify
from chary.data.domain.synthetic import rows_in
from chary.errors import InvalidParameter, InvalidQuery
from chary.filters import Filter, Price
from chary.mechanisms.small_database import Measure, SmallDatabases
from chary.numbers import Number, plain, whole

# Error bars hold 95 times in 100.
RARE: Final = Fraction(1, 20)


@dataclass(frozen=True)
class SyntheticDatabase(Answer):
    """A synthetic database of a few rows, each in a cell of the universe. It was paid for: all use of it is free.

    With probability 0.95 its answers to all queries it was made for are within `error_bar` of the shares of the rows
    then; nothing is promised for other conditions. That is what the theorem says for the worst data, and takes for
    granted that every row lies in a cell of the universe.
    """

    universe: Universe
    cells: tuple[int, ...]
    error_bar: float
    schema: Schema = field(compare=False)
    asked: tuple[Share, ...] = field(repr=False, compare=False)

    @property
    def value(self) -> tuple[int, ...]:
        """The cell of each of its rows, by number."""
        return self.cells

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return len(self.cells)

    def __repr__(self) -> str:
        return f"SmallDatabase(call={self.call}, {self.rows} rows, error_bar={plain(self.error_bar)}, {self.universe})"

    def share(self, where: AskedShare) -> float:
        """The share of its rows that satisfy a condition; None is every row. `InvalidQuery` for a condition that the
        universe cannot tell (see `Universe`)."""
        weights = region(self.universe, self.schema, where).weights()
        return float(weights[list(self.cells)].sum()) / self.rows

    @property
    def interval_says(self) -> str:
        return (
            "no interval for the whole: interval_of(condition) of all queries it was made for hold together 95 in 100"
        )

    def interval_of(self, where: AskedShare) -> tuple[float, float] | None:
        """Where the share of the rows lies: of all queries it was made for together, with probability 0.95, whatever
        the data. None for any other condition, of which nothing is promised."""
        return promised(self.share(where), self.error_bar, self.asked, where)

    def table(self, *, seed: int = 0) -> pa.Table:
        """Its rows with a value for each column of the universe; None in a missing cell.

        Within a bin, numbers are drawn evenly. The same seed gives the same table: the draw hides nothing.
        """
        random = np.random.default_rng(whole(seed, "seed", least=0))
        return rows_in(self.universe, self.schema, np.array(self.cells), random)


@call("small_database", subject="synthesis")
class SmallDatabase(Call[SyntheticDatabase]):
    """A synthetic database of a few rows whose answers to all these queries are near those of the data.

    Queries are conditions, one or a list, or counts, whose keys make a condition each, or linear queries
    (`chary.data.average`, `weighted`). Give its size as `rows`, or
    `alpha` for `ceil(ln|Q|/alpha^2)` as published; without either it has as many rows as promise the least error at
    the public size, up to 1,000,000 candidates. All candidates are gone through, so there may be 10,000,000 at
    most.

    Guarantee: epsilon-DP, by the exponential mechanism ([BLR08]; docs/small_database.md); always charged, at the
    lower price of the (epsilon^2/8)-zCDP that comes with it. `measure="databases"` is the published law, in which
    every multiset of cells is a candidate; with "classes" those with the same number of rows in each class of cells
    that the queries cannot tell apart are one, so that the error does not depend on the universe.

    Errors: `InvalidQuery` where the number of rows is secret (open with `relation="replace"`,
    `privacy_unit=None`), for a condition that the universe cannot tell, and for too many candidates; it says how
    many there are, and nothing is charged.
    """

    _: KW_ONLY
    universe: Cells
    queries: Conditions
    epsilon: Positive
    rows: Whole | None = None
    alpha: Positive | None = None
    measure: Measure = "classes"

    def bind(self, spine: Spine) -> "AskSmallDatabase":
        if self.rows is not None and self.alpha is not None:
            raise InvalidParameter("give rows= or alpha=, which is another way to say how many rows")
        size, workload = public_size(spine.rows), Workload.of(self.universe, self.queries, spine.rows.schema)
        if size < 1:
            raise InvalidQuery("a database of shares needs rows: append some first")
        asked = self.rows if self.alpha is None else published_rows(queries=len(workload.queries), alpha=self.alpha)
        made = _best(workload, self.measure, size, self.epsilon) if asked is None else asked
        sized = replace(self, rows=asked, alpha=None)
        return AskSmallDatabase(sized, spine.rows.neighbouring, workload, made, size=size)


@dataclass(frozen=True)
class AskSmallDatabase(Bound[SmallDatabase]):
    """The exponential mechanism over all databases of `rows` rows, which its call says or were best.

    It costs the lower of `Pure(epsilon)` and (epsilon^2/8)-zCDP; `concentrated` claims the second alone. Neighbours
    differ in one row, so each count by 1; their number is public. `size`, if it is known, is for the shortfall of
    quotes alone. Counts are read one after another: rows that another thread appends meanwhile cost accuracy, by their
    share, and nothing else.
    """

    workload: Workload
    rows: int = field(compare=False)
    concentrated: bool = False
    size: int | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.neighbouring.relation is not Relation.REPLACE or self.neighbouring.unit is not None:
            raise InvalidQuery(
                'a small database answers shares of rows: open with privacy_unit=None, relation="replace"'
            )
        self.workload.check(self.rows, self.call.measure)
        super().__post_init__()

    @cached_property
    def mechanism(self) -> SmallDatabases:
        """The exact choice."""
        return SmallDatabases(self.call.epsilon, self.rows, self.workload.classes, self.call.measure)

    @cached_property
    def event(self) -> Event:
        return ZeroConcentrated(Fraction(self.call.epsilon) ** 2 / 8) if self.concentrated else Pure(self.call.epsilon)

    adds_up = True

    def price(self, filter_: Filter) -> Price:
        return super().price(filter_) if self.concentrated else bounded_range_price(filter_, self.call.epsilon)

    def shortfall(self, beta: Fraction) -> float | None:
        return None if self.size is None else self.mechanism.shortfall(self.size, beta)

    def body(self) -> Json:
        claimed = {"concentrated": True} if self.concentrated else {}
        terms = {"epsilon": str(self.call.epsilon), "rows": self.call.rows, "measure": self.call.measure}
        return self.workload.body() | terms | claimed

    def queries(self) -> Sequence[Query]:
        return [*self.workload.counts, count()]

    def prepare(self, rows: Rows) -> Sequence[Reading]:
        public_size(rows)
        for name, _ in self.workload.universe.columns:
            if classify(rows.schema, name) is not classify(self.workload.schema, name):
                raise InvalidQuery(f"column {name!r} is of another type than the queries were checked for")
        return [*self.workload.readings(rows), rows.prepare(count())]

    def run(self, touched: Touched) -> Ran:
        size = touched.integer(-1)
        steps = self.workload.steps(touched.values[:-1])
        return Ran({"cells": self.mechanism.step(steps, size, touched.source), "size": size}, hits=0, tests=0)

    def present(self, answer: Json, call: int) -> SyntheticDatabase:
        cells = tuple(answer["cells"])
        law = self.workload.law(len(cells), self.call.measure)
        error = min(1.0, law.error(size=answer["size"], epsilon=self.call.epsilon, beta=RARE))
        return SyntheticDatabase(
            call, self.workload.universe, cells, error, self.workload.schema, self.workload.queries
        )


def _best(workload: Workload, measure: Measure, size: int, epsilon: Number) -> int:
    return best_rows(
        lambda rows: workload.law(rows, measure),
        lambda rows: workload.quick(rows, measure),
        size=size,
        epsilon=Pure(epsilon).epsilon,
        beta=RARE,
    )
