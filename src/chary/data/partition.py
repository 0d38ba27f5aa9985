"""Partitions: rows divided into parts by the values of a column or by conditions that exclude one another."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Final

from chary.data.columns import Schema, TypeClass
from chary.data.neighbors import NeighborRelation, Neighbors
from chary.data.predicates import conditions
from chary.data.predicates.predicate import Predicate, derived, kind_of
from chary.data.queries.keys import Domain, Key, key_text
from chary.data.queries.overlap import row_kinds
from chary.data.queries.query import at_most_one, per_unit
from chary.errors import InvalidQuery

# One part: which rows are in it.


@dataclass(frozen=True)
class FirstParts:
    """Of each unit the rows of its first `kept` parts count, in the order in which the parts' first rows came.

    Parts are the values of `column` that satisfy the one condition in `among`, of which the part's is `own`. Or else
    they are the conditions in `among`, of which it is that number.

    Guarantee: rows may be added later, behind those that there are. Whatever they are, the parts in which a unit counts
    stay what they were, until there are `kept`; then there are no others for ever. Which they are follows from the rows
    of the unit alone. *Proof.* The first row of a unit in a part stays the first one, and a part that the unit enters
    later comes behind those that it is in. The place of a row says before which others it came, and those of other
    units change nothing of that.
    """

    kept: int
    column: str | None
    among: tuple[Predicate, ...]
    own: Key


@dataclass(frozen=True)
class RowPart:
    """The rows of one part: those that satisfy `where`, of all units or of those whose `first` parts it is among.

    `within` is a derived column, by whose values limits hold: of a unit for each of them, as if it were several.
    """

    name: str
    where: Predicate
    first: FirstParts | None = None
    within: str | None = None


# A partition: its parts, its name in a ledger, and in how many parts neighbours can differ.

# Longer lists of parts are told by their hash: each charge of a part holds the text.
_LONGEST: Final = 2000


@dataclass(frozen=True)
class Partition:
    """The parts of a partition by their keys, as a caller names them.

    `text` names it in ledgers: equal strings are one partition, whose parts have no row in common. `most` is in how
    many parts neighbours differ at most, over the whole life of rows that are only ever added.

    >>> schema, unit = {"region": "string"}, NeighborRelation("add_remove", "patient")
    >>> made = Partition.of("region", ["north", "south"], schema, unit, max_parts_per_unit=1)
    >>> made.most, made.text, [part.where.text for part in made.parts.values()]
    (1, 'region in ["north","south"], max_parts_per_unit=1', ["region = 'north'", "region = 'south'"])
    >>> Partition.of("region", ["north"], schema, NeighborRelation("add_remove", None)).text
    'region'
    """

    parts: Mapping[Any, RowPart]
    text: str
    most: int

    @classmethod
    def of(
        cls,
        by: str | Mapping[str, Predicate | str],
        parts: Iterable[Any] | None,
        schema: Schema,
        neighbor_relation: NeighborRelation,
        *,
        max_parts_per_unit: int | None = None,
        assumed_parts_per_unit: int | None = None,
    ) -> "Partition":
        """The values `parts` of the column `by`, or the conditions in `by`, by names of theirs.

        Errors: `InvalidQuery` for values or conditions that do not fit the schema, and conditions of which two may hold
        of one row. Also for both limits, and for none where a unit may be in several parts.
        """
        if isinstance(by, Mapping):
            if parts is not None:
                raise InvalidQuery('name a column and its values, or conditions alone: {"child": "age < 18"}')
            found = _Found.by_conditions(by, schema)
        else:
            found = _Found.by_values(by, parts, schema)
        keep = None if max_parts_per_unit is None else per_unit(max_parts_per_unit, "max_parts_per_unit")
        assumed = None if assumed_parts_per_unit is None else per_unit(assumed_parts_per_unit, "assumed_parts_per_unit")
        at_most_one(keep, assumed, "parts")
        times = 2 if neighbor_relation.neighbors is Neighbors.REPLACE else 1
        unit, listed = neighbor_relation.unit, len(found.where)
        if unit is None or found.columns == {conditions.identifier(unit)}:
            # Whatever other values are named later: a row has one of them, for good.
            return found.made(found.alone, times, None)
        limit = keep or assumed
        if limit is None:
            raise InvalidQuery(
                f"one {unit} may have rows in several parts. Say max_parts_per_unit=1, and chary keeps the first "
                "ones that it was in and leaves out its rows in all others. Or say assumed_parts_per_unit=1, if you "
                "assert it"
            )
        said = f"{'max' if keep else 'assumed'}_parts_per_unit={limit}"
        kept = keep if keep is not None and keep < listed else None
        return found.made(f"{found.all}, {said}", min(times * limit, listed), kept)


@dataclass(frozen=True)
class _Found:
    """Parts as they were said: by groups the name and the condition, and the columns that decide.

    `alone` names the partition where each row has its part whatever others are named, `all` with the list of parts.
    """

    where: Mapping[Any, tuple[str, Predicate]]
    columns: frozenset[str]
    column: str | None
    among: Predicate | None
    values: tuple[Key, ...]
    alone: str
    all: str

    @classmethod
    def by_values(cls, column: str, parts: Iterable[Any] | None, schema: Schema) -> "_Found":
        if parts is None:
            raise InvalidQuery('list the public values of the parts, such as partition("region", ["north", "south"])')
        given = [row[0] for row in Domain.of(column, parts).rows]
        kind, own = kind_of(schema, column), None if column in schema else derived(column, schema)
        values = tuple(_canonical(value, column, kind) for value in given)
        if len(set(values)) < len(values):
            raise InvalidQuery("two of the parts are one value: list each once")
        term = column if own is None else own
        named = [(key_text(value), Predicate(conditions.Compare(term, "=", value))) for value in values]
        listed, alone = _told(sorted(name for name, _ in named)), conditions.text_of(term)
        where = dict(zip(given, named, strict=True))
        among = Predicate(conditions.OneOf(term, values))
        return cls(where, frozenset([alone]), column, among, values, alone, f"{alone} in {listed}")

    @classmethod
    def by_conditions(cls, by: Mapping[str, Predicate | str], schema: Schema) -> "_Found":
        if not by or not all(isinstance(name, str) and name for name in by):
            raise InvalidQuery('name each condition, such as {"child": "age < 18", "adult": "age >= 18"}')
        where = {name: Predicate.parse(each) if isinstance(each, str) else each for name, each in by.items()}
        if not all(isinstance(each, Predicate) for each in where.values()):
            raise InvalidQuery('a condition is a text, such as "age < 18"')
        _check_disjoint(list(where.values()), schema)
        told = _told({name: each.text for name, each in where.items()})
        columns = frozenset(column for each in where.values() for column in _columns(each.condition))
        return cls({name: (name, each) for name, each in where.items()}, columns, None, None, (), told, told)

    def made(self, text: str, most: int, kept: int | None) -> Partition:
        """With the first parts of each unit, where this many are kept."""
        among = tuple(each for _, each in self.where.values()) if self.among is None else (self.among,)
        owns = self.values if self.column is not None else range(len(self.where))
        parts = {
            key: RowPart(name, where, None if kept is None else FirstParts(kept, self.column, among, own))
            for (key, (name, where)), own in zip(self.where.items(), owns, strict=True)
        }
        return Partition(parts, text, most)


def _canonical(value: Key, column: str, kind: TypeClass) -> Key:
    """The value as rows of the column have it, so that each has one name; `InvalidQuery` where none can be equal."""
    reader = {TypeClass.DATE: conditions.read_date, TypeClass.TIMESTAMP: conditions.read_timestamp}.get(kind)
    if reader is not None and isinstance(value, str):
        value = reader(value) or value
    if kind is TypeClass.TIMESTAMP and type(value) is date:
        value = datetime(value.year, value.month, value.day)
    if kind is TypeClass.FLOAT or conditions.CLASSES.get(type(value)) is not kind:
        raise InvalidQuery(f"column {column!r} is {kind.words}, and no part of it is {value!r}")
    return value


def _told(listed: Any) -> str:
    text = json.dumps(listed, sort_keys=True, separators=(",", ":"))
    return text if len(text) <= _LONGEST else hashlib.sha256(text.encode()).hexdigest()


def _check_disjoint(parts: list[Predicate], schema: Schema) -> None:
    """`InvalidQuery` unless no two can hold of one row, whatever it is."""
    kinds = row_kinds(parts, schema)
    if kinds is None:
        raise InvalidQuery("these are too many conditions to be compared: take the values of a column as parts")
    together = kinds[kinds.sum(axis=1) > 1]
    if len(together):
        one, other = (parts[place].text for place in together[0].nonzero()[0][:2])
        raise InvalidQuery(
            f"parts must exclude one another, and nothing shows that {one!r} and {other!r} do: compare one column with "
            'values, as in {"child": "age < 18", "adult": "age >= 18"}'
        )


def _columns(condition: conditions.Condition) -> list[str]:
    """The columns that a condition compares; derived ones by what they say."""
    match condition:
        case conditions.Every(conditions=parts) | conditions.Some(conditions=parts):
            return [name for part in parts for name in _columns(part)]
        case conditions.Not(condition=inner):
            return _columns(inner)
    own: Any = condition
    two = isinstance(condition, conditions.Compare) and not isinstance(condition.other, conditions.Scalar)
    return [conditions.text_of(own.column), *([own.other.text()] if two else [])]
