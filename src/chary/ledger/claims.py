"""The sign that a call is being run: it goes with anyone who runs it, so a key in flight differs from a crashed one."""

import fcntl
import os
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

# A lock that others could take would keep a call's key in flight for ever.
_PRIVATE = 0o600
_NAME_LENGTH = 32  # of the 64 digits of a hash: 128 bits, by chance never twice


class Claim:
    """Held while a call runs; it ends when it is dropped, when nothing refers to it any more, or with its process.

    >>> ended = []
    >>> claim = Claim(lambda: ended.append(True))
    >>> claim.drop(), claim.drop(), ended
    (None, None, [True])
    """

    __slots__ = ("__weakref__", "_end")

    def __init__(self, end: Callable[[], object]) -> None:
        self._end = weakref.finalize(self, end)

    def drop(self) -> None:
        """End it; a second time does nothing."""
        self._end()


class Claims:
    """Claims on the calls of a ledger in a file: for each a file next to it, locked by anyone who runs the call.

    Guarantee: inside of a writing transaction, `held` says whether any thread or process runs the call that the entry
    with this hash reserved. The operating system ends a claim with its process; a forked child does not inherit it.
    """

    def __init__(self, ledger: Path) -> None:
        self._ledger = os.path.realpath(ledger)  # whatever link leads to it, the claims are beside the ledger itself

    def take(self, sealed: str) -> Claim:
        """The claim on a call that is being reserved, by the hash of its entry; before others can see the entry."""
        mine = _File(self._path(sealed), os.O_CREAT | os.O_EXCL)
        claim = Claim(mine.end)
        # Others look for it in writing transactions only, and this one holds the file: for them both steps are one.
        mine.lock()
        return claim

    def held(self, sealed: str) -> bool:
        """Whether any process runs the call. The file of a process that died is removed."""
        try:
            found = _File(self._path(sealed))
        except FileNotFoundError:
            return False
        alive = not found.lock()
        found.end(leave=alive)
        return alive

    def close(self) -> None:
        """Nothing: a claim is a lock of its own, which ends with its call."""

    def _path(self, sealed: str) -> str:
        return f"{self._ledger}-call-{sealed[:_NAME_LENGTH]}"


def try_lock(descriptor: int) -> bool:
    """Whether the exclusive lock on an open file could be had at once."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class _File:
    """An open file of a claim."""

    __slots__ = ("__weakref__", "_descriptor", "_path")

    def __init__(self, path: str, flags: int = 0) -> None:
        self._path = path
        self._descriptor: int | None = os.open(path, os.O_RDWR | os.O_NOFOLLOW | flags, _PRIVATE)
        _files.add(self)

    def lock(self) -> bool:
        """Whether the lock could be had; it belongs to this opening of the file, and to no thread or process."""
        return try_lock(self._descriptor or 0)

    def close(self) -> None:
        """Let go of the lock, unless a parent or a child has the same opening of the file."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def end(self, *, leave: bool = False) -> None:
        """Let go of the lock, and remove the file unless another process has it locked."""
        mine = self._descriptor is not None
        self.close()
        if mine and not leave:
            # Closed first: whoever opens it in between gets the lock and finds that the call has ended.
            with suppress(FileNotFoundError):
                os.unlink(self._path)


_files: weakref.WeakSet[_File] = weakref.WeakSet()


def _after_fork() -> None:
    """A child runs none of the calls of its parent: it must neither keep their locks nor take their files away."""
    for file in list(_files):
        file.close()


os.register_at_fork(after_in_child=_after_fork)
