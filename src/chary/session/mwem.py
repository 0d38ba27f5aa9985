"""MWEM in a session: one call whose answer is a synthetic histogram for a list of queries and whatever is like them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from threading import Lock
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chary.accounting import Event
from chary.accounting.mwem import mwem_margins_up
from chary.data import Count, Neighbouring, Predicate, Query, Reading, Relation, Rows, Universe, public_size
from chary.data.cell_counts import MOST_QUERIES, CellCounts, CellQueries, CellReader
from chary.data.cells import Region, located, matrix
from chary.data.columns import Schema
from chary.data.synthetic import rows_drawn
from chary.errors import InvalidQuery
from chary.mechanisms.mwem import MWEM, Exponents, Round, best_round, missed, weighted
from chary.mechanisms.public_histogram import PublicHistogram
from chary.numbers import Number
from chary.session.interaction import Interaction, Json, Ran, Touched
from chary.session.workload import conditions, region

RARE: Final = Fraction(1, 20)
_LOOKING: Final = Lock()  # a histogram sums in room that it keeps, so one look-up at a time


class MeasuredQuery(NamedTuple):
    """One round: the query that was picked as the worst, its noisy count, and the share the histogram had for it."""

    query: str
    measured: int
    share: float


@dataclass(frozen=True)
class SyntheticHistogram:
    """A histogram over all cells of a universe that was made for a list of queries. It was paid for: all use is free.

    It is that of the round `kept`, counted from 0, which missed the count measured then by least; `rounds` tells of
    all. With probability 0.95 the answers to all queries it was made for are within `error_bar` of the shares of the
    `size` rows then, whatever these were; nothing is promised for other conditions.
    """

    call: int
    universe: Universe
    size: int
    rounds: tuple[MeasuredQuery, ...] = field(repr=False)
    kept: int
    error_bar: float
    schema: Schema = field(repr=False, compare=False)
    exponents: Exponents = field(repr=False)
    asked: tuple[Predicate, ...] = field(repr=False, compare=False)

    def share(self, where: Predicate | Count | str | None) -> float:
        """The share of rows that satisfy a condition; None is every row. `InvalidQuery` for a condition that the
        universe cannot tell (see `Universe`)."""
        cells = region(self.universe, self.schema, where)
        with _LOOKING:
            return self._weights.share(cells)

    def histogram(self) -> NDArray[np.float64]:
        """What part of the rows is in each cell: one axis for each column, the missing cell last. It sums to 1."""
        return self._weights.shares().reshape(self.universe.shape)

    def synthetic(self, *, rows: int, seed: int = 0) -> pa.Table:
        """A made-up table of that many rows drawn from the histogram.

        Within a bin, numbers are drawn evenly. The same seed gives the same table: the draw hides nothing.
        """
        return rows_drawn(self.universe, self.schema, self.histogram(), rows=rows, seed=seed)

    @cached_property
    def _weights(self) -> PublicHistogram:
        return weighted(_Cells(self.universe, self.schema, self.asked), self.exponents)


class _Cells:
    """The cells of queries; those that were looked up are kept."""

    def __init__(self, universe: Universe, schema: Schema, queries: Sequence[Predicate]) -> None:
        self.shape = matrix(universe)
        self._universe, self._schema, self._queries = universe, schema, queries
        self._known: dict[int, Region] = {}

    def cells(self, query: int) -> Region:
        if query not in self._known:
            self._known[query] = located(self._universe, self._schema, self._queries[query])[0]
        return self._known[query]


class _Answering(_Cells):
    """Also answers all queries from weights."""

    def __init__(self, counted: CellQueries, queries: Sequence[Predicate]) -> None:
        super().__init__(counted.universe, counted.schema, queries)
        self.shares = counted.shares


@dataclass(frozen=True)
class MakeHistogram(Interaction):
    """All rounds of MWEM at once.

    Guarantee: epsilon-DP or rho-zCDP (`chary.mechanisms.mwem.MWEM`). Neighbours differ in one row, so each count by 1
    at most; their number is public. Everything but counts and picks is a function of the answer: the histogram is made
    anew from it, bit by bit the same, whenever it is presented.
    """

    universe: Universe
    asked: tuple[Predicate, ...]
    mechanism: MWEM
    neighbouring: Neighbouring
    kind = "mwem"

    def __post_init__(self) -> None:
        if self.neighbouring.relation is not Relation.REPLACE or self.neighbouring.unit is not None:
            raise InvalidQuery(
                'a histogram of shares needs a public number of rows: open with privacy_unit=None, relation="replace"'
            )

    @property
    def event(self) -> Event:
        return self.mechanism.event

    def body(self) -> Json:
        sizes = {name: getattr(self.mechanism, name) for name in ("epsilon", "rho")}
        terms = {name: str(size) for name, size in sizes.items() if size is not None}
        listed = {"queries": [query.text for query in self.asked], "rounds": self.mechanism.rounds}
        return self.universe.body() | listed | terms

    def queries(self) -> Sequence[Query]:
        return ()

    def prepare(self, rows: Rows) -> Sequence[Reading]:
        if public_size(rows) < 1:
            raise InvalidQuery("a histogram of shares needs rows: append some first")
        return [CellReader(rows, CellQueries(self.universe, rows.schema, self.asked))]

    def run(self, touched: Touched) -> Ran:
        counted: CellCounts = touched.values[0]
        answering = _Answering(counted.queries, self.asked)
        rounds, exponents = self.mechanism.run(counted.counts, counted.size, answering, touched.source)
        schema = {name: counted.queries.schema[name] for name, _ in self.universe.columns}
        told = {"size": counted.size, "rounds": [list(found) for found in rounds], "schema": schema}
        return Ran(told | {"exponents": [list(part) for part in exponents]}, hits=0, tests=0)

    def present(self, answer: Json, call: int) -> SyntheticHistogram:
        rounds = [Round(*found) for found in answer["rounds"]]
        size, kept = answer["size"], best_round(rounds, answer["size"])
        exponents = Exponents(*(tuple(part) for part in answer["exponents"]))
        told = tuple(MeasuredQuery(self.asked[found.query].text, found.measured, found.share) for found in rounds)
        error = min(1.0, missed(rounds[kept], size) + self._margin / size)
        return SyntheticHistogram(call, self.universe, size, told, kept, error, answer["schema"], exponents, self.asked)

    @cached_property
    def _margin(self) -> float:
        sizes = {"epsilon": self.mechanism.epsilon, "rho": self.mechanism.rho}
        many, rounds = len(self.asked), self.mechanism.rounds
        return mwem_margins_up(queries=many, rounds=rounds, confidence=1 - RARE, **sizes).tested


def make_histogram(
    universe: Any,
    queries: Any,
    neighbouring: Neighbouring,
    rounds: int,
    epsilon: Number | None = None,
    rho: Number | None = None,
) -> MakeHistogram:
    """The call, from what users write; `InvalidQuery` for no queries, too many, or one of them twice."""
    asked = conditions(queries)
    if not 1 <= len(asked) <= MOST_QUERIES:
        raise InvalidQuery(f'give 1 to {MOST_QUERIES:,} queries, such as ["age >= 65", "sex = \'f\'"]')
    if len(set(asked)) < len(asked):
        twice = next(query for query, times in Counter(asked).items() if times > 1)
        raise InvalidQuery(f"give each query once: all have to be different conditions, and {twice.text!r} is repeated")
    return MakeHistogram(Universe.of(universe), asked, MWEM(rounds, epsilon, rho), neighbouring)
