"""What one privacy unit can add to a query, and so how far neighbouring databases can be apart."""

from dataclasses import dataclass
from typing import Final

from chary.data.neighbouring import Relation
from chary.errors import InvalidQuery
from chary.numbers import whole

# So many rows of 2**53 steps sum to 2**73, far from the 128 bits of engines.
MOST_PER_UNIT: Final = 2**20


@dataclass(frozen=True)
class Contribution:
    """The set of answers one unit can cause, as exact integers in steps of the query's grid.

    One *cell* (the unit's part of one key's integer, or one row of it) lies in [low, high] with low <= 0 <= high:
    zero is always possible, because a row may be NULL or fail the predicate. The largest cell is
    M = max(-low, high), the largest change of a cell is W = high - low, and M <= W <= 2 M.

    - `rows` None: the unit has one independent cell in each of at most `spread` of the `keys` keys.
    - `rows` k: the unit has at most k cells in all, spread over at most `spread` keys; a key's integer is their sum.

    >>> visits = Contribution(low=0, high=1, keys=10, spread=3)
    >>> visits.sensitivity(Relation.REPLACE), visits.reach(Relation.REPLACE), visits.l1(Relation.REPLACE)
    (1, 6, 6)
    """

    low: int
    high: int
    keys: int = 1
    spread: int = 1
    rows: int | None = None

    def sensitivity(self, relation: Relation) -> int:
        """The largest change of one key's integer.

        Add/remove: one side has nothing of the unit, so the change is at most M a cell. Replace: both sides
        are in [low, high], so it is at most W a cell. With k cells in one key, k times that.
        """
        return (self.rows or 1) * (self._change if _is_replace(relation) else self._largest)

    def reach(self, relation: Relation) -> int:
        """In how many keys neighbours can differ: `spread`, or twice that when a unit leaves some and enters others."""
        return min(2 * self.spread, self.keys) if _is_replace(relation) else self.spread

    def l1(self, relation: Relation) -> int:
        """The largest sum of changes over all keys.

        Add/remove: `spread` cells (or k cells) of at most M. Replace with k cells in all: each side sums to at most
        k M, reached in two different keys; with a single key k W. Replace with a cell a key: keys of one side only
        cost M, shared keys W <= 2 M; the units share at least max(0, 2 spread - keys) keys and lose by sharing more.
        """
        if not _is_replace(relation):
            return (self.rows or self.spread) * self._largest
        if self.rows:
            return self.rows * (2 * self._largest if self.keys > 1 else self._change)
        shared = max(0, 2 * self.spread - self.keys)
        return 2 * (self.spread - shared) * self._largest + shared * self._change

    def together(self, relation: Relation) -> int:
        """The largest change of the sum over any of the keys, chosen before the neighbours are.

        Of each side at most `spread` cells (or k of them) are not 0, so its sum lies in so many times [low, high]:
        add/remove changes it by at most M for each, replace by at most W.

        >>> Contribution(low=0, high=1, keys=10, spread=3).together(Relation.REPLACE)
        3
        """
        return (self.rows or self.spread) * (self._change if _is_replace(relation) else self._largest)

    def one_direction(self, relation: Relation) -> bool:
        """Whether neighbours change no two keys' integers in opposite directions.

        Where neighbours differ in one key, or cells are all 0, nothing opposes. Add/remove: one side has nothing of the
        unit, and what the others have does not depend on it, so that the changes are the sums of its cells, up to one
        sign: with low = 0 none is negative, with high = 0 none positive, and with low < 0 < high a unit in two keys may
        have a cell of each sign. Replace: a unit may leave one key for another.

        >>> Contribution(low=0, high=5, keys=3, spread=2).one_direction(Relation.ADD_REMOVE)
        True
        >>> Contribution(low=-5, high=5, keys=3, spread=2).one_direction(Relation.ADD_REMOVE)
        False
        """
        if self.low == self.high or self.reach(relation) == 1:
            return True
        return not _is_replace(relation) and 0 in (self.low, self.high)

    @property
    def _largest(self) -> int:
        return max(-self.low, self.high)

    @property
    def _change(self) -> int:
        return self.high - self.low


def _is_replace(relation: Relation) -> bool:
    if relation is Relation.BOUNDED_CHANGE:
        raise InvalidQuery("'bounded change' is for a series of counts; a table needs 'add/remove' or 'replace'")
    return relation is Relation.REPLACE


def per_unit(limit: int, name: str) -> int:
    """A limit on the rows or keys of a unit; `InvalidQuery` above 2**20, so that no engine overflows on some rows.

    >>> per_unit(3, "rows_per_unit")
    3
    """
    if whole(limit, name) > MOST_PER_UNIT:
        raise InvalidQuery(f"{name} may be at most 2**20")
    return int(limit)
