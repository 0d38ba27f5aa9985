"""Neighbouring datasets: the relation between them and the privacy unit in which they differ."""

from dataclasses import dataclass
from enum import StrEnum

from chary.errors import InvalidParameter


class Relation(StrEnum):
    """How two neighbouring databases differ.

    `ADD_REMOVE`: all rows of one unit are added or removed. `REPLACE`: all rows of one unit are exchanged for
    any rows of one other unit; the number of units is public. `BOUNDED_CHANGE`: a series of counts, each of
    whose values may change by at most a declared amount.
    """

    ADD_REMOVE = "add/remove"
    REPLACE = "replace"
    BOUNDED_CHANGE = "bounded change"


@dataclass(frozen=True)
class Neighbouring:
    """The neighbouring relation and the privacy unit; neither has a default.

    `unit` is the column that names the unit a row belongs to, or None when each row is a unit of its own.
    An unknown relation, or a unit for a bounded change, raises `InvalidParameter`.

    >>> Neighbouring("add/remove", "patient_id").describe()
    'all rows of one patient_id added or removed'
    """

    relation: Relation
    unit: str | None

    def __init__(self, relation: Relation | str, unit: str | None) -> None:
        object.__setattr__(self, "relation", _relation(relation))
        object.__setattr__(self, "unit", unit)
        if unit is not None and (not isinstance(unit, str) or not unit):
            raise InvalidParameter("unit must be the name of a column, or None when each row is a unit")
        if unit is not None and self.relation is Relation.BOUNDED_CHANGE:
            raise InvalidParameter("a series of counts has no unit column: write Neighbouring('bounded change', None)")

    def describe(self) -> str:
        """One clause of English.

        >>> Neighbouring("replace", None).describe()
        'one row replaced by any other'
        """
        rows = "one row" if self.unit is None else f"all rows of one {self.unit}"
        match self.relation:
            case Relation.ADD_REMOVE:
                return f"{rows} added or removed"
            case Relation.REPLACE:
                return f"{rows} replaced by any other" + ("" if self.unit is None else "s")
            case Relation.BOUNDED_CHANGE:
                return "every value of the series changed by at most its declared sensitivity"


def _relation(relation: Relation | str) -> Relation:
    if relation in tuple(Relation):
        return Relation(relation)
    raise InvalidParameter(f"relation must be one of {', '.join(map(repr, map(str, Relation)))}, got {relation!r}")
