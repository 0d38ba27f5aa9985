"""A spinner on the terminal while something takes its time; nothing where there is no terminal."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from chary.cli.output import errors


@contextmanager
def spinning(description: str) -> Iterator[Callable[[str], None]]:
    """Tells what is being done; what it yields changes that."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as progress:
        task = progress.add_task(description, total=None)
        yield lambda told: progress.update(task, description=told)
