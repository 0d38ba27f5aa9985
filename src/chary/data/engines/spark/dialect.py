"""Spark's dialect: how Ibis writes exact integers, strings and times for it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, ClassVar, Final

import ibis
import sqlglot.expressions as sge
from ibis.backends.sql.compilers.base import SQLGlotCompiler
from ibis.backends.sql.compilers.pyspark import PySparkCompiler

from chary.data.columns import TypeClass
from chary.data.engines.compiler import HALF, Dialect, folded
from chary.data.queries.sums import Sum
from chary.errors import InvalidQuery

# From Ibis expressions to SQL that Spark runs exactly: where Ibis' own words for Spark would compute with doubles.

# The widest integers of Spark's. What is added up has ten digits fewer, so that as many rows have room.
_SUMMED = "DECIMAL(28, 0)"


class Narrow(PySparkCompiler):  # type: ignore[misc]
    """Sums are of 64 bits, and an error beyond. Rows hold no NaN: what Ibis asks about it on the side is left out."""

    __slots__ = ()
    summed: ClassVar[str | None] = None

    visit_Field = SQLGlotCompiler.visit_Field  # noqa: N815
    visit_IsNull = SQLGlotCompiler.visit_IsNull  # noqa: N815
    visit_NotNull = SQLGlotCompiler.visit_NotNull  # noqa: N815

    def visit_NonNullLiteral(self, op: Any, *, value: Any, dtype: Any) -> Any:  # noqa: N802
        """Literals; moments are without a zone."""
        if dtype.is_timestamp():
            return _typed(sge.convert(value.isoformat(sep=" ")), "TIMESTAMP_NTZ")
        if dtype.is_integer():
            # Spark reads an integer as one of 32 bits where it fits into them.
            return _typed(sge.convert(value), "BIGINT")
        return self.visit_DefaultLiteral(op, value=value, dtype=dtype)

    def visit_FloorDivide(self, op: Any, *, left: Any, right: Any) -> Any:  # noqa: N802
        """Of integers from 0 on, which `div` divides exactly."""
        return sge.IntDiv(this=sge.paren(left), expression=sge.paren(right))

    def visit_TimestampTruncate(self, op: Any, *, arg: Any, unit: Any) -> Any:  # noqa: N802
        """Spark's own function is of moments in the zone of the session, which is UTC, and so is what it makes."""
        began = super().visit_TimestampTruncate(op, arg=_typed(arg, "TIMESTAMP_LTZ"), unit=unit)
        return _typed(began, "TIMESTAMP_NTZ")

    def visit_Sum(self, op: Any, *, arg: Any, where: Any) -> Any:  # noqa: N802
        """Of integers."""
        return self.agg.sum(arg if self.summed is None else _typed(arg, self.summed), where=where)


class Wide(Narrow):
    """Sums are of 38 digits, and an error beyond."""

    __slots__ = ()
    summed = _SUMMED


def _typed(value: Any, kind: str) -> Any:
    return sge.Cast(this=value, to=sge.DataType.build(kind, dialect="spark"))


# What Spark says for itself.

# Each part of a pattern takes a few frames of the stack that a task of Spark's matches it on.
_PARTS: Final = 500


@ibis.udf.scalar.builtin(name="rlike")  # type: ignore[untyped-decorator]
def _matches(value: str, pattern: str) -> bool:  # type: ignore[empty-body]
    """Whether a part of the text is of a regular expression of Java's."""


@ibis.udf.scalar.builtin(name="conv", signature=(("string", "int32", "int32"), "string"))  # type: ignore[untyped-decorator]
def _in_base(value: str, base: int, wanted: int) -> str:  # type: ignore[empty-body]
    """A number written in one base, in another."""


# Sums of 2**40 rows of that many steps fit into 64 bits.
_FEW_STEPS: Final = 2**22
_WRITTEN: Final = (TypeClass.BOOLEAN, TypeClass.INTEGER, TypeClass.DATE, TypeClass.TIMESTAMP)


@dataclass(frozen=True)
class SparkDialect(Dialect):
    """See `Dialect`.

    `wide`: sums are of 38 digits. Otherwise they are of 64 bits, which is faster, and fail where that is too little.
    """

    wide: bool = True
    name: ClassVar[str] = "pyspark"
    by: ClassVar[str] = " by Spark"

    def of(self, query: Any) -> Dialect:
        # No sum of most queries needs more than 64 bits: of products they are of 2**24 steps at most.
        return SparkDialect(wide=isinstance(query, Sum) and max(map(abs, query.steps)) > _FEW_STEPS)

    def nearest(self, value: Any) -> Any:
        # What is left of a double below 2**53 without its whole part is exact, and so is twice that.
        whole = value.cast("int64")
        return whole + ((value - whole.cast("float64")) * 2).cast("int64")

    def hashed(self, text: Any) -> Any:
        return _in_base(text.hexdigest("sha256").left(8), 16, 10).cast("int64")

    def like(self, value: Any, pattern: str, fold: bool) -> Any:
        text, small = folded(value, pattern) if fold else (value, pattern)
        return _matches(text, regular(small))

    def one_a_row(self, line: Any, columns: Sequence[str]) -> Any:
        pairs = [ibis.struct({"position": place, "answer": line[name]}) for place, name in enumerate(columns)]
        apart = line.select(pair=ibis.array(pairs).unnest())
        return apart.select(position=apart.pair["position"], answer=apart.pair["answer"])

    def sql(self, expression: Any) -> str:
        compiler = (Wide if self.wide else Narrow)()
        return str(compiler.to_sqlglot(expression).sql(dialect=compiler.dialect))

    def halves(self, summed: str) -> str:
        # Sums have up to 38 digits; two halves of 64 bits are quickly read.
        return f"CAST({summed} DIV {HALF} AS BIGINT) AS high, CAST({summed} % {HALF} AS BIGINT) AS low"

    def text_of(self, value: str, kind: str) -> str | None:
        """The text that the embedded engine writes, for years from 1 to 9999.

        Doubles have none: the last digit of some differs from one version of Java to another, and what is met again
        under another name would be counted twice.

        >>> SPARK.text_of("x", "float64"), SPARK.text_of("id", "decimal(20,0)")
        (None, 'CAST(id AS STRING)')
        """
        if kind == TypeClass.STRING:
            return value
        return f"CAST({value} AS STRING)" if kind in _WRITTEN or kind.startswith("decimal") else None


def regular(pattern: str) -> str:
    r"""A pattern of LIKE, in which nothing escapes anything, as a regular expression of Java's.

    What stands between two % is met at its first place and then kept, which suffices and takes no time to try again.

    >>> regular("a%b_%")
    '(?s)\\Aa(?>.*?b.{1}).*\\z'
    """
    first, *rest = pattern.split("%")
    if len(rest) > _PARTS:
        raise InvalidQuery(f"Spark compares with patterns of at most {_PARTS} signs %")
    if not rest:
        return rf"(?s)\A{_fixed(first)}\z"
    *middle, last = rest
    met = "".join(f"(?>.*?{_fixed(part)})" for part in middle if part)
    return rf"(?s)\A{_fixed(first)}{met}.*{_fixed(last)}\z"


def _fixed(part: str) -> str:
    runs = [(letter, len(list(same))) for letter, same in groupby(part)]
    return "".join(f".{{{size}}}" if letter == "_" else _literal(letter) * size for letter, size in runs)


def _literal(letter: str) -> str:
    return f"\\{letter}" if re.fullmatch(r"[!-/:-@\[-`{-~]", letter) else letter


SPARK: Final = SparkDialect()
