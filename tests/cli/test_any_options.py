"""Whatever is typed: an answer, or one line without data and exit code 2 or 3; never a traceback."""

import io
import os

import pytest
import typer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chary.cli import run
from chary.cli.app import app
from tests.cli.kit import BUDGET, CELLS, KEYED, PUBLIC, SECRET, SMALL, UNITS, write_visits
from tests.cli.kit import typed as name_of
from tests.conformance.samples import TYPED, USUAL
from tests.session.kit import shows_data
from tests.session.kit import visits as patients

ROOT = typer.main.get_command(app)
# What works for each command; then options are added, which mostly do not suit it. Kinds have theirs in their samples.
SHORT = {
    "release-if": f"{UNITS} {KEYED} --above 10 {SMALL}",
    "test": f"{UNITS} --count --above 10",
    "quote": f"{UNITS} {KEYED} {SMALL}",
    "sparse-vector": f"{UNITS} {KEYED} --above 10 --hits 2 {SMALL}",
    "distinct-sketch": f"{UNITS} {SMALL}",
    "pmw": f"{PUBLIC} {CELLS} --alpha 0.2 {SMALL} --where clinic='a'",
    "rerun": f"{PUBLIC} --count --rho 0.001",
    "resume": "1 --count",
    "findings": UNITS,
    "config": UNITS,
}
# Kinds by the names that are typed for them.
KINDS = {name_of(kind): TYPED[name].command().partition(" ")[2] for kind, name in USUAL.items()}
NUMBERS = ["0.1", "1", "2", "0", "-1", "1/3", "1/0", "nan", "1e-400", "1e400", "ten", "", "9" * 60]
WHOLE = ["1", "2", "3", "0", "-1", "x"]
TEXTS = ["age", "clinic", "patient_id", "nobody", "a,b", "0,50", "50,0", "1..3", "..", "@nothing", "@visits.csv", '"']
TEXTS += [
    "age >= 30",
    "clinic = 'a'",
    "cost / age > 1",
    "age=0,50",
    "clinic=a,b",
    "=",
    "age=",
    "x" * 300,
    "é\x00",
    "[b]",
]


def typed(option):
    """An option with a text that suits its type, or with one that suits none."""
    if option.is_flag:
        return st.just([option.opts[0]])
    whole = option.type_descriptor.annotation is int
    return st.sampled_from(WHOLE if whole else NUMBERS + TEXTS).map(lambda text: [option.opts[0], text])


@st.composite
def lines(draw):
    name = draw(st.sampled_from([*SHORT, *sorted(KINDS)]))
    if name in SHORT and (name not in KINDS or draw(st.booleans())):
        command, words, works = ROOT.commands[name], [name, "visits.csv"], SHORT[name]
        command = command.commands["question"] if name == "quote" else command
    else:
        command = ROOT.commands["ask"].commands[name]
        words, works = ["ask", "patients.csv", name], KINDS[name]
    said = f"{works} {BUDGET}".split(" --")
    left_out = draw(st.none() | st.integers(1, len(said) - 1))
    words += " --".join(text for place, text in enumerate(said) if place != left_out).split()
    options = [each for each in command.params if each.param_type_name == "option" and "--help" not in each.opts]
    for option in draw(st.lists(st.sampled_from(options), max_size=2)):
        words += draw(typed(option))
    return words


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("typed")
    write_visits(place / "visits.csv", 60, SECRET)
    patients().to_csv(place / "patients.csv", index=False)
    before = os.getcwd()
    os.chdir(place)
    yield place
    os.chdir(before)


@settings(
    max_examples=100,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(words=lines())
def test_a_command_answers_or_says_in_one_line_why_not(folder, capsys, monkeypatch, words):
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    for left in folder.iterdir():
        if left.name not in ("visits.csv", "patients.csv"):
            left.unlink()
    code = run(words)
    told = capsys.readouterr()
    assert code in (0, 2, 3), words
    if code:
        assert told.err.startswith("chary: "), words
        said = [line for line in told.err.strip().splitlines() if not line.startswith("chary: warning: no type")]
        assert len(said) == 1, words
        assert not shows_data(told.err + told.out), words
        assert "0.000" not in told.err.split(), words
