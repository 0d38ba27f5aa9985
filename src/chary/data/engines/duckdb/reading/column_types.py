"""How every type of the engine is brought to one of the few that chary computes with."""

from dataclasses import dataclass

from chary.data.columns import TypeClass, quote

_LOSSLESS = {
    "BOOLEAN": TypeClass.BOOLEAN,
    "BIGINT": TypeClass.INTEGER,
    "DATE": TypeClass.DATE,
    "TIMESTAMP": TypeClass.TIMESTAMP,
}
# 32 bits and fewer, which 64 hold.
_NARROW = {"TINYINT", "SMALLINT", "INTEGER", "UTINYINT", "USMALLINT", "UINTEGER"}
# What 64 bits with a sign do not hold; a double holds the nearest number.
_LOSSY = {"UBIGINT", "HUGEINT", "UHUGEINT"}
_CLOCKS = {"TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"}


@dataclass(frozen=True)
class Column:
    """One column of a source: its name, the name of its type for people, and the SQL that yields the class's type."""

    name: str
    type: str
    sql: str

    @classmethod
    def of(cls, name: str, engine_type: str, *, is_unit: bool) -> "Column":
        """Choose the class of an engine type; no value of the column can make the SQL fail.

        NaN becomes NULL. Decimals, unsigned 64-bit and 128-bit integers become floats and fine or coarse timestamps
        microseconds, except in the unit column: two units must never be merged, so there they stay as they are.

        >>> Column.of("age", "INTEGER", is_unit=False)
        Column(name='age', type='int64', sql='CAST("age" AS BIGINT)')
        """
        quoted = quote(name)
        kind, sql = _exact(engine_type, quoted)
        if kind is None and not is_unit:
            kind, sql = _rounded(engine_type, quoted)
        return cls(name, engine_type.lower() if kind is None else str(kind), sql)


def _exact(engine_type: str, quoted: str) -> tuple[TypeClass | None, str]:
    if engine_type == "VARCHAR":
        return TypeClass.STRING, f'{quoted} COLLATE "C"'
    if engine_type in _LOSSLESS:
        return _LOSSLESS[engine_type], quoted
    if engine_type in _NARROW:
        return TypeClass.INTEGER, f"CAST({quoted} AS BIGINT)"
    if engine_type.startswith("ENUM"):
        return TypeClass.STRING, f"CAST({quoted} AS VARCHAR)"
    if engine_type in ("FLOAT", "DOUBLE"):
        return TypeClass.FLOAT, f"CASE WHEN isnan({quoted}) THEN NULL ELSE CAST({quoted} AS DOUBLE) END"
    return None, quoted


def _rounded(engine_type: str, quoted: str) -> tuple[TypeClass | None, str]:
    if engine_type in _LOSSY or engine_type.startswith("DECIMAL"):
        return TypeClass.FLOAT, f"CAST({quoted} AS DOUBLE)"
    if engine_type in _CLOCKS:
        return TypeClass.TIMESTAMP, f"TRY_CAST({quoted} AS TIMESTAMP)"
    return None, quoted
