"""Histograms: counts of rows by public bins of a column of numbers."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import islice, pairwise
from typing import Any, Final, Literal, NamedTuple

import ibis

from chary.answers import NoisyNumbers
from chary.data.columns import BLOCK, Schema, TypeClass
from chary.data.neighbors import NeighborRelation
from chary.data.predicates.conditions import Operand, double
from chary.data.predicates.predicate import Predicate
from chary.data.queries import keys, sums
from chary.data.queries.query import Contribution, Keying, Query
from chary.errors import InvalidQuery
from chary.numbers import Number, exact, natural_number

Outside = Literal["ignore", "edges"]
Numeric = int | float
LARGEST_EDGE: Final = 2**53
# Bins are found by halving: 12 comparisons a value.
MOST_BINS: Final = 4096


class Bin(NamedTuple):
    """The numbers from `low` on and below `high`.

    >>> str(Bin(18, 65)), Bin(18, 65) == (18, 65)
    ('[18, 65)', True)
    """

    low: Numeric
    high: Numeric

    def __str__(self) -> str:
        return f"[{self.low:.15g}, {self.high:.15g})"


@dataclass(frozen=True)
class Binned(Query[NoisyNumbers]):
    """A count of units by the interval in which a column lies; built by `histogram`.

    `of` is that count, grouped by the numbers 0, 1, ... of the bins in place of the column's values.
    """

    of: sums.Count
    edges: tuple[Fraction, ...]
    outside: Outside = "ignore"

    def __post_init__(self) -> None:
        if self.outside not in ("ignore", "edges"):
            raise InvalidQuery("outside must be 'ignore' (in no bin) or 'edges' (in the first and the last bin)")

    @property
    def column(self) -> str:
        """The column of numbers."""
        return self._keying.domain.columns[0]

    @property
    def columns(self) -> tuple[str, ...]:
        """The column of numbers."""
        return (self.column,)

    @property
    def grid(self) -> Fraction:
        """One unit."""
        return Fraction(1)

    @cached_property
    def keys(self) -> tuple[tuple[Any, ...], ...]:
        """One interval for each bin."""
        edges = [natural_number(edge) for edge in self.edges]
        return tuple((Bin(low, high),) for low, high in pairwise(edges))

    def contribution(self, neighbor_relation: NeighborRelation) -> Contribution:
        """That of a count by as many keys: a unit counts 0 or 1 in each of its bins, a single row in one bin."""
        return self.of.contribution(neighbor_relation)

    def body(self) -> dict[str, Any]:
        keying, where = self._keying, self.of.where
        return {
            "kind": "histogram",
            "column": self.column,
            "edges": [str(edge) for edge in self.edges],
            "outside": self.outside,
            "where": None if where is None else where.text,
            "keep_per_unit": keying.max_groups_per_unit,
            "stated_per_unit": keying.assumed_groups_per_unit,
        }

    def describe(self) -> str:
        """Such as `histogram of age in 3 bins from 0 to 120`."""
        where = "" if self.of.where is None else f" where {self.of.where.text}"
        low, high = sums.written(self.edges[0]), sums.written(self.edges[-1])
        return f"histogram of {self.column} in {len(self.edges) - 1} bins from {low} to {high}{where}"

    def numbered(self, rows: Any, schema: Schema, unit: str | None, of: Operand) -> tuple[Any, Schema]:
        """The rows with the number of the bin of a column of theirs in place of its value, without those in no bin."""
        value, kind = of.value, of.kind
        if self.column == unit or (of.derived and self.column.casefold() == (unit or "").casefold()):
            raise InvalidQuery(f"{self.column!r} names the privacy unit: take bins of another column")
        if kind not in (TypeClass.INTEGER, TypeClass.FLOAT):
            raise InvalidQuery(f"bins need a column of numbers; {self.column!r} is {kind.words}{of.declared('DOUBLE')}")
        number = _number(value, [_literal(edge, kind) for edge in self.edges[1:-1]], 0)
        chosen, numbered = rows.filter(self._inside(value, kind)), {self.column: number}
        # Beside all columns a derived one may have the name of another, but for capitals, which some engines overlook.
        kept = {} if unit is None else {name: chosen[name] for name in (unit, BLOCK) if name in chosen.columns}
        made = chosen.select(**kept, **numbered) if of.derived else chosen.mutate(**numbered)
        return made, {**schema, self.column: str(TypeClass.INTEGER)}

    def _inside(self, value: Any, kind: TypeClass) -> Any:
        if self.outside == "edges":
            return value.notnull()
        low, high = (_literal(edge, kind) for edge in (self.edges[0], self.edges[-1]))
        return value.notnull() & (value >= low) & (value < high)

    @property
    def limits(self) -> str:
        """Of how many bins a unit counts, in words."""
        return self._keying.kept

    @property
    def _keying(self) -> Keying:
        assert self.of.keying is not None
        return self.of.keying


def histogram(
    column: str,
    *,
    bins: Iterable[Number],
    where: Predicate | str | None = None,
    outside: Outside = "ignore",
    max_groups_per_unit: int | None = None,
    assumed_groups_per_unit: int | None = None,
) -> Binned:
    """Count the units with a row in each interval between neighbouring edges: at or above one, below the next.

    Edges are public numbers, strictly increasing, at least two. A value outside all bins is in none, or with
    `outside="edges"` in the first or the last one; NULL and NaN are in none. A unit may be in several bins: see
    `Keying` for the two limits. `InvalidQuery` for edges that do not increase, `InvalidParameter` for no numbers.

    >>> ages = histogram("age", bins=[0, 18, 65, 120])
    >>> [str(interval) for (interval,) in ages.keys], ages.l1(NeighborRelation("replace", None))
    (['[0, 18)', '[18, 65)', '[65, 120)'], 2)
    """
    if not isinstance(column, str):
        raise InvalidQuery("a histogram needs the name of a column")
    edges = _edges(bins)
    keying = Keying(keys.Domain.of(column, range(len(edges) - 1)), max_groups_per_unit, assumed_groups_per_unit)
    return Binned(sums.Count(where=Predicate.of(where), keying=keying), edges, outside)


def _edges(bins: Iterable[Number]) -> tuple[Fraction, ...]:
    if isinstance(bins, (str, bytes)) or not isinstance(bins, Iterable):
        raise InvalidQuery("bins is a list of edges, such as bins=[0, 18, 65, 120]")
    edges = tuple(exact(edge, "bins") for edge in islice(bins, MOST_BINS + 2))
    if not 2 <= len(edges) <= MOST_BINS + 1:
        raise InvalidQuery(f"bins needs two edges at least and makes {MOST_BINS} bins at most")
    if any(low >= high for low, high in pairwise(edges)):
        raise InvalidQuery("bins must increase from edge to edge, such as bins=[0, 18, 65, 120]")
    if max(-edges[0], edges[-1]) > LARGEST_EDGE:
        raise InvalidQuery("edges may be at most 2**53 from 0")
    return edges


def _literal(edge: Fraction, kind: TypeClass) -> Any:
    """For integers the least one at or above the edge; for floats the nearest one, as in conditions: 0.3 means 0.3."""
    return ibis.literal(math.ceil(edge), "int64") if kind is TypeClass.INTEGER else double(float(edge))


def _number(value: Any, inner: Sequence[Any], first: int) -> Any:
    """How many of the inner edges are at or below the value, by halving; `first` is added."""
    if not inner:
        return ibis.literal(first, "int64")
    middle = len(inner) // 2
    lower, upper = _number(value, inner[:middle], first), _number(value, inner[middle + 1 :], first + middle + 1)
    return ibis.ifelse(value < inner[middle], lower, upper)
