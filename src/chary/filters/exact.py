"""The exact filter: a menu of calls paid in tokens, as many as the exact privacy curve allows (theory 1.3)."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, Self

from chary.accounting import (
    Event,
    LatticeLaw,
    MenuCall,
    Pure,
    Targeted,
    choose_order,
    convex_upper,
    four_digits_down,
    hit_price_up,
    lattice_curves,
    plan,
    published_total,
)
from chary.accounting.composition import failing_down
from chary.accounting.rounding import float_up
from chary.amounts import Amount
from chary.errors import InvalidParameter, NoPrice
from chary.filters.base import Budget, Filter, Price
from chary.filters.listing import Listing, listings
from chary.numbers import plain

# A level of a lattice takes about a millisecond, so 2,000 are some seconds at the opening; fewer tokens are stricter.
# A grain of 1/10,000 of the budget makes a lattice of as many points.
LATTICE_TOKENS = 2000
LATTICE_STEPS = 10_000
# Finer grains than fifths of a call gain less than a token in a hundred; beyond a budget curves fall by half a call.
_GRAINS = 5
_BEYOND = 30


@dataclass(frozen=True)
class ExactFilter(Filter):
    """Guarantee: (epsilon, delta)-DP, with no slack: no valid accountant affords more hits of the menu's calls.

    `grain` is the epsilon of the basic call. The menu lists what may be asked: `MenuCall(steps, tokens, q)`, `q=None`
    for NotPrior targets, `q=1` for ordinary releases, or a `Listing` of any event by its laws (see `of_events`). Events
    off the menu have no price (`NoPrice`). `approximate_delta` is the part of delta set aside for calls that have one:
    the curve is worked out for the rest. `tokens` is how many fit; it is computed when 0, and read back from a ledger
    otherwise.

    >>> f = ExactFilter(Budget(epsilon=1, delta=1e-6), Fraction(1, 50))
    >>> f.capacity.main, f.price(Targeted("0.02")).hit.main
    (45, 1)
    """

    budget: Budget
    grain: Fraction
    menu: tuple[MenuCall | Listing, ...] = (MenuCall(1, 1), MenuCall(1, 1, 1.0))
    tokens: int = field(default=0, compare=False)
    approximate_delta: Fraction = Fraction(0)
    kind = "exact"
    steps = 1

    def __post_init__(self) -> None:
        _check_sizes(self.budget, self.grain)
        self.check_approximate_delta()
        if not self.tokens:
            object.__setattr__(self, "tokens", _tokens_that_fit(self._spare, self.grain, self.menu))
        if not self.tokens:
            calls = f"of {plain(self.grain)}-DP calls" if not self._listings else "of this menu"
            raise InvalidParameter(f"not one hit {calls} fits into {self.budget}")

    @classmethod
    def with_revisions(
        cls,
        budget: Budget,
        grain: Fraction,
        *,
        releases: tuple[int, ...] = (1, 2, 5),
        approximate_delta: Fraction = Fraction(0),
    ) -> "ExactFilter":
        """A filter whose menu also holds revisions (2 grains) and ordinary releases of the given numbers of grains.

        Their tokens follow the ratio of Renyi prices, rounded up; whatever they are, the curve accounts for them.
        """
        _check_sizes(budget, grain)
        unit = _reference_price(budget, grain)
        revision = MenuCall(2, _tokens(hit_price_up(Targeted(2 * grain), unit.order), unit.price))
        ordinary = [MenuCall(m, _tokens(Pure(m * grain).log_moment_up(unit.order), unit.price), 1.0) for m in releases]
        menu = (MenuCall(1, 1), revision, *ordinary)
        return cls(budget, grain, menu, approximate_delta=approximate_delta)

    @classmethod
    def of_events(
        cls,
        budget: Budget,
        menu: Iterable[Event | Listing],
        *,
        grain: Fraction | None = None,
        approximate_delta: Fraction = Fraction(0),
    ) -> "ExactFilter":
        """A filter for a menu of the caller's: calls by their own laws, q-targets, releases, races (`BestOf`).

        What is listed also pays for less: smaller epsilons, and q-targets that are hit more often. An event whose
        tokens are not said, by a `Listing`, costs as many as follow from the prices at one Renyi order. `grain` is only
        how fine likelihood ratios are told: a fifth of the smallest epsilon unless it is said; a finer one adds a few
        tokens and takes longer. Errors: `InvalidParameter` for what cannot be listed and where nothing fits.

        >>> from chary.accounting import BoundaryCall, TwiceCall
        >>> menu = ExactFilter.of_events(Budget(epsilon=1, delta=1e-6), [BoundaryCall("0.02"), TwiceCall("0.02")])
        >>> [menu.price(event).hit.main for event in (BoundaryCall("0.02", 2), TwiceCall("0.01"))]
        [4, 5]
        """
        epsilon, delta = budget.exact
        if not delta > approximate_delta:
            raise InvalidParameter("the exact filter needs a delta greater than approximate_delta")
        entries = listings(menu, epsilon, delta - approximate_delta)
        return cls(budget, grain or _usual_grain(budget, entries), entries, approximate_delta=approximate_delta)

    @property
    def _spare(self) -> Budget:
        """The budget that is left for the curve."""
        epsilon, delta = self.budget.exact
        if self.approximate_delta and not delta > self.approximate_delta:
            raise InvalidParameter("the exact filter needs a delta greater than approximate_delta")
        return Budget(epsilon, delta - self.approximate_delta)

    @property
    def capacity(self) -> Amount:
        return Amount(self.tokens, self.delta_capacity())

    def _worked_out(self, event: Event) -> Price:
        """A repetition is a release of its whole epsilon."""
        (hit, miss), delta = self.cost(event), self.delta_cost(event)
        return Price(Amount(int(hit), delta), Amount(int(miss), delta))

    def cost(self, event: Event) -> tuple[Fraction, Fraction]:
        size, q = event.listed
        own = [(entry.tokens, entry.free_misses) for entry in self._listings if entry.covers(event)]
        for call in self.menu:
            if isinstance(call, MenuCall) and size == call.steps * self.grain and _lists(call, q):
                own.append((call.tokens, q != 1))
        if own:
            tokens, free = min(own, key=lambda found: (found[0], not found[1]))
            return Fraction(tokens), Fraction(0 if free else tokens)
        asked = "this call" if size is None else f"this call of epsilon {plain(size)}"
        instead = f"; {event.otherwise}" if event.otherwise else ""
        raise NoPrice(f"{asked} is not on the menu of this budget, which prices {self._offers()}{instead}")

    @property
    def sizes(self) -> set[Fraction]:
        """The epsilons of what is on the menu."""
        own = {call.steps * self.grain for call in self.menu if isinstance(call, MenuCall)}
        return own | {Fraction(entry.event.epsilon) for entry in self._listings if entry.event.epsilon is not None}

    @property
    def _listings(self) -> list[Listing]:
        return [entry for entry in self.menu if isinstance(entry, Listing)]

    def _offers(self) -> str:
        return ", ".join(entry.told() if isinstance(entry, Listing) else self._told(entry) for entry in self.menu)

    def _told(self, call: MenuCall) -> str:
        return f"{'releases' if call.q == 1 else 'targets'} of epsilon {plain(call.steps * self.grain)}"

    def coarser(self) -> Self:
        return self

    @property
    def unit(self) -> str:
        return "tokens"

    def body(self) -> dict[str, Any]:
        menu = [call.body() if isinstance(call, Listing) else [call.steps, call.tokens, call.q] for call in self.menu]
        apart = {"approximate_delta": str(self.approximate_delta)} if self.approximate_delta else {}
        return {"kind": self.kind, "grain": str(self.grain), "menu": menu, "tokens": self.tokens} | apart

    def describe(self) -> str:
        if self._listings:
            return f"{self.capacity.main} tokens on the exact curve of a menu of its own (misses are free)"
        return f"{self.capacity.main} tokens on the exact curve of {plain(self.grain)}-DP calls (misses are free)"


@dataclass(frozen=True)
class _Reference:
    order: Fraction
    price: Fraction


def _reference_price(budget: Budget, grain: Fraction) -> _Reference:
    """The best order at which both a basic hit and a revision have a price."""
    epsilon, delta = budget.exact
    # A revision of 2 grains g has a price below the order 1 + ln(1 + e^-2g)/2g only, and a moderate one at 9/10 of it.
    from_revision = 1 + Fraction(9, 10) * Fraction(math.log1p(math.exp(-2 * float(grain)))) / (2 * grain)
    order = min(choose_order(epsilon, delta, grain), from_revision)
    price = hit_price_up(Targeted(grain), order)
    if price is None:
        raise InvalidParameter(f"calls of epsilon {plain(grain)} are too large for {budget}")
    return _Reference(order, price)


def _tokens(price: Fraction | None, unit: Fraction) -> int:
    if price is None:
        raise InvalidParameter("this call has no price at the reference order: make the grain smaller")
    return max(1, math.ceil(price / unit))


def _check_sizes(budget: Budget, grain: Fraction) -> None:
    epsilon, delta = budget.exact
    if not delta:
        raise InvalidParameter("the exact filter needs a delta greater than 0")
    if not grain <= epsilon <= LATTICE_STEPS * grain:
        raise InvalidParameter(
            f"the grain of an exact filter lies between 1/{LATTICE_STEPS} of the budget's epsilon and it"
        )


def _lists(call: MenuCall, q: Fraction | None) -> bool:
    """Whether the target is the menu's; nothing but 1 is an ordinary release, which is paid hit or miss."""
    return call.q == (None if q is None else float(q)) and (call.q != 1.0 or q == 1)


def _lowered(call: MenuCall) -> MenuCall:
    """The call with the least q that its float stands for: a target of a smaller q reveals more."""
    return call if call.q in (None, 1.0) else replace(call, q=math.nextafter(call.q, 0))


def _usual_grain(budget: Budget, menu: Iterable[Listing]) -> Fraction:
    """A fifth of the smallest call, where that is no finer than a lattice may be."""
    sizes = [Fraction(entry.event.epsilon) for entry in menu if entry.event.epsilon is not None]
    return max(four_digits_down(min(sizes) / _GRAINS), budget.exact[0] / LATTICE_STEPS)


def _closed(menu: tuple[MenuCall | Listing, ...]) -> bool:
    """Whether the menu is one NotPrior call, beside which a release of the same size and cost changes nothing."""
    return set(menu) <= {MenuCall(1, 1), MenuCall(1, 1, 1.0)} and MenuCall(1, 1) in menu


@lru_cache(maxsize=64)
def _tokens_that_fit(budget: Budget, grain: Fraction, menu: tuple[MenuCall | Listing, ...]) -> int:
    epsilon, delta = budget.exact
    if not _closed(menu):
        return _menu_tokens(budget, grain, menu)
    return plan(epsilon=epsilon, delta=delta, epsilon_per_call=grain).hits


def _menu_tokens(budget: Budget, grain: Fraction, menu: tuple[MenuCall | Listing, ...]) -> int:
    """How many tokens fit; at most `LATTICE_TOKENS`, which is only stricter, as is a lattice that ends early.

    It need not reach further than a few times what so many tokens cost by the published theorem.
    """
    step, (epsilon, delta) = float_up(grain), budget.exact
    curves = lattice_curves(step, _laws(menu, step), _reach(budget, step, menu))
    for fitting, curve in enumerate(curves):
        total = convex_upper(curve, step, failing_down(delta))
        if total > epsilon or fitting == LATTICE_TOKENS:
            return fitting
    return 0


def _laws(menu: Iterable[MenuCall | Listing], step: float) -> list[MenuCall | LatticeLaw]:
    found: list[MenuCall | LatticeLaw] = []
    for call in menu:
        found += call.laws(step) if isinstance(call, Listing) else [_lowered(call)]
    return found


def _reach(budget: Budget, step: float, menu: Iterable[MenuCall | Listing]) -> int:
    """How many grains the lattice has; of larger calls it needs to hold a few beyond the budget."""
    epsilon, delta = budget.exact
    sizes = [float(entry.event.epsilon or 0) for entry in menu if isinstance(entry, Listing)]
    if sizes:
        return math.ceil((3 * float(epsilon) + _BEYOND * max(sizes)) / step)
    far = min(float(epsilon), published_total(epsilon_per_call=step, hits=LATTICE_TOKENS, delta=delta))
    return 3 * math.ceil(far / step) + 300
