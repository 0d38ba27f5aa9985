"""Constructors refuse what can be right for no dataset: an error of ours, in one line, that shows no internals."""

import dataclasses
import gc
import weakref

import pytest

from chary import CharyError, count
from chary.calls import Quantile, ThresholdTest, kinds
from tests.conformance.samples import COSTS, KINDS

NO_NUMBERS = [float("nan"), float("inf"), float("-inf"), "many", "1/0", True, [5], {}, b"5", 1j]
NO_SIZES = [*NO_NUMBERS, 0, 0.0, "0", -1, "-0.01"]
NO_WHOLES = [*NO_SIZES, 0.5, "2"]
FIELDS = [(kind, field.name) for kind, made in sorted(kinds().items()) for field in dataclasses.fields(made)]
# Numbers above zero, and whole ones.
SIZES = {"epsilon", "rho", "growth", "sensitivity", "grid", "threshold_noise", "query_noise"}
WHOLES = {"hits", "k", "rounds", "steps", "rows", "held"}
NUMBERS = {"above", "low", "high", "alpha", "mixing", "beta", "gap", "threshold"}


def given(kind):
    call = KINDS[kind]()
    return {field.name: getattr(call, field.name) for field in dataclasses.fields(call)}


def refused(ask):
    with pytest.raises(CharyError) as refusal:
        ask()
    told = str(refusal.value)
    assert told
    assert "\n" not in told
    assert "pydantic" not in told
    assert refusal.value.__cause__ is None
    assert refusal.value.__suppress_context__ or refusal.value.__context__ is None
    return told


@pytest.mark.parametrize(("kind", "name"), FIELDS)
def test_a_field_that_is_missing_is_named(kind, name):
    field = next(field for field in dataclasses.fields(kinds()[kind]) if field.name == name)
    if field.default is dataclasses.MISSING:
        told = refused(lambda: kinds()[kind](**{key: value for key, value in given(kind).items() if key != name}))
        assert told == f"{kinds()[kind].__name__}: {name} is missing"


@pytest.mark.parametrize("kind", KINDS)
def test_an_unknown_field_is_named(kind):
    told = refused(lambda: kinds()[kind](**given(kind), unheard=1))
    assert told == f"{kinds()[kind].__name__}: unheard is not known"


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, name in FIELDS if name in SIZES])
def test_a_size_is_a_positive_number(kind, name):
    for value in NO_SIZES:
        refused(lambda value=value: kinds()[kind](**given(kind) | {name: value}))


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, name in FIELDS if name in WHOLES])
def test_what_is_counted_is_a_whole_number_of_at_least_one(kind, name):
    for value in NO_WHOLES:
        refused(lambda value=value: kinds()[kind](**given(kind) | {name: value}))


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, name in FIELDS if name in NUMBERS])
def test_a_bar_is_a_number(kind, name):
    for value in NO_NUMBERS:
        if not (kind.startswith("label") and name == "low"):
            refused(lambda value=value: kinds()[kind](**given(kind) | {name: value}))


@pytest.mark.parametrize(("kind", "name"), FIELDS)
def test_a_field_of_no_type_at_all_is_refused(kind, name):
    anything = {("call", "prior"), ("best_of", "targets"), ("greedy", "candidates"), ("top", "candidates")}
    if (kind, name) in anything | {("select", "candidates"), ("label", "guess")}:
        return
    refused(lambda: kinds()[kind](**given(kind) | {name: object()}))


@pytest.mark.parametrize("kind", KINDS)
def test_privacy_arguments_are_named(kind):
    made = kinds()[kind]
    values = given(kind)
    named = [field.name for field in dataclasses.fields(made) if field.kw_only]
    assert {"epsilon", "rho", "delta", "above"} & set(values) <= set(named)
    if named:
        refused(lambda: made(*values.values()))


@pytest.mark.parametrize("kind", KINDS)
def test_a_call_is_made_by_position_and_by_name(kind):
    made, values = kinds()[kind], given(kind)
    leading = [field.name for field in dataclasses.fields(made) if not field.kw_only]
    rest = {name: value for name, value in values.items() if name not in leading}
    assert made(*(values[name] for name in leading), **rest) == made(**values)


def test_what_is_told_is_what_to_write():
    assert refused(lambda: ThresholdTest("age", above=5, epsilon=1)).startswith("ask count(), sum() or mean()")
    assert refused(lambda: ThresholdTest(COSTS, above=5, epsilon=-1)) == "epsilon must be greater than 0, got -1"
    assert "at" in refused(lambda: Quantile("age", [0.5, "x"], bounds=(0, 1), epsilon=1))


def test_a_refusal_keeps_nothing_alive():
    class Rows:
        """Stands for what is open where a call is refused."""

    def asking():
        rows = Rows()
        refused(lambda: ThresholdTest(count(), above=5))
        return weakref.ref(rows)

    kept = asking()
    gc.collect()
    assert kept() is None
