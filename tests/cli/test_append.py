"""`chary append`: batches are told apart by their contents, and each is added once, whole or not at all."""

import json
import os
import subprocess
import sys

import duckdb
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from tests.service.kit import wait_for

OPTIONS = "--table readings --unit home --budget-epsilon 1 --budget-delta 1e-6"
HEADER = "home,day,kwh\n"


@pytest.fixture
def meters(tmp_path):
    """A table of ten readings in a file."""
    place = tmp_path / "meters.duckdb"
    with duckdb.connect(str(place)) as made:
        made.execute("CREATE TABLE readings (home BIGINT, day DATE, kwh DOUBLE)")
        made.execute("INSERT INTO readings SELECT i, DATE '2024-01-01', 300.0 FROM range(10) t(i)")
    return place


def rows(meters):
    with duckdb.connect(str(meters), read_only=True) as opened:
        return opened.execute("SELECT count(*) FROM readings").fetchone()[0]


def week(tmp_path, name, *lines):
    place = tmp_path / name
    place.write_text(HEADER + "".join(f"{line}\n" for line in lines))
    return place


def told(out):
    return [(batch["file"], batch["version"], batch["new"]) for batch in json.loads(out)["appended"]]


def test_contents_are_added_once_whatever_the_file_is_called(call, meters, tmp_path):
    week(tmp_path, "w1.csv", "1,2024-01-02,300")
    week(tmp_path, "w2.csv", "2,2024-01-02,100", "3,2024-01-02,200")
    code, out, _ = call(f"append meters.duckdb w*.csv {OPTIONS} --json")
    assert (code, told(out), rows(meters)) == (0, [("w1.csv", 1, True), ("w2.csv", 2, True)], 13)
    (tmp_path / "w2.csv").rename(tmp_path / "copy.csv")
    code, out, _ = call(f"append meters.duckdb copy.csv w1.csv {OPTIONS} --json")
    assert (code, told(out), rows(meters)) == (0, [("copy.csv", 2, False), ("w1.csv", 1, False)], 13)
    for _ in range(2):
        code, out, err = call(f"append meters.duckdb w1.csv {OPTIONS} --again tuesday")
        assert (code, rows(meters)) == (0, 14)
    assert "came before" in out
    assert "--again KEY" in err
    for _ in range(2):  # for keys it is no way
        code, out, err = call(f"append meters.duckdb w1.csv {OPTIONS} --request wednesday")
        assert (code, rows(meters), "--again" in err) == (0, 15, False)
    assert "came before" in out


def test_a_dataset_of_a_chary_toml_is_appended_to_by_its_name(call, meters, tmp_path):
    said = 'file = "meters.duckdb"\ntable = "readings"\nunit = "home"\nbudget-epsilon = 1\nbudget-delta = "1e-6"\n'
    (tmp_path / "chary.toml").write_text(f"[dataset.loads]\n{said}")
    week(tmp_path, "w1.csv", "1,2024-01-02,300")
    found = [call("append loads w1.csv --json") for _ in range(2)]
    assert [json.loads(out)["version"] for _, out, _ in found] == [1, 1]
    assert [told(out)[0][2] for _, out, _ in found] == [True, False]
    code, out, _ = call("append loads w1.csv --dry-run --json")
    assert (code, json.loads(out)["dry_run"][0]["rows"], rows(meters)) == (0, 1, 11)
    code, _, err = call("append load w1.csv")
    assert (code, "there is no file and no dataset 'load'; chary.toml names loads" in err) == (2, True)


def test_standard_input_parquet_and_arrow_are_batches_too(meters, tmp_path):
    table = pa.table({"home": [7], "day": pa.array([0], pa.date32()), "kwh": [1.5]})
    parquet.write_table(table, tmp_path / "w.parquet")
    feather.write_feather(table.slice(0, 1), tmp_path / "w.arrow", compression="uncompressed")
    command = [sys.executable, "-m", "chary", "append", str(meters), "-", *OPTIONS.split(), "--json"]
    found = subprocess.run(command, input=(HEADER + "1,2024-01-02,3\n").encode(), capture_output=True, check=True)
    assert told(found.stdout) == [("-", 1, True)]
    files = [str(tmp_path / "w.parquet"), str(tmp_path / "w.arrow")]
    again = subprocess.run([*command[:5], *files, *command[6:]], capture_output=True, check=True)
    assert [version for _, version, new in told(again.stdout) if new] == [2, 3]
    assert rows(meters) == 13


def test_a_dry_run_tells_what_would_not_parse_and_adds_nothing(call, meters, tmp_path):
    week(tmp_path, "w1.csv", "1,2024-01-02,300", "2,soon,100", "3,2024-01-02,much")
    code, out, _ = call(f"append meters.duckdb w1.csv {OPTIONS} --dry-run --json")
    assert code == 0
    assert json.loads(out)["dry_run"] == [
        {"file": "w1.csv", "rows": 3, "columns_as_expected": True, "unparsed": {"day": 1, "kwh": 1}}
    ]
    assert rows(meters) == 10
    code, out, _ = call(f"append meters.duckdb w1.csv {OPTIONS} --dry-run")
    assert "NOT PRIVATE" in out
    assert "day 1, kwh 1" in out


def test_rows_that_a_killed_process_left_go_with_the_next_append_and_those_of_a_living_one_stay(meters, tmp_path):
    lines = OPTIONS.split()
    command = [sys.executable, "-m", "chary", "append", str(meters), "-", *lines, "--json"]
    places = tmp_path / "places"
    places.mkdir()
    piped = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "env": os.environ | {"TMPDIR": str(places)}}
    sent = HEADER.encode() + b"1,2024-01-02,3\n" * 100_000
    with subprocess.Popen(command, **piped) as killed, subprocess.Popen(command, **piped) as living:
        for each in (killed, living):
            each.stdin.write(sent)
        wait_for(lambda: len([file for file in places.glob("chary-rows-*/rows.csv") if file.stat().st_size]) == 2)
        killed.kill()
        killed.wait(60)
        assert len(list(places.glob("chary-rows-*/rows.csv"))) == 2
        (places / "chary-rows-file").touch()
        added = subprocess.run(command, **{**piped, "stdin": None}, input=HEADER.encode(), check=True)
        assert told(added.stdout) == [("-", 1, True)]
        [left] = places.glob("chary-rows-*/rows.csv")
        assert left.stat().st_size
        out, _ = living.communicate(timeout=60)
    assert told(out) == [("-", 2, True)]
    assert [each.name for each in places.iterdir()] == ["chary-rows-file"]
    assert rows(meters) == 100_010


def test_an_append_counts_the_cells_that_became_null(call, meters, tmp_path):
    week(tmp_path, "w1.csv", "1,2024-01-02,300", "2,soon,100", "3,2024-01-02,much", "4, ,", "5,2024-01-02,-")
    code, out, err = call(f"append meters.duckdb w1.csv {OPTIONS}")
    assert (code, rows(meters)) == (0, 15)
    assert "chary: warning: w1.csv, version 1, column day: 1 of 4 cells are not DATE, and are NULL" in err
    assert "chary: warning: w1.csv, version 1, column kwh: 2 of 4 cells are not DOUBLE, and are NULL" in err
    code, out, err = call(f"append meters.duckdb w1.csv {OPTIONS} --again later --json")
    # Apart from the figures, which may be published.
    assert json.loads(out)["appended"] == [{"file": "w1.csv", "version": 2, "new": True}]
    assert err.count("and are NULL") == 2
    # What came before was not read now, and of what is as declared nothing is told.
    week(tmp_path, "w2.csv", "1,2024-01-02,300")
    code, out, err = call(f"append meters.duckdb w1.csv w2.csv {OPTIONS} --json")
    assert (code, "NULL" in err, len(json.loads(out)["appended"])) == (0, False, 2)


def test_a_batch_of_other_columns_adds_nothing_and_those_before_it_stay(call, meters, tmp_path):
    week(tmp_path, "w1.csv", "1,2024-01-02,300")
    (tmp_path / "w2.csv").write_text("home,day\n1,2024-01-02\n")
    code, _, err = call(f"append meters.duckdb w1.csv w2.csv {OPTIONS}")
    assert code == 2
    assert err.startswith("chary: w2.csv: the rows do not have the table's columns: missing 'kwh'")
    assert rows(meters) == 11


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (f"append meters.duckdb {OPTIONS}", "name files to append, such as week-12.csv, or a folder to watch"),
        (f"append meters.duckdb none.csv {OPTIONS}", "there is no file none.csv to append"),
        (f"append meters.duckdb none-*.csv {OPTIONS}", "no file fits none-*.csv"),
        (f"append meters.duckdb --watch nowhere {OPTIONS}", "there is no folder nowhere to watch"),
        (f"append meters.duckdb w.csv --watch . --dry-run {OPTIONS}", "leave --watch and --alerts out"),
        ("append w.csv w.csv --unit home --columns= --budget-epsilon 1", "Append to a table of a DuckDB file"),
    ],
)
def test_what_cannot_be_appended_says_what_could(call, meters, tmp_path, line, said):
    week(tmp_path, "w.csv", "1,2024-01-02,300")
    code, _, err = call(line)
    assert code == 2
    assert said in err
    assert rows(meters) == 10


def test_a_folder_that_is_watched_takes_files_as_they_come(meters, tmp_path):
    folder = tmp_path / "arriving"
    folder.mkdir()
    week(folder, "w1.csv", "1,2024-01-02,300")
    week(folder, ".w2.csv", "2,2024-01-02,300")
    line = f"append {meters} --watch {folder} --json {OPTIONS}"
    command = [sys.executable, "-m", "chary", *line.split()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watching:
        assert told(watching.stdout.readline())[0][1:] == (1, True)
        (folder / ".w2.csv").rename(folder / "w2.csv")
        assert told(watching.stdout.readline())[0][1:] == (2, True)
        week(folder, "w3.csv", "1,2024-01-02,300")
        assert told(watching.stdout.readline())[0][1:] == (1, False)
        # What is no batch is told, and is one once it is written anew; the others are taken meanwhile.
        (folder / "w4.csv").write_text("home,day\n1,2024-01-02\n")
        assert watching.stderr.readline().startswith(f"chary: {folder / 'w4.csv'}: the rows do not have the table's")
        with duckdb.connect(str(meters), read_only=True):
            week(folder, "w4.csv", "4,2024-01-02,300")
            held = watching.stderr.readline()
            assert "another connection holds it" in held
            assert "stop the service, or send the batch to it" in held
        assert told(watching.stdout.readline())[0] == (str(folder / "w4.csv"), 3, True)
        watching.terminate()
        watching.communicate(timeout=60)
    assert rows(meters) == 13


def test_an_alert_is_asked_of_the_window_that_ends_when_it_is_said(call, meters, tmp_path):
    with duckdb.connect(str(meters)) as made:
        made.execute("INSERT INTO readings SELECT i, DATE '2024-01-01', 300.0 FROM range(10, 5000) t(i)")
    alert = "--count --where kwh>=250 --above 1000 --time day --hits 10 --window"
    run = json.loads(call(f"ask meters.duckdb alert {OPTIONS} --json {alert}", "7 days")[1])["run"]
    resume = f"resume meters.duckdb {run} {OPTIONS} --json"
    states = [json.loads(call(f"{resume} --at {at}")[1])["state"] for at in ("2023-12-31", "2024-01-07")]
    assert states == ["quiet", "active"]
    lines = tmp_path / "weeks.txt"
    lines.write_text("--at 2024-01-07\n--at 2024-01-09\n")
    code, out, _ = call(f"{resume} --questions weeks.txt")
    assert (code, [json.loads(line)["state"] for line in out.splitlines()]) == (0, ["active", "quiet"])
    # Without a time it is the window of today, and none goes back.
    assert json.loads(call(resume)[1])["state"] == "quiet"
    code, _, err = call(f"{resume} --at 2024-01-07")
    assert (code, "its state goes on from there" in err) == (2, True)
    code, _, err = call(f"{resume} --at yesterday")
    assert (code, "at is a day or a time" in err) == (2, True)
    code, _, err = call(f"{resume} --questions weeks.txt --at 2024-01-02")
    assert (code, "leave --count, --above, --at and --learn out" in err) == (2, True)
    opened = json.loads(call(f"ask meters.duckdb sparse-vector --above 9 --hits 1 --epsilon 0.1 {OPTIONS} --json")[1])
    code, _, err = call(f"resume meters.duckdb {opened['run']} {OPTIONS} --count --at 2024-01-02")
    assert (code, "has no window of time: leave --at out" in err) == (2, True)
