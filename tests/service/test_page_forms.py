"""What forms say: lists, columns and queries as people write them, and what is refused of them."""

import pytest

from chary.calls.fields import Beside, columns_of, in_json, list_of, list_told, value_of
from chary.data.queries.keys import Written
from chary.errors import InvalidParameter, InvalidQuery
from chary.service.pages.fields import query_said, query_told

NAMES = Beside({"clinic": "string"}, "clinic")
AWKWARD = ["a,b", ' "quoted" ', "", " ends ", "1..3", "3", 3, 3.5, True, None, "true", "[x]", "{", "line\nbreak", "ünï"]


def test_awkward_values_come_back_as_they_were():
    assert list_of(list_told(AWKWARD)) == AWKWARD
    texts = [value for value in AWKWARD if isinstance(value, str)]
    assert list_of(list_told(texts, NAMES), NAMES) == texts


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity"])
def test_what_json_has_no_word_for_is_a_text(text):
    assert value_of(Written(text, False)) == text


@pytest.mark.parametrize("text", ['{"a": 1, "a": 2}', "[NaN]", '1, "other": 2', "[" * 100_000, "[1", '["\\ud800"]'])
def test_json_is_read_strictly(text):
    with pytest.raises(InvalidParameter):
        in_json(text)


@pytest.mark.parametrize("text", ["0..9999999", ", ".join(["0..90000"] * 9)])
def test_a_range_fills_no_memory(text):
    with pytest.raises(InvalidQuery, match="at most"):
        list_of(text, Beside({"week": "int64"}, "week", 100_000))
    with pytest.raises(InvalidParameter, match="at most"):
        list_of(text, Beside(most=100_000))


def test_ranges_of_many_columns_fill_no_memory():
    with pytest.raises(InvalidParameter, match="together"):
        columns_of([f"c{place}: 0..40000" for place in range(9)], Beside(most=100_000))


@pytest.mark.parametrize("part", ["5..3", "[]", "0..99999"])
def test_a_part_of_a_key_is_one_value(part):
    said = {"kind": "count", "by": "clinic, site", "keys": f"a, {part}"}
    with pytest.raises(InvalidQuery):
        query_said(said, TYPES)


def test_a_range_on_a_text_column_is_refused_as_on_a_command_line():
    with pytest.raises(InvalidQuery, match=r"columns=.'clinic': 'BIGINT'"):
        query_said({"kind": "count", "by": "clinic", "keys": "0..39"}, TYPES)
    with pytest.raises(InvalidQuery, match="double quotes"):
        query_said({"kind": "count", "by": "clinic, site", "keys": "0..39, 1"}, TYPES)
    found = query_said({"kind": "count", "by": "clinic", "keys": '"0..39"'}, TYPES)
    assert found["by"]["keys"] == [["0..39"]]


def test_a_range_of_days_is_one_of_days_on_the_page_too():
    found = query_said({"kind": "count", "by": "day", "keys": "2026-02-28..2026-03-01"}, TYPES)["by"]
    assert found == {"columns": ["day"], "keys": [["2026-02-28"], ["2026-03-01"]], "types": ["date"]}


@pytest.mark.parametrize("text", ["clinic north", "clinic: a\nclinic: b"])
def test_columns_have_a_line_each(text):
    with pytest.raises(InvalidParameter):
        columns_of(text.split("\n"), Beside())


TYPES = {"clinic": "string", "day": "date", "site": "int64"}


@pytest.mark.parametrize(
    ("columns", "keys", "types"),
    [
        (["clinic"], [["1"], ["a, b"], ["1..3"]], [""]),
        (["clinic"], [["two\nlines"], ['say "yes"'], ["[x]"]], [""]),
        (["clinic", "site"], [["two\nlines", 1], [" a", 2]], ["", ""]),
        (["day"], [["2026-03-01"], ["2026-03-02"]], ["date"]),
        (["clinic", "site"], [["a, b", 1], ["c", 2]], ["", ""]),
        (["clinic", "day"], [["a", "2026-03-01"]], ["", "date"]),
        (["date_trunc('month', day)"], [["2026-03-01"]], ["date"]),
        (["month(day)", 'COALESCE("my ward", 0)'], [[3, "a"]], ["", ""]),
    ],
)
def test_keys_of_any_type_come_back(columns, keys, types):
    body = {"kind": "count", "by": {"columns": columns, "keys": keys, "types": types}}
    assert query_said(query_told(body, TYPES), TYPES) == body


def test_a_derived_column_is_typed_as_it_is():
    said = {"kind": "count", "by": "clinic, date_trunc('month', day)", "keys": "a, 2026-03-01"}
    found = query_said(said, TYPES)["by"]
    assert (found["columns"], found["types"]) == (["clinic", "date_trunc('month', day)"], ["", "date"])
    assert query_said({"kind": "count", "by": "site % 3", "keys": "0..2"}, TYPES)["by"]["keys"] == [[0], [1], [2]]
