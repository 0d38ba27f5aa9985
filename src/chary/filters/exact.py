"""The filter by exact curves: event menus in tokens, and releases that no menu lists."""

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, Final, Self

from chary import accounting
from chary.accounting import charging_curve, composition, hit_prices, menu_curve, numerics
from chary.accounting.numerics import decimal, float_up, least, precise
from chary.amounts import Amount
from chary.errors import InvalidParameter, NotPriced
from chary.filters.filter import Budget, Filter, Price
from chary.numbers import plain, set_fields, whole

# What a caller lists on a menu: an event with the tokens of a hit, and which events are asked for that price.

_KINDS: Final = {
    kind.__name__: kind
    for kind in (
        accounting.Asymmetric,
        accounting.BestOf,
        accounting.BoundaryCall,
        accounting.NarrowChoice,
        accounting.Pure,
        accounting.StatedLaws,
        accounting.Targeted,
        accounting.TwiceCall,
        accounting.UnanimousCall,
    )
}
# What a smaller number of the same kind is a case of a larger one in.
_SIZES: Final = ("bound", "reverse", "targets")
# A price may be rounded up by a tenth to be an integer of tokens, unless a hit would need more than four.
_PARTS: Final = 4
_WASTE: Final = Fraction(11, 10)
# A release is no cheaper than a hit where it is worth an eighth of one or more; for smaller ones a hit has more parts.
_SMALL: Final = Fraction(1, 8)
_MOST_PARTS: Final = 64


@dataclass(frozen=True)
class Listing:
    """An event on a menu, and the tokens that a hit of it costs; a release costs them hit or miss.

    A race costs as many tokens more as the most expensive hit of the menu has beyond one.

    >>> from chary.accounting import BoundaryCall
    >>> entry = Listing(BoundaryCall("0.02"), 2)
    >>> entry.covers(BoundaryCall("0.01", 2)), entry.covers(BoundaryCall("0.03")), entry.free_misses
    (True, False, True)
    """

    event: accounting.Event
    tokens: int

    def __post_init__(self) -> None:
        if type(self.event).__name__ not in _KINDS or self.event.delta:
            raise InvalidParameter(
                f"a menu lists {', '.join(_KINDS)}, without a delta, which is set aside by delta_reserve="
            )
        whole(self.tokens, "tokens")

    @property
    def free_misses(self) -> bool:
        """Whether a miss costs nothing."""
        return not self.is_race and any(not told.hit for law in self.event.menu_laws() for told in law)

    @property
    def is_race(self) -> bool:
        """Whether it is what a race is opened for."""
        return isinstance(self.event, accounting.BestOf)

    def covers(self, asked: accounting.Event) -> bool:
        """Whether every call with this event, but for its delta, is a case of what is listed."""
        own: Any = self.event
        if type(own) is type(asked) and own.menu_laws() == asked.menu_laws():
            return True
        if isinstance(own, (accounting.Pure, accounting.Targeted)):
            return _covers_target(own, asked)
        return (
            type(own) is type(asked)
            and not isinstance(own, accounting.StatedLaws)
            and all(_is_case(name, most, getattr(asked, name)) for name, most in self._terms().items())
        )

    def laws(self, grain: float) -> list[menu_curve.LatticeLaw]:
        """What the curve of the menu is worked out from."""
        return menu_curve.on_lattice(self.event.menu_laws(), grain, self.tokens)

    def told(self) -> str:
        """The event as a constructor call, for messages."""
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
    events: Iterable[accounting.Event | Listing], epsilon: Fraction, delta: Fraction, scale: Fraction = Fraction(1)
) -> tuple[Listing, ...]:
    """A menu of events. Tokens that are not given are the cost at one Renyi order, relative to the cheapest hit.

    All but the cheapest hit costs `scale` times as much. Whatever the tokens are, the exact curve accounts for them.
    Errors: `InvalidParameter` for an empty menu and for calls so large that they have no cost of a hit at any order.
    """
    asked = list(events)
    if not any(
        isinstance(entry, (accounting.Event, Listing)) and not isinstance(entry, accounting.BestOf) for entry in asked
    ):
        raise InvalidParameter('a menu lists events, such as [Targeted("0.02"), BoundaryCall("0.02")]')
    unsaid = [entry for entry in asked if isinstance(entry, accounting.Event)]
    tokens = dict(zip(unsaid, _tokens(unsaid, epsilon, delta, scale), strict=True)) if unsaid else {}
    return tuple(entry if isinstance(entry, Listing) else Listing(entry, tokens[entry]) for entry in asked)


def basic_of(menu: Sequence[Listing]) -> Listing:
    """The cheapest target call of a menu, or the cheapest release of one that has no other."""
    calls = [entry for entry in menu if not entry.is_race]
    return min([entry for entry in calls if entry.free_misses] or calls, key=lambda entry: entry.tokens)


def _tokens(events: Sequence[accounting.Event], epsilon: Fraction, delta: Fraction, scale: Fraction) -> list[int]:
    prices = _prices(events, composition.choose_order(epsilon, delta))
    priced = list(zip(prices, events, strict=True))
    calls = [found for found in priced if not isinstance(found[1], accounting.BestOf)]
    targets = [found for found in calls if found[1].listed[1] != 1]
    cheapest, basic = min(targets or calls or priced, key=lambda found: found[0])
    shares = [_share(price / cheapest, event, basic) for price, event in priced]
    parts = _parts([share for share, found in zip(shares, priced, strict=True) if found in calls] or shares)
    least = parts if min(shares) >= _SMALL else 1
    return [
        parts if event == basic else max(least, math.ceil(scale * share * parts))
        for share, event in zip(shares, events, strict=True)
    ]


def _share(share: Fraction, event: accounting.Event, basic: accounting.Event) -> Fraction:
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


def _prices(events: Sequence[accounting.Event], order: Fraction) -> list[Fraction]:
    """At the largest order, from this one downwards, at which all have one."""
    while True:
        prices = [_price(event, order) for event in events]
        if (found := [price for price in prices if price is not None]) and len(found) == len(prices):
            return found
        order = 1 + (order - 1) * Fraction(9, 10)
        if order < Fraction(101, 100):
            raise InvalidParameter("a call of this menu has no price of a hit: make it smaller, or say its tokens")


def _price(event: accounting.Event, order: Fraction) -> Fraction | None:
    if event.listed[1] == 1:
        return event.log_moment_up(order)
    return event.hit_price_up(order)


def _covers_target(own: accounting.Pure | accounting.Targeted, asked: accounting.Event) -> bool:
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


# What an ordinary release costs in tokens that no menu lists, so that the exact curve stays within the budget (this
# work).
#
# A schedule gives the tokens of a release of every size: a rate times its log-moment at one Renyi order, rounded up.
# The releases of all sizes it has are distributions of the menu like any other, so the curve of menu and schedule
# together is the guarantee, and nothing about the order or the rate needs a proof. Schedules of one order are a chain:
# the more expensive one is covered by the curve of the cheaper. So it does not matter which of two processors found
# which of them to fit.

# Eight sizes in every doubling: what is asked is rounded up to one of them, by an eighth at most.
_IN_A_DOUBLING: Final = 8
_ORDERS: Final = 16
# The tokens of a release, in those that the same share of a Renyi budget would be; from the cheapest on.
FACTORS: Final = tuple(Fraction(quarters, 4) for quarters in (4, 5, 6, 7, 8, 10, 12, 16, 24, 36, 56))


@dataclass(frozen=True)
class Unlisted:
    """A schedule: `rate` tokens for each unit of log-moment at `order`, rounded up, of releases of whole grains.

    >>> sold = Unlisted(Fraction(20), Fraction(4))
    >>> [sold.tokens(Fraction(size, 100), Fraction(1, 50), Fraction(1)) for size in (2, 5, 30, 101)]
    [1, 3, 21, None]
    """

    order: Fraction
    rate: Fraction

    def tokens(self, size: Fraction, grain: Fraction, most: Fraction) -> int | None:
        """The tokens of a release of this epsilon; None above `most`."""
        steps = next((steps for steps in _sizes(grain, most) if size <= steps * grain), None)
        return None if steps is None else self._of(steps * grain)

    def calls(self, grain: Fraction, most: Fraction, tokens: int) -> list[menu_curve.MenuCall]:
        """All that can be paid with this many tokens, as a menu."""
        found = []
        for steps in _sizes(grain, most):
            if (cost := self._of(steps * grain)) > tokens:
                break
            found.append(menu_curve.MenuCall(steps, cost, 1.0))
        return found

    def body(self) -> dict[str, Any]:
        """As JSON."""
        return {"order": str(self.order), "rate": str(self.rate)}

    def _of(self, size: Fraction) -> int:
        return max(1, math.ceil(self.rate * accounting.Pure(size).log_moment_up(self.order)))


def schedules(epsilon: Fraction, delta: Fraction, tokens: int) -> list[Unlisted]:
    """The chain of schedules for a budget of this many tokens, from the cheapest to the most expensive.

    All are at the order that affords most zCDP, of a few that are compared in decimals. Those come out the same on
    every processor, so what was not stored is worked out again.
    """
    with precise():
        missing = -decimal(delta).ln()
        less = (missing + (missing * (missing + decimal(epsilon))).sqrt()) / decimal(epsilon)
    orders = [1 + Fraction(math.ceil(100 * less * part), 100 * _ORDERS) for part in range(1, _ORDERS + 1)]
    capacities = [(composition.capacity_down(epsilon, delta, order), order) for order in orders]
    _, capacity, order = max((kept / (order * (order - 1)), kept, order) for kept, order in capacities)
    rates = [Fraction(math.ceil(10**6 * factor * tokens / capacity), 10**6) for factor in FACTORS]
    return [Unlisted(order, rate) for rate in rates]


def _sizes(grain: Fraction, most: Fraction) -> Iterator[int]:
    """Numbers of grains, up to as many as `most` has."""
    steps, last = 1, most // grain
    while steps < last:
        yield steps
        steps += max(1, steps // _IN_A_DOUBLING)
    yield last


# The exact filter: a menu of calls paid in tokens, as many as the exact privacy curve allows (theory 1.3).

# A level of a lattice takes about a millisecond, so 2,000 are some seconds at the opening; fewer tokens are stricter.
# A grain of 1/10,000 of the budget makes a lattice of as many points.
LATTICE_TOKENS = 2000
LATTICE_STEPS = 10_000
# A search for tokens leaves that many of the hits that the basic call would have alone; by these factors it raises
# them.
_KEPT = Fraction(11, 12)
_SCALES = tuple(Fraction(eighths, 8) for eighths in (8, 9, 10, 11, 12))
# A call of two grains in hits at a Renyi order: more expensive ones leave no more hits.
_REVISED = Fraction(3, 2)
# A point of a level takes about a microsecond with releases of every size: beyond a second only one factor is tried, 3.
_LARGE = 10**6
_DEAR = 6
_A_LEVEL = 1300
# Finer grains than fifths of a call gain less than a token in a hundred; beyond a budget curves fall by half a call.
_GRAINS = 5
_BEYOND = 30


@dataclass(frozen=True)
class ExactFilter(Filter):
    """Guarantee: (epsilon, delta)-DP, with no slack: no valid accountant affords more hits of the menu's calls.

    `grain` is the epsilon of the basic call. The menu lists what may be asked: `MenuCall(steps, tokens, q)`, `q=None`
    for NotPrior targets, `q=1` for ordinary releases, or a `Listing` of any event by its distributions (see
    `of_events`). What is listed also pays for smaller epsilons. Any release with a pure epsilon is paid as well, hit or
    miss, with the tokens that `unlisted` gives: all such releases are part of the curve. Where it is None, the cheapest
    schedule is taken whose curve fits next to the menu's. Other events off the menu have no cost (`NotPriced`).
    `delta_reserve` is the part of delta set aside for calls that have one: the curve is worked out for the rest.
    `tokens` is how many fit; it is computed when 0, and read back from a ledger otherwise.

    >>> from chary.accounting import Pure, Targeted
    >>> f = ExactFilter(Budget(epsilon=1, delta=1e-6), Fraction(1, 50))
    >>> f.capacity.main, f.price(Targeted("0.02")).hit.main, f.price(Pure("0.05")).miss.main
    (45, 1, 6)
    """

    budget: Budget
    grain: Fraction
    menu: tuple[menu_curve.MenuCall | Listing, ...] = (menu_curve.MenuCall(1, 1), menu_curve.MenuCall(1, 1, 1.0))
    tokens: int = field(default=0, compare=False)
    delta_reserve: Fraction = Fraction(0)
    unlisted: Unlisted | None = None
    kind = "exact"
    steps = 1

    def __post_init__(self) -> None:
        _check_sizes(self.budget, self.grain)
        self.check_delta_reserve()
        if not self.tokens:
            set_fields(self, tokens=_tokens_that_fit(self._spare, self.grain, self.menu, self.unlisted))
        if not self.tokens:
            calls = f"of {plain(self.grain)}-DP calls" if not self._listings else "of this menu"
            raise InvalidParameter(f"not one hit {calls} fits into {self.budget}")

    @classmethod
    def with_revisions(cls, budget: Budget, grain: Fraction, *, delta_reserve: Fraction = Fraction(0)) -> "ExactFilter":
        """A filter of NotPrior calls of one grain and of two, and of ordinary releases of any size.

        The tokens of releases are the cheapest that leave 11 of 12 hits of the basic call, or as many as any leave.
        """
        _check_sizes(budget, grain)
        (epsilon, delta), revised = budget.exact, math.ceil(_REVISED * _revision(budget, grain))
        menu = (menu_curve.MenuCall(1, 1), menu_curve.MenuCall(2, revised), menu_curve.MenuCall(1, 1, 1.0))
        basic = min(LATTICE_TOKENS, cls(budget, grain, delta_reserve=delta_reserve).tokens)
        chain = schedules(epsilon, delta - delta_reserve, basic)

        def tokens(sold: Unlisted) -> int:
            return _tokens_that_fit(Budget(epsilon, delta - delta_reserve), grain, menu, sold)

        if _is_large(budget, grain, menu, basic):
            place = _DEAR
        else:
            wanted = min(math.ceil(_KEPT * basic), tokens(chain[-1]))
            place = least(lambda place: tokens(chain[place]) >= wanted, -1, len(chain) - 1)
        if not tokens(chain[place]):
            return cls(budget, grain, delta_reserve=delta_reserve)
        return cls(budget, grain, menu, delta_reserve=delta_reserve, unlisted=chain[place])

    @classmethod
    def of_events(
        cls,
        budget: Budget,
        menu: Iterable[accounting.Event | Listing],
        *,
        grain: Fraction | None = None,
        delta_reserve: Fraction = Fraction(0),
    ) -> "ExactFilter":
        """A filter for a menu of the caller's: calls by their own distributions, q-targets, releases, races (`BestOf`).

        What is listed also pays for less: smaller epsilons, and q-targets that are hit more often. Where no tokens are
        said, by a `Listing`, they follow from the costs at one Renyi order. They are raised by up to a half where 11 of
        12 hits are left then that the cheapest target call would have alone. `grain` is only how fine likelihood ratios
        are taken: a fifth of the smallest epsilon unless it is given; a finer one adds a few tokens and takes longer.
        Errors: `InvalidParameter` for what cannot be listed and where nothing fits.

        >>> from chary.accounting import BoundaryCall, TwiceCall
        >>> menu = ExactFilter.of_events(Budget(epsilon=1, delta=1e-6), [BoundaryCall("0.02"), TwiceCall("0.02")])
        >>> [menu.price(event).hit.main for event in (BoundaryCall("0.02", 2), TwiceCall("0.01"))]
        [4, 5]
        """
        epsilon, delta = budget.exact
        if not delta > delta_reserve:
            raise InvalidParameter("the exact filter needs a delta greater than delta_reserve")
        asked, spare = list(menu), delta - delta_reserve

        def made(place: int) -> "ExactFilter":
            entries = listings(asked, epsilon, spare, _SCALES[place])
            return cls(budget, grain or _usual_grain(budget, entries), entries, delta_reserve=delta_reserve)

        first = made(0)
        basic = basic_of(first._listings)
        if len(asked) == 1 or any(isinstance(entry, Listing) for entry in asked):
            return first
        alone = cls(budget, first.grain, (Listing(basic.event, 1),), delta_reserve=delta_reserve).tokens
        if _is_large(budget, first.grain, first.menu, first.tokens):
            return first

        def good(place: int) -> bool:
            return made(place).tokens >= _KEPT * alone * basic.tokens

        return made(least(good, -1, len(_SCALES) - 1)) if good(len(_SCALES) - 1) else first

    @property
    def _spare(self) -> Budget:
        """The budget that is left for the curve."""
        epsilon, delta = self.budget.exact
        if self.delta_reserve and not delta > self.delta_reserve:
            raise InvalidParameter("the exact filter needs a delta greater than delta_reserve")
        return Budget(epsilon, delta - self.delta_reserve)

    @property
    def capacity(self) -> Amount:
        return Amount(self.tokens, self.delta_capacity())

    def _worked_out(self, event: accounting.Event) -> Price:
        """A repetition is a release of its whole epsilon."""
        (hit, miss), delta = self.cost(event), self.delta_cost(event)
        return Price(Amount(int(hit), delta), Amount(int(miss), delta))

    def cost(self, event: accounting.Event) -> tuple[Fraction, Fraction]:
        event = event.unfailing
        size, q = event.listed
        own = [(self._tokens(entry), entry.free_misses) for entry in self._listings if entry.covers(event)]
        for call in self.menu:
            if isinstance(call, menu_curve.MenuCall) and size is not None and _lists(call, self.grain, size, q):
                own.append((call.tokens, q != 1))
        if size is not None and q == 1 and (not own or min(own)[0] > 1):
            own += [(tokens, False) for tokens in self._beside(size)]
        if own:
            tokens, free = min(own, key=lambda found: (found[0], not found[1]))
            return Fraction(tokens), Fraction(0 if free else tokens)
        asked = "this call" if size is None else f"this call of epsilon {plain(size)}"
        instead = f"; {event.otherwise}" if event.otherwise else ""
        raise NotPriced(f"{asked} is not on the menu of this budget, which offers {self._offers()}{instead}")

    def _tokens(self, entry: Listing) -> int:
        """A race costs what its most expensive call has beyond one token as well (docs/theory/charging.md, a race on a
        menu)."""
        return entry.tokens + (_dearest(self.menu) - 1 if entry.is_race else 0)

    def _beside(self, size: Fraction) -> list[int]:
        """The tokens of a release of this epsilon that is not listed; empty if it cannot be paid."""
        most = self.budget.exact[0]
        tokens = self._sold.tokens(size, self.grain, most) if self._sold else None
        return [] if tokens is None or tokens > self.tokens else [tokens]

    @cached_property
    def _sold(self) -> Unlisted | None:
        """The schedule of releases that are not listed."""
        return self.unlisted or _schedule(self._spare, self.grain, self.menu, self.tokens)

    @property
    def sizes(self) -> set[Fraction]:
        """The epsilons of the menu's events, and of the releases that the schedule allows."""
        own = {call.steps * self.grain for call in self.menu if isinstance(call, menu_curve.MenuCall)}
        own |= {call.steps * self.grain for call in self._releases}
        return own | {Fraction(entry.event.epsilon) for entry in self._listings if entry.event.epsilon is not None}

    @property
    def _releases(self) -> list[menu_curve.MenuCall]:
        return self._sold.calls(self.grain, self.budget.exact[0], self.tokens) if self._sold else []

    @property
    def _listings(self) -> list[Listing]:
        return [entry for entry in self.menu if isinstance(entry, Listing)]

    def _offers(self) -> str:
        own = [entry.told() if isinstance(entry, Listing) else self._told(entry) for entry in self.menu]
        largest = [f"releases up to epsilon {plain(self._releases[-1].steps * self.grain)}"] if self._releases else []
        return ", ".join(own + largest)

    def _told(self, call: menu_curve.MenuCall) -> str:
        return f"{'releases' if call.q == 1 else 'targets'} of epsilon {plain(call.steps * self.grain)}"

    def coarser(self) -> Self:
        return self

    @property
    def unit(self) -> str:
        return "tokens"

    def body(self) -> dict[str, Any]:
        menu = [call.body() if isinstance(call, Listing) else [call.steps, call.tokens, call.q] for call in self.menu]
        apart = {"approximate_delta": str(self.delta_reserve)} if self.delta_reserve else {}
        sold = {"unlisted": self.unlisted.body()} if self.unlisted else {}
        return {"kind": self.kind, "grain": str(self.grain), "menu": menu, "tokens": self.tokens} | apart | sold

    def describe(self) -> str:
        if self._listings:
            return f"{self.capacity.main} tokens on the exact curve of a menu of its own (misses are free)"
        return f"{self.capacity.main} tokens on the exact curve of {plain(self.grain)}-DP calls (misses are free)"


def _revision(budget: Budget, grain: Fraction) -> Fraction:
    """The cost of a hit of two grains in those of one, at the best order at which both have a cost."""
    epsilon, delta = budget.exact
    # A call of 2 grains g has a price below the order 1 + ln(1 + e^-2g)/2g only, and a moderate one at 9/10 of it.
    from_revision = 1 + Fraction(9, 10) * Fraction(math.log1p(math.exp(-2 * float(grain)))) / (2 * grain)
    order = min(composition.choose_order(epsilon, delta, grain), from_revision)
    one, two = (hit_prices.hit_price_up(accounting.Targeted(steps * grain), order) for steps in (1, 2))
    if one is None or two is None:
        raise InvalidParameter(f"calls of epsilon {plain(grain)} are too large for {budget}")
    return two / one


def _check_sizes(budget: Budget, grain: Fraction) -> None:
    epsilon, delta = budget.exact
    if not delta:
        raise InvalidParameter("the exact filter needs a delta greater than 0")
    if not grain <= epsilon <= LATTICE_STEPS * grain:
        raise InvalidParameter(
            f"the grain of an exact filter lies between 1/{LATTICE_STEPS} of the budget's epsilon and it"
        )


def _lists(call: menu_curve.MenuCall, grain: Fraction, size: Fraction, q: Fraction | None) -> bool:
    """Whether it is a case of the menu's call; nothing but 1 is an ordinary release, which is paid hit or miss."""
    if size > call.steps * grain:
        return False
    if call.q in (None, 1.0) or q in (None, 1):
        return call.q == q
    return q is not None and float(q) >= float(call.q or 0)


def _dearest(menu: Iterable[menu_curve.MenuCall | Listing]) -> int:
    """The most tokens of a hit where a miss is free."""
    return max(
        (call.tokens for call in menu if (call.free_misses if isinstance(call, Listing) else call.q != 1)), default=1
    )


def _lowered(call: menu_curve.MenuCall) -> menu_curve.MenuCall:
    """The call with the least q that its float stands for: a target of a smaller q reveals more."""
    return call if call.q in (None, 1.0) else replace(call, q=math.nextafter(call.q, 0))


def _usual_grain(budget: Budget, menu: Iterable[Listing]) -> Fraction:
    """A fifth of the smallest call, where that is no finer than a lattice may be."""
    sizes = [Fraction(entry.event.epsilon) for entry in menu if entry.event.epsilon is not None]
    return max(numerics.four_digits_down(min(sizes) / _GRAINS), budget.exact[0] / LATTICE_STEPS)


def _closed(menu: tuple[menu_curve.MenuCall | Listing, ...]) -> bool:
    """Whether the menu is one NotPrior call, next to which a release of the same size and cost changes nothing."""
    one = menu_curve.MenuCall(1, 1)
    return one in menu and set(menu) <= {one, menu_curve.MenuCall(1, 1, 1.0)}


Menu = tuple[menu_curve.MenuCall | Listing, ...]


@lru_cache(maxsize=64)
def _tokens_that_fit(budget: Budget, grain: Fraction, menu: Menu, sold: Unlisted | None) -> int:
    epsilon, delta = budget.exact
    if not _closed(menu) or sold:
        return _menu_tokens(budget, grain, menu, sold)
    return charging_curve.plan(epsilon=epsilon, delta=delta, epsilon_per_call=grain).hits


def _menu_tokens(budget: Budget, grain: Fraction, menu: Menu, sold: Unlisted | None) -> int:
    """How many tokens fit; at most `LATTICE_TOKENS`, which is only stricter, as is a lattice that ends early."""
    fitting = -1
    for total in itertools.islice(_totals(budget, grain, menu, sold, LATTICE_TOKENS), LATTICE_TOKENS + 1):
        fitting += 1
        if total > budget.exact[0]:
            break
    return fitting


@lru_cache(maxsize=64)
def _schedule(budget: Budget, grain: Fraction, menu: Menu, tokens: int) -> Unlisted | None:
    """The cheapest schedule whose curve fits as well, for a budget that was opened without one."""
    if tokens > LATTICE_TOKENS:
        return None
    chain = schedules(*budget.exact, tokens)

    def fits(sold: Unlisted) -> bool:
        totals = itertools.islice(_totals(budget, grain, menu, sold, tokens), tokens)
        return all(total <= budget.exact[0] for total in totals)

    large = _is_large(budget, grain, menu, tokens)
    place = _DEAR if large else least(lambda place: fits(chain[place]), -1, len(chain) - 1)
    return chain[place] if fits(chain[place]) else None


def _is_large(budget: Budget, grain: Fraction, menu: Menu, tokens: int) -> bool:
    return tokens * (_reach(budget, float_up(grain), menu) + _A_LEVEL) > _LARGE


def _totals(budget: Budget, grain: Fraction, menu: Menu, sold: Unlisted | None, tokens: int) -> Iterator[float]:
    """The total epsilon at the budget's delta of 1, 2, 3, ... tokens.

    The lattice need not reach further than a few times what this many tokens cost by the published theorem.
    """
    step, (epsilon, delta) = float_up(grain), budget.exact
    releases = sold.calls(grain, epsilon, tokens) if sold else []
    laws = _laws(menu, step) + releases
    for curve in menu_curve.lattice_curves(step, laws, max(_reach(budget, step, menu), 2 * math.ceil(epsilon / grain))):
        yield composition.convex_upper(curve, step, composition.failing_down(delta))


def _laws(menu: Menu, step: float) -> list[menu_curve.MenuCall | menu_curve.LatticeLaw]:
    found: list[menu_curve.MenuCall | menu_curve.LatticeLaw] = []
    for call in menu:
        found += call.laws(step) if isinstance(call, Listing) else [_lowered(call)]
    return found


def _reach(budget: Budget, step: float, menu: Iterable[menu_curve.MenuCall | Listing]) -> int:
    """How many grains the lattice has; of larger calls it needs to hold a few beyond the budget."""
    epsilon, delta = budget.exact
    sizes = [float(entry.event.epsilon or 0) for entry in menu if isinstance(entry, Listing)]
    if sizes:
        return math.ceil((3 * float(epsilon) + _BEYOND * max(sizes)) / step)
    far = min(float(epsilon), charging_curve.published_total(epsilon_per_call=step, hits=LATTICE_TOKENS, delta=delta))
    return 3 * math.ceil(far / step) + 300
