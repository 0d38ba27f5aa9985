"""`chary export` as a user types it."""

import json

import pyarrow.parquet
import pytest

from tests.cli.kit import SECRET

ROWS = "--row-level --neighbors replace --columns age=BIGINT"
BUDGET = f"{ROWS} --budget-epsilon 1 --budget-delta 1e-6 --epsilon 0.05"
CELLS = "--alpha 0.1 --bins age=0,25,50,75,100 --values clinic=a,b"


@pytest.fixture
def opened(call, visits):
    """After two histograms were opened, of which the second was asked."""
    assert call(f"pmw {visits} {BUDGET} --alpha 0.1 --values clinic=a", "--where", "clinic = 'a'")[0] == 0
    code, _, err = call(f"pmw {visits} {BUDGET} {CELLS} --json", "--where", "age < 50", "--where", "clinic = 'a'")
    assert code == 0, err
    return visits


def test_a_made_up_table_is_written_and_nothing_is_charged(call, opened, tmp_path):
    before = call(f"ledger show {opened}.ledger --json")[1]
    code, out, err = call(f"export synthetic {opened} made.csv {ROWS} --rows 500 --seed 3 --json")
    assert code == 0, err
    told = json.loads(out)
    assert {name: told[name] for name in ("file", "rows", "seed", "columns", "cells")} == {
        "file": "made.csv",
        "rows": 500,
        "seed": 3,
        "columns": ["age", "clinic"],
        "cells": 15,
    }
    lines = (tmp_path / "made.csv").read_text().splitlines()
    assert (len(lines), lines[0]) == (501, '"age","clinic"')
    assert SECRET not in "".join(lines) + out
    assert call(f"ledger show {opened}.ledger --json")[1] == before
    assert not list(tmp_path.glob("*.part"))


def test_parquet_holds_the_same_table_and_the_seed_decides(call, opened, tmp_path):
    made = {}
    for name, seed in (("one.parquet", 1), ("again.parquet", 1), ("two.parquet", 2)):
        assert call(f"export synthetic {opened} {name} {ROWS} --rows 200 --seed {seed}")[0] == 0
        made[name] = pyarrow.parquet.read_table(tmp_path / name)
    assert made["one.parquet"] == made["again.parquet"] != made["two.parquet"]
    assert made["one.parquet"].num_rows == 200
    assert set(made["one.parquet"]["clinic"].to_pylist()) <= {"a", "b", None}


def test_the_histogram_of_a_call(call, opened):
    calls = json.loads(call(f"ledger show {opened}.ledger --json")[1])[0]["calls"]
    first, last = (entry["call"] for entry in calls if entry["kind"] == "multiplicative_weights")
    for name, more, told in (
        ("first.csv", f"--call {first}", (first, ["clinic"])),
        ("newest.csv", "", (last, ["age", "clinic"])),
    ):
        figures = json.loads(call(f"export synthetic {opened} {name} {ROWS} --json {more}")[1])
        assert (figures["call"], figures["columns"]) == told


def test_a_file_that_is_there_is_kept_unless_forced(call, opened, tmp_path):
    (tmp_path / "made.csv").write_text("mine")
    code, out, err = call(f"export synthetic {opened} made.csv {ROWS}")
    assert (code, out) == (2, "")
    assert "--force" in err
    assert (tmp_path / "made.csv").read_text() == "mine"
    assert call(f"export synthetic {opened} made.csv {ROWS} --rows 7 --force")[0] == 0
    assert len((tmp_path / "made.csv").read_text().splitlines()) == 8


def test_the_rows_and_the_ledger_are_never_overwritten(call, opened, tmp_path):
    (tmp_path / "link.csv").symlink_to(opened)
    before = opened.read_bytes()
    for name in (opened, "link.csv"):
        code, _, err = call(f"export synthetic {opened} {name} {ROWS} --force")
        assert code == 2
        assert "in use" in err
    assert opened.read_bytes() == before


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("folder.csv --force", "existing folder"),
        ("made.csv --plot folder.png", "a picture goes to a file"),
        ("made.txt", "chary export synthetic visits.parquet made.csv"),
        ("missing/made.csv", "existing folder"),
        ("made.csv --rows 0", "rows"),
        ("made.csv --seed -1", "seed"),
        ("made.csv --call 99", "call 99 opened no histogram; these did: "),
        ("made.csv --plot made.txt", ".png"),
        ("made.csv --ledger other.ledger", "there is no ledger other.ledger"),
    ],
)
def test_what_cannot_be_written_is_refused(call, opened, tmp_path, line, told):
    for name in ("folder.csv", "folder.png"):
        (tmp_path / name).mkdir()
    code, out, err = call(f"export synthetic {opened} {line.split(' ', 1)[0]} {ROWS}", *line.split()[1:])
    assert (code, out) == (2, "")
    assert told in err
    assert err.startswith("chary: ")
    assert SECRET not in err
    assert not list(tmp_path.glob("made*"))
    assert not list(tmp_path.glob("*.part"))
    assert not (tmp_path / "other.ledger").exists()


def test_rows_without_a_histogram(call, visits, tmp_path):
    assert call(f"release-if {visits} {BUDGET} --count --by clinic --keys a,b --above 9000")[0] == 0
    code, _, err = call(f"export synthetic {visits} made.csv {ROWS}")
    assert code == 2
    assert "chary pmw opens one" in err


def test_a_picture_of_the_marginals(call, opened, tmp_path):
    code, _, err = call(f"export synthetic {opened} made.csv {ROWS} --plot made.svg")
    assert code == 0, err
    drawn = (tmp_path / "made.svg").read_text()
    assert drawn.startswith("<?xml")
    assert SECRET not in drawn
    assert call(f"export synthetic {opened} again.csv {ROWS} --plot made.svg")[0] == 2
    assert not (tmp_path / "again.csv").exists()
