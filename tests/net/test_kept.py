"""How records are compared: what may differ between processors agrees, and nothing else does."""

import json
from dataclasses import dataclass
from fractions import Fraction

import pytest

from tests.net import kept
from tests.net.kept import compare, differences, masked, told, write


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (0.1, 0.1 * (1 + 1e-12)),
        (10**15, 10**15 + 1000),
        (2, 2.0),
        ("1913070206804311/2305843009213693952", "7652280827217229/9223372036854775808"),
        ({"a": [None, True, "x"]}, {"a": [None, True, "x"]}),
    ],
)
def test_what_agrees(one, other):
    assert differences(one, other) == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (0.1, 0.1 * (1 + 1e-8)),
        (10**8, 10**8 + 1),
        (1, True),
        (0, None),
        (0, 1e-200),
        ("1/3", "0.333"),
        ("x", "x "),
        ([1, 2], [1]),
        ({"a": 1}, {"a": 1, "b": None}),
        ({"a": 1}, [1]),
    ],
)
def test_what_differs(one, other):
    assert differences(one, other)
    assert differences(other, one)


def test_a_difference_says_where_it_is():
    found = differences({"a": [{"b": "one\ntwo"}]}, {"a": [{"b": "one\n2"}]})
    assert found == [".a[0].b '@@ -2 +2 @@'", ".a[0].b '-two'", ".a[0].b '+2'"]
    assert differences("one", "1", ".c") == [".c: kept 'one', now '1'"]
    assert differences("\n" * 99, "x\n" * 99)[-1] == " and more"


def test_values_are_told_without_last_digits_and_texts_without_times():
    @dataclass(frozen=True)
    class Pair:
        first: object
        second: object

    assert told(Pair(0.1 + 0.2, Fraction(1, 3))) == {"of": "Pair", "first": 0.3, "second": "1/3"}
    assert told(Fraction(0.1)) == 0.1
    assert masked(f"at 2026-11-24T16:00:08.131080+00:00 {'ab' * 32}") == "at <time> <hash>"


def test_a_record_is_read_as_it_was_written_and_a_missing_one_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(kept, "RECORDED", tmp_path)
    place = tmp_path / "a" / "b.jsonl"
    assert "never recorded" in compare(place, [])[0]
    write(place, [{"b": 1, "a": "é"}])
    assert place.read_text(encoding="utf-8") == '{"a":"é","b":1}\n'
    assert [json.loads(line) for line in place.read_text(encoding="utf-8").splitlines()] == kept.read(place)
    assert compare(place, [{"a": "é", "b": 1}]) == []
    assert compare(place, [{"a": "é", "b": 2}]) == ["a/b.jsonl[0].b: kept 1, now 2"]
