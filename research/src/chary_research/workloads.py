"""Workloads of linear queries over few attributes: synthetic rows, a pool of queries, and streams drawn from it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property, reduce
from itertools import chain, combinations, product
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chary.data.universe.axes import Universe
from chary.data.universe.regions import Along, AtSplit, Joined, Region, splits

# The values of each attribute that a query names, in the order of the attributes; None for all of them.
Query = tuple[tuple[int, ...] | None, ...]
Counts = NDArray[np.int64]
Shares = NDArray[np.float64]


@dataclass(frozen=True)
class Workload:
    """Rows in the cells of a few attributes, and queries for the proportion of those whose attributes have some values.

    `groups` are parts of the rows, each with its proportion and with proportions of the values of every attribute,
    which are independent inside a group. Values are the numbers from 0.

    >>> known = covid_tests()
    >>> known.cells, len(known.pool), known.condition(known.pool[0])
    (128, 34425, 'positive IN (0) AND age IN (0) AND sex IN (0) AND ethnicity IN (0)')
    """

    name: str
    rows: int
    attributes: tuple[str, ...]
    sizes: tuple[int, ...]
    groups: tuple[tuple[float, tuple[tuple[float, ...], ...]], ...]
    pool: tuple[Query, ...]

    @property
    def cells(self) -> int:
        """How many there are."""
        return math.prod(self.sizes)

    @cached_property
    def universe(self) -> Universe:
        """The same attributes as the columns of a histogram."""
        known: dict[str, Any] = {name: list(range(size)) for name, size in self._named()}
        return Universe(known, missing=False)

    @property
    def schema(self) -> dict[str, str]:
        """The types of these columns."""
        return dict.fromkeys(self.attributes, "int64")

    def counts(self, seed: int) -> Counts:
        """How many rows are in each cell: one draw, an axis for each attribute."""
        shares = sum((part * _joint(values) for part, values in self.groups), np.zeros(self.sizes))
        drawn = np.random.default_rng(seed).multinomial(self.rows, shares.ravel() / shares.sum())
        return np.asarray(drawn, np.int64).reshape(self.sizes)

    def table(self, counts: Counts) -> pa.Table:
        """The rows themselves, cell by cell."""
        places = np.repeat(np.arange(self.cells), counts.ravel())
        columns = np.unravel_index(places, self.sizes)
        return pa.table({name: pa.array(column) for name, column in zip(self.attributes, columns, strict=True)})

    def condition(self, query: Query) -> str | None:
        """The query in the language of conditions; None for every row."""
        named = zip(self.attributes, query, strict=True)
        told = [f"{name} IN ({', '.join(map(str, values))})" for name, values in named if values is not None]
        return " AND ".join(told) or None

    def region(self, query: Query) -> Region:
        """The cells of the query in the universe: those of its condition, which takes longer to read."""
        if query not in self._regions:
            self._regions[query] = self._region(query)
        return self._regions[query]

    def _region(self, query: Query) -> Region:
        shape, parts = self.universe.shape, list[Along]()
        for axis, values in enumerate(query):
            if values is not None:
                flags = np.zeros(self.sizes[axis], np.bool_)
                flags[list(values)] = True
                parts.append(Along(axis, flags))
        if not parts:
            rows = math.prod(shape[: splits(self.universe)[0]])
            return Region(np.zeros(rows, np.intp), np.ones((1, self.cells // rows), np.bool_))
        tried = (AtSplit(Joined(True, parts), shape, place) for place in splits(self.universe))
        return Region(*min(tried, key=AtSplit.cost).patterns())

    @cached_property
    def _regions(self) -> dict[Query, Region]:
        return {}

    def place(self, query: Query) -> tuple[Any, ...]:
        """What picks the cells of the query from an array of them all."""
        if all(values is None or len(values) == 1 for values in query):
            return tuple(slice(None) if values is None else values[0] for values in query)
        every = (range(size) if values is None else values for values, size in zip(query, self.sizes, strict=True))
        return np.ix_(*every)

    def stream(self, asked: int, zipf: float, seed: int) -> list[int]:
        """This many queries, by their places in the pool: the k-th most frequent is asked as often as k^-zipf says.

        Which one is how frequent is drawn too, so that with `zipf` 0 all are alike.
        """
        draw = np.random.default_rng(seed)
        ranks = np.arange(1, len(self.pool) + 1, dtype=np.float64) ** -zipf
        picked = draw.choice(len(self.pool), size=asked, p=ranks / ranks.sum())
        places: list[int] = draw.permutation(len(self.pool))[picked].tolist()
        return places

    def _named(self) -> list[tuple[str, int]]:
        return list(zip(self.attributes, self.sizes, strict=True))


def _joint(values: Sequence[Sequence[float]]) -> Shares:
    """The proportions of all cells where attributes are independent."""
    return reduce(np.multiply.outer, (np.asarray(each, np.float64) / sum(each) for each in values))


# Covid tests: one row a test, its result and who was tested.

# Of the people of California in the census of 2020, by age (0-17, 18-49, 50-64, 65 and more) and by ethnicity (American
# Indian, Asian, Latino, of several, Pacific islander, other, White, Black); and of all its cases until September 2022.
PEOPLE_BY_AGE: Final = (0.224, 0.440, 0.184, 0.152)
PEOPLE_BY_ETHNICITY: Final = (0.004, 0.151, 0.394, 0.041, 0.0035, 0.006, 0.347, 0.054)
CASES_BY_AGE: Final = (0.181, 0.548, 0.173, 0.098)
CASES_BY_ETHNICITY: Final = (0.005, 0.102, 0.452, 0.010, 0.008, 0.116, 0.253, 0.054)
CASES_BY_SEX: Final = (0.474, 0.526)
POSITIVE: Final = 0.07
# Rows of a block of the published experiment: a fiftieth of its 50,426,600.
TESTS: Final = 1_008_532


@cache
def covid_tests(rows: int = TESTS) -> Workload:
    """The published Covid workload: 128 cells, and every product of non-empty sets of values, 34,425 queries.

    Attributes are independent among positive tests, and among negative ones, as in the published generator.
    """
    sizes = (2, 4, 2, 8)
    groups = (
        (1 - POSITIVE, ((1, 0), PEOPLE_BY_AGE, (0.5, 0.5), PEOPLE_BY_ETHNICITY)),
        (POSITIVE, ((0, 1), CASES_BY_AGE, CASES_BY_SEX, CASES_BY_ETHNICITY)),
    )
    pool = tuple(product(*map(_subsets, sizes)))
    return Workload("tests", rows, ("positive", "age", "sex", "ethnicity"), sizes, groups, pool)


def _subsets(size: int) -> list[tuple[int, ...]]:
    return list(chain.from_iterable(combinations(range(size), count) for count in range(1, size + 1)))


# Bike rides: one row a ride, when, how long, from where to where, and who rode.

_RIDES = {"weekday": 7, "hour": 6, "minutes": 6, "start": 10, "end": 10, "subscriber": 2, "sex": 3, "age": 4}
# The marginals that public dashboards of bike rides show, whose cells are the pool, by the first letters.
_SHOWN: Final = (
    "sex|subscriber|subscriber sex||age|start|end|hour|start end|sex age|minutes|minutes age|minutes sex|"
    "minutes sex age|minutes subscriber|start age|end age|subscriber age|weekday|weekday minutes|hour minutes|"
    "weekday hour|subscriber sex age|hour start|hour end|weekday start|weekday end|weekday start end|hour start end|"
    "start end age"
)
RIDES: Final = 400_000


@cache
def bike_rides(rows: int = RIDES) -> Workload:
    """A workload like the published one of bike rides: 604,800 cells, and the cells of 30 marginals, 2,485 queries.

    The rows are made up: subscribers commute on weekdays, others ride longer at weekends, and from each of ten places
    most rides end near by.
    """
    near = [tuple(0.45 if end == start else 0.3 / (1 + abs(start - end)) for end in range(10)) for start in range(10)]
    busy = (0.2, 0.16, 0.13, 0.11, 0.1, 0.09, 0.08, 0.06, 0.04, 0.03)
    riders = (
        (
            0.85,
            (0.16, 0.17, 0.17, 0.17, 0.15, 0.1, 0.08),
            (0.03, 0.2, 0.24, 0.2, 0.24, 0.09),
            0.81,
            1,
            (0.07, 0.7, 0.23),
        ),
        (
            0.15,
            (0.1, 0.1, 0.1, 0.11, 0.14, 0.24, 0.21),
            (0.02, 0.04, 0.22, 0.4, 0.24, 0.08),
            0.52,
            0,
            (0.4, 0.36, 0.24),
        ),
    )
    groups = []
    for part, weekdays, hours, short, subscriber, sexes in riders:
        minutes = tuple(short * (1 - short) ** place for place in range(6))
        ages = (0.01, 0.75, 0.19, 0.05) if subscriber else (0.01, 0.62, 0.34, 0.03)
        for start, share in enumerate(busy):
            one = tuple(float(place == start) for place in range(10))
            who = (1.0 - subscriber, float(subscriber))
            groups.append((part * share, (weekdays, hours, minutes, one, near[start], who, sexes, ages)))
    names, sizes = tuple(_RIDES), tuple(_RIDES.values())
    pool = [cell for shown in _SHOWN.split("|") for cell in _marginal(shown.split())]
    return Workload("rides", rows, names, sizes, tuple(groups), tuple(pool))


def _marginal(shown: Sequence[str]) -> list[Query]:
    """All cells of these attributes."""
    each = [[(value,) for value in range(size)] if name in shown else [None] for name, size in _RIDES.items()]
    return list(product(*each))
