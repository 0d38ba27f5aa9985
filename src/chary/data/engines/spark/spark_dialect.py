"""What Spark says for itself."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, ClassVar, Final

import ibis

from chary.data.engines.expressions.letters import folded
from chary.data.engines.spark.spark_compiler import Narrow, Wide
from chary.errors import InvalidQuery

# Each part of a pattern takes a few frames of the stack that a task of Spark's matches it on.
_PARTS: Final = 500


@ibis.udf.scalar.builtin(name="rlike")  # type: ignore[untyped-decorator]
def _matches(value: str, pattern: str) -> bool:  # type: ignore[empty-body]
    """Whether a part of the text is of a regular expression of Java's."""


@dataclass(frozen=True)
class SparkDialect:
    """See `Dialect`.

    `wide`: sums are of 38 digits. Otherwise they are of 64 bits, which is faster, and fail where that is too little.
    """

    wide: bool = True
    name: ClassVar[str] = "pyspark"
    namespace: ClassVar[Mapping[str, str]] = {}

    def nearest(self, value: Any) -> Any:
        # What is left of a double below 2**53 without its whole part is exact, and so is twice that.
        whole = value.cast("int64")
        return whole + ((value - whole.cast("float64")) * 2).cast("int64")

    def tame(self, value: Any) -> Any:
        return value

    def quotient(self, dividend: Any, divisor: Any) -> Any:
        return dividend // divisor

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
