"""A ledger that is made, and a dataset that is opened in it, with the first thing that is recorded and not before."""

import threading
from collections.abc import Callable
from typing import Any, cast

from chary.ledger import Ledger, MemoryLedger

# Only these can be refused; they are tried on a draft first, so that a refusal leaves no ledger behind.
_REFUSABLE = frozenset({"reserve", "set_share"})
_RECORDING = _REFUSABLE | {"note"}


def late_ledger(
    dataset: str,
    found: Callable[[], Ledger | None],
    made: Callable[[], Ledger],
    enter: Callable[[Ledger], None],
    follow: Callable[[Ledger], None],
) -> Ledger:
    """The ledger of a dataset that is not in it yet; to whoever asks it the dataset is open and nothing is charged.

    `found` is the ledger if there is one by now, `made` makes it, `enter` opens the dataset in a ledger, and `follow`
    then records there which rows there are. Guarantee: quotes, refusals and reading leave neither a ledger nor a
    dataset in it behind, so that a budget is fixed by the first charge (or share, or version) under it. Where others
    were faster, `enter` compares the terms with theirs.
    """
    return cast("Ledger", _Late(dataset, found, made, enter, follow))


class _Late:
    def __init__(
        self,
        dataset: str,
        found: Callable[[], Ledger | None],
        made: Callable[[], Ledger],
        enter: Callable[[Ledger], None],
        follow: Callable[[Ledger], None],
    ) -> None:
        self._dataset, self._found, self._made, self._enter, self._follow = dataset, found, made, enter, follow
        self._lock = threading.RLock()
        self._ledger: Ledger | None = None
        self._opened = self._closed = False
        self._draft: Ledger = MemoryLedger()
        enter(self._draft)
        follow(self._draft)

    def __getattr__(self, name: str) -> Any:
        """What a ledger does, done by the ledger if the dataset is open in it and by a draft otherwise."""
        if name.startswith("_"):
            raise AttributeError(name)
        if name in _RECORDING:
            return lambda *arguments, **options: self._record(name, *arguments, **options)
        return getattr(self._standing(), name)

    def close(self) -> None:
        """Let go of the ledger, or of the draft."""
        with self._lock:
            self._closed = True
            self._draft.close()
            if self._ledger is not None:
                self._ledger.close()

    def _standing(self) -> Ledger:
        """The ledger once the dataset is open in it, by whomever; the draft until then."""
        with self._lock:
            if not (self._opened or self._closed):
                self._ledger = self._ledger or self._found()
                if self._ledger and any(terms.name == self._dataset for terms in self._ledger.datasets()):
                    self._open_in(self._ledger)
            return self._ledger if self._opened and self._ledger else self._draft

    def _record(self, name: str, *arguments: Any, **options: Any) -> Any:
        """Record it in the ledger with the dataset open in it, unless the first thing would be refused there."""
        with self._lock:
            standing = self._standing()
            if standing is self._draft and not self._closed:
                if name in _REFUSABLE:
                    trial = MemoryLedger()
                    self._enter(trial)
                    getattr(trial, name)(*arguments, **options)
                standing = self._ledger = self._ledger or self._made()
                self._open_in(standing)
        return getattr(standing, name)(*arguments, **options)

    def _open_in(self, ledger: Ledger) -> None:
        self._enter(ledger)
        self._follow(ledger)
        self._opened = True

    def __repr__(self) -> str:
        return repr(self._ledger if self._opened else self._draft)
