"""Types of fields of calls: how each is checked, written as JSON and described."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import date, datetime
from typing import Annotated, Any, Final

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from chary.calls.algorithm import Algorithm, When
from chary.core.plan import Question, check_question
from chary.data import Count, Linear, Predicate, Query, Sum, count
from chary.data.columns import Schema
from chary.data.queries.bodies import KINDS, body_of, query_of
from chary.data.queries.query import AnsweredT
from chary.data.universe import axes, counts
from chary.data.universe.linear import linear_of
from chary.data.universe.regions import Region, located
from chary.errors import InvalidParameter, InvalidQuery
from chary.numbers import Number, exact, flag, positive, probability, whole

# Queries over a universe as callers write them: one, all rows, or a list to make an answer for.

LinearPart = Predicate | Linear
AskedShare = Predicate | Linear | Count | str | None
AskedQueries = Sequence[Predicate | Linear | Count | str] | Predicate | Linear | Count | str
_WANTED: Final = (
    "each query is a condition, such as \"age >= 65 AND sex = 'f'\", a count of one, or a linear query: "
    'average("age", bounds=(0, 120))'
)


def condition(where: Any) -> LinearPart | None:
    """One condition, given as text, predicate or a count of one without keys, or one linear query; None is every row,
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
    """One query, or a list of them; a count with keys makes a condition for each. `InvalidQuery` for every row.

    >>> from chary.data import count
    >>> [asked.text for asked in conditions(["age >= 65", count().by("sex", ["f", "m"])])]
    ['age >= 65', "sex = 'f'", "sex = 'm'"]
    """
    listed = queries if isinstance(queries, (list, tuple)) else [queries]
    return tuple(each for given in listed for each in _each(given))


def promised(
    share: float, error_bar: float, asked: Sequence[LinearPart], where: AskedShare
) -> tuple[float, float] | None:
    """Where the true share lies if all that were asked are within `error_bar`; None for what was not asked."""
    if condition(where) not in asked:
        return None
    return max(0.0, share - error_bar), min(1.0, share + error_bar)


def region(universe: axes.Universe, schema: Schema, where: Any) -> Region | counts.WeightedRegion:
    """The cells in which one condition holds, or what each weighs; `InvalidQuery` where the universe cannot tell."""
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


# The types of a call's fields: each is checked, written to JSON and described in a JSON schema in one place.

_NUMBER = {"type": ["number", "string"], "description": 'A number, read exactly: 0.1, "0.1" and "1/10" are one tenth.'}
_NUMBERS = {"type": "array", "items": _NUMBER}
# What tells the body of a query from other objects.
_OF_QUERY: Final = {"required": ["kind"], "properties": {"kind": {"enum": list(KINDS)}}}
_DATES: Final[dict[Any, Callable[[Any], date]]] = {"date": date.fromisoformat, "timestamp": datetime.fromisoformat}


def _named(check: Callable[[Any, str], Any]) -> PlainValidator:
    """What reads a field by a check that tells the field's name."""
    return PlainValidator(lambda value, info: check(value, str(info.field_name)))


def _text(value: Any, name: str) -> str:
    if isinstance(value, str) and value:
        return value
    raise InvalidParameter(f"{name} is a name, such as {name}='age'")


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


def _question(value: Any) -> Any:
    asked = query_of(value) if isinstance(value, dict) else value
    check_question(asked)
    return asked


def _algorithm(value: Any) -> Algorithm:
    if not isinstance(value, Algorithm):
        raise InvalidParameter('bring an algorithm: chary.Algorithm("median", run, epsilon=0.1)')
    return value


def _public(value: Any) -> Any:
    """A public value as JSON that `_said` reads: dates would pass for texts."""
    if isinstance(value, datetime):
        return {"timestamp": value.isoformat()}
    return {"date": value.isoformat()} if isinstance(value, date) else value


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


def _texts(values: Iterable[Any] | None) -> list[str] | None:
    return None if values is None else [str(value) for value in values]


_AS_TEXT = PlainSerializer(str, return_type=str, when_used="json")
_AS_TEXTS = PlainSerializer(_texts, when_used="json")
_AS_TEXT_OR_TEXTS = PlainSerializer(
    lambda said: _texts(said) if isinstance(said, tuple) else str(said), when_used="json"
)
_AS_LIST = PlainSerializer(list, when_used="json")

Exact = Annotated[Number, _named(exact), _AS_TEXT, WithJsonSchema(_NUMBER)]
Positive = Annotated[Number, _named(positive), _AS_TEXT, WithJsonSchema(_NUMBER | {"exclusiveMinimum": 0})]
Probability = Annotated[
    Number,
    _named(probability),
    _AS_TEXT,
    WithJsonSchema(_NUMBER | {"exclusiveMinimum": 0, "exclusiveMaximum": 1}),
]
Whole = Annotated[int, _named(whole), WithJsonSchema({"type": "integer", "minimum": 1})]
Flag = Annotated[bool, _named(flag), WithJsonSchema({"type": "boolean"})]
Name = Annotated[str, _named(_text), WithJsonSchema({"type": "string", "minLength": 1})]
Numbers = Annotated[Sequence[Number], _named(_numbers), _AS_TEXTS, WithJsonSchema(_NUMBERS)]
OneOrMore = Annotated[
    Exact | Sequence[Number],
    _named(_one_or_more),
    _AS_TEXT_OR_TEXTS,
    WithJsonSchema(_NUMBERS | {"type": ["number", "string", "array"]}),
]
Edges = Annotated[
    tuple[Number, Number],
    _named(_edges),
    _AS_TEXTS,
    WithJsonSchema(_NUMBERS | {"minItems": 2, "maxItems": 2}),
]
Values = Annotated[Iterable[Any], _named(_values), _AS_LIST, WithJsonSchema({"type": "array"})]
Keys = Annotated[
    Iterable[Any],
    _named(lambda value, name: _listed(_values(value, name))),
    PlainSerializer(lambda keys: [_public(key) for key in keys], when_used="json"),
    WithJsonSchema({"type": "array"}),
]
Columns = Annotated[
    Mapping[str, Sequence[Any]],
    _named(_columns),
    PlainSerializer(lambda columns: {name: [_public(key) for key in keys] for name, keys in columns.items()}),
    WithJsonSchema({"type": "object", "additionalProperties": {"type": "array"}}),
]
Where = Annotated[
    Predicate | str | None,
    PlainValidator(Predicate.of),
    PlainSerializer(lambda where: None if where is None else where.text, when_used="json"),
    WithJsonSchema({"type": ["string", "null"], "description": 'A predicate, such as "age >= 65 AND smoker".'}),
]
QueryOf = Annotated[
    Question[AnsweredT],
    PlainValidator(_question),
    PlainSerializer(body_of, when_used="json"),
    WithJsonSchema(
        {"type": "object", "description": "The body of a query: count, sum, mean, histogram or series."} | _OF_QUERY
    ),
]


AnyQuery = QueryOf[Any]


def _universe(value: Any) -> axes.Universe:
    written = isinstance(value, dict) and set(value) == {"columns", "missing"}
    return axes.Universe.of_body(value) if written else axes.Universe.of(value)


Cells = Annotated[
    axes.Universe | Mapping[str, axes.Axis | Iterable[Any]],
    PlainValidator(_universe),
    PlainSerializer(lambda universe: universe.body(), when_used="json"),
    WithJsonSchema({"type": "object", "description": "A universe: columns and their cells."}),
]
Conditions = Annotated[
    AskedQueries,
    PlainValidator(conditions),
    PlainSerializer(lambda asked: [condition.text for condition in asked], when_used="json"),
    WithJsonSchema({"type": "array", "items": {"type": "string"}}),
]
Brought = Annotated[
    Algorithm,
    PlainValidator(_algorithm),
    PlainSerializer(lambda algorithm: algorithm.body(), when_used="json"),
    WithJsonSchema({"type": "object", "description": "An algorithm of your own; it cannot be read from JSON."}),
]


def _condition(value: Any, name: str) -> When:
    if not isinstance(value, When):
        raise InvalidParameter(f"{name} is a condition on outcomes: When('large', lambda outcome: outcome > 9)")
    return value


Condition = Annotated[
    When,
    _named(_condition),
    PlainSerializer(lambda when: when.name, when_used="json"),
    WithJsonSchema({"not": {}, "description": "A condition of your own; it cannot be read from JSON."}),
]


def of_code(kind: type[Any]) -> bool:
    """Whether calls of this kind bring code of their author's, which no JSON and no command line can state."""
    return any(field.type in (Brought, Condition) for field in fields(kind))


def _candidates(value: Any) -> Any:
    if isinstance(value, dict):
        return query_of(value)
    if isinstance(value, (list, tuple)) and any(isinstance(each, Mapping) for each in value):
        raise InvalidParameter("algorithms cannot be read from JSON: bring them")
    return value if isinstance(value, Query) else tuple(value) if isinstance(value, (list, tuple)) else ()


def _candidates_body(candidates: Any) -> Any:
    if isinstance(candidates, Query):
        return body_of(candidates)
    return [each.body() if isinstance(each, Algorithm) else _condition_body(each) for each in candidates]


def _condition_body(condition: Any) -> Any:
    return condition.text if isinstance(condition, Predicate) else condition


Candidates = Annotated[
    Query | Sequence[Algorithm | Predicate | str],
    PlainValidator(_candidates),
    PlainSerializer(_candidates_body, when_used="json"),
    WithJsonSchema(
        {
            "type": ["object", "array"],
            "items": {"type": "string"},
            "description": "The body of a keyed query, or conditions; algorithms cannot be read from JSON.",
        }
        | _OF_QUERY
    ),
]


AnyQuestion = Annotated[
    Question | Algorithm,
    PlainValidator(lambda value: value if isinstance(value, Algorithm) else _question(value)),
    PlainSerializer(lambda asked: asked.body() if isinstance(asked, Algorithm) else body_of(asked), when_used="json"),
    WithJsonSchema(
        {"type": "object", "description": "The body of a query; an algorithm cannot be read from JSON."} | _OF_QUERY
    ),
]


def _running(value: Any) -> Any:
    asked = query_of(value) if isinstance(value, dict) else value
    if asked is None or isinstance(asked, (Predicate, str)):
        return count(asked)
    if not isinstance(asked, (Count, Sum)):
        raise InvalidQuery('give count(), a condition, such as "age >= 65", or sum("cost", bounds=(0, 5000))')
    return asked


Running = Annotated[
    Count | Sum | Predicate | str | None,
    PlainValidator(_running, json_schema_input_type=Any),
    PlainSerializer(body_of, when_used="json"),
    WithJsonSchema(
        {"type": ["object", "string", "null"], "description": "The body of a count or sum, or a condition."} | _OF_QUERY
    ),
]


def _word(value: Any, name: str) -> str | int:
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise InvalidParameter(f"{name} is a text or a whole number")
    return value


Word = Annotated[str | int, _named(_word), WithJsonSchema({"type": ["string", "integer"]})]
