"""Predicates: a condition on one row, and the parser of its text in a small part of SQL; derived columns too."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any, ClassVar, TypeVar

import sqlglot
from sqlglot import TokenType, exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import SqlglotError
from sqlglot.parsers.duckdb import DuckDBParser

from chary.data.columns import Schema, TypeClass, beside, classify
from chary.data.predicates import conditions, terms
from chary.errors import InvalidQuery

# The predicate language: a safe, total subset of SQL conditions.


@dataclass(frozen=True, eq=False)
class Predicate:
    """A condition on one row that no row can make fail.

    *The subset:* `= != <> < <= > >=`, AND, OR, NOT, parentheses, `[NOT] IN (literals)`, `[NOT] BETWEEN`,
    `IS [NOT] NULL`, `[NOT] LIKE / ILIKE 'pattern'`. Columns, quoted or not, are spelt exactly as in the schema.
    Literals are integers of 64 bits, decimals, strings, TRUE, FALSE, `DATE '...'`, `TIMESTAMP '...'` (plain ISO strings
    also meet dates).

    *Derived columns*, wherever a column may stand:
    - `year(t)`, `month(t)`, `day(t)`, `weekday(t)` (by ISO 8601: Monday is 1, Sunday 7) and `hour(t)` are integers.
      `date_trunc('month', t)` is when the year, quarter, month, week (from Monday), day or hour began. `t` is a date
      or a timestamp, for hours a timestamp. NULL beyond the years 1 to 9999.
    - `clip(x, low, high)` puts bounds on a number. `+`, `-`, `*` are for numbers that are bounded far enough: a result
      that might leave 64 bits, or that might be no finite number, is refused. In a product of decimals a factor nearer
      to 0 than 1e-150 is 0. `x % 7`, of an integer and an integer from 1 on, is from 0 to 6, also below 0.
    - `COALESCE(x, y)` and `CASE WHEN condition THEN value ... ELSE value END`, values of one type; without ELSE, NULL.
      A text that they make has no order: compare it with `=`, `<>`, `IN` and `LIKE`.
    - All but COALESCE and CASE are NULL where one of their columns is.
    - A quoted name that is no column is read as a derived column, as groupings write it.

    *Guarantees:*
    - Types are checked against the schema, never against a row; there are no implicit casts, except that integers
      meet decimals as doubles.
    - SQL's three-valued logic: a comparison with NULL is unknown, and a row counts only if the whole is true.
    - NaN is NULL: neither above nor below anything, and `IS NULL` is true for it. Infinities are ordinary numbers.
    - Equal conditions have equal `text`, which is how a ledger recognises them.

    *Errors:* anything else raises `InvalidQuery`, which names what is not supported and gives an example that is. So do
    strings longer than 10,000 characters, nested deeper than 20 levels, or with more than 100 functions and operations.

    >>> Predicate.parse("65 <= age and NOT(smoker)").text
    'age >= 65 AND NOT (smoker)'
    >>> Predicate.parse("MONTH(day) in (6, 7) and clip(cost,0,500)+1 > 2").text
    'month(day) IN (6, 7) AND clip(cost, 0, 500) + 1 > 2'
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
        """Whether the strings agree: the literals 1, 1.0 and TRUE are equal in Python and different questions."""
        return isinstance(other, Predicate) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def expression(self, table: Any, schema: Schema, like: Callable[[Any, str, bool], Any]) -> Any:
        """A Boolean Ibis expression over `table`, whose columns have the classes of `schema` and hold no NaN.

        It is NULL where SQL says unknown: filter with it, and unknown rows drop out. `like` is how the engine says
        LIKE: of text, pattern, and whether to fold. `InvalidQuery` when a column is missing or is met by something of
        another class.
        """
        return self.condition.compile(conditions.Scope(table, schema, like, derived))

    def __str__(self) -> str:
        return self.text


# Columns by name, where a derived one may stand: groupings, sums and whatever else reads a column.


def column(name: str, table: Any, schema: Schema, like: Callable[[Any, str, bool], Any]) -> conditions.Operand:
    """The column of that name, or the derived column that the name writes out; `InvalidQuery` where there is none.

    A name of the schema is that column, whatever it looks like. Any other is read as a derived column, in its canonical
    text alone, so that equal questions have equal strings.
    """
    return conditions.Scope(table, schema, like, derived).operand(name)


def kind_of(schema: Schema, name: str) -> TypeClass:
    """The class of a column, or of a derived one; `InvalidQuery` where there is none.

    >>> kind_of({"day": "date"}, "day").value, kind_of({"day": "date"}, "month(day)").value
    ('date', 'int64')
    """
    found = None if name in schema else derived(name, schema)
    return classify(schema, name) if found is None else found.typed(schema).kind


def column_type(schema: Schema, name: str) -> str:
    """The type of a column in the schema, or the class of a derived column; empty for neither.

    >>> column_type({"day": "date"}, "date_trunc('month', day)"), column_type({"day": "date"}, "night")
    ('date', '')
    """
    try:
        return schema[name] if name in schema else str(kind_of(schema, name))
    except InvalidQuery:
        return ""


def derived(name: str, schema: Schema) -> conditions.Term | None:
    """The derived column that a text writes out, else None; `InvalidQuery` unless the text is the canonical one."""
    try:
        found = _read_term(name)
    except InvalidQuery:
        if "(" not in name:
            return None
        raise
    if isinstance(found, conditions.Name):
        return None
    if found.text() != name:
        columns = f"unknown column {name!r}{beside(name, schema)}"
        raise InvalidQuery(f"{columns}, and a derived column is written {found.text()!r}")
    return found


# From predicate text to conditions: SQLGlot parses, and only whitelisted nodes and arguments pass.


class _Parser(DuckDBParser):
    """Knows no function by name: each is read as it is written, with all of its arguments."""

    FUNCTIONS: ClassVar[dict[str, Callable[..., Any]]] = {}


class _Plain(DuckDB):
    """The dialect of that parser."""

    Parser = _Parser


LONGEST = 10_000
DEEPEST = 20
# Functions and operations: recursion over that many is harmless.
MOST_DERIVED = 100
# The same strings are read several times within one call and again in the next; refusals are not kept.
_KEPT = 256
_EXAMPLE = (
    "supported is, for example, \"age >= 65 AND (smoker OR plan IN ('a', 'b')) AND city IS NOT NULL\", with text in "
    "single quotes"
)
_SIGNS: dict[type[exp.Expr], str] = {exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}


def parse(text: str) -> conditions.Condition:
    """The condition a text means; anything outside the subset raises `InvalidQuery`."""
    if not isinstance(text, str):
        raise InvalidQuery(f"a predicate is a text, not {type(text).__name__}; {_EXAMPLE}")
    return _read(text)


@lru_cache(maxsize=_KEPT)
def _read(text: str) -> conditions.Condition:
    return _checked(_condition(_tree(text)))


@lru_cache(maxsize=_KEPT)
def _read_term(text: str) -> conditions.Term:
    return _checked(_term(_tree(text)))


def _tree(text: str) -> exp.Expr:
    if len(text) > LONGEST:
        raise InvalidQuery(f"a predicate may be at most {LONGEST} characters long, got {len(text)}")
    if any("\ud800" <= letter <= "\udfff" or letter == "\0" for letter in text):
        raise InvalidQuery("a predicate must be valid Unicode text without NUL characters")
    _check_tokens(text)
    tree: exp.Expr | None = _quietly(lambda: sqlglot.parse_one(text, dialect=_Plain))
    if tree is None:
        raise InvalidQuery(f"the predicate is not readable as one SQL condition; {_EXAMPLE}")
    if sum(isinstance(node, _DERIVED) for node in tree.walk()) > MOST_DERIVED:
        raise InvalidQuery(f"a predicate may hold at most {MOST_DERIVED} functions and operations")
    return tree


_Made = TypeVar("_Made")


def _checked(made: _Made) -> _Made:
    # Engines get some parts several times over, in functions of functions once more each.
    if terms.weight(made) > LONGEST:
        raise InvalidQuery("functions and products of a predicate are nested too deeply in each other")
    return made


def _quietly(read: Callable[[], _Made]) -> _Made | None:
    try:
        return read()
    except (SqlglotError, RecursionError, ValueError):
        return None


def _check_tokens(text: str) -> None:
    tokens = _quietly(lambda: sqlglot.tokenize(text, dialect="duckdb"))
    if tokens is None:
        raise InvalidQuery(f"the predicate is not readable as one SQL condition; {_EXAMPLE}")
    depth = run = cases = 0
    for token in tokens:
        if token.comments or token.token_type in _REFUSED_TOKENS:
            raise _refused(_REFUSED_TOKENS.get(token.token_type, "a comment"))
        depth += _NESTING.get(token.token_type, 0)
        run = run + 1 if token.token_type in (TokenType.NOT, TokenType.DASH) else 0
        # Which of them are nested cannot be told from tokens: END may be the name of a column.
        cases += token.token_type is TokenType.CASE
        if max(depth, run, cases) > DEEPEST:
            raise InvalidQuery(f"a predicate may nest at most {DEEPEST} levels deep, and have {DEEPEST} CASE")


_NESTING = {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1, TokenType.L_BRACKET: 1, TokenType.R_BRACKET: -1}
_REFUSED_TOKENS = {TokenType.SEMICOLON: "a semicolon", TokenType.DCOLON: "a cast", TokenType.L_BRACE: "a brace"}


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
    if isinstance(node, exp.Anonymous) and isinstance(node.this, str):
        known = ", ".join([*terms.PARTS, "date_trunc", "clip", "COALESCE"])
        return InvalidQuery(f"the function {node.this} is not supported in a predicate; supported are {known}")
    if isinstance(node, exp.Neg):
        return InvalidQuery("a sign before anything but a number is not supported: write 0 - age instead of -age")
    return _refused(_WORDS.get(type(node)) or ("a function" if isinstance(node, exp.Func) else _word(node)))


def _word(node: exp.Expr) -> str:
    return type(node).__name__.upper()


_WORDS: dict[type[exp.Expr], str] = {
    exp.Alias: "a word after the condition",
    **dict.fromkeys(_SIGNS, "a comparison of a comparison (AND and OR join two of them)"),
    exp.Star: "*",
    **dict.fromkeys((exp.Cast, exp.TryCast), "a cast"),
    **dict.fromkeys((exp.Subquery, exp.Select, exp.Exists), "a subquery"),
    **dict.fromkeys((exp.Placeholder, exp.Parameter), "a parameter"),
    **dict.fromkeys((exp.Div, exp.IntDiv, exp.Pow), "arithmetic other than + - * %"),
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul, exp.Mod), "arithmetic on literals alone"),
}


def _name(node: exp.Column) -> str:
    _only(node, "this")
    if not isinstance(node.this, exp.Identifier):
        raise _refused(_word(node.this))
    return str(node.this.this)


def _is_column(node: exp.Expr) -> bool:
    """Whether a column stands there, or a derived one."""
    return isinstance(_bare(node), (exp.Column, *_DERIVED))


def _bare(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Paren):
        _only(node, "this")
        node = node.this
    return node


def _column(node: exp.Expr) -> conditions.Column:
    if isinstance(node, exp.Column):
        return _name(node)
    if not _is_column(node):
        raise _unknown(node)
    found = _term(node)
    return found.name if isinstance(found, conditions.Name) else found


_SUMS: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Mod: "%"}
_DERIVED: tuple[type[exp.Expr], ...] = (exp.Anonymous, exp.Case, *_SUMS)


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
    if _is_column(left):
        return conditions.Compare(_column(left), sign, _term(right) if _is_column(right) else _literal(right))
    if not _is_column(right):
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
    **dict.fromkeys((exp.Column, *_DERIVED), lambda node: conditions.Holds(_column(node))),
    **dict.fromkeys(_SIGNS, _comparison),
}


# Derived columns.


def _term(node: exp.Expr) -> conditions.Term:
    """A derived column, or a column; what has no column in it is none."""
    found = _part(node)
    if next(terms.names(found), None) is None and not isinstance(found, conditions.Name):
        told = f"arithmetic and functions need a column, as in year(day) + 1; {found.text()} has none"
        raise InvalidQuery(f"{told}; a date stands in single quotes, as in day >= '2014-01-31'")
    return found


def _part(node: exp.Expr) -> conditions.Term:
    node = _bare(node)
    if isinstance(node, exp.Column):
        return conditions.Name(_name(node))
    if type(node) in _SUMS:
        _only(node, "this", "expression")
        return terms.Operation(_SUMS[type(node)], _part(node.this), _part(node.expression))
    if isinstance(node, exp.Case):
        return _case(node)
    if isinstance(node, exp.Anonymous):
        return _function(node)
    return terms.Constant(_literal(node))


def _case(node: exp.Case) -> conditions.Term:
    if node.args.get("this") is not None:
        raise InvalidQuery("CASE is supported with conditions, such as CASE WHEN plan = 'a' THEN 1 ELSE 2 END")
    _only(node, "ifs", "default")
    cases = []
    for each in node.args["ifs"]:
        _only(each, "this", "true")
        if isinstance(_bare(each.args["true"]), exp.Null):
            raise InvalidQuery("CASE is NULL where no condition is true: leave THEN NULL out")
        cases.append((_condition(each.this), _part(each.args["true"])))
    otherwise = node.args.get("default")
    if otherwise is None or isinstance(_bare(otherwise), exp.Null):
        return terms.Case(tuple(cases))
    return terms.Case(tuple(cases), _part(otherwise))


def _function(node: exp.Anonymous) -> conditions.Term:
    _only(node, "this", "expressions")
    name = node.this.lower() if isinstance(node.this, str) else ""
    if name not in _FUNCTIONS:
        raise _unknown(node)
    example, size, make = _FUNCTIONS[name]
    if len(node.expressions) != size:
        raise InvalidQuery(f"{node.this} is written as in {example}")
    return make(*node.expressions)


def _truncated(unit: exp.Expr, of: exp.Expr) -> conditions.Term:
    named = str(unit.this).lower() if isinstance(unit, exp.Literal) and unit.is_string else ""
    if named not in terms.UNITS:
        raise InvalidQuery(f"date_trunc is to one of {', '.join(terms.UNITS)}, such as date_trunc('month', day)")
    return terms.Truncated(named, _term(of))


def _clipped(of: exp.Expr, *bounds: exp.Expr) -> conditions.Term:
    low, high = map(_literal, bounds)
    numbers = type(low) in (int, float) and type(high) in (int, float)
    if not numbers or not low < high:  # type: ignore[operator]
        raise InvalidQuery("the bounds of clip are two numbers, the lower first, such as clip(cost, 0, 5000)")
    return terms.Clipped(_term(of), low, high)  # type: ignore[arg-type]


_FUNCTIONS: dict[str, tuple[str, int, Callable[..., conditions.Term]]] = {
    **{
        name: (f"{name}(day)", 1, partial(lambda name, of: terms.TimePart(name, _term(of)), name))
        for name in terms.PARTS
    },
    "date_trunc": ("date_trunc('month', day)", 2, _truncated),
    "clip": ("clip(cost, 0, 5000)", 3, _clipped),
    "coalesce": ("COALESCE(cost, 0)", 2, lambda first, second: terms.Coalesced(_term(first), _part(second))),
}


# Literals.


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
    if isinstance(node, exp.Column):
        name = _name(node)
        raise InvalidQuery(f"a column, {name!r}, is not supported where a value stands; {conditions.quoted(name)}")
    raise _unknown(node)


def _number(text: str) -> int | float:
    whole = text.removeprefix("-").isdigit()
    number = _quietly(lambda: int(text) if whole else float(text))
    if number is None or number in (float("inf"), float("-inf")):
        raise InvalidQuery("a number in the predicate is not readable or not finite")
    if whole and not -(2**63) <= number < 2**63:
        raise InvalidQuery("an integer in the predicate does not fit into 64 bits; write it as a decimal, such as 1e20")
    return number


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
