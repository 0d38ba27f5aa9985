"""What DuckDB says for itself."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import ibis

from chary.data.engines.expressions.dialect import Dialect, arrays_in_parallel, usual_sql


# Ibis writes ROUND(x, 0), which takes DuckDB three times as long as ROUND(x).
@ibis.udf.scalar.builtin(name="round")  # type: ignore[untyped-decorator]
def _nearest(value: float) -> float:  # type: ignore[empty-body]
    """The nearest whole number as a double, halves away from zero; the engine's own function."""


@dataclass(frozen=True)
class DuckDialect:
    """See `Dialect`."""

    name: ClassVar[str] = "duckdb"
    namespace: ClassVar[Mapping[str, str]] = {"catalog": "temp", "database": "main"}

    def nearest(self, value: Any) -> Any:
        return _nearest(value)

    def tame(self, value: Any) -> Any:
        return value

    def quotient(self, dividend: Any, divisor: Any) -> Any:
        return dividend // divisor

    def like(self, value: Any, pattern: str, fold: bool) -> Any:
        return value.ilike(pattern) if fold else value.like(pattern)

    def one_a_row(self, line: Any, columns: Sequence[str]) -> Any:
        return arrays_in_parallel(line, columns)

    def sql(self, expression: Any) -> str:
        return usual_sql(expression, self.name)


DUCK: Final[Dialect] = DuckDialect()
