"""At most so many rows of one unit, in a table whose neighbours replace rows one by one."""

from dataclasses import dataclass

import duckdb

from chary.data.columns import quote
from chary.errors import InvalidParameter, SchemaMismatch
from chary.numbers import whole


@dataclass(frozen=True)
class EntryLimit:
    """No value of the column `of` is in more than `most` rows. Rows where it is NULL belong to nobody else's unit.

    That is checked of all rows at the opening and of the units in each appended batch; a batch that breaks it is
    refused whole. Guarantee: between streams that both keep the limit no refusal happens, so none tells them apart.
    A refusal does tell that some unit has more rows, whom the limit promises nothing.
    """

    of: str
    most: int

    def __post_init__(self) -> None:
        if not isinstance(self.of, str) or not self.of:
            raise InvalidParameter("a limit on entries needs the name of the column of their unit")
        whole(self.most, "the entries of a unit")

    def check(self, connection: duckdb.DuckDBPyConnection, relation: str, among: str | None = None) -> None:
        """`SchemaMismatch`, naming nobody, if a unit (of the relation `among`, if given) is in too many rows."""
        unit = quote(self.of)
        asked = f"{unit} IS NOT NULL" if among is None else f"{unit} IN (SELECT {unit} FROM {among})"
        crowded = f"SELECT 1 FROM {relation} WHERE {asked} GROUP BY {unit} HAVING count(*) > {self.most} LIMIT 1"
        if connection.execute(crowded).fetchall():
            raise SchemaMismatch(f"some {self.of} would have more than {self.most} entries; nothing was written")
