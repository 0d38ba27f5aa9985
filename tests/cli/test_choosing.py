"""`chary top-k` and `chary greedy` as a user types them."""

import json

import pytest

from tests.cli.kit import SECRET


@pytest.fixture
def visits(tmp_path):
    sizes = {"a": 4000, "b": 1500, "c": 300, "d": 20}
    wards = [ward for ward, size in sizes.items() for _ in range(size)]
    rows = [f"{unit},{ward},{SECRET}" for unit, ward in enumerate(wards)]
    path = tmp_path / "visits.csv"
    path.write_text("patient,ward,note\n" + "\n".join(rows) + "\n")
    return path


ASKED = "top-k {} --unit patient --columns= --count --by ward --keys a,b,c,d"
BUDGET = "--budget-epsilon 1 --budget-delta 1e-6"


def test_the_best_keys(call, visits):
    code, out, err = call(f"{ASKED.format(visits)} --k 2 --hits 10 {BUDGET} --json")
    figures = json.loads(out)
    assert (code, err) == (0, "")
    assert [row["key"] for row in figures["best"]] == [["a"], ["b"]]
    first = figures["best"][0]
    wide = first["high"] - first["low"]
    assert first["low"] < first["score"] < first["high"]
    assert abs(first["score"] - 4000) < 10 * wide
    assert 0.1 < figures["spent"]["share"] <= 0.2
    code, out, _ = call(f"{ASKED.format(visits)} --k 4 --gap 2000 --hits 10 --json")
    assert [row["key"] for row in json.loads(out)["best"]] == [["a"]]
    code, out, _ = call(f"{ASKED.format(visits)} --k 4 --above 10000 --hits 10 --json")
    assert (code, json.loads(out)["best"]) == (0, [])
    assert "4" in call(f"{ASKED.format(visits)} --k 1 --hits 10")[1]


def test_a_series_with_labels(call, tmp_path):
    path = tmp_path / "days.csv"
    path.write_text("day,cnt\nMo,10\nTu,9000\nWe,5000\n")
    line = f"top-k {path} --series cnt --sensitivity 1 --labels day --k 2 --hits 10 {BUDGET}"
    code, out, _ = call(f"{line} --json")
    assert (code, [row["label"] for row in json.loads(out)["best"]]) == (0, ["Tu", "We"])
    assert "Tu" in call(line)[1]


@pytest.mark.parametrize("line", ["", "--k 0", "--k 5", "--k x", "--k 2 --gap -1", "--k 2 --above nan"])
def test_bad_input_leaves_with_2_and_no_data(call, visits, line):
    code, out, err = call(f"{ASKED.format(visits)} {line} {BUDGET}")
    assert (code, out) == (2, "")
    assert SECRET not in err
    assert len(err.strip().splitlines()) == 1


def test_one_number_has_no_best(call, visits):
    assert call(f"top-k {visits} --unit patient --count --k 1 {BUDGET}")[0] == 2


COVER = "greedy {} --unit patient --columns= --count --by ward --keys a,b,c,d"


def test_a_cover_takes_what_adds_enough(call, visits):
    code, out, err = call(f"{COVER.format(visits)} --above 1000 {BUDGET} --epsilon 0.02 --json")
    figures = json.loads(out)
    assert (code, err) == (0, "")
    assert [row["key"] for row in figures["chosen"]] == [["a"], ["b"]]
    assert figures["covered"] == sum(row["score"] for row in figures["chosen"])
    assert figures["tested"] == 4
    code, out, _ = call(f"{COVER.format(visits)} --above 1000 --k 1 --epsilon 0.02")
    assert code == 0
    assert "covered" in out
    assert call(f"{COVER.format(visits)} --above 1000 --k 9 --epsilon 0.02")[0] == 2
