"""Shared by the tests of damage: what a ledger tells, torn pages, and the journal of a commit that was cut off."""

import sqlite3
import struct
from contextlib import suppress

from chary.errors import LedgerError
from chary.ledger import open_ledger

SECTOR, NONCE, EVERY = 512, 4711, 200
MAGIC = bytes.fromhex("d9d505f920a163d7")


def told(ledger):
    """Everything that a ledger says, secrets included."""
    found = []
    for held in ledger.datasets():
        calls = list(ledger.calls(held.name))
        found.append((held, ledger.balance(held.name), ledger.tally(held.name), ledger.notes(held.name), calls))
        found.append((list(ledger.export(held.name)), [ledger.secret(call.number) for call in calls]))
        found.append([ledger.analyst_balance(held.name, call.analyst) for call in calls])
    return found


def opened(path):
    """What the ledger tells; None if it is refused at opening or does not pass its verification.

    Anything but a `LedgerError` that opening or verifying raises fails the test.
    """
    with suppress(LedgerError):
        ledger = open_ledger(path, timeout=1.0)
        try:
            return told(ledger) if ledger.verify().ok else None
        finally:
            ledger.close()
    return None


def page_size(path):
    connection = sqlite3.connect(path)
    try:
        return connection.execute("PRAGMA page_size").fetchone()[0]
    finally:
        connection.close()


def pages(content, size):
    return [content[start : start + size] for start in range(0, len(content), size)]


def journal(before, after, size):
    """The journal that a crash between the last page and the commit leaves: the changed pages as they were before.

    A checksum covers the page's number and every 200th byte, as SQLite's file format says.
    """
    old, new = pages(before, size), pages(after, size)
    changed = [(number, page) for number, page in enumerate(old, 1) if page != new[number - 1]]
    header = MAGIC + struct.pack(">5I", len(changed), NONCE, len(old), SECTOR, size)
    records = [
        struct.pack(">I", number) + page + struct.pack(">I", NONCE + sum(page[size - EVERY : 0 : -EVERY]))
        for number, page in changed
    ]
    return header.ljust(SECTOR, b"\0") + b"".join(records)
