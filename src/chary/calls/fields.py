"""Types of fields of calls: how each is checked, written as JSON, described, and typed by people."""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, replace
from datetime import date, datetime
from fractions import Fraction
from functools import partial
from types import MappingProxyType, UnionType
from typing import Annotated, Any, Final, Literal, NamedTuple, Union, get_args, get_origin

from pydantic_core import core_schema

from chary.calls.algorithm import Algorithm, ScoreFunction, Unsaid, When, plain_outcome
from chary.calls.call import MEANINGS, Call
from chary.core.plan import Question, check_question
from chary.data import Bins, Count, Linear, Predicate, Query, Sum, count, parse_keys
from chary.data.columns import Schema, TypeClass
from chary.data.predicates.predicate import column_type
from chary.data.queries.bodies import KINDS, body_of, parsed_body, query_of
from chary.data.queries.keys import MOST, Written, key_text, split
from chary.data.queries.query import AnsweredT
from chary.data.queries.statistic import Statistic
from chary.data.universe import axes, counts
from chary.data.universe.linear import linear_of
from chary.data.universe.regions import Region, located
from chary.errors import InvalidParameter, InvalidQuery
from chary.numbers import Number, exact, flag, positive, probability, whole

# Queries over a universe as callers write them: one, all rows, or a list to make an answer for.

LinearPart = Predicate | Linear
AskedShare = Predicate | Linear | Count | Statistic | str | None
AskedQueries = Sequence[Predicate | Linear | Count | str] | Predicate | Linear | Count | str
_WANTED: Final = (
    "each query is a condition, such as \"age >= 65 AND sex = 'f'\", a count of one, or a linear query: "
    'average("age", bounds=(0, 120))'
)


def condition(where: Any) -> LinearPart | None:
    """One condition, given as text, predicate or a count of one without groups, or one linear query; None is every row,
    as is `count()`.

    `InvalidQuery` for anything else.
    """
    if isinstance(where, Count) and where.keying is None and where.without is None:
        where = where.where
    if where is not None and not isinstance(where, (str, Predicate, Linear)):
        raise InvalidQuery(_WANTED)
    if isinstance(where, Linear):
        return where
    linear = linear_of(where) if isinstance(where, str) else None
    return Predicate.of(where) if linear is None else linear


def conditions(queries: Any) -> tuple[LinearPart, ...]:
    """One query, or a list of them; a count with groups makes a condition for each. `InvalidQuery` for every row.

    >>> from chary.data import count
    >>> [asked.text for asked in conditions(["age >= 65", count().by("sex", ["f", "m"])])]
    ['age >= 65', "sex = 'f'", "sex = 'm'"]
    """
    listed = queries if isinstance(queries, (list, tuple)) else [queries]
    return tuple(each for given in listed for each in _each(given))


def promised(
    share: float, error_bar: float, asked: Sequence[LinearPart], where: AskedShare
) -> tuple[float, float] | None:
    """The interval of the true proportion if all `asked` queries are within `error_bar`; None for any other query."""
    if condition(where) not in asked:
        return None
    return max(0.0, share - error_bar), min(1.0, share + error_bar)


def region(universe: axes.Universe, schema: Schema, where: Any) -> Region | counts.WeightedRegion:
    """The cells in which a condition holds, or the weights of a linear query.

    Errors: `InvalidQuery` for what the universe cannot express.
    """
    asked = condition(where)
    return (
        counts.weighing(universe, schema, asked) if isinstance(asked, Linear) else located(universe, schema, asked)[0]
    )


def _each(given: Any) -> list[LinearPart]:
    if isinstance(given, Count) and given.keying is not None:
        return list(given.conditions())
    if (asked := condition(given)) is None:
        raise InvalidQuery(_WANTED)
    return [asked]


# Values as people write them, on a command line and in a form: numbers, lists, columns with their values; and back.
#
# Lists are written as `parse_keys` says.

_KEYED: Final = frozenset(TypeClass) - {TypeClass.FLOAT, TypeClass.OTHER}
_RANGE: Final = re.compile(r"(-?\d{1,9})\.\.(-?\d{1,9})")
_NUMERIC: Final = ("int", "uint", "float", "decimal")


class Beside(NamedTuple):
    """The context in which a text is read: the types of columns, the column whose values are listed, and the largest
    number of values. `opened` replaces the name of a list that stands elsewhere, such as in a file, by the list."""

    types: Schema = MappingProxyType({})
    column: str | None = None
    most: int = MOST
    opened: Callable[[str], str] = str

    @property
    def kind(self) -> str:
        """The type of the column whose values are listed; empty where none is known."""
        return column_type(self.types, self.column) if self.column else ""

    def of(self, column: str) -> "Beside":
        """The same for the values of this column."""
        return self._replace(column=column)


ALONE: Final = Beside()


def in_json(text: str) -> Any:
    """The value of a JSON text; `InvalidParameter` for a text that is no JSON."""
    try:
        found = parsed_body(f'{{"value": {text}}}'.encode())
    except InvalidParameter:
        found = {}
    if found.keys() == {"value"}:
        return found["value"]
    raise InvalidParameter("this is not JSON: strings and names in it need double quotes")


def as_json(value: Any) -> str:
    """A value as JSON text, which `in_json` reads."""
    return json.dumps(value, ensure_ascii=False)


def value_of(part: Written) -> Any:
    """One value: a JSON scalar where the text is one, otherwise a string; in double quotes always a string.

    >>> value_of(Written("3", False)), value_of(Written("3", True)), value_of(Written("north", False))
    (3, '3', 'north')
    """
    try:
        found = part.text if part.quoted else in_json(part.text)
    except InvalidParameter:
        return part.text
    return part.text if isinstance(found, (dict, list)) else found


def key_said(key: Any) -> Any:
    """A key in JSON. Dates and timestamps become objects, since they would be read back as strings.

    >>> key_said(date(2026, 3, 1)), key_said("north")
    ({'date': '2026-03-01'}, 'north')
    """
    if not isinstance(key, date):
        return key
    return {"timestamp" if isinstance(key, datetime) else "date": key.isoformat()}


def list_of(text: str, beside: Beside = ALONE, value: Callable[[Written], Any] = value_of) -> list[Any]:
    """The values of a list; those of a column of a known type are read as its groups.

    >>> list_of("1..3, 7", Beside({"week": "int64"}, "week"))
    [1, 2, 3, 7]
    """
    text = beside.opened(text)
    if beside.kind in _KEYED and value is value_of:
        return [key_said(key) for key in parse_keys(text, beside.kind, beside.column, most=beside.most)]
    found: list[Any] = []
    for part in (part for line in split(text) for part in line):
        span = None if part.quoted else _RANGE.fullmatch(part.text)
        found.extend([value(part)] if span is None else _range(int(span[1]), int(span[2]), beside.most))
        if len(found) > beside.most:
            raise InvalidParameter(f"a list has at most {beside.most} values")
    return found


def list_told(values: Iterable[Any], beside: Beside = ALONE) -> str:
    """A list as text, which `list_of` reads.

    >>> list_told(["north", "3", 3])
    'north, "3", 3'
    """
    return ", ".join(_value_told(value, beside.kind) for value in values)


def numbers_of(text: str, beside: Beside = ALONE) -> list[Any]:
    """Numbers, each as it is written; `InvalidParameter` for two commas without a number between them.

    >>> numbers_of("0.1, 1/3, 5..7")
    ['0.1', '1/3', 5, 6, 7]
    """
    if re.search(r",\s*,", text):
        raise InvalidParameter("a number is missing: write them with commas between them, such as 0.25,0.5,0.75")
    return list_of(text, beside, lambda part: part.text)


def numbers_told(numbers: Any, beside: Beside = ALONE) -> str:
    """Numbers, or a single one, as `numbers_of` reads them."""
    return ", ".join(map(number_told, numbers if isinstance(numbers, (list, tuple)) else [numbers]))


def number_told(value: Any, beside: Beside = ALONE) -> str:
    """A number of a call's body, as a decimal where 12 digits are exact.

    >>> number_told("1/100"), number_told("1/3"), number_told(5)
    ('0.01', '1/3', '5')
    """
    if not isinstance(value, str) or "/" not in value:
        return str(value)
    decimal = f"{float(Fraction(value)):.12g}"
    return decimal if Fraction(decimal) == Fraction(value) else value


def columns_of(
    lines: Iterable[str],
    beside: Beside,
    values: Callable[[str, Beside], list[Any]] = list_of,
    such: str = "sex=f,m",
) -> dict[str, list[Any]]:
    """Columns with their values, a line each, `clinic: north, south` or `clinic=north,south`.

    >>> columns_of(["clinic: north, south", "week=1..2"], Beside())
    {'clinic': ['north', 'south'], 'week': [1, 2]}
    """
    found: dict[str, list[Any]] = {}
    for line in filter(None, map(str.strip, lines)):
        name, text = _named(line, beside.types)
        if name is None or name in found:
            raise InvalidParameter(f"name every column once, with its values: write {such}")
        found[name] = values(text, beside.of(name))
        if sum(map(len, found.values())) > beside.most:
            raise InvalidParameter(f"columns have at most {beside.most} values together")
    return found


def columns_told(
    columns: Mapping[str, Iterable[Any]], beside: Beside, told: Callable[[Iterable[Any], Beside], str] = list_told
) -> str:
    """Columns with their values as text, which `columns_of` reads."""
    return "\n".join(f"{name}: {told(values, beside.of(name))}" for name, values in columns.items())


def _named(line: str, types: Schema) -> tuple[str | None, str]:
    """The column of a line, and the text of its values. The name of a known column may contain "=" or ":"."""
    cuts = [(line[: sign.start()].strip(), line[sign.end() :].strip()) for sign in re.finditer("[=:]", line)]
    return next((cut for cut in cuts if cut[0] in types), cuts[0] if cuts else (None, ""))


def _range(low: int, high: int, most: int) -> range:
    return range(low, min(high, low + most) + 1)


def _value_told(value: Any, kind: str) -> str:
    """A value as `list_of` reads it."""
    plain = next(iter(value.values())) if isinstance(value, dict) and len(value) == 1 else value
    if kind in _KEYED:
        return key_text(plain)
    if kind.startswith(_NUMERIC) and isinstance(value, str):
        return number_told(value)
    if not isinstance(plain, str):
        return json.dumps(plain)
    text = key_text(plain)
    return text if value_of(Written(text, False)) == plain or text[:1] == '"' else f'"{plain}"'


# The types of a call's fields: each is checked, written to JSON, described and typed in one place.


class Option(NamedTuple):
    """One of several options with which a command states a field: how it is typed, what it means, its usual value."""

    name: str
    plain: Any
    meaning: str
    flags: tuple[str, ...] = ()
    usual: Any = None


def _as_it_is(value: Any, _: Any) -> Any:
    return value


def written(value: Any) -> Any:
    """The value of a field in JSON: numbers as strings, dates as objects, and whatever has a body as its body."""
    if isinstance(value, (int, str)) or value is None:
        return value
    if isinstance(value, (tuple, list, range)):
        return [written(each) for each in value]
    if isinstance(value, Mapping):
        return {name: written(each) for name, each in value.items()}
    if isinstance(value, (Predicate, Linear)):
        return value.text
    if isinstance(value, (Algorithm, ScoreFunction, axes.Universe, Call)):
        return value.body()
    if isinstance(value, When):
        return value.name
    return str(value) if isinstance(value, Fraction) else body_of(value) if hasattr(value, "body") else key_said(value)


@dataclass(frozen=True, eq=False)
class FieldType:
    """A type of field: all that constructors, JSON, commands and forms need to know of it.

    - `check(value, name)` validates a value in the constructor, and returns what the call keeps.
    - `write` turns what is kept into JSON, which `schema` describes. `example` is such a value.
    - `read` turns a text that a person typed into what the constructor takes; `told` turns JSON into such a text.
    - A command types it as `option`, or as several `options` whose values `joined` combines.
    - A form has `control` for it, or offers `choices`. Without a control only a program can give it.
    """

    check: Callable[[Any, str], Any]
    schema: dict[str, Any]
    control: str = "text"
    read: Callable[[Any, Beside], Any] = _as_it_is
    told: Callable[[Any, Beside], str] = lambda value, _: str(value)
    option: Any = str
    options: tuple[Option, ...] = ()
    joined: Callable[[Sequence[Any], Beside], Any] | None = None
    choices: tuple[str, ...] = ()
    write: Callable[[Any], Any] = written
    example: Any = None

    @property
    def lines(self) -> bool:
        """Whether it is typed as several lines, or as a repeated option."""
        return bool(self.option == list[str])

    def is_json(self, text: str) -> bool:
        """Whether a text in a form is JSON: a list or an object where the type has any."""
        return {"[": "array", "{": "object"}.get(text[:1], "none") in str(self.schema["type"])

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> core_schema.CoreSchema:
        return core_schema.with_info_plain_validator_function(
            lambda value, info: self.check(value, str(info.field_name)),
            serialization=core_schema.plain_serializer_function_ser_schema(self.write, when_used="json"),
        )

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> dict[str, Any]:
        return dict(self.schema)


def type_of(field: Field[Any]) -> FieldType:
    """The type of a call's field: a `Literal` is a choice, and a field that only programs can give is `UNSAID`."""
    kind = field.type
    if get_origin(kind) in (Union, UnionType):
        kind = next(part for part in get_args(kind) if part is not type(None))
    if get_origin(kind) is Literal:
        return FieldType(_as_it_is, {"type": "string"}, control="choice", option=kind, choices=get_args(kind))
    return next((part for part in get_args(kind) if isinstance(part, FieldType)), UNSAID)


def described(kind: Any, told: str, **more: Any) -> dict[str, Any]:
    """A JSON schema."""
    return {"type": kind, "description": told} | more


_NUMBER: Final = described(["number", "string"], 'A number, read exactly: 0.1, "0.1" and "1/10" are one tenth.')
_NUMBERS: Final = {"type": "array", "items": _NUMBER}
_DATES: Final[dict[Any, Callable[[Any], date]]] = {"date": date.fromisoformat, "timestamp": datetime.fromisoformat}


def _text(value: Any, name: str, what: str = "name", example: str = "age") -> str:
    if isinstance(value, str) and value:
        return value
    raise InvalidParameter(f"{name} is a {what}, such as {name}={example!r}")


def _day(value: Any, name: str) -> str:
    found = value.isoformat(" ") if isinstance(value, datetime) else value
    return _text(found.isoformat() if isinstance(found, date) else found, name, "day or a time", "2014-01-01")


def _numbers(value: Any, name: str) -> tuple[Any, ...]:
    return tuple(exact(number, name) for number in _values(value, name))


def _one_or_more(value: Any, name: str) -> Any:
    one = isinstance(value, (str, bytes)) or not isinstance(value, Iterable)
    return exact(value, name) if one else _numbers(value, name)


def _values(value: Any, name: str) -> tuple[Any, ...]:
    if isinstance(value, (str, bytes, dict)) or not isinstance(value, Iterable):
        raise InvalidParameter(f"{name} is a list, such as {name}=[...]")
    return tuple(value)


def _edges(value: Any, name: str) -> tuple[Any, ...]:
    edges = _numbers(value, name)
    if len(edges) != 2:
        raise InvalidParameter(f"{name} are two numbers, such as {name}=(0, 120)")
    return edges


def _question(value: Any, name: str) -> Any:
    asked = query_of(value) if isinstance(value, dict) else value
    check_question(asked)
    return asked


def _said(value: Any) -> Any:
    made = _DATES.get(next(iter(value))) if isinstance(value, dict) and len(value) == 1 else None
    try:
        return value if made is None else made(next(iter(value.values())))
    except (TypeError, ValueError):
        raise InvalidParameter('dates are written as in {"date": "2026-03-31"}') from None


def _listed(values: Any) -> Any:
    return tuple(_said(value) for value in values) if isinstance(values, (list, tuple, range)) else values


def _columns(value: Any, name: str) -> Any:
    if not isinstance(value, Mapping):
        raise InvalidQuery(f'{name} are names and values, such as {name}={{"sex": ["f", "m"]}}')
    return {column: _listed(values) for column, values in value.items()}


def _universe(value: Any, name: str) -> axes.Universe:
    if not isinstance(value, Mapping):
        return axes.Universe.of(value)
    if value.keys() == {"columns", "missing"}:
        return axes.Universe.of_body(dict(value))
    return axes.Universe({name: _listed(of) for name, of in value.items()})


def _candidates(value: Any, name: str) -> Any:
    if isinstance(value, dict):
        return value if any(isinstance(each, (Algorithm, Call)) for each in value.values()) else query_of(value)
    if isinstance(value, (list, tuple)) and any(isinstance(each, Mapping) for each in value):
        raise InvalidParameter("algorithms cannot be read from JSON: bring them")
    return value if isinstance(value, Query) else tuple(value) if isinstance(value, (list, tuple)) else ()


def _running(value: Any, name: str) -> Any:
    asked = query_of(value) if isinstance(value, dict) else value
    if asked is None or isinstance(asked, (Predicate, str)):
        return count(asked)
    if not isinstance(asked, (Count, Sum)):
        raise InvalidQuery('give count(), a condition, such as "age >= 65", or sum("cost", bounds=(0, 5000))')
    return asked


def _scores(value: Any, name: str) -> Any:
    """A function, a query, or a list of queries, one for each candidate."""
    if isinstance(value, (ScoreFunction, Query)):
        return value
    if isinstance(value, dict):
        return query_of(value)
    if isinstance(value, (list, tuple)) and value:
        queries = tuple(query_of(each) if isinstance(each, dict) else each for each in value)
        if all(isinstance(each, Query) for each in queries):
            return queries
    raise InvalidParameter(
        f'{name} is a ScoreFunction("gap", run), a query, or a list such as [count("age < 9"), count()]'
    )


def _word(value: Any, name: str) -> str | int:
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise InvalidParameter(f"{name} is a string or an integer")
    return value


def _whole_read(text: str, _: Beside) -> Any:
    # The constructor refuses what is no integer.
    return int(text) if text.isascii() and text.removeprefix("-").isdigit() and len(text) < 400 else text


def _word_read(text: str, _: Beside) -> Any:
    """An integer where the text is one, otherwise a string; in double quotes always a string."""
    return in_json(text) if text[:1] == '"' else _whole_read(text, _) if len(text) < 16 else text


def _word_told(value: Any, _: Beside) -> str:
    plain = str(value)
    return plain if plain[:1] != '"' and _word_read(plain, _) == value else as_json(value)


def _one_or_more_read(text: str, beside: Beside) -> Any:
    found = numbers_of(text, beside)
    return found[0] if len(found) == 1 else found


def _cells_joined(said: Sequence[Any], beside: Beside) -> axes.Universe:
    bins, values, no_missing = said
    cut = columns_of(bins or [], beside, numbers_of, "--bins age=0,18,65,120")
    columns: dict[str, Any] = {name: Bins(edges) for name, edges in cut.items()}
    columns |= columns_of(values or [], beside, such="--values sex=f,m")
    if not columns or len(columns) < len(bins or []) + len(values or []):
        raise InvalidParameter("name every column once, by --bins age=0,18,65,120 or by --values sex=f,m")
    return axes.Universe({name: _listed(of) for name, of in columns.items()}, missing=not no_missing)


def _cells_told(body: Any, beside: Beside) -> str:
    plain = {name: axis["values"] for name, axis in body["columns"]} if "missing" in body else body
    return columns_told(plain, beside)


def _brought(kind: type[Any] | tuple[type[Any], ...], told: str) -> Callable[[Any, str], Any]:
    """The check of a value that only programs can give."""

    def check(value: Any, name: str) -> Any:
        if not isinstance(value, kind):
            raise InvalidParameter(told.format(name=name))
        return value

    return check


_EXAMPLE: Final = {"kind": "count", "by": {"columns": ["clinic"], "keys": [["north"], ["south"]]}}


def _query(check: Callable[[Any, str], Any], kind: Any, told: str, **more: Any) -> FieldType:
    # The kind distinguishes the body of a query from other objects.
    schema = described(kind, told, required=["kind"], properties={"kind": {"enum": list(KINDS)}}, **more)
    return replace(JSON, check=check, schema=schema, control="query", example=_EXAMPLE)


_CLINICS: Final = ["north", "south"]
_VALUES: Final = Option("values", list[str], "Public values of a column: sex=f,m.", ("--values",))
_CELLS: Final = (
    Option("bins", list[str], "Public edges of a column: age=0,18,65,120.", ("--bins",)),
    _VALUES,
    Option("no_missing", bool, "Expect no NULL and no undeclared value.", ("--no-missing",), usual=False),
)
_ENDS: Final = (
    Option("low", str, "Lower bound: smaller values are clipped to it.", usual=MISSING),
    Option("high", str, "Upper bound: larger values are clipped to it.", usual=MISSING),
)
# There is no option to forbid them: that is the default.
_BELOW: Final = (
    Option("below_margin", bool, MEANINGS["below_margin"], ("--below-margin", "--allow-false-alarms"), usual=False),
)
UNSAID: Final = FieldType(_as_it_is, {"not": {}}, "")
JSON: Final = FieldType(
    _as_it_is, {}, "json", _word_read, lambda value, _: value if isinstance(value, str) else json.dumps(value, indent=1)
)
NUMBER: Final = FieldType(exact, _NUMBER, "number", told=number_told, example="0.1")
NUMBERS: Final = FieldType(_numbers, _NUMBERS, "numbers", numbers_of, numbers_told, example=["0", "18", "65"])
TEXT: Final = FieldType(_text, {"type": "string", "minLength": 1}, example="age")
FLAG: Final = FieldType(
    flag,
    {"type": "boolean"},
    "flag",
    lambda text, _: {"on": True, "true": True, "false": False}.get(text, text),
    lambda value, _: str(value).lower(),
    bool,
    choices=("true", "false"),
)
KEYS: Final = FieldType(
    lambda value, name: _listed(_values(value, name)), {"type": "array"}, "list", list_of, list_told, example=_CLINICS
)
COLUMNS: Final = FieldType(
    _columns,
    {"type": "object", "additionalProperties": {"type": "array"}},
    "columns",
    columns_of,
    columns_told,
    list[str],
    (_VALUES,),
    example={"clinic": _CLINICS},
)
QUERY: Final = _query(_question, "object", "The body of a query: count, sum, mean, histogram or series.")

Exact = Annotated[Number, NUMBER]
Positive = Annotated[Number, replace(NUMBER, check=positive, schema=_NUMBER | {"exclusiveMinimum": 0})]
Probability = Annotated[
    Number, replace(NUMBER, check=probability, schema=_NUMBER | {"exclusiveMinimum": 0, "exclusiveMaximum": 1})
]
Whole = Annotated[
    int, FieldType(whole, {"type": "integer", "minimum": 1}, "whole", _whole_read, option=int, example=20)
]
Flag = Annotated[bool, FLAG]
BelowMargin = Annotated[bool, replace(FLAG, options=_BELOW, joined=lambda said, _: said[0] or None)]
Name = Annotated[str, TEXT]
ColumnName = Annotated[str, replace(TEXT, control="column")]
Window = Annotated[str, replace(TEXT, check=partial(_text, what="period of time", example="30 days"))]
Since = Annotated[str, replace(TEXT, check=_day)]
PredicateText = Annotated[str, replace(TEXT, control="predicate", example="age >= 65")]
Word = Annotated[
    str | int, FieldType(_word, {"type": ["string", "integer"]}, "word", _word_read, _word_told, example=1)
]
Numbers = Annotated[Sequence[Number], NUMBERS]
_SOME: Final = _NUMBERS | {"type": ["number", "string", "array"]}
OneOrMore = Annotated[
    Exact | Sequence[Number],
    replace(NUMBERS, check=_one_or_more, schema=_SOME, read=_one_or_more_read, example="0.5"),
]
_TWO: Final = _NUMBERS | {"minItems": 2, "maxItems": 2}
Edges = Annotated[
    tuple[Number, Number],
    replace(NUMBERS, check=_edges, schema=_TWO, options=_ENDS, joined=lambda said, _: said, example=["0", "120"]),
]
Values = Annotated[Iterable[Any], replace(KEYS, check=_values, write=list)]
Keys = Annotated[Iterable[Any], KEYS]
# What algorithms return: JSON values, and bytes.
Outcome = Annotated[
    Any, replace(JSON, write=lambda value: value.value if isinstance(value, Unsaid) else plain_outcome(value))
]
Outcomes = Annotated[Iterable[Any], replace(KEYS, check=_values, write=plain_outcome)]
Columns = Annotated[Mapping[str, Sequence[Any]], COLUMNS]
_UNIVERSE: Final = described("object", "A universe: columns and their cells.")
Cells = Annotated[
    axes.Universe | Mapping[str, axes.Axis | Iterable[Any]],
    replace(COLUMNS, check=_universe, schema=_UNIVERSE, told=_cells_told, options=_CELLS, joined=_cells_joined),
]
_PREDICATE: Final = described(["string", "null"], 'A predicate, such as "age >= 65 AND smoker".')
Where = Annotated[
    Predicate | str | None,
    FieldType(lambda where, _: Predicate.of(where), _PREDICATE, "predicate", example="age >= 65"),
]
Conditions = Annotated[
    AskedQueries,
    FieldType(
        lambda asked, _: conditions(asked),
        {"type": "array", "items": {"type": "string"}},
        "lines",
        lambda lines, _: [line for line in map(str.strip, lines) if line],
        lambda asked, _: "\n".join(asked),
        list[str],
        example=["age >= 65"],
    ),
]
QueryOf = Annotated[Question[AnsweredT], QUERY]
AnyQuery = QueryOf[Any]
AnyQuestion = Annotated[
    Question | Algorithm | Call[Any],
    _query(
        lambda value, name: value if isinstance(value, (Algorithm, Call)) else _question(value, name),
        "object",
        "The body of a query; an algorithm cannot be read from JSON.",
    ),
]
Running = Annotated[
    Count | Sum | Predicate | str | None,
    _query(_running, ["object", "string", "null"], "The body of a count or sum, or a condition."),
]
_LISTED: Final = "The body of a grouped query, or conditions; algorithms cannot be read from JSON."
Candidates = Annotated[
    Query | Sequence[Algorithm | Call[Any] | Predicate | str] | Mapping[str, Algorithm | Call[Any]],
    _query(_candidates, ["object", "array"], _LISTED, items={"type": "string"}),
]
_BODIES: Final = described(["object", "array"], "Bodies of queries; no JSON can state a function.")
Scores = Annotated[
    ScoreFunction | Query | Sequence[Query], replace(JSON, check=_scores, schema=_BODIES, example=_EXAMPLE)
]
Brought = Annotated[
    Algorithm | Call[Any],
    FieldType(
        _brought((Algorithm, Call), 'bring an algorithm, chary.Algorithm("median", run, epsilon=0.1), or a call'),
        described("object", "An algorithm of your own; it cannot be read from JSON."),
        "",
    ),
]
Condition = Annotated[
    When,
    FieldType(
        _brought(When, "{name} is a condition on outcomes: When('large', lambda outcome: outcome > 9)"),
        {"not": {}, "description": "A condition of your own; it cannot be read from JSON."},
        "",
    ),
]


def declared(kind: Any) -> tuple[Field[Any], ...]:
    """The fields of a kind of call."""
    return fields(kind)


def of_code(kind: type[Any]) -> bool:
    """Whether calls of this kind bring code of their author's, which no JSON and no command line can state."""
    return any(field.type in (Brought, Condition) for field in declared(kind))
