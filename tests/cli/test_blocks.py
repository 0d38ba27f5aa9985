"""Budgets that renew, from the shell: the rule, blocks of a question, and rows that no question sees."""

import json
from datetime import datetime

import duckdb
import pytest

from chary.data import blocks as periods
from tests.cli.kit import figures

SAID = 'file = "meters.duckdb"\ntable = "readings"\nunit = "home"\nbudget-epsilon = 1\n'
RULE = 'blocks = {column = "day", every = "month", since = "2024-01", kept = 2}\n'
HALF = "--count --epsilon 0.5"


@pytest.fixture
def meters(tmp_path, monkeypatch):
    """A hundred homes in each of three months, of which it is the last."""
    monkeypatch.setattr(periods, "now", lambda: datetime(2024, 3, 15))
    with duckdb.connect(str(tmp_path / "meters.duckdb")) as made:
        days = "DATE '2024-01-05' + INTERVAL (i % 3) MONTH"
        made.execute(f"CREATE TABLE readings AS SELECT i AS home, CAST({days} AS DATE) AS day FROM range(300) t(i)")
    (tmp_path / "chary.toml").write_text(f"[dataset.meters]\n{SAID}{RULE}")


def spent(call):
    (dataset,) = figures(call, "ledger show meters.duckdb.ledger")
    return {name: round(share, 9) for each in dataset["partitions"] for name, share in each["parts"].items()}


@pytest.mark.parametrize("typed", [False, True])
def test_the_rule_is_said_in_a_chary_toml_or_typed(call, meters, tmp_path, typed):
    line = f"release meters {HALF}"
    if typed:
        (tmp_path / "chary.toml").unlink()
        line = "release meters.duckdb --table readings --unit home --budget-epsilon 1 --blocks "
        line += f"column=day,every=month,since=2024-01,kept=2 {HALF}"
    assert abs(figures(call, line)["value"] - 200) < 60
    (held,) = figures(call, "ledger show meters.duckdb.ledger")
    assert held["partitions"][0]["parts"] == {"2024-02": 0.5, "2024-03": 0.5}


def test_a_question_reads_and_charges_the_blocks_that_are_named(call, meters):
    assert abs(figures(call, f"release meters {HALF} --in-blocks 2024-03..2024-03")["value"] - 100) < 60
    assert spent(call) == {"2024-03": 0.5}
    quoted = figures(call, "quote meters --count --epsilon 0.1 --in-blocks 2024-02..")
    assert quoted["block"] == "2024-03"
    assert figures(call, "quote meters release --count --epsilon 0.1 --in-blocks ..2024-02")["left"] == 1
    assert figures(call, f"release meters {HALF} --in-blocks 2024-03")["remaining"] == 0
    assert call(f"release meters {HALF}")[0] == 3
    assert figures(call, f"release meters {HALF} --in-blocks 2024-02")["charged"] == 0.5
    _, out, _ = call("ledger show meters")
    assert "▇" * 20 in out
    run = figures(call, "ask meters sparse-vector --above 9 --hits 1 --epsilon 0.25 --in-blocks 2024-02")["run"]
    assert figures(call, f"resume meters {run} --count")["above"] is True
    assert spent(call) == {"2024-02": 0.75, "2024-03": 1}


def test_an_init_keeps_the_rule(call, meters, tmp_path):
    (tmp_path / "chary.toml").unlink()
    rule = "--blocks column=day,every=month,since=2024-01"
    assert call(f"init meters.duckdb --table readings --unit home --budget-epsilon 1 {rule}")[0] == 0
    assert figures(call, "release meters.duckdb --count --epsilon 0.25")["charged"] == 0.25
    assert spent(call) == {"2024-01": 0.25, "2024-02": 0.25, "2024-03": 0.25}


def test_a_dry_run_tells_of_rows_in_no_block_that_may_be_read(call, meters, tmp_path):
    days = ("2024-03-05", "2024-01-05", "2024-04-01", "2023-12-31", "")
    (tmp_path / "w.csv").write_text("home,day\n" + "".join(f"{home},{day}\n" for home, day in enumerate(days)))
    (row,) = figures(call, "append meters w.csv --dry-run")["dry_run"]
    assert (row["rows"], row["in_no_block"]) == (5, 4)
    _, out, _ = call("append meters w.csv --dry-run")
    assert "4 ROWS IN NO BLOCK" in out
    # They are there, and no question sees them.
    assert figures(call, "append meters w.csv")["appended"][0]["new"]
    value = figures(call, "release meters --count --epsilon 0.9 --in-blocks 2024-03")["value"]
    assert abs(value - 101) < 40


def test_an_alert_is_charged_in_the_blocks_of_its_window(call, meters):
    terms = "--above 500 --epsilon 0.1 --below-margin --window"
    run = json.loads(call(f"alert new meters --count --json {terms}", "10 days")[1])["run"]
    asked = figures(call, f"alert ask meters {run} --at 2024-03-14")
    assert (asked["state"], asked["changed"]) == ("quiet", False)
    assert [name for name, share in spent(call).items() if share] == ["2024-03"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--in-blocks 2024-01", "is closed, since 2 are kept: ask --in-blocks 2024-02..2024-03"),
        ("--in-blocks 2024-05", "of the future: ask --in-blocks 2024-02..2024-03"),
        ("--in-blocks spring", "since is a month or a day"),
        ("--blocks day", "--blocks is written as --blocks column=day,every=month,since=2012-01"),
        ("--blocks column=day,every=fortnight,since=2024", "every is one of day, week, month"),
        ("--blocks column=day,each=month,since=2024", "blocks have no 'each'; they take column, every, kept, since"),
        ("--blocks column=day,since=2024,kept=some", "such as 'kept=24'"),
        ("--blocks column=home,since=2024", "blocks are of a column of dates or timestamps"),
    ],
)
def test_what_is_wrong_is_said_in_the_words_of_a_command_line(call, meters, options, said):
    code, _, err = call(f"release meters {HALF} {options}")
    assert (code, said in err) == (2, True), err


def test_a_budget_that_does_not_renew_has_no_blocks(call, visits):
    code, _, err = call(
        "release visits.csv --unit patient_id --infer-types --budget-epsilon 1 --in-blocks 2024 " + HALF
    )
    assert (code, "leave --in-blocks out" in err) == (2, True), err
