"""Printing: one JSON object, or tables for people."""

import json
import math
from collections.abc import Iterable, Sequence
from datetime import date
from fractions import Fraction
from typing import Any

from rich.console import Console
from rich.table import Table

from chary.numbers import plain

console = Console(highlight=False)
errors = Console(stderr=True, highlight=False)


def show_json(value: Any) -> None:
    """One line of strict JSON; infinities become null."""
    console.out(json.dumps(_clean(value), default=str))


def show_pairs(pairs: dict[str, Any], title: str | None = None) -> None:
    """Name and value, one a line."""
    table = Table(title=title, show_header=False, box=None)
    for name, value in pairs.items():
        table.add_row(name.replace("_", " "), _text(value))
    console.print(table)


def show_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], title: str | None = None) -> None:
    """A table with a header."""
    table = Table(*columns, title=title)
    for row in rows:
        table.add_row(*(_text(value) for value in row))
    console.print(table)


def percent(share: float) -> str:
    """A share of the budget that never shows something as nothing.

    >>> percent(0.0123), percent(1e-7)
    ('1.23 %', '1e-05 %')
    """
    return f"{plain(100 * share)} %"


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, dict):
        return ", ".join(f"{name} {_text(inner)}" for name, inner in value.items())
    if isinstance(value, (float, Fraction)) and not isinstance(value, bool):
        return plain(value)
    return str(value)


def _clean(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _clean(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_clean(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value.isoformat() if isinstance(value, date) else value
