"""Checkpoints outside of a ledger: a checkpoint file with the head last seen, and a bookmark of it in this process."""

import fcntl
import os
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from chary.errors import InvalidParameter, LedgerCorrupted, LedgerError
from chary.ledger.entries import Head
from chary.ledger.sqlite.files import BESIDE

# A checkpoint: a small file kept elsewhere that knows the head of a ledger, so that an old copy of it is noticed.

# Not secret, but whoever could write it could make a ledger look old.
_MODE = 0o600
_MARK = "chary-witness"
# Both slots lie in one sector or page, and each is written by itself: whatever a crash tears, the other stays.
_SLOT = 256


class Checkpoint:
    """Holds the last head in two slots that are written in turn; the whole one with more entries counts.

    It is written durably after each commit and before anything is handed out. A crash in between leaves it one step
    behind, which is no harm: a ledger is accepted if it holds the kept head among its entries.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).absolute()

    def read(self) -> Head | None:
        """The kept head; None if there is no file, `LedgerCorrupted` if there is one that cannot be read."""
        try:
            text = self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError:
            raise LedgerError("the checkpoint cannot be read") from None
        if not _once_was_one(text):
            raise LedgerError(f"{self.path} is no checkpoint: name another file, or move this one away")
        heads = _heads(text)
        if not heads:
            raise LedgerCorrupted(
                "the checkpoint is damaged: make a new one by `chary ledger head FILE --checkpoint PATH`"
            )
        return max(heads)

    def start(self, head: Head) -> None:
        """Make the file, in the place of none but a checkpoint, whole or damaged; durable when this returns."""
        new = self.path.with_name(f".{self.path.name}.new")
        try:
            if self.path.exists() and not _once_was_one(self.path.read_bytes()):
                raise InvalidParameter(f"{self.path} is another file, which a checkpoint does not replace")
            # Another name first, then a rename: the checkpoint is never half there under its own.
            new.unlink(missing_ok=True)
            self._write(new, os.O_CREAT | os.O_EXCL, _packed(head) * 2, 0)
            new.rename(self.path)
            folder = os.open(self.path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            raise LedgerError(f"the checkpoint cannot be written: {error.strerror}") from None

    def renew(self, connection: Connection, head: Head) -> None:
        """Make the file for this ledger; `LedgerCorrupted` in the place of one that knows entries which it lacks."""
        kept = None
        with suppress(LedgerError):  # what cannot be read knows nothing
            kept = self.read()
        if kept is not None and not holds(connection, kept):
            raise LedgerCorrupted(
                f"{self.path} knows entry {kept.entries}, which this ledger does not hold: it is older, or another. "
                "Move that file elsewhere, since it is the proof, and make a new one"
            )
        self.start(head)

    def move(self, head: Head) -> None:
        """Checkpoint a head; durable when this returns. One that is older than what is kept changes nothing."""
        try:
            with self.path.open("rb") as held:
                # Several processes may come here after their commits, in any order.
                fcntl.flock(held, fcntl.LOCK_EX)
                if max(_heads(held.read()), default=Head()) < head:
                    self._write(self.path, 0, _packed(head), head.entries % 2 * _SLOT)
        except OSError as error:
            raise LedgerError(f"the checkpoint cannot be written: {error.strerror}") from None

    def _write(self, path: Path, flags: int, text: bytes, at: int) -> None:
        descriptor = os.open(path, os.O_WRONLY | flags, _MODE)
        try:
            os.pwrite(descriptor, text, at)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def check_apart(ledger: Path, other: str | Path | None, what: str = "the checkpoint") -> None:
    """`InvalidParameter` if `other` would be the ledger itself, or a file that the engine keeps next to it."""
    own = os.path.realpath(ledger)
    if other is not None and os.path.realpath(other) in {own, *(f"{own}{end}" for end in BESIDE)}:
        raise InvalidParameter(f"{what} is a file of its own, at best on another disk, and not the ledger's")


def _once_was_one(text: bytes) -> bool:
    """Whether it is a checkpoint or may be what a crash left of one: empty, zeros, or one of its two marks."""
    return not text.strip(b"\0") or any(text[at:].startswith(_MARK.encode()) for at in (0, _SLOT))


def _heads(text: bytes) -> list[Head]:
    return [head for start in (0, _SLOT) if (head := _unpacked(text[start : start + _SLOT])) is not None]


def _packed(head: Head) -> bytes:
    line = f"{_MARK} {head}"
    return f"{line} {zlib.crc32(line.encode()):08x}".ljust(_SLOT - 1).encode() + b"\n"


def _unpacked(slot: bytes) -> Head | None:
    with suppress(InvalidParameter, ValueError):
        line, _, check = slot.decode("ascii").rstrip().rpartition(" ")
        mark, _, head = line.partition(" ")
        if mark == _MARK and check == f"{zlib.crc32(line.encode()):08x}":
            return Head.parse(head)
    return None


# The last head that was seen: whatever is read later must continue from it, and the checkpoint records it.

# Straight through the driver: these run in every transaction and take as long as the layers above would for themselves.
_HEAD = "SELECT entries, head FROM chain"
_HASH = "SELECT hash FROM entries WHERE number = {:d}"


class Bookmark:
    """Remembers the last head that was seen in a ledger, so that an older copy put in its place is refused.

    With a `checkpoint` the memory outlives the process. All methods but `holds` belong inside of a writing transaction.
    """

    def __init__(self, checkpoint: str | Path | None = None) -> None:
        self.seen = Head()
        self.checkpoint = None if checkpoint is None else Checkpoint(checkpoint)
        self._told: Head | None = None

    def follow(self, connection: Connection) -> None:
        """Raise `LedgerCorrupted` unless the ledger goes on from what was seen before."""
        self.go_on(self.read(connection), hash_at(connection, self.seen.entries))

    def go_on(self, now: Head, then: str | None) -> None:
        """Remember the head, unless the entry that was seen last has another hash by now or is gone."""
        if self.seen != Head() and then != self.seen.hash:
            raise LedgerCorrupted("the ledger was replaced by an older or another copy while it was open")
        self.seen = now

    def read(self, connection: Connection) -> Head:
        """The head as it is now."""
        found = raw(connection).execute(_HEAD).fetchone()
        if found is None:
            raise LedgerCorrupted("the head of the chain is missing")
        if tuple(map(type, found)) != (int, str):
            raise LedgerCorrupted("the head of the chain is damaged")
        return Head(*found)

    def move(self, head: Head) -> None:
        """Remember a head that was committed, and write it to the checkpoint if that was read at the opening."""
        self.seen = head
        # `seen` moves first: should the checkpoint fail, this process still refuses an older copy.
        if self.checkpoint is not None and self._told not in (None, head):
            self.checkpoint.move(head)
            self._told = head

    def call(self, connection: Connection) -> None:
        """Compare the ledger with its checkpoint at the opening. A ledger without entries may get a new one.

        `LedgerError` where the checkpoint is missing, `LedgerCorrupted` where the ledger is an older or another copy.
        """
        if self.checkpoint is None:
            return
        kept, head = self.checkpoint.read(), self.read(connection)
        if kept is None and not head.entries:
            self.checkpoint.start(head)
            kept = head
        elif kept is None:
            raise LedgerError(
                f"there is no checkpoint at {self.checkpoint.path}; if this ledger is certainly the newest one, "
                "make it by `chary ledger head FILE --checkpoint PATH`"
            )
        elif not holds(connection, kept):
            raise LedgerCorrupted(
                f"this ledger is an older or another copy: it has {head.entries} entries and does not hold the "
                f"kept entry {kept.entries}. Find the newest copy; without one, see docs/howto/ledger.md#restore"
            )
        self._told = kept


def holds(connection: Connection, head: Head) -> bool:
    """Whether the entries up to this head are those that it stands for; every ledger holds the empty one."""
    return head == Head() or hash_at(connection, head.entries) == head.hash


def hash_at(connection: Connection, number: int) -> str | None:
    """The hash of an entry; None if there is none."""
    found = raw(connection).execute(_HASH.format(number)).fetchone()
    return None if found is None else found[0]


def raw(connection: Connection) -> Any:
    """The driver's own connection; those of SQLite and of PostgreSQL both have `execute`."""
    return connection.connection.driver_connection
