"""Reading several things of one version of the rows."""

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from chary.data.rows.rows import Reading, Rows
from chary.data.rows.table import RowTable


def read_one_version(rows: Rows, plans: Sequence[Reading]) -> list[Any]:
    """What each plan reads, secret; no row is added in between, so that the parts of one question belong together.

    >>> import pyarrow as pa
    >>> from chary.data import Neighbouring, count
    >>> table = RowTable.open(pa.table({"age": [70, 80]}), neighbouring=Neighbouring("replace", None))
    >>> read_one_version(table, [table.prepare(count("age > 75")), table.prepare(count())])
    [1, 2]
    """
    with rows.one_state() if isinstance(rows, RowTable) and len(plans) > 1 else nullcontext():
        return [plan.run() for plan in plans]
