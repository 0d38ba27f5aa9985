"""The number of rows, where neighbours agree on it."""

from chary.data.neighbouring import Neighbouring, Relation
from chary.data.queries.count import count
from chary.data.rows.rows import Rows
from chary.data.rows.series import Series
from chary.errors import InvalidQuery


def has_public_size(neighbouring: Neighbouring) -> bool:
    """Whether neighbours have as many rows: when each row is a unit and one is replaced, and for a series of counts.

    >>> has_public_size(Neighbouring("replace", None)), has_public_size(Neighbouring("replace", "patient"))
    (True, False)
    """
    each_row = neighbouring.relation is Relation.REPLACE and neighbouring.unit is None
    return each_row or neighbouring.relation is Relation.BOUNDED_CHANGE


def public_size(rows: Rows) -> int:
    """How many rows there are now: the same number for neighbours, hence public and free.

    `InvalidQuery`, with nothing read, when neighbours may differ in it.

    >>> import pyarrow as pa
    >>> from chary.data.rows.table import RowTable
    >>> public_size(RowTable.open(pa.table({"age": [70, 80, 20]}), neighbouring=Neighbouring("replace", None)))
    3
    """
    if not has_public_size(rows.neighbouring):
        raise InvalidQuery(
            f"the number of rows is secret when neighbours are {rows.neighbouring.describe()}; it is public when each "
            'row is a unit and one is replaced: open with privacy_unit=None, relation="replace"'
        )
    return len(rows.series().keys) if isinstance(rows, Series) else int(rows.prepare(count()).run())
