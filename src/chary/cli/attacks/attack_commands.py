"""`chary attack linkage`, `differencing` and `membership`: on built-in, made-up or the caller's own data."""

from pathlib import Path
from typing import Annotated, Any

import typer

from chary import audit
from chary.charts import check_picture
from chary.cli.attacks.attack_options import (
    Delta,
    Epsilon,
    Epsilons,
    Members,
    People,
    Plot,
    Seed,
    Sessions,
    app,
    pair,
    progress_of,
    results,
    short,
)
from chary.cli.commands import Found, Shown, plainly
from chary.cli.output import show_pairs, show_table
from chary.demo.panel import first_year
from chary.errors import InvalidParameter
from chary.numbers import percent, whole

QUASI, SENSITIVE = "age,female,site,plan", "visits"
File = Annotated[Path | None, typer.Argument(help="CSV, Parquet or DuckDB file, one person a row (default: built in).")]
Quasi = Annotated[str | None, typer.Option(help="Public columns, comma between them.")]
Sensitive = Annotated[str | None, typer.Option(help="The column that is to be learned.")]
Table = Annotated[str | None, typer.Option(help="Table of a DuckDB file.")]
Repeats = Annotated[int, typer.Option(help="How often each count is asked, for equal parts of the budget.")]
Informed = Annotated[bool, typer.Option("--informed", help="The attacker knows everybody else's bits.")]
Attributes = Annotated[str, typer.Option(help="Numbers of attributes, comma between them.")]


@app.command()
@plainly
def linkage(
    file: File = None,
    quasi: Quasi = None,
    sensitive: Sensitive = None,
    table: Table = None,
    epsilon: Epsilon = "1",
    seed: Seed = 0,
    plot: Plot = None,
) -> Found:
    """Join a table without names with a register by public columns; then ask a session about the same people."""
    if plot is not None:
        check_picture(plot)
    if file is not None and (quasi is None or sensitive is None):
        raise InvalidParameter("say what is public and what is not: --quasi age,sex,zip --sensitive income")
    public, secret = (quasi or QUASI).split(","), sensitive or SENSITIVE
    with progress_of("linking", None):
        rows = first_year() if file is None else str(file)
        found = audit.linkage(rows, quasi=public, sensitive=secret, epsilon=epsilon, table=table, seed=seed)
    if plot is not None:
        audit.draw_linkage(found, plot)
    ones = enumerate(found.unique, 1)
    kinds = [(", ".join(public[:k]), unique, percent(unique / found.rows)) for k, unique in ones]

    def people(figures: dict[str, Any]) -> None:
        show_table(["public columns", "the only one of a kind", "share"], kinds)
        show_pairs({name: value for name, value in figures.items() if name not in ("unique", "quasi")})

    yield Shown(found.as_dict(), people)


@app.command()
@plainly
def differencing(
    epsilon: Epsilons = "0.1,0.5,1,2,4",
    delta: Delta = "0",
    people: People = 200,
    sessions: Sessions = 300,
    repeats: Repeats = 1,
    informed: Informed = False,
    seed: Seed = 0,
    plot: Plot = None,
) -> Found:
    """Guess one person's bit from two counts that differ in that person."""
    if plot is not None:
        check_picture(plot)
    common: dict[str, Any] = {"delta": delta, "people": people, "sessions": sessions, "repeats": repeats}
    common |= {"informed": informed, "seed": seed}
    sizes = epsilon.split(",")
    for size in sizes:
        audit.guess_limit(size, delta)
    with progress_of("asking", len(sizes)) as told:
        found = [audit.differencing(epsilon=size, on_progress=told(k), **common) for k, size in enumerate(sizes)]
    if plot is not None:
        audit.draw_differencing(found, plot)
    rows = [(f.epsilon, *map(short, (f.raw_accuracy, f.accuracy, f.low, f.high, f.limit))) for f in found]
    columns = ["epsilon", "exact counts", "session", "low", "high", "limit"]
    yield results(found, columns, rows, "Share of right guesses")


@app.command()
@plainly
def membership(
    epsilon: Epsilon = "1",
    delta: Delta = "0",
    rows: Members = 100,
    attributes: Attributes = "10,100,300,1000,3000",
    sessions: Sessions = 10,
    seed: Seed = 0,
    plot: Plot = None,
) -> Found:
    """Find out who is in the data from a mean of many attributes."""
    if plot is not None:
        check_picture(plot)
    common: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "rows": rows, "sessions": sessions, "seed": seed}
    widths = [_whole(text) for text in attributes.split(",")]
    with progress_of("tracing", len(widths)) as told:
        found = [audit.membership(attributes=width, on_progress=told(k), **common) for k, width in enumerate(widths)]
    if plot is not None:
        audit.draw_membership(found, plot)
    table = [(f.attributes, short(f.expected_tpr), *pair(f.raw), *pair(f.private), *pair(f.limit)) for f in found]
    columns = ["attributes", "theory", "exact mean", "its AUC", "session", "its AUC", "limit", "its AUC"]
    yield results(found, columns, table, f"Members found at 5 % false alarms, {rows} people")


def _whole(text: str) -> int:
    try:
        return whole(int(text), "--attributes")
    except ValueError:
        pass
    raise InvalidParameter(f"--attributes takes whole numbers from 1 on, such as 10,100,1000, not {text!r}")
