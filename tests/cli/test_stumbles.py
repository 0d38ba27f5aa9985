"""What first-time users typed, and what they are told."""

import re

import pytest
import typer

from chary.calls.call import MEANINGS, Expert
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
        f"release visits.csv --unit patient --infer-types {BUDGET} --epsilon 0.1 --count",
        f"release visits.csv --unit patient_id --columns agee=BIGINT {BUDGET} --epsilon 0.1 --count",
    ],
)
def test_whatever_names_no_column_is_told_the_nearest_one(call, visits, line):
    code, _, errors = call(line)
    assert code == 2
    assert re.search("the nearest is '(cost|clinic|patient_id|age)'; the columns are patient_id, age,", errors), errors


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
