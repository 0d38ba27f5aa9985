"""`chary on-change` as a user types it, once a week."""

import json

import pytest

ASKED = "on-change visits.csv --unit patient --columns= --count --step 1000 --epsilon 0.02 --json"


@pytest.fixture
def call(call):
    """The same with the figures of the JSON instead of stdout."""

    def called(line):
        code, out, err = call(line)
        return code, json.loads(out or "{}"), err

    return called


def write(patients):
    with open("visits.csv", "w") as file:
        file.write("patient,age\n" + "".join(f"{patient},40\n" for patient in range(patients)))


def test_only_a_change_is_charged(call):
    write(5000)
    code, first, err = call(f"{ASKED} --budget-epsilon 1 --budget-delta 1e-6")
    assert (code, err) == (0, "")
    assert (first["value"], first["changed"]) == (5000, True)
    assert first["spent"]["share"] > 0
    _, again, _ = call(ASKED)
    assert (again["value"], again["changed"], again["spent"]) == (5000, False, first["spent"])
    write(9000)
    _, grown, _ = call(ASKED)
    assert (grown["value"], grown["changed"]) == (9000, True)
    assert grown["spent"]["share"] > first["spent"]["share"]


@pytest.mark.parametrize(
    "line", [ASKED.replace("1000", "0"), ASKED.replace("1000", "many"), f"{ASKED} --by age --keys 40"]
)
def test_bad_input_is_refused(call, line):
    write(10)
    code, out, err = call(f"{line} --budget-epsilon 1 --budget-delta 1e-6")
    assert (code, out) == (2, {})
    assert err
