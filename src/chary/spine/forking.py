"""A session belongs to the process that opened it: a forked child can neither use nor close what it inherited."""

import ctypes
import os
import weakref
from typing import Any

from chary.errors import WrongProcess

_held: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()


def belongs_here(held: Any) -> None:
    """From a fork on, the child finds neither the `rows` nor the `ledger` of this any more."""
    _held[id(held)] = held


class _Lost:
    """What a child has in their place."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise WrongProcess(
            "this session belongs to the process that opened it, and this is a fork of that: open the same rows with "
            "the same ledger here, which shares the budget"
        )

    def close(self) -> None:
        """Nothing here is to be closed: the parent goes on."""


def _after_fork() -> None:
    """Engines do not outlive a fork, and would wait for threads that are not there: the child never ends them."""
    for held in list(_held.values()):
        for lost in (held.rows, held.ledger):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(lost))  # not even the end of the interpreter ends them
        object.__setattr__(held, "rows", _Lost())
        object.__setattr__(held, "ledger", _Lost())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
