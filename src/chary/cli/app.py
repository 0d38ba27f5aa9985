"""The `chary` command: groups that load a command when it is used; what each exit code says.

0 is fine, 2 usage or bad input, 3 a budget that is refused, 4 a trend of a paper that does not hold.
"""

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from importlib import import_module
from importlib.metadata import entry_points, version
from typing import Annotated, Any, ClassVar, Final

import typer
from typer.core import TyperCommand, TyperGroup

from chary.cli.output import KNOWN, VERBOSE, Unsaid, Verbose, again, console, errors, option
from chary.errors import BudgetExceeded, CharyError, InvalidParameter, tell_owners

# Groups of commands that are known by name and one line each; what a command needs is loaded when it is used.

_Found = TyperCommand | TyperGroup


class Lazy(TyperCommand):
    """A command that stands for another one, which it opens when it is entered."""

    def __init__(self, name: str, told: str, panel: str, load: Callable[[], Any]) -> None:
        """`load` gives the function of a command, or the Typer application of a group."""
        super().__init__(name, help=told, rich_help_panel=panel)
        self._load = load

    @cached_property
    def behind(self) -> _Found:
        """The command itself."""
        found: Any = self._load()
        if not isinstance(found, typer.Typer):
            app = typer.Typer(add_completion=False)
            app.command()(found)
            found = app
        made: Any = typer.main.get_command(found)
        made.name = self.name
        _verbosely(made)
        command: _Found = made
        return command

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """The context of the command behind it, in which it then runs."""
        return self.behind.make_context(info_name, args, parent, **extra)


class _Behind(Mapping[str, _Found]):
    """The commands that are imported when they are first used; names are listed without an import."""

    def __init__(self, doors: Mapping[str, Lazy]) -> None:
        self._doors = doors

    def __getitem__(self, name: str) -> _Found:
        return self._doors[name].behind

    def __contains__(self, name: object) -> bool:
        return name in self._doors

    def __iter__(self) -> Iterator[str]:
        return iter(self._doors)

    def __len__(self) -> int:
        return len(self._doors)


class DoorGroup(TyperGroup):
    """A group whose help and completion import no command."""

    doors: ClassVar[Mapping[str, Lazy]] = {}

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        # Typer looks commands up by get_command; this is for programs that walk through all of them.
        self.commands = _Behind(self.doors)  # type: ignore[assignment]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return self.doors.get(cmd_name)

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.doors)


def _verbosely(made: Any) -> None:
    """Every command that can be entered takes --verbose, wherever on its line it stands."""
    if isinstance(made, DoorGroup):
        return
    for inner in getattr(made, "commands", {}).values():
        _verbosely(inner)
    if not isinstance(made, TyperGroup):
        made.params.append(option())


def group_of(doors: Mapping[str, Lazy], kind: type[DoorGroup] = DoorGroup) -> type[DoorGroup]:
    """The class of a group with these commands, for Typer, which makes groups from their class."""
    return type(kind.__name__, (kind,), {"doors": doors})


def found(place: str) -> Callable[[], Any]:
    """What `module:name` is within the command, or `package.module:name` elsewhere, once it is wanted.

    Errors: `InvalidParameter` where another library is missing that an extra brings.
    """
    module, _, name = place.partition(":")
    whole = module if "." in module else f"chary.cli.{module}"

    def load() -> Any:
        try:
            return getattr(import_module(whole), name)
        except ModuleNotFoundError as error:
            if whole == module and not str(error.name).startswith("chary"):
                raise InvalidParameter('more libraries are needed: pip install "chary[service]"') from None
            raise

    return load


class _Doors(Mapping[str, Lazy]):
    """The commands of this package, and those that others bring: these are looked for where no own one is meant.

    An entry point of the group "chary.commands" names a mapping of commands to a panel, a place and a line each.
    """

    def __init__(self, own: Mapping[str, Lazy]) -> None:
        self._own = own

    @cached_property
    def _all(self) -> Mapping[str, Lazy]:
        brought = {name: told for each in entry_points(group="chary.commands") for name, told in each.load().items()}
        new = sorted((name, told) for name, told in brought.items() if name not in self._own)
        return {**self._own, **{name: Lazy(name, line, panel, found(at)) for name, (panel, at, line) in new}}

    def __getitem__(self, name: str) -> Lazy:
        return self._own[name] if name in self._own else self._all[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)


# 2 is what shells take for wrong usage; 1 is left to what nobody foresaw, so that it is never taken for a refusal.
OK, BAD_INPUT, REFUSED = 0, 2, 3
# Names and lines stand here, and not beside the commands, so that `chary --help` loads none of them.
DOORS: Final[dict[str, dict[str, tuple[str, str]]]] = {
    "First steps": {
        "demo": (
            "demo:demo",
            "See an alert on a growing panel, interrupted and reopened; takes 15 seconds.",
        ),
        "init": ("rows:init", "Write the options of a data file to a chary.toml."),
        "append": ("append:append", "Append new rows to a DuckDB file, each batch once."),
        "check": ("rows:check", "Count the cells that cannot be read. For the data owner; not private."),
        "config": ("rows:config", "Show the options that apply to a file, and where each comes from."),
        "ask": ("kinds:ask", "Ask any kind of call: chary ask FILE KIND."),
        "resume": ("runs:resume", "Ask an open run one query, or many."),
    },
    "Paid by hits": {
        "alert": ("alerts:app", "Watch a number as rows arrive; only firing and clearing is charged."),
        "release-if": ("kinds:release_if", "Publish the values at or above a threshold; only those are charged."),
        "test": ("kinds:test", "Test whether values are at or above a threshold. Yes is charged, no is free."),
        "on-change": ("kinds:on_change", "Publish a value again only when it has changed; only changes are charged."),
        "top-k": ("kinds:top_k", "Publish the k largest groups; only those are charged."),
        "greedy": ("kinds:greedy", "Select groups that cover many units together; only those are charged."),
        "classify": (
            "kinds:classify",
            "Above or below a threshold, or the largest group; free if the answer is clear.",
        ),
        "pmw": ("runs:weights", "Answer proportions from a public histogram (PMW); charged where it was wrong."),
        "distinct-sketch": (
            "runs:distinct",
            "Estimate the number of distinct units or values; charged once.",
        ),
        "self-reporting": (
            "runs:reporting",
            "Groups above a threshold, by Gaussian noise, until a total is exhausted.",
        ),
        "sparse-vector": ("runs:sparse", "Groups above a noisy threshold, up to a number of hits; charged once."),
    },
    "Always charged": {
        "release": ("kinds:release", "Publish a noisy count, sum or mean, grouped or not."),
        "choose": ("kinds:choose", "Publish the group with the largest value, without the value."),
        "quantile": ("kinds:quantile", "Publish quantiles of a column."),
        "histogram": ("kinds:histogram", "Publish the number of units in each bin of a column."),
        "rerun": ("grow:grow", "Publish counts again as the rows grow; charged once, at the start."),
    },
    "Before you ask": {
        "plan": ("plan:plan", "Show what a budget pays for."),
        "advise": ("advice:advise", "Compare all mechanisms for a number of threshold tests, best first."),
        "quote": ("kinds:quote", "Show the cost and the accuracy of any call; free."),
        "account": ("account:app", "Calculate privacy bounds; touches no data."),
    },
    "For many analysts": {
        "serve": (
            "chary.service.command:serve",
            "Serve datasets over HTTP to analysts with tokens.",
        ),
        "token": ("chary.service.command:app", "Create, list and revoke tokens of the service."),
    },
    "Records and demonstrations": {
        "findings": (
            "runs:published",
            "List published counts, sums and means, with joint intervals and hits to act on.",
        ),
        "ledger": ("ledger:app", "Show, verify and copy the record of all calls."),
        "report": ("report:report", "Write a public report of all answers: HTML, PDF, Markdown, CSV."),
        "export": ("report:app", "Write published answers to files."),
        "audit": ("audit:audit", "Try to show that a kind of call is less private than it claims."),
    },
}


def _told_version(asked: bool) -> None:
    if asked:
        console.print(f"chary {version('chary')}")
        raise typer.Exit


Version = Annotated[bool, typer.Option("--version", callback=_told_version, is_eager=True, help="Show the version.")]
app = typer.Typer(
    cls=group_of(
        _Doors({name: Lazy(name, line, p, found(at)) for p, d in DOORS.items() for name, (at, line) in d.items()})
    ),
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Ask private, growing data under one privacy budget. In most sessions, a test that finds nothing is free.",
)


@app.callback(help=app.info.help)
def _chary(version: Version = False, verbose: Verbose = False) -> None:
    """What comes before a command."""


def _tell(line: str) -> None:
    """A warning for the owner of the rows, on standard error."""
    errors.print(_in_options(line), markup=False, soft_wrap=True)


def _in_options(told: str) -> str:
    # Loaded when something is refused or warned of: `chary --help` needs no calls.
    return str(import_module("chary.cli.forms").in_options(told))


def run(arguments: list[str] | None = None) -> int:
    """The exit code of one command line.

    >>> run(["plan", "--budget-epsilon", "-1"])
    2
    """
    VERBOSE.set(False)
    KNOWN.set(frozenset())
    try:
        with warnings.catch_warnings():
            tell_owners(_tell)
            code = app(args=arguments, standalone_mode=False)
        return code if isinstance(code, int) else OK
    except (typer.TyperException, CharyError) as error:
        told = str(error)
        if isinstance(error, typer.TyperException):
            # "Value error" is said by the library that checks what is typed, and is of no use to who typed it.
            told = error.format_message().replace(": Value error, ", ": ")
        else:
            told = _in_options(told)
        if isinstance(error, Unsaid):
            told += f", as in: {again(sys.argv[1:] if arguments is None else arguments, error.words)}"
        if told:
            errors.print(f"chary: {told}", markup=False, soft_wrap=True)
        return REFUSED if isinstance(error, BudgetExceeded) else BAD_INPUT
    except OSError as error:
        told = " ".join(str(part) for part in (error.strerror, error.filename) if part) or "a file could not be used"
        errors.print(f"chary: {told}", markup=False, soft_wrap=True)
        return BAD_INPUT
