"""Multiplying some cells of a large matrix in place, in about the time of one pass over it.

What is quickest depends on how the rows differ: a few slices of rows, a few stripes of columns, or a line of factors
looked up for each row. All of them give the same bits.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

Flags = NDArray[np.bool_]
Numbers = NDArray[np.intp]
Weights = NDArray[np.float32]
Pieces = list[tuple[slice, int]]

# All of these trade speed only, since every way gives the same bits. 8,192 cells take longer than the call for a slice
# of them, so as many calls are no burden; eight strided slices, or three stripes, are quicker than a look-up a row.
PIECE: Final = 2**13
STEPPED: Final = 8
STRIPES: Final = 3
# Rows much shorter than 8,192 cells are multiplied several at a time, and only from 512 columns on is it worth leaving
# some out. 16 is the smallest buffer that NumPy takes.
TILE: Final = 2**13
NARROW: Final = 2**9
UNBUFFERED: Final = 16


def pieces_of(which: Numbers, patterns: Flags) -> Pieces | None:
    """Rows that have the same pattern as few slices, without those whose pattern is empty; None if they would be many.

    Every slice costs a call, which has to be little beside the cells themselves.
    """
    used: Flags = np.logical_or.reduce(patterns, axis=1)
    if len(used) == 1:
        return [(slice(0, len(which)), 0)] if used[0] else []
    starts = np.concatenate(([0], np.flatnonzero(which[1:] != which[:-1]) + 1))
    numbers, ends = which[starts], np.append(starts[1:], len(which))
    runs = [part[used[numbers]].tolist() for part in (starts, ends, numbers)]
    if len(runs[0]) <= 1 + len(which) * patterns.shape[1] // PIECE:
        return [(slice(low, high), number) for low, high, number in zip(*runs, strict=True)]
    if used.sum() > STEPPED:
        return None
    stepped = [(rows, number) for number in np.flatnonzero(used).tolist() for rows in _stepped(which == number)]
    return stepped if len(stepped) == used.sum() else None


def _stepped(flags: Flags) -> list[slice]:
    """Evenly spaced rows as one slice; none for others."""
    rows = np.flatnonzero(flags)
    steps = np.diff(rows)
    even = len(rows) > 0 and (steps == steps[:1]).all()
    return [slice(int(rows[0]), int(rows[-1]) + 1, int(steps[0]) if len(steps) else 1)] if even else []


def stripes_of(patterns: Flags) -> list[tuple[int, int]] | None:
    """The columns as few stretches in which every pattern is constant; None if they would be many."""
    edges = np.flatnonzero((patterns[:, 1:] != patterns[:, :-1]).any(axis=0)) + 1
    return list(pairwise([0, *edges.tolist(), patterns.shape[1]])) if len(edges) < STRIPES else None


def multiply_pieces(matrix: Weights, pieces: Pieces, patterns: Flags, factor: float) -> None:
    """Piece by piece, by one factor or one for each column."""
    used, one = sorted({number for _, number in pieces}), np.float32(factor)
    spans = {number: _columns(patterns[number]) for number in used}
    mixed = [number for number in used if not spans[number][1]]
    made = dict(zip(mixed, factors_of(patterns[mixed], factor), strict=True)) if mixed else {}
    for rows, number in pieces:
        span, full = spans[number]
        _multiply(matrix[rows, span], one if full else made[number][span])


def _columns(pattern: Flags) -> tuple[slice, bool]:
    """Which columns to multiply, and whether by one factor: from the first flag to the last, or all if they are few."""
    span, columns = _span(pattern), len(pattern)
    full, width = bool(pattern[span].all()), span.stop - span.start
    if width == columns or (columns >= NARROW and (full or 4 * width <= 3 * columns)):
        return span, full
    return slice(0, columns), False


def _multiply(part: Weights, factors: Weights | np.float32) -> None:
    """Short whole rows several at a time."""
    columns = part.shape[1]
    if np.ndim(factors) and part.flags.c_contiguous and 4 * columns < TILE and part.size > 16 * TILE:
        together = TILE // columns
        long = len(part) // together * together
        body, part = part[:long].reshape(-1, together * columns), part[long:]
        np.multiply(body, np.tile(factors, together), out=body)
    np.multiply(part, factors, out=part)


def multiply_stripes(
    matrix: Weights, stripes: list[tuple[int, int]], which: Numbers, patterns: Flags, factor: float
) -> None:
    """Each stripe by one factor a row."""
    for low, high in stripes:
        if patterns[:, low].any():
            part = matrix[:, low:high]
            np.multiply(part, factors_of(patterns[:, low], factor)[which][:, None], out=part)


def multiply_gathered(matrix: Weights, which: Numbers, factors: Weights, scratch: Weights) -> None:
    """Block by block, by the line of factors that belongs to each row."""
    for rows, gathered in _blocks(which, factors, scratch):
        np.multiply(matrix[rows], gathered, out=matrix[rows])


def _blocks(which: Numbers, table: Weights, scratch: Weights) -> Iterator[tuple[slice, Weights]]:
    """A block of rows after the other, with the line of the table for each; the next block overwrites it. The scratch
    has room for one line at least."""
    columns = table.shape[1]
    together = len(scratch) // columns
    for low in range(0, len(which), together):
        rows = slice(low, min(low + together, len(which)))
        gathered = scratch[: (rows.stop - low) * columns].reshape(-1, columns)
        yield rows, table.take(which[rows], 0, gathered, "clip")


def sum_pieces(matrix: Weights, pieces: Pieces, patterns: Flags) -> float:
    """The sum of flagged weights, in double precision."""
    inside = 0.0
    for rows, number in pieces:
        span = _span(patterns[number])
        sums = np.add.reduce(matrix[rows, span], axis=0, dtype=np.float64)
        inside += float((sums * patterns[number, span]).sum())
    return inside


def sum_gathered(matrix: Weights, which: Numbers, patterns: Flags, scratch: Weights) -> float:
    """The sum of flagged weights where rows are of many kinds."""
    inside = 0.0
    for rows, gathered in _blocks(which, patterns.astype(np.float32), scratch):
        gathered *= matrix[rows]
        inside += float(gathered.sum(dtype=np.float64))
    return inside


def factors_of(flags: Flags, factor: float) -> Weights:
    """The factor where there is a flag and 1 elsewhere; by whole numbers, which is exact and several times quicker."""
    bits = np.array([1, factor], np.float32).view(np.uint32)
    made = flags.astype(np.uint32)
    # Adding the difference between the bits of 1 and of the factor, or 0, picks one of the two floats unrounded.
    made *= bits[1:] - bits[:1]
    made += bits[:1]
    return made.view(np.float32)


def _span(flags: Flags) -> slice:
    """From the first true flag to the last one."""
    known = flags.tobytes()
    first = known.find(b"\x01")
    return slice(0) if first < 0 else slice(first, known.rfind(b"\x01") + 1)


def aligned(size: int) -> Weights:
    """Room for so many weights that begins with a line of the processor's cache."""
    line = 64
    room = np.empty(size + line, np.float32)
    start = -room.ctypes.data % line // room.itemsize
    return room[start : start + size]


@contextmanager
def unbuffered() -> Iterator[None]:
    """Without the copies that numpy makes of operands whose rows are shorter than its buffer."""
    before = np.setbufsize(UNBUFFERED)
    try:
        yield
    finally:
        np.setbufsize(before)
