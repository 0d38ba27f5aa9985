"""MWEM in a session: one call whose answer is a synthetic histogram for a list of queries and whatever is like them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from threading import Lock
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chary.accounting import Event
from chary.accounting.synthesis import mwem_margins_up
from chary.answers import Answer
from chary.calls.call import Bound, Call, call
from chary.calls.fields import Cells, Conditions, Positive, Whole
from chary.calls.workload import AskedShare, Share, conditions, promised, region
from chary.core.plan import Json, Ran, Touched, natural
from chary.core.transaction import Spine
from chary.data import Query, Reading, Relation, Rows, Universe, public_size
from chary.data.columns import Schema
from chary.data.domain.cell_counts import MOST_QUERIES, CellCounts, CellQueries, CellReader
from chary.data.domain.regions import Region, matrix
from chary.data.domain.synthetic import rows_drawn
from chary.data.domain.weighted_regions import WeightedRegion
from chary.errors import InvalidQuery
from chary.mechanisms.mwem import Exponents, MwemRounds, Round, best_round, missed, weighted
from chary.mechanisms.weights import PublicHistogram

# Error bars hold 95 times in 100.
RARE: Final = Fraction(1, 20)
_LOOKING: Final = Lock()  # a histogram sums in room that it keeps, so one look-up at a time


class MeasuredQuery(NamedTuple):
    """One round: the query that was picked as the worst, its noisy count (of a linear query, the sum of the weights),
    and the share the histogram had for it."""

    query: str
    measured: float
    share: float


@dataclass(frozen=True)
class SyntheticHistogram(Answer):
    """A histogram over all cells of a universe that was made for a list of queries. It was paid for: all use is free.

    It is that of the round `kept`, counted from 0, which missed the count measured then by least; `rounds` tells of
    all. With probability 0.95 the answers to all queries it was made for are within `error_bar` of the shares of the
    `size` rows then, whatever these were; nothing is promised for other conditions.
    """

    universe: Universe
    size: int
    rounds: tuple[MeasuredQuery, ...] = field(repr=False)
    kept: int
    error_bar: float
    schema: Schema = field(repr=False, compare=False)
    exponents: Exponents = field(repr=False)
    asked: tuple[Share, ...] = field(repr=False, compare=False)

    @property
    def value(self) -> tuple[MeasuredQuery, ...]:
        """What was published of the rows: the rounds."""
        return self.rounds

    def share(self, where: AskedShare) -> float:
        """The share of rows that satisfy a condition; None is every row. `InvalidQuery` for a condition that the
        universe cannot tell (see `Universe`)."""
        cells = region(self.universe, self.schema, where)
        with _LOOKING:
            return self._weights.share(cells)

    @property
    def interval_says(self) -> str:
        return (
            "no interval for the whole: interval_of(condition) of all queries it was made for hold together 95 in 100"
        )

    def interval_of(self, where: AskedShare) -> tuple[float, float] | None:
        """Where the share of the rows lies: of all queries it was made for together, with probability 0.95, whatever
        the data. None for any other condition, of which nothing is promised."""
        return promised(self.share(where), self.error_bar, self.asked, where)

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

    def __getstate__(self) -> dict[str, Any]:
        """Without the weights, which follow from all else."""
        return {name: part for name, part in super().__getstate__().items() if name != "_weights"}


class _Cells:
    """The cells of queries; those that were looked up are kept."""

    def __init__(self, universe: Universe, schema: Schema, queries: Sequence[Share]) -> None:
        self.shape = matrix(universe)
        self._universe, self._schema, self._queries = universe, schema, queries
        self._known: dict[int, Region | WeightedRegion] = {}

    def cells(self, query: int) -> Region | WeightedRegion:
        if query not in self._known:
            self._known[query] = region(self._universe, self._schema, self._queries[query])
        return self._known[query]


class _Answering(_Cells):
    """Also answers all queries from weights."""

    def __init__(self, counted: CellQueries, queries: Sequence[Share]) -> None:
        super().__init__(counted.universe, counted.schema, queries)
        self.shares = counted.shares


@call("mwem", subject="synthesis")
class MWEM(Call[SyntheticHistogram]):
    """A histogram over a whole universe that answers all these queries, from the few it would get most wrong.

    Each round picks the query that the histogram of that time gets most wrong, measures its count, and fits the
    histogram to all counts measured so far; the last one only tests (Hardt, Ligett, McSherry 2012; docs/mwem.md).
    Queries are conditions, one or a list, or counts, whose keys make a condition each, or linear queries
    (`chary.data.average`, `weighted`). More rounds learn more
    and measure each count less precisely; `chary.accounting.synthesis.best_rounds` is the number that
    promises most for the worst data.

    Guarantee: epsilon-DP, or with `rho`, for sessions with a delta, rho-zCDP, which is more accurate for many
    rounds; always charged. With probability 0.95 all answers to these queries are within `error_bar` of the answer.

    Errors: `InvalidQuery` where the number of rows is secret (open with `privacy_unit=None`, `relation="replace"`),
    for no rows, for no queries, more than 100,000 or one of them twice, and for a condition that the universe
    cannot tell; `InvalidParameter` for a number of rounds that is not from 1 to 1,000, or not one of `epsilon` and
    `rho`; `NoPrice` for rho without a delta.
    """

    _: KW_ONLY
    universe: Cells
    queries: Conditions
    rounds: Whole
    epsilon: Positive | None = None
    rho: Positive | None = None

    def __post_init__(self) -> None:
        asked = conditions(self.queries)
        if not 1 <= len(asked) <= MOST_QUERIES:
            raise InvalidQuery(f'give 1 to {MOST_QUERIES:,} queries, such as ["age >= 65", "sex = \'f\'"]')
        if len(set(asked)) < len(asked):
            twice = next(query for query, times in Counter(asked).items() if times > 1)
            raise InvalidQuery(
                f"give each query once: all have to be different conditions, and {twice.text!r} is repeated"
            )

    def bind(self, spine: Spine) -> "AskMWEM":
        return AskMWEM(self, spine.rows.neighbouring)


class AskMWEM(Bound[MWEM]):
    """All rounds of MwemRounds at once.

    Neighbours differ in one row, so each count by 1 at most; their number is public. Everything but counts and picks is
    a function of the answer: the histogram is made anew from it, bit by bit the same, whenever it is presented.
    """

    def __post_init__(self) -> None:
        if self.neighbouring.relation is not Relation.REPLACE or self.neighbouring.unit is not None:
            raise InvalidQuery(
                'a histogram of shares needs a public number of rows: open with privacy_unit=None, relation="replace"'
            )
        super().__post_init__()

    @cached_property
    def universe(self) -> Universe:
        """The cells of the histogram."""
        return Universe.of(self.call.universe)

    @cached_property
    def asked(self) -> tuple[Share, ...]:
        """The queries that it is made for."""
        return conditions(self.call.queries)

    @cached_property
    def mechanism(self) -> MwemRounds:
        """The rounds."""
        return MwemRounds(self.call.rounds, self.call.epsilon, self.call.rho)

    @property
    def event(self) -> Event:
        return self.mechanism.event

    def body(self) -> Json:
        told = super().body()
        cells: Json = told.pop("universe")
        return cells | told

    def queries(self) -> Sequence[Query]:
        return ()

    def prepare(self, rows: Rows) -> Sequence[Reading]:
        if public_size(rows) < 1:
            raise InvalidQuery("a histogram of shares needs rows: append some first")
        return [CellReader(rows, CellQueries(self.universe, rows.schema, self.asked))]

    def run(self, touched: Touched) -> Ran:
        counted: CellCounts = touched.values[0]
        answering = _Answering(counted.queries, self.asked)
        grid = counted.queries.grid
        made = replace(self.mechanism, grid=grid)
        rounds, exponents = made.run(counted.counts, counted.size, answering, touched.source)
        schema = {name: counted.queries.schema[name] for name, _ in self.universe.columns}
        told = {"size": counted.size, "rounds": [list(found) for found in rounds], "schema": schema}
        told |= {"exponents": [list(part) for part in exponents]} | ({} if grid == 1 else {"grid": grid})
        return Ran(told, hits=0, tests=0)

    def present(self, answer: Json, call: int) -> SyntheticHistogram:
        rounds = [Round(*found) for found in answer["rounds"]]
        size, grid = answer["size"], answer.get("grid", 1)
        kept = best_round(rounds, size * grid)
        exponents = Exponents(*(tuple(part) for part in answer["exponents"]))
        told = tuple(
            MeasuredQuery(self.asked[found.query].text, natural(found.measured, Fraction(1, grid)), found.share)
            for found in rounds
        )
        error = min(1.0, missed(rounds[kept], size * grid) + self._margin(grid) / size)
        return SyntheticHistogram(call, self.universe, size, told, kept, error, answer["schema"], exponents, self.asked)

    def _margin(self, grid: int) -> float:
        asked, sizes = self.call, {"epsilon": self.call.epsilon, "rho": self.call.rho}
        margins = mwem_margins_up(queries=len(self.asked), rounds=asked.rounds, confidence=1 - RARE, grid=grid, **sizes)
        return margins.tested
