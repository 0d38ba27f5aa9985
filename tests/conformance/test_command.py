"""What every kind must do at a command line: one command for each, made from its call. See samples.py."""

import inspect
import json
import re

import pytest
import typer

import chary
from chary import Budget
from chary.calls import kinds
from chary.cli.answers import figures
from chary.cli.app import app
from chary.cli.forms import forms
from chary.cli.output import is_table
from tests.cli.kit import BUDGET, SMALL, typed
from tests.conformance.sample import NEIGHBORS
from tests.conformance.samples import BROUGHT, TYPED, USUAL
from tests.session.kit import WORDS_OF_ACCOUNTING, shows_data


def line_of(name, word="ask", options=None):
    """A command line that asks a sample, or its kind with other options."""
    return f"{word} patients.csv {TYPED[name].command(options)} {BUDGET}"


@pytest.fixture
def opened(patients):
    """Sessions on what the commands asked."""

    def make(name, **options):
        given = {"infer_types": True, "budget": Budget(1, "1e-6"), "ledger": f"{patients}.ledger"} | options
        return chary.open(str(patients), **given, **NEIGHBORS[TYPED[name].rows])

    return make


def as_json(value):
    return json.loads(json.dumps(value, default=str))


def test_every_kind_that_a_command_line_can_state_is_here():
    stated = {name for name, kind in kinds().items() if kind.typed}
    assert {form.kind.kind for form in forms()} == {*USUAL, "widen"} == stated - BROUGHT


@pytest.mark.parametrize("name", TYPED)
def test_the_command_has_the_answer_of_the_library(call, opened, name):
    code, out, err = call(f"{line_of(name)} --request one --json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    with opened(name) as session:
        calls = len(session.history)
        answer = session.ask(TYPED[name].call(), request="one")
        assert len(session.history) == calls
        assert found["spent"] == as_json(session.spent.as_dict())
    expected = as_json(figures(answer, TYPED[name].kind))
    assert {each: found[each] for each in expected} == expected
    assert set(found) - set(expected) <= {"spent", "epsilon", "shortfall", "charged", "remaining"}
    assert found["charged"] == pytest.approx(found["spent"]["share"])
    assert found["remaining"] == pytest.approx(1 - found["spent"]["share"])
    assert not shows_data(out)
    if not found.get("interval_says", "no interval").startswith("no interval"):
        rows = [row for rows in found.values() if is_table(rows) for row in rows]
        assert any({"low", "high"} <= set(row) for row in (found, *rows))


@pytest.mark.parametrize("name", TYPED)
def test_any_kind_is_quoted_and_nothing_is_kept(call, patients, opened, name):
    code, out, err = call(f"{line_of(name, 'quote')} --json")
    assert (code, err) == (0, "")
    assert not patients.with_name("patients.csv.ledger").exists()
    with opened(name, grain="0.01" if kinds()[TYPED[name].kind].by_hits else None) as session:
        assert json.loads(out) == as_json(session.quote(TYPED[name].call()).as_dict())


@pytest.mark.parametrize("kind", [*USUAL, "widen"])
def test_a_kind_tells_what_its_docstring_says_and_what_each_option_means(call, kind):
    code, out, _ = call(f"ask {typed(kind)} --help")
    shown = " ".join(out.replace("│", " ").split())
    (first, *_) = inspect.cleandoc(kinds()[kind].__doc__).splitlines()
    assert code == 0
    assert first in shown
    command = typer.main.get_command(app).commands["ask"].commands[typed(kind)]
    assert all(option.help for option in command.params if option.name != "help")
    assert call(f"ask visits.csv {typed(kind)} -h")[1] == out


@pytest.mark.parametrize("kind", USUAL)
def test_bad_input_leaves_with_2_in_one_line(call, patients, kind):
    options = TYPED[USUAL[kind]].typed
    wrong = [f"{options} --nothing 1", f"{options} --neighbors sideways"]
    wrong += [options.replace(SMALL, "--epsilon nan")] if SMALL in options else []
    wrong += [options.split(" --", 1)[1]] if kind not in ("release", "individual_stream") else []
    for said in wrong:
        code, out, err = call(line_of(USUAL[kind], options=said))
        assert (code, out) == (2, ""), said
        assert err.startswith("chary: ")
        assert len(err.strip().splitlines()) == 1
        assert not shows_data(err)
    assert not patients.with_name("patients.csv.ledger").exists()


@pytest.mark.parametrize("kind", ["release", "histogram", "track", "top", "release_if", "quantiles", "choose"])
def test_a_budget_that_is_too_small_leaves_with_3(call, patients, kind):
    large = TYPED[kind].typed.replace(SMALL, "--epsilon 90")
    code, out, err = call(line_of(kind, options=large))
    assert (code, out, "would fit" in err) == (3, "", True)


@pytest.mark.parametrize("kind", ["top", "classify", "choose", "release", "quantiles", "histogram", "track"])
def test_a_short_form_is_the_same_command(call, patients, kind):
    long = call(f"{line_of(kind)} --request one --json")
    short = line_of(kind).replace(f"ask patients.csv {typed(kind)}", f"{typed(kind)} patients.csv")
    assert call(f"{short} --request one --json") == long
    assert long[0] == 0


# What follows shows calls to write, with their epsilon.
CALLS_TO_WRITE = " at the same cost:"


@pytest.mark.parametrize("kind", USUAL)
def test_people_are_told_prices_and_the_accounting_only_if_they_ask(call, patients, kind):
    line = f"{line_of(USUAL[kind])} --request one"
    code, out, err = call(line)
    assert (code, err) == (0, "")
    assert re.search(r"^(charged \S+ %|free), \S+ % left$", out, re.MULTILINE)
    assert not WORDS_OF_ACCOUNTING.search(out)
    for verbose in (f"{line} --verbose", f"--verbose {line}"):
        assert WORDS_OF_ACCOUNTING.search(call(verbose)[1])
    again = r"stored under this key before, free now, \2"
    stored = re.sub(r"^(charged \S+ %|free), (\S+ % left)$", again, out, flags=re.MULTILINE)
    # A run that is opened says what it was charged.
    assert call(line)[1] in (stored, out)
    quoted = call(line_of(USUAL[kind], "quote"))[1]
    assert not WORDS_OF_ACCOUNTING.search(quoted.partition(CALLS_TO_WRITE)[0])
    assert "%" in quoted or "free" in quoted
