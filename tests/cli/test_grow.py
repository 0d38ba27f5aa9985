"""`chary grow` as a user types it."""

import json

import pytest

ROWS = 4000


@pytest.fixture
def call(call, tmp_path):
    """The same in a folder with three files."""
    for name, size in (("first", ROWS), ("second", ROWS), ("third", 10)):
        rows = "\n".join(f"{i % 3},{i}" for i in range(size))
        (tmp_path / f"{name}.csv").write_text(f"ward,number\n{rows}\n")
    return call


RULES = "--each-row --relation replace --epsilon 5 --delta 1e-6 --ledger wards.ledger --count --by ward --keys 0,1,2"


@pytest.mark.parametrize("terms", ["--schedule-rho 0.05", "--schedule-epsilon 1", "--schedule-rho 0.05 --exponent 0.1"])
def test_runs_as_the_file_grows(call, terms):
    code, out, err = call(f"grow first.csv {RULES} {terms} --append second.csv --append third.csv --json")
    assert code == 0, err
    first = json.loads(out)
    sizes = [run["size"] for run in first["done"]]
    assert sizes[:2] == [ROWS, 2 * ROWS]
    assert len(sizes) == (3 if "exponent" in terms else 2)
    assert all(abs(value - 2 * ROWS / 3) < 2000 for value in first["done"][1]["values"])
    assert first["latest"] == first["done"][-1]
    assert [run["run"] for run in first["next"]] == [first["latest"]["run"] + ahead for ahead in range(1, 6)]


def test_tables_for_people_a_picture_and_going_on(call, tmp_path):
    code, out, _err = call(f"grow first.csv {RULES} --schedule-rho 0.05 --growth 0.5 --plot runs.png")
    assert code == 0
    assert "Next runs" in out
    assert (tmp_path / "runs.png").exists()
    code, out, err = call(f"grow first.csv {RULES} --schedule 3 --append second.csv --json")
    assert code == 0, err
    assert [run["size"] for run in json.loads(out)["done"]] == [2 * ROWS]


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "--schedule-rho 0.05 --schedule-epsilon 1",
        "--schedule-rho 0",
        "--schedule-rho 0.05 --beta 1",
        "--schedule-epsilon 1 --exponent 0.1",
        "--schedule 3 --beta 0.1",
        "--schedule 1",
        "--schedule-rho 0.05 --total number --bounds 0,9",
    ],
)
def test_what_makes_no_schedule_is_refused(call, wrong):
    code, out, err = call(f"grow first.csv {RULES} {wrong}")
    assert (code, out) == (2, "")
    assert err.startswith("chary: ")


def test_a_picture_that_cannot_be_written_charges_nothing(call):
    assert call(f"grow first.csv {RULES} --schedule-rho 0.05 --plot runs.txt")[0] == 2
    assert json.loads(call(f"grow first.csv {RULES} --schedule-rho 0.05 --json")[1])["schedule"] == 3


def test_a_secret_size_is_refused(call):
    code, _out, err = call(f"grow first.csv {RULES.replace('--relation replace', '')} --schedule-rho 0.05")
    assert code == 2
    assert "secret" in err
