"""The page of evidence names commands that there are, and the figures of calculators are those that they print."""

import json
import re
import shlex

import pytest

from chary.cli import run
from chary_research.experiments import EXPERIMENTS
from tests.docs.test_papers import is_command
from tests.paths import ROOT

PAGE = (ROOT / "docs" / "theory" / "evidence.md").read_text()
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if line.startswith("|") and not line.startswith(("|---", "| claim"))
]
COMMANDS = [(row, command) for row in ROWS for command in re.findall(r"`([^`]+)`", row[-1])]
CALCULATED = [(row, command) for row, command in COMMANDS if command.startswith("chary account")]


def numbers(text):
    return [float(found.replace(",", "")) for found in re.findall(r"\d[\d,]*(?:\.\d+)?", text)]


@pytest.mark.parametrize(("row", "command"), COMMANDS, ids=lambda what: what if isinstance(what, str) else "")
def test_the_command_is_there(row, command):
    words = [word for word in shlex.split(command) if not word.startswith("-")]
    if words[0] == "chary":
        group = 3 if words[1] in ("account", "attack") else 2
        assert is_command(" ".join(words[:group]))
        assert words[1] != "reproduce" or words[2] in EXPERIMENTS
    elif words[0] == "make":
        assert f"\n{words[1]}:" in (ROOT / "Makefile").read_text()
    else:
        assert words[0] == "python"
        assert any((ROOT / word).exists() for word in words[1:]) or "tests.soak" in words


@pytest.mark.parametrize(("row", "command"), CALCULATED, ids=lambda what: what if isinstance(what, str) else "")
def test_figures_of_calculators_are_what_they_print(row, command, capsys):
    assert run([*shlex.split(command)[1:], "--json"]) == 0
    printed = numbers(re.sub(r"e-\d+", "", json.dumps(json.loads(capsys.readouterr().out))))
    for cell in row[1:3]:
        told = numbers(cell)[0]
        assert any(abs(told - found) <= 0.005 * found for found in printed), (told, printed)
