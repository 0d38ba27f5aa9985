"""The exact filter: a menu of calls paid in tokens, as many as the exact privacy curve allows (theory 1.3)."""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any

from chary.accounting import (
    Call,
    Event,
    Pure,
    Targeted,
    choose_order,
    convex_upper,
    hit_price_up,
    lattice_curves,
    plan,
)
from chary.amounts import Amount
from chary.errors import InvalidParameter, NoPrice
from chary.filters.base import Budget, Filter, Price
from chary.numbers import plain

LATTICE_TOKENS = 2000
LATTICE_STEPS = 10_000


@dataclass(frozen=True)
class ExactFilter(Filter):
    """Guarantee: (epsilon, delta)-DP, with no slack: no valid accountant affords more hits of the menu's calls.

    `grain` is the epsilon of the basic call. The menu lists what may be asked: `Call(steps, tokens, q)`, `q=None` for
    NotPrior targets, `q=1` for ordinary releases. Events off the menu have no price (`NoPrice`). Approximate events
    are not priced. `tokens` is how many fit; it is computed when 0, and read back from a ledger otherwise.

    >>> f = ExactFilter(Budget(epsilon=1, delta=1e-6), Fraction(1, 50))
    >>> f.capacity.main, f.price(Targeted("0.02")).hit.main
    (45, 1)
    """

    budget: Budget
    grain: Fraction
    menu: tuple[Call, ...] = (Call(1, 1), Call(1, 1, 1.0))
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
        revision = Call(2, _tokens(hit_price_up(Targeted(2 * grain), unit.order), unit.price))
        ordinary = [Call(m, _tokens(Pure(m * grain).log_moment_up(unit.order), unit.price), 1.0) for m in releases]
        return cls(budget, grain, (Call(1, 1), revision, *ordinary))

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
            if size == call.steps * self.grain and call.q == (None if q is None else float(q)) and not event.delta:
                return Fraction(call.tokens), Fraction(call.tokens if q == 1.0 else 0)
        asked = "this call" if size is None else f"this call of epsilon {plain(size)}"
        raise NoPrice(f"{asked} is not on the menu of this budget, which prices {self._offers()}")

    def _offers(self) -> str:
        kinds = [("releases" if call.q == 1 else "targets", plain(call.steps * self.grain)) for call in self.menu]
        return ", ".join(f"{kind} of epsilon {size}" for kind, size in kinds)

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


def _closed(menu: tuple[Call, ...]) -> bool:
    """Whether the menu is one NotPrior call, beside which a release of the same size and cost changes nothing."""
    return set(menu) <= {Call(1, 1), Call(1, 1, 1.0)} and Call(1, 1) in menu


@lru_cache(maxsize=64)
def _tokens_that_fit(budget: Budget, grain: Fraction, menu: tuple[Call, ...]) -> int:
    epsilon, delta = budget.exact
    if not _closed(menu):
        return _menu_tokens(budget, grain, menu)
    return plan(epsilon=epsilon, delta=delta, epsilon_per_call=grain).hits


def _menu_tokens(budget: Budget, grain: Fraction, menu: tuple[Call, ...]) -> int:
    """How many tokens fit; at most `LATTICE_TOKENS`, which is only stricter."""
    epsilon, delta = (float(part) for part in budget.exact)
    curves = lattice_curves(float(grain), menu, 3 * math.ceil(epsilon / float(grain)) + 300)
    for fitting, curve in enumerate(curves):
        total = convex_upper(curve, float(grain), delta) if curve[-1] <= delta else math.inf
        if total > epsilon or fitting == LATTICE_TOKENS:
            return fitting
    return 0
