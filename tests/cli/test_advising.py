"""`chary advise`: for a new dataset, and for what a ledger has left."""

import json

import pytest

import chary
from chary.advise import advise_for


def test_the_figures_are_those_of_the_library(call):
    code, out, err = call("advise --budget-epsilon 1 --budget-delta 1e-6 --tests 1000 --hits 20 --json")
    assert (code, err) == (0, "")
    assert json.loads(out) == chary.advise.advise(epsilon=1, delta=1e-6, tests=1000, hits=20).as_dict()
    _, out, _ = call("advise --budget-epsilon 1 --budget-delta 1e-6 --keys 100 --reach 2 --steps 10 --hits 20 --json")
    assert json.loads(out) == chary.advise.advise(epsilon=1, delta=1e-6, keys=100, reach=2, steps=10, hits=20).as_dict()
    options = "--no-values --low 0 --high 99 --above 40 --sensitivity 0.5 --grid 0.5 --no-monotone --confidence 0.9"
    _, out, _ = call(f"advise --budget-epsilon 1 --tests 100 --hits 2 {options} --json")
    terms = {"values": False, "low": 0, "high": 99, "above": 40, "sensitivity": 0.5, "grid": 0.5, "monotone": False}
    assert json.loads(out) == chary.advise.advise(epsilon=1, tests=100, hits=2, confidence=0.9, **terms).as_dict()


def test_people_get_a_table_the_calls_and_what_does_not_apply(call):
    code, out, err = call("advise --budget-epsilon 1 --tests 1000 --hits 3")
    assert (code, err) == (0, "")
    assert "sparse vector, tuned, monotone: chary ask FILE sparse-vector --above ... --hits 3 --epsilon 1 " in out
    assert "does not apply: target charging, renyi filter: it needs a delta" in out
    assert "best: sparse vector, one-sided, monotone\n  chary ask FILE sparse-vector --above ... --hits 3 " in out
    assert out.endswith("--budget-epsilon 1 --filter pure\n")


def test_a_ledger_is_asked_for_what_is_left(call, visits, tmp_path):
    asked = f"release {visits} --unit patient_id --columns= --count --budget-epsilon 1 --epsilon 0.75"
    assert call(asked)[0] == 0
    ledger = visits.with_suffix(".ledger") if visits.with_suffix(".ledger").exists() else tmp_path / "visits.csv.ledger"
    code, out, _ = call(f"advise {ledger} --tests 100 --hits 2 --json")
    assert code == 0
    best = json.loads(out)["options"][0]
    assert (best["epsilon"], best["share"], best["opening"]) == (0.25, 0.25, None)
    with chary.open(visits, privacy_unit="patient_id", ledger=ledger) as session:
        assert advise_for(session, tests=100, hits=2).as_dict() == json.loads(out)
        session.set_quota("bob", 0.125)
    _, out, _ = call(f"advise {ledger} --tests 100 --hits 2 --analyst bob --json")
    assert json.loads(out)["options"][0]["epsilon"] == 0.125
    assert call(f"advise {ledger} --tests 100 --hits 2 --budget-epsilon 1")[0] == 2
    code, _, err = call(f"advise {ledger} --tests 100 --hits 2 --dataset other")
    assert (code, "--dataset" in err) == (2, True)


@pytest.mark.parametrize(
    "options",
    [
        "--tests 10 --hits 2",
        "--tests 10 --hits 20 --budget-epsilon 1",
        "--tests 10 --hits 2 --budget-epsilon 0",
        "--tests 10 --hits 2 --budget-epsilon 1 --low 3",
        "nowhere.ledger --tests 10 --hits 2",
        "--hits 2 --budget-epsilon 1",
    ],
)
def test_bad_input_is_one_line_and_code_2(call, options):
    code, out, err = call(f"advise {options}")
    assert (code, out) == (2, "")
    assert err.startswith("chary: ")
    assert err.count("\n") == 1
