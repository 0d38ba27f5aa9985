"""Asking while a spinner turns, and what was charged for it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from chary.cli.asking import Asked, ask
from chary.cli.options import BudgetOptions, CallOptions, QueryOptions, SourceOptions
from chary.cli.output import errors


@contextmanager
def asking(
    source: SourceOptions, budget: BudgetOptions, call: CallOptions, query: QueryOptions, *, targets: bool
) -> Iterator[Asked]:
    """The open session and question, with a spinner on the terminal while it works."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as progress:
        task = progress.add_task(f"reading {source.file.name}", total=None)
        asked = ask(source, budget, call, query, targets=targets)
        progress.update(task, description="asking")
        with asked.session:
            yield asked


def charged(asked: Asked) -> dict[str, Any]:
    """The figures every asking command ends with."""
    spent = asked.session.spent
    return {
        "epsilon_per_call": float(asked.epsilon),
        "spent": spent.as_dict(),
    }
