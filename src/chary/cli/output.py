"""Output of commands: tables, JSON, progress, verbosity."""

import csv
import json
import math
import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import date, datetime
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from chary.addresses import without_password
from chary.errors import InvalidParameter
from chary.numbers import ACCOUNTANTS, between, percent, priced, shown

# Printing: one JSON object, or tables for people.

# Without highlighting: numbers and paths come out as they are, also where the output is kept.
console = Console(highlight=False)
errors = Console(stderr=True, highlight=False)
# Shares of the budget, by the names of their figures; the price of an answer is told in words.
_SHARES: Final = frozenset({"price_if_hit", "price_if_miss", "most_charged"})
_PRICE: Final = ("charged", "remaining")
_SAYS: Final = "interval_says"
_VALUES: Final = ("value", "distinct")
# What a column of a table needs beside its text.
_BORDER: Final = 3
_WHOLE: Final = frozenset(
    {"experiment", "call", "value", "interval", "together", "caution", "hits", "tests", "charged", "act on", "time"}
)
# Ends of intervals, and the column in which people see both.
_ENDS: Final = (("low", "high", "interval"), ("low_together", "high_together", "together"))


class Unsaid(InvalidParameter):
    """A command line that leaves open what has no default; with the `words` added it would do."""

    def __init__(self, told: str, words: str) -> None:
        super().__init__(told)
        self.words = words.split()


def again(typed: Sequence[str], words: Sequence[str]) -> str:
    """A command line as it was typed, but for passwords, with more words.

    >>> again(["test", "postgresql://ann:secret@db.example/clinic", "--where", "age >= 65"], ["--hits", "20"])
    "chary test postgresql://ann@db.example/clinic --where 'age >= 65' --hits 20"
    """
    return shlex.join(["chary", *map(without_password, typed), *words])


def show_json(value: Any) -> None:
    """One line of strict JSON; infinities become null."""
    console.out(json.dumps(_clean(value), default=str))


def show_pairs(pairs: dict[str, Any], title: str | None = None) -> None:
    """Name and value, one a line."""
    table = Table(title=title, show_header=False, box=None)
    for name, value in pairs.items():
        table.add_row(name.replace("_", " "), percent(value) if name in _SHARES else shown(value))
    console.print(table)


def show_answer(figures: Mapping[str, Any], *, price: str | None = None) -> None:
    """What ends an answer: its figures without the accounting, and in words what was charged and what is left.

    `price` is what the answer says of that itself.
    """
    told = _with_intervals(for_people(figures))
    if isinstance(told.get("class"), bool):
        told["class"] = "at or above" if told["class"] else "below"
    # That no value was published says something; that no error is known does not.
    kept = {name: value for name, value in told.items() if value is not None or name in _VALUES}
    show_pairs({name: value for name, value in kept.items() if name not in (*_PRICE, _SAYS)})
    if figures.get("untested"):
        console.print(f"{figures['untested']} were NOT TESTED: the budget was exhausted")
    if not figures.get(_SAYS, "no interval").startswith("no interval"):
        console.print(figures[_SAYS], soft_wrap=True)
    if _PRICE[0] in figures:
        console.print(price or priced(*(figures[name] for name in _PRICE)), soft_wrap=True)


def for_people(figures: Mapping[str, Any]) -> dict[str, Any]:
    """Figures without what only accountants ask for, unless --verbose did."""
    return {name: value for name, value in figures.items() if VERBOSE.get() or name not in ACCOUNTANTS}


def moment(time: str) -> str:
    """The time of an entry of a ledger in full: date, time and zone.

    >>> moment("2026-11-22T17:43:18.250000+00:00")
    '2026-11-22 17:43:18 UTC'
    """
    return f"{datetime.fromisoformat(time):%Y-%m-%d %H:%M:%S %Z}"


def fits(columns: Sequence[str], rows: Iterable[Sequence[Any]], between: int = 1) -> bool:
    """Whether no cell of a table has to be broken, with so much space between columns.

    >>> fits(["call", "kind"], [[1, "test"]]), fits(["call", "kind"], [[1, 1000 * "t"]])
    (True, False)
    """
    found = zip(columns, *([shown(cell) for cell in row] for row in rows), strict=True)
    return sum(max(map(len, column)) + between for column in found) < console.width - _BORDER


_DATE: Final = len("2026-01-01")


def show_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], title: str | None = None) -> None:
    """A table with a header."""
    texts = [[shown(value) for value in row] for row in rows]
    table = Table(title=title)
    if not fits(columns, texts, _BORDER):
        table = Table(title=title, box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    # Numbers, intervals and words of one line are never broken; names are, where there is no room, but no dates.
    least = list[int]()
    for place, column in enumerate(columns):
        longest = max(map(len, [*column.split(), *(row[place] for row in texts)]), default=0)
        least.append(max(longest, len(column)) if column in _WHOLE else min(_DATE, longest))
    for column, size in zip(columns, least, strict=True):
        table.add_column(column, no_wrap=column in _WHOLE, overflow="fold", min_width=size)
    for text in texts:
        table.add_row(*map(escape, text))
    # A terminal that is narrower than that breaks the lines; otherwise columns would be left out.
    needed = sum(least) + 2 * len(least)
    table.width = needed if needed > console.width else None
    console.print(table, crop=False)


def narrow(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows for a terminal: both ends of an interval in one cell, no p-values, and no column in which nothing stands.

    >>> narrow([{"key": "a", "low": None, "high": 9.5, "low_together": 1, "high_together": 12, "caution": None}])
    [{'key': 'a', 'interval': 'up to 9.5', 'together': '1 to 12'}]
    """
    told = [_joined(row) for row in rows]
    kept = {name for row in told for name, value in row.items() if value is not None}
    return [{name: value for name, value in row.items() if name in kept} for row in told]


def _joined(row: Mapping[str, Any]) -> dict[str, Any]:
    joined = _with_intervals(row)
    if joined.get("caution") is not None:
        joined["caution"] = "probably false" if joined["caution"].startswith("probably") else "may be false"
    return joined


def _with_intervals(row: Mapping[str, Any]) -> dict[str, Any]:
    """Both ends of each interval under one name."""
    joined = dict(row)
    for low, high, name in _ENDS:
        if {low, high} <= joined.keys():
            ends = {name if each == low else each: value for each, value in joined.items() if each != high}
            joined = ends | {name: None if row[low] is row[high] is None else between(row[low], row[high])}
    if (p_value := joined.pop("p_value", None)) is not None and VERBOSE.get():
        joined["p_value"] = f"{p_value:.2g}"
    return joined


def check_csv(file: Path | None) -> None:
    """Refuse, before anything is charged, a file that is there, such as the data, or that cannot be written."""
    if file is not None and (file.exists() or not os.access(file.parent, os.W_OK)):
        raise InvalidParameter(f"{file} exists or cannot be written: name a new file, such as --output answer.csv")


def show_tables(found: Mapping[str, Any], *, price: str | None = None) -> None:
    """An answer for people: its rows as tables, the rest by names, and its cost in words."""
    tables = {name: narrow([for_people(row) for row in rows]) for name, rows in found.items() if is_table(rows)}
    for name, rows in tables.items():
        columns = [column.replace("_", " ") for column in rows[0]] if rows else ["none"]
        show_table(columns, [list(row.values()) for row in rows], name)
    left = {name: value for name, value in found.items() if name not in tables and name != "shares"}
    show_answer(left, price=price)


def write_csv(found: Any, file: Path, *, more: bool = False) -> None:
    """The rows of an answer, or the answer itself as one row; `more` is written below what is there."""
    tables = [found] if is_table(found) else found.values()
    rows = next((value for value in tables if is_table(value) and value), None)
    rows = rows or [{name: value for name, value in dict(found).items() if not isinstance(value, (dict, list))}]
    with file.open("a" if more else "w", newline="", encoding="utf-8") as opened:
        writer = csv.writer(opened)
        if not more:
            writer.writerow(rows[0])
        writer.writerows([map(_cell, row.values()) for row in rows])


def is_table(value: Any) -> bool:
    """Whether a figure is a list of rows."""
    return isinstance(value, list) and all(isinstance(row, dict) for row in value)


def _clean(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _clean(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_clean(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value.isoformat() if isinstance(value, date) else value


def _cell(value: Any) -> Any:
    return shown(value) if isinstance(value, (list, tuple)) else value


# `--verbose`, which every command takes: whether people are told the accounting as well.

# Whether this command line asked for the accounting; the command itself starts each line with no.
VERBOSE: Final[ContextVar[bool]] = ContextVar("verbose", default=False)
# The options of the command that runs, in whose words messages are.
KNOWN: Final[ContextVar[frozenset[str]]] = ContextVar("known", default=frozenset())
HELP: Final = "Also show the accounting: epsilon of each call, orders, log-moments."


def heard(said: bool) -> bool:
    """What a command line said, at one place or another."""
    VERBOSE.set(VERBOSE.get() or said)
    return said


Verbose = Annotated[
    bool, typer.Option("--verbose", callback=heard, expose_value=False, help=HELP, rich_help_panel="Output")
]


@cache
def option() -> Any:
    """The option, as every command has it."""

    def command(verbose: Verbose = False) -> None: ...

    app = typer.Typer(add_completion=False)
    app.command()(command)
    return typer.main.get_command(app).params[0]


# A spinner on the terminal while something takes its time; nothing where there is no terminal.


@contextmanager
def spinning(description: str) -> Iterator[Callable[[str], None]]:
    """Show what is being done; what it yields changes that."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as progress:
        task = progress.add_task(description, total=None)
        yield lambda told: progress.update(task, description=told)
