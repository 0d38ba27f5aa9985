"""Growing datasets: batches appended whole, each with a version."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from chary.core.transaction import Door
from chary.core.versions import Arrivals, Version
from chary.data import Batch, RowTable, has_public_size, public_size
from chary.errors import CharyError, InvalidParameter
from chary.ledger.checks import label


@dataclass(frozen=True)
class Growing(Door):
    """Appending rows, and what is public about the growth; and which runs are asked after each append.

    Whoever sees `append` raise repeats it, and rows that are there twice break promises. So followers that fail are
    told of in one `RuntimeWarning`, after all of them had their turn.
    """

    _followers: list[Callable[[], object]] = field(default_factory=list, init=False, repr=False, compare=False)

    def append(self, rows: Any, *, request: str | None = None) -> int:
        """Add a batch of rows to the growing dataset; returns its version. Nothing is charged.

        All rows or none are added, together with their version, whenever the process dies: rows of a DuckDB file stay
        there, those of every other source live as long as this session. Where a folder (or a pattern) of Parquet files
        was opened, a file of it that is appended is read in place, and is there at the next opening like all others;
        one that is among the rows already adds nothing, and needs its `request` key (`InvalidParameter`).

        How many rows came is recorded where the size is public and nowhere else. Under a `request` key that came
        before, say after a crash, nothing is added and the version of then is returned: the key alone tells, so take a
        new one for new rows. A DuckDB file keeps the key; for other sources the ledger shows it, so that it must tell
        nothing of the rows: no hash of them, for one.

        Errors: `SchemaMismatch` if columns or types differ. A `LedgerError` leaves nothing behind in memory; rows of a
        DuckDB file may be there by then, and get their version with the next append: repeat it under the same key.

        >>> import chary, pyarrow as pa
        >>> rows = pa.table({"age": [70, 80, 20]})
        >>> public = {"privacy_unit": None, "relation": "replace"}
        >>> session = chary.open(rows, **public, budget=chary.Budget(epsilon=1), ledger=":memory:")
        >>> session.append(pa.table({"age": [35, 36]}), request="Monday")
        2
        >>> [(version.number, version.kind, version.size) for version in session.versions]
        [(1, 'found', 3), (2, 'append', 5)]
        """
        version, followers = self._added(rows, request), tuple(self._followers)
        if failed := [failure for follow in followers if (failure := _failure(follow))]:
            warnings.warn(
                f"the rows are there as version {version}: do not append them again. But of the {len(followers)} that "
                f"follow, {len(failed)} failed: {'; '.join(failed)}. The next append lets them catch up",
                RuntimeWarning,
                stacklevel=2,
            )
        return version

    def _added(self, rows: Any, request: str | None) -> int:
        table, arrivals, brought = self.spine.rows, self._arrivals, list[Version]()
        if isinstance(table, RowTable):
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


def _failure(follow: Callable[[], object]) -> str | None:
    try:
        follow()
    except CharyError as error:
        return f"{type(error).__name__}: {error}"
    except Exception as error:  # of the caller's own code, so that its message may say anything
        return type(error).__name__
    return None
