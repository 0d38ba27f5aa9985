"""What every query has: keys, limits per unit, and how much one unit can contribute under a neighbouring relation."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Generic, TypedDict

from typing_extensions import TypeVar

from chary.data.neighbors import NeighborRelation, Neighbors
from chary.data.predicates.predicate import Predicate
from chary.data.queries.keys import Domain, Key
from chary.errors import InvalidQuery
from chary.numbers import checked, optional, whole

# What one privacy unit can add to a query, and so how far neighbouring databases can be apart.

# That many rows of 2**53 steps sum to 2**73, far from the 128 bits of engines.
MOST_PER_UNIT: Final = 2**20


@dataclass(frozen=True)
class Contribution:
    """The set of answers one unit can cause, as exact integers in steps of the query's grid.

    One *cell* (the unit's part of one key's integer, or one row of it) lies in [low, high] with low <= 0 <= high. Zero
    is always possible, because a row may be NULL or fail the predicate. The largest cell is M = max(-low, high), the
    largest change of a cell is W = high - low, and M <= W <= 2 M.

    - `rows` None: the unit has one independent cell in each of at most `spread` of the `keys` keys.
    - `rows` k: the unit has at most k cells in all, spread over at most `spread` keys; a key's integer is their sum.

    >>> visits = Contribution(low=0, high=1, keys=10, spread=3)
    >>> visits.sensitivity(Neighbors.REPLACE), visits.reach(Neighbors.REPLACE), visits.l1(Neighbors.REPLACE)
    (1, 6, 6)
    """

    low: int
    high: int
    keys: int = 1
    spread: int = 1
    rows: int | None = None

    def sensitivity(self, neighbors: Neighbors) -> int:
        """The largest change of one key's integer.

        Add/remove: one side has nothing of the unit, so the change is at most M a cell. Replace: both sides
        are in [low, high], so it is at most W a cell. With k cells in one key, k times that.
        """
        return (self.rows or 1) * (self._change if _is_replace(neighbors) else self._largest)

    def reach(self, neighbors: Neighbors) -> int:
        """In how many keys neighbours can differ: `spread`, or twice that when a unit leaves some and enters others."""
        return min(2 * self.spread, self.keys) if _is_replace(neighbors) else self.spread

    def l1(self, neighbors: Neighbors) -> int:
        """The largest sum of changes over all keys.

        Add/remove: `spread` cells (or k cells) of at most M. Replace with k cells in all: each side sums to at most k
        M, reached in two different keys; with a single key k W. Replace with a cell a key: keys of one side only cost
        M, shared keys W <= 2 M. The units share at least max(0, 2 spread - keys) keys and lose by sharing more.
        """
        if not _is_replace(neighbors):
            return (self.rows or self.spread) * self._largest
        if self.rows:
            return self.rows * (2 * self._largest if self.keys > 1 else self._change)
        shared = max(0, 2 * self.spread - self.keys)
        return 2 * (self.spread - shared) * self._largest + shared * self._change

    def together(self, neighbors: Neighbors) -> int:
        """The largest change of the sum over any of the keys, chosen before the neighbours are.

        Of each side at most `spread` cells (or k of them) are not 0, so its sum lies in this many times [low, high].
        Add/remove changes it by at most M for each, replace by at most W.

        >>> Contribution(low=0, high=1, keys=10, spread=3).together(Neighbors.REPLACE)
        3
        """
        return (self.rows or self.spread) * (self._change if _is_replace(neighbors) else self._largest)

    def one_direction(self, neighbors: Neighbors) -> bool:
        """Whether neighbours change no two keys' integers in opposite directions.

        Where neighbours differ in one key, or cells are all 0, nothing opposes. Add/remove: one side has nothing of the
        unit, and what the others have does not depend on it. So the changes are the sums of its cells, up to one sign:
        with low = 0 none is negative, and with high = 0 none positive. With low < 0 < high a unit in two keys may have
        a cell of each sign. Replace: a unit may leave one key for another.

        >>> Contribution(low=0, high=5, keys=3, spread=2).one_direction(Neighbors.ADD_REMOVE)
        True
        >>> Contribution(low=-5, high=5, keys=3, spread=2).one_direction(Neighbors.ADD_REMOVE)
        False
        """
        if self.low == self.high or self.reach(neighbors) == 1:
            return True
        return not _is_replace(neighbors) and 0 in (self.low, self.high)

    @property
    def _largest(self) -> int:
        return max(-self.low, self.high)

    @property
    def _change(self) -> int:
        return self.high - self.low


def _is_replace(neighbors: Neighbors) -> bool:
    if neighbors is Neighbors.BOUNDED_CHANGE:
        raise InvalidQuery("'bounded_change' is for a series of counts; a table needs 'add_remove' or 'replace'")
    return neighbors is Neighbors.REPLACE


def per_unit(limit: int, name: str) -> int:
    """A limit on the rows or keys of a unit; `InvalidQuery` above 2**20, so that no engine overflows on some rows.

    >>> per_unit(3, "max_rows_per_unit")
    3
    """
    if whole(limit, name) > MOST_PER_UNIT:
        raise InvalidQuery(f"{name} may be at most 2**20")
    return int(limit)


def at_most_one(kept: int | None, assumed: int | None, of: str = "groups") -> None:
    """`InvalidQuery` where a unit has both limits, the one that chary enforces and the one that the caller asserts."""
    if kept is not None and assumed is not None:
        raise InvalidQuery(
            f"give max_{of}_per_unit (chary enforces it) or assumed_{of}_per_unit (you assert it), not both"
        )


# What every query is: a function from a database to exact integers, and how far neighbours can move them.

AnsweredT = TypeVar("AnsweredT", default=Any)


class Limits(TypedDict, total=False):
    """The two limits of `Keying`, of which at most one may be given."""

    max_groups_per_unit: int | None
    assumed_groups_per_unit: int | None


@dataclass(frozen=True)
class Keying:
    """The public keys of a grouped query, and in how many of them one unit may appear.

    `max_groups_per_unit=c`: chary itself keeps, for each unit, only the first c keys in the order of the list.
    `assumed_groups_per_unit=c`: the caller asserts that no unit has rows in more than c of the keys. Nothing checks it:
    if it is false, so is the privacy guarantee.
    """

    domain: Domain
    max_groups_per_unit: int | None = None
    assumed_groups_per_unit: int | None = None

    def __post_init__(self) -> None:
        at_most_one(self.max_groups_per_unit, self.assumed_groups_per_unit)
        checked(self, max_groups_per_unit=optional(per_unit), assumed_groups_per_unit=optional(per_unit))

    def spread(self, unit: str | None) -> int:
        """The largest number of keys in which one unit has rows; a single row has one key."""
        limit = self.max_groups_per_unit or self.assumed_groups_per_unit or len(self.domain)
        return 1 if unit is None else min(limit, len(self.domain))

    @property
    def kept(self) -> str:
        """Of which groups a unit counts, in words; empty where of all that it has."""
        most = self.max_groups_per_unit
        if most is None or most >= len(self.domain):
            return ""
        where = "one group alone" if most == 1 else f"at most {most} groups"
        return f"each unit counts in {where}, the first of the list that it has"

    def body(self) -> dict[str, Any]:
        """A JSON-able description."""
        limits = {"keep_per_unit": self.max_groups_per_unit, "stated_per_unit": self.assumed_groups_per_unit}
        return self.domain.body() | limits


@dataclass(frozen=True, kw_only=True)
class Keyed(Generic[AnsweredT]):
    """Shared by everything that can be asked for each key: `where`, `keying`, `by`, `keys`."""

    where: Predicate | None = None
    keying: Keying | None = None

    def _keyed(self, columns: str | Sequence[str], keys: Iterable[Any], limits: Limits) -> Any:
        """The same query for each key; what `by` of every kind of query does."""
        if self.keying is not None:
            raise InvalidQuery(
                "the query is grouped already: give all columns in one call, by(['clinic', 'day'], keys)"
            )
        keying = Keying(Domain.of(columns, keys), **limits)
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return type(self)(**(fields | {"keying": keying}))

    @property
    def keys(self) -> tuple[tuple[Key, ...], ...] | None:
        """The public keys in the order of the answers; None for a query with a single answer."""
        return None if self.keying is None else self.keying.domain.rows

    @property
    def limits(self) -> str:
        """Which values, rows and groups count, in words; empty where all do."""
        return "" if self.keying is None else self.keying.kept

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns whose values are the parts of a key."""
        return () if self.keying is None else self.keying.domain.columns

    def _common_body(self) -> dict[str, Any]:
        by = None if self.keying is None else self.keying.body()
        return {"where": None if self.where is None else self.where.text, "by": by}

    def _clauses(self) -> str:
        where = "" if self.where is None else f" where {self.where.text}"
        if self.keying is None:
            return where
        return f"{where} by {', '.join(self.keying.domain.columns)} ({len(self.keying.domain)} keys)"


class Query(ABC, Generic[AnsweredT]):
    """A query whose answer is one exact integer, or one for each key, in steps of `grid`.

    Its type says what a release of it answers: `Query[NoisyNumber]`, or with keys `Query[NoisyNumbers]`. Frozen and
    hashable. `sensitivity`, `reach`, `l1` and `together` follow from `contribution`; see there for the proofs.
    """

    @property
    @abstractmethod
    def grid(self) -> Fraction:
        """The size of one step: an answer n means n * grid."""

    @property
    @abstractmethod
    def keys(self) -> tuple[tuple[Key, ...], ...] | None:
        """The public keys in the order of the answers; None for a single answer."""

    @property
    def columns(self) -> tuple[str, ...]:
        """What the parts of a key are called."""
        return ("position",)

    @property
    def limits(self) -> str:
        """Which values and rows it counts, in words; empty where it counts all."""
        return ""

    @abstractmethod
    def contribution(self, neighbor_relation: NeighborRelation) -> Contribution:
        """What one unit can cause; `InvalidQuery` when the query does not bound it for this unit."""

    def known_range(self, neighbor_relation: NeighborRelation) -> tuple[int | None, int | None]:
        """What the answer can be whatever the data, None for no end: counts, say, are never below 0."""
        unit = self.contribution(neighbor_relation)
        return 0 if unit.low >= 0 else None, 0 if unit.high <= 0 else None

    @abstractmethod
    def body(self) -> dict[str, Any]:
        """A JSON-able canonical description: equal queries, and only they, have equal bodies."""

    @abstractmethod
    def describe(self) -> str:
        """A short text for people; it does not list the keys."""

    def sensitivity(self, neighbor_relation: NeighborRelation) -> int:
        """The largest change of one key's integer between neighbours."""
        return self.contribution(neighbor_relation).sensitivity(neighbor_relation.neighbors)

    def reach(self, neighbor_relation: NeighborRelation) -> int:
        """In how many keys neighbours can differ; 1 for a single answer."""
        return self.contribution(neighbor_relation).reach(neighbor_relation.neighbors)

    def l1(self, neighbor_relation: NeighborRelation) -> int:
        """The largest sum of changes over all keys between neighbours."""
        return self.contribution(neighbor_relation).l1(neighbor_relation.neighbors)

    def one_direction(self, neighbor_relation: NeighborRelation) -> bool:
        """Whether any two neighbours differ in one direction: no key's integer rises where another's falls.

        A choice of the largest then takes half the noise (theory chapter 4).
        """
        return self.contribution(neighbor_relation).one_direction(neighbor_relation.neighbors)

    def together(self, neighbor_relation: NeighborRelation) -> int:
        """The largest change of the sum over any of the keys between neighbours."""
        return self.contribution(neighbor_relation).together(neighbor_relation.neighbors)
