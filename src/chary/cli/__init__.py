"""The `chary` command."""

import sys
from importlib import import_module
from importlib.metadata import version

__all__ = ["main", "run"]


def main() -> None:
    """Run the command line and leave with its exit code; the version is reported without loading an engine."""
    if sys.argv[1:] == ["--version"]:
        sys.stdout.write(f"chary {version('chary')}\n")
        return
    sys.exit(run())


def run(arguments: list[str] | None = None) -> int:
    """The exit code of one command line; see `chary.cli.app`."""
    code: int = import_module("chary.cli.app").run(arguments)
    return code
