"""What a caller lists on a menu: an event with the tokens of a hit, and which events are asked for that price."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, Final

from chary.accounting import (
    Asymmetric,
    BestOf,
    BoundaryCall,
    Event,
    LatticeLaw,
    NarrowChoice,
    Pure,
    StatedLaws,
    Targeted,
    TwiceCall,
    UnanimousCall,
    choose_order,
    on_lattice,
)
from chary.errors import InvalidParameter
from chary.numbers import plain, whole

_KINDS: Final = {
    kind.__name__: kind
    for kind in (Asymmetric, BestOf, BoundaryCall, NarrowChoice, Pure, StatedLaws, Targeted, TwiceCall, UnanimousCall)
}
# What a smaller number of the same kind is a case of a larger one in.
_SIZES: Final = ("bound", "reverse", "targets")
# A price may be rounded up by a tenth to be a whole number of tokens, unless a hit would need more than four.
_PARTS: Final = 4
_WASTE: Final = Fraction(11, 10)
# A release is no cheaper than a hit where it is worth an eighth of one or more; for smaller ones a hit has more parts.
_SMALL: Final = Fraction(1, 8)
_MOST_PARTS: Final = 64


@dataclass(frozen=True)
class Listing:
    """An event on a menu, and the tokens that a hit of it costs; a release costs them hit or miss.

    A race costs as many tokens more as the dearest hit of the menu has beyond one.

    >>> entry = Listing(BoundaryCall("0.02"), 2)
    >>> entry.covers(BoundaryCall("0.01", 2)), entry.covers(BoundaryCall("0.03")), entry.free_misses
    (True, False, True)
    """

    event: Event
    tokens: int

    def __post_init__(self) -> None:
        if type(self.event).__name__ not in _KINDS or self.event.delta:
            raise InvalidParameter(
                f"a menu lists {', '.join(_KINDS)}, without a delta, which is set aside by approximate_delta="
            )
        whole(self.tokens, "tokens")

    @property
    def free_misses(self) -> bool:
        """Whether a miss costs nothing."""
        return not self.is_race and any(not told.hit for law in self.event.menu_laws() for told in law)

    @property
    def is_race(self) -> bool:
        """Whether it is what a race is opened for."""
        return isinstance(self.event, BestOf)

    def covers(self, asked: Event) -> bool:
        """Whether every call with this event, but for its delta, is a case of what is listed."""
        own: Any = self.event
        if type(own) is type(asked) and own.menu_laws() == asked.menu_laws():
            return True
        if isinstance(own, (Pure, Targeted)):
            return _covers_target(own, asked)
        return (
            type(own) is type(asked)
            and not isinstance(own, StatedLaws)
            and all(_is_case(name, most, getattr(asked, name)) for name, most in self._terms().items())
        )

    def laws(self, grain: float) -> list[LatticeLaw]:
        """What the curve of the menu is worked out from."""
        return on_lattice(self.event.menu_laws(), grain, self.tokens)

    def told(self) -> str:
        """The event as it is written."""
        terms = {name: value for name, value in self._terms().items() if value not in (None, 0) and name != "laws"}
        sizes = [plain(value) if isinstance(value, Fraction) else str(value) for value in terms.values()]
        return f"{type(self.event).__name__}({', '.join(sizes)})"

    def body(self) -> dict[str, Any]:
        """As JSON, from which `listing` makes an equal one."""
        terms = {name: _plain(value) for name, value in self._terms().items()}
        return {"event": type(self.event).__name__, "terms": terms, "tokens": self.tokens}

    def _terms(self) -> dict[str, Any]:
        own: Any = self.event
        return {field.name: getattr(own, field.name) for field in fields(own)}


def listing(body: dict[str, Any]) -> Listing:
    """The entry whose body was stored."""
    return Listing(_KINDS[body["event"]](**body["terms"]), body["tokens"])


def listings(
    events: Iterable[Event | Listing], epsilon: Fraction, delta: Fraction, scale: Fraction = Fraction(1)
) -> tuple[Listing, ...]:
    """A menu of events; whose tokens are not said costs what it does at one Renyi order, in parts of the cheapest hit.

    All but the cheapest hit costs `scale` times as much. Whatever the tokens are, the exact curve accounts for them.
    Errors: `InvalidParameter` for an empty menu and for calls so large that they have no price of a hit at any order.
    """
    asked = list(events)
    if not any(isinstance(entry, (Event, Listing)) and not isinstance(entry, BestOf) for entry in asked):
        raise InvalidParameter('a menu lists events, such as [Targeted("0.02"), BoundaryCall("0.02")]')
    unsaid = [entry for entry in asked if isinstance(entry, Event)]
    tokens = dict(zip(unsaid, _tokens(unsaid, epsilon, delta, scale), strict=True)) if unsaid else {}
    return tuple(entry if isinstance(entry, Listing) else Listing(entry, tokens[entry]) for entry in asked)


def basic_of(menu: Sequence[Listing]) -> Listing:
    """The cheapest target call of a menu, or the cheapest release of one that has no other."""
    calls = [entry for entry in menu if not entry.is_race]
    return min([entry for entry in calls if entry.free_misses] or calls, key=lambda entry: entry.tokens)


def _tokens(events: Sequence[Event], epsilon: Fraction, delta: Fraction, scale: Fraction) -> list[int]:
    prices = _prices(events, choose_order(epsilon, delta))
    priced = list(zip(prices, events, strict=True))
    calls = [found for found in priced if not isinstance(found[1], BestOf)]
    targets = [found for found in calls if found[1].listed[1] != 1]
    cheapest, basic = min(targets or calls or priced, key=lambda found: found[0])
    shares = [_share(price / cheapest, event, basic) for price, event in priced]
    parts = _parts([share for share, found in zip(shares, priced, strict=True) if found in calls] or shares)
    least = parts if min(shares) >= _SMALL else 1
    return [
        parts if event == basic else max(least, math.ceil(scale * share * parts))
        for share, event in zip(shares, events, strict=True)
    ]


def _share(share: Fraction, event: Event, basic: Event) -> Fraction:
    """What an event is worth in hits of the basic call: a release of no smaller epsilon one at least."""
    smaller = event.epsilon is None or basic.epsilon is None or event.epsilon < basic.epsilon
    return share if smaller else max(Fraction(1), share)


def _parts(shares: Sequence[Fraction]) -> int:
    """How many tokens a hit of the basic call costs."""
    if (least := min(shares)) < _SMALL:
        return min(_MOST_PARTS, math.ceil(1 / least))
    for parts in range(1, _PARTS):
        if all(math.ceil(share * parts) <= share * parts * _WASTE for share in shares if share > 1):
            return parts
    return _PARTS


def _prices(events: Sequence[Event], order: Fraction) -> list[Fraction]:
    """At the largest order, from this one downwards, at which all have one."""
    while True:
        prices = [_price(event, order) for event in events]
        if (found := [price for price in prices if price is not None]) and len(found) == len(prices):
            return found
        order = 1 + (order - 1) * Fraction(9, 10)
        if order < Fraction(101, 100):
            raise InvalidParameter("a call of this menu has no price of a hit: make it smaller, or say its tokens")


def _price(event: Event, order: Fraction) -> Fraction | None:
    if event.listed[1] == 1:
        return event.log_moment_up(order)
    return event.hit_price_up(order)


def _covers_target(own: Pure | Targeted, asked: Event) -> bool:
    """A smaller epsilon, and a target that is hit more often, are cases of what is listed."""
    (most, least), (size, q) = own.listed, asked.listed
    if size is None or most is None or size > most:
        return False
    if least in (None, 1) or q in (None, 1):
        return least == q
    return q is not None and least is not None and q >= least


def _is_case(name: str, most: Any, asked: Any) -> bool:
    if name in _SIZES:
        return bool(asked <= most)
    return bool(most == asked) or (name == "outcomes" and most is None)


def _plain(value: Any) -> Any:
    """A field of an event in JSON values."""
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    return str(value) if isinstance(value, Fraction) else value
