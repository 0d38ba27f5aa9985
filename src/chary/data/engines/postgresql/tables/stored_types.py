"""How every type of the server is brought to one of the few that chary computes with."""

from dataclasses import dataclass
from typing import Final

from chary.data.columns import TypeClass, quote
from chary.data.engines.postgresql.tables.relation import Stored
from chary.errors import SchemaMismatch

_WHOLE: Final = ("int2", "int4", "int8")
_FLOATS: Final = ("float4", "float8")
_TEXTS: Final = ("text", "varchar", "bpchar")
# Types whose values can be told apart by the server without a function that somebody else wrote.
UNITS: Final = ("uuid", "numeric", "bytea", "timestamptz", "time", "timetz", "inet", "cidr", "macaddr", "oid")
# A double holds the nearest number to any decimal of so many digits before and behind the point.
_DIGITS: Final = 300
_ABOVE: Final = "1.797693134862315807e308"
_BELOW: Final = "1e-307"


@dataclass(frozen=True)
class ReadColumn:
    """A column of the rows that are asked: its name, the name of its type for people, and SQL of the class's type."""

    name: str
    type: str
    sql: str

    @classmethod
    def of(cls, stored: Stored, *, is_unit: bool) -> "ReadColumn":
        """Choose the class of a type; no value of the column can make the SQL fail.

        NaN becomes NULL. Numerics become floats, those that doubles do not reach infinities or 0, except in the unit
        column: two units must never be merged, so there they stay as they are.
        """
        quoted = quote(stored.name)
        kind, sql = _class(stored, quoted)
        if kind is None and not is_unit and _is(stored, "numeric"):
            kind, sql = TypeClass.FLOAT, _double(stored, quoted)
        if kind is None and is_unit:
            return cls(stored.name, stored.shown, _unit(stored, quoted))
        return cls(stored.name, stored.shown if kind is None else str(kind), sql)


def _is(stored: Stored, *names: str) -> bool:
    return stored.built_in and stored.type in names


def _class(stored: Stored, quoted: str) -> tuple[TypeClass | None, str]:
    # One cast even where there is nothing to cast: it ends a domain.
    if _is(stored, "bool"):
        return TypeClass.BOOLEAN, f"CAST({quoted} AS boolean)"
    if _is(stored, *_WHOLE):
        return TypeClass.INTEGER, f"CAST({quoted} AS bigint)"
    if _is(stored, *_FLOATS):
        return TypeClass.FLOAT, f"nullif(CAST({quoted} AS double precision), CAST('NaN' AS double precision))"
    if _is(stored, *_TEXTS):
        return TypeClass.STRING, f'CAST({quoted} AS text) COLLATE "C"'
    if stored.kind == "e":
        # Whoever made the type may have made a cast to texts too, which fails on some of its values.
        return TypeClass.STRING, f'CAST(enum_out({quoted}) AS text) COLLATE "C"'
    if _is(stored, "date"):
        return TypeClass.DATE, f"CAST({quoted} AS date)"
    if _is(stored, "timestamp"):
        return TypeClass.TIMESTAMP, f"CAST({quoted} AS timestamp)"
    return None, quoted


def _double(stored: Stored, quoted: str) -> str:
    value = f"CAST({quoted} AS numeric)"
    digits = ((stored.modifier - 4) >> 16) & 0xFFFF
    scale = (stored.modifier - 4) & 0x7FF
    exact = f"CAST({value} AS double precision)"
    missing = f"WHEN {value} = CAST('NaN' AS numeric) THEN NULL"
    if stored.modifier >= 0 and digits <= _DIGITS and scale <= _DIGITS:
        return f"CASE {missing} ELSE {exact} END"
    ends = " ".join(
        f"WHEN {value} {sign}= {minus}{_ABOVE} THEN CAST('{minus}Infinity' AS double precision)"
        for sign, minus in ((">", ""), ("<", "-"))
    )
    return f"CASE {missing} {ends} WHEN abs({value}) < {_BELOW} THEN 0 ELSE {exact} END"


def _unit(stored: Stored, quoted: str) -> str:
    if not _is(stored, *UNITS):
        raise SchemaMismatch(
            f"the privacy unit {stored.name!r} is of type {stored.shown}: two of its values cannot be told apart safely"
        )
    if stored.type == "numeric":
        # Equal numbers have one text, and what is no number is nobody's.
        value = f"CAST({quoted} AS numeric)"
        text = value if stored.modifier >= 0 else f"trim_scale({value})"
        return f"nullif({text}, CAST('NaN' AS numeric))"
    return f"CAST({quoted} AS {stored.shown})"
