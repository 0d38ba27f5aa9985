"""`chary attack`: attacks as demonstrations, on built-in, made-up or the caller's own data."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import Progress

from chary import audit
from chary.cli.commands import Found, Shown, plainly
from chary.cli.output import errors, show_pairs, show_table
from chary.demo.panel import first_year
from chary.errors import InvalidParameter
from chary.numbers import whole
from chary.pictures.files import check_picture
from chary.words import percent

app = typer.Typer(
    no_args_is_help=True,
    help="Attacks on exact answers, and how far they get against a session. Results on secret data are secret.",
)
QUASI, SENSITIVE = "age,female,site,plan", "visits"
File = Annotated[Path | None, typer.Argument(help="CSV, Parquet or DuckDB file, one person a row (default: built in).")]
Quasi = Annotated[str | None, typer.Option(help="Public columns, comma between them.")]
Sensitive = Annotated[str | None, typer.Option(help="The column that is to be learned.")]
Table = Annotated[str | None, typer.Option(help="Table of a DuckDB file.")]
Epsilon = Annotated[str, typer.Option(help="Budget of each session.")]
Epsilons = Annotated[str, typer.Option(help="Budgets of the sessions, comma between them.")]
Delta = Annotated[str, typer.Option(help="Delta of each budget; above 0 the noise is Gaussian.")]
Seed = Annotated[int, typer.Option(help="The same seed gives the same figures.")]
Plot = Annotated[Path | None, typer.Option(help="Also draw a picture: a .png, .pdf or .svg file.")]
Sessions = Annotated[int, typer.Option(help="Simulated sessions.")]
People = Annotated[int, typer.Option(help="People in the table.")]
Repeats = Annotated[int, typer.Option(help="How often each count is asked, for equal parts of the budget.")]
Informed = Annotated[bool, typer.Option("--informed", help="The attacker knows everybody else's bits.")]
Members = Annotated[int, typer.Option("--rows", help="Members in each data set.")]
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
    with _progress("linking", None):
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
    with _progress("asking", len(sizes)) as told:
        found = [audit.differencing(epsilon=size, on_progress=told(k), **common) for k, size in enumerate(sizes)]
    if plot is not None:
        audit.draw_differencing(found, plot)
    rows = [(f.epsilon, *map(_short, (f.raw_accuracy, f.accuracy, f.low, f.high, f.limit))) for f in found]
    columns = ["epsilon", "exact counts", "session", "low", "high", "limit"]
    yield _results(found, columns, rows, "Share of right guesses")


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
    with _progress("tracing", len(widths)) as told:
        found = [audit.membership(attributes=width, on_progress=told(k), **common) for k, width in enumerate(widths)]
    if plot is not None:
        audit.draw_membership(found, plot)
    table = [(f.attributes, _short(f.expected_tpr), *_pair(f.raw), *_pair(f.private), *_pair(f.limit)) for f in found]
    columns = ["attributes", "theory", "exact mean", "its AUC", "session", "its AUC", "limit", "its AUC"]
    yield _results(found, columns, table, f"Members found at 5 % false alarms, {rows} people")


def _results(found: list[Any], columns: list[str], rows: list[Any], title: str) -> Shown:
    return Shown({"results": [each.as_dict() for each in found]}, lambda _: show_table(columns, rows, title))


def _pair(power: audit.Power) -> tuple[str, str]:
    return _short(power.tpr), _short(power.auc)


def _short(share: float) -> str:
    return f"{share:.3f}"


def _whole(text: str) -> int:
    try:
        return whole(int(text), "--attributes")
    except ValueError:
        pass
    raise InvalidParameter(f"--attributes takes whole numbers from 1 on, such as 10,100,1000, not {text!r}")


@contextmanager
def _progress(doing: str, parts: int | None) -> Iterator[Callable[[int], Callable[[int, int], None]]]:
    """A bar on the terminal: what comes in is called with the number of the part, and then with done and total."""
    with Progress(console=errors, transient=True, disable=not errors.is_terminal) as progress:
        task = progress.add_task(doing, total=parts)

        def of_part(part: int) -> Callable[[int, int], None]:
            return lambda done, total: progress.update(task, completed=part + done / total)

        yield of_part
