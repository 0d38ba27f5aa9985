"""Values of rows in their order, for quantiles, and elements of units, for counts of distinct values."""

from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from chary.data.neighbors import NeighborRelation, Neighbors
from chary.data.predicates.predicate import Predicate
from chary.data.queries import query, sums
from chary.errors import InvalidQuery
from chary.numbers import Number, checked, natural_number, optional, positive, whole

# The values of a column in order, on a public grid: what quantiles are computed from.

Integers = NDArray[np.int64]
MOST_POINTS: Final = 2**40
OfUnit = Literal["spread", "random", "mean", "weighted"]
_ESTIMATED: Final = {
    "spread": "its {kept}",
    "random": "{kept}, drawn at random",
    "mean": "the mean of its values",
    "weighted": "all its values, with equal weights that add up to one unit",
}


@dataclass(frozen=True)
class Ordered:
    """The values of a column, clipped to bounds and rounded to multiples of a step, and how often each occurs.

    The grid of possible values is public: the bounds and the multiples of the step between them. Values are those of
    rows satisfying `where`; NULL and NaN are nobody's. Built by `ordered`.

    `max_rows_per_unit=k` says how many values a unit counts for at most, and `of_unit` which:

    - "spread": of a unit with more than k values, k that are evenly spread in their order (for k = 1 the lower middle
      one). With k = 1 the quantiles are those of the units' own medians.
    - "random": k of them drawn at random without replacement, all alike, afresh at every call. With k = 1 the quantiles
      are those of a random row of a random unit; with k above all numbers of rows, those of rows.
    - "mean": the mean of all its values, clipped, rounded to the grid (halves upwards); k must be 1.
    - "weighted": each unit counts for exactly k values, shared among its rows as evenly as k parts can be. That is a
      random row of a random unit without drawing one, up to 1/k.

    What is kept of a unit depends on its own rows, and for "random" on coins of its own, alone. Given all coins,
    neighbours differ by the at most k values of one unit. So a guarantee for that holds on average over the coins too.

    With public groups (`keyed`) there are values in order for each of them, and k values of a unit in each of its.
    """

    total: sums.Sum
    max_rows_per_unit: int | None = None
    of_unit: OfUnit = "spread"

    def __post_init__(self) -> None:
        checked(self, max_rows_per_unit=optional(query.per_unit))
        if self.of_unit not in _ESTIMATED:
            raise InvalidQuery(f"of_unit is one of {', '.join(_ESTIMATED)}, such as of_unit='random'")
        if self.of_unit != "spread" and self.max_rows_per_unit is None:
            raise InvalidQuery(
                f"of_unit={self.of_unit!r} says how the rows of one unit count, for a privacy unit with many rows: say "
                f"max_rows_per_unit=1 too"
            )
        if self.of_unit == "mean" and self.max_rows_per_unit != 1:
            raise InvalidQuery("of each unit there is one mean: of_unit='mean' needs max_rows_per_unit=1")

    @property
    def points(self) -> int:
        """The number of possible values."""
        low, high = self.total.steps
        return high - low + 1

    def value(self, place: int) -> int | float:
        """The possible value of that number, counted from 0."""
        return natural_number(self.total.bounds[0] + place * self.total.grid)

    def moves(self, neighbor_relation: NeighborRelation) -> int:
        """How many values one unit has at most; `InvalidQuery` when nothing bounds that, or nothing needs to."""
        unit, column = neighbor_relation.unit, self.total.column
        if unit is None and self.max_rows_per_unit is not None:
            raise InvalidQuery("max_rows_per_unit is for a privacy unit with many rows; here each row is one")
        if unit is not None and self.max_rows_per_unit is None:
            raise InvalidQuery(
                f"one {unit} may have many values of {column}: limit them with max_rows_per_unit=1, which keeps the "
                f"middle one of each {unit}"
            )
        return self.max_rows_per_unit or 1

    def keyed(self, keying: query.Keying) -> "Ordered":
        """The same for each of a public list of groups."""
        return replace(self, total=replace(self.total, keying=keying))

    @property
    def keys(self) -> tuple[tuple[Any, ...], ...] | None:
        """The groups; None where there are none."""
        return self.total.keys

    def reach(self, neighbor_relation: NeighborRelation) -> int:
        """In how many groups neighbours can differ; 1 where there are none."""
        keying = self.total.keying
        if keying is None:
            return 1
        spread = keying.spread(neighbor_relation.unit)
        return query.Contribution(0, 1, len(keying.domain), spread).reach(neighbor_relation.neighbors)

    def estimated(self, unit: str | None) -> str:
        """What the quantiles are quantiles of, in words."""
        column = self.total.column
        if unit is None:
            return f"quantiles of {column} over all rows{self._only}"
        many = self.max_rows_per_unit or 1
        middle = "middle value" if many == 1 else f"values, {many} at most, spread evenly in their order"
        kept = middle if self.of_unit == "spread" else "one value" if many == 1 else f"{many} values at most"
        told = f"quantiles of {column} over every {unit}{self._only}: of each"
        told += f", {_ESTIMATED[self.of_unit].format(kept=kept)}"
        limited = "" if self.total.keying is None else self.total.keying.kept
        return f"{told}; {limited}" if limited else told

    @property
    def _only(self) -> str:
        """Which rows count at all, in words."""
        groups = "" if self.keys is None else f" of each {', '.join(self.total.columns)}"
        return groups + ("" if self.total.where is None else f" where {self.total.where.text}")

    def body(self) -> dict[str, Any]:
        """A JSON-able canonical description, without the groups."""
        total = self.total
        chosen = {} if self.of_unit == "spread" else {"of_unit": self.of_unit}
        return chosen | {
            "kind": "ordered",
            "column": total.column,
            "bounds": [str(edge) for edge in total.bounds],
            "step": str(total.grid),
            "where": None if total.where is None else total.where.text,
            "rows_per_unit": self.max_rows_per_unit,
        }

    def describe(self) -> str:
        """Such as `age in [0, 120] step 1`."""
        low, high = (sums.written(edge) for edge in self.total.bounds)
        where = "" if self.total.where is None else f" where {self.total.where.text}"
        return f"{self.total.column} in [{low}, {high}] step {sums.written(self.total.grid)}{where}"


@dataclass(frozen=True)
class Occurring:
    """Which grid places occur, ascending, and how often each does. Secret."""

    places: Integers
    counts: Integers

    def __repr__(self) -> str:
        return "Occurring(<secret>)"


@dataclass(frozen=True)
class UnitValues:
    """The grid places of all values, those of a unit side by side, and the number of the unit of each. Secret."""

    places: Integers
    units: Integers

    def __repr__(self) -> str:
        return "UnitValues(<secret>)"


def ordered(
    column: str,
    *,
    bounds: tuple[Number, Number],
    step: Number = 1,
    where: Predicate | str | None = None,
    max_rows_per_unit: int | None = None,
    of_unit: OfUnit = "spread",
) -> Ordered:
    """Describe the values of a column on a public grid: multiples of `step` from one bound to the other.

    `InvalidQuery` for bounds in the wrong order, off the grid, or more than 2**40 steps apart; `InvalidParameter` for
    what is no number.

    >>> ages = ordered("age", bounds=(0, 120))
    >>> ages.points, ages.value(5), ages.moves(NeighborRelation("replace", None))
    (121, 5, 1)
    """
    total = sums.Sum(
        column=column, bounds=sums.read_bounds(bounds, "bounds"), grid=positive(step, "step"), where=Predicate.of(where)
    )
    made = Ordered(total, max_rows_per_unit, of_unit)
    if made.points > MOST_POINTS:
        raise InvalidQuery("bounds may be at most 2**40 steps apart: choose a larger step")
    return made


# Which elements of a table a sketch counts, and up to where they were read.

Words = NDArray[np.uint64]


@dataclass(frozen=True)
class Elements:
    """The distinct privacy units with a row satisfying `where`, or the distinct values of the column `of`.

    `max_groups_per_unit=r`: chary keeps the r smallest values of each unit. The rows are read once and growth is
    ignored, since values that come later cannot be limited without the earlier ones. `assumed_groups_per_unit=r`: the
    caller asserts that no unit ever has more than r values. Where each row is a unit of its own, it has one value.

    >>> by_unit, by_value = Elements(), Elements("disease", assumed_groups_per_unit=3)
    >>> [asked.reach(NeighborRelation("add_remove", "patient")) for asked in (by_unit, by_value)]
    [1, 6]
    """

    of: str | None = None
    where: Predicate | None = None
    max_groups_per_unit: int | None = None
    assumed_groups_per_unit: int | None = None

    def __post_init__(self) -> None:
        query.at_most_one(self.max_groups_per_unit, self.assumed_groups_per_unit)
        for limit in (self.max_groups_per_unit, self.assumed_groups_per_unit):
            if limit is not None:
                whole(limit, "the number of values of a unit")
                if self.of is None:
                    raise InvalidQuery("a unit is one element: limits per unit are for the values of a column, of=")

    @property
    def grows(self) -> bool:
        """Whether rows that are appended later are counted."""
        return self.max_groups_per_unit is None

    def reach(self, neighbor_relation: NeighborRelation) -> int:
        """In how many arrivals of elements neighbours can differ, a removed arrival and a new one counting as two.

        A unit as an element arrives or not. One of its r values arrives or not, too. But where rows may be appended it
        may also arrive later with another unit, which takes one arrival away and makes another. So may a unit that has
        rows in another block than the one in which neighbours differ. "Replace" doubles.
        """
        arrivals = 1 if neighbor_relation.block is None else 2
        if self.of is not None:
            arrivals = self._values(neighbor_relation.unit) * (2 if self.grows else 1)
        return arrivals * (2 if neighbor_relation.neighbors is Neighbors.REPLACE else 1)

    def _values(self, unit: str | None) -> int:
        if unit is None:
            return 1
        limit = self.max_groups_per_unit or self.assumed_groups_per_unit
        if limit is None:
            raise InvalidQuery(
                "how many different values can a unit have? Give max_groups_per_unit=1 (chary keeps this many and "
                "reads the rows once) or assumed_groups_per_unit=1 (you assert it, and the table may grow)"
            )
        return limit

    def body(self) -> dict[str, Any]:
        """A JSON-able canonical description, from which `of_body` makes the same."""
        limits = {"keep_per_unit": self.max_groups_per_unit, "stated_per_unit": self.assumed_groups_per_unit}
        return {"of": self.of, "where": None if self.where is None else self.where.text} | limits

    @classmethod
    def of_body(cls, body: dict[str, Any]) -> "Elements":
        """The elements that a body describes."""
        return cls(body["of"], Predicate.of(body["where"]), body["keep_per_unit"], body["stated_per_unit"])


@dataclass(frozen=True)
class Mark:
    """Up to where a table was read: the table in this process, and how many rows it then held. Secret."""

    table: str
    upto: int

    def __repr__(self) -> str:
        return "Mark(<secret>)"
