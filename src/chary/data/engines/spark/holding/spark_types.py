"""How every type of Spark is brought to one of the few that chary computes with."""

import re
from dataclasses import dataclass
from typing import Any, Final

from chary.data.columns import TypeClass

_LOSSLESS: Final = {
    "boolean": TypeClass.BOOLEAN,
    "bigint": TypeClass.INTEGER,
    "date": TypeClass.DATE,
    "timestamp_ntz": TypeClass.TIMESTAMP,
}
_NARROW: Final = ("tinyint", "smallint", "int")
_TEXT: Final = re.compile(r"string( collate .*)?|(var)?char\([0-9]+\)")


@dataclass(frozen=True)
class SparkColumn:
    """One column of a source: its name, the name of its type for people, and the SQL that yields the class's type."""

    name: str
    type: str
    sql: str

    @classmethod
    def of(cls, name: str, spark_type: str, *, is_unit: bool) -> "SparkColumn":
        """Choose the class of a type; no value of the column can make the SQL fail.

        NaN becomes NULL. Decimals become floats, except in the unit column, where two units must
        never be merged. Texts are compared by their bytes whatever their collation, and are NULL where those are no
        text. Moments with a zone are read as the clock in UTC shows them.

        >>> SparkColumn.of("age", "int", is_unit=False)
        SparkColumn(name='age', type='int64', sql='CAST(`age` AS BIGINT)')
        """
        quoted = backquoted(name)
        kind, sql = _exact(spark_type, quoted)
        if kind is None and not is_unit and spark_type.startswith("decimal"):
            kind, sql = TypeClass.FLOAT, f"CAST({quoted} AS DOUBLE)"
        return cls(name, spark_type if kind is None else str(kind), sql)


def read_columns(frame: Any, unit: str | None) -> tuple[SparkColumn, ...]:
    """The columns of a data frame."""
    found = [(field.name, field.dataType.simpleString()) for field in frame.schema.fields]
    return tuple(SparkColumn.of(name, kind, is_unit=name == unit) for name, kind in found)


def backquoted(name: str) -> str:
    """A column name as a quoted identifier of Spark's.

    >>> backquoted("a`b")
    '`a``b`'
    """
    return "`" + name.replace("`", "``") + "`"


def _exact(kind: str, quoted: str) -> tuple[TypeClass | None, str]:
    if kind in _LOSSLESS:
        return _LOSSLESS[kind], quoted
    if kind in _NARROW:
        return TypeClass.INTEGER, f"CAST({quoted} AS BIGINT)"
    if _TEXT.fullmatch(kind):
        text = f"collate({quoted}, 'UTF8_BINARY')" if "collate" in kind else quoted
        return TypeClass.STRING, f"try_validate_utf8({text})"
    if kind in ("float", "double"):
        return TypeClass.FLOAT, f"CASE WHEN isnan({quoted}) THEN NULL ELSE CAST({quoted} AS DOUBLE) END"
    if kind == "timestamp":
        return TypeClass.TIMESTAMP, f"CAST({quoted} AS TIMESTAMP_NTZ)"
    return None, quoted
