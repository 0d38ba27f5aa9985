"""`chary export`: write what was published for other programs."""

import os
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import typer

from chary.cli.asking import check_public_size
from chary.cli.options import AsJson, BudgetOptions, CallOptions, QueryOptions, SourceOptions, with_options
from chary.cli.output import show_json, show_pairs
from chary.cli.waiting import asking
from chary.errors import InvalidParameter
from chary.growing.plots import check_picture, writable
from chary.growing.weights_plots import draw_synthetic
from chary.numbers import whole
from chary.session import Session
from chary.session.public_weights import AnyWeights

app = typer.Typer(no_args_is_help=True, help="What was published, as files.")
To = Annotated[Path, typer.Argument(help="File to write: CSV or Parquet by its ending.")]
Rows = Annotated[int, typer.Option(help="How many rows to make up.")]
Seed = Annotated[int, typer.Option(help="The same seed gives the same table.")]
Opening = Annotated[int | None, typer.Option(help="Call that opened the histogram (default: the newest).")]
Books = Annotated[Path | None, typer.Option(help="Ledger file (default: FILE.ledger).")]
Who = Annotated[str, typer.Option(help="Who asks.")]
Picture = Annotated[Path | None, typer.Option(help="Draw the marginals, of the histogram and of the table.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite a file that is there.")]
ENDINGS = {".csv": pyarrow.csv.write_csv, ".parquet": pyarrow.parquet.write_table}


@app.callback()
def _group() -> None:
    """A group, also of one command."""


@app.command()
@with_options
def synthetic(
    source: SourceOptions,
    to: To,
    rows: Rows = 1000,
    seed: Seed = 0,
    call: Opening = None,
    ledger: Books = None,
    analyst: Who = "analyst",
    plot: Picture = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """A made-up table drawn from a public histogram that `chary ask` opened. Free: no row is looked at for it.

    Example: chary export synthetic visits.csv made.csv --each-row --relation replace --rows 1000
    """
    check_public_size(source)
    kept = ledger or Path(f"{source.file}.ledger")
    if to.suffix.lower() not in ENDINGS or not writable(to) or not writable(_part(to)):
        raise InvalidParameter(
            "a made-up table goes to a file in an existing folder that ends in .csv or .parquet, as in "
            "chary export synthetic visits.csv made.csv --each-row --relation replace --rows 1000"
        )
    _free(to, [source.file, kept], force=force)
    if plot is not None:
        _free(check_picture(plot), [source.file, kept, to], force=force)
    whole(rows, "rows")
    whole(seed, "seed", least=0)
    if not kept.exists():
        raise InvalidParameter(f"there is no ledger {kept}, so no histogram: chary ask opens one")
    budget, size = BudgetOptions(ledger=kept, analyst=analyst), CallOptions(epsilon_per_call="1")
    with asking(source, budget, size, QueryOptions(count=True), targets=False) as asked:
        weights = _opened(asked.session, call)
        made = weights.synthetic(rows=rows, seed=seed)
        _write(made, to)
        if plot is not None:
            draw_synthetic(weights, made, plot)
        figures = _told(weights, made, to) | {"seed": seed, "spent": asked.session.spent.as_dict()}
    (show_json if as_json else show_pairs)(figures)


def _free(target: Path, taken: list[Path], *, force: bool) -> None:
    if target.resolve() in {path.resolve() for path in taken}:
        raise InvalidParameter(f"{target} is in use: name another file to write")
    if target.exists() and not force:
        raise InvalidParameter(f"{target} is there already: name another file, or add --force to overwrite it")


def _opened(session: Session, call: int | None) -> AnyWeights:
    """The histogram of that call, or the newest."""
    found = {weights.call: weights for weights in session.public_weights}
    if not found:
        raise InvalidParameter("no histogram was opened on these rows: chary ask opens one")
    if call is not None and call not in found:
        raise InvalidParameter(f"call {call} opened no histogram; these did: {', '.join(map(str, found))}")
    return found[max(found) if call is None else call]


def _write(table: pa.Table, target: Path) -> None:
    """Whole or not at all."""
    ENDINGS[target.suffix.lower()](table, _part(target))
    os.replace(_part(target), target)


def _part(target: Path) -> Path:
    """Where it is before it is whole."""
    return target.with_name(f"{target.name}.part")


def _told(weights: AnyWeights, made: pa.Table, target: Path) -> dict[str, Any]:
    known = {"call": weights.call, "cells": weights.universe.cells, "hard": len(weights.changes)}
    return known | {"file": str(target), "rows": made.num_rows, "columns": made.column_names}
