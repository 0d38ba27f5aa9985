from datetime import date, datetime

import pytest

from chary.data import parse_keys
from chary.data.queries.keys import key_text
from chary.errors import InvalidQuery


@pytest.mark.parametrize(
    ("text", "kind", "keys"),
    [
        ("a,b,c", "string", ["a", "b", "c"]),
        ('"a,b", c', "string", ["a,b", "c"]),
        ("1..6", "int64", [1, 2, 3, 4, 5, 6]),
        ("-2..1, 7", "int64", [-2, -1, 0, 1, 7]),
        ('"1..6", a', "string", ["1..6", "a"]),
        ('"say ""yes""", "two\nlines"\nthird,', "string", ['say "yes"', "two\nlines", "third"]),
        ('"", "7"', "string", ["", "7"]),
        ('"7"', "int64", [7]),
        ("2013-01-31T10:00+01:00", "timestamp", [datetime(2013, 1, 31, 9)]),
        ("2013-01-30..2013-02-01", "date", [date(2013, 1, 30), date(2013, 1, 31), date(2013, 2, 1)]),
        ("2013-01-31..2013-02-01", "string", ["2013-01-31", "2013-02-01"]),
        ("2013-01-31", "string", ["2013-01-31"]),
        ("true,FALSE", "boolean", [True, False]),
        ("2013-01-31 10:00", "timestamp", [datetime(2013, 1, 31, 10)]),
    ],
)
def test_reading(text, kind, keys):
    assert parse_keys(text, kind) == keys


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "string"),
        ("a", "int64"),
        ("1.5", "int64"),
        ("٣", "int64"),
        ("6..1", "int64"),
        ("1..", "int64"),
        ("1..99999999", "int64"),
        ("2013-02-31", "date"),
        ("2013-02-01..2013-01-01", "date"),
        ("1..2", "boolean"),
        ("yes", "boolean"),
        ("1.5", "float64"),
        ("x", "uuid"),
        ('"a', "string"),
        ('"a"b', "string"),
        ("1..6", "string"),
        ("1..2013-01-31", "string"),
        ("a..b", "string"),
        (",,", "string"),
        ("1..2..3", "int64"),
    ],
)
def test_refusals(text, kind):
    with pytest.raises(InvalidQuery) as caught:
        parse_keys(text, kind)
    assert caught.value.__context__ is None


def test_a_range_on_a_text_column_says_which_type_to_declare():
    with pytest.raises(InvalidQuery, match=r"'0\.\.39' is a range, and column 'day of study' is text.*"):
        parse_keys("0..39", "string", "day of study")
    with pytest.raises(InvalidQuery, match=r"columns=.'day of study': 'BIGINT'"):
        parse_keys("0..39", "string", "day of study")


def test_many_ranges_fill_no_memory():
    with pytest.raises(InvalidQuery, match="at most"):
        parse_keys(",".join(["0..999999"] * 1_000), "int64")


@pytest.mark.parametrize("kind", ["string", "int64", "boolean", "date", "timestamp"])
def test_keys_come_back_as_they_were(kind):
    keys = {
        "string": ["a", "a,b", 'say "yes"', "", " ends ", "1..3", "[x]", "two\nlines", "2013-01-31..2013-02-01"],
        "int64": [-3, 0, 2**62],
        "boolean": [True, False],
        "date": [date(2013, 1, 31)],
        "timestamp": [datetime(2013, 1, 31, 10, 0, 0, 5)],
    }[kind]
    assert parse_keys(", ".join(map(key_text, keys)), kind) == keys
