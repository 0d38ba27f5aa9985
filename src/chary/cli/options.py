"""Groups of options that several commands share, each a dataclass whose fields are the options."""

import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer


@dataclass(kw_only=True)
class SourceOptions:
    """Which rows are asked, and what is protected in them."""

    file: Annotated[Path, typer.Argument(help="CSV, Parquet or DuckDB file.")]
    unit: Annotated[str | None, typer.Option(help="Column naming the protected unit.")] = None
    each_row: Annotated[bool, typer.Option("--each-row", help="Each row is a unit of its own.")] = False
    relation: Annotated[str, typer.Option(help="Neighbours: add/remove or replace one unit.")] = "add/remove"
    table: Annotated[str | None, typer.Option(help="Table of a DuckDB file.")] = None
    unpivot: Annotated[str | None, typer.Option(help="Turn a wide table long: KEY,VALUE name the new columns.")] = None
    series: Annotated[str | None, typer.Option(help="Column of already aggregated counts, one test a row.")] = None
    sensitivity: Annotated[int | None, typer.Option(help="Most that one unit changes any count of the series.")] = None
    order_by: Annotated[str | None, typer.Option(help="Column that orders the series.")] = None
    labels: Annotated[str | None, typer.Option(help="Public column printed beside each value of the series.")] = None


@dataclass(kw_only=True)
class BudgetOptions:
    """The budget of the dataset and where it is kept."""

    epsilon: Annotated[str | None, typer.Option(help="Total epsilon of the dataset, for its whole life.")] = None
    delta: Annotated[str | None, typer.Option(help="Total delta of the dataset.")] = None
    ledger: Annotated[Path | None, typer.Option(help="Ledger file (default: FILE.ledger).")] = None
    filter: Annotated[str | None, typer.Option(help="Pricing: renyi, exact or pure.")] = None
    analyst: Annotated[str, typer.Option(help="Who asks.")] = "analyst"
    request: Annotated[str | None, typer.Option(help="Key under which a repeated request is free.")] = None


@dataclass(kw_only=True)
class CallOptions:
    """How precise one call is."""

    epsilon_per_call: Annotated[str | None, typer.Option(help="Epsilon of this call (of each test of a watch).")] = None
    hits: Annotated[int | None, typer.Option(help="Instead: the largest epsilon that pays for this many hits.")] = None


@dataclass(kw_only=True)
class QueryOptions:
    """The question."""

    count: Annotated[bool, typer.Option("--count", help="Count units.")] = False
    total: Annotated[str | None, typer.Option(help="Sum this column.")] = None
    mean: Annotated[str | None, typer.Option(help="Mean of this column.")] = None
    bounds: Annotated[str | None, typer.Option(help="LOW,HIGH: each value is clipped to this.")] = None
    grid: Annotated[str, typer.Option(help="Values are rounded to multiples of this.")] = "1"
    rows_per_unit: Annotated[int | None, typer.Option(help="Keep at most this many rows of each unit.")] = None
    unit_total: Annotated[str | None, typer.Option(help="LOW,HIGH: each unit's sum is clipped to this.")] = None
    where: Annotated[str | None, typer.Option(help='Predicate, such as "age >= 65 AND smoker".')] = None
    by: Annotated[str | None, typer.Option(help="Key columns, comma between them.")] = None
    keys: Annotated[list[str] | None, typer.Option(help="Public keys: a,b,c or 1..6 or 2013-01-01..2013-01-31.")] = None
    keep_per_unit: Annotated[int | None, typer.Option(help="chary keeps at most this many keys of each unit.")] = None
    stated_per_unit: Annotated[int | None, typer.Option(help="You vouch that a unit is in at most this many.")] = None


AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Above = Annotated[str, typer.Option(help="The threshold: at or above it is a hit.")]


def with_options(function: Callable[..., None]) -> Callable[..., None]:
    """Replace each parameter that is a group of options by the options in it, so that Typer shows them flat."""
    hints = get_type_hints(function, include_extras=True)
    groups = {name: hint for name, hint in hints.items() if isinstance(hint, type) and is_dataclass(hint)}
    plain = [p for name, p in inspect.signature(function).parameters.items() if name not in groups]
    flat = [parameter for group in groups.values() for parameter in _parameters(group)]

    def command(**values: Any) -> None:
        made = {name: group(**{f.name: values.pop(f.name) for f in fields(group)}) for name, group in groups.items()}
        function(**made, **values)

    own = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[p.name]) for p in plain]
    signature = [*flat, *own]
    command.__signature__ = inspect.Signature(signature)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in signature}
    command.__name__, command.__doc__ = function.__name__, function.__doc__
    return command


def _parameters(group: type) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    kind = inspect.Parameter.KEYWORD_ONLY
    defaults = {f.name: inspect.Parameter.empty if f.default is MISSING else f.default for f in fields(group)}
    return [
        inspect.Parameter(name, kind, default=default, annotation=hints[name]) for name, default in defaults.items()
    ]
