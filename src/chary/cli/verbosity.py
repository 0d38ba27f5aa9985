"""`--verbose`, which every command takes: whether people are told the accounting as well."""

from contextvars import ContextVar
from functools import cache
from typing import Annotated, Any, Final

import typer

# Whether this command line asked for the accounting; the command itself starts each line with no.
VERBOSE: Final[ContextVar[bool]] = ContextVar("verbose", default=False)
HELP: Final = "Tell the accounting, too: epsilon of each call, orders, log-moments."


def heard(said: bool) -> bool:
    """What a command line said, at one place or another."""
    VERBOSE.set(VERBOSE.get() or said)
    return said


Verbose = Annotated[
    bool, typer.Option("--verbose", callback=heard, expose_value=False, help=HELP, rich_help_panel="Output")
]


@cache
def option() -> Any:
    """The option, as every command has it."""

    def command(verbose: Verbose = False) -> None: ...

    app = typer.Typer(add_completion=False)
    app.command()(command)
    return typer.main.get_command(app).params[0]
