"""The queries that a small database is made for, and how many candidates they leave."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from chary.accounting.schedules import Law
from chary.accounting.synthesis import small_database_law
from chary.calls.workload import Share, conditions
from chary.core.plan import Json
from chary.data import Count, Linear, Reading, Rows, Universe
from chary.data.columns import Schema
from chary.data.domain.linear import MOST_STEPS, CellWeights
from chary.data.domain.regions import located
from chary.data.domain.weighted_regions import RowSum, WeightReader
from chary.errors import InvalidQuery
from chary.mechanisms.small_database import MOST_ANSWERS, MOST_BITS, MOST_CANDIDATES, MOST_ROWS, Classes, Measure

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
    and for conditions that the universe cannot tell.
    """

    universe: Universe
    queries: tuple[Share, ...]
    schema: Schema

    @classmethod
    def of(cls, universe: Any, queries: Any, schema: Schema) -> Self:
        """As sessions accept them: conditions, or counts, whose keys make a condition each. Equal ones count once."""
        asked = {query.text: query for query in conditions(queries)}
        return cls(Universe.of(universe), tuple(asked.values()), schema)

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
        """What is counted for each query, or what the cells weigh in a linear one."""
        universe, schema = self.universe, self.schema
        return tuple(
            query.weights(universe, schema) if isinstance(query, Linear) else located(universe, schema, query)[1]
            for query in self.queries
        )

    @property
    def counts(self) -> list[Count]:
        """What is counted for the conditions among them."""
        return [asked for asked in self.asked if isinstance(asked, Count)]

    @cached_property
    def grid(self) -> int:
        """In how many steps a row is counted: 1 without linear queries."""
        return math.lcm(*(asked.grid for asked in self.asked if isinstance(asked, CellWeights)))

    @cached_property
    def classes(self) -> Classes:
        """The cells that satisfy the same queries, and weigh the same in linear ones."""
        return Classes.of(self.universe.cells, [self._held(place) for place in range(len(self.queries))], self.grid)

    def _held(self, place: int) -> NDArray[Any]:
        """What each cell adds to a query: flags, or steps where there are linear queries."""
        query = self.queries[place]
        if isinstance(query, Linear):
            found = query.weights(self.universe, self.schema)
            return found.laid_out(self.universe) * (self.grid // found.grid)
        flags = located(self.universe, self.schema, query)[0].flags()
        return flags if self.grid == 1 else flags * np.int64(self.grid)

    def readings(self, rows: Rows) -> list[Reading]:
        """What is read for each query."""
        counts = iter(self.counts)
        return [
            WeightReader(rows, self.universe, query) if isinstance(query, Linear) else rows.prepare(next(counts))
            for query in self.queries
        ]

    def steps(self, read: Sequence[Any]) -> list[int]:
        """What was read, in steps of `1/grid` of a row."""
        return [
            value.steps * (self.grid // value.grid) if isinstance(value, RowSum) else int(value) * self.grid
            for value in read
        ]

    def quick(self, rows: int, measure: Measure) -> bool:
        """Whether all databases of so many rows can be gone through in a few seconds."""
        light = rows <= LONGEST and self.classes.light(rows, measure, QUICK_BITS)
        return light and len(self.queries) * rows * self.grid <= QUICK and self.classes.feasible(rows, QUICK)

    def check(self, rows: int, measure: Measure) -> None:
        """Refuse so many rows where they cannot be, and say how many databases there would be."""
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
                f"{len(self.classes.sizes):,} classes of cells that these {len(self.queries)} queries tell apart; at "
                f"most {MOST_CANDIDATES:,} can be gone through, with {MOST_ROWS:,} rows and {MOST_ANSWERS:,} answers "
                f"in all: take fewer rows or queries, or {INSTEAD}"
            )
        if not self.classes.light(rows, measure):
            raise InvalidQuery(
                f"there are {_readable(self.classes.choices(rows, measure))} databases of {rows} rows over "
                f"{self.universe.cells:,} cells; at most 2^{MOST_BITS} can be weighed: take fewer rows, or "
                'measure="classes"'
            )

    def law(self, rows: int, measure: Measure, concentrated: bool = False) -> Law:
        """How accurate SmallDB with so many rows is."""
        return small_database_law(
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
