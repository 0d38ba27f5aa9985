"""What an engine says for itself where Ibis has no words, or other engines mean something else by them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import ibis

from chary.data.columns import Schema, TypeClass
from chary.data.predicates.predicate import Predicate


class Dialect(Protocol):
    """The differences of an engine, which expressions are built with."""

    @property
    def name(self) -> str:
        """The dialect of SQL, as Ibis names it."""
        ...

    @property
    def namespace(self) -> Mapping[str, str]:
        """Where the tables of rows and keys are: `catalog` and `database` of an Ibis table, or neither."""
        ...

    def nearest(self, value: Any) -> Any:
        """The nearest whole number of a double, as a double, halves away from zero."""
        ...

    def tame(self, value: Any) -> Any:
        """A double that no product or quotient with numbers from 2**-54 to 2**66 makes fail.

        It is another one only above 1e280, where it stays above, and below 1e-280, where it is 0: what is clipped and
        rounded afterwards is the same.
        """
        ...

    def quotient(self, dividend: Any, divisor: Any) -> Any:
        """The whole part of a quotient of whole numbers, of which the first is not below 0 and the second above 0."""
        ...

    def like(self, value: Any, pattern: str, fold: bool) -> Any:
        """Whether a text is like a pattern, in which only % and _ have a meaning.

        `fold`: text and pattern are taken in lower case, letter by letter, whatever the locale.
        """
        ...

    def one_a_row(self, line: Any, columns: Sequence[str]) -> Any:
        """The columns of the one row of a table as rows: of each its `position`, from 0, and its `answer`."""
        ...

    def sql(self, expression: Any) -> str:
        """The SQL of an Ibis expression."""
        ...


@dataclass(frozen=True)
class QueryPlace:
    """Where the rows and the keys of an evaluation are found in an engine."""

    rows: str
    keys: str
    dialect: Dialect

    def table(self, name: str, schema: Mapping[str, str]) -> Any:
        """An unbound Ibis table; columns of other types stand in as binary, since nothing is computed on them."""
        kinds = {column: kind if kind in set(TypeClass) else "binary" for column, kind in schema.items()}
        return ibis.table(kinds, name=name, **self.dialect.namespace)

    def where(self, rows: Any, schema: Schema, condition: Predicate | None) -> Any:
        """The rows of an Ibis table that satisfy a condition; all of them where there is none."""
        return rows if condition is None else rows.filter(condition.expression(rows, schema, self.dialect.like))

    def sql(self, expression: Any) -> str:
        """The SQL of an expression."""
        return self.dialect.sql(expression)


def arrays_in_parallel(line: Any, columns: Sequence[str]) -> Any:
    """`Dialect.one_a_row` of engines that take two arrays apart side by side."""
    answers = ibis.array([line[name].cast("int64") for name in columns])
    return line.select(position=ibis.range(0, len(columns)).unnest(), answer=answers.unnest())


def usual_sql(expression: Any, dialect: str) -> str:
    """The SQL that Ibis writes for an engine."""
    return str(ibis.to_sql(expression, dialect=dialect, pretty=False))
