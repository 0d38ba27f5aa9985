"""The predicate language: a safe, total subset of SQL conditions."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from chary.data.columns import Schema
from chary.data.predicates.conditions import Condition, Scope
from chary.data.predicates.parsing import parse


@dataclass(frozen=True, eq=False)
class Predicate:
    """A condition on one row that no row can make fail.

    *The subset:* `= != <> < <= > >=`, AND, OR, NOT, parentheses, `[NOT] IN (literals)`, `[NOT] BETWEEN`,
    `IS [NOT] NULL`, `[NOT] LIKE / ILIKE 'pattern'`; columns, quoted or not, spelt exactly as in the schema; integers
    of 64 bits, decimals, strings, TRUE, FALSE, `DATE '...'`, `TIMESTAMP '...'` (plain ISO strings also meet dates).

    *Guarantees:*
    - Types are checked against the schema, never against a row; there are no implicit casts, except that integers
      meet decimals as doubles.
    - SQL's three-valued logic: a comparison with NULL is unknown, and a row counts only if the whole is true.
    - NaN is NULL: neither above nor below anything, and `IS NULL` is true for it. Infinities are ordinary numbers.
    - Equal conditions have equal `text`, which is how a ledger recognises them.

    *Errors:* anything else raises `InvalidQuery`, which names what is not supported and gives an example that is;
    so do texts longer than 10,000 characters or nested deeper than 20 levels.

    >>> Predicate.parse("65 <= age and NOT(smoker)").text
    'age >= 65 AND NOT (smoker)'
    """

    condition: Condition

    @classmethod
    def parse(cls, text: str) -> "Predicate":
        """Read a predicate; columns and types are checked later, against a schema."""
        return cls(parse(text))

    @classmethod
    def of(cls, where: "Predicate | str | None") -> "Predicate | None":
        """A predicate as the query functions accept it; None means every row."""
        return where if where is None or isinstance(where, Predicate) else cls.parse(where)

    @cached_property
    def text(self) -> str:
        """Canonical SQL; parsing it gives the same predicate."""
        return self.condition.text()

    def __eq__(self, other: object) -> bool:
        """Whether the texts agree: the literals 1, 1.0 and TRUE are equal in Python and different questions."""
        return isinstance(other, Predicate) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def expression(self, table: Any, schema: Schema, like: Callable[[Any, str, bool], Any]) -> Any:
        """A Boolean Ibis expression over `table`, whose columns have the classes of `schema` and hold no NaN.

        It is NULL where SQL says unknown: filter with it, and unknown rows drop out. `like` is how the engine says
        LIKE: of text, pattern, and whether to fold. `InvalidQuery` when a column is missing or is met by something of
        another class.
        """
        return self.condition.compile(Scope(table, schema, like))

    def __str__(self) -> str:
        return self.text
