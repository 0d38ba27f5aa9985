"""`chary attack` as a user types it."""

import json

import duckdb
import pytest

from chary.cli import run

SECRET = "987654321"


@pytest.fixture
def call(capsys, tmp_path, monkeypatch):
    """Run one command line in a folder with a small file: (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    rows = [f"{i % 40},{'fm'[i % 2]},{SECRET if i == 7 else i % 3},{i / 7}" for i in range(90)]
    (tmp_path / "people.csv").write_text("\n".join(["age,sex,ill,pay", *rows]) + "\n")
    (tmp_path / "one.csv").write_text(f"age,ill\n{SECRET},1\n")

    def called(line):
        code = run(["attack", *line.split()])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return called


def test_linkage_on_a_file_and_on_the_built_in_data(call, tmp_path):
    code, out, _ = call("linkage people.csv --quasi age,sex --sensitive ill --json --plot link.png")
    found = json.loads(out)
    assert code == 0
    assert (found["rows"], found["quasi"], found["reidentified"]) == (90, ["age", "sex"], 0)
    assert (tmp_path / "link.png").read_bytes().startswith(b"\x89PNG")
    with duckdb.connect("people.duckdb") as connection:
        connection.execute("create table people as from 'people.csv'")
    assert json.loads(call("linkage people.duckdb --table people --quasi age,sex --sensitive ill --json")[1]) == found
    code, out, _ = call("linkage --budget-epsilon 0.5")
    assert code == 0
    assert "age, female, site" in out
    assert "private accuracy" in out


def test_differencing(call, tmp_path):
    line = "differencing --budget-epsilon 0.5,2 --sessions 10 --people 20 --repeats 2 --seed 3 --plot bits.svg"
    code, out, _ = call(line + " --json")
    results = json.loads(out)["results"]
    assert code == 0
    assert [found["epsilon"] for found in results] == [0.5, 2]
    assert {found["raw_accuracy"] for found in results} == {1}
    assert json.loads(call(line + " --json")[1])["results"] == results
    assert (tmp_path / "bits.svg").exists()
    assert "limit" in call("differencing --budget-epsilon 1 --sessions 5 --informed --budget-delta 1e-6")[1]


def test_counted_attacks(call, tmp_path):
    code, out, _ = call("reconstruction --budget-epsilon 1,50 --people 20 --sessions 1 --plot bits.png --json")
    assert code == 0
    assert [found["exact"] for found in json.loads(out)["results"]] == [1, 1]
    code, out, _ = call("low-bits --budget-epsilon 0.1,1 --sessions 20 --plot low.svg")
    assert code == 0
    assert "certain" in out
    assert (tmp_path / "bits.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "low.svg").exists()


def test_attacks_on_models(call, tmp_path):
    code, out, _ = call("inversion --budget-epsilon 1 --models 1 --rows 300 --plot in.png --json")
    assert code == 0
    [found] = json.loads(out)["results"]
    assert found["raw"] > found["private"]
    assert "AUC" in call("shadows --models 1 --shadows 1 --rows 100 --plot who.svg")[1]
    assert {path.name for path in tmp_path.iterdir()} >= {"in.png", "who.svg"}
    assert "limit" in call("inversion --budget-epsilon 1 --budget-delta 1e-6 --models 1 --rows 100")[1]


def test_membership(call, tmp_path):
    line = "membership --rows 10 --attributes 5,40 --sessions 2 --plot who.pdf"
    code, out, _ = call(line + " --json")
    assert code == 0
    assert [found["attributes"] for found in json.loads(out)["results"]] == [5, 40]
    assert (tmp_path / "who.pdf").exists()
    assert "10 people" in call(line)[1]


@pytest.mark.parametrize(
    "line",
    [
        "linkage people.csv",
        "linkage people.csv --quasi age --sensitive height",
        "linkage people.csv --quasi height --sensitive ill",
        "linkage people.csv --quasi= --sensitive ill",
        "linkage people.csv --quasi pay --sensitive ill",
        "linkage people.csv --quasi age,ill --sensitive ill",
        "linkage one.csv --quasi age --sensitive ill",
        "linkage nowhere.csv --quasi age --sensitive ill",
        "linkage --budget-epsilon 0",
        "linkage --budget-epsilon 1e9",
        "linkage --plot nowhere/link.png",
        "linkage --plot link.exe",
        "linkage --seed -1",
        "differencing --budget-epsilon 1,,2",
        "differencing --budget-epsilon nan",
        "differencing --budget-delta 1",
        "differencing --people 1",
        "differencing --sessions 0",
        "membership --attributes 10,many",
        "membership --rows 1",
        "membership --attributes 0",
        "membership --budget-epsilon -1",
    ],
)
def test_bad_input_leaves_with_2_and_shows_no_data(call, line):
    code, out, error = call(line + " --json")
    assert code == 2
    assert out == ""
    assert error.startswith("chary: ")
    assert SECRET not in error
