"""Quotes beside a form: what is missing yet, what is wrong and where, or the price."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from chary.core.quote import Quote, warns
from chary.data import Predicate, count
from chary.errors import BudgetRefused, CharyError, InvalidParameter, InvalidQuery
from chary.service.api.places import Asking
from chary.service.page.asking.call_forms import CallForm
from chary.service.page.asking.form_fields import FormField, Texts
from chary.service.serving.wishes import shown_call
from chary.service.wire.problems import problem

# By what a call that does not fit can be made smaller.
_SIZES: Final = ("epsilon", "rho", "hits", "price")
_ASKING: Final = ("query", "predicate")
_TERMS: Final = ("tests", "truth")


@dataclass(frozen=True)
class Quoted:
    """What is told beside a form. `field` is the control that a problem is about; `reads` how a condition is read."""

    quote: Quote | None = None
    problem: dict[str, Any] | None = None
    field: str | None = None
    missing: tuple[FormField, ...] = ()
    reads: tuple[str, ...] = ()
    compared: bool = False

    @property
    def lines(self) -> list[tuple[str, bool]]:
        """The quote in sentences, and which of them warn."""
        return [] if self.quote is None else [(line, warns(line)) for line in self.quote.lines()]


def quoted(on: Asking, form: CallForm, texts: Texts, said: Mapping[str, str], *, compared: bool) -> Quoted:
    """The quote of what a form says; nothing is charged or read."""
    types = on.served.session.schema
    try:
        reads = tuple(conditions_read(on, form.fields, texts))
        missing = tuple(form.missing(texts, types))
        if missing:
            return Quoted(missing=missing, reads=reads)
        session = on.served.asked_by(on.who.analyst)
        call = shown_call(on.served, on.who, session, form.body(texts, types))
        return Quoted(quote=session.quote(call, **_terms(said)), reads=reads, compared=compared)
    except CharyError as error:
        return refused(form, texts, error)


def refused(form: CallForm, texts: Texts, error: Exception) -> Quoted:
    """A refusal, and the control that it is about."""
    return Quoted(problem=problem(error), field=control_of(form.fields, texts, error))


def control_of(fields: tuple[FormField, ...], texts: Texts, error: Exception) -> str | None:
    """The control that an error is about: that of its field; of a query, the part that it speaks of."""
    named = error.field if isinstance(error, CharyError) else None
    if isinstance(error, BudgetRefused):
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


def _terms(said: Mapping[str, str]) -> dict[str, Any]:
    """The terms of a quote: how many tests are expected, of truths up to what."""
    found: dict[str, Any] = {name: said[name].strip() for name in _TERMS if said.get(name, "").strip()}
    if "tests" in found:
        if not (found["tests"].isascii() and found["tests"].isdigit() and len(found["tests"]) < 16):
            raise InvalidParameter("expected tests are a whole number")
        found["tests"] = int(found["tests"])
    return found
