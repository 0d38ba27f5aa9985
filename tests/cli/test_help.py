"""What every command tells of itself."""

import subprocess
import sys
from importlib.metadata import version

import pytest
import typer

from chary.cli.app import app


def _commands(command, path=()):
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from _commands(inner, (*path, name))


COMMANDS = dict(_commands(typer.main.get_command(app)))


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_no_help_text_holds_what_is_taken_for_markup(path):
    """Brackets vanish on the terminal, with the default that is told in them."""
    command = COMMANDS[path]
    told = [command.help or "", *(getattr(option, "help", None) or "" for option in command.params)]
    assert all("[" not in text for text in told)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("grow", ("(default: 0.05)", "Example: chary grow")),
        ("ask", ("(default: 10 hits)", "Example: chary ask", "--must-verify")),
        ("export synthetic", ("(default: the newest)", "Example: chary export synthetic")),
    ],
)
def test_defaults_and_an_example_are_shown(call, line, told):
    code, out, _ = call(f"{line} --help")
    assert code == 0
    assert all(text in out for text in told)


def test_the_version(call):
    assert call("--version") == (0, f"chary {version('chary')}\n", "")


def test_python_runs_it_as_a_module():
    done = subprocess.run([sys.executable, "-m", "chary", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"chary {version('chary')}\n"
