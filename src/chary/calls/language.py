"""Messages for the interface in which they are read.

The library writes a message once, in Python: `hits=20`, `count().by("clinic", ["a", "b"])`. This module finds the
Python in a message, and a `Language` replaces it by options of a command, fields of a body or labels of a form. All
other words stay as they are.
"""

import ast
import inspect
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Final, NamedTuple

from chary import data
from chary.calls.call import Call, kinds

# An option or a quoted text, which stay; a call; a field with its value; a name with underscores.
_CODE: Final = re.compile(
    r"""(?<!\w)(?:--[a-z-]+(?: \S+)?|"[^"]*"|'[^']*')(?!\w)"""
    r"""|(?<![\w.?&/,=-])(?:(?P<call>(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*\()|(?P<field>[a-z]\w*)=(?!=))"""
    r"""|(?<![\w.?&/,=-])(?P<name>[a-z]+(?:_[a-z]+)+)\b"""
)
_VALUE: Final = re.compile(r"-?\d[\w.+*/-]*\b|[A-Za-z_][\w.]*(?:-\w+)*")
_CHAINED: Final = re.compile(r"\.\w+\(")
_CLOSING: Final = {"(": ")", "[": "]", "{": "}"}
# The functions that make queries, by the kind in a body.
QUERIES: Final[Mapping[str, Callable[..., Any]]] = {
    "count": data.count,
    "sum": data.sum,
    "mean": data.mean,
    "histogram": data.histogram,
}
# The functions that make linear queries, which all languages write as text.
_LINEAR: Final[Mapping[str, Callable[..., Any]]] = {"average": data.average, "weighted": data.weighted}
# The functions to which calls are passed, and those that put a question to a run.
_ASKED: Final = frozenset({"session.ask", "session.start"})
OF_A_RUN: Final = frozenset({"ask", "run.ask"})
# Code of a caller, which only a program can bring.
_BROUGHT: Final = frozenset({"Algorithm", "AlgorithmBox", "ChangingBox", "CountsBox", "ScoreFunction", "When"})
_PARAMETERS: Final[Mapping[str, tuple[str, ...]]] = {
    "Budget": ("epsilon", "delta"),
    "Blocks": ("column", "every", "since"),
    "ask": ("query",),
    "blocks": ("since", "until"),
    "by": ("by", "keys"),
    "resume": ("run",),
}


class _Name(str):
    """A name that stands for any value, such as `query`."""

    __slots__ = ()


class Said(NamedTuple):
    """An argument in a message: its name, its text in Python (empty where it is left open), and its value."""

    name: str
    text: str
    value: Any = None

    @property
    def open(self) -> bool:
        """Whether the reader has to fill it in."""
        return not self.text or isinstance(self.value, _Name)


class Called(NamedTuple):
    """A call: what is called, in full and without its module, and its arguments by the names of the parameters."""

    name: str
    arguments: tuple[Said, ...]

    @property
    def plain(self) -> str:
        """The name without its module."""
        return self.name.rpartition(".")[2]

    @property
    def kind(self) -> type[Call[Any]] | None:
        """The kind of call that is made, by its class or by a verb of a session, if one is."""
        made = _classes().get(self.plain)
        return _verbs().get(self.plain) if self.name.startswith("session.") else made

    @property
    def inner(self) -> "Called | None":
        """The call that is the only argument."""
        only = self.arguments[0].value if len(self.arguments) == 1 else None
        return only if isinstance(only, Called) else None

    @property
    def linear(self) -> str | None:
        """The text of a linear query."""
        if self.plain not in _LINEAR or not self.arguments:
            return None
        first, *others = self.arguments
        value = list(first.value.items()) if isinstance(first.value, dict) else first.value
        parts = {self.plain: value} | {each.name: each.value for each in others}
        return as_json(parts)

    @property
    def brought(self) -> str | None:
        """The words for something that only a program can give; None for anything else."""
        return f"{self.plain} (in Python)" if self.plain in _BROUGHT else None


class Language(ABC):
    """How an interface writes the Python in messages; `row_level` is how it writes `privacy_unit=None`."""

    row_level: ClassVar[str]

    def field(self, said: Said) -> str:
        """A field, alone or with its value."""
        rows_are_units = said.name == "privacy_unit" and said.value is None and said.text
        return self.row_level if rows_are_units else self._field(said)

    def call(self, called: Called) -> str | None:
        """A call, also one that is passed to a session; None for one that stays, such as a function in a condition."""
        inner = called.inner if called.name in _ASKED else None
        return self._call(called if inner is None else inner)

    @abstractmethod
    def _field(self, said: Said) -> str:
        """Any other field."""

    @abstractmethod
    def _call(self, called: Called) -> str | None:
        """A call of chary, or of any other function."""

    def name(self, name: str) -> str:
        """A name with underscores that stands alone."""
        return name


def spoken(message: str, language: Language) -> str:
    """A message of the library in another language; what is quoted stays."""
    parts, at = [], 0
    while (found := _CODE.search(message, at)) is not None:
        end, said = found.end(), None
        if found["name"]:
            said = language.name(found["name"])
        elif found["field"]:
            end = _value_end(message, end)
            text = message[found.end() : end]
            said = language.field(Said(found["field"], text, _value(text)))
        elif found["call"]:
            end = _call_end(message, found.start())
            called = _called(message[found.start() : end])
            said = None if called is None else language.call(called)
        parts += [message[at : found.start()], message[found.start() : end] if said is None else said]
        at = end
    return "".join([*parts, message[at:]])


def as_json(value: Any) -> str:
    """A value that Python writes, as JSON; `...` for one that the reader has to fill in."""
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(as_json, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{json.dumps(str(name))}: {as_json(each)}' for name, each in value.items())}}}"
    if value is ... or isinstance(value, (_Name, Called)):
        return "..."
    return json.dumps(value, ensure_ascii=False)


def listed(value: Any) -> list[Any]:
    """The values of a list, or the one that stands for it."""
    return list(value) if isinstance(value, (list, tuple)) else [value]


# Parsing the Python in messages.


def _value_end(message: str, at: int) -> int:
    """Where the value ends that begins there; the same place where there is none."""
    first = message[at : at + 1]
    if first and first in "'\"":
        return message.find(first, at + 1) + 1 or at
    if first in _CLOSING:
        return _closed(message, at)
    found = _VALUE.match(message, at)
    if found is None:
        return at
    return _call_end(message, at) if message[found.end() : found.end() + 1] == "(" else found.end()


def _call_end(message: str, at: int) -> int:
    """Where a call ends, with what is called on it."""
    end = _closed(message, message.index("(", at))
    while (more := _CHAINED.match(message, end)) is not None:
        end = _closed(message, more.end() - 1)
    return end


def _closed(message: str, at: int) -> int:
    """Behind the bracket that closes the one there; the end where none does."""
    waiting, quoted = list[str](), ""
    for place in range(at, len(message)):
        sign = message[place]
        if quoted:
            quoted = "" if sign == quoted else quoted
        elif sign in "'\"":
            quoted = sign
        elif sign in _CLOSING:
            waiting.append(_CLOSING[sign])
        elif waiting and sign == waiting[-1]:
            waiting.pop()
            if not waiting:
                return place + 1
    return len(message)


def _parsed(text: str) -> ast.expr | None:
    try:
        return ast.parse(text, mode="eval").body
    except SyntaxError:
        return None


def _value(text: str) -> Any:
    """The value of a text; words that are no Python literal are a string."""
    node = _parsed(text) if text else None
    if node is None or isinstance(node, (ast.Name, ast.BinOp)):
        return text
    return _read(node, text)


def _called(text: str) -> Called | None:
    """A call with its arguments; None for what is no Python. An argument without a value, `hits=`, is open."""
    filled = re.sub(r"=(?=[,)])", "=...", text)
    node = _parsed(filled)
    return _call(node, filled) if isinstance(node, ast.Call) else None


def _call(node: ast.Call, source: str) -> Called:
    arguments = [(None, each) for each in node.args] + [(each.arg, each.value) for each in node.keywords]
    if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Call):
        query = _call(node.func.value, source)
        return Called(query.name, (*query.arguments, *_named(node.func.attr, arguments, source)))
    name = ast.unparse(node.func)
    return Called(name, tuple(_named(name.rpartition(".")[2], arguments, source)))


def _named(called: str, arguments: Iterable[tuple[str | None, ast.expr]], source: str) -> Iterator[Said]:
    """The arguments by the names of the parameters; a `...` that stands for the others is left out."""
    made: Any = {**_verbs(), **QUERIES, **_LINEAR, **_classes()}.get(called)
    names = iter(_PARAMETERS.get(called, () if made is None else tuple(inspect.signature(made).parameters)))
    for own, node in arguments:
        value = _read(node, source)
        if own is not None or value is not ...:
            text = "" if value is ... else ast.get_source_segment(source, node) or ""
            yield Said(own or next(names, ""), text, value)


def _read(node: ast.expr, source: str) -> Any:
    """The value of an expression; `...` for one that is not written out."""
    if isinstance(node, ast.Name):
        return _Name(node.id)
    if isinstance(node, ast.Call):
        return ... if ast.unparse(node.func) == "range" else _call(node, source)
    try:
        found = ast.literal_eval(node)
    except ValueError:
        return [_read(each, source) for each in node.elts] if isinstance(node, (ast.List, ast.Tuple)) else ...
    return ... if found == [...] else found


def _verbs() -> Mapping[str, type[Call[Any]]]:
    return {kind.name: kind for kind in kinds().values()}


def _classes() -> Mapping[str, type[Call[Any]]]:
    return {kind.__name__: kind for kind in kinds().values()}
