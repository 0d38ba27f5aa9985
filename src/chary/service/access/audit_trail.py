"""The audit trail: who asked what, from which token, before it was asked; each entry sealed with the one before it."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from sqlalchemy import insert, select

from chary.ledger.entries import now
from chary.service.access.roles import Principal
from chary.service.keeping.service_store import ServiceStore
from chary.service.keeping.service_tables import TRAIL

_FIRST: Final = "0" * 64


@dataclass(frozen=True)
class TrailEntry:
    """One thing that somebody asked to be done. `request` is the key under which the ledger has the call, if any."""

    number: int
    time: str
    token: str
    analyst: str
    dataset: str
    action: str
    request: str | None
    asked: str
    sealed: str


class AuditTrail:
    """An entry for every request that could change anything, written before it is done.

    Together with the ledger it says what became of each: the ledger has the calls by analyst and request key.
    Guarantee: an entry that was changed, removed or moved afterwards is found by `broken`, unless all that follow were
    made anew.
    """

    def __init__(self, store: ServiceStore) -> None:
        self._store = store

    def add(self, who: Principal, dataset: str, action: str, asked: Mapping[str, Any], request: str | None) -> int:
        """Write one; returns its number."""
        entry: dict[str, Any] = {
            "time": now(),
            "token": who.token,
            "analyst": who.analyst,
            "dataset": dataset,
            "action": action,
            "request": request,
            "asked": json.dumps(asked, sort_keys=True),
        }
        last = select(TRAIL.c.number, TRAIL.c.sealed).order_by(TRAIL.c.number.desc()).limit(1)
        with self._store.transaction("trail") as connection:
            found = connection.execute(last).first()
            number, before = (found.number + 1, found.sealed) if found else (1, _FIRST)
            row = entry | {"number": number}
            connection.execute(insert(TRAIL).values(**row, sealed=_sealed(row, before)))
        return int(number)

    def entries(self, after: int = 0, limit: int = 100) -> list[TrailEntry]:
        """So many entries from that number on, oldest first."""
        found = self._store.rows(select(TRAIL).where(TRAIL.c.number > after).order_by(TRAIL.c.number).limit(limit))
        return [TrailEntry(**row._mapping) for row in found]

    def broken(self) -> int | None:
        """The number of the first entry that is not as it was written; None if all are."""
        before = _FIRST
        for expected, entry in enumerate(self.entries(limit=2**31), 1):
            row = {name: value for name, value in asdict(entry).items() if name != "sealed"}
            if entry.number != expected or entry.sealed != _sealed(row, before):
                return expected
            before = entry.sealed
        return None


def _sealed(row: Mapping[str, Any], before: str) -> str:
    written = json.dumps([before, dict(row)], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(written.encode()).hexdigest()
