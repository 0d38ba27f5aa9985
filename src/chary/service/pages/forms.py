"""Forms of calls and runs, made from their fields, with quotes."""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass
from functools import cache
from typing import Any, Final

from chary.calls.call import FRONT, MEANINGS, SUBJECTS, Call, meaning, read
from chary.calls.fields import declared, type_of
from chary.calls.language import spoken
from chary.calls.run import Opening, Run, titled
from chary.core.quote import Quote, warns
from chary.data import Predicate, count
from chary.data.columns import Schema
from chary.errors import BudgetExceeded, CharyError, InvalidParameter, InvalidQuery
from chary.service.core.problems import LABELS, problem
from chary.service.core.requests import ANY, WORDS, in_blocks, readable_kinds, run_shown, shown_call, words_of
from chary.service.http.admission import Asking
from chary.service.pages.fields import PREFIX, FormField, Texts

# The form of a kind of call, made from its declaration: a new kind appears by itself.

# Asked for at once, beside what must be said; everything else is folded away.
_COMMON: Final = frozenset({"epsilon", "hits", "k", "rho", "rounds", "where"})
# What is asked comes before how sharply.
_FIRST: Final = ("query", "question", "candidates", "column", "columns", "condition", "where", "universe", "queries")


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
        return titled(self.kind)

    def usual(self, series: dict[str, Any] | None = None) -> Texts:
        """The strings of an empty form; of a series it is asked as a whole."""
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

    def body(self, texts: Mapping[str, str], types: Schema) -> dict[str, Any]:
        """The body of the call that a form says. Errors name the field."""
        said = {field.name: field.said(texts, types) for field in self.fields}
        return {"kind": self.kind} | {name: value for name, value in said.items() if value is not None}

    def filled(self, call: Call[Any], types: Schema) -> Texts:
        """The strings of the form that say this very call."""
        body = call.body()
        found: Texts = {}
        for field in self.fields:
            if body.get(field.name) is not None:
                found |= self._filled(call, body, field, types)
        return found

    def _filled(self, call: Call[Any], body: dict[str, Any], field: FormField, types: Schema) -> Texts:
        """In plain words where those say the same, as JSON otherwise."""
        value = body[field.name]
        try:
            texts = field.told(value, types, body.get("column"))
            if read(body | {field.name: field.said(texts | {"column": body.get("column") or ""}, types)}) == call:
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
    told = " ".join((inspect.getdoc(known) or "").partition("\n\n")[0].split())
    made = [_field(kind, each) for each in declared(known) if type_of(each).control]
    return CallForm(kind, told, issubclass(known, Opening), tuple(sorted(made, key=_place)))


def _field(kind: str, field: Field[Any]) -> FormField:
    required = field.default is MISSING
    common, usual = required or field.name in _COMMON, None if required else field.default
    return FormField(field.name, type_of(field), meaning(kind, field.name), required, common, usual)


def menu() -> list[tuple[str, list[tuple[str, str]]]]:
    """All kinds by name and title: what most people need, then the others in the order of their subjects."""
    known, subjects = readable_kinds(), list(SUBJECTS)
    front = [name for name in FRONT if name in known]
    rest = sorted(known.keys() - set(front), key=lambda name: (subjects.index(known[name].subject), name))
    return [
        (group, [(name, known[name].title) for name in names])
        for group, names in (("Most used", front), ("Advanced", rest))
    ]


def usual() -> str:
    """The kind that is asked where none is named: the first of the menu."""
    return menu()[0][1][0][0]


def _place(field: FormField) -> tuple[bool, int, bool]:
    return (not field.common, _FIRST.index(field.name) if field.name in _FIRST else len(_FIRST), not field.required)


# Quotes beside a form: what is missing yet, what is wrong and where, or the price.

# By what a call that does not fit can be made smaller.
_SIZES: Final = ("epsilon", "rho", "hits", "price")
_ASKING: Final = ("query", "predicate")
_TERMS: Final = ("tests", "truth")


@dataclass(frozen=True)
class Quoted:
    """What is reported next to a form. `field` is the control that a problem is about; `reads` how a condition is
    read."""

    quote: Quote | None = None
    problem: dict[str, Any] | None = None
    field: str | None = None
    missing: tuple[FormField, ...] = ()
    reads: tuple[str, ...] = ()
    compared: bool = False

    @property
    def lines(self) -> list[tuple[str, bool]]:
        """The quote in sentences, and which of them warn."""
        return [] if self.quote is None else [(spoken(line, LABELS), warns(line)) for line in self.quote.lines()]


def quoted(on: Asking, form: CallForm, texts: Texts, said: Mapping[str, str], *, compared: bool) -> Quoted:
    """The quote of what a form says; nothing is charged or read."""

    def quote() -> Quote:
        session = in_blocks(on.served.asked_by(on.who.analyst), blocks_said(said))
        call = shown_call(on.served, on.who, session, form.body(texts, on.served.session.schema))
        return session.quote(call, **_terms(said))

    return _quoted(on, form.fields, texts, quote, compared=compared)


def _quoted(
    on: Asking, fields: tuple[FormField, ...], texts: Texts, quote: Callable[[], Quote], *, compared: bool = False
) -> Quoted:
    """The quote of these fields, once everything that is required is filled in."""
    types = on.served.session.schema
    try:
        reads = tuple(conditions_read(on, fields, texts))
        missing = tuple(each for each in fields if each.required and each.said(texts, types) is None)
        if missing:
            return Quoted(missing=missing, reads=reads)
        return Quoted(quote=quote(), reads=reads, compared=compared)
    except CharyError as error:
        return refused(fields, texts, error)


def refused(fields: tuple[FormField, ...], texts: Texts, error: Exception) -> Quoted:
    """A refusal, and the control that it is about."""
    return Quoted(problem=problem(error, LABELS), field=control_of(fields, texts, error))


def control_of(fields: tuple[FormField, ...], texts: Texts, error: Exception) -> str | None:
    """The control that an error is about: that of its field; of a query, the part that it speaks of."""
    named = error.field if isinstance(error, CharyError) else None
    if isinstance(error, BudgetExceeded):
        named = next((name for name in _SIZES if texts.get(name)), None)
    field = next((each for each in fields if each.name == named), None)
    if named is None and isinstance(error, InvalidQuery):
        asked = [each for each in fields if each.control == "query" or texts.get(each.name)]
        spoken = [each for each in asked if re.search(rf"\b{each.name}\b", str(error))]
        field = next((each for each in (*spoken, *asked) if each in spoken or each.control in _ASKING), None)
    if field is None:
        return None
    return field.name if field.control != "query" else f"{field.name}.{_part(field, texts, str(error))}"


def _part(field: FormField, texts: Texts, told: str) -> str:
    """The part of a query that words are about."""
    kind = texts.get(f"{field.name}.kind", "")
    if kind in ("json", "conditions"):
        return kind
    if "key" in told or "per_unit" in told or "per unit" in told:
        return "keys"
    if "column, with" in told or "bounds" in told:
        return "column"
    return "where" if texts.get(f"{field.name}.where") else "kind"


def conditions_read(on: Asking, fields: tuple[FormField, ...], texts: Texts) -> list[str]:
    """How each condition is read; the first that cannot be is refused, with its control."""
    names = [field.name for field in fields if field.control == "predicate"]
    names += [f"{field.name}.where" for field in fields if field.control == "query"]
    return [_read(on, name, texts[name].strip()) for name in names if texts.get(name, "").strip()]


def _read(on: Asking, name: str, text: str) -> str:
    try:
        condition = Predicate.parse(text)
        on.served.session.spine.rows.prepare(count(condition))
    except CharyError as error:
        error.field = name.partition(".")[0]
        raise
    return condition.text


def blocks_said(said: Mapping[str, str]) -> dict[str, str] | None:
    """The first and the last block that a form names; None for all."""
    return {end: said[end].strip() for end in ("since", "until") if said.get(end, "").strip()} or None


def _terms(said: Mapping[str, str]) -> dict[str, Any]:
    """The terms of a quote: how many tests are expected, of truths up to what."""
    found: dict[str, Any] = {name: said[name].strip() for name in _TERMS if said.get(name, "").strip()}
    if "tests" in found:
        if not (found["tests"].isascii() and found["tests"].isdigit() and len(found["tests"]) < 16):
            raise InvalidParameter("the number of expected tests is an integer")
        found["tests"] = int(found["tests"])
    return found


# The form of a question to an open run, made from the words that it takes.


def run_of(on: Asking, number: int) -> Run[Any, Any]:
    """The run of that number, if it is shown to who asks; `NotWithheld` otherwise."""
    return run_shown(on.served, on.who, on.served.asked_by(on.who.analyst), number)


def run_fields(run: Run[Any, Any]) -> tuple[FormField, ...]:
    """The words of a question to this run."""
    return tuple(_word_field(name, word.default) for name, word in run.words.items())


def _word_field(name: str, usual: Any) -> FormField:
    kind, told = WORDS.get(name, (ANY, MEANINGS.get(name, "")))
    return FormField(name, kind, told, usual is inspect.Parameter.empty, True, usual if usual is False else None)


def question_of(fields: tuple[FormField, ...], texts: Texts, types: Schema) -> dict[str, Any]:
    """The words that a form says. Errors name the field."""
    said = {field.name: field.said(texts, types) for field in fields}
    return {name: value for name, value in said.items() if value is not None and value is not False}


def question_quoted(on: Asking, run: Run[Any, Any], texts: Texts) -> Quoted:
    """What a question to a run would cost now."""
    types, fields = on.served.session.schema, run_fields(run)
    return _quoted(on, fields, texts, lambda: run.quote(**words_of(run, question_of(fields, texts, types))))
