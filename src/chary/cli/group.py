"""Groups of commands that are known by name and one line each; what a command needs is loaded when it is used."""

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup

from chary.cli.output import option
from chary.errors import InvalidParameter

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
        return made  # type: ignore[no-any-return]

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """The context of the command behind it, in which it then runs."""
        return self.behind.make_context(info_name, args, parent, **extra)


class _Behind(Mapping[str, _Found]):
    """The commands behind doors; names are told without opening any."""

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
    """A group whose help and completion open no door."""

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


def group_of(doors: list[Lazy], kind: type[DoorGroup] = DoorGroup) -> type[DoorGroup]:
    """The class of a group with these commands, for Typer, which makes groups from their class."""
    return type(kind.__name__, (kind,), {"doors": {door.name: door for door in doors}})


def found(place: str) -> Callable[[], Any]:
    """What `module:name` is within the command, or `chary.room.module:name` elsewhere, once it is wanted.

    Errors: `InvalidParameter` where another library is missing that an extra brings.
    """
    module, _, name = place.partition(":")
    whole = module if module.startswith("chary.") else f"chary.cli.{module}"

    def load() -> Any:
        try:
            return getattr(import_module(whole), name)
        except ModuleNotFoundError as error:
            if whole == module and not str(error.name).startswith("chary"):
                raise InvalidParameter('this needs more libraries: pip install "chary[service]"') from None
            raise

    return load
