from datetime import date, datetime

import pytest

from chary.data import parse_keys
from chary.errors import InvalidQuery


@pytest.mark.parametrize(
    ("text", "kind", "keys"),
    [
        ("a,b,c", "string", ["a", "b", "c"]),
        ('"a,b", c', "string", ["a,b", "c"]),
        ("1..6", "int64", [1, 2, 3, 4, 5, 6]),
        ("-2..1, 7", "int64", [-2, -1, 0, 1, 7]),
        ("1..6", "string", ["1..6"]),
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
    ],
)
def test_refusals(text, kind):
    with pytest.raises(InvalidQuery) as caught:
        parse_keys(text, kind)
    assert caught.value.__context__ is None
