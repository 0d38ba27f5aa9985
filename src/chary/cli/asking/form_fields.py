"""The fields of calls as options: what is typed for each type of field, and what the constructor takes for it."""

import inspect
import re
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, fields
from typing import Annotated, Any, Final, Literal, NamedTuple, Union, get_args, get_origin

import typer

from chary.calls import Call
from chary.calls import fields as typed
from chary.calls.call import MEANINGS
from chary.cli.asking.cells import keys_of, listed, listed_lines, ranges, universe
from chary.cli.asking.opened import Opened
from chary.cli.asking.options import BelowMargin, Cut, Listed, NoMissing, Ranged
from chary.data.columns import classify
from chary.errors import InvalidParameter

Typed = Mapping[str, Any]
KEYWORD: Final = inspect.Parameter.KEYWORD_ONLY
QUESTIONS: Final = ("query", "question", "candidates")
# Options that mean something else for the dataset or the question have another name here.
NAMES: Final = {
    "by": "mechanism",
    "epsilon": "epsilon_per_call",
    "rho": "rho_per_call",
    "delta": "delta_per_call",
    "sensitivity": "query_sensitivity",
    "value": "value_share",
}
# Quantiles have no default in a call; typed without --at they are the usual three.
QUARTILES: Final = "0.25,0.5,0.75"


class FieldOption(NamedTuple):
    """A field of a call: the parameters of its command that state it, and what they say in a session."""

    field: str
    parameters: tuple[inspect.Parameter, ...]
    read: Callable[[Typed, Opened], Any]


def options(kind: type[Call[Any]], changed: Mapping[str, FieldOption]) -> list[FieldOption]:
    """An option for each field, but for the question and epsilon, which all commands state in the same words.

    What must be said comes first. Those that are changed are stated as they say, whatever their field is. A condition
    is code, and has no option.
    """
    named = (field for field in declared(kind) if field.name not in (*QUESTIONS, "epsilon"))
    own = [field for field in named if _unwrapped(field.type) != typed.Condition]
    own.sort(key=lambda field: field.default is not MISSING)
    return [changed.get(field.name) or _option(field) for field in own]


def declared(kind: Any) -> tuple[Field[Any], ...]:
    """The fields of a kind of call."""
    return fields(kind)


def flag(name: str) -> str:
    """How an option is typed.

    >>> flag("each_row")
    '--each-row'
    """
    return f"--{name.replace('_', '-')}"


def typed_as(field: str) -> str:
    """The name of the option that states a field of a call.

    >>> typed_as("epsilon"), typed_as("within")
    ('epsilon_per_call', 'within')
    """
    return NAMES.get(field, field)


# A call, which is shown as it is, or what one says of a field.
_SAID: Final = re.compile(
    r"""[\w.]+\([^()]*\)|\b(?P<field>[a-z_]+)=(?P<value>\{[^{}]*\}|[\w.]+\([^()]*\)|["']?[\w-]*(?:[./]\w+)*["']?)"""
)


# A name with its value in a dictionary.
_PAIRED: Final = re.compile(r"""["'](\w+)["']: *["']([^"']+)["']""")


def spoken(told: str, options: Iterable[str]) -> str:
    """A refusal of the library in the words of a command line that has these options.

    >>> spoken("give tests= as well, such as tests=100, or epsilon=", ["tests", "epsilon", "epsilon_per_call"])
    'give --tests as well, such as --tests 100, or --epsilon-per-call'
    >>> spoken("declare columns={'age': 'BIGINT', 'day': 'DATE'}", ["columns"])
    'declare --columns age=BIGINT,day=DATE'
    """
    known = frozenset(options)

    def typed_out(said: re.Match[str]) -> str:
        field = said["field"] or ""
        name = typed_as(field) if typed_as(field) in known else field
        if name not in known:
            return said[0]
        value = _PAIRED.sub(r"\1=\2", said["value"]).strip("\"'{}").replace(", ", ",")
        return flag(name) if value in ("", "True") else f"{flag(name)} {value}"

    return _SAID.sub(typed_out, told)


def _option(field: Field[Any]) -> FieldOption:
    if field.name in _SEVERAL:
        return _SEVERAL[field.name]
    kind = _unwrapped(field.type)
    if kind == typed.Edges:
        ends = tuple(stating(name, str, MEANINGS[name]) for name in ("low", "high"))
        return FieldOption(field.name, ends, lambda said, _: (said["low"], said["high"]))
    annotation, read = _stated(field, kind)
    default = _default(field, kind)
    name, shown = typed_as(field.name), annotation if default is not None else annotation | None
    parameter = stating(name, shown, MEANINGS[field.name], default)
    return FieldOption(field.name, (parameter,), lambda said, asked: read(said[name], said, asked))


def _default(field: Field[Any], kind: Any) -> Any:
    if field.default is not MISSING:
        return field.default
    return QUARTILES if (field.name, kind) == ("at", typed.Numbers) else inspect.Parameter.empty


def _stated(field: Field[Any], kind: Any) -> tuple[Any, Callable[[Any, Typed, Opened], Any]]:
    """The type of what is typed for a field, and how it is read."""
    if field.name == "among":
        return str, lambda text, said, asked: _among(text, said["column"], asked)
    if kind == typed.Numbers:
        return str, lambda text, *_: _numbers(text, field.name)
    if kind == typed.Conditions:
        return list[str], lambda texts, *_: listed_lines(texts)
    if get_origin(kind) is Literal:
        return kind, lambda word, *_: word
    known: Any = next((plain for found, plain in _PLAIN if kind == found), None)
    if known is None:
        raise TypeError(f"a command line has no words for the type of {field.name}")
    return known, lambda value, *_: value


def stating(name: str, annotation: Any, told: str, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    """The parameter of a command that states a field."""
    shown = str(default) if annotation is str and default not in (None, inspect.Parameter.empty) else default
    return inspect.Parameter(name, KEYWORD, default=shown, annotation=Annotated[annotation, typer.Option(help=told)])


def _unwrapped(kind: Any) -> Any:
    """The type itself of one that may be None."""
    if get_origin(kind) in (Union, types.UnionType):
        return next(part for part in get_args(kind) if part is not type(None))
    return kind


def _numbers(text: str, name: str) -> list[str]:
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise InvalidParameter(f"--{name} takes numbers with commas between them, such as --{name} 0.25,0.5,0.75")
    return parts


def _among(text: str, column: str, asked: Opened) -> list[Any]:
    return keys_of(text, str(classify(asked.session.schema, column)), column)


def _cells(said: Typed, asked: Opened) -> Any:
    return universe(asked.session.schema, said["bins"] or [], said["values"] or [], said["no_missing"])


def _columns(said: Typed, asked: Opened) -> Any:
    return listed(asked.session.schema, said["values"] or [])


_PLAIN: Final = [
    (typed.Exact, str),
    (typed.Positive, str),
    (typed.Probability, str),
    (typed.Name, str),
    (typed.Where, str),
    (typed.Whole, int),
    (typed.Flag, bool),
]
_SEVERAL: Final = {
    "below_margin": FieldOption(
        "below_margin",
        (inspect.Parameter("below_margin", KEYWORD, default=False, annotation=BelowMargin),),
        lambda said, _: said["below_margin"] or None,
    ),
    "universe": FieldOption(
        "universe",
        (
            inspect.Parameter("bins", KEYWORD, default=None, annotation=Cut),
            inspect.Parameter("values", KEYWORD, default=None, annotation=Listed),
            inspect.Parameter("no_missing", KEYWORD, default=False, annotation=NoMissing),
        ),
        _cells,
    ),
    "ranges": FieldOption(
        "ranges",
        (inspect.Parameter("ranges", KEYWORD, default=None, annotation=Ranged),),
        lambda said, _: ranges(said["ranges"] or []),
    ),
    "columns": FieldOption(
        "columns", (inspect.Parameter("values", KEYWORD, default=None, annotation=Listed),), _columns
    ),
}
