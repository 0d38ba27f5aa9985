"""A quote for any call of a session: the same call, asked of `session.quotes`, is priced and not made."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

from chary.session.door import Door
from chary.session.interaction import Interaction
from chary.session.quoting import Quote, quote
from chary.session.spine import Spine

_DEEDS = frozenset({"append", "close", "set_share"})


class _Priced(Exception):  # noqa: N818 - no error
    """Ends a call at the point at which it would be reserved."""

    def __init__(self, found: Quote) -> None:
        super().__init__("a quote")
        self.found = found


@dataclass(frozen=True)
class _Pricing(Spine):
    """A spine that prices the first interaction it is given; nothing is reserved, read or written."""

    def perform(self, interaction: Interaction, request: str | None = None) -> Any:
        raise _Priced(quote(self, interaction, None))


class Quotes:
    """Every method of a session that asks something, as a quote; made by `Session.quotes`.

    Guarantee: nothing is charged, read or written. Arguments are those of the method, and so are the errors of a
    question that cannot be right. Of a method that makes several calls, the first is priced.
    """

    def __init__(self, session: Door) -> None:
        """Use `Session.quotes`."""
        parts = {field.name: getattr(session.spine, field.name) for field in fields(Spine)}
        self._session = replace(session, spine=_Pricing(**parts))

    def __getattr__(self, name: str) -> Callable[..., Quote]:
        method = None if name.startswith("_") or name in _DEEDS else getattr(type(self._session), name, None)
        if not callable(method):
            raise AttributeError(f"there is no call {name!r} to quote: write it as for the session")

        def quoted(*arguments: Any, **options: Any) -> Quote:
            try:
                method(self._session, *arguments, **options)
            except _Priced as priced:
                return priced.found
            raise AttributeError(f"{name} asks nothing that has a price")

        return quoted

    def __repr__(self) -> str:
        return f"Quotes({self._session.spine.dataset!r})"


class Quoting(Door):
    """Quotes for whatever can be asked."""

    @property
    def quotes(self) -> Quotes:
        """What any call would cost and how accurate it would be: `session.quotes.quantile(...)` for `quantile(...)`.

        Nothing is charged or read. `quote` does the same for counts, totals and means, with a distance from a bar.
        """
        return Quotes(self)
