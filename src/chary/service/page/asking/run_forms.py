"""The form of a question to an open run, made from the words that it takes."""

import inspect
from collections.abc import Mapping
from typing import Any, Final

from chary.calls.call import MEANINGS
from chary.calls.run import Run
from chary.errors import CharyError
from chary.service.api.places import Asking
from chary.service.page.asking.form_fields import FormField, Texts
from chary.service.page.asking.quoted import Quoted, conditions_read, control_of
from chary.service.page.asking.said_values import Types
from chary.service.serving.wishes import run_shown, words_of
from chary.service.wire.problems import problem

_CONTROLS: Final[Mapping[str, str]] = {
    "above": "number",
    "algorithm": "json",
    "only_new": "flag",
    "priors": "json",
    "query": "query",
    "targets": "json",
    "where": "predicate",
}
_MEANINGS: Final[Mapping[str, str]] = {
    "above": "The threshold of this question, where it brings its own.",
    "algorithm": 'A call, such as {"kind": "test", "query": {"kind": "count"}, "above": 500, "hits": 20}.',
    "only_new": "Only what is not told yet.",
    "priors": "What is expected of each target.",
    "targets": "What is a hit, for each target.",
    "where": "The condition whose share is asked.",
}


def run_of(on: Asking, number: int) -> Run[Any, Any]:
    """The run of that number, if it is shown to who asks; `UnknownHeld` otherwise."""
    return run_shown(on.served, on.who, on.served.asked_by(on.who.analyst), number)


def run_fields(run: Run[Any, Any]) -> tuple[FormField, ...]:
    """The words of a question to this run."""
    return tuple(
        FormField(
            name,
            _CONTROLS.get(name, "text"),
            _MEANINGS.get(name) or MEANINGS.get(name, ""),
            word.default is inspect.Parameter.empty,
            True,
        )
        for name, word in run.words.items()
    )


def question_of(fields: tuple[FormField, ...], texts: Texts, types: Types) -> dict[str, Any]:
    """The words that a form says. Errors name the field."""
    said = {field.name: field.said(texts, types) for field in fields}
    return {name: value for name, value in said.items() if value is not None and value is not False}


def question_quoted(on: Asking, run: Run[Any, Any], texts: Texts) -> Quoted:
    """What a question to a run would cost now."""
    types, fields = on.served.session.schema, run_fields(run)
    try:
        reads = tuple(conditions_read(on, fields, texts))
        missing = tuple(each for each in fields if each.required and each.said(texts, types) is None)
        if missing:
            return Quoted(missing=missing, reads=reads)
        return Quoted(quote=run.quote(**words_of(run, question_of(fields, texts, types))), reads=reads)
    except CharyError as error:
        return question_refused(run, texts, error)


def question_refused(run: Run[Any, Any], texts: Texts, error: Exception) -> Quoted:
    """A refusal, and the control that it is about."""
    return Quoted(problem=problem(error), field=control_of(run_fields(run), texts, error))
