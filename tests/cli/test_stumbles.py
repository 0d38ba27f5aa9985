"""What first-time users typed, and what they are told."""

import json
import logging
import re
import socket
import sqlite3
from contextlib import closing

import pytest
import typer

from chary.calls.call import MEANINGS, Expert
from chary.cli import output
from chary.cli.app import app
from chary.cli.commands import EXPERT
from tests.cli.kit import BUDGET, UNITS

ASKED = f"release visits.csv {UNITS} {BUDGET} --epsilon 0.1 --count"


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        ("clinic = Male", "unknown column 'Male'; text stands in single quotes: clinic = 'Male'"),
        ("clinic IN ('a', Male)", "text stands in single quotes: 'Male'"),
        ("Clinic = 'a'", "the nearest is 'clinic'"),
        ("agee > 3", "unknown column 'agee'; the nearest is 'age'"),
        ("age >= 2014-01-01", "a date stands in single quotes, as in day >= '2014-01-31'"),
        ("age > 3 & age < 5", "AND and OR join two of them"),
    ],
)
def test_a_condition_that_is_nearly_right_is_told_how_to_be_right(call, visits, condition, told):
    code, _, errors = call(ASKED, "--where", condition)
    assert (code, told in errors) == (2, True), errors


@pytest.mark.parametrize(
    "line",
    [
        f"release visits.csv {UNITS} {BUDGET} --epsilon 0.1 --sum csot --bounds 0,9 --max-rows-per-unit 1",
        f"release visits.csv {UNITS} {BUDGET} --epsilon 0.1 --count --by clinik --keys a,b",
        f"quantile visits.csv {UNITS} {BUDGET} --epsilon 0.1 --column cots --low 0 --high 9 --max-rows-per-unit 1",
    ],
)
def test_whatever_names_no_column_is_told_the_nearest_one(call, visits, line):
    code, _, errors = call(line)
    assert code == 2
    assert re.search("the nearest is '(cost|clinic|patient_id|age)'; the columns are patient_id, age,", errors), errors


@pytest.mark.parametrize("words", ["--unit patient --infer-types", "--unit patient_id --columns agee=BIGINT"])
def test_a_header_that_may_be_missing_is_not_shown(call, visits, words):
    """In a CSV without one, the names of columns are the cells of a row."""
    code, _, errors = call(f"release visits.csv {words} {BUDGET} --epsilon 0.1 --count")
    assert (code, "there is no column" in errors, "clinic" in errors) == (2, True, False)


def test_a_range_of_a_text_column_is_refused_with_what_would_do(call, visits):
    code, _, errors = call(ASKED, "--by", "clinic", "--keys", "0..39")
    assert code == 2
    assert "list its keys, such as a,b,c, or declare --columns clinic=BIGINT" in errors


@pytest.mark.parametrize(
    ("line", "most", "first"),
    [
        ("test", 9, {"above", "hits", "epsilon", "price", "within", "tests"}),
        ("release-if", 9, {"above", "hits", "epsilon"}),
        ("alert new", 14, {"above", "hits", "clear_below"}),
        ("pmw", 12, {"alpha", "where", "hits", "bins"}),
    ],
)
def test_the_first_panel_of_a_help_has_what_everybody_needs(line, most, first):
    found = typer.main.get_command(app)
    for word in line.split():
        found = found.commands[word]
    panels = [getattr(option, "rich_help_panel", None) for option in found.params]
    own = {option.name for option, panel in zip(found.params, panels, strict=True) if panel is None}
    assert first <= own
    assert len(own) <= most
    assert own & {"neighbors", "misses", "confidence", "below_margin", "config", "engine"} == set()
    # Nothing usual comes after what few need.
    panels = [panel for panel in panels if panel != "Output"]
    assert panels == sorted(panels, key=lambda panel: panel == EXPERT)


def test_an_option_of_experts_that_must_be_said_is_in_the_first_panel():
    found = typer.main.get_command(app).commands["ask"].commands["mwem"]
    (rounds,) = (option for option in found.params if option.name == "rounds")
    assert isinstance(MEANINGS["rounds"], Expert)
    assert (rounds.required, rounds.rich_help_panel) == (True, None)


def test_advice_in_a_shell_is_a_command_line_that_can_be_typed(call, visits):
    code, out, _ = call("advise --budget-epsilon 1 --budget-delta 1e-6 --hits 10 --tests 100 --low 0 --high 6000")
    assert code == 0
    assert "session" not in out
    assert "True" not in out
    best = out.strip().splitlines()[-1].split()
    assert best[:3] == ["chary", "ask", "FILE"]
    line = f"{' '.join(best[1:]).replace('FILE', 'visits.csv').replace('...', '500')} {UNITS}"
    code, _, errors = call(line)
    assert code == 0, errors


@pytest.mark.parametrize("name", ["sparse vector, tuned", "optimal threshold test, balanced", "plain composition"])
def test_every_option_of_advice_is_said_in_options_of_its_command(call, name):
    _, out, _ = call("advise --budget-epsilon 1 --budget-delta 1e-6 --hits 10 --tests 100 --low 0 --high 6000")
    known = typer.main.get_command(app).commands["ask"].commands
    lines = [line.partition(": chary ask FILE ")[2].split() for line in out.splitlines() if line.startswith(name)]
    told = [words for words in lines if words]
    assert told
    for kind, *words in told:
        flags = {flag for option in known[kind].params for flag in (*option.opts, *option.secondary_opts)}
        assert {word for word in words if word.startswith("--")} <= flags


def test_a_wide_table_is_checked_as_it_will_be_asked(call, tmp_path):
    (tmp_path / "meters.csv").write_text("meter,2013-01-01,2013-01-02\na,1.5,2\nb,,x\nc,3,4\n")
    code, out, _ = call("check meters.csv --unit meter --unpivot day,kwh --columns kwh=DOUBLE --json")
    assert code == 0
    found = json.loads(out)
    # An empty cell is no row, nor is one that is no number.
    assert found["rows"] == 4
    assert found["columns"]["kwh"] == {"type": "DOUBLE", "unparsed": 1}
    assert list(found["columns"]) == ["meter", "day", "kwh"]
    assert "unpivot needs a unit column" in call("check meters.csv --unpivot day,kwh")[2]


def test_a_taken_port_is_one_line_with_the_port_and_its_option(call):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, out, errors = call(f"serve --demo --port {port}")
    assert (code, out) == (2, "")
    assert errors.count("\n") == 1
    assert f"port {port} of 127.0.0.1 cannot be used (address already in use): is chary already running?" in errors
    assert "If not, name another one, such as --port" in errors
    assert not logging.getLogger("chary.service").handlers  # what cannot be served leaves no log behind


@pytest.mark.parametrize("share", ["1.3", "-0.1", "half"])
def test_a_quota_of_a_chary_toml_is_told_its_range_and_its_place(call, visits, tmp_path, share):
    (tmp_path / "chary.toml").write_text(
        f'[dataset.visits]\nfile = "visits.csv"\n[dataset.visits.shares]\nann = "{share}"\n'
    )
    code, _, errors = call("config visits")
    assert code == 2
    assert "dataset.visits.shares.ann: must be a fraction of the budget, from 0 to 1, such as 0.5" in errors


@pytest.mark.parametrize(
    ("held", "told"),
    [("", "the ledger's file is empty"), ("hello", "the file is not a ledger"), (None, "is not a ledger")],
)
def test_what_is_no_ledger_is_not_called_broken(call, tmp_path, held, told):
    place = tmp_path / "other.ledger"
    if held is None:
        with closing(sqlite3.connect(place)) as other:
            other.execute("CREATE TABLE visits (age INTEGER)")
    else:
        place.write_text(held)
    code, out, _ = call("ledger verify other.ledger")
    assert code == 2
    assert out.startswith("0 entries: nothing could be verified\n  ")
    assert "BROKEN" not in out
    assert told in out


@pytest.mark.parametrize("width", [80, 200])
def test_a_ledger_fits_into_eighty_columns_and_uses_more(call, visits, monkeypatch, width):
    for words in (f"test visits.csv {UNITS} {BUDGET} --count --above 9 --hits 9", f"{ASKED} --request again"):
        assert call(words)[0] == 0
    monkeypatch.setattr(output.console, "width", width)
    code, out, _ = call("ledger show visits.csv")
    assert code == 0
    (row,) = (line for line in out.splitlines() if "Threshold test" in line)
    assert max(map(len, out.splitlines())) <= width
    assert ("UTC" in row) == (width == 200)
    assert "settled" in row


def test_expected_false_alarms_say_how_to_give_other_values(call, visits):
    _, out, _ = call(f"quote visits.csv {UNITS} {BUDGET} --count --above 500 --hits 9")
    assert (
        "Expected false alarms if all values are 0: less than 0.000001; for larger usual values, quote with --truth"
        in out
    )
    _, out, _ = call(f"quote visits.csv {UNITS} {BUDGET} --count --above 500 --hits 9 --truth 100")
    assert "quote with --truth" not in out


@pytest.mark.parametrize("typed", ["0,1", "fifty"])
def test_what_is_no_number_is_told_what_one_looks_like(call, visits, typed):
    code, _, errors = call(f"test visits.csv {UNITS} {BUDGET} --count --hits 9 --above {typed}")
    assert (code, errors) == (2, f"chary: above must be a finite number, such as 0.5, got '{typed}'\n")


def test_a_plan_of_nothing_is_told_its_options(call):
    code, _, errors = call("plan")
    assert code == 2
    assert errors.endswith("as in: chary plan --budget-epsilon 1 --budget-delta 1e-6\n")
