"""Queries compiled to Ibis expressions with exact integers, and the dialect in which each engine says them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from functools import cache
from itertools import pairwise
from math import prod
from typing import Any, ClassVar, Final

import ibis
import numpy as np
import numpy.typing as npt

from chary.data.columns import BLOCK, Schema, TypeClass, declare
from chary.data.partition import FirstParts, RowPart
from chary.data.predicates.conditions import Compare, Operand, double, read_date
from chary.data.predicates.predicate import Predicate, column, kind_of
from chary.data.queries.histogram import Binned
from chary.data.queries.keys import Domain
from chary.data.queries.moments import Mean, RowCount, SecondMoments
from chary.data.queries.ordered import Elements, Occurring, Ordered, UnitValues
from chary.data.queries.query import Keying
from chary.data.queries.sums import Bounds, Count, Sum
from chary.errors import InvalidQuery

# What differs between engines: Ibis has no expression for it, or engines read the expression differently.


class Dialect:
    """The differences of an engine, which expressions and SQL are built with; here is what most engines say.

    `name` is the dialect of SQL, as Ibis names it; `namespace` is where the tables of rows and keys are: `catalog` and
    `database` of an Ibis table, or neither. `by` ends messages about what this engine alone cannot do.
    """

    name: ClassVar[str]
    namespace: ClassVar[Mapping[str, str]] = {}
    by: ClassVar[str] = ""

    def of(self, query: Any) -> "Dialect":
        """The dialect in which a query is compiled."""
        return self

    def nearest(self, value: Any) -> Any:
        """The nearest integer of a double, as a double, halves away from zero."""
        raise NotImplementedError

    def tame(self, value: Any) -> Any:
        """A double that no product or quotient with numbers from 2**-54 to 2**66 makes fail.

        It is another one only above 1e280, where it stays above, and below 1e-280, where it is 0: what is clipped and
        rounded afterwards is the same.
        """
        return value

    def quotient(self, dividend: Any, divisor: Any) -> Any:
        """The whole part of a quotient of integers, of which the first is not below 0 and the second above 0."""
        return dividend // divisor

    def as_text(self, value: Any) -> Any:
        """A value of any type as a text."""
        return value if value.type().is_string() else value.cast("string")

    def hashed(self, text: Any) -> Any:
        """The first 32 bits of the SHA-256 of a text in UTF-8, as an integer from 0 on."""
        raise NotImplementedError

    def like(self, value: Any, pattern: str, fold: bool) -> Any:
        """Whether a text is like a pattern, in which only % and _ have a meaning.

        `fold`: text and pattern are taken in lower case, letter by letter, whatever the locale.
        """
        raise NotImplementedError

    def one_a_row(self, line: Any, columns: Sequence[str]) -> Any:
        """The columns of the one row of a table as rows: of each its `position`, from 0, and its `answer`."""
        answers = ibis.array([line[name].cast("int64") for name in columns])
        return line.select(position=ibis.range(0, len(columns)).unnest(), answer=answers.unnest())

    def sql(self, expression: Any) -> str:
        """The SQL of an Ibis expression."""
        return str(ibis.to_sql(expression, dialect=self.name, pretty=False))

    def halves(self, summed: str) -> str:
        """SQL for the two halves of an exact sum, of 64 bits each: see `scattered`."""
        raise NotImplementedError

    def text_of(self, value: str, kind: str) -> str | None:
        """SQL for the text of a value of a type of the schema: different for different values, the same for ever.

        None for a type that has no such text. Strings of values are in ledgers and in sketches, whatever engine reads.
        """
        raise NotImplementedError


ARRIVALS: Final = "chary_arrivals"
"""The rows with one column more, which orders them as they came: in engines that know of it."""
ARRIVAL: Final = "chary_arrival"


@dataclass(frozen=True)
class QueryPlace:
    """Where the rows and the keys of an evaluation are found in an engine; of a `part`, its rows alone.

    `arrivals` are the same rows in the order in which they came.
    """

    rows: str
    keys: str
    dialect: Dialect
    part: RowPart | None = None
    arrivals: str = ARRIVALS

    def table(self, name: str, schema: Mapping[str, str]) -> Any:
        """An unbound Ibis table; columns of other types stand in as binary, since nothing is computed on them."""
        kinds = {column: kind if kind in set(TypeClass) else "binary" for column, kind in schema.items()}
        return ibis.table(kinds, name=name, **self.dialect.namespace)

    def read(self, schema: Schema, unit: str | None) -> Any:
        """The rows that a query is about, as an Ibis table with which each expression begins."""
        rows, part = self.table(self.rows, schema), self.part
        if part is None:
            return rows
        mine = self.where(rows, schema, part.where)
        if self.several and unit is not None:
            mine = mine.mutate(**{BLOCK: self.column(mine, schema, str(part.within)).value})
        if part.first is None:
            return mine
        # Rows without a unit stay in their part, whatever parts of units are kept.
        owner = mine[str(unit)]
        return mine.filter(owner.isnull() | owner.isin(self._holders(part.first, schema, str(unit))["holder"]))

    def _holders(self, first: FirstParts, schema: Schema, unit: str) -> Any:
        """The units that count in a part: it is one of their first ones in order of arrival."""
        rows, like = self.table(self.arrivals, {**schema, ARRIVAL: "int64"}), self.dialect.like
        rows = rows.filter(rows[unit].notnull())
        if first.column is None:
            number = ibis.cases(*((one.expression(rows, schema, like), k) for k, one in enumerate(first.among)))
        else:
            [among] = first.among
            rows = rows.filter(among.expression(rows, schema, like))
            number = column(first.column, rows, schema, like).value
        seen = rows.select(holder=rows[unit], came=rows[ARRIVAL], part=number)
        seen = seen.filter(seen.part.notnull()).group_by(["holder", "part"]).aggregate(came=seen.came.min())
        ranked = seen.mutate(rank=ibis.row_number().over(group_by="holder", order_by="came"))
        kind = str(TypeClass.INTEGER if first.column is None else kind_of(schema, first.column))
        own = Predicate(Compare("part", "=", first.own)).expression(ranked, {"part": kind}, like)
        return ranked.filter(ranked["rank"] < first.kept, own).select("holder")

    def where(self, rows: Any, schema: Schema, condition: Predicate | None) -> Any:
        """The rows of an Ibis table that satisfy a condition; all of them where there is none."""
        return rows if condition is None else rows.filter(condition.expression(rows, schema, self.dialect.like))

    def column(self, rows: Any, schema: Schema, name: str) -> Operand:
        """A column of an Ibis table, or one that is derived from its columns; `InvalidQuery` where there is none."""
        return column(name, rows, schema, self.dialect.like)

    def owner(self, rows: Any, unit: str | None) -> dict[str, Any]:
        """The columns that say whose each row is, as limits know them; none where each row is a unit."""
        block = {BLOCK: rows[BLOCK]} if self.several and unit is not None else {}
        return block if unit is None else {"unit": rows[unit]} | block

    @property
    def several(self) -> bool:
        """Whether a unit is limited in each of several blocks."""
        return self.part is not None and self.part.within is not None

    def sql(self, expression: Any) -> str:
        """The SQL of an expression."""
        return self.dialect.sql(expression)


# Whose rows are limited: those of a unit, or of a unit in one block where rows of several are read.


def owners(chosen: Any) -> list[str]:
    """The columns that say whose each row is, of rows that were chosen with `QueryPlace.owner`.

    Guarantee: what is kept of a unit in one block, and how it is limited, follows from its rows there alone.
    """
    return ["unit", BLOCK] if BLOCK in chosen.columns else ["unit"]


# Patterns that mean the same in engines with other rules for lower case and for backslashes.

_DOTTED: Final = "\u0130"


def without_escapes(pattern: str) -> str:
    r"""The pattern for an engine in which a backslash takes the meaning of the sign behind it.

    >>> without_escapes("a\\%")
    'a\\\\%'
    """
    return pattern.replace("\\", "\\\\")


def folded(value: Any, pattern: str) -> tuple[Any, str]:
    """A text and a pattern, both as Ibis and Python have them, whose comparison ignores case in every engine.

    The pattern is in lower case. Of the text only those letters are brought to lower case which the pattern has, since
    all others differ from it in either case. Each letter becomes one letter by Unicode's simple mapping, so that
    lengths stay; what a locale thinks of letters does not matter.
    """
    small = "".join(lowered(letter) for letter in pattern)
    others = [(large, letter) for letter in sorted(set(small)) for large in _larger().get(letter, "")]
    if others:
        value = value.translate("".join(large for large, _ in others), "".join(letter for _, letter in others))
    return value, small


def lowered(letter: str) -> str:
    """One letter for one letter.

    >>> lowered("A"), lowered("É"), lowered("\u0130"), lowered("ß")
    ('a', 'é', 'i', 'ß')
    """
    # The only letter whose lower case takes two by the full mapping and one by the simple one.
    return "i" if letter == _DOTTED else letter.lower()


@cache
def _larger() -> dict[str, str]:
    """The letters that have each letter as their lower case."""
    found: dict[str, str] = {}
    for number in range(0x110000):
        if not 0xD800 <= number <= 0xDFFF and lowered(chr(number)) != chr(number):
            found[lowered(chr(number))] = found.get(lowered(chr(number)), "") + chr(number)
    return found


# Exact sums by position, in halves that fit into 64 bits.

POSITION: Final = "position"
# Two halves hold sums up to 2**95 steps: those of 2**42 rows with the 2**53 steps that a sum allows each.
HALF: Final = 2**32


def scattered(columns: Mapping[str, npt.NDArray[Any]], length: int) -> npt.NDArray[Any]:
    """The sums `high * HALF + low` by position, 0 where there are none; Python integers where 64 bits do not do."""
    position, high, low = (np.asarray(columns[name]) for name in (POSITION, "high", "low"))
    if np.any(np.abs(high) >= HALF // 2):
        high = high.astype(object)
    answers = np.zeros(length, dtype=high.dtype)
    answers[position] = high * HALF + low
    return answers


# Keys that fill their range: rows are counted first, and only what was counted is brought to the keys.

# Rows between the edges that have no key take as much memory as that many keys.
_SPARE: Final = 4
Offered = Mapping[str, tuple[str, list[Any]]]
Edges = list[tuple[Any, Any]]


def edges_of(columns: Iterable[tuple[str, list[Any]]]) -> Edges | None:
    """The lowest and the highest key of each column, given as type and values; None unless keys fill most of the range.

    It follows from the keys alone, so the choice of the plan reveals nothing about rows. Then no more groups than a few
    times the keys can occur between the edges, whatever other values the columns have.

    >>> edges_of([("int64", [3, 5, 4])]), edges_of([("int64", [1, 1000])]), edges_of([("string", ["a", "b"])])
    ([(3, 5)], None, None)
    """
    found, widths, size = [], [], 0
    for kind, values in columns:
        if kind not in (TypeClass.INTEGER, TypeClass.DATE):
            return None
        low, high = min(values), max(values)
        size = len(values)
        found.append((low, high))
        widths.append(((high - low).days if isinstance(low, date) else high - low) + 1)
    return found if prod(widths) <= _SPARE * size else None


def between(rows: Any, values: Iterable[Any], edges: Edges) -> Any:
    """The rows of an Ibis table whose keys are between the edges."""
    return rows.filter(
        *(value.between(_literal(low), _literal(high)) for value, (low, high) in zip(values, edges, strict=True))
    )


def _literal(key: Any) -> Any:
    return ibis.literal(key, "date" if isinstance(key, date) else "int64")


# Of each unit the one row that is kept: an aggregate, where that is possible, instead of a ranking of all rows.

# The sign of a 64-bit integer stays free.
_BITS: Final = 62


@dataclass(frozen=True)
class Preference:
    """A column of integers from `low` to `high`: lower ones are preferred, or those farthest from 0 (of two that
    are as far the positive one)."""

    column: str
    low: int
    high: int
    farthest: bool = False

    @property
    def bits(self) -> int:
        """How many its places take: with all of them, each value has one of its own, and preferred ones are lower."""
        return (2 * self._largest + 1 if self.farthest else self.high - self.low).bit_length()

    def place(self, value: Any) -> Any:
        """From 0 on: twice the distance from the largest one, and one more for what is negative; or from the lowest."""
        if not self.farthest:
            return value - _whole(self.low)
        negative = ibis.ifelse(value < _whole(0), _whole(1), _whole(0))
        return (_whole(self._largest) - value.abs()) * _whole(2) + negative

    def value(self, place: Any) -> Any:
        """The other direction."""
        if not self.farthest:
            return place + _whole(self.low)
        size = _whole(self._largest) - (place >> _places(1))
        return ibis.ifelse((place & _whole(1)) == _whole(1), -size, size)

    @property
    def _largest(self) -> int:
        return max(abs(self.low), abs(self.high))


def is_packed(order: Sequence[Preference]) -> bool:
    """Whether `one_of_unit` can be asked for this order: its columns fit into one integer.

    >>> is_packed([Preference("value", 0, 2**53, farthest=True), Preference("position", 0, 99)])
    True
    """
    return sum(each.bits for each in order) <= _BITS


def one_of_unit(rows: Any, order: Sequence[Preference]) -> Any:
    """The first row of each owner in this order of columns, the first of them first; one scan and no sorting.

    Guarantee: what a ranking by the same order keeps as its first row. Places are one-to-one and rise as preference
    falls. They are set side by side in one integer, the first column in its highest bits, so they are compared as the
    columns are, one after the other. So its minimum over a unit belongs to the first row, and determines all columns of
    it; two rows with the same integer are alike. No sum of places carries over, since each has as many bits as its
    largest value needs.
    """
    packed = _whole(0)
    for each in order:
        packed = packed * _whole(1 << each.bits) + each.place(rows[each.column])
    whose = owners(rows)
    first = rows.select(*whose, packed=packed).group_by(whose).aggregate(packed=lambda some: some.packed.min())
    columns, below = {}, 0
    for each in reversed(order):
        columns[each.column] = each.value((first.packed >> _places(below)) & _whole((1 << each.bits) - 1))
        below += each.bits
    return first.select(*whose, **columns)


def _places(number: int) -> Any:
    # PostgreSQL and Spark shift by 32-bit integers only.
    return ibis.literal(number, "int32")


def _whole(number: int) -> Any:
    return ibis.literal(number, "int64")


# From a query to an Ibis expression whose single scan yields exact integers.
#
# Rows go through the same stages for every query: *choose* (predicate, unit, value, key), *keep* (the first keys, the
# largest rows or an even choice), *cap* (one cell a unit and key), *collect* (sum, by groups). Expressions are built on
# unbound tables, so no data is touched and any engine of Ibis can run them.

ANSWER = "answer"


@dataclass(frozen=True)
class Evaluation:
    """A query ready for an engine: an expression of one `answer` column, grouped ones with a `position` column.

    `keys` holds, for a grouped query, the columns of the table named `keys_name` the engine must offer: k0, k1, ...
    and `position`, as (Ibis type, values). `positions` is how many answers a query has that are not by groups of rows.
    """

    expression: Any
    keys: Mapping[str, tuple[str, list[Any]]] | None
    positions: int | None = None


def evaluate(query: Any, schema: Schema, unit: str | None, place: QueryPlace) -> Evaluation:
    """Check a query against the schema and build its expression; `InvalidQuery` when they do not fit."""
    if isinstance(query, Mean):
        raise InvalidQuery("a mean is asked for in two parts: prepare each of query.parts(neighbor_relation)")
    if isinstance(query, SecondMoments):
        rows = _filtered(place, schema, query, unit)
        return Evaluation(moments(query, rows, schema, unit, place), None, len(query.keys))
    if not isinstance(query, (Count, Sum, RowCount, Binned)):
        raise InvalidQuery(f"a table answers count(), sum() and the parts of mean(), not {type(query).__name__}")
    asked = query.of if isinstance(query, (RowCount, Binned)) else query
    rows = _filtered(place, schema, asked, unit)
    if isinstance(query, Binned):
        rows, schema = query.numbered(rows, schema, unit, place.column(rows, schema, query.column))
        query = asked
    if asked.keying is None and isinstance(asked, Count):
        return Evaluation(rows.aggregate(**{ANSWER: rows.count() if unit is None else rows[unit].nunique()}), None)
    if unit is None and (grouped := _by_edges(rows, schema, asked, query, place)):
        return grouped
    found = _chosen(rows, schema, asked, unit, place)
    kept = found.expression if unit is None else _kept(found.expression, asked, place.dialect)
    return Evaluation(_collected(_cells(kept, query, unit), query, found.keys is not None), found.keys)


def chosen(asked: Count | Sum, schema: Schema, unit: str | None, place: QueryPlace) -> Evaluation:
    """The rows that count, and of each its `unit` and `position`, if there are any, and the `value` that is summed.

    The value is clipped and in steps; rows without one do not count.
    """
    return _chosen(_filtered(place, schema, asked, unit), schema, asked, unit, place)


def parts(asked: Count | Sum, schema: Schema, unit: str, place: QueryPlace) -> Evaluation:
    """The rows that count; for a sum, what each unit adds to each key within its limits, where that is not 0.

    Columns are those of `chosen`.
    """
    if place.several:
        raise InvalidQuery(
            "what each unit has taken part in is remembered for a unit in one block: ask a session of one block"
        )
    found = chosen(asked, schema, unit, place)
    if isinstance(asked, Count):
        return found
    groups = ["unit"] if asked.keying is None else ["unit", POSITION]
    cells = _cells(_kept(found.expression, asked, place.dialect), asked, unit)
    summed = cells.group_by(groups).aggregate(value=cells.value.sum())
    return Evaluation(summed.filter(summed.value != 0), found.keys)


def _filtered(place: QueryPlace, schema: Schema, asked: Count | Sum | SecondMoments, unit: str | None) -> Any:
    rows = place.read(schema, unit)
    chosen = place.where(rows, schema, asked.where)
    chosen = chosen if unit is None else chosen.filter(chosen[unit].notnull())
    without = asked.without if isinstance(asked, Count) else None
    if without is None:
        return chosen
    if unit is None:
        return chosen.filter(~without.expression(chosen, schema, place.dialect.like).fill_null(False))
    others = place.where(rows, schema, without)
    whose = dict(zip(("excluded", "excluded_block"), place.owner(others, unit).values(), strict=False))
    return chosen.anti_join(others.select(**whose), list(zip((unit, BLOCK), whose, strict=False)))


def _key_columns(domain: Domain, schema: Schema) -> dict[str, tuple[str, list[Any]]]:
    columns = {}
    for index, name in enumerate(domain.columns):
        kind, values = kind_of(schema, name), [row[index] for row in domain.rows]
        hint = declare(name, kind, _DECLARED.get(domain.kinds[index], "DOUBLE")) if name in schema else ""
        if kind is TypeClass.TIMESTAMP:
            hint = "; give each as a datetime, or store days as dates"
        columns[f"k{index}"] = (str(kind), _typed(name, kind, domain.kinds[index], values, hint))
    return columns | {POSITION: ("int64", list(range(len(domain))))}


_DECLARED = {"integer": "BIGINT", "boolean": "BOOLEAN", "date": "DATE"}


def _typed(name: str, kind: TypeClass, given: str, values: list[Any], hint: str) -> list[Any]:
    words = "integer" if kind is TypeClass.INTEGER else str(kind)
    if given == words:
        return values
    dates: list[date | None] = (
        [read_date(value) for value in values] if (given, words) == ("string", "date") else [None]
    )
    if None in dates:
        raise InvalidQuery(f"column {name!r} is {kind.words}, so its keys cannot be of type {given}{hint}")
    return dates


def _chosen(rows: Any, schema: Schema, asked: Count | Sum, unit: str | None, place: QueryPlace) -> Evaluation:
    rows, columns = _columns(rows, schema, asked, unit, place)
    if asked.keying is None:
        return Evaluation(rows.select(**columns), None)
    offered = _key_columns(asked.keying.domain, schema)
    keys = place.table(place.keys, _types(offered))
    names = enumerate(asked.keying.domain.columns)
    matches = [place.column(rows, schema, name).value == keys[f"k{index}"] for index, name in names]
    return Evaluation(rows.inner_join(keys, matches).select(**columns, position=keys[POSITION]), offered)


def _columns(rows: Any, schema: Schema, asked: Count | Sum, unit: str | None, place: QueryPlace) -> tuple[Any, Any]:
    """The rows that have a value, where one is asked for, and of each its unit and value."""
    columns = place.owner(rows, unit)
    if isinstance(asked, Sum):
        if asked.missing is None:
            rows = rows.filter(place.column(rows, schema, asked.column).value.notnull())
        columns["value"] = _sum_steps(place.column(rows, schema, asked.column), asked, place.dialect)
    return rows, columns


def _types(offered: Offered) -> dict[str, str]:
    return {name: kind for name, (kind, _) in offered.items()}


def _by_edges(rows: Any, schema: Schema, asked: Count | Sum, query: Any, place: QueryPlace) -> Evaluation | None:
    """Rows that are units by the keys' own columns first, if few others can occur: to join one costs more than that."""
    if asked.keying is None:
        return None
    names, offered = asked.keying.domain.columns, _key_columns(asked.keying.domain, schema)
    edges = edges_of([column for name, column in offered.items() if name != POSITION])
    if edges is None:
        return None
    rows = between(rows, (place.column(rows, schema, name).value for name in names), edges)
    found, columns = _columns(rows, schema, asked, None, place)
    groups = {f"k{index}": place.column(found, schema, name).value for index, name in enumerate(names)}
    cells = _summed(found.select(**groups, **columns), query, list(groups))
    keys = place.table(place.keys, _types(offered))
    return Evaluation(cells.inner_join(keys, list(groups)).select(POSITION, ANSWER), offered)


def _sum_steps(column: Operand, asked: Sum, dialect: Dialect) -> Any:
    value, kind = column.value, column.kind
    if kind not in (TypeClass.INTEGER, TypeClass.FLOAT):
        hint = column.declared("DOUBLE")
        raise InvalidQuery(
            f"sums, means and quantiles need a column of numbers; {asked.column!r} is {kind.words}{hint}"
        )
    low, high = (int(edge / asked.grid) for edge in asked.bounds)
    stands_in = None if asked.missing is None else int(asked.missing / asked.grid)
    if kind is TypeClass.INTEGER and asked.grid == 1:
        value = value if stands_in is None else value.fill_null(ibis.literal(stands_in, "int64"))
        steps = _clip(value, ibis.literal(low, "int64"), ibis.literal(high, "int64"))
    else:
        # The bounds are whole steps that doubles hold exactly, so rounding what is clipped cannot leave them.
        scaled = _scaled(dialect.tame(value.cast("float64")), asked.grid)
        scaled = scaled if stands_in is None else scaled.fill_null(double(stands_in))
        steps = dialect.nearest(_clip(scaled, double(low), double(high))).cast("int64")
    center = int(asked.center / asked.grid)
    return steps - ibis.literal(center, "int64") if center else steps


def _scaled(value: Any, grid: Fraction) -> Any:
    if grid.denominator != 1:
        value = value * double(grid.denominator)
    return value / double(grid.numerator) if grid.numerator != 1 else value


def _clip(value: Any, low: Any, high: Any) -> Any:
    return ibis.least(ibis.greatest(value, low), high)


def _kept(chosen: Any, asked: Count | Sum, dialect: Dialect) -> Any:
    if one := _single(asked):
        return one_of_unit(chosen, one)
    keying: Keying | None = asked.keying
    chosen = _first_groups(chosen, keying)
    if isinstance(asked, Sum) and asked.max_rows_per_unit is not None:
        groups = [] if keying is None else [POSITION]
        if asked.even:
            return _even(chosen, [*groups, "value"], asked.max_rows_per_unit, dialect)
        order = [chosen.value.abs().desc(), chosen.value.desc(), *(chosen[name].asc() for name in groups)]
        ranked = chosen.mutate(rank=ibis.row_number().over(group_by=owners(chosen), order_by=order))
        chosen = ranked.filter(ranked["rank"] < asked.max_rows_per_unit).drop("rank")
    return chosen


def _first_groups(chosen: Any, keying: Keying | None) -> Any:
    """Of each unit the rows of its first groups, in the order of the list, where those are limited."""
    if keying is None or keying.max_groups_per_unit is None:
        return chosen
    ranked = chosen.mutate(rank=ibis.dense_rank().over(group_by=owners(chosen), order_by=POSITION))
    return ranked.filter(ranked["rank"] < keying.max_groups_per_unit).drop("rank")


def _single(asked: Count | Sum) -> list[Preference]:
    """In which order one row of each unit is kept; empty where more are, or other rows of it matter.

    It follows from the query alone, so the choice of the plan reveals nothing about rows.
    """
    if isinstance(asked, Sum) and asked.even:
        return []
    keying = asked.keying
    keep = None if keying is None else keying.max_groups_per_unit
    position = [] if keying is None else [Preference(POSITION, 0, len(keying.domain) - 1)]
    one = isinstance(asked, Sum) and asked.max_rows_per_unit == 1
    value = [Preference("value", *asked.steps, farthest=True)] if isinstance(asked, Sum) and one else []
    if keep is None:
        order = [*value, *position] if value else []
    else:
        order = [*position, *value] if keep == 1 and (value or isinstance(asked, Count)) else []
    return order if is_packed(order) else []


def _cells(kept: Any, query: Count | Sum | RowCount, unit: str | None) -> Any:
    if isinstance(query, Count) and unit is not None:
        # A unit that is in several blocks is still one.
        alone = bool(_single(query)) and owners(kept) == ["unit"]
        kept = kept.select("unit", POSITION) if alone else kept.select("unit", POSITION).distinct()
    if isinstance(query, Sum) and query.unit_steps is not None:
        low, high = (ibis.literal(edge, "int64") for edge in query.unit_steps)
        groups = [*owners(kept), *([] if query.keying is None else [POSITION])]
        kept = kept.group_by(groups).aggregate(value=kept.value.sum())
        return kept.mutate(value=_clip(kept.value, low, high))
    return kept


def _collected(cells: Any, query: Count | Sum | RowCount, keyed: bool) -> Any:
    return _summed(cells, query, [POSITION] if keyed else [])


def _summed(cells: Any, query: Count | Sum | RowCount, groups: list[str]) -> Any:
    answer = {ANSWER: cells.value.sum() if isinstance(query, Sum) else cells.count()}
    return cells.group_by(groups).aggregate(**answer) if groups else cells.aggregate(**answer)


# From rows to the sums of products of columns.


def moments(asked: SecondMoments, rows: Any, schema: Schema, unit: str | None, place: QueryPlace) -> Any:
    """From rows that satisfy the condition to one answer for each position; see `SecondMoments`."""
    parts = [f"s{k}" for k in range(len(asked.bounds))]
    steps = {
        part: _moment_steps(asked, rows, schema, each, place) for part, each in zip(parts, asked.bounds, strict=True)
    }
    known = rows.filter(*(place.column(rows, schema, name).value.notnull() for name in asked.names))
    chosen = known.select(**place.owner(known, unit), **steps)
    if asked.squared < len(parts) * asked.steps**2:
        chosen = _shortened(asked, chosen, parts)
    if unit is not None:
        chosen = _even(chosen, parts, asked.max_rows_per_unit or 1, place.dialect)
    pairs = [(one, other) for k, one in enumerate(parts) for other in parts[k:]]
    sums = [chosen.count(), *(chosen[s].sum() for s in parts), *((chosen[a] * chosen[b]).sum() for a, b in pairs)]
    named = {f"a{place}": value.fill_null(0) for place, value in enumerate(sums)}
    return place.dialect.one_a_row(chosen.aggregate(**named), list(named))


def _moment_steps(asked: SecondMoments, rows: Any, schema: Schema, part: tuple[str, Bounds], place: QueryPlace) -> Any:
    name, (low, high) = part
    found, dialect = place.column(rows, schema, name), place.dialect
    if found.kind not in (TypeClass.INTEGER, TypeClass.FLOAT):
        hint = found.declared("DOUBLE")
        raise InvalidQuery(f"moments need columns of numbers; {name!r} is {found.kind.words}{hint}")
    middle, half = double(float((low + high) / 2)), double(float((high - low) / 2))
    scaled = (dialect.tame(found.value.cast("float64")) - middle) / half * double(asked.steps)
    inside = ibis.least(ibis.greatest(scaled, double(-asked.steps)), double(asked.steps))
    # The edges are whole steps, so rounding what is clipped cannot leave them.
    return dialect.nearest(inside).cast("int64")


def _shortened(asked: SecondMoments, chosen: Any, parts: list[str]) -> Any:
    """Rows that are too long, shortened towards zero; should a float's last bit leave one too long, to zeros."""
    long = chosen.mutate(size=_squares(chosen, parts))
    factor = ibis.ifelse(
        long["size"] > asked.squared, (double(asked.squared) / long["size"].cast("float64")).sqrt(), double(1)
    )
    short = long.mutate(factor=factor)
    cut = short.mutate(**{s: _towards_zero(short[s], short.factor) for s in parts})
    fits = _squares(cut, parts) <= asked.squared
    return cut.mutate(**{s: ibis.ifelse(fits, cut[s], ibis.literal(0, "int64")) for s in parts})


def _squares(rows: Any, parts: list[str]) -> Any:
    return sum((rows[s] * rows[s] for s in parts[1:]), rows[parts[0]] * rows[parts[0]])


def _towards_zero(steps: Any, factor: Any) -> Any:
    size = (steps.cast("float64") * factor).abs().floor().cast("int64")
    return ibis.ifelse(steps < 0, -size, size)


# Of the rows of a unit, in some order, a number that is spread evenly over their ranks.


def _spread(rows: Any, whose: list[str], order: Sequence[str], kept: int, dialect: Dialect, *, drawn: bool) -> Any:
    """The rank r of the m rows of a unit has as much `weight` as `(2 k r + start) // (2 m)` rises by: k in all.

    Of more than k rows k have a weight, of 1. For values in order the start is m, so that of one the middle is kept.
    If it is `drawn`, it is a hash of the unit modulo 2 m.

    Guarantee: what is kept of a unit follows from its own rows alone, and is k of them, or all where there are fewer.
    Given any start from 0 to 2 m - 1 the weights add up to `(2 k m + start) // (2 m) - start // (2 m)`, which is k.
    For each rank k of m starts keep it (2 k of 2 m): as many for each.
    """
    ranked = rows.mutate(
        rank=ibis.row_number().over(group_by=whose, order_by=list(order)),
        size=rows.count().over(group_by=whose),
    )
    start = ranked["size"]
    if drawn:
        ranked = ranked.mutate(hash=_hash_of_unit(ranked, kept, dialect))
        ranked = ranked.mutate(hash=ranked["hash"].max().over(group_by=whose))
        start = ranked["hash"] - dialect.quotient(ranked["hash"], 2 * ranked["size"]) * 2 * ranked["size"]
    at, after = (
        dialect.quotient(2 * kept * place + start, 2 * ranked["size"]) for place in (ranked["rank"], ranked["rank"] + 1)
    )
    return ranked.mutate(weight=after - at).filter(after > at)


def _hash_of_unit(ranked: Any, kept: int, dialect: Dialect) -> Any:
    """Where a unit has more rows than are kept, a hash in one of them, and 0 elsewhere: the largest is the unit's.

    One unit may have several strings, as 0.0 and -0.0 have: other ids than integers and strings are hashed in each row.
    """
    unit, needed = ranked["unit"], ranked["size"] > _whole(kept)
    if unit.type().is_string() or unit.type().is_integer():
        needed &= ranked["rank"] == _whole(0)
    return ibis.ifelse(needed, dialect.hashed(dialect.as_text(unit)), _whole(0))


def _even(chosen: Any, order: Sequence[str], kept: int, dialect: Dialect) -> Any:
    """At most this many rows of each owner, each as likely as any other of its rows: see `_spread`."""
    spread = _spread(chosen, owners(chosen), order, kept, dialect, drawn=True)
    return spread.select(*chosen.columns)


# Values of a column in order: which of the rows' values count for a unit, and how often.


def ordered_rows(asked: Ordered, schema: Schema, unit: str | None, place: QueryPlace) -> Evaluation:
    """Each `value` in steps and the `times` it counts, for each `position` of a group where there are any.

    Where values are drawn at random, `times` is the number of the value among those of its unit, from 1.
    `InvalidQuery` when it does not fit the schema.
    """
    found = chosen(asked.total, schema, unit, place)
    values, groups = found.expression, [] if found.keys is None else [POSITION]
    if unit is not None and groups:
        values = _first_groups(values, asked.total.keying)
    return Evaluation(_in_groups(asked, values, groups, unit, place.dialect), found.keys)


def _in_groups(asked: Ordered, values: Any, groups: list[str], unit: str | None, dialect: Dialect) -> Any:
    if unit is None or asked.max_rows_per_unit is None:
        return _counted(values, groups)
    whose = [*groups, *owners(values)]
    if asked.of_unit == "random":
        return _ranked(values, whose).order_by([*whose, "times"]).select(*groups, "value", "times")
    if asked.of_unit == "mean":
        return _counted(_means(values, whose, groups, asked.total.steps[0], dialect), groups)
    spread = _spread(values, whose, ["value"], asked.max_rows_per_unit, dialect, drawn=False)
    return _counted(spread, groups, weighted=asked.of_unit == "weighted")


def in_order(asked: Ordered, found: Mapping[str, npt.ArrayLike]) -> Occurring | UnitValues | tuple[Any, ...]:
    """What the columns of `ordered_rows` say; of groups a tuple, in their order."""
    value, times = (np.asarray(found[name], dtype=np.int64) for name in ("value", "times"))
    places, keys = value - asked.total.steps[0], asked.keys
    if keys is None:
        return _occurring(asked, places, times)
    # They come in the order of the positions.
    ends = np.searchsorted(np.asarray(found[POSITION], dtype=np.int64), np.arange(len(keys) + 1))
    return tuple(_occurring(asked, places[at:end], times[at:end]) for at, end in pairwise(ends))


def _occurring(asked: Ordered, places: npt.NDArray[np.int64], times: npt.NDArray[np.int64]) -> Occurring | UnitValues:
    return UnitValues(places, np.cumsum(times == 1)) if asked.of_unit == "random" else Occurring(places, times)


def _counted(values: Any, groups: list[str], *, weighted: bool = False) -> Any:
    times = values.weight.sum().cast("int64") if weighted else values.count()
    return values.group_by([*groups, "value"]).aggregate(times=times).order_by([*groups, "value"])


def _ranked(values: Any, whose: list[str]) -> Any:
    """With the number of each value among those of its unit, from 1."""
    return values.mutate(times=ibis.row_number().over(group_by=whose, order_by="value") + 1)


def _means(values: Any, whose: list[str], groups: list[str], first: int, dialect: Dialect) -> Any:
    """One value for each unit: the mean in whole steps, halves upwards; counted from the first step, so from 0."""
    shifted = values.mutate(above=values["value"] - ibis.literal(first, "int64"))
    summed = shifted.group_by(whose).aggregate(total=shifted.above.sum(), size=shifted.count())
    nearest = dialect.quotient(2 * summed["total"] + summed["size"], 2 * summed["size"])
    return summed.select(*groups, value=nearest.cast("int64") + ibis.literal(first, "int64"))


# Which elements a sketch counts, as rows of one column.


def element_column(asked: Elements, unit: str | None) -> str:
    """The column whose values are the elements; `InvalidQuery` where each row is a unit and no column is named."""
    column = unit if asked.of is None else asked.of
    if column is None:
        raise InvalidQuery("where each row is a unit of its own, name the column whose values are counted: of='column'")
    return column


def element_rows(asked: Elements, schema: Schema, unit: str | None, place: QueryPlace) -> Any:
    """The distinct elements of the rows, in a column `element`; of each unit the smallest, if there is a limit."""
    column = element_column(asked, unit)
    table = place.where(place.read(schema, unit), schema, asked.where)
    # Not a set, whose order differs between processes: one question has one text.
    for needed in dict.fromkeys([column] if unit is None else [column, unit]):
        table = table.filter(table[needed].notnull())
    if asked.max_groups_per_unit is None or unit is None:
        return table.select(element=table[column]).distinct()
    pairs = table.select(**place.owner(table, unit), element=table[column]).distinct()
    ranked = pairs.mutate(rank=ibis.row_number().over(group_by=owners(pairs), order_by="element"))
    return ranked.filter(ranked["rank"] < asked.max_groups_per_unit).select("element").distinct()
