"""Fields of calls: one grammar of texts for the command and the page, and four doors that mean the same by a value."""

import json
from datetime import date, datetime
from fractions import Fraction
from random import Random
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chary.calls.call import kinds, read
from chary.calls.fields import (
    Beside,
    Word,
    columns_of,
    columns_told,
    declared,
    key_said,
    list_of,
    list_told,
    numbers_of,
    numbers_told,
    type_of,
)
from chary.cli.forms import forms
from chary.cli.session import opened_list
from chary.data.queries.bodies import parsed_body
from chary.errors import CharyError, InvalidParameter
from chary.service.core.requests import readable_kinds
from chary.service.pages.forms import form_of
from tests.calls.any_arguments import made
from tests.conformance.samples import KINDS

TYPES = {"patient": "int64", "clinic": "string", "age": "int64", "cost": "float64", "day": "date", "at": "timestamp"}
TYPES |= {"smoker": "boolean", "a=b": "string", "c:d": "string"}
TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from('\n",.[]{}=: '), max_size=12)
VALUES = {
    "string": TEXT,
    "int64": st.integers(-(2**63), 2**63 - 1),
    "date": st.dates(),
    "timestamp": st.datetimes(min_value=datetime(1000, 1, 1)),
    "boolean": st.booleans(),
    "float64": st.integers() | st.floats(allow_nan=False, allow_infinity=False),
    "": TEXT
    | st.integers(-(2**70), 2**70)
    | st.booleans()
    | st.none()
    | st.floats(allow_nan=False, allow_infinity=False),
}
SETTINGS = settings(max_examples=200, derandomize=True, deadline=None, database=None)


@pytest.mark.parametrize("kind", VALUES)
@SETTINGS
@given(data=st.data())
def test_a_list_comes_back_as_it_was(kind, data):
    values = [key_said(value) for value in data.draw(st.lists(VALUES[kind], min_size=1, max_size=6))]
    beside = Beside({"it": kind}, "it")
    assert list_of(list_told(values, beside), beside) == values


@SETTINGS
@given(numbers=st.lists(st.fractions() | st.integers() | st.floats(1e-9, 1e9), min_size=1, max_size=6))
def test_numbers_come_back_exactly(numbers):
    texts = [str(number) for number in numbers]
    assert [Fraction(text) for text in numbers_of(numbers_told(texts))] == [Fraction(text) for text in texts]


@SETTINGS
@given(data=st.data())
def test_columns_come_back_with_their_values(data):
    names = data.draw(st.lists(st.sampled_from(sorted(TYPES)), min_size=1, max_size=3, unique=True))
    columns = {name: data.draw(st.lists(VALUES[TYPES[name]], min_size=1, max_size=4)) for name in names}
    columns = {name: [key_said(value) for value in values] for name, values in columns.items()}
    told = columns_told(columns, Beside(TYPES))
    if not any("\n" in value for values in columns.values() for value in values if isinstance(value, str)):
        assert columns_of(told.split("\n"), Beside(TYPES)) == columns


@SETTINGS
@given(value=TEXT.filter(lambda text: text == text.strip()) | st.integers(-(10**13), 10**13))
def test_a_word_comes_back_with_its_type(value):
    word = Word.__metadata__[0]
    assert word.read(word.told(value, Beside()), Beside()) == value


# Texts that the tests of the command and of the page type, and what either has always read.
TYPED = [
    ("a,b,c", "clinic", ["a", "b", "c"]),
    ("north, south", "clinic", ["north", "south"]),
    ('"0..39"', "clinic", ["0..39"]),
    ('"a,b", "say ""yes"""', "clinic", ["a,b", 'say "yes"']),
    ("[b]", "clinic", ["[b]"]),
    ("2013-01-31..2013-02-01", "clinic", ["2013-01-31", "2013-02-01"]),
    ("1..3", "age", [1, 2, 3]),
    ("-2..1, 7", "age", [-2, -1, 0, 1, 7]),
    ("1..3, 7", "", [1, 2, 3, 7]),
    ("2026-02-28..2026-03-01", "day", [{"date": "2026-02-28"}, {"date": "2026-03-01"}]),
    ("2013-01-31 10:00", "at", [{"timestamp": "2013-01-31T10:00:00"}]),
    ("true,FALSE", "smoker", [True, False]),
    ('north, "3", 3', "", ["north", "3", 3]),
    ("0.5, 1e400, NaN", "", [0.5, "1e400", "NaN"]),
]
NUMBERS = [
    ("0.25,0.5,0.75", ["0.25", "0.5", "0.75"]),
    ("0,18,65,120", ["0", "18", "65", "120"]),
    ("3, 2", ["3", "2"]),
    ("1/3", ["1/3"]),
]
LINES = [
    (["clinic=a,b,c"], {"clinic": ["a", "b", "c"]}),
    (["clinic: north, south"], {"clinic": ["north", "south"]}),
    (["clinic=a,b", "age=1..3"], {"clinic": ["a", "b"], "age": [1, 2, 3]}),
    (["clinic: a=b, c:d"], {"clinic": ["a=b", "c:d"]}),
    (["clinic=a:b"], {"clinic": ["a:b"]}),
    (["a=b: x", "c:d=y"], {"a=b": ["x"], "c:d": ["y"]}),
]


@pytest.mark.parametrize(("text", "column", "values"), TYPED)
def test_what_was_typed_is_read_as_before(text, column, values):
    assert list_of(text, Beside(TYPES, column)) == values


@pytest.mark.parametrize(("text", "numbers"), NUMBERS)
def test_numbers_are_read_as_they_are_written(text, numbers):
    assert numbers_of(text) == numbers


@pytest.mark.parametrize(("lines", "columns"), LINES)
def test_a_line_is_a_column_with_its_values(lines, columns):
    assert columns_of(lines, Beside(TYPES)) == columns


@pytest.mark.parametrize("lines", [["clinic"], ["clinic=a", "clinic=b"], ["clinic: a", "clinic=b"]])
def test_a_column_is_named_once(lines):
    with pytest.raises(InvalidParameter, match="once"):
        columns_of(lines, Beside(TYPES))


def test_a_list_of_a_file_is_one_value_a_line(tmp_path):
    (tmp_path / "clinics.txt").write_text('a\nb, and more\n"c"\n\n')
    beside = Beside(TYPES, opened=opened_list)
    assert columns_of([f"clinic=@{tmp_path / 'clinics.txt'}"], beside) == {"clinic": ["a", "b, and more", "c"]}
    assert list_of("@nothing", Beside(TYPES, "clinic")) == ["@nothing"]


# Four doors: the constructor, JSON, options and forms.
FORMS = {form.kind.kind: form for form in forms()}
CASES = 1500


def outcome(make, *given, **fields):
    """A call, or why there is none."""
    try:
        return make(*given, **fields)
    except CharyError as error:
        return f"{type(error).__name__}: {error}"


def in_body(value):
    """A value as JSON has it."""
    if isinstance(value, (list, tuple)):
        return [in_body(each) for each in value]
    if isinstance(value, dict):
        return {name: in_body(each) for name, each in value.items()}
    return str(value) if isinstance(value, Fraction) else value


def typed(form, call):
    """The options that say what a command's own options say of a call."""
    body, said = call.body(), {}
    for option in form.own:
        kind = next(type_of(field) for field in declared(form.kind) if field.name == option.field)
        said |= {each.name: None if each.default is each.empty else each.default for each in option.parameters}
        value, beside = body.get(option.field), Beside(TYPES, body.get("column"))
        if value is None:
            continue
        names = [each.name for each in option.parameters]
        if names == ["low", "high"]:
            said |= dict(zip(names, value, strict=True))
        elif names == ["bins", "values", "no_missing"]:
            cut, listed = ([axis for axis in value["columns"] if part in axis[1]] for part in ("edges", "values"))
            bins = [f"{name}={','.join(axis['edges'])}" for name, axis in cut]
            values = kind.told({"columns": listed, "missing": True}, beside).split("\n")
            said |= {"bins": bins, "values": values, "no_missing": not value["missing"]}
        else:
            text = kind.told(value, beside)
            said[names[0]] = value if kind.option in (int, bool) else text.split("\n") if kind.lines else text
    return said


def at_a_shell(form, call):
    """The call that its command makes of those options, and of the question and size of the call."""
    own = form.read(SimpleNamespace(session=SimpleNamespace(schema=TYPES)), typed(form, call))
    return form.kind(**{field.name: getattr(call, field.name) for field in declared(form.kind)} | own)


def in_a_form(kind, body):
    """The call of a form with the values of a body, each filled in as a person would write it."""
    form, texts = form_of(kind), {}
    for field in form.fields:
        value = body.get(field.name)
        if field.control == "flag":
            texts |= {field.name: "on"} if value else {}
        elif value is not None:
            plain = {field.name: value if isinstance(value, str) else json.dumps(value)}
            texts |= field.as_json(value) if field.control == "query" else plain
    return read(form.body(texts, TYPES))


def typable(call):
    """Whether a person can type it: lists hold something, of the type of their column."""
    body = call.body()
    axes = {name: axis.get("values", [0]) for name, axis in body.get("universe", {}).get("columns", [])}
    if "column" in body and "among" in body:
        axes[body["column"]] = body["among"]
    fit = {"string": str, "int64": int}
    return (
        all(
            values and all(isinstance(value, fit.get(TYPES.get(column, ""), (str, int))) for value in values)
            for column, values in (axes | dict(body.get("columns", {}))).items()
        )
        and body.get("below_margin") is not False
        and not isinstance(body.get("at"), list)
    )


def test_four_doors_make_one_call_or_refuse_in_the_same_words(monkeypatch):
    monkeypatch.setattr("tests.calls.any_arguments.many", lambda random: random.choice([0, 1, 2, 5, 40]))
    tried = {"made": 0, "refused": 0, "typed": 0}
    for number in range(CASES):
        kind = sorted(readable_kinds())[number % len(readable_kinds())]
        try:
            fields = made(Random(number), kind)
        except CharyError:
            continue
        # A fraction is no value of a column, and long digits are a text to a person.
        if any("Fraction" in str(fields.get(name, "")) for name in ("among", "candidates", "targets")) or any(
            isinstance(fields.get(name), int) and abs(fields[name]) >= 10**15 for name in ("question", "guess")
        ):
            continue
        call = outcome(kinds()[kind], **fields)
        body = parsed_body(json.dumps({"kind": kind} | in_body(fields)).encode())
        assert outcome(read, body) == call, fields
        if isinstance(call, str):
            tried["refused"] += 1
            assert outcome(in_a_form, kind, body) == call, fields
            continue
        if isinstance(outcome(read, call.body()), str) or call.body().get("candidates") == []:
            continue
        tried["made"] += 1
        assert read(form_of(kind).body(form_of(kind).filled(call, TYPES), TYPES)) == call, fields
        if kind in FORMS and typable(call):
            tried["typed"] += 1
            assert at_a_shell(FORMS[kind], call) == call, fields
    assert min(tried.values()) > 200, tried


@pytest.mark.parametrize("kind", sorted(set(FORMS) - {"widen"}))
def test_the_options_of_every_kind_say_the_very_call(kind):
    call = KINDS[kind]()
    if typable(call):
        assert at_a_shell(FORMS[kind], call) == call


def test_days_are_told_apart_from_texts_at_every_door():
    kind, days = kinds()["most_common"], [date(2026, 3, 1), date(2026, 3, 2)]
    call = kind("day", among=days, epsilon="0.1")
    assert at_a_shell(FORMS["most_common"], call) == call
    texts = form_of("most_common").filled(call, TYPES)
    assert texts["among"] == "2026-03-01, 2026-03-02"
    assert read(form_of("most_common").body(texts, TYPES)) == call
