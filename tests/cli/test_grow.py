"""`chary rerun` as a user types it."""

import io
import json
import shutil
from pathlib import Path

import duckdb
import pytest

from chary.ledger import open_ledger

ROWS = 4000


@pytest.fixture
def call(call, tmp_path):
    """The same in a folder with three files."""
    for name, size in (("first", ROWS), ("second", ROWS), ("third", 10)):
        rows = "\n".join(f"{i % 3},{i}" for i in range(size))
        (tmp_path / f"{name}.csv").write_text(f"ward,number\n{rows}\n")
    return call


RULES = "--row-level --neighbors replace --infer-types --budget-epsilon 5 --budget-delta 1e-6 --ledger wards.ledger"
RULES += " --count --by ward --keys 0,1,2"


@pytest.mark.parametrize("terms", ["--rho 0.05", "--epsilon 1", "--rho 0.05 --exponent 0.1"])
def test_runs_as_the_file_grows(call, terms):
    code, out, err = call(f"rerun first.csv {RULES} {terms} --append second.csv --append third.csv --json")
    assert code == 0, err
    first = json.loads(out)
    sizes = [run["size"] for run in first["done"]]
    assert sizes[:2] == [ROWS, 2 * ROWS]
    assert len(sizes) == (3 if "exponent" in terms else 2)
    assert all(abs(value - 2 * ROWS / 3) < 2000 for value in first["done"][1]["values"])
    assert first["latest"] == first["done"][-1]
    assert [run["run"] for run in first["next"]] == [first["latest"]["run"] + ahead for ahead in range(1, 6)]


def test_tables_for_people_a_picture_and_going_on(call, tmp_path):
    code, out, _err = call(f"rerun first.csv {RULES} --rho 0.05 --growth 0.5 --plot runs.png")
    assert code == 0
    assert "Next runs" in out
    assert (tmp_path / "runs.png").exists()
    code, out, err = call(f"rerun first.csv {RULES} --schedule 3 --append second.csv --json")
    assert code == 0, err
    assert [run["size"] for run in json.loads(out)["done"]] == [2 * ROWS]


def test_answers_are_told_by_key_also_when_nothing_is_due(call):
    line = f"rerun first.csv {RULES} --rho 0.05"
    told = json.loads(call(f"{line} --json")[1])["latest"]
    assert told["keys"] == [[0], [1], [2]]
    assert 0 < told["error_bar"] < ROWS
    code, out, _ = call(line)
    assert code == 0
    assert "No run is due; these are the latest answers." in out
    shown = [line.split("│")[1:-1] for line in out.splitlines() if line.startswith("│")][:3]
    assert [[part.strip() for part in row[:2]] for row in shown] == [
        [str(key), str(value)] for key, value in enumerate(told["values"])
    ]
    assert all(float(row[2]) == pytest.approx(told["error_bar"], rel=1e-5) for row in shown)


def test_one_count_has_no_keys(call):
    line = f"rerun first.csv {RULES.replace('--by ward --keys 0,1,2', '')} --epsilon 1"
    told = json.loads(call(f"{line} --json")[1])["latest"]
    assert (told["keys"], len(told["values"])) == (None, 1)
    assert "all" in call(line)[1]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("--rho 0.05", "--rho 0.050"),
        ("--rho 0.05", "--rho 5e-2 --beta 0.05"),
        ("--epsilon 1", "--epsilon 1.0 --beta 5e-2"),
        ("--rho 0.05 --growth 0.5", "--rho 1/20 --growth 1/2"),
        ("--rho 0.05 --exponent 0.1", "--rho 0.05 --exponent 0.10"),
    ],
)
def test_numbers_may_be_written_otherwise(call, one, other):
    first, again = (json.loads(call(f"rerun first.csv {RULES} {terms} --json")[1]) for terms in (one, other))
    assert (again["schedule"], again["spent"]) == (first["schedule"], first["spent"])
    assert json.loads(call(f"rerun first.csv {RULES} {one} --beta 0.04 --json")[1])["schedule"] != first["schedule"]


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "--rho 0.05 --epsilon 1",
        "--rho 0",
        "--rho 0.05 --beta 1",
        "--epsilon 1 --exponent 0.1",
        "--schedule 3 --beta 0.1",
        "--schedule 1",
        "--rho 0.05 --sum number --bounds 0,9",
    ],
)
def test_what_makes_no_schedule_is_refused(call, wrong):
    code, out, err = call(f"rerun first.csv {RULES} {wrong}")
    assert (code, out) == (2, "")
    assert err.startswith("chary: ")


def test_a_picture_that_cannot_be_written_charges_nothing(call, tmp_path):
    (tmp_path / "folder.png").mkdir()
    for name in ("runs.txt", "folder.png"):
        assert call(f"rerun first.csv {RULES} --rho 0.05 --plot {name}")[0] == 2
    assert json.loads(call(f"rerun first.csv {RULES} --rho 0.05 --json")[1])["schedule"] == 3


def test_a_secret_size_is_refused(call):
    code, _out, err = call(f"rerun first.csv {RULES.replace('--neighbors replace', '')} --rho 0.05")
    assert code == 2
    assert "secret" in err
    assert "--row-level --neighbors replace" in err
    assert not Path("wards.ledger").exists()


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (f"first.csv {RULES}", "give --epsilon or --rho"),
        (f"first.csv {RULES.replace('--budget-delta 1e-6', '')} --rho 0.05", "--budget-delta"),
        (f"first.csv {RULES} --rho 0.05 --growth 0.1 --exponent 0.1", "without --growth"),
        (f"first.csv {RULES} --rho none", "--rho must be"),
        (f"first.csv {RULES} --rho 0.05 --table wards", "--table NAME"),
        (f"wards.duckdb {RULES} --rho 0.05", "--table NAME"),
    ],
)
def test_bad_input_is_told_in_options_before_a_ledger_is_made(call, file, line, told):
    code, out, err = call(f"rerun {line}")
    assert (code, out, told in err) == (2, "", True), err
    assert not Path("wards.ledger").exists()


def test_rho_under_a_budget_without_a_delta_is_bad_input(call):
    """Also where the ledger has the budget."""
    pure = RULES.replace("--budget-delta 1e-6", "")
    assert call(f"rerun first.csv {pure} --epsilon 1")[0] == 0
    code, _, err = call(f"rerun first.csv {pure.replace('--budget-epsilon 5', '')} --rho 0.05")
    assert (code, "--budget-delta" in err) == (2, True)


@pytest.fixture
def file(tmp_path):
    """A DuckDB file with the first rows: it keeps what is appended."""
    with duckdb.connect(str(tmp_path / "wards.duckdb")) as connection:
        connection.execute(f"CREATE TABLE wards AS SELECT range % 3 AS ward, range AS number FROM range({ROWS})")
    return "wards.duckdb"


KEPT = f"{RULES} --table wards --rho 0.05 --json"


def test_a_command_that_is_repeated_goes_on(call, file):
    """The same schedule, paid once; files that are in are not appended again, those after them are."""
    first = json.loads(call(f"rerun {file} {KEPT} --append second.csv")[1])
    code, out, err = call(f"rerun {file} {KEPT} --append second.csv --append third.csv")
    assert code == 0, err
    again = json.loads(out)
    assert [batch["new"] for batch in again["appended"]] == [False, True]
    assert again["appended"][0] | {"new": True} == first["appended"][0]
    assert (again["schedule"], again["spent"]) == (first["schedule"], first["spent"])
    with duckdb.connect(file) as connection:
        assert connection.execute("SELECT count(*) FROM wards").fetchone() == (2 * ROWS + 10,)


def test_the_same_rows_can_be_appended_again(call, file, tmp_path):
    """By naming the file twice, under another name, or with a key; each command can be repeated."""
    (tmp_path / "monday.csv").write_bytes((tmp_path / "third.csv").read_bytes())
    lines = [
        "--append third.csv",
        "--append third.csv --append third.csv",
        "--append monday.csv",
        "--append third.csv --append-again tuesday",
    ]
    for line, batches in [*zip(lines, (1, 2, 3, 4), strict=True), *((line, 4) for line in lines[1:])]:
        assert call(f"rerun {file} {KEPT} {line}")[0] == 0
        with duckdb.connect(file) as connection:
            assert connection.execute("SELECT count(*) FROM wards").fetchone() == (ROWS + 10 * batches,)


def test_a_file_of_the_same_name_in_another_folder_is_another_batch(call, file, tmp_path):
    (tmp_path / "monday").mkdir()
    (tmp_path / "monday" / "third.csv").write_bytes((tmp_path / "third.csv").read_bytes())
    told = json.loads(call(f"rerun {file} {KEPT} --append third.csv --append monday/third.csv")[1])
    assert [batch["version"] for batch in told["appended"]] == [2, 3]
    told = json.loads(call(f"rerun {file} {KEPT} --append monday/third.csv --append {tmp_path / 'third.csv'}")[1])
    assert [(batch["version"], batch["new"]) for batch in told["appended"]] == [(3, False), (2, False)]


@pytest.mark.parametrize("source", ["first.csv", "wards.duckdb --table wards"])
def test_the_ledger_notes_the_same_whatever_the_rows(call, file, tmp_path, source):
    """Nothing that stands in it would tell who guesses the rows that the guess is right."""
    noted = []
    for ward in (0, 1):
        (tmp_path / "third.csv").write_text(f"ward,number\n{ward},7\n")
        copy, ledger = source.replace("wards.", f"{ward}.", 1), tmp_path / f"{ward}.ledger"
        if "duckdb" in source:
            shutil.copy(file, f"{ward}.duckdb")
        terms = f"{RULES.replace('wards.ledger', ledger.name)} --rho 0.05 --append third.csv"
        assert call(f"rerun {copy} {terms}")[0] == 0
        opened = open_ledger(ledger)
        noted.append([note.body for terms in opened.datasets() for note in opened.notes(terms.name)])
        opened.close()
    assert noted[0] == noted[1]
    assert len(noted[0]) == 2


def test_a_file_that_does_not_fit_is_named_and_what_came_before_it_stays(call, file, tmp_path):
    (tmp_path / "wrong.csv").write_text("ward,digits\nSECRET,1\n")
    line = f"rerun {file} {KEPT} --append third.csv --append wrong.csv"
    for _ in range(2):
        code, out, err = call(line)
        assert (code, out) == (2, "")
        assert err.startswith("chary: wrong.csv: ")
        assert "SECRET" not in err
    told = json.loads(call(f"rerun {file} {KEPT} --append third.csv")[1])
    assert [batch["new"] for batch in told["appended"]] == [False]


def test_what_was_appended_before_is_told(call, file):
    line = f"rerun {file} {KEPT.replace('--json', '')} --append third.csv"
    assert call(line)[2] == ""
    assert "appended before: third.csv (version 2); --append-again KEY" in call(line)[2]


def test_a_file_that_is_not_there_is_refused_before_anything_is_charged(call):
    code, out, err = call(f"rerun first.csv {RULES} --rho 0.05 --append second.csv --append fourth.csv")
    assert (code, out) == (2, "")
    assert "no file fourth.csv" in err
    assert not Path("wards.ledger").exists()


def test_files_that_arrive_are_followed_one_line_each(call, file, monkeypatch):
    """What came before a name that is wrong stays, and repeating the command goes on after it."""
    line = f"rerun {file} {KEPT} --append -"
    monkeypatch.setattr("sys.stdin", io.StringIO("second.csv\n\nthird.csv\n"))
    code, out, err = call(line)
    told = [json.loads(answer) for answer in out.splitlines()]
    assert (code, err) == (0, "")
    assert [[batch["file"] for batch in step["appended"]] for step in told] == [[], ["second.csv"], ["third.csv"]]
    assert [len(step["done"]) for step in told[:2]] == [1, 1]
    assert told[1]["latest"] == told[1]["done"][-1]
    monkeypatch.setattr("sys.stdin", io.StringIO("second.csv\nnowhere.csv\nthird.csv\n"))
    code, out, err = call(line)
    assert (code, len(out.splitlines()), "no file nowhere.csv" in err) == (2, 2, True)
    assert [batch["new"] for batch in json.loads(out.splitlines()[1])["appended"]] == [False]
