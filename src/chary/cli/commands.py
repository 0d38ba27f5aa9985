"""The one place that makes a command: of its options, and of a hook that yields what is to be shown.

Every command so made has --json and --csv-out; what a hook yields is shown at once, so that it may go on after that.
"""

import inspect
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import MISSING, fields
from typing import Any, Final, NamedTuple, get_type_hints

import typer
from typer.models import ArgumentInfo

from chary.cli.asking.options import OutputOptions
from chary.cli.output import check_csv, show_json, show_tables, write_csv

_KEYWORD: Final = inspect.Parameter.KEYWORD_ONLY
EMPTY: Final = inspect.Parameter.empty


class Shown(NamedTuple):
    """Figures to be told, and how people are told them."""

    figures: Any
    people: Callable[[Any], None] = show_tables


Found = Generator[Shown, None, None]
Hook = Callable[..., Found]


def made(
    act: Callable[[typer.Context, dict[str, Any]], Found],
    signature: list[inspect.Parameter],
    name: str,
    told: str,
) -> Callable[..., None]:
    """A command with these options, which acts on their values."""

    def command(ctx: typer.Context, **values: Any) -> None:
        output = taken(OutputOptions, values)
        check_csv(output.csv_out)
        # A session that is open in there is closed also where showing fails, as on a full disk.
        with closing(act(ctx, values)) as found:
            for count, shown in enumerate(found):
                (show_json if output.as_json else shown.people)(shown.figures)
                if output.csv_out is not None:
                    write_csv(shown.figures, output.csv_out, more=count > 0)

    context = inspect.Parameter("ctx", _KEYWORD, annotation=typer.Context)
    return signed(command, [context, *signature, *parameters_of(OutputOptions)], name, told)


def plainly(hook: Hook) -> Callable[..., None]:
    """The command of a hook that reads no rows: its parameters are the options."""
    return made(lambda ctx, values: hook(**values), extras(hook), hook.__name__, hook.__doc__ or "")


def signed(command: Callable[..., Any], signature: list[inspect.Parameter], name: str, told: str) -> Callable[..., Any]:
    """A function that Typer finds these parameters on."""
    command.__signature__ = inspect.Signature(signature)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in signature}
    command.__name__, command.__doc__ = name, told
    return command


def parameters_of(group: Any) -> list[inspect.Parameter]:
    """The options of a group, in its panel of the help."""
    hints = get_type_hints(group, include_extras=True)
    for field in fields(group):
        for told in hints[field.name].__metadata__:
            told.rich_help_panel = None if isinstance(told, ArgumentInfo) else group.panel
    defaults = {f.name: EMPTY if f.default is MISSING else f.default for f in fields(group)}
    return [
        inspect.Parameter(name, _KEYWORD, default=usual, annotation=hints[name]) for name, usual in defaults.items()
    ]


def extras(hook: Hook) -> list[inspect.Parameter]:
    """The options that a hook adds to what is stated, or has of its own."""
    hints = get_type_hints(hook, include_extras=True)
    found = inspect.signature(hook).parameters.values()
    return [p.replace(annotation=hints[p.name], kind=_KEYWORD) for p in found if p.name != "stated"]


def taken(group: Any, values: dict[str, Any]) -> Any:
    """A group of options, taken out of the values."""
    return group(**{field.name: values.pop(field.name) for field in fields(group)})
