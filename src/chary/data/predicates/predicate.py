"""Predicates: a condition on one row, and the parser of its text in a small part of SQL."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import sqlglot
from sqlglot import TokenType, exp
from sqlglot.errors import SqlglotError

from chary.data.columns import Schema
from chary.data.predicates import conditions
from chary.errors import InvalidQuery

# The predicate language: a safe, total subset of SQL conditions.


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

    condition: conditions.Condition

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
        return self.condition.compile(conditions.Scope(table, schema, like))

    def __str__(self) -> str:
        return self.text


# From predicate text to conditions: SQLGlot parses, and only whitelisted nodes and arguments pass.

LONGEST = 10_000
DEEPEST = 20
# The same texts are read several times within one call and again in the next; refusals are not kept.
_KEPT = 256
_EXAMPLE = "supported is, for example, \"age >= 65 AND (smoker OR plan IN ('a', 'b')) AND city IS NOT NULL\""
_SIGNS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}


def parse(text: str) -> conditions.Condition:
    """The condition a text means; anything outside the subset raises `InvalidQuery`."""
    if not isinstance(text, str):
        raise InvalidQuery(f"a predicate is a text, not {type(text).__name__}; {_EXAMPLE}")
    return _read(text)


@lru_cache(maxsize=_KEPT)
def _read(text: str) -> conditions.Condition:
    if len(text) > LONGEST:
        raise InvalidQuery(f"a predicate may be at most {LONGEST} characters long, got {len(text)}")
    if any("\ud800" <= letter <= "\udfff" or letter == "\0" for letter in text):
        raise InvalidQuery("a predicate must be valid Unicode text without NUL characters")
    _check_tokens(text)
    tree = _quietly(lambda: sqlglot.parse_one(text, dialect="duckdb"))
    if tree is None:
        raise InvalidQuery(f"the predicate is not readable as one SQL condition; {_EXAMPLE}")
    return _condition(tree)


def _quietly(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except (SqlglotError, RecursionError, ValueError):
        return None


def _check_tokens(text: str) -> None:
    tokens = _quietly(lambda: sqlglot.tokenize(text, dialect="duckdb"))
    if tokens is None:
        raise InvalidQuery(f"the predicate is not readable as one SQL condition; {_EXAMPLE}")
    depth = run = 0
    for token in tokens:
        if token.comments or token.token_type in _REFUSED_TOKENS:
            raise _refused(_REFUSED_TOKENS.get(token.token_type, "a comment"))
        depth += _NESTING.get(token.token_type, 0)
        run = run + 1 if token.token_type in (TokenType.NOT, TokenType.DASH) else 0
        if depth > DEEPEST or run > DEEPEST:
            raise InvalidQuery(f"a predicate may nest at most {DEEPEST} levels deep")


_NESTING = {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1, TokenType.L_BRACKET: 1, TokenType.R_BRACKET: -1}
_REFUSED_TOKENS = {
    TokenType.SEMICOLON: "a semicolon",
    TokenType.DCOLON: "a cast",
    TokenType.L_BRACE: "a brace",
    TokenType.CASE: "CASE",
}


def _refused(what: str) -> InvalidQuery:
    return InvalidQuery(f"{what} is not supported in a predicate; {_EXAMPLE}")


def _only(node: exp.Expr, *names: str) -> None:
    # SQLGlot keeps variants (SYMMETRIC, ESCAPE, negated operators) in extra arguments; none may pass unseen.
    if any(value for name, value in node.args.items() if name not in names):
        raise _refused(f"this form of {_word(node)}")


def _condition(node: exp.Expr) -> conditions.Condition:
    reader = _READERS.get(type(node))
    if reader is not None:
        return reader(node)
    if isinstance(node, (exp.Literal, exp.Boolean, exp.Null, exp.Neg)):
        raise InvalidQuery(f"a literal by itself is no condition; {_EXAMPLE}")
    raise _unknown(node)


def _unknown(node: exp.Expr) -> InvalidQuery:
    return _refused(_WORDS.get(type(node)) or ("a function" if isinstance(node, exp.Func) else _word(node)))


def _word(node: exp.Expr) -> str:
    return type(node).__name__.upper()


_WORDS: dict[type[exp.Expr], str] = {
    exp.Alias: "text after the condition",
    exp.Star: "*",
    **dict.fromkeys((exp.Cast, exp.TryCast), "a cast"),
    **dict.fromkeys((exp.Subquery, exp.Select, exp.Exists), "a subquery"),
    **dict.fromkeys((exp.Placeholder, exp.Parameter), "a parameter"),
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Pow), "arithmetic"),
}


def _column(node: exp.Expr) -> str:
    if not isinstance(node, exp.Column):
        raise _unknown(node)
    _only(node, "this")
    if not isinstance(node.this, exp.Identifier):
        raise _refused(_word(node.this))
    return str(node.this.this)


def _chain(node: exp.Expr) -> tuple[conditions.Condition, ...]:
    parts, kind = [], type(node)
    while type(node) is kind:
        _only(node, "this", "expression")
        parts.append(_condition(node.expression))
        node = node.this
    return (_condition(node), *reversed(parts))


def _comparison(node: exp.Expr) -> conditions.Condition:
    _only(node, "this", "expression")
    left, right, sign = node.this, node.expression, _SIGNS[type(node)]
    if isinstance(left, exp.Column):
        other = conditions.Name(_column(right)) if isinstance(right, exp.Column) else _literal(right)
        return conditions.Compare(_column(left), sign, other)
    if not isinstance(right, exp.Column):
        _literal(left)
        raise InvalidQuery(f"a comparison needs a column; {_EXAMPLE}")
    return conditions.Compare(_column(right), conditions.MIRRORED[sign], _literal(left))


def _in(node: exp.Expr) -> conditions.Condition:
    if node.args.get("query"):
        raise _refused("a subquery")
    _only(node, "this", "expressions")
    if not node.expressions:
        raise InvalidQuery("IN needs at least one literal, such as plan IN ('a', 'b')")
    return conditions.OneOf(_column(node.this), tuple(_literal(value) for value in node.expressions))


def _between(node: exp.Expr) -> conditions.Condition:
    _only(node, "this", "low", "high")
    column = _column(node.this)
    low, high = _literal(node.args["low"]), _literal(node.args["high"])
    return conditions.Every((conditions.Compare(column, ">=", low), conditions.Compare(column, "<=", high)))


def _is(node: exp.Expr) -> conditions.Condition:
    _only(node, "this", "expression")
    if not isinstance(node.expression, exp.Null):
        raise InvalidQuery("IS is supported with NULL only, such as city IS NOT NULL")
    return conditions.IsNull(_column(node.this))


def _like(node: exp.Expr) -> conditions.Condition:
    _only(node, "this", "expression", "negate")
    pattern = _literal(node.expression)
    if not isinstance(pattern, str):
        raise InvalidQuery("LIKE needs a string literal, such as name LIKE 'A%'")
    like = conditions.Like(_column(node.this), pattern, isinstance(node, exp.ILike))
    return conditions.Not(like) if node.args.get("negate") else like


def _single(node: exp.Expr) -> conditions.Condition:
    _only(node, "this")
    return _condition(node.this) if isinstance(node, exp.Paren) else conditions.Not(_condition(node.this))


_READERS: dict[type[exp.Expr], Callable[[Any], conditions.Condition]] = {
    exp.And: lambda node: conditions.Every(_chain(node)),
    exp.Or: lambda node: conditions.Some(_chain(node)),
    exp.Not: _single,
    exp.Paren: _single,
    exp.In: _in,
    exp.Between: _between,
    exp.Is: _is,
    exp.Like: _like,
    exp.ILike: _like,
    exp.Column: lambda node: conditions.Holds(_column(node)),
    **dict.fromkeys(_SIGNS, _comparison),
}


def _literal(node: exp.Expr) -> conditions.Scalar:
    if isinstance(node, exp.Null):
        raise InvalidQuery("a comparison with NULL is never true; write IS NULL or IS NOT NULL")
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Literal):
        return str(node.this) if node.is_string else _number(str(node.this))
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and not node.this.is_string:
        return _number("-" + str(node.this.this))
    if type(node) is exp.Cast and isinstance(node.this, exp.Literal):
        return _dated(node)
    raise _unknown(node)


def _number(text: str) -> int | float:
    whole = text.removeprefix("-").isdigit()
    number = _quietly(lambda: int(text) if whole else float(text))
    if number is None or number in (float("inf"), float("-inf")):
        raise InvalidQuery("a number in the predicate is not readable or not finite")
    if whole and not -(2**63) <= number < 2**63:
        raise InvalidQuery("an integer in the predicate does not fit into 64 bits; write it as a decimal, such as 1e20")
    return number  # type: ignore[no-any-return]


def _dated(node: exp.Cast) -> conditions.Scalar:
    text = str(node.this.this)
    readers = {
        exp.DType.DATE: conditions.read_date,
        exp.DType.TIMESTAMP: conditions.read_timestamp,
        exp.DType.TIMESTAMPNTZ: conditions.read_timestamp,
    }
    reader = readers.get(node.to.this)
    if reader is None or not node.this.is_string:
        raise _refused("a cast")
    moment = reader(text)
    if moment is None:
        other = f"{conditions.show(text)} is no date; write DATE '2013-01-31' or TIMESTAMP '2013-01-31 12:00:00'"
        raise InvalidQuery(conditions.no_such(text) or other)
    return moment
