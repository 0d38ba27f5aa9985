"""`chary check`: what of the rows cannot be read, for who owns them."""

import inspect
from typing import Any, Final

import typer

from chary.cli.asking.opened import declared, dialect
from chary.cli.asking.options import AsJson, CheckedOptions, SettingsOptions
from chary.cli.asking.row_commands import typed
from chary.cli.asking.settings import Settings
from chary.cli.commands import parameters_of, signed
from chary.cli.output import console, errors, show_json, show_table
from chary.cli.spinner import spinning
from chary.data import Check
from chary.data.table import NOT_PRIVATE
from chary.data.table import check as checked


def _check(ctx: typer.Context, **values: Any) -> None:
    """Rows, and by column how many cells are not of the type declared for it. EXACT FIGURES, WHICH ARE NOT PRIVATE.

    For who owns the rows, before analysts ask about them; nothing is charged. Cells that are empty are of every type.

    Example: chary check visits.csv --columns age=BIGINT,day=DATE
    """
    as_json = values.pop("as_json")
    settings = Settings.of(values, typed(ctx, values))
    said = CheckedOptions(**settings.filled(values))
    with spinning("reading"):
        read: dict[str, Any] = {"infer_types": said.infer_types, "table": said.table}
        found = checked(said.file, columns=declared(said.columns), csv=dialect(said.csv), **read)
    if as_json:
        errors.print(NOT_PRIVATE, soft_wrap=True)
        show_json(found.as_dict())
    else:
        _show(found)


def _show(found: Check) -> None:
    console.print(NOT_PRIVATE, style="bold", soft_wrap=True)
    console.print(f"{found.rows:,} rows")
    rows = [
        (name, column["type"], column["unparsed"], *found.lengths.get(name, (None, None)))
        for name, column in found.as_dict()["columns"].items()
    ]
    show_table(["column", "type", "not of it", "shortest", "longest"], rows)


_KEYWORD: Final = inspect.Parameter.KEYWORD_ONLY
check = signed(
    _check,
    [
        inspect.Parameter("ctx", _KEYWORD, annotation=typer.Context),
        *parameters_of(CheckedOptions),
        *parameters_of(SettingsOptions),
        inspect.Parameter("as_json", _KEYWORD, default=False, annotation=AsJson),
    ],
    "check",
    inspect.getdoc(_check) or "",
)
