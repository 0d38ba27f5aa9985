"""The `chary` command: one file a group, exit codes 0 fine, 2 usage or bad input, 3 budget refused."""

import sys
from importlib.metadata import version
from typing import Annotated

import typer

from chary.cli import account, attacks, books, export
from chary.cli.advising import advise
from chary.cli.changes import track
from chary.cli.choose import choose
from chary.cli.choosing import cover, top
from chary.cli.clear import between, classify, decide
from chary.cli.commands import quote, release, test, watch
from chary.cli.grow import grow
from chary.cli.output import console, errors
from chary.cli.planning import plan
from chary.cli.quantiles import histogram, quantiles
from chary.cli.sketches import distinct
from chary.cli.sparse import sparse
from chary.cli.story import demo
from chary.cli.weights import ask
from chary.errors import BudgetRefused, CharyError

OK, BAD_INPUT, REFUSED = 0, 2, 3
app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Ask private, growing data as many questions as you like; pay only for the answers that surprise you.",
)
PANELS = {
    "First steps": (demo,),
    "Paid by hits": (ask, watch, test, track, top, cover, between, decide, classify, distinct, sparse),
    "Always charged": (release, choose, quantiles, histogram, grow),
    "Before you ask": (quote, plan, advise),
}
for panel, commands in PANELS.items():
    for command in commands:
        app.command(rich_help_panel=panel)(command)
app.add_typer(account.app, name="account", rich_help_panel="Before you ask")
app.add_typer(books.app, name="ledger", rich_help_panel="Records and demonstrations")
app.add_typer(export.app, name="export", rich_help_panel="Records and demonstrations")
app.add_typer(attacks.app, name="attack", rich_help_panel="Records and demonstrations")


def _told_version(asked: bool) -> None:
    if asked:
        console.print(f"chary {version('chary')}")
        raise typer.Exit


Version = Annotated[bool, typer.Option("--version", callback=_told_version, is_eager=True, help="Show the version.")]


@app.callback(help=app.info.help)
def _chary(version: Version = False) -> None:
    """What comes before a command."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command and leave with its exit code; errors are one line on stderr."""
    sys.exit(run(arguments))


def run(arguments: list[str] | None = None) -> int:
    """The exit code of one command line.

    >>> run(["plan", "--epsilon", "-1"])
    2
    """
    try:
        code = app(args=arguments, standalone_mode=False)
        return code if isinstance(code, int) else OK
    except (typer.TyperException, CharyError) as error:
        told = error.format_message() if isinstance(error, typer.TyperException) else str(error)
        if told:
            errors.print(f"chary: {told}", markup=False, soft_wrap=True)
        return REFUSED if isinstance(error, BudgetRefused) else BAD_INPUT
    except OSError as error:
        told = " ".join(str(part) for part in (error.strerror, error.filename) if part) or "a file could not be used"
        errors.print(f"chary: {told}", markup=False, soft_wrap=True)
        return BAD_INPUT
