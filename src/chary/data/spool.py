"""Folders for rows that pass through this machine: read once, removed at the end, and after a kill by the next one."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

# Where rows arrive that have no file of their own: standard input, the body of a request.

_PREFIX: Final = "chary-rows-"
_OPENING: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


@contextmanager
def spool_folder() -> Iterator[Path]:
    """A folder that only this user can read, removed with all that is in it at the end.

    Guarantee: a process that is killed leaves its folder to the next call of this user, which removes it. The folder of
    a process that lives is never removed, since that process holds a lock of it.

    >>> with spool_folder() as folder:
    ...     rows = folder / "rows.csv"
    ...     _ = rows.write_text("age")
    >>> rows.exists()
    False
    """
    remove_left()
    while True:
        with tempfile.TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True) as name:
            try:
                held = os.open(name, _OPENING)
            except FileNotFoundError:  # somebody who looked before the lock removed it: then there is another one
                continue
            try:
                fcntl.flock(held, fcntl.LOCK_EX)
                if os.path.isdir(name):
                    yield Path(name)
                    return
            finally:
                os.close(held)


def remove_left() -> None:
    """Remove the folders of this user that no process holds."""
    with suppress(OSError), os.scandir(tempfile.gettempdir()) as found:
        for each in found:
            if each.name.startswith(_PREFIX):
                with suppress(OSError):
                    _remove(each.path)


def _remove(name: str) -> None:
    held = os.open(name, _OPENING)
    try:
        if os.fstat(held).st_uid == os.geteuid():
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(name, ignore_errors=True)
    finally:
        os.close(held)
