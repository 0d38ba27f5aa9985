"""Texts as values of a declared type, each by itself: what does not parse is NULL."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import duckdb

from chary.data.columns import quote
from chary.data.engines.duckdb.connecting import text
from chary.data.files.dialect import CSV
from chary.errors import SchemaMismatch

_SIGNED: Final = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"}
_WHOLE: Final = _SIGNED | {f"U{kind}" for kind in _SIGNED}
_MOMENTS: Final = {"TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"}
_DAY: Final = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TRUE: Final = ("true", "t", "yes", "y", "1")
_FALSE: Final = ("false", "f", "no", "n", "0")
# Digits and single letters are rather numbers and codes, unless they are declared to be booleans.
_SURE: Final = ("true", "t", "yes", "false", "f", "no")
# The first that fits is taken.
INFERRED: Final = ("BOOLEAN", "BIGINT", "DOUBLE", "DATE", "TIMESTAMP")


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
            raise SchemaMismatch(f"there is no column {unknown[0]!r} whose cells are texts of which a type is declared")
        cells = [f"{self._cell(name) if is_text else quote(name)} AS {quote(name)}" for name, is_text in texts.items()]
        return f"(SELECT {', '.join(cells)} FROM {relation})"

    def _cell(self, name: str) -> str:
        declared = self.types.get(name) or (None if name == self.unit else self.others)
        return quote(name) if declared is None else parsed(quote(name), declared, self.dialect)


def canonical(connection: duckdb.DuckDBPyConnection, declared: str) -> str:
    """The engine's own name of a type.

    >>> canonical(duckdb.connect(), "int8")
    'BIGINT'
    """
    [(name,)] = connection.execute(f"SELECT typeof(CAST(NULL AS {declared}))").fetchall()
    return str(name)


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
        return _moment(trimmed, dialect.date_format, _DAY, kind)
    if kind in _MOMENTS:
        time = f"{_DAY}([ T][0-9]{{2}}:[0-9]{{2}}(:[0-9]{{2}}(\\.[0-9]{{1,6}})?)?)?"
        return _moment(trimmed, dialect.timestamp_format, time, kind)
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
    own: dict[str, Callable[[str], str]] = {
        "BOOLEAN": lambda sql: f"lower({cell}) IN ({', '.join(map(text, _SURE))})",
        "BIGINT": lambda sql: f"regexp_full_match({cell}, '0|-?[1-9][0-9]*') AND {sql} IS NOT NULL",
        "DOUBLE": lambda sql: f"NOT regexp_matches({cell}, '^[ +-]*0[0-9]') AND {sql} IS NOT NULL",
    }
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


def _if(pattern: str, cell: str, number: str, kind: str) -> str:
    return f"CASE WHEN regexp_full_match({cell}, {text(pattern)}) THEN TRY_CAST({number} AS {kind}) END"


def _boolean(cell: str) -> str:
    words = [f"WHEN lower({cell}) IN ({', '.join(map(text, some))}) THEN {some is _TRUE}" for some in (_TRUE, _FALSE)]
    return f"CASE {' '.join(words)} END"


def _moment(cell: str, form: str | None, usual: str, kind: str) -> str:
    if form is None:
        return _if(usual, cell, cell, kind)
    # The engine takes words such as infinity for moments in any format.
    return f"CASE WHEN regexp_matches({cell}, '[0-9]') THEN TRY_CAST(TRY_STRPTIME({cell}, {text(form)}) AS {kind}) END"
