"""Growing datasets: batches appended whole, each with a version."""

from typing import Any

from chary.data import Table, has_public_size, public_size
from chary.data.batches import Batch
from chary.errors import InvalidParameter
from chary.ledger.checks import label
from chary.session.arrivals import Arrivals, Version
from chary.session.door import Door


class Growing(Door):
    """Appending rows, and what is public about the growth."""

    def append(self, rows: Any, *, request: str | None = None) -> int:
        """Add a batch of rows to the growing dataset; returns its version. Nothing is charged.

        All rows or none are added, together with their version, whenever the process dies: rows of a DuckDB file stay
        there, those of every other source live as long as this session. How many rows came is recorded where the size
        is public and nowhere else. Under a `request` key that came before, say after a crash, nothing is added and the
        version of then is returned: the key alone tells, so take a new one for new rows. A DuckDB file keeps the key;
        for other sources the ledger shows it, so that it must tell nothing of the rows: no hash of them, for one.

        Errors: `SchemaMismatch` if columns or types differ. A `LedgerError` leaves nothing behind in memory; rows of a
        DuckDB file may be there by then, and get their version with the next append: repeat it under the same key.

        >>> import chary, polars as pl
        >>> rows = pl.DataFrame({"age": [70, 80, 20]})
        >>> public = {"privacy_unit": None, "relation": "replace"}
        >>> session = chary.open(rows, **public, budget=chary.Budget(epsilon=1), ledger=":memory:")
        >>> session.append(pl.DataFrame({"age": [35, 36]}), request="Monday")
        2
        >>> [(version.number, version.kind, version.size) for version in session.versions]
        [(1, 'found', 3), (2, 'append', 5)]
        """
        table, arrivals, brought = self.spine.rows, self._arrivals, list[Version]()
        if isinstance(table, Table):
            key = None if request is None else label(request, "request")
            batch = table.append(rows, request=key, arrive=lambda batch: brought.append(arrivals.arrive(batch)))
            return (brought or [arrivals.of(batch)])[0].number
        if request is not None:
            raise InvalidParameter("only a table remembers the request keys of its batches")
        table.append(rows)
        size = public_size(table) if has_public_size(table.neighbouring) else 0
        return arrivals.arrive(Batch(0, rows=size)).number

    @property
    def size(self) -> int:
        """How many rows there are; `InvalidQuery` where that is secret. Free, since neighbours agree on it."""
        return public_size(self.spine.rows)

    @property
    def versions(self) -> list[Version]:
        """Every batch in order of arrival; all of it is public."""
        return self._arrivals.all()

    @property
    def _arrivals(self) -> Arrivals:
        return Arrivals(self.spine.ledger, self.spine.dataset, self.spine.rows)
