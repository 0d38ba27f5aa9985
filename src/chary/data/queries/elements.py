"""Which elements of a table a sketch counts, and up to where they were read."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chary.data.neighbouring import Neighbouring, Relation
from chary.data.predicates.predicate import Predicate
from chary.errors import InvalidQuery
from chary.numbers import whole

Words = NDArray[np.uint64]


@dataclass(frozen=True)
class Elements:
    """The distinct privacy units with a row satisfying `where`, or the distinct values of the column `of`.

    `keep_per_unit=r`: chary keeps the r smallest values of each unit; the rows are read once and growth is ignored,
    since values that come later cannot be limited without the earlier ones. `stated_per_unit=r`: the caller vouches
    that no unit ever has more than r values. Where each row is a unit of its own, it has one value.

    >>> by_unit, by_value = Elements(), Elements("disease", stated_per_unit=3)
    >>> [asked.reach(Neighbouring("add/remove", "patient")) for asked in (by_unit, by_value)]
    [1, 6]
    """

    of: str | None = None
    where: Predicate | None = None
    keep_per_unit: int | None = None
    stated_per_unit: int | None = None

    def __post_init__(self) -> None:
        if self.keep_per_unit is not None and self.stated_per_unit is not None:
            raise InvalidQuery("give keep_per_unit (chary enforces it) or stated_per_unit (you vouch for it), not both")
        for limit in (self.keep_per_unit, self.stated_per_unit):
            if limit is not None:
                whole(limit, "the number of values of a unit")
                if self.of is None:
                    raise InvalidQuery("a unit is one element: limits per unit are for the values of a column, of=")

    @property
    def grows(self) -> bool:
        """Whether rows that are appended later are counted."""
        return self.keep_per_unit is None

    def reach(self, neighbouring: Neighbouring) -> int:
        """In how many arrivals of elements neighbours can differ, a removed arrival and a new one counting as two.

        A unit as an element arrives or not. One of its r values arrives or not, too; but where rows may be appended it
        may also arrive later with another unit, which takes one arrival away and makes another. "Replace" doubles.
        """
        arrivals = 1
        if self.of is not None:
            arrivals = self._values(neighbouring.unit) * (2 if self.grows else 1)
        return arrivals * (2 if neighbouring.relation is Relation.REPLACE else 1)

    def _values(self, unit: str | None) -> int:
        if unit is None:
            return 1
        limit = self.keep_per_unit or self.stated_per_unit
        if limit is None:
            raise InvalidQuery(
                "how many different values can a unit have? Give keep_per_unit=1 (chary keeps so many and reads the "
                "rows once) or stated_per_unit=1 (you vouch for it, and the table may grow)"
            )
        return limit

    def body(self) -> dict[str, Any]:
        """A JSON-able canonical description, from which `of_body` makes the same."""
        limits = {"keep_per_unit": self.keep_per_unit, "stated_per_unit": self.stated_per_unit}
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
