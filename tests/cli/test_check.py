"""`chary check`, for who owns the rows; and what the command warns of."""

import json

import pytest

BROKEN = "patient_id,day,age\n1,2017-01-01T06:00:42Z,70\n2,1/2/2017,80\n3,,x\n"
TYPES = "--columns day=TIMESTAMP,age=BIGINT"


@pytest.fixture
def broken(tmp_path):
    (tmp_path / "broken.csv").write_text(BROKEN)


def test_the_json_of_a_check_never_changes(call, broken):
    code, out, err = call(f"check broken.csv {TYPES} --json")
    assert code == 0
    assert json.loads(out) == {
        "rows": 3,
        "columns": {
            "patient_id": {"type": "VARCHAR", "unparsed": 0},
            "day": {"type": "TIMESTAMP", "unparsed": 1},
            "age": {"type": "BIGINT", "unparsed": 1},
        },
    }
    assert "NOT PRIVATE" in err


def test_people_are_told_first_that_it_is_not_private(call, broken, tmp_path):
    code, out, err = call(f"check broken.csv {TYPES}")
    assert (code, err) == (0, "")
    assert out.startswith("NOT PRIVATE.")
    assert ["day", "TIMESTAMP", "1", "8", "20"] in [line.replace("│", " ").split() for line in out.split("\n")]
    assert [each.name for each in tmp_path.iterdir()] == ["broken.csv"]


def test_what_a_chary_toml_says_of_the_file_holds(call, broken, tmp_path):
    (tmp_path / "chary.toml").write_text('[dataset.b]\nfile = "broken.csv"\ncolumns = {age = "BIGINT"}\n')
    for name in ("broken.csv", "b"):
        told = json.loads(call(f"check {name} --json")[1])["columns"]
        assert [told[column]["type"] for column in ("day", "age")] == ["VARCHAR", "BIGINT"]


@pytest.mark.parametrize(
    "line", ["missing.csv", "broken.csv --columns nowhere=BIGINT", "broken.csv --columns day=NOTYPE"]
)
def test_what_cannot_be_checked_is_refused(call, broken, line):
    code, out, err = call(f"check {line}")
    assert (code, out) == (2, "")
    assert err.startswith("chary: ")


def test_a_command_warns_who_opens_new_rows_in_a_line_each(call, broken):
    budget = "--budget-epsilon 1 --budget-delta 1e-6"
    line = f"test broken.csv --unit patient_id {TYPES} --count --above 2 --hits 20 {budget} --json"
    code, out, err = call(line)
    assert code == 0
    json.loads(out)
    assert "column day: 1 of 2 cells are not TIMESTAMP" in err
    assert "column age: 1 of 3 cells are not BIGINT" in err
    assert all(each.startswith("chary: warning: ") for each in err.strip().split("\n"))
    assert call(line)[2] == ""


def test_a_command_warns_of_a_second_budget(call, broken):
    line = "test broken.csv --unit patient_id --columns= --count --above 2 --hits 20 --budget-epsilon 1"
    assert call(f"{line} --ledger first.ledger")[0] == 0
    assert "first.ledger keeps a budget of 'broken' too" in call(line)[2]


def test_a_range_on_a_text_column_is_refused_before_anything_is_charged(call, visits, tmp_path):
    line = "release-if visits.csv --unit patient_id --count --by age --keys 0..39 --max-groups-per-unit 1 --above 9"
    line += " --hits 20 --budget-epsilon 1"
    code, _, err = call(f"{line} --budget-delta 1e-6 --columns=")
    assert code == 2
    assert "'0..39' is a range, and column 'age' is text" in err
    assert "--columns age=BIGINT" in err
    assert not (tmp_path / "visits.csv.ledger").exists()
    code, out, _ = call(f"{line} --budget-delta 1e-6 --columns age=BIGINT --below-margin --json")
    assert code == 0
    assert {hit["key"][0] for hit in json.loads(out)["above"]} <= set(range(40))


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ("nowhere=BIGINT", "there is no column 'nowhere' to declare a type of\n"),
        ("day=NOTYPE", "'NOTYPE' is no type of a column"),
    ],
)
def test_who_declares_what_is_not_there_is_told_what_is(call, broken, columns, told):
    assert told in call(f"check broken.csv --columns {columns}")[2]


def test_a_range_of_no_numbers_asks_for_no_type(call, visits):
    line = "release-if visits.csv --unit patient_id --count --by clinic --keys c1..c9 --max-groups-per-unit 1 --hits 2"
    line += " --above 9 --columns="
    code, _, err = call(f"{line} --budget-epsilon 1 --budget-delta 1e-6")
    assert (code, "list its keys" in err, "BIGINT" in err) == (2, True, False)


def test_whoever_leaves_types_out_is_told_in_words_of_the_shell(call, broken):
    line = "test broken.csv --unit patient_id --count --above 9 --hits 20"
    assert call(f"{line} {TYPES} --budget-epsilon 1 --budget-delta 1e-6")[0] == 0
    code, _, err = call(line)
    assert (code, "such as --columns age=BIGINT," in err) == (2, True)


def test_another_budget_is_refused_with_the_ways_there_are(call, broken):
    line = "test broken.csv --unit patient_id --columns= --count --above 9 --hits 20"
    assert call(f"{line} --budget-epsilon 1 --budget-delta 1e-6")[0] == 0
    code, _, err = call(f"{line} --budget-epsilon 1")
    assert (code, "Leave the budget out to continue" in err) == (2, True)
    assert call(line)[0] == 0
