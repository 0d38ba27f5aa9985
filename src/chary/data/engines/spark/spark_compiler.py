"""From Ibis expressions to SQL that Spark runs exactly: where Ibis' own words for Spark would compute with doubles."""

from typing import Any, ClassVar

import sqlglot.expressions as sge
from ibis.backends.sql.compilers.base import SQLGlotCompiler
from ibis.backends.sql.compilers.pyspark import PySparkCompiler

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
            # Spark reads a whole number as one of 32 bits where it fits into them.
            return _typed(sge.convert(value), "BIGINT")
        return self.visit_DefaultLiteral(op, value=value, dtype=dtype)

    def visit_FloorDivide(self, op: Any, *, left: Any, right: Any) -> Any:  # noqa: N802
        """Of whole numbers from 0 on, which `div` divides exactly."""
        return sge.IntDiv(this=sge.paren(left), expression=sge.paren(right))

    def visit_Sum(self, op: Any, *, arg: Any, where: Any) -> Any:  # noqa: N802
        """Of whole numbers."""
        return self.agg.sum(arg if self.summed is None else _typed(arg, self.summed), where=where)


class Wide(Narrow):
    """Sums are of 38 digits, and an error beyond."""

    __slots__ = ()
    summed = _SUMMED


def _typed(value: Any, kind: str) -> Any:
    return sge.Cast(this=value, to=sge.DataType.build(kind, dialect="spark"))
