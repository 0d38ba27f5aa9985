"""What every command tells of itself."""

import subprocess
import sys
from importlib.metadata import version

import pytest
import typer

from chary.cli.app import app
from tests.test_public_names import run_python


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


@pytest.mark.parametrize("path", [path for path in COMMANDS if not hasattr(COMMANDS[path], "commands")], ids=" ".join)
def test_every_command_prints_json_and_those_that_read_rows_write_csv(call, path):
    options = {name for option in COMMANDS[path].params for name in option.opts}
    assert {"--json", "--verbose"} <= options
    # The owner's check looks at rows and asks nothing of them: what it reports goes into no file.
    assert ("--no-config" in options) == ("--unit" in options or path == ("check",))
    assert ("--unit" in options) <= ("--output" in options or path == ("check",))
    assert COMMANDS[path].help


def test_help_opens_no_door():
    """Neither help nor the completion of names loads what a command needs."""
    code = (
        "import sys; from chary.cli import run; run([]); run(['--help']); print([m for m in HEAVY if m in sys.modules])"
    )
    assert run_python(code).splitlines()[-1] == "[]"


def test_a_ledger_file_needs_no_driver_of_a_server():
    code = """
import sys

class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "psycopg":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Nothing())
from chary.cli import run
for path in COMMANDS:
    assert run([*path, "--help"]) == 0, path
print("all")
"""
    paths = [list(path) for path in COMMANDS if path[:1] == ("ledger",)]
    assert run_python(code.replace("COMMANDS", repr(paths))).endswith("all")


def test_every_name_in_the_first_help_is_there(call):
    _, out, _ = call("--help")
    assert all(f"│ {name} " in out for (name,) in (path for path in COMMANDS if len(path) == 1))
    assert call("--help")[1] == call("-h")[1]
    assert "--verbose" in out


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("rerun", ("(default: 0.05)", "Example: chary rerun")),
        ("pmw", ("--hits 20 --alpha 0.1", "Example: chary pmw", "--must-verify")),
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
