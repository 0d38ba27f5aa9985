"""What commands print: the help of each, figures and tables of those that ask, and of the calculators."""

import json
import os
import re
import tempfile
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from unittest.mock import patch

import typer

import chary
from chary.cli import run
from chary.cli.app import app
from chary.noise import Seeded
from tests.cli.test_kinds import CALLS
from tests.net.kept import masked, told

WIDTH = {"COLUMNS": "120", "TERMINAL_WIDTH": "120", "NO_COLOR": "1"}
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
BUDGET = "--epsilon 1 --delta 1e-6"
UNITS, EACH = "--unit patient_id --infer-types", "--each-row --relation replace --infer-types"
KEYED = "--count --by clinic --keys a,b,c"
CELLS = "--bins age=0,50,100 --values clinic=a,b,c --alpha 0.1"
# Commands that ask, each in a folder of its own, one line after the other.
TOLD = {
    "release": [f"release visits.csv {UNITS} {BUDGET} {KEYED} --epsilon-per-call 0.1 --keep-per-unit 2"],
    "release of a mean": [f"release visits.csv {EACH} {BUDGET} --mean age --bounds 0,100 --epsilon-per-call 0.1"],
    "watch": [f"watch visits.csv {UNITS} {BUDGET} {KEYED} --above 1000"],
    "watch of tests": [f"watch visits.csv {UNITS} {BUDGET} {KEYED} --above 1000 --tests 50 --hits 5"],
    "test": [f"test visits.csv {UNITS} {BUDGET} --count --above 1000", f"test visits.csv {UNITS} --count --above 9000"],
    "track": [f"track visits.csv {EACH} {BUDGET} --count --step 500"] * 2,
    "top": [f"top visits.csv {UNITS} {BUDGET} {KEYED} --k 2"],
    "cover": [f"cover visits.csv {UNITS} {BUDGET} {KEYED} --above 100 --k 2"],
    "between": [f"between visits.csv {UNITS} {BUDGET} --count --low 10 --high 9000"],
    "decide": [f"decide visits.csv {UNITS} {BUDGET} --count --above 1000"],
    "classify": [f"classify visits.csv {UNITS} {BUDGET} {KEYED}"],
    "choose": [f"choose visits.csv {UNITS} {BUDGET} {KEYED} --epsilon-per-call 0.1"],
    "quantiles": [f"quantiles visits.csv {EACH} {BUDGET} --column age --low 0 --high 120 --epsilon-per-call 0.1"],
    "histogram": [f"histogram visits.csv {UNITS} {BUDGET} --column age --bins 0,18,65 --epsilon-per-call 0.1"],
    "weights": [f"weights visits.csv {EACH} {BUDGET} {CELLS} --where clinic='a' --where age>=50"] * 2,
    "distinct": [f"distinct visits.csv {UNITS} {BUDGET} --epsilon-per-call 0.1"],
    "runs": [f"runs visits.csv {EACH} {BUDGET} --threshold 10 --low 0 --high 9000 --count"],
    "sparse": [f"sparse visits.csv {UNITS} {BUDGET} {KEYED} --above 100 --hits 2 --epsilon-per-call 0.5"],
    "grow": [f"grow visits.csv {EACH} {BUDGET} {KEYED} --schedule-rho 0.005 --append more.csv"],
    "resume": [
        f"ask visits.csv sparse-vector {EACH} {BUDGET} --above 1000 --hits 2 --epsilon-per-call 0.5 --values",
        f"resume visits.csv 2 {EACH} --count",
        f"resume visits.csv 3 {EACH} --count",
    ],
    "findings": [
        f"watch visits.csv {UNITS} {BUDGET} {KEYED} --above 1000 --tests 50 --hits 5",
        "findings visits.csv",
        "ledger show visits.csv.ledger",
        "ledger verify visits.csv.ledger",
        "ledger head visits.csv.ledger",
        "report visits.csv.ledger",
        f"release visits.csv {UNITS} --count --epsilon-per-call 5",
        f"release visits.csv --count {BUDGET} --epsilon-per-call 1",
    ],
    "plan": ["plan --epsilon 1 --delta 1e-6", "plan --epsilon 1 --delta 1e-6 --tests 100"],
    "advise": ["advise --epsilon 1 --delta 1e-6 --tests 100 --hits 5"],
}
# As above, but of calculators and of whatever else says how it is asked, and reads no file.
GROUPS_WITH_EXAMPLES = ("account", "plan", "advise")


def commands(command=None, path=()):
    """Every command and group, by its path."""
    command = typer.main.get_command(app) if command is None else command
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, (*path, name))


def printed(line):
    """A command line as somebody types it: its exit code, and what it prints."""
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err, patch.dict(os.environ, WIDTH):
        code = run(line)
    return code, _plain(out.getvalue()), _plain(err.getvalue())


def helps():
    """The help of every command."""
    return [{"command": " ".join(path), "help": printed([*path, "--help"])[1]} for path, _ in commands()]


def examples():
    """The examples in the help of what reads no file."""
    found = []
    for path, command in commands():
        if path and path[0] in GROUPS_WITH_EXAMPLES and command.help:
            text = " ".join(command.help.split())
            found += [each.split() for each in re.findall(r"Example: chary ((?:[^.]|\.\d)*)", text)]
    return found


def asking():
    """What each command that asks prints, as JSON and for people, with known noise."""
    lines = [dict(_told(line), of="an example") for line in examples()]
    for name, typed in TOLD.items():
        lines += _in_a_folder(name, [each.split() for each in typed])
    for kind, (rows, options, _) in CALLS.items():
        said = [kind.replace("_", "-"), *options.split(), *rows.split(), *BUDGET.split()]
        lines += _in_a_folder(f"ask {kind}", [["ask", "visits.csv", *said]])
        lines += _in_a_folder(f"quote {kind}", [["quote", "visits.csv", *said]])
    return lines


def _in_a_folder(name, typed):
    """Lines that are typed one after the other, once with --json and once without, each time on fresh ledgers."""
    found = []
    for more in (["--json"], []):
        with tempfile.TemporaryDirectory() as folder, chdir(folder):
            _rows(Path("visits.csv"), 6000)
            _rows(Path("more.csv"), 6000)
            source = Seeded(11)
            with patch.object(chary.noise, "OperatingSystem", lambda source=source: source):
                found += [dict(_told([*line, *more]), of=name) for line in typed]
    return found


def _told(line):
    code, out, err = printed(line)
    try:
        out = [told(json.loads(each)) for each in out.splitlines()]
    except ValueError:
        out = masked(out)
    return {"line": " ".join(line), "code": code, "out": out, "err": masked(err)}


def _rows(place, size):
    rows = "".join(f"{unit},{unit % 100},{'abc'[unit % 3]},{unit % 50}\n" for unit in range(size))
    place.write_text(f"patient_id,age,clinic,cost\n{rows}")


def _plain(text):
    return "\n".join(line.rstrip() for line in COLOURS.sub("", text).splitlines())
