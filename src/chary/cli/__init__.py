"""The `chary` command."""

from chary.cli.app import main, run

__all__ = ["main", "run"]
