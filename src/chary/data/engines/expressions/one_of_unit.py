"""Of each unit the one row that is kept: an aggregate, where that is possible, instead of a ranking of all rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import ibis

# The sign of a 64-bit integer stays free.
_BITS: Final = 62


@dataclass(frozen=True)
class Preference:
    """A column of whole numbers from `low` to `high`: lower ones are preferred, or those farthest from 0 (of two that
    are as far the positive one)."""

    column: str
    low: int
    high: int
    farthest: bool = False

    @property
    def bits(self) -> int:
        """How many its places take: with all of them, each value has one of its own, and preferred ones are lower."""
        return (2 * self._largest + 1 if self.farthest else self.high - self.low).bit_length()

    def place(self, value: Any) -> Any:
        """From 0 on: twice the distance from the largest one, and one more for what is negative; or from the lowest."""
        if not self.farthest:
            return value - _whole(self.low)
        negative = ibis.ifelse(value < _whole(0), _whole(1), _whole(0))
        return (_whole(self._largest) - value.abs()) * _whole(2) + negative

    def value(self, place: Any) -> Any:
        """The other direction."""
        if not self.farthest:
            return place + _whole(self.low)
        size = _whole(self._largest) - (place >> _places(1))
        return ibis.ifelse((place & _whole(1)) == _whole(1), -size, size)

    @property
    def _largest(self) -> int:
        return max(abs(self.low), abs(self.high))


def is_packed(order: Sequence[Preference]) -> bool:
    """Whether `one_of_unit` can be asked for this order: its columns fit into one integer.

    >>> is_packed([Preference("value", 0, 2**53, farthest=True), Preference("position", 0, 99)])
    True
    """
    return sum(each.bits for each in order) <= _BITS


def one_of_unit(rows: Any, order: Sequence[Preference]) -> Any:
    """The first row of each `unit` in this order of columns, the first of them first; one scan and no sorting.

    Guarantee: what a ranking by the same order keeps as its first row. Places are one-to-one and rise as preference
    falls; set side by side in one integer, the first column in its highest bits, they are compared as the columns are,
    one after the other. So its minimum over a unit belongs to the first row, and tells all columns of it; two rows with
    the same integer are alike. No sum of places carries over, since each has as many bits as its largest value needs.
    """
    packed = _whole(0)
    for each in order:
        packed = packed * _whole(1 << each.bits) + each.place(rows[each.column])
    first = (
        rows.select(unit=rows["unit"], packed=packed).group_by("unit").aggregate(packed=lambda some: some.packed.min())
    )
    columns, below = {}, 0
    for each in reversed(order):
        columns[each.column] = each.value((first.packed >> _places(below)) & _whole((1 << each.bits) - 1))
        below += each.bits
    return first.select("unit", **columns)


def _places(number: int) -> Any:
    # PostgreSQL and Spark shift by 32-bit integers only.
    return ibis.literal(number, "int32")


def _whole(number: int) -> Any:
    return ibis.literal(number, "int64")
