"""What entries were asked through: a ledger whose writes all say so."""

from __future__ import annotations

from typing import Any, Final, cast

from chary.ledger import Ledger

_MARKED: Final = frozenset({"reserve", "set_share", "note"})


def asked_through(ledger: Ledger, origin: str) -> Ledger:
    """The same ledger; what is reserved, capped or noted through it has this origin in its entry, and so in the chain.

    An origin is public: the name of a token, never its secret.

    >>> from chary.ledger import Amount, MemoryLedger, Terms
    >>> ledger = MemoryLedger()
    >>> ledger.open(Terms("visits", "ab12", "{}", Amount(10)))
    >>> call = asked_through(ledger, "token 1f").reserve("visits", "ann", "count", "{}", Amount(4))
    >>> ledger.call(call.call).origin
    'token 1f'
    """
    return cast("Ledger", _AskedThrough(ledger, origin))


class _AskedThrough:
    def __init__(self, ledger: Ledger, origin: str) -> None:
        self._ledger, self._origin = ledger, origin

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        found = getattr(self._ledger, name)
        if name not in _MARKED:
            return found
        return lambda *arguments, **options: found(*arguments, **options, origin=self._origin)

    def __repr__(self) -> str:
        return repr(self._ledger)
