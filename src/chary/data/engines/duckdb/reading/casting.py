"""Texts as values of a declared type, each by itself: what does not parse is NULL."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import duckdb

from chary.data.columns import DAY, OFFSET, TIME, quote
from chary.data.engines.duckdb.connecting import text
from chary.data.files.dialect import CSV
from chary.errors import SchemaMismatch

_SIGNED: Final = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"}
_WHOLE: Final = _SIGNED | {f"U{kind}" for kind in _SIGNED}
_MOMENTS: Final = {"TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"}
_TRUE: Final = ("true", "t", "yes", "y", "1")
_FALSE: Final = ("false", "f", "no", "n", "0")
# Digits and single letters are rather numbers and codes, unless they are declared to be booleans.
_SURE: Final = ("true", "t", "yes", "false", "f", "no")
# The first that fits is taken.
INFERRED: Final = ("BOOLEAN", "BIGINT", "DOUBLE", "DATE", "TIMESTAMP")
# Ledgers hold types that were found, so what they are found by may never change.
_FOUND_TIME: Final = r"([ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?)?"


@dataclass(frozen=True)
class Casting:
    """The declared types of columns of texts; a column about which nothing is said stays text.

    `types`, by the engine's own names, are by column; `others` is the type of all columns but `unit`, if there is one.
    """

    dialect: CSV
    types: Mapping[str, str] = field(default_factory=dict)
    others: str | None = None
    unit: str | None = None

    def select(self, texts: Mapping[str, bool], relation: str) -> str:
        """SQL for the columns of a relation, of which `texts` tells whether they are texts to be read.

        `SchemaMismatch` where a type is declared for a column that is not there or not a text.
        """
        if unknown := [name for name in self.types if not texts.get(name, False)]:
            if unknown[0] in texts:
                raise SchemaMismatch(f"column {unknown[0]!r} has a type of its own: none can be declared for it")
            raise SchemaMismatch(
                f"there is no column {unknown[0]!r} to declare a type of; there are {', '.join(texts)}"
            )
        cells = [f"{self._cell(name) if is_text else quote(name)} AS {quote(name)}" for name, is_text in texts.items()]
        return f"(SELECT {', '.join(cells)} FROM {relation})"

    def _cell(self, name: str) -> str:
        declared = self.types.get(name) or (None if name == self.unit else self.others)
        return quote(name) if declared is None else parsed(quote(name), declared, self.dialect)


def canonical(connection: duckdb.DuckDBPyConnection, declared: str) -> str:
    """The engine's own name of a type; `SchemaMismatch` where it has no such type.

    >>> canonical(duckdb.connect(), "int8")
    'BIGINT'
    """
    try:
        [(name,)] = connection.execute(f"SELECT typeof(CAST(NULL AS {declared}))").fetchall()
        return str(name)
    except (duckdb.CatalogException, duckdb.ParserException):
        pass
    raise SchemaMismatch(f"{declared!r} is no type of a column; types are BIGINT, DOUBLE, DATE and others")


def parsed(cell: str, kind: str, dialect: CSV) -> str:
    """SQL that reads a text as a value, and never fails."""
    trimmed, point = f"trim({cell}, ' ')", "\\" + dialect.decimal
    if kind in _WHOLE:
        return _if(f"[+-]?[0-9]+({point}0*)?", trimmed, f"split_part({trimmed}, {text(dialect.decimal)}, 1)", kind)
    if kind in ("DOUBLE", "FLOAT") or kind.startswith("DECIMAL"):
        number = f"[+-]?([0-9]+{point}?[0-9]*|{point}[0-9]+)([eE][+-]?[0-9]+)?"
        return _if(number, trimmed, f"replace({trimmed}, {text(dialect.decimal)}, '.')", kind)
    if kind == "BOOLEAN":
        return _boolean(trimmed)
    if kind == "DATE":
        return _formatted(trimmed, dialect.date_format, kind) if dialect.date_format else _day(trimmed)
    if kind in _MOMENTS:
        return _formatted(trimmed, dialect.timestamp_format, kind) if dialect.timestamp_format else _time(trimmed, kind)
    return cell if kind == "VARCHAR" else f"TRY_CAST({cell} AS {kind})"


def inferred(
    connection: duckdb.DuckDBPyConnection, names: list[str], relation: str, unit: str | None, dialect: CSV
) -> dict[str, str]:
    """The first type that all cells of a column are of, for each column that has one; it depends on values.

    A unit is a whole number only where each is written in the one usual way: two spellings are two units.
    """
    tests = [test for name in names for test in _tests(quote(name), name == unit, dialect)]
    if not tests:
        return {}
    [row] = connection.execute(f"SELECT {', '.join(tests)} FROM {relation}").fetchall()
    fits = [dict(zip(INFERRED, row[start:], strict=False)) for start in range(0, len(row), len(INFERRED))]
    first = [next((kind for kind, fit in fit_of.items() if fit), None) for fit_of in fits]
    return {name: kind for name, kind in zip(names, first, strict=True) if kind is not None}


def _tests(cell: str, is_unit: bool, dialect: CSV) -> list[str]:
    """For each type to try whether all cells are of it, and any is there."""
    trimmed = f"trim({cell}, ' ')"
    own: dict[str, Callable[[str], str]] = {
        "BOOLEAN": lambda sql: f"lower({cell}) IN ({', '.join(map(text, _SURE))})",
        "BIGINT": lambda sql: f"regexp_full_match({cell}, '0|-?[1-9][0-9]*') AND {sql} IS NOT NULL",
        "DOUBLE": lambda sql: f"NOT regexp_matches({cell}, '^[ +-]*0[0-9]') AND {sql} IS NOT NULL",
    }
    if dialect.date_format is None:
        own["DATE"] = lambda sql: f"{_fits(trimmed, DAY)} AND {sql} IS NOT NULL"
    if dialect.timestamp_format is None:
        own["TIMESTAMP"] = lambda sql: f"{_fits(trimmed, DAY + _FOUND_TIME)} AND {sql} IS NOT NULL"
    made = []
    for kind in INFERRED:
        sql = parsed(cell, kind, dialect)
        fits = own.get(kind, "{} IS NOT NULL".format)(sql)
        made.append(
            "false"
            if is_unit and kind != "BIGINT"
            else f"coalesce(bool_and({fits}) FILTER ({cell} IS NOT NULL), false)"
        )
    return made


def _fits(cell: str, pattern: str) -> str:
    return f"regexp_full_match({cell}, {text(pattern)})"


def _if(pattern: str, cell: str, number: str, kind: str) -> str:
    return f"CASE WHEN {_fits(cell, pattern)} THEN TRY_CAST({number} AS {kind}) END"


def _boolean(cell: str) -> str:
    words = [f"WHEN lower({cell}) IN ({', '.join(map(text, some))}) THEN {some is _TRUE}" for some in (_TRUE, _FALSE)]
    return f"CASE {' '.join(words)} END"


def _formatted(cell: str, form: str, kind: str) -> str:
    # The engine takes words such as infinity for moments in any format.
    return f"CASE WHEN regexp_matches({cell}, '[0-9]') THEN TRY_CAST(TRY_STRPTIME({cell}, {text(form)}) AS {kind}) END"


def _day(cell: str) -> str:
    """The day that is written, whatever time and offset stand behind it, if there is such a time."""
    with_time = f"{_fits(cell, f'{DAY}{TIME}(Z|{OFFSET})?')} AND TRY_CAST({cell} AS TIMESTAMP) IS NOT NULL"
    written = f"WHEN {with_time} THEN TRY_CAST(left({cell}, 10) AS DATE)"
    return f"CASE WHEN {_fits(cell, DAY)} THEN TRY_CAST({cell} AS DATE) {written} END"


def _time(cell: str, kind: str) -> str:
    """The time that is written, in UTC where an offset stands behind it."""
    # Whatever zone the process is in: the engine counts microseconds since 1970 in UTC. A Z changes nothing.
    in_utc = f"TRY_CAST(make_timestamp(epoch_us(TRY_CAST({cell} AS TIMESTAMPTZ))) AS {kind})"
    offset = f"WHEN {_fits(cell, DAY + TIME + OFFSET)} THEN {in_utc}"
    return f"CASE WHEN {_fits(cell, f'{DAY}({TIME}Z?)?')} THEN TRY_CAST({cell} AS {kind}) {offset} END"
