"""Counting privacy units."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from chary.data.contribution import Contribution
from chary.data.neighbouring import Neighbouring
from chary.data.predicate import Predicate
from chary.data.query import Keyed, Query


@dataclass(frozen=True, kw_only=True)
class Count(Keyed, Query):
    """The number of distinct units with at least one row satisfying the predicate; built by `count`."""

    @property
    def grid(self) -> Fraction:
        """One unit."""
        return Fraction(1)

    def contribution(self, neighbouring: Neighbouring) -> Contribution:
        """A unit counts 0 or 1 in each of its keys, however many rows it has: cells in [0, 1].

        Hence sensitivity 1; with c keys a unit, L1 c for add/remove and min(2 c, keys) for replace.
        """
        if self.keying is None:
            return Contribution(0, 1)
        return Contribution(0, 1, len(self.keying.domain), self.keying.spread(neighbouring.unit))

    def body(self) -> dict[str, Any]:
        """A JSON-able canonical description."""
        return {"kind": "count"} | self._common_body()

    def describe(self) -> str:
        """Such as `count where age >= 65 by clinic (12 keys)`."""
        return f"count{self._clauses()}"


def count(where: Predicate | str | None = None) -> Count:
    """Count the units with at least one row satisfying `where`; rows, when each row is a unit.

    Rows whose unit is NULL belong to nobody and are ignored. An empty table counts 0.

    >>> count("age >= 65").by("clinic", ["north", "south"]).describe()
    'count where age >= 65 by clinic (2 keys)'
    """
    return Count(where=Predicate.of(where))
