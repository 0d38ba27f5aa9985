"""Synthetic data: MWEM and the small database mechanism as calls."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from threading import Lock
from typing import Any, Final, NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chary.accounting import Pure, schedules, synthesis
from chary.answers import Answer
from chary.calls.call import Call, call
from chary.calls.choices import bounded_range
from chary.calls.fields import AskedShare, Cells, Conditions, LinearPart, Positive, Whole, conditions, promised, region
from chary.core.forecast import Forecast
from chary.core.plan import ENCODER, Data, Json, PerHit, Plan, Result, Size, natural
from chary.core.transaction import Spine
from chary.data import Count, Linear, NeighborRelation, Reading, Rows, count, public_size
from chary.data.columns import Schema, classify
from chary.data.universe import axes
from chary.data.universe import counts as universe_counts
from chary.data.universe.linear import MOST_STEPS, CellWeights
from chary.data.universe.regions import Region, located, matrix
from chary.errors import InvalidParameter, InvalidQuery
from chary.mechanisms import small_database, weights
from chary.mechanisms.weights import PublicHistogram
from chary.numbers import Number, plain, whole

# MWEM in a session: one call whose answer is a synthetic histogram for a list of queries and whatever is like them.

# Error bars hold with 95 % confidence.
RARE: Final = Fraction(1, 20)
_LOOKING: Final = Lock()  # a histogram sums in room that it keeps, so one look-up at a time


class MeasuredQuery(NamedTuple):
    """One round: the query that was picked as the worst, its noisy count (of a linear query, the sum of the weights),
    and the proportion the histogram had for it."""

    query: str
    measured: float
    share: float


@dataclass(frozen=True)
class SyntheticHistogram(Answer):
    """A histogram over all cells of a universe that was made for a list of queries. It was paid for: all use is free.

    It is that of the round `kept`, counted from 0, which missed the count measured then by least; `rounds` lists all.
    With probability 0.95 the answers to all queries it was made for are within `error_bar` of the true proportions.
    These are of the `size` rows then, whatever they were. Nothing is promised for other conditions.
    """

    universe: axes.Universe
    size: int
    rounds: tuple[MeasuredQuery, ...] = field(repr=False)
    kept: int
    error_bar: float
    schema: Schema = field(repr=False, compare=False)
    exponents: weights.Exponents = field(repr=False)
    asked: tuple[LinearPart, ...] = field(repr=False, compare=False)
    also = "size rounds kept error_bar"

    @property
    def value(self) -> tuple[MeasuredQuery, ...]:
        """The rounds, which are all that was published of the rows."""
        return self.rounds

    def share(self, where: AskedShare) -> float:
        """The proportion of rows that satisfy a condition; None is every row. `InvalidQuery` for a condition that the
        universe cannot express (see `Universe`)."""
        cells = region(self.universe, self.schema, where)
        with _LOOKING:
            return self._weights.share(cells)

    @property
    def interval_says(self) -> str:
        return (
            "no interval for the whole: interval_of(condition) of all queries it was made for hold together 95 in 100"
        )

    def interval_of(self, where: AskedShare) -> tuple[float, float] | None:
        """The interval of the true proportion. All queries it was made for are in theirs together with probability
        0.95, whatever the data. None for any other condition, for which nothing is promised."""
        return promised(self.share(where), self.error_bar, self.asked, where)

    def histogram(self) -> NDArray[np.float64]:
        """The proportion of the rows in each cell: one axis for each column, the missing cell last. The sum is 1."""
        return self._weights.shares().reshape(self.universe.shape)

    def figures(self) -> dict[str, Any]:
        return {"shares": self.histogram().tolist()} | super().figures()

    def synthetic(self, *, rows: int, seed: int = 0) -> pa.Table:
        """A synthetic table of that many rows drawn from the histogram.

        Within a bin, numbers are drawn evenly. The same seed gives the same table: the draw hides nothing.
        """
        return axes.rows_drawn(self.universe, self.schema, self.histogram(), rows=rows, seed=seed)

    @cached_property
    def _weights(self) -> PublicHistogram:
        return weights.weighted(_Cells(self.universe, self.schema, self.asked), self.exponents)

    def __getstate__(self) -> dict[str, Any]:
        """The fields without the cached weights, which follow from the rest."""
        return {name: part for name, part in super().__getstate__().items() if name != "_weights"}


class _Cells:
    """The cells of queries, cached."""

    def __init__(self, universe: axes.Universe, schema: Schema, queries: Sequence[LinearPart]) -> None:
        self.shape = matrix(universe)
        self._universe, self._schema, self._queries = universe, schema, queries
        self._known: dict[int, Region | universe_counts.WeightedRegion] = {}

    def cells(self, query: int) -> Region | universe_counts.WeightedRegion:
        if query not in self._known:
            self._known[query] = region(self._universe, self._schema, self._queries[query])
        return self._known[query]


class _Answering(_Cells):
    """The same, and the proportions of all queries from weights."""

    def __init__(self, counted: universe_counts.CellQueries, queries: Sequence[LinearPart]) -> None:
        super().__init__(counted.universe, counted.schema, queries)
        self.shares = counted.shares


@call("mwem", subject="synthesis")
class MWEM(Call[SyntheticHistogram]):
    """Publish a histogram over a whole universe that answers all these queries. It learns from the few that it would
    get most wrong.

    Each round picks the query that the histogram of that time gets most wrong, measures its count, and fits the
    histogram to all counts measured so far. The last one only tests (Hardt, Ligett, McSherry 2012;
    docs/theory/linear.md). Queries are conditions, one or a list, or counts, whose groups make a condition each, or
    linear queries (`chary.data.average`, `weighted`). More rounds learn more and measure each count less precisely.
    `chary.accounting.synthesis.best_rounds` is the number that promises most for the worst data.

    Guarantee: epsilon-DP, or with `rho`, for sessions with a delta, rho-zCDP, which is more accurate for many
    rounds; always charged. With probability 0.95 all answers to these queries are within `error_bar` of the answer.

    Errors: `InvalidQuery` where the number of rows is secret (open with `privacy_unit=None`, `neighbors="replace"`) and
    for no rows. The same for no queries, more than 100,000 or one of them twice, and for a condition that the universe
    cannot express. `InvalidParameter` for a number of rounds that is not from 1 to 1,000, or not one of `epsilon` and
    `rho`. `NotPriced` for rho without a delta.
    """

    _: KW_ONLY
    universe: Cells
    queries: Conditions
    rounds: Whole
    epsilon: Positive | None = None
    rho: Positive | None = None

    def __post_init__(self) -> None:
        asked = conditions(self.queries)
        if not 1 <= len(asked) <= universe_counts.MOST_QUERIES:
            raise InvalidQuery(
                f'give 1 to {universe_counts.MOST_QUERIES:,} queries, such as ["age >= 65", "sex = \'f\'"]'
            )
        if len(set(asked)) < len(asked):
            twice = next(query for query, times in Counter(asked).items() if times > 1)
            raise InvalidQuery(
                f"give each query once: all have to be different conditions, and {twice.text!r} is repeated"
            )

    def plan(self, spine: Spine) -> Plan[SyntheticHistogram]:
        return histogram_plan(self, spine.rows.neighbor_relation)


def histogram_plan(call: MWEM, neighbor_relation: NeighborRelation) -> Plan[SyntheticHistogram]:
    """The plan of all rounds of MWEM at once.

    Neighbours differ in one row, so each count by 1 at most; their number is public. Everything but counts and picks is
    a function of the answer: the histogram is made anew from it, bit by bit the same, whenever it is presented.
    """
    if not neighbor_relation.public_units or neighbor_relation.unit is not None:
        raise InvalidQuery(
            'a histogram of proportions needs a public number of rows: open with privacy_unit=None, neighbors="replace"'
        )
    universe, asked = axes.Universe.of(call.universe), conditions(call.queries)
    mechanism = weights.MwemRounds(call.rounds, call.epsilon, call.rho)
    body = call.question_body()
    cells: Json = body.pop("universe")

    def read(rows: Rows) -> Sequence[Reading]:
        if public_size(rows) < 1:
            raise InvalidQuery("a histogram of proportions needs rows: append some first")
        return [universe_counts.CellReader(rows, universe_counts.CellQueries(universe, rows.schema, asked))]

    def run(data: Data) -> Result:
        counted: universe_counts.CellCounts = data.values[0]
        grid = counted.queries.grid
        answering, made = _Answering(counted.queries, asked), replace(mechanism, grid=grid)
        rounds, exponents = made.run(counted.counts, counted.size, answering, data.source)
        schema = {name: counted.queries.schema[name] for name, _ in universe.columns}
        told = {"size": counted.size, "rounds": [list(found) for found in rounds], "schema": schema}
        told |= {"exponents": [list(part) for part in exponents]} | ({} if grid == 1 else {"grid": grid})
        return Result(told, hits=0, tests=0)

    def present(answer: Json, number: int) -> SyntheticHistogram:
        rounds = [weights.Round(*found) for found in answer["rounds"]]
        size, grid = answer["size"], answer.get("grid", 1)
        kept = weights.best_round(rounds, size * grid)
        exponents = weights.Exponents(*(tuple(part) for part in answer["exponents"]))
        told = tuple(
            MeasuredQuery(asked[found.query].text, natural(found.measured, Fraction(1, grid)), found.share)
            for found in rounds
        )
        terms = {"confidence": 1 - RARE, "grid": grid, "epsilon": call.epsilon, "rho": call.rho}
        margin = synthesis.mwem_margins_up(queries=len(asked), rounds=call.rounds, **terms).tested
        error = min(1.0, weights.missed(rounds[kept], size * grid) + margin / size)
        return SyntheticHistogram(number, universe, size, told, kept, error, answer["schema"], exponents, asked)

    def at(epsilon: Fraction) -> Plan[SyntheticHistogram]:
        return histogram_plan(replace(call, epsilon=epsilon), neighbor_relation)

    size = None if call.epsilon is None else Size(Fraction(call.epsilon), at)
    return Plan(call.kind, ENCODER.encode(cells | body), mechanism.event, run, present, read, size=size)


# The queries that a small database is made for, and how many candidates they leave.

MOST_CELLS: Final = 10**7
MOST_FLAGS: Final = 2 * 10**8
MOST_SMALL_QUERIES: Final = 1000
LONGEST: Final = 30_000
# Scores of all queries, as Python integers: some seconds.
MOST_SCORES: Final = 4_000_000
QUICK: Final = 1_000_000
QUICK_BITS: Final = 1024
READABLE: Final = 10**15
INSTEAD: Final = "session.ask(MWEM(universe=, queries=, epsilon=, rounds=))"


@dataclass(frozen=True, eq=False)
class Workload:
    """A universe and the queries that are to be answered over it. All of it is public.

    Errors: `InvalidQuery` for no queries or more than 1,000, for more than 10,000,000 cells (200,000,000 times queries)
    and for conditions that the universe cannot express.
    """

    universe: axes.Universe
    queries: tuple[LinearPart, ...]
    schema: Schema

    @classmethod
    def of(cls, universe: Any, queries: Any, schema: Schema) -> Self:
        """As sessions accept them: conditions, or counts, whose groups make a condition each. Equal ones count once."""
        asked = {query.text: query for query in conditions(queries)}
        return cls(axes.Universe.of(universe), tuple(asked.values()), schema)

    def __post_init__(self) -> None:
        if not 1 <= len(self.queries) <= MOST_SMALL_QUERIES:
            raise InvalidQuery(
                f'give 1 to {MOST_SMALL_QUERIES} different queries, such as ["age >= 65", "sex = \'f\'"]'
            )
        cells = self.universe.cells
        if cells > MOST_CELLS or cells * len(self.queries) > MOST_FLAGS:
            raise InvalidQuery(
                f"{len(self.queries)} queries of {cells:,} cells are too many to tell apart: use {INSTEAD}"
            )
        self.universe.check(self.schema)
        if self.grid > MOST_STEPS:
            raise InvalidQuery("these linear queries have no common grid of at most 2**20 steps: give rounder weights")

    @cached_property
    def asked(self) -> tuple[Count | CellWeights, ...]:
        """The count for each condition, or the weights of the cells for a linear query."""
        universe, schema = self.universe, self.schema
        return tuple(
            query.weights(universe, schema) if isinstance(query, Linear) else located(universe, schema, query)[1]
            for query in self.queries
        )

    @property
    def counts(self) -> list[Count]:
        """The counts of the conditions among the queries."""
        return [asked for asked in self.asked if isinstance(asked, Count)]

    @cached_property
    def grid(self) -> int:
        """The number of steps in which a row is counted: 1 without linear queries."""
        return math.lcm(*(asked.grid for asked in self.asked if isinstance(asked, CellWeights)))

    @cached_property
    def classes(self) -> small_database.Classes:
        """The cells that satisfy the same queries, and weigh the same in linear ones."""
        return small_database.Classes.of(
            self.universe.cells, [self._held(place) for place in range(len(self.queries))], self.grid
        )

    def _held(self, place: int) -> NDArray[Any]:
        """What each cell adds to a query: flags, or steps of the grid where there are linear queries."""
        query = self.queries[place]
        if isinstance(query, Linear):
            found = query.weights(self.universe, self.schema)
            return found.laid_out(self.universe) * (self.grid // found.grid)
        flags = located(self.universe, self.schema, query)[0].flags()
        return flags if self.grid == 1 else flags * np.int64(self.grid)

    def readings(self, rows: Rows) -> list[Reading]:
        """The reading of each query."""
        counts = iter(self.counts)
        return [
            universe_counts.WeightReader(rows, self.universe, query)
            if isinstance(query, Linear)
            else rows.prepare(next(counts))
            for query in self.queries
        ]

    def steps(self, read: Sequence[Any]) -> list[int]:
        """The exact answers that were read, in steps of `1/grid` of a row."""
        return [
            value.steps * (self.grid // value.grid)
            if isinstance(value, universe_counts.RowSum)
            else int(value) * self.grid
            for value in read
        ]

    def quick(self, rows: int, measure: small_database.Measure) -> bool:
        """Whether all databases of this many rows can be examined in a few seconds."""
        light = rows <= LONGEST and self.classes.light(rows, measure, QUICK_BITS)
        return light and len(self.queries) * rows * self.grid <= QUICK and self.classes.feasible(rows, QUICK)

    def check(self, rows: int, measure: small_database.Measure) -> None:
        """Refuse databases of this many rows if there are too many to examine; the error has their number."""
        if rows > LONGEST:
            raise InvalidQuery(f"a small database has at most {LONGEST:,} rows; or use {INSTEAD}")
        if len(self.queries) * rows * self.grid > MOST_SCORES:
            raise InvalidQuery(
                f"weights in steps of 1/{self.grid} make too many different scores: give rounder weights, take fewer "
                f"rows, or use {INSTEAD}"
            )
        if not self.classes.feasible(rows):
            raise InvalidQuery(
                f"there are {_readable(self.classes.candidates(rows))} candidate databases of {rows} rows over the "
                f"{len(self.classes.sizes):,} classes of cells that these {len(self.queries)} queries tell apart. At "
                f"most {small_database.MOST_CANDIDATES:,} can be examined, with {small_database.MOST_ROWS:,} rows "
                f"and {small_database.MOST_ANSWERS:,} answers in all: take fewer rows or queries, or {INSTEAD}"
            )
        if not self.classes.light(rows, measure):
            raise InvalidQuery(
                f"there are {_readable(self.classes.choices(rows, measure))} databases of {rows} rows over "
                f"{self.universe.cells:,} cells; at most 2^{small_database.MOST_BITS} can be weighed: take fewer rows, "
                'or measure="classes"'
            )

    def law(self, rows: int, measure: small_database.Measure, concentrated: bool = False) -> schedules.Law:
        """The accuracy of SmallDB with this many rows."""
        return synthesis.small_database_law(
            rows=rows,
            queries=len(self.queries),
            choices=self.classes.choices(rows, measure),
            classes=len(self.classes.sizes),
            concentrated=concentrated,
        )

    def body(self) -> Json:
        """In JSON."""
        return self.universe.body() | {"queries": [query.text for query in self.queries]}


def _readable(number: int) -> str:
    return f"{number:,}" if number < READABLE else f"about 10^{math.floor(math.log10(number))}"


# SmallDB in a session: a synthetic database of a few rows that answers a list of public queries.

# Error bars hold with 95 % confidence.


@dataclass(frozen=True)
class SyntheticDatabase(Answer):
    """A synthetic database of a few rows, each in a cell of the universe. It was paid for: all use of it is free.

    With probability 0.95 its answers to all queries it was made for are within `error_bar` of the proportions of the
    rows then; nothing is promised for other conditions. That is what the theorem says for the worst data, and takes for
    granted that every row lies in a cell of the universe."""

    universe: axes.Universe
    cells: tuple[int, ...]
    error_bar: float
    schema: Schema = field(compare=False)
    asked: tuple[LinearPart, ...] = field(repr=False, compare=False)

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
        """The proportion of its rows that satisfy a condition; None is every row. `InvalidQuery` for a condition that
        the universe cannot express (see `Universe`)."""
        weights = region(self.universe, self.schema, where).weights()
        return float(weights[list(self.cells)].sum()) / self.rows

    @property
    def interval_says(self) -> str:
        return (
            "no interval for the whole: interval_of(condition) of all queries it was made for hold together 95 in 100"
        )

    def interval_of(self, where: AskedShare) -> tuple[float, float] | None:
        """The interval of the true proportion. All queries it was made for are in theirs together with probability
        0.95, whatever the data. None for any other condition, for which nothing is promised."""
        return promised(self.share(where), self.error_bar, self.asked, where)

    def table(self, *, seed: int = 0) -> pa.Table:
        """Its rows with a value for each column of the universe; None in a missing cell.

        Within a bin, numbers are drawn evenly. The same seed gives the same table: the draw hides nothing.
        """
        random = np.random.default_rng(whole(seed, "seed", least=0))
        return axes.rows_in(self.universe, self.schema, np.array(self.cells), random)

    def figures(self) -> dict[str, Any]:
        return {"rows": self.table().to_pylist(), "error_bar": self.error_bar, "call": self.call}


@call("small_database", subject="synthesis")
class SmallDatabase(Call[SyntheticDatabase]):
    """Publish a synthetic database of a few rows whose answers to all these queries are near those of the data.

    Queries are conditions, one or a list, or counts, whose groups make a condition each, or linear queries
    (`chary.data.average`, `weighted`). Give its size as `rows`, or `alpha` for `ceil(ln|Q|/alpha^2)` as published.
    Without either it has as many rows as promise the least error at the public size, up to 1,000,000 candidates. All
    candidates are examined, so there may be 10,000,000 at most.

    Guarantee: epsilon-DP, by the exponential mechanism ([BLR08]; docs/theory/linear.md). Always charged, at the lower
    cost of the (epsilon^2/8)-zCDP that comes with it. `measure="databases"` is the published distribution, in which
    every multiset of cells is a candidate. With "classes" two databases are one candidate if they have the same number
    of rows in each class of cells that the queries cannot tell apart. So the error does not depend on the universe.

    Errors: `InvalidQuery` where the number of rows is secret (open with `neighbors="replace"`, `privacy_unit=None`) and
    for a condition that the universe cannot express. The same for too many candidates; it says how many there are, and
    nothing is charged.
    """

    _: KW_ONLY
    universe: Cells
    queries: Conditions
    epsilon: Positive
    rows: Whole | None = None
    alpha: Positive | None = None
    measure: small_database.Measure = "classes"

    def plan(self, spine: Spine) -> Plan[SyntheticDatabase]:
        if self.rows is not None and self.alpha is not None:
            raise InvalidParameter("give rows= or alpha=, which is another way to say how many rows")
        size, workload = public_size(spine.rows), Workload.of(self.universe, self.queries, spine.rows.schema)
        if size < 1:
            raise InvalidQuery("a database of proportions needs rows: append some first")
        asked = (
            self.rows
            if self.alpha is None
            else synthesis.published_rows(queries=len(workload.queries), alpha=self.alpha)
        )
        made = _best(workload, self.measure, size, self.epsilon) if asked is None else asked
        sized = replace(self, rows=asked, alpha=None)
        return database_plan(sized, spine.rows.neighbor_relation, workload, made, size=size)


def database_plan(
    call: SmallDatabase,
    neighbor_relation: NeighborRelation,
    workload: Workload,
    rows: int,
    *,
    concentrated: bool = False,
    size: int | None = None,
) -> Plan[SyntheticDatabase]:
    """The plan of the exponential mechanism over all databases of `rows` rows.

    It costs the lower of `Pure(epsilon)` and (epsilon^2/8)-zCDP; `concentrated` claims the second alone. Neighbours
    differ in one row, so each count by 1; their number is public. `size`, if it is known, is for the shortfall of
    quotes alone. Counts are read one after another: rows that another thread appends meanwhile cost accuracy, in
    proportion to their number, and nothing else.
    """
    if not neighbor_relation.public_units or neighbor_relation.unit is not None:
        raise InvalidQuery(
            'a small database answers proportions of rows: open with privacy_unit=None, neighbors="replace"'
        )
    workload.check(rows, call.measure)
    zcdp, pure = bounded_range(call.epsilon)
    body = {"epsilon": str(call.epsilon), "rows": call.rows, "measure": call.measure}
    claimed = {"concentrated": True} if concentrated else {}

    def read(there: Rows) -> Sequence[Reading]:
        public_size(there)
        for name, _ in workload.universe.columns:
            if classify(there.schema, name) is not classify(workload.schema, name):
                raise InvalidQuery(f"column {name!r} is of another type than the queries were checked for")
        return [*workload.readings(there), there.prepare(count())]

    def run(data: Data) -> Result:
        found, steps = data.integer(-1), workload.steps(data.values[:-1])
        cells = databases(call, workload, rows).step(steps, found, data.source)
        return Result({"cells": cells, "size": found}, hits=0, tests=0)

    def present(answer: Json, number: int) -> SyntheticDatabase:
        cells = tuple(answer["cells"])
        law = workload.law(len(cells), call.measure)
        error = min(1.0, law.error(size=answer["size"], epsilon=call.epsilon, beta=RARE))
        return SyntheticDatabase(number, workload.universe, cells, error, workload.schema, workload.queries)

    def forecast() -> Forecast:
        if size is None:
            return Forecast()
        return Forecast(shortfall=lambda beta: databases(call, workload, rows).shortfall(size, beta))

    def at(epsilon: Fraction) -> Plan[SyntheticDatabase]:
        other = replace(call, epsilon=epsilon)
        return database_plan(other, neighbor_relation, workload, rows, concentrated=concentrated, size=size)

    return Plan(
        call.kind,
        ENCODER.encode(workload.body() | body | claimed),
        zcdp if concentrated else pure,
        run,
        present,
        read,
        PerHit(bounds=() if concentrated else (zcdp, pure)),
        forecast,
        size=Size(Fraction(call.epsilon), at),
    )


def databases(call: SmallDatabase, workload: Workload, rows: int) -> small_database.SmallDatabases:
    """The exact choice."""
    return small_database.SmallDatabases(call.epsilon, rows, workload.classes, call.measure)


def _best(workload: Workload, measure: small_database.Measure, size: int, epsilon: Number) -> int:
    return synthesis.best_rows(
        lambda rows: workload.law(rows, measure),
        lambda rows: workload.quick(rows, measure),
        size=size,
        epsilon=Pure(epsilon).epsilon,
        beta=RARE,
    )
