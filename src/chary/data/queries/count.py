"""Counting privacy units."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from typing_extensions import Unpack

from chary.answers import NoisyNumber, NoisyNumbers
from chary.data.neighbouring import Neighbouring
from chary.data.predicates.conditions import Compare, Condition, Every, Some
from chary.data.predicates.predicate import Predicate
from chary.data.queries.contribution import Contribution
from chary.data.queries.query import AnsweredT, Keyed, Limits, Query
from chary.errors import InvalidQuery


@dataclass(frozen=True, kw_only=True)
class Count(Keyed[AnsweredT], Query[AnsweredT]):
    """The number of distinct units with a row satisfying `where` and no row satisfying `without`; built by `count`."""

    without: Predicate | None = None

    def by(self, columns: str | Sequence[str], keys: Iterable[Any], **limits: Unpack[Limits]) -> "Count[NoisyNumbers]":
        """The same query for each of a public list of keys: scalars for one column, tuples for several.

        Keys without rows answer 0; rows with other keys are ignored. See `Keying` for the two limits, `keep_per_unit`
        and `stated_per_unit`, of which at most one may be given; with neither, one unit may be in all keys.
        `InvalidQuery` for bad keys.
        """
        keyed: Count[NoisyNumbers] = self._keyed(columns, keys, limits)
        return keyed

    @property
    def grid(self) -> Fraction:
        """One unit."""
        return Fraction(1)

    def contribution(self, neighbouring: Neighbouring) -> Contribution:
        """A unit counts 0 or 1 in each of its keys, however many rows it has: cells in [0, 1].

        Whether it counts depends on its own rows alone, also with `without`. Hence sensitivity 1; with c keys a unit,
        L1 c for add/remove and min(2 c, keys) for replace.
        """
        if self.keying is None:
            return Contribution(0, 1)
        return Contribution(0, 1, len(self.keying.domain), self.keying.spread(neighbouring.unit))

    def body(self) -> dict[str, Any]:
        """A JSON-able canonical description."""
        without = {} if self.without is None else {"without": self.without.text}
        return {"kind": "count"} | self._common_body() | without

    def describe(self) -> str:
        """Such as `count where age >= 65 by clinic (12 keys)`."""
        return f"count{self._clauses()}" + ("" if self.without is None else f" without {self.without.text}")

    def conditions(self) -> list[Predicate]:
        """For each key, the condition that a row is counted there; what decides by other rows raises `InvalidQuery`.

        >>> [condition.text for condition in count("age >= 65").by("clinic", ["north", "south"]).conditions()]
        ["age >= 65 AND clinic = 'north'", "age >= 65 AND clinic = 'south'"]
        """
        if self.keying is None or self.keying.keep_per_unit is not None or self.without is not None:
            raise InvalidQuery('give a count with public keys, without keep_per_unit: count().by("clinic", ["a", "b"])')
        first: list[Condition] = [] if self.where is None else _parts(self.where.condition, Every)
        columns = self.keying.domain.columns
        rows = [
            [Compare(name, "=", value) for name, value in zip(columns, key, strict=True)] for key in self.keys or ()
        ]
        return [_joined([*first, *equal], Every) for equal in rows]


def count(where: Predicate | str | None = None, *, without: Predicate | str | None = None) -> Count[NoisyNumber]:
    """Count the units with a row satisfying `where` and no row satisfying `without`; rows, when each row is a unit.

    Rows whose unit is NULL belong to nobody and are ignored. An empty table counts 0.

    >>> count("age >= 65").by("clinic", ["north", "south"]).describe()
    'count where age >= 65 by clinic (2 keys)'
    >>> count("clinic = 'north'", without="clinic = 'south'").describe()
    "count where clinic = 'north' without clinic = 'south'"
    """
    return Count(where=Predicate.of(where), without=Predicate.of(without))


def any_of(predicates: Sequence[Predicate]) -> Predicate | None:
    """True where one of the predicates is; None for no predicates.

    >>> str(any_of([Predicate.parse("age > 9 OR smoker"), Predicate.parse("plan = 'a'")]))
    "age > 9 OR smoker OR plan = 'a'"
    """
    parts = [part for predicate in predicates for part in _parts(predicate.condition, Some)]
    return _joined(parts, Some) if parts else None


def _parts(condition: Condition, kind: type[Every] | type[Some]) -> list[Condition]:
    return list(condition.conditions) if isinstance(condition, kind) else [condition]


def _joined(parts: list[Condition], kind: type[Every] | type[Some]) -> Predicate:
    return Predicate(parts[0] if len(parts) == 1 else kind(tuple(parts)))
