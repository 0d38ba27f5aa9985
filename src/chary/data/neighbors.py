"""Neighbouring datasets: how they differ, and the privacy unit in which they do."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from chary.errors import InvalidParameter
from chary.numbers import set_fields

# The stored word where it differs from the name. Ledgers, fingerprints and the wire keep it for ever.
_STORED: Final = {"add_remove": "add/remove", "bounded_change": "bounded change"}


class Neighbors(StrEnum):
    """How two neighbouring databases differ.

    `ADD_REMOVE`: all rows of one unit are added or removed. `REPLACE`: all rows of one unit are exchanged for
    any rows of one other unit; the number of units is public. `BOUNDED_CHANGE`: a series of counts, each of
    whose values may change by at most a declared amount.
    """

    ADD_REMOVE = "add_remove"
    REPLACE = "replace"
    BOUNDED_CHANGE = "bounded_change"

    @property
    def stored(self) -> str:
        """The word for it in ledgers, in fingerprints and on the wire.

        >>> Neighbors.ADD_REMOVE.stored
        'add/remove'
        """
        return _STORED.get(self.value, self.value)

    @classmethod
    def of_stored(cls, word: str) -> "Neighbors":
        """What a stored word means; `ValueError` for any other.

        >>> Neighbors.of_stored("add/remove").value
        'add_remove'
        """
        return cls({each.stored: each.value for each in cls}.get(word, ""))


@dataclass(frozen=True)
class NeighborRelation:
    """The neighbouring relation and the privacy unit; neither has a default.

    `unit` is the column that names the unit a row belongs to, or None when each row is a unit of its own. `in_part`
    is the relation of the rows of one part: where a unit is replaced, it may leave the part, or enter it. With `block`,
    such as "month", neighbours differ in the rows of one unit in one block, in the same way.
    Unknown neighbours, or a unit for a bounded change, raises `InvalidParameter`.

    >>> NeighborRelation("add_remove", "patient_id").describe()
    'all rows of one patient_id added or removed'
    """

    neighbors: Neighbors
    unit: str | None
    # Not on the wire, which has relations of all rows only.
    in_part: bool = field(default=False, init=False)
    block: str | None = field(default=None, init=False)

    def __init__(
        self, neighbors: Neighbors | str, unit: str | None, in_part: bool = False, block: str | None = None
    ) -> None:
        within = in_part or block is not None
        set_fields(self, neighbors=_neighbors(neighbors), unit=unit, in_part=within, block=block)
        if unit is not None and (not isinstance(unit, str) or not unit):
            raise InvalidParameter("unit must be the name of a column, or None when each row is a unit")
        if unit is not None and self.neighbors is Neighbors.BOUNDED_CHANGE:
            raise InvalidParameter(
                "a series of counts has no unit column: write NeighborRelation('bounded_change', None)"
            )

    @property
    def public_units(self) -> bool:
        """Whether neighbours have as many units, so that their number is public.

        >>> NeighborRelation("replace", None).public_units, NeighborRelation("replace", None, in_part=True).public_units
        (True, False)
        """
        return self.neighbors is Neighbors.REPLACE and not self.in_part

    def describe(self) -> str:
        """One clause of English.

        >>> NeighborRelation("replace", None).describe()
        'one row replaced by any other'
        >>> NeighborRelation("add_remove", "home", block="month").describe()
        'all rows of one home in one month added or removed'
        """
        rows = "one row" if self.unit is None else f"all rows of one {self.unit}"
        rows += "" if self.block is None else f" in one {self.block}"
        match self.neighbors:
            case Neighbors.ADD_REMOVE:
                return f"{rows} added or removed"
            case Neighbors.REPLACE:
                moved = ", removed or added" if self.in_part else ""
                return f"{rows} replaced by any other" + ("" if self.unit is None else "s") + moved
            case Neighbors.BOUNDED_CHANGE:
                return "every value of the series changed by at most its declared sensitivity"


def _neighbors(neighbors: Neighbors | str) -> Neighbors:
    if neighbors in tuple(Neighbors):
        return Neighbors(neighbors)
    raise InvalidParameter(f"neighbors must be one of {', '.join(map(repr, map(str, Neighbors)))}, got {neighbors!r}")
