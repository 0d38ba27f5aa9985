"""What goes over the wire: strict JSON, typed values, problems."""

import sys
from collections import defaultdict
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction

import pytest

import chary.errors
from chary import BudgetExceeded, LedgerLocked
from chary.amounts import Amount
from chary.answers import Answer
from chary.calls import ChosenKey, Classified
from chary.client import problems, wire
from chary.client.problems import Refusal, error_of, problem, status_of
from chary.client.wire import in_typed, of_typed
from chary.data import NeighborRelation
from chary.data.rows import fingerprint, fingerprint_of
from chary.errors import CharyError, InvalidInput, InvalidParameter
from chary.ledger.records import CapReached
from chary.session import Spending

ERRORS = [kind for kind in vars(chary.errors).values() if isinstance(kind, type) and issubclass(kind, CharyError)]


def test_clients_of_earlier_versions_know_the_names_of_problems():
    """Names on the wire stay, whatever the classes are called."""
    assert set(problems.PROBLEMS.values()) == set(ERRORS)
    assert list(problems.PROBLEMS) == [
        *("algorithm-failed", "budget-refused", "chary-error", "engine-failure", "invalid-input", "invalid-parameter"),
        *("invalid-query", "ledger-broken", "ledger-busy", "ledger-error", "ledger-mismatch", "no-price"),
        *("request-conflict", "request-in-flight", "schema-mismatch", "unknown-held", "wrong-process"),
    ]


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        2**80,
        -0.0,
        float("inf"),
        "x",
        (),
        (1, [2.5], {"a": (Fraction(1, 3),)}),
        {("a", 1): None, 2: Decimal("1.50")},
        date(2026, 3, 31),
        datetime(2026, 3, 31, 12),
        Spending(0.5, 1.0, "epsilon", Amount(3, 4)),
    ],
    ids=repr,
)
def test_a_value_comes_back_as_it_was(value):
    found = of_typed(in_typed(value))
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    "written",
    [
        {"of": "Ledger", "fields": {"path": "x"}},
        {"of": "Session", "fields": {}},
        {"of": "Spending", "fields": {"share": 1}},
        {"of": "Spending", "fields": []},
        {"of": ["Spending"], "fields": {}},
        {"ratio": "x"},
        {"ratio": 1, "real": 2},
        {"dict": [1]},
        {"eval": "1"},
        {},
    ],
    ids=repr,
)
def test_nothing_else_is_made_of_a_text(written):
    with pytest.raises(InvalidParameter):
        of_typed(written)


def test_code_and_secrets_have_no_form():
    for value in (object(), b"secret", {1, 2}):
        with pytest.raises(InvalidParameter):
            in_typed(value)


def test_no_two_classes_of_public_values_have_one_name():
    wire._classes()
    found = defaultdict(set)
    for name, module in list(sys.modules.items()):
        if name.startswith(wire._MODULES):
            for kind in vars(module).values():
                if isinstance(kind, type) and kind.__module__.startswith(wire._MODULES) and wire._is_value(kind):
                    found[kind.__name__].add(kind)
    assert [name for name, kinds in found.items() if len(kinds) > 1] == []


@pytest.mark.parametrize(
    ("written", "value"),
    [
        (
            {"of": "Leader", "fields": {"call": 2, "key": "south", "lead": 9.0, "error_bar": 29.0}},
            ChosenKey(2, "south", lead=9.0, error_bar=29.0),
        ),
        ({"of": "Leader", "fields": {"call": 2, "key": ["a", 1], "lead": 0.0, "error_bar": 1.0}}, ("a", 1)),
        ({"of": "Decided", "fields": {"call": 2, "value": False}}, Classified(2, False, clear=True)),
        ({"of": "Decided", "fields": {"call": 2, "value": "boundary"}}, Classified(2, "boundary", clear=False)),
        ({"of": "Zoned", "fields": {"call": 2, "value": "between"}}, Classified(2, "between", clear=False)),
    ],
)
def test_answers_of_classes_that_are_gone_are_read(written, value):
    found = of_typed(written)
    assert (found if isinstance(value, Answer) else found.value) == value


@pytest.mark.parametrize("kind", ERRORS)
def test_an_error_is_the_same_on_the_other_side(kind):
    told = problem(kind("why"))
    found = error_of(told, told["status"])
    assert type(found) is kind
    assert str(found) == "why"
    assert 400 <= status_of(kind("why")) < 600


def test_a_refusal_keeps_its_figures_and_a_cap_of_the_ledger_has_none():
    refused = BudgetExceeded("why")
    refused.figures = {"asked": 0.5, "left": 0.25, "epsilon": 0.1}
    assert error_of(problem(refused), 409).figures == refused.figures
    cap = problem(CapReached(Amount(5), Amount(3), "dataset"))
    assert cap["type"] == problem(BudgetExceeded(""))["type"]
    assert error_of(cap, 409).figures is None


def test_what_nobody_foresaw_tells_nothing():
    for error in (KeyError("987654321"), ValueError("SECRETNAME"), RuntimeError()):
        told = problem(error)
        assert (told["status"], told["type"]) == (500, "urn:chary:problem:unforeseen")
        assert "987654321" not in str(told)
        assert "SECRETNAME" not in str(told)
    assert isinstance(error_of("no JSON object", 502), Refusal)
    assert not isinstance(error_of(problem(LedgerLocked("later")), 409), InvalidInput)


@pytest.mark.parametrize(
    ("how", "kept"), [("add_remove", "add/remove"), ("replace", "replace"), ("bounded_change", "bounded change")]
)
def test_neighbours_keep_their_words(how, kept):
    value = NeighborRelation(how, None)
    fields = {"relation": {"of": "Relation", "fields": {"value": kept}}, "unit": None}
    assert in_typed(value) == {"of": "Neighbouring", "fields": fields}
    assert of_typed(in_typed(value)) == value
    assert fingerprint_of({"age": "BIGINT"}, value) == fingerprint([["age", "BIGINT"]], kept, None)
    with pytest.raises(InvalidParameter):
        of_typed({"of": "Relation", "fields": {"value": "add_remove"}})
