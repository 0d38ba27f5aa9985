"""`chary distinct-sketch` as a user types it."""

import json

import pytest

from tests.cli.kit import SECRET


@pytest.fixture
def call(call, tmp_path):
    """The same in a folder with visits."""
    rows = [f"{unit},{unit % 100},{SECRET if unit == 7 else unit % 50}" for unit in range(3000)]
    (tmp_path / "visits.csv").write_text("patient_id,age,cost\n" + "\n".join(rows) + "\n")
    return call


ROWS = "distinct-sketch visits.csv --unit patient_id --infer-types"
FIRST = f"{ROWS} --budget-epsilon 30 --budget-delta 1e-6 --epsilon 1 --json"


def test_a_sketch_is_asked_again_and_again_for_one_charge(call):
    code, out, _ = call(FIRST + " --above 100000")
    missed = json.loads(out)
    assert code == 0
    assert missed["distinct"] is None
    numbers = [json.loads(call(f"{ROWS} --sketch {missed['sketch']} --json")[1]) for _ in range(2)]
    assert numbers[0] | {"call": 0} == numbers[1] | {"call": 0}
    assert abs(numbers[0]["distinct"] - 3000) < 3 * numbers[0]["error_bar"]
    assert numbers[0]["paid"]
    known = ["distinct", "error_bar", "low", "high", "p_value", "caution", "call", "interval_says", "sketch", "paid"]
    assert list(numbers[0]) == [*known, "charged", "remaining", "spent"]
    assert numbers[0]["low"] == numbers[0]["distinct"] - numbers[0]["error_bar"]
    again = f"{ROWS} --sketch {missed['sketch']} --above 9 --json"
    barred = json.loads(call(again)[1])
    assert (barred["distinct"], barred["error_bar"]) == (numbers[0]["distinct"], numbers[0]["error_bar"])
    assert barred["low"] is None
    assert "because it reached the threshold" in barred["interval_says"]


def test_parts_and_values(call):
    assert call(FIRST, "--where", "age >= 50")[0] == 0
    found = json.loads(call(FIRST + " --of age --assumed-groups-per-unit 1 --registers 64")[1])
    assert found["distinct"] >= 0
    one, two = (call(FIRST + " --request monday") for _ in range(2))
    assert json.loads(one[1]) == json.loads(two[1])


@pytest.mark.parametrize(
    "wrong",
    [
        "--registers 100",
        "--of age",
        "--of height --assumed-groups-per-unit 1",
        "--above many",
        "--sketch 3",
        "--max-groups-per-unit 1",
    ],
)
def test_bad_input_leaves_with_2_and_shows_no_data(call, wrong):
    code, out, error = call(FIRST + " " + wrong)
    assert code == 2
    assert out == ""
    assert error.startswith("chary: ")
    assert SECRET not in error


def test_a_sketch_of_another_ledger_is_unknown(call):
    assert call("distinct-sketch visits.csv --unit patient_id --sketch 1")[0] == 2
    assert call(FIRST)[0] == 0
    assert call("distinct-sketch visits.csv --unit patient_id --sketch 99")[0] == 2
