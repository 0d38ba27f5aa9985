"""Signatures that a person can read: of every call, and of every verb of a session, all options by name."""

import inspect

import pytest

from chary.calls import kinds
from chary.client import AsyncRemote, Remote, connect_async
from chary.session import Session
from tests.conformance.test_values import ordered

CALLS = {name: kinds()[name] for name in ("release", "test", "release_if")}
CODE = ("Annotated", "Validator", "Serializer", "Schema", "<function", "decimal.")
READABLE = 600


def of(thing):
    """A signature, once it is known that nothing hides in it."""
    signature = inspect.signature(thing)
    kinds_of = {parameter.kind for parameter in signature.parameters.values()}
    assert inspect.Parameter.VAR_KEYWORD not in kinds_of
    assert len(str(signature)) < READABLE
    assert not [word for word in CODE if word in str(signature)]
    return signature


@pytest.mark.parametrize("kind", kinds().values(), ids=kinds())
def test_a_call_is_written_as_its_signature_says(kind):
    names = [field.name for field in ordered(kind)]
    assert list(of(kind).parameters) == names
    # The same text again, with "self".
    assert list(inspect.signature(kind.__init__).parameters) == ["self", *names]


def test_types_are_those_that_a_person_writes():
    told = str(inspect.signature(CALLS["test"]))
    assert "hits: int | None = None" in told
    assert "epsilon: Number | None = None" in told
    assert "above: Number," in told


@pytest.mark.parametrize("session", [Session, Remote])
@pytest.mark.parametrize("verb", CALLS)
def test_every_option_of_a_call_is_one_of_its_verb(session, verb):
    options = inspect.signature(CALLS[verb]).parameters.values()
    said = dict(of(getattr(session, verb)).parameters)
    assert {option.name: option.default for option in options} | {"self": inspect.Parameter.empty, "request": None} == {
        name: parameter.default for name, parameter in said.items()
    }


@pytest.mark.parametrize("session", [Session, Remote, AsyncRemote])
def test_no_method_hides_its_options(session):
    verbs = {name: made for name, made in vars(session).items() if inspect.isfunction(made) and name[0] != "_"}
    assert len(verbs) > 5
    for made in verbs.values():
        of(made)
    of(connect_async)


@pytest.mark.parametrize("session", [Remote, AsyncRemote])
def test_a_quote_is_asked_for_in_the_same_words_everywhere(session):
    assert list(inspect.signature(session.quote).parameters) == list(inspect.signature(Session.quote).parameters)
