"""Commands that write public reports and export synthetic data."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import typer
from rich.progress import Progress

from chary.addresses import Address, without_password
from chary.calls import Run
from chary.calls.weights import HistogramState, PMWRun, PrepaidPMWRun
from chary.charts import check_picture, plotter, writable
from chary.cli import commands, config, output
from chary.cli.rows import Stated, on_rows
from chary.cli.session import check_public_size, ledger_of
from chary.errors import InvalidParameter
from chary.ledger import ledger_exists
from chary.numbers import percent, whole
from chary.report import PublicReport
from chary.report import report as public_report
from chary.report.content import Tell
from chary.session import Session

# `chary report`: what a ledger says, as a page for everybody.

File = Annotated[str, typer.Argument(help="Ledger (file or URL), or the data file, which is not read.")]
Out = Annotated[
    Path | None, typer.Option("--output", help="Output file (default: LEDGER.html next to the ledger, and so on).")
]
Confidence = Annotated[str, typer.Option(help="Confidence of each interval, and of all hits together.")]
Dataset = Annotated[str | None, typer.Option(help="Dataset of the ledger (default: all).")]
Title = Annotated[str | None, typer.Option(help="Title of the report, in your own words.")]
Introduction = Annotated[
    str | None, typer.Option(help="Introduction in your own words. A blank line starts a paragraph.")
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")]
Html = Annotated[bool, typer.Option("--html", help="One self-contained HTML page (the default).")]
Pdf = Annotated[bool, typer.Option("--pdf", help="PDF, in A4 pages.")]
Md = Annotated[bool, typer.Option("--md", help="Markdown, without pictures.")]
Csv = Annotated[bool, typer.Option("--csv", help="CSV with one line for each published value.")]


def report(
    file: File,
    html: Html = False,
    pdf: Pdf = False,
    md: Md = False,
    csv: Csv = False,
    out: Out = None,
    confidence: Confidence = "0.95",
    dataset: Dataset = None,
    title: Title = None,
    introduction: Introduction = None,
    force: Force = False,
    as_json: commands.AsJson = False,
) -> None:
    """Write a public report: each query with its answer and interval, when, by whom and at what cost.

    Only the public part of the ledger is read. A ledger that does not verify is refused.

    Example: chary report visits.ledger --html --output visits.html
    """
    asked = [name for name, wanted in (("html", html), ("pdf", pdf), ("md", md), ("csv", csv)) if wanted]
    ledger = config.ledger_at(file)
    targets = _targets(ledger, asked, out, as_json=as_json)
    for target in targets:
        _free(target, ledger, force=force)
    with _progress() as tell:
        own = {"title": title, "introduction": introduction}
        found = public_report(ledger, confidence=confidence, dataset=dataset, **own, tell=tell)
        for target in targets:
            found.save(target)
    if as_json:
        output.show_json(found.to_dict() | {"files": [str(target) for target in targets]})
    else:
        _told(found, targets)


def _targets(ledger: str | Path, asked: list[str], out: Path | None, *, as_json: bool) -> list[Path]:
    """The files to write: of each form that is asked for, or the one that is named."""
    if out is None:
        file = ledger if isinstance(ledger, Path) else Path(Address.parse(ledger).schema)
        return [file.with_name(f"{file.name}.{form}") for form in asked or ([] if as_json else ["html"])]
    if len(asked) > 1:
        raise InvalidParameter(
            "--output names one file: ask for one of --html, --pdf, --md and --csv, or leave out --output"
        )
    if out.suffix.lower() not in (".html", ".pdf", ".md", ".csv") or asked not in ([], [out.suffix.lower()[1:]]):
        form, place = (asked or ["html"])[0], without_password(ledger)
        raise InvalidParameter(
            f"--output ends in .html, .pdf, .md or .csv, as in chary report {place} --{form} --output report.{form}"
        )
    return [out]


def _free(target: Path, ledger: str | Path, *, force: bool) -> None:
    if isinstance(ledger, Path) and target.resolve() == ledger.resolve():
        raise InvalidParameter("a report does not take the place of its ledger: name another file with --output")
    if target.exists() and not force:
        raise InvalidParameter(f"{target} is there already: name another file with --output, or add --force")


@contextmanager
def _progress() -> Iterator[Tell]:
    """A threshold on the terminal; nothing where there is none."""
    with Progress(console=output.errors, transient=True, disable=not output.errors.is_terminal) as shown:
        tasks: dict[str, Any] = {}

        def tell(doing: str, done: int, total: int) -> None:
            if doing not in tasks:
                tasks[doing] = shown.add_task(doing, total=total)
            shown.update(tasks[doing], completed=done, total=total)

        yield tell


def _told(found: PublicReport, targets: list[Path]) -> None:
    for each in found.datasets:
        hits = f"{len(each.hits)} of them hits with a value"
        values = sum(len(call.values) for call in each.calls)
        output.console.print(
            f"{each.name}: {len(each.calls)} answers with {values} published values, {hits}; "
            f"{percent(each.spent.share)} of the budget is charged",
            markup=False,
            soft_wrap=True,
        )
    for target in targets:
        output.console.print(f"written: {target}", markup=False, soft_wrap=True)


# `chary export`: write what was published for other programs.

app = typer.Typer(no_args_is_help=True, help="Write published answers as files.")
To = Annotated[Path, typer.Argument(help="File to write: CSV or Parquet by its ending.")]
Rows = Annotated[int, typer.Option(help="Number of synthetic rows.")]
Seed = Annotated[int, typer.Option(help="Seed: the same one gives the same table.")]
Opening = Annotated[int | None, typer.Option(help="Call that opened the histogram (default: the newest).")]
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
    plot: commands.Picture = None,
    force: Force = False,
) -> commands.Found:
    """Draw a synthetic table from a public histogram that `chary pmw` opened. Free: no row is read.

    Example: chary export synthetic visits.parquet made.csv --row-level --neighbors replace --rows 1000
    """
    source, kept = stated.source, ledger_of(stated.source, stated.budget)
    check_public_size(source)
    if to.suffix.lower() not in ENDINGS or not writable(to) or not writable(_part(to)):
        raise InvalidParameter(
            "a synthetic table goes to a file in an existing folder that ends in .csv or .parquet, as in "
            "chary export synthetic visits.parquet made.csv --row-level --neighbors replace --rows 1000"
        )
    taken = kept if source.on_server else Path(source.file)
    _free_of(to, [taken, kept], force=force)
    if plot is not None:
        _free_of(check_picture(plot), [taken, kept, to], force=force)
    whole(rows, "rows")
    whole(seed, "seed", least=0)
    if not ledger_exists(kept):
        raise InvalidParameter(f"there is no ledger {without_password(kept)}, so no histogram: chary pmw opens one")
    weights = _opened(stated.session, call)
    table = weights.state.synthetic(rows=rows, seed=seed)
    _write(table, to)
    if plot is not None:
        plotter("chary.growth.plots").draw_synthetic(weights.state, table, plot)
    yield commands.Shown(_exported(weights, table, to) | {"seed": seed} | stated.charged(None))


def _free_of(target: Path, taken: list[str | Path], *, force: bool) -> None:
    if target.resolve() in {path.resolve() for path in taken if isinstance(path, Path)}:
        raise InvalidParameter(f"{target} is in use: name another file to write")
    if target.exists() and not force:
        raise InvalidParameter(f"{target} is there already: name another file, or add --force to overwrite it")


def _opened(session: Session, call: int | None) -> Run[Any, HistogramState]:
    """The histogram of that call, or the newest."""
    kinds = (PMWRun.kind, PrepaidPMWRun.kind)
    found = [run.call for run in session.runs if run.kind in kinds]
    if not found:
        raise InvalidParameter("no histogram was opened on these rows: chary pmw opens one")
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


def _exported(weights: Run[Any, HistogramState], made: pa.Table, target: Path) -> dict[str, Any]:
    hard = sum(change.hard for change in weights.state.changes)
    known = {"call": weights.call, "cells": weights.state.universe.cells, "hard": hard}
    return known | {"file": str(target), "rows": made.num_rows, "columns": made.column_names}


app.command()(on_rows(_synthetic, {"source": commands.SourceOptions, "budget": commands.LedgerOptions}, "synthetic"))
