"""What the attacks share at the shell: their door, their options, how results and progress are shown."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import Progress

from chary.audit import Power
from chary.cli.commands import Shown
from chary.cli.output import errors, show_table

app = typer.Typer(
    no_args_is_help=True,
    help="Attacks on exact answers, and how far they get against a session. Results on secret data are secret.",
)
Epsilon = Annotated[str, typer.Option(help="Budget of each session.")]
Epsilons = Annotated[str, typer.Option(help="Budgets of the sessions, comma between them.")]
Delta = Annotated[str, typer.Option(help="Delta of each budget; above 0 the noise is Gaussian.")]
Seed = Annotated[int, typer.Option(help="The same seed gives the same figures.")]
Plot = Annotated[Path | None, typer.Option(help="Also draw a picture: a .png, .pdf or .svg file.")]
Sessions = Annotated[int, typer.Option(help="Simulated sessions.")]
People = Annotated[int, typer.Option(help="People in the table.")]
Members = Annotated[int, typer.Option("--rows", help="Members in each data set.")]


def results(found: list[Any], columns: list[str], rows: list[Any], title: str) -> Shown:
    """What all attacks of one command found: for people a table, for programs every figure."""
    return Shown({"results": [each.as_dict() for each in found]}, lambda _: show_table(columns, rows, title))


def pair(power: Power) -> tuple[str, str]:
    """How many members are found, and the area under the curve."""
    return short(power.tpr), short(power.auc)


def short(share: float) -> str:
    """A share, to a tenth of a per cent."""
    return f"{share:.3f}"


@contextmanager
def progress_of(doing: str, parts: int | None) -> Iterator[Callable[[int], Callable[[int, int], None]]]:
    """A bar on the terminal: what comes in is called with the number of the part, and then with done and total."""
    with Progress(console=errors, transient=True, disable=not errors.is_terminal) as progress:
        task = progress.add_task(doing, total=parts)

        def of_part(part: int) -> Callable[[int, int], None]:
            return lambda done, total: progress.update(task, completed=part + done / total)

        yield of_part
