"""`chary alert`: alerts of a dataset are opened with their quote, asked, listed, and shown with their changes."""

import json

import duckdb
import pytest

from tests.cli.kit import figures

BIG = "--above 1000 --clear-below 500 --hits 20"
GROUPED = "--by zone --keys 1,2 --max-groups-per-unit 1"


@pytest.fixture
def meters(tmp_path):
    """A table of homes of two zones, named by a chary.toml."""
    with duckdb.connect(str(tmp_path / "meters.duckdb")) as made:
        made.execute(
            "CREATE TABLE readings AS SELECT i AS home, 1 AS zone, DATE '2024-01-01' AS day FROM range(10) t(i)"
        )
    said = 'file = "meters.duckdb"\ntable = "readings"\nunit = "home"\nbudget-epsilon = 1\nbudget-delta = "1e-6"\n'
    (tmp_path / "chary.toml").write_text(f"[dataset.meters]\n{said}")

    def arrive(name, first, last, zone=1):
        rows = "".join(f"{home},{zone},2024-01-0{1 + zone}\n" for home in range(first, last))
        (tmp_path / name).write_text(f"home,zone,day\n{rows}")

    return arrive


def test_an_alert_is_opened_with_its_quote_asked_listed_and_shown(call, meters, tmp_path):
    opened = figures(call, f"alert new meters --count {BIG} --severity critical --note full")
    assert (opened["kind"], opened["charged"]) == ("alert", 0)
    assert "10 episodes fit" in str(opened["quote"])
    run = opened["run"]
    asked = figures(call, f"alert ask meters {run}")
    assert (asked["state"], asked["changed"], asked["charged"]) == ("quiet", False, 0)
    meters("w1.csv", 100, 3000)
    appended = figures(call, "append meters w1.csv")
    assert "alerts" not in appended
    asked = figures(call, f"alert ask meters {run} --request one")
    assert (asked["state"], asked["changed"]) == ("active", True)
    assert abs(asked["value"] - 2910) < 300
    assert figures(call, f"alert ask meters {run} --request one") == asked
    (row,) = figures(call, "alert list meters")["alerts"]
    told = {name: row[name] for name in ("run", "state", "answers", "changes_so_far", "severity", "note")}
    assert told == {
        "run": run,
        "state": "active",
        "answers": 2,
        "changes_so_far": 1,
        "severity": "critical",
        "note": "full",
    }
    assert row["changes_left"] == 19
    shown = figures(call, f"alert show meters {run} --plot alert.png")
    (change,) = shown["changes"]
    assert (change["version"], change["state"], change["value"]) == (asked["version"], "active", asked["value"])
    assert change["low"] < asked["value"] < change["high"]
    assert (tmp_path / "alert.png").stat().st_size > 1000
    _, out, _ = call("alert list meters")
    # Columns are as wide as the terminal.
    assert "full" in out


def test_an_append_asks_the_alerts_about_what_they_have_not_looked_at(call, meters):
    plain, grouped = (figures(call, f"alert new meters --count {more} {BIG}")["run"] for more in ("", GROUPED))
    meters("w1.csv", 100, 3000, zone=2)
    told = figures(call, "append meters w1.csv --alerts")
    assert [(row["run"], row["version"]) for row in told["alerts"]] == [(plain, 1), (grouped, 1)]
    assert told["alerts"][0]["changed"] is True
    assert [row["state"] for row in told["alerts"][1]["groups"]] == ["quiet", "active"]
    again = figures(call, "append meters w1.csv --alerts")
    assert (again["appended"][0]["new"], again["alerts"]) == (False, [])
    shown = figures(call, f"alert show meters {grouped}")
    assert ([row["key"] for row in shown["changes"]], shown["active"]) == ([[2]], [2])
    _, out, _ = call(f"alert show meters {grouped}")
    assert "none" not in out


def test_versions_that_came_meanwhile_are_worked_off_in_order(call, meters):
    run = figures(call, f"alert new meters --count {BIG}")["run"]
    for number, homes in enumerate((3000, 3001), 1):
        meters(f"w{number}.csv", homes - 2900 if number == 1 else 3000, homes)
        figures(call, f"append meters w{number}.csv")
    meters("w3.csv", 3001, 3002)
    told = figures(call, "append meters w3.csv --alerts")["alerts"]
    assert [(row["version"], row["state"], row["changed"]) for row in told] == [
        (1, "active", True),
        (2, "active", False),
        (3, "active", False),
    ]
    (row,) = figures(call, "alert list meters")["alerts"]
    assert (row["run"], row["skipped"], row["version"]) == (run, [], 3)


def test_what_cannot_be_paid_is_told_beside_the_rows_that_came(call, meters):
    run = figures(call, f"alert new meters --count {BIG}")["run"]
    assert call("release meters --count --epsilon 0.999999")[0] == 0
    meters("w1.csv", 100, 3000)
    told = figures(call, "append meters w1.csv --alerts")
    assert told["appended"][0]["new"]
    ((number, refused),) = [(row["run"], row["refused"]) for row in told["alerts"]]
    assert number == run
    assert "budget" in refused


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("alert ask meters 99", 2, "there is no call of that number"),
        ("alert ask meters {sparse}", 2, "opened no alert: see chary alert list"),
        ("alert ask meters {run} --at 2024-01-01", 2, "--at"),
        ("alert show meters {run} --plot alert.txt", 2, "a picture goes to a file"),
        ("alert new meters --count --above 5 --hits 20", 2, "--below-margin asks anyway"),
        ("alert new meters --count --above 900 --clear-below 901 --hits 20", 2, "give --clear-below 900 or less"),
        ("alert new meters --count --above 900", 2, "has no default cost: give --hits 20"),
        ("append meters w.csv --dry-run --alerts", 2, "leave --watch and --alerts out"),
    ],
)
def test_what_is_wrong_is_said_in_the_words_of_a_command_line(call, meters, line, code, said):
    run = figures(call, f"alert new meters --count {BIG}")["run"]
    sparse = figures(call, "ask meters sparse-vector --above 9 --hits 1 --epsilon 0.1")["run"]
    found, _, err = call(line.format(run=run, sparse=sparse))
    assert (found, said in err) == (code, True), err


def test_no_change_has_no_picture(call, meters, tmp_path):
    run = figures(call, f"alert new meters --count {BIG}")["run"]
    code, out, err = call(f"alert show meters {run} --plot alert.png --json")
    assert (code, json.loads(out)["changes"], "no picture" in err) == (0, [], True)
    assert not (tmp_path / "alert.png").exists()
