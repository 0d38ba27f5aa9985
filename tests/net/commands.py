"""What commands print: the help of each, figures and tables of those that ask, and of the calculators."""

import json
import os
import re
import sys
import tempfile
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from unittest.mock import patch

import typer

import chary
from chary.cli import output, run
from chary.cli.app import app
from chary.noise import Seeded
from tests.cli.kit import BUDGET, KEYED, UNITS, write_visits
from tests.cli.kit import PUBLIC as EACH
from tests.conformance.samples import TYPED
from tests.net.kept import masked, told
from tests.session.kit import visits

WIDTH = {"COLUMNS": "120", "TERMINAL_WIDTH": "120", "NO_COLOR": "1"}
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
CELLS = "--bins age=0,50,100 --values clinic=a,b,c --alpha 0.1"
SELF = "--threshold 10 --threshold-noise 500 --low 0 --high 9000"
# Commands that ask, each in a folder of its own, one line after the other.
TOLD = {
    "release": [f"release visits.csv {UNITS} {BUDGET} {KEYED} --epsilon 0.1 --max-groups-per-unit 2"],
    "release of a mean": [f"release visits.csv {EACH} {BUDGET} --mean age --bounds 0,100 --epsilon 0.1"],
    "watch": [f"release-if visits.csv {UNITS} {BUDGET} {KEYED} --above 1000"],
    "watch of tests": [f"release-if visits.csv {UNITS} {BUDGET} {KEYED} --above 1000 --tests 50 --hits 5"],
    "test": [f"test visits.csv {UNITS} {BUDGET} --count --above 1000", f"test visits.csv {UNITS} --count --above 9000"],
    "track": [f"on-change visits.csv {EACH} {BUDGET} --count --step 500"] * 2,
    "top": [f"top-k visits.csv {UNITS} {BUDGET} {KEYED} --k 2"],
    "cover": [f"greedy visits.csv {UNITS} {BUDGET} {KEYED} --above 100 --k 2"],
    "between": [f"classify visits.csv {UNITS} {BUDGET} --count --low 10 --high 9000 --epsilon 0.1"],
    "decide": [f"classify visits.csv {UNITS} {BUDGET} --count --above 1000 --epsilon 0.1"],
    "classify": [f"classify visits.csv {UNITS} {BUDGET} {KEYED}"],
    "choose": [f"choose visits.csv {UNITS} {BUDGET} {KEYED} --epsilon 0.1"],
    "quantiles": [f"quantile visits.csv {EACH} {BUDGET} --column age --low 0 --high 120 --epsilon 0.1"],
    "histogram": [f"histogram visits.csv {UNITS} {BUDGET} --column age --bins 0,18,65 --epsilon 0.1"],
    "weights": [f"pmw visits.csv {EACH} {BUDGET} {CELLS} --where clinic='a' --where age>=50"] * 2,
    "distinct": [f"distinct-sketch visits.csv {UNITS} {BUDGET} --epsilon 0.1"],
    "runs": [f"self-reporting visits.csv {EACH} {BUDGET} {KEYED} {SELF} --epsilon 0.1"],
    "sparse": [f"sparse-vector visits.csv {UNITS} {BUDGET} {KEYED} --above 100 --hits 2 --epsilon 0.5"],
    "grow": [f"rerun visits.csv {EACH} {BUDGET} {KEYED} --rho 0.005 --append more.csv"],
    "resume": [
        f"ask visits.csv sparse-vector {EACH} {BUDGET} --above 1000 --hits 2 --epsilon 0.5 --values",
        f"resume visits.csv 3 {EACH} --count",
    ],
    "alert": [
        f"alert new visits.csv {UNITS} {BUDGET} --count --above 1000 --clear-below 800 --hits 10 --note many",
        *(f"alert {line} {UNITS}" for line in ("ask visits.csv 2", "list visits.csv", "show visits.csv 2")),
    ],
    "findings": [
        f"release-if visits.csv {UNITS} {BUDGET} {KEYED} --above 1000 --tests 50 --hits 5",
        "findings visits.csv",
        "ledger show visits.csv.ledger",
        "ledger verify visits.csv.ledger",
        "ledger head visits.csv.ledger",
        "report visits.csv.ledger",
        f"release visits.csv {UNITS} --count --epsilon 5",
        f"release visits.csv --count {BUDGET} --epsilon 1",
    ],
    "plan": ["plan --budget-epsilon 1 --budget-delta 1e-6", "plan --budget-epsilon 1 --budget-delta 1e-6 --tests 100"],
    "advise": ["advise --budget-epsilon 1 --budget-delta 1e-6 --tests 100 --hits 5"],
}
NOISE = "--threshold-noise 0.1733 --query-noise 0.1733 --sensitivity 0.001 --threshold 0.5"
CALCULATED = (
    f"above-threshold --steps 7 {NOISE}",
    "between --epsilon 0.1 --width 100",
    "boundary --epsilon 0.5 --outcomes 2 --order 15",
    "budget --accuracy 0.2 --size 100000",
    "charging --epsilon 0.1 --hits 5 --budget-delta 1e-6 --q 0.3",
    "compose --epsilon 0.1 --times 100 --budget-delta 1e-6",
    "group --epsilon 1 --delta 1e-6 --units 3",
    "hits --overhead 0.5 --delta 1e-6 --epsilon 0.1",
    "interval --epsilon 0.05 --above 100 --value 140",
    "noisy-max --queries 30 --sensitivity 0.01 --noise 0.2",
    "people --values 10 --epsilon 1 --within 0.02",
    "population --excess 0.001 --size 1000 --lam 0.5",
    "price --order 4 --epsilon 0.05",
    "queries --alpha 0.1 --cells 1000 --start 1000000000 --size 4000000000 --epsilon 1",
    "rows --accuracy 0.2 --factor 2 --epsilon 1",
    "run-filter --budget-epsilon 1 --budget-delta 1e-6 --epsilon 0.01 --delta 1e-7",
    f"run-pdp --delta 1e-6 {NOISE}",
    f"runs --budget-epsilon 1 --budget-delta 1e-6 {NOISE}",
    "sampler --epsilon 1 --delta 1e-6 --distance 0.01",
    "sharp --order 18 --price 0.2 --p 0.001",
    "tests --budget-epsilon 1 --budget-delta 1e-6 --hits 3 --within 120",
    "top-one --epsilon 0.1 --candidates 500 --budget-delta 1e-6",
    "unanimous --epsilon 0.02 --order 15 --unclear 0.1",
    "unbiased --epsilon 0.1 --units 100",
    "weights-rows --alpha 0.2 --cells 50 --queries 10 --epsilon 1",
    "within --budget-epsilon 1 --budget-delta 1e-6 --tests 1000 --hits 3",
)


def commands(command=None, path=()):
    """Every command and group, by its path."""
    command = typer.main.get_command(app) if command is None else command
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, (*path, name))


def printed(line):
    """A command line as somebody types it: its exit code, and what it prints."""
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err, _as_chary():
        code = run(line)
    return code, _plain(out.getvalue()), _plain(err.getvalue())


@contextmanager
def _as_chary():
    """As the command of that name, on a terminal of a known width."""
    program = patch.object(sys.modules["__main__"], "__package__", None, create=True)
    # The consoles of a process remember how wide the terminal was when they were made.
    wide = [patch.object(each, "_width", int(WIDTH["COLUMNS"])) for each in (output.console, output.errors)]
    with patch.dict(os.environ, WIDTH), patch.object(sys, "argv", ["chary"]), program, wide[0], wide[1]:
        yield


def helps():
    """The help of every command."""
    return [{"command": " ".join(path), "help": printed([*path, "--help"])[1]} for path, _ in commands()]


def asking():
    """What each command that asks prints, as JSON and for people, with known noise."""
    lines = [dict(_told(["account", *each.split(), "--json"]), of="calculators") for each in CALCULATED]
    for name, typed in TOLD.items():
        lines += _in_a_folder(name, [each.split() for each in typed])
    for name, sample in TYPED.items():
        said = [*sample.command().split(), *BUDGET.split()]
        for how in ("ask", "quote"):
            lines += _in_a_folder(f"{how} {name}", [[how, "patients.csv", *said]], forms=(["--json"],))
    return lines


def _in_a_folder(name, typed, forms=(["--json"], [])):
    """Lines that are typed one after the other, once with --json and once without, each time on fresh ledgers."""
    found = []
    for more in forms:
        with tempfile.TemporaryDirectory() as folder, chdir(folder):
            write_visits(Path("visits.csv"), 6000)
            write_visits(Path("more.csv"), 6000)
            visits().to_csv("patients.csv", index=False)
            source = Seeded(11)
            with patch.object(chary.noise, "OperatingSystem", lambda source=source: source):
                found += [dict(_told([*line, *more]), of=name) for line in typed]
    return found


def _told(line):
    code, out, err = printed(line)
    out = masked(out)
    with suppress(ValueError):
        out = [told(json.loads(each)) for each in out.splitlines()]
    return {"line": " ".join(line), "code": code, "out": out, "err": masked(err)}


def _plain(text):
    return "\n".join(line.rstrip() for line in COLOURS.sub("", text).splitlines())
