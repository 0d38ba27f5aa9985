"""`chary export`: write what was published for other programs."""

import os
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import typer

from chary.calls import Run
from chary.calls.weights import HistogramState, KeptSparseWeights, KeptWeights
from chary.charts import check_picture, writable
from chary.cli.asking.opened import check_public_size, ledger_of
from chary.cli.asking.options import LedgerOptions, Picture, SourceOptions
from chary.cli.asking.row_commands import Stated, on_rows
from chary.cli.commands import Found, Shown
from chary.errors import InvalidParameter
from chary.growth.plots import draw_synthetic
from chary.ledger import ledger_exists
from chary.numbers import whole
from chary.session import Session

app = typer.Typer(no_args_is_help=True, help="What was published, as files.")
To = Annotated[Path, typer.Argument(help="File to write: CSV or Parquet by its ending.")]
Rows = Annotated[int, typer.Option(help="How many rows to make up.")]
Seed = Annotated[int, typer.Option(help="The same seed gives the same table.")]
Opening = Annotated[int | None, typer.Option(help="Call that opened the histogram (default: the newest).")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite a file that is there.")]
ENDINGS = {".csv": pyarrow.csv.write_csv, ".parquet": pyarrow.parquet.write_table}


@app.callback()
def _group() -> None:
    """A group, also of one command."""


def _synthetic(
    stated: Stated,
    *,
    to: To,
    rows: Rows = 1000,
    seed: Seed = 0,
    call: Opening = None,
    plot: Picture = None,
    force: Force = False,
) -> Found:
    """A made-up table drawn from a public histogram that `chary weights` opened. Free: no row is looked at for it.

    Example: chary export synthetic visits.csv made.csv --each-row --relation replace --rows 1000
    """
    source, kept = stated.source, ledger_of(stated.source, stated.budget)
    check_public_size(source)
    if to.suffix.lower() not in ENDINGS or not writable(to) or not writable(_part(to)):
        raise InvalidParameter(
            "a made-up table goes to a file in an existing folder that ends in .csv or .parquet, as in "
            "chary export synthetic visits.csv made.csv --each-row --relation replace --rows 1000"
        )
    taken = kept if source.on_server else Path(source.file)
    _free(to, [taken, kept], force=force)
    if plot is not None:
        _free(check_picture(plot), [taken, kept, to], force=force)
    whole(rows, "rows")
    whole(seed, "seed", least=0)
    if not ledger_exists(kept):
        raise InvalidParameter(f"there is no ledger {kept}, so no histogram: chary weights opens one")
    weights = _opened(stated.session, call)
    table = weights.state.synthetic(rows=rows, seed=seed)
    _write(table, to)
    if plot is not None:
        draw_synthetic(weights.state, table, plot)
    yield Shown(_told(weights, table, to) | {"seed": seed} | stated.charged(None))


def _free(target: Path, taken: list[str | Path], *, force: bool) -> None:
    if target.resolve() in {path.resolve() for path in taken if isinstance(path, Path)}:
        raise InvalidParameter(f"{target} is in use: name another file to write")
    if target.exists() and not force:
        raise InvalidParameter(f"{target} is there already: name another file, or add --force to overwrite it")


def _opened(session: Session, call: int | None) -> Run[Any, HistogramState]:
    """The histogram of that call, or the newest."""
    kinds = (KeptWeights.kind, KeptSparseWeights.kind)
    found = [run.call for run in session.runs if run.kind in kinds]
    if not found:
        raise InvalidParameter("no histogram was opened on these rows: chary weights opens one")
    if call is not None and call not in found:
        raise InvalidParameter(f"call {call} opened no histogram; these did: {', '.join(map(str, found))}")
    return session.resume(max(found) if call is None else call)


def _write(table: pa.Table, target: Path) -> None:
    """Whole or not at all."""
    ENDINGS[target.suffix.lower()](table, _part(target))
    os.replace(_part(target), target)


def _part(target: Path) -> Path:
    """Where it is before it is whole."""
    return target.with_name(f"{target.name}.part")


def _told(weights: Run[Any, HistogramState], made: pa.Table, target: Path) -> dict[str, Any]:
    known = {"call": weights.call, "cells": weights.state.universe.cells, "hard": len(weights.state.changes)}
    return known | {"file": str(target), "rows": made.num_rows, "columns": made.column_names}


app.command()(on_rows(_synthetic, {"source": SourceOptions, "budget": LedgerOptions}, "synthetic"))
