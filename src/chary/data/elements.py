"""Which elements of a table a sketch counts, and reading them as keyed 64-bit words."""

import re
from dataclasses import dataclass
from typing import Any, Final

import duckdb
import ibis
import numpy as np
from numpy.typing import NDArray

from chary.data.appending import growing
from chary.data.columns import Schema, TypeClass, classify
from chary.data.engine import ROWS, Engine, quietly
from chary.data.evaluation import Place
from chary.data.loading import Loader
from chary.data.neighbouring import Neighbouring, Relation
from chary.data.predicate import Predicate
from chary.errors import EngineFailure, InvalidQuery
from chary.numbers import whole

Words = NDArray[np.uint64]

_UNREAD: Final = "chary_unread"
_TEXTS: Final = {
    TypeClass.BOOLEAN: "'i' || CAST(CAST(element AS BIGINT) AS VARCHAR)",
    TypeClass.INTEGER: "'i' || CAST(element AS VARCHAR)",
    TypeClass.STRING: "'s' || element",
    TypeClass.FLOAT: "'f' || CAST(element + 0.0 AS VARCHAR)",
    TypeClass.DATE: "'d' || CAST(element AS VARCHAR)",
    TypeClass.TIMESTAMP: "'t' || CAST(element AS VARCHAR)",
}
_TOLD_APART: Final = re.compile(r"uuid|ubigint|u?hugeint|decimal.*|timestamp_(s|ms|ns)")


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


class ElementReader:
    """Reads the words of elements; made by `Table.elements`. `run` returns the reader itself: nothing is read yet."""

    def __init__(self, engine: Engine, loader: Loader, neighbouring: Neighbouring, asked: Elements, table: str) -> None:
        """Compile; `InvalidQuery` for an unknown column or one whose values cannot be told apart as texts."""
        self._engine, self._loader, self._table = engine, loader, table
        self._sql = {name: _sql(asked, loader.schema, neighbouring.unit, name) for name in (ROWS, _UNREAD)}

    def run(self) -> "ElementReader":
        """The reader."""
        return self

    def words(self, key: str, since: Mark | None = None) -> tuple[Words, Mark]:
        """The word of each distinct element, and a mark up to where was read. Both are secret, as is the key.

        With the mark of an earlier reading of the same table, only rows appended since are read, where they are kept
        in this process; otherwise all rows are, which changes no sketch of the same key. `EngineFailure`, naming
        neither values nor the key, when the engine fails.
        """
        failure = EngineFailure("the engine failed while it read the elements")
        with self._engine.connection() as connection:
            found: tuple[Words, Mark] = quietly(lambda: self._read(connection, key, since), failure)
        return found

    def _read(self, connection: duckdb.DuckDBPyConnection, key: str, since: Mark | None) -> tuple[Words, Mark]:
        place, grown = ROWS, growing(connection, self._loader)
        if grown is not None and since is not None and since.table == self._table:
            unread = f"SELECT * FROM {grown} WHERE rowid >= {since.upto}"
            connection.execute(f"CREATE OR REPLACE TEMP VIEW {_UNREAD} AS {unread}")
            place = _UNREAD
        upto = 0
        if grown is not None:
            [(upto,)] = connection.execute(f"SELECT coalesce(max(rowid), -1) + 1 FROM {grown}").fetchall()
        columns = connection.execute(self._sql[place], [key]).fetchnumpy()
        return np.asarray(columns["word"], dtype=np.uint64), Mark(self._table, int(upto))

    def __repr__(self) -> str:
        return "ElementReader()"


def _sql(asked: Elements, schema: Schema, unit: str | None, rows: str) -> str:
    """SQL with the key as its parameter; `word` is the first 64 bits of SHA-256 of key, kind and text."""
    column = unit if asked.of is None else asked.of
    if column is None:
        raise InvalidQuery("where each row is a unit of its own, name the column whose values are counted: of='column'")
    text = _text(schema, column)
    chosen = ibis.to_sql(_chosen(asked, schema, unit, column, rows), dialect="duckdb", pretty=False)
    return f"SELECT CAST('0x' || substr(sha256($1 || {text}), 1, 16) AS UBIGINT) AS word FROM ({chosen})"


def _text(schema: Schema, column: str) -> str:
    kind = classify(schema, column)
    if kind in _TEXTS:
        return _TEXTS[kind]
    if not _TOLD_APART.fullmatch(schema[column]):
        raise InvalidQuery(f"the values of column {column!r} cannot be counted as distinct elements")
    return "'o' || CAST(element AS VARCHAR)"


def _chosen(asked: Elements, schema: Schema, unit: str | None, column: str, rows: str) -> Any:
    table = Place(rows, "").table(rows, schema)
    if asked.where is not None:
        table = table.filter(asked.where.expression(table, schema))
    for needed in {column, unit} - {None}:
        table = table.filter(table[needed].notnull())
    if asked.keep_per_unit is None or unit is None:
        return table.select(element=table[column]).distinct()
    pairs = table.select(unit=table[unit], element=table[column]).distinct()
    ranked = pairs.mutate(rank=ibis.row_number().over(group_by="unit", order_by="element"))
    return ranked.filter(ranked["rank"] < asked.keep_per_unit).select("element").distinct()
