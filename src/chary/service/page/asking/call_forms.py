"""The form of a kind of call, made from its declaration: a new kind appears by itself."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from chary.calls.call import MEANINGS, Call, read
from chary.calls.run import Opening
from chary.errors import CharyError, InvalidParameter
from chary.service.page.asking.form_fields import PREFIX, FormField, Texts, field_of, writable
from chary.service.page.asking.said_values import Types
from chary.service.serving.wishes import readable_kinds
from chary.service.wire.call_schemas import call_schemas

USUAL: Final = "watch"
# Asked for at once, beside what must be said; everything else is folded away.
_COMMON: Final = frozenset({"epsilon", "hits", "k", "rho", "rounds", "where"})
# What is asked comes before how sharply.
_FIRST: Final = ("query", "question", "candidates", "column", "columns", "condition", "where", "universe", "queries")
# Those that most people come for, then the rooms of the others.
_BEGIN: Final = ("watch", "test", "release_if", "release", "histogram", "quantiles", "top", "sparse_vector")
_ROOMS: Final[Mapping[str, str]] = {
    "thresholds": "Tests against a bar",
    "numbers": "Noisy numbers",
    "selection": "Choices",
    "sparse": "Many tests, one bar",
    "individual": "Each unit pays for itself",
    "growing": "Growing data",
    "sketches": "Sketches",
    "weights": "Public weights",
    "synthesis": "Synthetic data",
    "gaussian": "Tests by Gaussian noise",
    "algorithms": "Algorithms",
    "votes": "Votes",
}


@dataclass(frozen=True)
class CallForm:
    """The form of one kind: `begun` says that it opens a run."""

    kind: str
    told: str
    begun: bool
    fields: tuple[FormField, ...]

    @property
    def title(self) -> str:
        """The kind as people read it."""
        return self.kind.replace("_", " ").capitalize()

    def usual(self, series: dict[str, Any] | None = None) -> Texts:
        """The texts of an empty form; of a series it is asked as a whole."""
        texts = {field.name: "on" for field in self.fields if field.control == "flag" and field.usual is True}
        asked = (
            [] if series is None else [field for field in self.fields if field.control == "query" and field.required]
        )
        return texts | {name: text for field in asked for name, text in field.as_json(series).items()}

    @property
    def rare(self) -> list[str]:
        """The fields that are folded away."""
        return [field.name for field in self.fields if not field.common]

    def told_rarely(self, texts: Mapping[str, str]) -> bool:
        """Whether something of these is said that is not the usual."""
        rare = [field for field in self.fields if not field.common]
        return any(
            text and text != field.usual_text and name.partition(".")[0] == field.name
            for field in rare
            for name, text in texts.items()
        )

    def body(self, texts: Mapping[str, str], types: Types) -> dict[str, Any]:
        """The body of the call that a form says. Errors name the field."""
        said = {field.name: field.said(texts, types) for field in self.fields}
        return {"kind": self.kind} | {name: value for name, value in said.items() if value is not None}

    def missing(self, texts: Mapping[str, str], types: Types) -> list[FormField]:
        """What must be said and is not."""
        return [field for field in self.fields if field.required and field.said(texts, types) is None]

    def filled(self, call: Call[Any], types: Types) -> Texts:
        """The texts of the form that say this very call."""
        body = call.body()
        found: Texts = {}
        for field in self.fields:
            if body.get(field.name) is not None:
                found |= self._filled(call, body, field, types)
        return found

    def _filled(self, call: Call[Any], body: dict[str, Any], field: FormField, types: Types) -> Texts:
        """In plain words where those say the same, as JSON otherwise."""
        value = body[field.name]
        try:
            texts = field.told(value, types)
            if read(body | {field.name: field.said(texts, types)}) == call:
                return texts
        except (CharyError, AttributeError, KeyError, TypeError, ValueError):
            pass
        return field.as_json(value)


def texts_of(fields: Mapping[str, str]) -> Texts:
    """What a posted form says of a call."""
    return {name.removeprefix(PREFIX): text for name, text in fields.items() if name.startswith(PREFIX)}


@cache
def form_of(kind: str) -> CallForm:
    """The form of that kind; `InvalidParameter` for one that no form can say."""
    known = readable_kinds().get(kind)
    if known is None:
        raise InvalidParameter("there is no such kind of call")
    schema = _schemas()[known.__name__]
    required = set(schema["required"])
    fields = [
        field_of(
            name,
            each,
            meaning=MEANINGS.get(name, ""),
            required=name in required,
            common=name in required | _COMMON,
        )
        for name, each in schema["properties"].items()
        if name != "kind" and writable(each)
    ]
    told = " ".join(schema["description"].split())
    return CallForm(kind, told, issubclass(known, Opening), tuple(sorted(fields, key=_place)))


def menu() -> list[tuple[str, list[tuple[str, str]]]]:
    """All kinds by room: name and title."""
    rooms: dict[str, list[str]] = {"Begin with": list(_BEGIN)} | {title: [] for title in _ROOMS.values()}
    for name, kind in readable_kinds().items():
        rooms.setdefault(_ROOMS.get(kind.subject, kind.subject.capitalize()), []).append(name)
    return [(room, [(name, form_of(name).title) for name in names]) for room, names in rooms.items() if names]


@cache
def _schemas() -> dict[str, dict[str, Any]]:
    return call_schemas()


def _place(field: FormField) -> tuple[bool, int, bool]:
    return (not field.common, _FIRST.index(field.name) if field.name in _FIRST else len(_FIRST), not field.required)
