"""What happens whenever a ledger is opened: it gets what it lacks, is checked, and held against its witness."""

from __future__ import annotations

from chary.ledger.sql import soundness
from chary.ledger.sql.upkeep import Upkeep
from chary.ledger.sqlite.layout import add_indexes, add_lacking, add_seal, indexed, lacking, sealed
from chary.ledger.sqlite.store import Store


def prepare(store: Store, upkeep: Upkeep) -> None:
    """Make the ledger ready to be charged; `LedgerBroken` if it is damaged or an older copy than was witnessed."""
    with store.reading() as connection:
        done = sealed(connection) and not lacking(connection) and indexed(connection)
    if not done:
        with store.writing() as connection:
            add_seal(connection)
            add_lacking(connection)
            add_indexes(connection)
    with store.reading() as connection:
        soundness.check(upkeep, connection)
        store.bookmark.follow(connection)
    if store.bookmark.witness is not None:
        with store.writing() as connection:
            store.bookmark.call(connection)
