"""The exact filter: a menu of calls paid in tokens, as many as the exact privacy curve allows (theory 1.3)."""

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, Self

from chary.accounting import (
    Event,
    MenuCall,
    Pure,
    Targeted,
    choose_order,
    convex_upper,
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
from chary.numbers import plain

# A level of a lattice takes about a millisecond, so 2,000 are some seconds at the opening; fewer tokens are stricter.
# A grain of 1/10,000 of the budget makes a lattice of as many points.
LATTICE_TOKENS = 2000
LATTICE_STEPS = 10_000


@dataclass(frozen=True)
class ExactFilter(Filter):
    """Guarantee: (epsilon, delta)-DP, with no slack: no valid accountant affords more hits of the menu's calls.

    `grain` is the epsilon of the basic call. The menu lists what may be asked: `MenuCall(steps, tokens, q)`, `q=None`
    for NotPrior targets, `q=1` for ordinary releases. Events off the menu have no price (`NoPrice`). Approximate events
    are not priced. `tokens` is how many fit; it is computed when 0, and read back from a ledger otherwise.

    >>> f = ExactFilter(Budget(epsilon=1, delta=1e-6), Fraction(1, 50))
    >>> f.capacity.main, f.price(Targeted("0.02")).hit.main
    (45, 1)
    """

    budget: Budget
    grain: Fraction
    menu: tuple[MenuCall, ...] = (MenuCall(1, 1), MenuCall(1, 1, 1.0))
    tokens: int = field(default=0, compare=False)
    kind = "exact"
    steps = 1
    approximate_delta = Fraction(0)

    def __post_init__(self) -> None:
        _check_sizes(self.budget, self.grain)
        if not self.tokens:
            object.__setattr__(self, "tokens", _tokens_that_fit(self.budget, self.grain, self.menu))
        if not self.tokens:
            raise InvalidParameter(f"not one hit of {plain(self.grain)}-DP calls fits into {self.budget}")

    @classmethod
    def with_revisions(cls, budget: Budget, grain: Fraction, *, releases: tuple[int, ...] = (1, 2, 5)) -> "ExactFilter":
        """A filter whose menu also holds revisions (2 grains) and ordinary releases of the given numbers of grains.

        Their tokens follow the ratio of Renyi prices, rounded up; whatever they are, the curve accounts for them.
        """
        _check_sizes(budget, grain)
        unit = _reference_price(budget, grain)
        revision = MenuCall(2, _tokens(hit_price_up(Targeted(2 * grain), unit.order), unit.price))
        ordinary = [MenuCall(m, _tokens(Pure(m * grain).log_moment_up(unit.order), unit.price), 1.0) for m in releases]
        return cls(budget, grain, (MenuCall(1, 1), revision, *ordinary))

    @property
    def capacity(self) -> Amount:
        return Amount(self.tokens)

    def price(self, event: Event) -> Price:
        """The price of an event of one of the menu's sizes: a repetition is a release of its whole epsilon."""
        hit, miss = self.cost(event)
        return Price(Amount(int(hit)), Amount(int(miss)))

    def cost(self, event: Event) -> tuple[Fraction, Fraction]:
        size, q = event.listed
        for call in self.menu:
            if size == call.steps * self.grain and _lists(call, q) and not event.delta:
                return Fraction(call.tokens), Fraction(call.tokens if q == 1.0 else 0)
        asked = "this call" if size is None else f"this call of epsilon {plain(size)}"
        instead = f"; {event.otherwise}" if event.otherwise else ""
        raise NoPrice(f"{asked} is not on the menu of this budget, which prices {self._offers()}{instead}")

    def _offers(self) -> str:
        kinds = [("releases" if call.q == 1 else "targets", plain(call.steps * self.grain)) for call in self.menu]
        return ", ".join(f"{kind} of epsilon {size}" for kind, size in kinds)

    def coarser(self) -> Self:
        return self

    @property
    def unit(self) -> str:
        return "tokens"

    def body(self) -> dict[str, Any]:
        menu = [[call.steps, call.tokens, call.q] for call in self.menu]
        return {"kind": self.kind, "grain": str(self.grain), "menu": menu, "tokens": self.tokens}

    def describe(self) -> str:
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


def _closed(menu: tuple[MenuCall, ...]) -> bool:
    """Whether the menu is one NotPrior call, beside which a release of the same size and cost changes nothing."""
    return set(menu) <= {MenuCall(1, 1), MenuCall(1, 1, 1.0)} and MenuCall(1, 1) in menu


@lru_cache(maxsize=64)
def _tokens_that_fit(budget: Budget, grain: Fraction, menu: tuple[MenuCall, ...]) -> int:
    epsilon, delta = budget.exact
    if not _closed(menu):
        return _menu_tokens(budget, grain, menu)
    return plan(epsilon=epsilon, delta=delta, epsilon_per_call=grain).hits


def _menu_tokens(budget: Budget, grain: Fraction, menu: tuple[MenuCall, ...]) -> int:
    """How many tokens fit; at most `LATTICE_TOKENS`, which is only stricter, as is a lattice that ends early.

    It need not reach further than a few times what so many tokens cost by the published theorem.
    """
    step, (epsilon, delta) = float_up(grain), budget.exact
    far = min(float(epsilon), published_total(epsilon_per_call=step, hits=LATTICE_TOKENS, delta=delta))
    curves = lattice_curves(step, [_lowered(call) for call in menu], 3 * math.ceil(far / step) + 300)
    for fitting, curve in enumerate(curves):
        total = convex_upper(curve, step, failing_down(delta))
        if total > epsilon or fitting == LATTICE_TOKENS:
            return fitting
    return 0
