"""What PostgreSQL says for itself."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

import ibis

from chary.data.engines.expressions.dialect import Dialect, arrays_in_parallel, usual_sql
from chary.data.engines.expressions.letters import folded, without_escapes
from chary.data.engines.expressions.positions import HALF
from chary.data.predicates.literals import double

_HUGE: Final = 1e280
_TINY: Final = 1e-280


@ibis.udf.scalar.builtin(name="floor")  # type: ignore[untyped-decorator]
def _floor(value: float) -> float:  # type: ignore[empty-body]
    """The engine's own function, a double."""


@ibis.udf.scalar.builtin(name="ceil")  # type: ignore[untyped-decorator]
def _ceil(value: float) -> float:  # type: ignore[empty-body]
    """The engine's own function, a double."""


@ibis.udf.scalar.builtin(name="sign")  # type: ignore[untyped-decorator]
def _sign(value: float) -> float:  # type: ignore[empty-body]
    """The engine's own function, a double."""


@ibis.udf.scalar.builtin(name="div")  # type: ignore[untyped-decorator]
def _div(dividend: int, divisor: int) -> int:  # type: ignore[empty-body]
    """The whole part of an exact quotient of numerics."""


@dataclass(frozen=True)
class PostgresDialect:
    """See `Dialect`."""

    name: ClassVar[str] = "postgres"
    namespace: Mapping[str, str] = field(default_factory=dict)

    def nearest(self, value: Any) -> Any:
        # The engine rounds halves to even. Twice a double below 2**53 is exact, and so are its halves.
        return _sign(value) * _ceil(_floor(value.abs() * double(2)) / double(2))

    def tame(self, value: Any) -> Any:
        # The engine fails where a product is too large or a quotient too small, which would tell of a row.
        # Its least() and greatest() pass over NULL, which has to stay what it is.
        within = ibis.ifelse(value > double(_HUGE), double(_HUGE), value)
        within = ibis.ifelse(value < double(-_HUGE), double(-_HUGE), within)
        return ibis.ifelse(value.abs() < double(_TINY), double(0), within)

    def quotient(self, dividend: Any, divisor: Any) -> Any:
        return _div(dividend, divisor)

    def like(self, value: Any, pattern: str, fold: bool) -> Any:
        if fold:
            value, pattern = folded(value, pattern)
        return value.like(without_escapes(pattern))

    def one_a_row(self, line: Any, columns: Sequence[str]) -> Any:
        return arrays_in_parallel(line, columns)

    def sql(self, expression: Any) -> str:
        return usual_sql(expression, self.name)


POSTGRES: Final[Dialect] = PostgresDialect()


def halves(summed: str) -> str:
    """SQL for the two halves of an exact sum; see `scattered`."""
    high, low = (f"{function}(CAST({summed} AS numeric), {HALF})" for function in ("div", "mod"))
    return f"CAST({high} AS bigint) AS high, CAST({low} AS bigint) AS low"
