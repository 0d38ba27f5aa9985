"""`chary reproduce`: the figures of the papers, computed again, and whether their trends hold."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from chary.cli import commands, output
from chary.errors import InvalidParameter
from chary_research.experiments import DataFolder, Experiment, experiment, reproduction
from chary_research.experiments.experiment import ENVIRONMENT

# A trend that does not hold is no wrong usage, no refusal and nothing unforeseen.
TREND_BROKEN: Final = 4
Names = Annotated[list[str] | None, typer.Argument(help="Names of experiments, as --list shows them.")]
Listed = Annotated[bool, typer.Option("--list", help="List all experiments and what they need; run none.")]
Every = Annotated[bool, typer.Option("--all", help="Run all; those whose data are absent are skipped and listed.")]
Quick = Annotated[bool, typer.Option("--quick", help="Fewer settings and repetitions: minutes instead of hours.")]
Out = Annotated[Path, typer.Option("--output", help="Where CSV files, pictures and finished pieces go.")]
Jobs = Annotated[int, typer.Option(min=0, help="Processes that measure side by side; 0 is one for each processor.")]
Data = Annotated[Path | None, typer.Option(envvar=ENVIRONMENT, help="Folder of the data sets that are not shipped.")]


def reproduce_command(
    names: Names = None,
    listed: Listed = False,
    every: Every = False,
    quick: Quick = False,
    out: Out = Path("reproduced"),
    data: Data = None,
    jobs: Jobs = 0,
    as_json: commands.AsJson = False,
) -> None:
    """Run experiments: a CSV file and a picture each, and whether each trend holds; exit code 4 if one does not.

    A run that was stopped goes on where it was: finished pieces are kept in the output folder. Pieces are measured by
    several processes at a time; which ones does not change what they find.
    """
    known = DataFolder(data)
    if listed:
        _tell(as_json, known)
        return
    chosen = [experiment(name) for name in (reproduction.EXPERIMENTS if every else names or [])]
    if not (names or every):
        raise InvalidParameter(f"name an experiment, or say --all or --list: {', '.join(reproduction.EXPERIMENTS)}")
    skipped = {each.name: each.absent(known) for each in chosen if every and each.absent(known)}
    found = _run([each for each in chosen if each.name not in skipped], out, known, quick, jobs or cores())
    if as_json:
        output.show_json({"experiments": [each.as_dict() for each in found], "skipped": skipped})
    else:
        _show(found, skipped)
    if not all(each.holds for each in found):
        raise typer.Exit(TREND_BROKEN)


def cores() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _run(
    chosen: list[Experiment], out: Path, data: DataFolder, quick: bool, jobs: int
) -> list[reproduction.Reproduced]:
    for each in chosen:
        reproduction.check(each, data)
    found = []
    with _bar() as told, reproduction.workers(jobs) as pool:
        for each in chosen:
            found.append(
                reproduction.reproduce(each, out, data=data, quick=quick, on_progress=told(each.name), pool=pool)
            )
    return found


@contextmanager
def _bar() -> Iterator[Callable[[str], Callable[[int, int], None]]]:
    """A threshold on the terminal: what comes in takes the name of an experiment, and then the pieces done and all."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=output.errors, transient=True, disable=not output.errors.is_terminal) as progress:
        task = progress.add_task("reproducing", total=None)

        def of(name: str) -> Callable[[int, int], None]:
            return lambda done, total: progress.update(task, description=name, completed=done, total=total)

        yield of


def _tell(as_json: bool, data: DataFolder) -> None:
    rows = [
        {
            "name": name,
            "source": each.source,
            "shows": each.shows,
            "needs": each.needs,
            "absent": data.missing(each.needs),
        }
        for name, each in reproduction.EXPERIMENTS.items()
    ]
    if as_json:
        output.show_json({"experiments": rows})
        return
    told = [(row["name"], row["source"], row["shows"], ", ".join(row["needs"]) or "nothing") for row in rows]
    output.show_table(["experiment", "source", "what it shows", "needs"], told)


def _show(found: list[reproduction.Reproduced], skipped: dict[str, list[str]]) -> None:
    for each in found:
        fresh = "" if each.measured == each.pieces else f", {each.pieces - each.measured} pieces from an earlier run"
        output.console.print(f"{each.name}: {each.seconds:.1f} s{fresh}; {each.csv}, {each.picture}", soft_wrap=True)
        for table in each.tables:
            output.console.print(f"  {table.told}", soft_wrap=True)
            output.show_table(list(table.headings), table.lines)
        for trend in each.trends:
            output.console.print(f"  {'holds' if trend.holds else 'DOES NOT HOLD'}: {trend.told}", soft_wrap=True)
    for name, files in skipped.items():
        output.console.print(f"{name}: skipped, needs {', '.join(files)}", soft_wrap=True)
