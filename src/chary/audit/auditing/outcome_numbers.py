"""Published outcomes as rows of numbers, so that events can be chosen among them."""

import json
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
Outcomes = Sequence[Any]
# Longer outcomes are told apart by their first numbers and by their text as a whole.
WIDEST = 256
# Texts and whole outcomes are told apart by 32 bits of a checksum: for two to collide by chance costs an attack power,
# and proves nothing wrong.


def matrices(here: Outcomes, there: Outcomes) -> tuple[Matrix, Matrix]:
    """The outcomes of either neighbour as rows of numbers, one column meaning the same in both.

    For each number in an outcome: the number; where one is missing in some outcomes, whether it is there; where floats
    are no whole numbers, how many binary digits follow the point, in which careless noise shows. Columns that are alike
    everywhere are left out.

    >>> matrices([{"value": 2}, {"value": None}], [{"value": 3}, {"value": 3}])[0].tolist()
    [[1.0, 2.0], [0.0, 0.0]]
    """
    flat = [list(_numbers(outcome)) for outcome in (*here, *there)]
    width = max(map(len, flat), default=0)
    if width > WIDEST or not width:
        flat = [[*numbers[:WIDEST], _checksum(outcome)] for numbers, outcome in zip(flat, (*here, *there), strict=True)]
        width = min(width, WIDEST) + 1
    columns = [column for place in range(width) for column in _columns([_at(row, place) for row in flat])]
    varied = [column for column in columns if np.ptp(column)] or [np.zeros(len(flat))]
    found = np.stack(varied, axis=1)
    return found[: len(here)], found[len(here) :]


def _numbers(value: Any) -> Iterator[float | int | None]:
    """All that an outcome says, one number after the other, in an order that follows from its form."""
    if value is None or isinstance(value, (int, float)):
        yield value
    elif isinstance(value, dict):
        for key in sorted(value):
            yield from _numbers(value[key])
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _numbers(part)
    else:
        yield float(zlib.crc32(str(value).encode()))


def _at(row: Sequence[float | int | None], place: int) -> float | int | None:
    return row[place] if place < len(row) else None


def _columns(values: Sequence[float | int | None]) -> Iterator[Matrix]:
    """The columns of one number."""
    yield np.array([value is not None for value in values], dtype=np.float64)
    yield np.array([0.0 if value is None else _float(value) for value in values])
    if any(isinstance(value, float) and not value.is_integer() for value in values):
        yield np.array([_digits(value) for value in values], dtype=np.float64)


def _float(value: float | int) -> float:
    """The nearest float; integers beyond all floats are as far away as any."""
    return float(max(-(2**1000), min(2**1000, value))) if isinstance(value, int) else value


def _digits(value: float | int | None) -> int:
    """Binary digits after the point."""
    finite = isinstance(value, float) and abs(value) < float("inf")
    return value.as_integer_ratio()[1].bit_length() - 1 if finite and isinstance(value, float) else 0


def _checksum(outcome: Any) -> float:
    return float(zlib.crc32(json.dumps(outcome, sort_keys=True, default=str).encode()))
