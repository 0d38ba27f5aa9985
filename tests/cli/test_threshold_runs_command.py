"""`chary self-reporting`, `choose --mechanism gaussian`, `account runs` and what else has Gaussian noise, as typed."""

import json

import pytest

import chary
from chary import Budget
from chary.accounting.gaussian_runs import run_moments_up, run_pdp_epsilon_up, runs_within, stopping_pdp_epsilon
from chary.calls import Choose
from tests.cli.kit import SECRET

DAYS = [120, 880, 130, 90, 910, 870, 100]
NOISE = "--sensitivity 0.001 --threshold-noise 0.1 --query-noise 0.1733 --threshold 0.5"
TERMS = {"sensitivity": "0.001", "threshold_noise": "0.1", "query_noise": "0.1733", "threshold": "0.5"}


@pytest.fixture
def days(tmp_path):
    def write(values):
        rows = "\n".join(f"d{number},{value}" for number, value in enumerate(values))
        (tmp_path / "days.csv").write_text(f"day,rides\n{rows}\n")
        return tmp_path / "days.csv"

    return write


@pytest.fixture
def figures(call):
    def asked(line):
        code, out, err = call(f"{line} --json")
        assert (code, err) == (0, "")
        return json.loads(out)

    return asked


def opening(path, epsilon=9):
    source = f"--series rides --sensitivity 1 --labels day --budget-epsilon 20 --epsilon {epsilon}"
    return f"self-reporting {path} {source} --threshold 500 --threshold-noise 30 --low 0 --high 1000"


def test_days_are_tested_and_the_new_ones_later(figures, days):
    first = figures(opening(days(DAYS)))
    assert [row["label"] for row in first["above"]] == ["d1", "d4", "d5"]
    assert (first["tested"], first["untested"], first["hits"], first["told"]) == (7, 0, 3, "running")
    assert 0 < first["loss"] <= 9
    path = days([*DAYS, 50, 990])
    again = figures(f"self-reporting {path} --series rides --sensitivity 1 --labels day --run {first['run']}")
    assert ([row["key"] for row in again["above"]], again["tested"]) == ([[8]], 2)
    assert again["loss"] > first["loss"]


@pytest.mark.parametrize(("since", "tested"), [("d5", 2), ("5", 2), ("0", 7)])
def test_the_first_day_is_named_by_label_or_position(figures, days, since, tested):
    assert figures(f"{opening(days(DAYS))} --since {since}")["tested"] == tested


def test_where_the_total_ends_days_are_untested(figures, call, days):
    path = days([900] * 200)
    found = figures(opening(path, epsilon="0.5"))
    assert 0 < found["untested"] < 200
    assert found["told"].startswith("stopped")
    line = f"self-reporting {path} --series rides --sensitivity 1 --labels day --run {found['run']} --since 0"
    assert call(line)[0] == 3


def test_keys_of_a_table(figures, visits):
    rows = "--unit patient_id --infer-types --count --by clinic --keys a,zz --budget-epsilon 9 --epsilon 5"
    found = figures(f"self-reporting {visits} {rows} --threshold 1000 --threshold-noise 50 --low 0 --high 3000")
    assert [row["key"] for row in found["above"]] == [["a"]]


@pytest.mark.parametrize("wrong", ["--since never", "--since 7", "--since -1", "--low 2000"])
def test_bad_input_leaves_with_2_and_charges_nothing(call, days, wrong):
    path = days(DAYS)
    code, out, err = call(f"{opening(path)} {wrong}")
    assert (code, out) == (2, "")
    assert len(err.strip().splitlines()) <= 2


def test_days_of_a_table_have_no_names(call, visits):
    rows = "--unit patient_id --infer-types --count --budget-epsilon 9 --epsilon 5 --since 3"
    code, _, err = call(f"self-reporting {visits} {rows} --threshold 1000 --threshold-noise 50 --low 0 --high 3000")
    assert code == 2
    assert "series" in err
    assert SECRET not in err


def test_a_gaussian_choice_is_the_noisy_maximum(figures, visits):
    options = "--unit patient_id --infer-types --count --by clinic --keys a,b,c --budget-epsilon 1 --budget-delta 1e-6"
    asked = f"choose {visits} {options} --epsilon 0.1 --mechanism gaussian --low 0 --high 6000 --request one"
    found = figures(asked)
    assert found["key"] in ("a", "b", "c")
    assert found["noise"] > 0
    with chary.open(
        str(visits),
        privacy_unit="patient_id",
        infer_types=True,
        budget=Budget(1, "1e-6"),
        ledger=f"{visits}.ledger",
    ) as session:
        keyed = chary.count().by("clinic", ["a", "b", "c"])
        same = Choose(keyed, mechanism="gaussian", low=0, high=6000, epsilon="0.1")
        assert session.ask(same, request="one").value == found["key"]
        assert len(session.history) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        "--mechanism gaussian",
        "--mechanism gaussian --low 0",
        "--low 0 --high 9",
        "--low 0 --high 9 --mechanism laplace",
        "--lead --mechanism gaussian --low 0 --high 9",
    ],
)
def test_a_gaussian_choice_says_its_bounds(call, visits, wrong):
    options = "--unit patient_id --infer-types --count --by clinic --keys a,b,c --budget-epsilon 1 --epsilon 0.1"
    code, out, err = call(f"choose {visits} {options} {wrong}")
    assert (code, out) == (2, "")
    assert "--mechanism" in err


def test_calculators_say_what_the_library_says(figures):
    assert figures(f"account runs --budget-epsilon 1 --budget-delta 1e-6 {NOISE}") == {
        "runs": runs_within(1, "1e-6", **TERMS)
    }
    at_order = figures(f"account runs --budget-epsilon 1 --budget-delta 1e-6 {NOISE} --order 18")
    assert at_order["hit"] == run_moments_up(18, **TERMS).hit
    one = {"any_length": run_pdp_epsilon_up(**TERMS, delta="1e-6")}
    assert figures(f"account run-pdp --delta 1e-6 {NOISE}") == one
    noise = {name: size for name, size in TERMS.items() if name != "threshold"}
    law = stopping_pdp_epsilon({1: 0.5, 100: 0.5}, **noise, delta="1e-6")
    assert figures(f"account run-pdp --delta 1e-6 {NOISE} --stopping 1:0.5,100:0.5") == one | {"by_law": law}
    assert figures("account run-filter --budget-epsilon 1 --budget-delta 1e-6 --epsilon 0.01")["calls"] > 100
    parts = figures("account run-filter --budget-epsilon 1 --budget-delta 1e-6 --epsilon 0.01 --delta 1e-7")
    assert parts == {"calls": 5, "plain": 100}


@pytest.mark.parametrize(
    "line",
    [
        f"account runs --budget-epsilon 1 --budget-delta 1e-6 {NOISE} --order 1",
        f"account runs --budget-epsilon 0 --budget-delta 1e-6 {NOISE}",
        f"account run-pdp --delta 1e-6 {NOISE} --stopping 1",
        f"account run-pdp --delta 1e-6 {NOISE} --stopping 1:0.5",
        f"account run-pdp --delta 2 {NOISE}",
        f"account run-pdp --delta 1e-6 {NOISE.replace('0.1733', '1e-9')}",
        "account run-filter --budget-epsilon 1 --budget-delta 1e-6 --epsilon 0",
    ],
)
def test_calculators_refuse_bad_input(call, line):
    code, out, _ = call(line)
    assert (code, out) == (2, "")


@pytest.mark.parametrize("rule", ["renyi", "whitehouse"])
def test_no_delta_is_set_aside_for_runs_that_stop_by_it(call, days, rule):
    """They are charged by their log-moments, as all else is."""
    source = "--series rides --sensitivity 1 --budget-epsilon 20 --budget-delta 1e-6 --epsilon 1 --delta 1e-7"
    line = f"self-reporting {days(DAYS)} {source} --threshold 500 --threshold-noise 90 --low 0 --high 1000"
    code, out, err = call(f"{line} --stop {rule} --json")
    assert (code, err) == (0, "")
    assert 1 <= json.loads(out)["tested"] <= 7
    assert "no interval" in json.loads(out)["interval_says"]
