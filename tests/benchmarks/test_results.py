"""What benchmarks print is kept: figures as numbers, ratios under names, unfinished tables, a page."""

import json
import sys

import pytest

from tests.paths import ROOT

HEADINGS = ["call", "what", "ours", "bare ms", "ours / bare"]
ROWS = [
    ["count", "plain", "12.0 ms", "10", "1.23"],
    ["", "limited", "400 us, leaks", "1,000", "-"],
    ["total", "plain", "-", "10", "-"],
]


@pytest.fixture
def kept(run_beside, tmp_path, monkeypatch):
    """Reads what a benchmark called `made` has recorded."""
    monkeypatch.setenv(run_beside("recording").FOLDER, str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["/somewhere/made.py"])
    return lambda: json.loads((tmp_path / "made.json").read_text())


@pytest.mark.parametrize(
    ("cell", "heading", "number"),
    [
        ("12.5 ms", "time", 0.0125),
        ("12.5 ms, leaks", "time", 0.0125),
        ("1,250", "calls/s", 1250.0),
        ("3", "bare us", 3e-6),
        ("2.50 s", "bare us", 2.5),
        ("8%", "", 0.08),
        ("1e-06", "", 1e-6),
        ("-", "bare ms", None),
        ("", "bare ms", None),
        ("3 of 4", "calls", 3.0),
    ],
)
def test_cells_are_numbers_in_seconds(run_beside, cell, heading, number):
    assert run_beside("recording").figure(cell, heading) == pytest.approx(number)


def test_ratios_have_names_that_repeat_what_stands_above(run_beside, kept, capsys):
    against = run_beside("recording").Against("over it", *HEADINGS[2:], by=("call", "what"))
    run_beside("measuring").show("made", HEADINGS, ROWS, against=[against])
    assert kept()["tables"][0]["rows"] == ROWS
    ratios = kept()["ratios"]
    assert list(ratios) == ["over it: count, plain", "over it: count, limited"]
    assert ratios["over it: count, plain"]["ratio"] == 1.23
    assert ratios["over it: count, limited"]["ratio"] == pytest.approx(0.0004)
    assert "12.0 ms" in capsys.readouterr().out


def test_rates_are_turned_round(run_beside):
    against = run_beside("recording").Against("calls", "ours", "disk", rates=True, kind="peer")
    [row] = against.rows(["what", "ours", "disk"], [["a", "200", "500"]])
    assert (row.ratio, row.kind) == (2.5, "peer")


def test_two_ratios_of_one_name_are_refused(run_beside, kept):
    against = run_beside("recording").Against("over it", *HEADINGS[2:])
    with pytest.raises(ValueError, match="over it: count"):
        run_beside("measuring").show("made", HEADINGS, [ROWS[0], ROWS[0]], against=[against])


def test_an_interrupted_table_keeps_its_rows(run_beside, kept):
    def rows():
        yield ROWS[0]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_beside("measuring").show("made", HEADINGS, rows())
    assert [(table["title"], table["rows"]) for table in kept()["tables"]] == [("made (unfinished)", ROWS[:1])]


def test_nothing_is_kept_unless_asked(run_beside, tmp_path, monkeypatch):
    monkeypatch.delenv(run_beside("recording").FOLDER, raising=False)
    monkeypatch.chdir(tmp_path)
    run_beside("measuring").show("made", HEADINGS, ROWS)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("body", "outcome"),
    [("show('done', ['a'], [['1']])", "finished"), ("show('done', ['a'], [['1']]); raise SystemExit(3)", "failed")],
)
def test_how_a_benchmark_ends_is_told(run_beside, tmp_path, monkeypatch, body, outcome):
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "benchmarks"))
    (tmp_path / "made.py").write_text(f"from measuring import show\n{body}\n")
    section = run_beside("run_all").run(tmp_path / "made.py", minutes=1)
    assert section["outcome"] == outcome
    assert [table["title"] for table in section["tables"]] == ["done"]


def test_what_takes_too_long_is_stopped(run_beside, tmp_path):
    (tmp_path / "made.py").write_text("import time\ntime.sleep(600)\n")
    assert run_beside("run_all").run(tmp_path / "made.py", minutes=0.01)["outcome"] == "stopped after 0.01 minutes"


def test_what_is_killed_leaves_the_rows_it_had(run_beside, tmp_path, monkeypatch):
    """A cap may meet a benchmark where nothing can be interrupted."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "benchmarks"))
    (tmp_path / "made.py").write_text(
        "import os, signal\nfrom measuring import show\n"
        "def rows():\n    yield ['1']\n    os.kill(os.getpid(), signal.SIGKILL)\n"
        "show('whole', ['a'], [['0']])\nshow('part', ['a'], rows())\n"
    )
    section = run_beside("run_all").run(tmp_path / "made.py", minutes=1)
    assert section["outcome"] == "failed"
    assert [(table["title"], table["rows"]) for table in section["tables"]] == [
        ("whole", [["0"]]),
        ("part (unfinished)", [["1"]]),
    ]


def test_the_large_sizes_are_asked_for(run_beside, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "benchmarks"))
    (tmp_path / "made.py").write_text("from measuring import full, show\nshow(str(full()), ['a'], [])\n")
    run = run_beside("run_all").run
    told = [run(tmp_path / "made.py", 1, *more)["tables"][0]["title"] for more in ((), ("--full",))]
    assert told == ["False", "True"]


def test_the_page_is_that_of_the_record(run_beside):
    results = run_beside("results")
    sections = results.load()
    page = results.PAGE.read_text()
    assert all(f"\n## {name}\n" in page for name in sections)
    assert all(row in page for row in map(results.escaped, results.ratios(sections)))
    assert all(f"| {name}" in page.replace("\\", "") for name in run_beside("peer_libraries").MEASURED)
