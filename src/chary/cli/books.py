"""`chary ledger`: look at a ledger, check it, export it."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import Progress

from chary.cli.options import AsJson
from chary.cli.output import console, errors, percent, show_json, show_table
from chary.errors import InvalidParameter
from chary.ledger import SqlLedger
from chary.session import Entry
from chary.session.opening import held_filter
from chary.session.reporting import entries, spending

app = typer.Typer(no_args_is_help=True, help="The durable record of what was revealed.")
File = Annotated[Path, typer.Argument(help="Ledger file.")]
Dataset = Annotated[str | None, typer.Option(help="One dataset of the ledger (default: all).")]
BROKEN = 2


@app.command()
def show(file: File, dataset: Dataset = None, as_json: AsJson = False) -> None:
    """What every dataset has spent, and every call."""
    ledger = _open(file)
    found = []
    for terms in ledger.datasets():
        if dataset in (None, terms.name):
            filter_ = held_filter(terms)
            spent = spending(filter_, ledger.balance(terms.name).spent)
            found.append((terms.name, filter_.budget, spent, list(entries(ledger, terms.name, filter_))))
    ledger.close()
    if as_json:
        show_json([_summary(*part) for part in found])
        return
    for name, budget, spent, calls in found:
        title = f"{name}: spent {spent} of {budget}"
        show_table(["call", "time", "analyst", "kind", "state", "tests", "hits", "charged"], map(_row, calls), title)


@app.command()
def verify(file: File, as_json: AsJson = False) -> None:
    """Recompute the hash chain and every total; exit code 2 if anything is wrong."""
    ledger = _open(file)
    with Progress(console=errors, transient=True, disable=not errors.is_terminal) as progress:
        task = progress.add_task("checking entries", total=None)
        verdict = ledger.verify(lambda done, total: progress.update(task, completed=done, total=total))
    ledger.close()
    if as_json:
        show_json({"ok": verdict.ok, "entries": verdict.entries, "problems": verdict.problems})
    else:
        console.print(f"{verdict.entries} entries, " + ("all in order" if verdict.ok else "BROKEN"))
        for problem in verdict.problems:
            console.print(f"  {problem}")
    if not verdict.ok:
        raise typer.Exit(BROKEN)


@app.command()
def export(file: File, dataset: Dataset = None, as_json: AsJson = False) -> None:
    """The chain, public part only, one JSON object a line (with --json: one array)."""
    ledger = _open(file)
    names = [terms.name for terms in ledger.datasets() if dataset in (None, terms.name)]
    lines: Iterable[dict[str, Any]] = (entry for name in names for entry in ledger.export(name))
    if as_json:
        show_json(list(lines))
    else:
        for line in lines:
            show_json(line)
    ledger.close()


def _open(file: Path) -> SqlLedger:
    if not file.exists():
        raise InvalidParameter(f"there is no ledger {file}")
    return SqlLedger(file)


def _row(entry: Entry) -> tuple[Any, ...]:
    told = entry.call, entry.time[:19], entry.analyst, entry.kind, entry.state
    return *told, entry.tests, entry.hits, percent(entry.share)


def _summary(name: str, budget: Any, spent: Any, calls: list[Entry]) -> dict[str, Any]:
    epsilon, delta = (float(part) for part in budget.exact)
    return {
        "dataset": name,
        "epsilon": epsilon,
        "delta": delta,
        "spent": spent.as_dict(),
        "calls": [vars(c) for c in calls],
    }
