"""The filter by exact curves: event menus in tokens, and releases that no menu lists."""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, Self

from chary.accounting import (
    Event,
    LatticeLaw,
    MenuCall,
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
from chary.accounting.numerics import float_up
from chary.amounts import Amount
from chary.errors import InvalidParameter, NoPrice
from chary.filters.base import Budget, Filter, Price
from chary.filters.listing import Listing, basic_of, listings
from chary.filters.unlisted import Unlisted, schedules
from chary.numbers import plain

# A level of a lattice takes about a millisecond, so 2,000 are some seconds at the opening; fewer tokens are stricter.
# A grain of 1/10,000 of the budget makes a lattice of as many points.
LATTICE_TOKENS = 2000
LATTICE_STEPS = 10_000
# A search for tokens leaves so many of the hits that the basic call would have alone; by these factors it raises them.
_KEPT = Fraction(11, 12)
_SCALES = tuple(Fraction(eighths, 8) for eighths in (8, 9, 10, 11, 12))
# A call of two grains in hits at a Renyi order: dearer ones leave no more hits.
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
    for NotPrior targets, `q=1` for ordinary releases, or a `Listing` of any event by its laws (see `of_events`). What
    is listed also pays for smaller epsilons. Any release with a pure epsilon is sold besides, hit or miss, at the
    tokens that `unlisted` says: what that affords is part of the curve. Where it is None, the cheapest schedule is
    taken whose curve has room beside the menu's. Other events off the menu have no price (`NoPrice`).
    `approximate_delta` is the part of delta set aside for calls that have one: the curve is worked out for the rest.
    `tokens` is how many fit; it is computed when 0, and read back from a ledger otherwise.

    >>> from chary.accounting import Pure
    >>> f = ExactFilter(Budget(epsilon=1, delta=1e-6), Fraction(1, 50))
    >>> f.capacity.main, f.price(Targeted("0.02")).hit.main, f.price(Pure("0.05")).miss.main
    (45, 1, 6)
    """

    budget: Budget
    grain: Fraction
    menu: tuple[MenuCall | Listing, ...] = (MenuCall(1, 1), MenuCall(1, 1, 1.0))
    tokens: int = field(default=0, compare=False)
    approximate_delta: Fraction = Fraction(0)
    unlisted: Unlisted | None = None
    kind = "exact"
    steps = 1

    def __post_init__(self) -> None:
        _check_sizes(self.budget, self.grain)
        self.check_approximate_delta()
        if not self.tokens:
            object.__setattr__(self, "tokens", _tokens_that_fit(self._spare, self.grain, self.menu, self.unlisted))
        if not self.tokens:
            calls = f"of {plain(self.grain)}-DP calls" if not self._listings else "of this menu"
            raise InvalidParameter(f"not one hit {calls} fits into {self.budget}")

    @classmethod
    def with_revisions(
        cls, budget: Budget, grain: Fraction, *, approximate_delta: Fraction = Fraction(0)
    ) -> "ExactFilter":
        """A filter of NotPrior calls of one grain and of two, and of ordinary releases of any size.

        The tokens of releases are the cheapest that leave 11 of 12 hits of the basic call, or as many as any leave.
        """
        _check_sizes(budget, grain)
        (epsilon, delta), revised = budget.exact, math.ceil(_REVISED * _revision(budget, grain))
        menu = (MenuCall(1, 1), MenuCall(2, revised), MenuCall(1, 1, 1.0))
        basic = min(LATTICE_TOKENS, cls(budget, grain, approximate_delta=approximate_delta).tokens)
        chain = schedules(epsilon, delta - approximate_delta, basic)

        def tokens(sold: Unlisted) -> int:
            return _tokens_that_fit(Budget(epsilon, delta - approximate_delta), grain, menu, sold)

        if _is_large(budget, grain, menu, basic):
            place = _DEAR
        else:
            least = min(math.ceil(_KEPT * basic), tokens(chain[-1]))
            place = _first(len(chain), lambda place: tokens(chain[place]) >= least)
        if not tokens(chain[place]):
            return cls(budget, grain, approximate_delta=approximate_delta)
        return cls(budget, grain, menu, approximate_delta=approximate_delta, unlisted=chain[place])

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

        What is listed also pays for less: smaller epsilons, and q-targets that are hit more often. Where no tokens are
        said, by a `Listing`, they follow from the prices at one Renyi order, raised by up to a half where 11 of 12 hits
        are left then that the cheapest target call would have alone. `grain` is only how fine likelihood ratios are
        told: a fifth of the smallest epsilon unless it is said; a finer one adds a few tokens and takes longer. Errors:
        `InvalidParameter` for what cannot be listed and where nothing fits.

        >>> from chary.accounting import BoundaryCall, TwiceCall
        >>> menu = ExactFilter.of_events(Budget(epsilon=1, delta=1e-6), [BoundaryCall("0.02"), TwiceCall("0.02")])
        >>> [menu.price(event).hit.main for event in (BoundaryCall("0.02", 2), TwiceCall("0.01"))]
        [4, 5]
        """
        epsilon, delta = budget.exact
        if not delta > approximate_delta:
            raise InvalidParameter("the exact filter needs a delta greater than approximate_delta")
        asked, spare = list(menu), delta - approximate_delta

        def made(place: int) -> "ExactFilter":
            entries = listings(asked, epsilon, spare, _SCALES[place])
            return cls(budget, grain or _usual_grain(budget, entries), entries, approximate_delta=approximate_delta)

        first = made(0)
        basic = basic_of(first._listings)
        if len(asked) == 1 or any(isinstance(entry, Listing) for entry in asked):
            return first
        alone = cls(budget, first.grain, (Listing(basic.event, 1),), approximate_delta=approximate_delta).tokens
        if _is_large(budget, first.grain, first.menu, first.tokens):
            return first

        def good(place: int) -> bool:
            return made(place).tokens >= _KEPT * alone * basic.tokens

        return made(_first(len(_SCALES), good)) if good(len(_SCALES) - 1) else first

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
        own = [(self._tokens(entry), entry.free_misses) for entry in self._listings if entry.covers(event)]
        for call in self.menu:
            if isinstance(call, MenuCall) and size is not None and _lists(call, self.grain, size, q):
                own.append((call.tokens, q != 1))
        if size is not None and q == 1 and (not own or min(own)[0] > 1):
            own += [(tokens, False) for tokens in self._beside(size)]
        if own:
            tokens, free = min(own, key=lambda found: (found[0], not found[1]))
            return Fraction(tokens), Fraction(0 if free else tokens)
        asked = "this call" if size is None else f"this call of epsilon {plain(size)}"
        instead = f"; {event.otherwise}" if event.otherwise else ""
        raise NoPrice(f"{asked} is not on the menu of this budget, which prices {self._offers()}{instead}")

    def _tokens(self, entry: Listing) -> int:
        """A race costs what its dearest call has beyond one token as well (docs/theory.md, a race on a menu)."""
        return entry.tokens + (_dearest(self.menu) - 1 if entry.is_race else 0)

    def _beside(self, size: Fraction) -> list[int]:
        """What a release of this epsilon costs that is not listed, if it can be paid."""
        most = self.budget.exact[0]
        tokens = self._sold.tokens(size, self.grain, most) if self._sold else None
        return [] if tokens is None or tokens > self.tokens else [tokens]

    @cached_property
    def _sold(self) -> Unlisted | None:
        """The schedule of releases that are not listed."""
        return self.unlisted or _schedule(self._spare, self.grain, self.menu, self.tokens)

    @property
    def sizes(self) -> set[Fraction]:
        """The epsilons of what is on the menu, and of the releases that are sold besides."""
        own = {call.steps * self.grain for call in self.menu if isinstance(call, MenuCall)}
        own |= {call.steps * self.grain for call in self._releases}
        return own | {Fraction(entry.event.epsilon) for entry in self._listings if entry.event.epsilon is not None}

    @property
    def _releases(self) -> list[MenuCall]:
        return self._sold.calls(self.grain, self.budget.exact[0], self.tokens) if self._sold else []

    @property
    def _listings(self) -> list[Listing]:
        return [entry for entry in self.menu if isinstance(entry, Listing)]

    def _offers(self) -> str:
        own = [entry.told() if isinstance(entry, Listing) else self._told(entry) for entry in self.menu]
        largest = [f"releases up to epsilon {plain(self._releases[-1].steps * self.grain)}"] if self._releases else []
        return ", ".join(own + largest)

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
        sold = {"unlisted": self.unlisted.body()} if self.unlisted else {}
        return {"kind": self.kind, "grain": str(self.grain), "menu": menu, "tokens": self.tokens} | apart | sold

    def describe(self) -> str:
        if self._listings:
            return f"{self.capacity.main} tokens on the exact curve of a menu of its own (misses are free)"
        return f"{self.capacity.main} tokens on the exact curve of {plain(self.grain)}-DP calls (misses are free)"


def _revision(budget: Budget, grain: Fraction) -> Fraction:
    """The price of a hit of two grains in those of one, at the best order at which both have a price."""
    epsilon, delta = budget.exact
    # A call of 2 grains g has a price below the order 1 + ln(1 + e^-2g)/2g only, and a moderate one at 9/10 of it.
    from_revision = 1 + Fraction(9, 10) * Fraction(math.log1p(math.exp(-2 * float(grain)))) / (2 * grain)
    order = min(choose_order(epsilon, delta, grain), from_revision)
    one, two = (hit_price_up(Targeted(steps * grain), order) for steps in (1, 2))
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


def _lists(call: MenuCall, grain: Fraction, size: Fraction, q: Fraction | None) -> bool:
    """Whether it is a case of the menu's call; nothing but 1 is an ordinary release, which is paid hit or miss."""
    if size > call.steps * grain:
        return False
    if call.q in (None, 1.0) or q in (None, 1):
        return call.q == q
    return q is not None and float(q) >= float(call.q or 0)


def _dearest(menu: Iterable[MenuCall | Listing]) -> int:
    """The most tokens of a hit where a miss is free."""
    return max(
        (call.tokens for call in menu if (call.free_misses if isinstance(call, Listing) else call.q != 1)), default=1
    )


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


Menu = tuple[MenuCall | Listing, ...]


@lru_cache(maxsize=64)
def _tokens_that_fit(budget: Budget, grain: Fraction, menu: Menu, sold: Unlisted | None) -> int:
    epsilon, delta = budget.exact
    if not _closed(menu) or sold:
        return _menu_tokens(budget, grain, menu, sold)
    return plan(epsilon=epsilon, delta=delta, epsilon_per_call=grain).hits


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
    place = _DEAR if large else _first(len(chain), lambda place: fits(chain[place]))
    return chain[place] if fits(chain[place]) else None


def _first(count: int, good: Callable[[int], bool]) -> int:
    """The first place of a chain that is good, or its last."""
    low, high = -1, count - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if good(middle) else (middle, high)
    return high


def _is_large(budget: Budget, grain: Fraction, menu: Menu, tokens: int) -> bool:
    return tokens * (_reach(budget, float_up(grain), menu) + _A_LEVEL) > _LARGE


def _totals(budget: Budget, grain: Fraction, menu: Menu, sold: Unlisted | None, tokens: int) -> Iterator[float]:
    """The total epsilon at the budget's delta of 1, 2, 3, ... tokens.

    The lattice need not reach further than a few times what so many tokens cost by the published theorem.
    """
    step, (epsilon, delta) = float_up(grain), budget.exact
    releases = sold.calls(grain, epsilon, tokens) if sold else []
    laws = _laws(menu, step) + releases
    for curve in lattice_curves(step, laws, max(_reach(budget, step, menu), 2 * math.ceil(epsilon / grain))):
        yield convex_upper(curve, step, failing_down(delta))


def _laws(menu: Menu, step: float) -> list[MenuCall | LatticeLaw]:
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
