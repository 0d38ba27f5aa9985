"""Every kind of call is a value: equal to what is read from its JSON, hashable, frozen, described by a JSON schema."""

import copy
import dataclasses
import inspect
import json
import pickle
import signal
from datetime import date, datetime

import pytest

import chary
from chary.calls import PMW, Call, Greedy, Marginal, MostCommon, ThresholdTest, kinds, read
from chary.calls.call import adapter
from chary.data import Predicate
from chary.errors import InvalidInput, InvalidParameter
from tests.conformance.samples import ALL, BROUGHT, CALLS, COSTS, KINDS


@pytest.fixture(params=CALLS)
def make(request):
    return CALLS[request.param]


def written(call):
    return json.loads(json.dumps(call.body(), allow_nan=False))


def test_every_kind_has_a_sample():
    assert KINDS.keys() >= BROUGHT
    assert all(type(sample()) is kinds()[kind] for kind, sample in KINDS.items())


def test_kinds_are_named_once_and_are_public():
    public = {getattr(chary.calls, name) for name in chary.calls.__all__}
    assert public >= set(kinds().values())
    assert len({kind.__name__ for kind in kinds().values()}) == len(kinds())


@pytest.mark.parametrize("kind", sorted(KINDS.keys() - BROUGHT))
def test_a_call_is_read_from_its_own_json(kind):
    call = KINDS[kind]()
    assert read(written(call)) == call
    assert written(read(written(call))) == written(call)


def test_an_interruption_inside_of_the_json_stays_one(monkeypatch):
    call = KINDS["test"]()
    monkeypatch.setattr(type(call.query), "body", lambda query: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        call.body()


@pytest.mark.parametrize("kind", sorted(BROUGHT))
def test_what_only_its_author_can_bring_is_not_read_from_json(kind):
    with pytest.raises(InvalidParameter) as refusal:
        read(written(KINDS[kind]()))
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    "body", [None, 5, "test", [], {}, {"kind": "nothing"}, {"kind": None}, {"kind": ["test"]}, {"kind": {}}]
)
def test_what_is_no_call_is_not_read(body):
    with pytest.raises(InvalidParameter, match="names its kind"):
        read(body)


@pytest.mark.parametrize("kind", sorted(KINDS.keys() - BROUGHT))
def test_fields_of_json_are_checked_as_those_of_constructors(kind):
    body = written(KINDS[kind]())
    with pytest.raises(InvalidParameter, match="unheard is not known"):
        read(body | {"unheard": 1})
    for field in dataclasses.fields(kinds()[kind]):
        with pytest.raises(InvalidInput):
            read(body | {field.name: {"unheard": 5}})


def ordered(kind):
    """All fields, those first that need no name."""
    return sorted(dataclasses.fields(kind), key=lambda field: field.kw_only)


def test_the_schema_names_every_field(make):
    call = make()
    schema = adapter(type(call)).json_schema()
    assert list(schema["properties"]) == [field.name for field in ordered(call)]
    needed = [f.name for f in ordered(call) if f.default is dataclasses.MISSING]
    assert schema.get("required", []) == needed
    assert schema["additionalProperties"] is False
    json.dumps(schema)


def test_the_body_names_the_kind_and_every_field_that_was_given(make):
    call = make()
    given = [field.name for field in dataclasses.fields(call) if getattr(call, field.name) is not None]
    assert list(call.body()) == ["kind", *given]
    assert call.body()["kind"] == call.kind


@pytest.mark.parametrize("name", CALLS)
def test_equal_calls_have_one_hash(name):
    call = CALLS[name]()
    again = copy.copy(call) if ALL[name].code else CALLS[name]()
    assert call == again
    assert call != KINDS["individual_stream" if call.kind == "test" else "test"]()
    assert {call: 1}[again] == 1


def test_a_call_is_frozen(make):
    call = make()
    for field in dataclasses.fields(call):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(call, field.name, None)
        with pytest.raises(dataclasses.FrozenInstanceError):
            delattr(call, field.name)


@pytest.mark.parametrize("kind", sorted(KINDS.keys() - BROUGHT))
def test_a_call_is_copied_and_sent_to_other_processes(kind):
    call = KINDS[kind]()
    assert copy.deepcopy(call) == call == pickle.loads(pickle.dumps(call))
    assert repr(call).startswith(f"{type(call).__name__}(")


@pytest.mark.parametrize("kind", kinds().values(), ids=kinds())
def test_a_kind_says_its_guarantee_and_stands_among_calls(kind):
    assert issubclass(kind, Call)
    assert kind.__module__.startswith("chary.calls.")
    told = " ".join(inspect.getdoc(kind).split())
    assert "Guarantee" in told
    assert list(inspect.signature(kind).parameters) == [field.name for field in ordered(kind)]


def test_numbers_are_read_exactly():
    tenth, half = (ThresholdTest(COSTS, above=above, epsilon=1) for above in ("0.1", "1/2"))
    assert tenth == ThresholdTest(COSTS, above=0.1, epsilon="1")
    assert half == ThresholdTest(COSTS, above=0.5, epsilon=1.0)
    assert tenth != half


def test_dates_are_told_from_texts():
    day, hour = date(2026, 3, 31), datetime(2026, 3, 31, 12)
    for keys in ([day], [hour], ["2026-03-31"], [1, 2]):
        for call in (MostCommon("day", among=keys, epsilon=1), Marginal({"day": keys}, epsilon=1)):
            assert read(written(call)) == call
    assert Marginal({"day": range(3)}, epsilon=1) == Marginal({"day": [0, 1, 2]}, epsilon=1)
    with pytest.raises(InvalidParameter, match="dates are written"):
        MostCommon("day", among=[{"date": "today"}], epsilon=1)


COUNTED = chary.count("age >= 44").by("clinic", ["north", "south"])


@pytest.mark.parametrize("candidates", [COUNTED, ["age > 3", Predicate.parse("age > 4")], ("age > 3",)])
def test_candidates_to_cover_are_read_as_they_were(candidates):
    call = Greedy(candidates, above=1, epsilon=1)
    assert written(read(written(call))) == written(call)


@pytest.mark.parametrize("candidates", [[], None, "age > 3", [1, 2]])
def test_candidates_that_are_none_are_told_before_how_they_are_tested(candidates):
    with pytest.raises(InvalidParameter, match="candidates are"):
        Greedy(candidates, above=1, epsilon=1)


def test_what_is_left_out_is_as_what_is_said():
    cells = {"clinic": ["north"]}
    said = PMW(prepaid=True, universe=cells, alpha="0.1", epsilon=1, exponent=0.5, mixing="1/10", delta=0)
    assert said == PMW(prepaid=True, universe=cells, alpha="0.1", epsilon=1)
