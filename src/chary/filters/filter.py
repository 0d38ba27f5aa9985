"""Budgets, costs and filters: pure, and by one Renyi order."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, Self

from chary.accounting import Event, capacity_down, choose_order, epsilon_up
from chary.amounts import DELTA_STEPS, LIMIT, MAIN_STEPS, Accounts, Amount, Shares, steps_down, steps_up
from chary.errors import InvalidParameter, NotPriced
from chary.numbers import Number, failing, plain, positive, set_fields

# What every filter does: price events under one total that no sequence of calls can exceed.

# Prices take decimals of 60 digits and far longer than a look-up; analysts repeat few sizes, an attack fills little.
KEPT_PRICES = 4096


@dataclass(frozen=True)
class Budget:
    """The promise for the whole life of a dataset: (epsilon, delta)-DP for every unit; delta 0 is pure DP.

    There is no default epsilon. Errors: `InvalidParameter` for NaN, infinite, zero or negative epsilon and for delta
    outside [0, 1).

    >>> Budget(epsilon=1, delta=1e-6)
    Budget(epsilon=Fraction(1, 1), delta=Fraction(1, 1000000))
    """

    epsilon: Number
    delta: Number = 0

    def __post_init__(self) -> None:
        set_fields(self, epsilon=positive(self.epsilon, "epsilon"), delta=failing(self.delta))

    @property
    def exact(self) -> tuple[Fraction, Fraction]:
        """Both numbers as rationals."""
        return Fraction(self.epsilon), Fraction(self.delta)

    def __str__(self) -> str:
        epsilon, delta = self.exact
        return f"epsilon {plain(epsilon)}" + (f", delta {plain(delta)}" if delta else " (pure)")


@dataclass(frozen=True)
class Price:
    """What a call costs if it hits and if it misses; equal for an ordinary release, and in delta always.

    `basic` is what it adds to the basic account, hit or miss: more than any holds unless that is known.

    >>> Price(Amount(5), Amount(0)).total(2, 10), Price(Amount(5), Amount(5)).total(2, 10)
    (Amount(main=10, delta=0), Amount(main=50, delta=0))
    """

    hit: Amount
    miss: Amount
    basic: int = LIMIT

    @property
    def free_miss(self) -> bool:
        """Whether a miss is free, which is what target charging is about."""
        return self.miss.main == 0

    def total(self, hits: int, parts: int) -> Amount:
        """What this many parallel calls cost of which this many hit; the deltas of all of them are paid."""
        if parts == 1 and hits in (0, 1):
            return self.hit if hits else self.miss
        main = self.hit.main * hits + self.miss.main * (parts - hits)
        return Amount(min(main, LIMIT), min(self.hit.delta * parts, LIMIT))

    def hits_left(self, left: Accounts, basic: int) -> int | None:
        """How many hits fit one after another, each of which adds so much to the basic account; None if one is free.

        Where misses are free, only the main account counts while it lives: in the other one they are not.

        >>> from chary.amounts import Basic
        >>> both = Accounts(Amount(10), Amount(0), Basic(100, 0))
        >>> Price(Amount(5), Amount(0)).hits_left(both, 10), Price(Amount(5), Amount(5)).hits_left(both, 10)
        (2, 10)
        """
        return left.copies(self.hit, LIMIT if self.free_miss and not left.alone else basic)

    def basics(self, parts: int) -> int:
        """What this many parallel calls add to the basic account."""
        return min(self.basic * parts, LIMIT)


class Filter(ABC):
    """A way to cost events. Stopping before the costs pass the capacity guarantees the budget, whatever is asked.

    A stop before the pure epsilons of all calls, hit or miss, pass the budget's does so too. A session may go over from
    the first rule to the second, once and for good, at a call that only the second admits. Those of its transcripts
    whose epsilons fit are nowhere more than e^epsilon times as likely. All others kept to the first rule to their end
    (docs/theory/charging.md, two accounts; the rule is `amounts.Accounts`).

    A filter is no odometer: what was charged depends on the outcomes, so a part of the capacity is no guarantee of its
    own. Only the whole budget is one (a miss is charged nothing, yet reveals a little).

    Costs are rounded up and the capacity is rounded down. `delta_reserve` is the part of the budget's delta set
    aside for (epsilon, delta)-DP events, whose deltas add up.
    """

    kind: str
    budget: Budget
    steps: int
    delta_reserve: Fraction

    @property
    @abstractmethod
    def capacity(self) -> Amount:
        """The most that may be charged in all."""

    @property
    def shares(self) -> Shares:
        """Amounts as shares of the capacity."""
        return Shares(self.capacity)

    def cheapest(self, *events: Event) -> Price:
        """The cost of that event, of several that all bound one call, whose hit takes the smallest fraction.
        One with free misses goes before all others.

        Events without a cost are left out; where none has one, the `NotPriced` of the last is raised.
        """
        *others, last = events
        prices = []
        for event in others:
            with suppress(NotPriced):
                prices.append(self.price(event))
        try:
            prices.append(self.price(last))
        except NotPriced:
            if not prices:
                raise
        found = min(prices, key=lambda price: (not price.free_miss, self.shares.exactly(price.hit)))
        return replace(found, basic=min(price.basic for price in prices if price.hit.delta <= found.hit.delta))

    def price(self, event: Event) -> Price:
        """The cost of an event, `NotPriced` if this filter has none; multiplicity and rounding are applied here."""
        return self._known_price(event)

    @cached_property
    def _known_price(self) -> Callable[[Event], Price]:
        return lru_cache(maxsize=KEPT_PRICES)(self._with_epsilons)

    def _with_epsilons(self, event: Event) -> Price:
        single, times = event.copies
        if single.epsilon is None:
            return self._worked_out(event)
        return replace(self._worked_out(event), basic=steps_up(single.epsilon * times, self.basic_steps))

    def _worked_out(self, event: Event) -> Price:
        single, times = event.copies
        hit, miss = (steps_up(part * times, self.steps) for part in self.cost(single))
        delta = self.delta_cost(event)
        return Price(Amount(hit, delta), Amount(miss, delta))

    @abstractmethod
    def cost(self, event: Event) -> tuple[Fraction, Fraction]:
        """What a hit and a miss of an event that is no repetition cost, in the filter's unit, not rounded."""

    @property
    @abstractmethod
    def unit(self) -> str:
        """What charges are counted in."""

    def charged(self, amount: Amount) -> float:
        """An amount in that unit."""
        return amount.main / self.steps

    def promised(self, amount: Amount) -> tuple[float, float]:
        """The epsilon and delta that a charge guarantees; the whole budget's where it guarantees nothing by itself."""
        epsilon, delta = self.budget.exact
        return float(epsilon), float(delta)

    def for_sharp_tests(self, otherwise: str) -> "RenyiFilter":
        """This filter, if it has costs for optimal tests; else `NotPriced`, whose message ends with `otherwise`."""
        raise NotPriced(
            f"the {self.kind} filter has no cost for optimal tests: open the session with a delta and the Renyi "
            f"filter, or {otherwise}"
        )

    @abstractmethod
    def body(self) -> dict[str, Any]:
        """The public parameters as a JSON-able dict, from which `filters.restore` builds the filter again."""

    def counted(self) -> dict[str, Any]:
        """The field of `body` with the size of a step, where it is not the usual one."""
        return {} if self.steps == MAIN_STEPS else {"steps": self.steps}

    @abstractmethod
    def describe(self) -> str:
        """One clause of English for statements."""

    def check_delta_reserve(self) -> None:
        """Refuse a `delta_reserve` that is negative or more than the budget's delta."""
        if not 0 <= self.delta_reserve <= self.budget.exact[1]:
            raise InvalidParameter("delta_reserve must lie between 0 and the budget's delta")

    @cached_property
    def basic_steps(self) -> int:
        """How many steps an epsilon of 1 has in the basic account; fewer where all of the budget's were too many."""
        steps = MAIN_STEPS
        while steps and self.budget.exact[0] * steps >= LIMIT - 1:
            steps //= 10
        return steps

    @property
    def basic_capacity(self) -> int:
        """Steps of epsilon that all calls may add up to in the basic account; 0 for a filter that needs none."""
        return steps_down(self.budget.exact[0], self.basic_steps)

    def for_new_data(self) -> Self:
        """The filter with steps so coarse that all of its budget can be counted: 1e-15 of its unit up to 4,611 of it.

        A ledger that was opened with more of them than can be counted continues the part that it counts. Errors:
        `InvalidParameter` for a budget beyond all counting.
        """
        fitted: Self = self
        while fitted.capacity.main == LIMIT - 1:
            if fitted.steps == 1:
                raise InvalidParameter(f"{self.budget} is more than can be counted: take a smaller epsilon")
            fitted = fitted.coarser()
        return fitted

    @abstractmethod
    def coarser(self) -> Self:
        """The filter with a tenth of the steps."""

    def delta_capacity(self) -> int:
        """Steps of delta that approximate events may use up."""
        return steps_down(self.delta_reserve, DELTA_STEPS)

    def delta_cost(self, event: Event) -> int:
        """Steps of delta of one event; `NotPriced` if none was set aside."""
        cost = steps_up(event.delta, DELTA_STEPS)
        if cost and not self.delta_reserve:
            raise NotPriced(
                f"this call fails with probability {plain(event.delta)}, and no delta was set aside for such calls: "
                f"open the session with delta_reserve={plain(event.delta)} or more"
            )
        return cost


# The pure filter: epsilons add, delta is 0, a target call is charged hit or miss (theory chapter 1).

_USUAL = (
    "Gaussian noise and the best of several targets have no pure epsilon: open the session with a delta, or release "
    "with epsilon="
)


@dataclass(frozen=True)
class PureFilter(Filter):
    """Guarantee: the sum of the epsilons of all calls stays within the budget's; delta 0 unless some is set aside.

    Sums are exact: ten releases of 0.1 fit into 1, the eleventh does not.

    >>> from chary.accounting import Pure
    >>> f = PureFilter(Budget(epsilon=1))
    >>> f.price(Pure("0.1")).hit.copies_in(f.capacity)
    10
    """

    budget: Budget
    delta_reserve: Fraction = Fraction(0)
    steps: int = field(default=MAIN_STEPS, repr=False)
    kind = "pure"

    def __post_init__(self) -> None:
        self.check_delta_reserve()

    @property
    def capacity(self) -> Amount:
        return Amount(steps_down(self.budget.exact[0], self.steps), self.delta_capacity())

    @property
    def basic_capacity(self) -> int:
        """None: it adds epsilons up itself."""
        return 0

    def cost(self, event: Event) -> tuple[Fraction, Fraction]:
        if event.epsilon is None:
            raise NotPriced(event.otherwise or _USUAL)
        return event.epsilon, event.epsilon

    def coarser(self) -> Self:
        return replace(self, steps=self.steps // 10)

    @property
    def unit(self) -> str:
        return "epsilon"

    def promised(self, amount: Amount) -> tuple[float, float]:
        """The epsilon of the charge, and its part of the delta that was set aside.

        >>> PureFilter(Budget(3)).promised(Amount(10**15, 0))
        (1.0, 0.0)
        """
        return self.charged(amount), amount.delta / DELTA_STEPS

    def body(self) -> dict[str, Any]:
        return {"kind": self.kind, "approximate_delta": str(self.delta_reserve)} | self.counted()

    def describe(self) -> str:
        return "adding up epsilons (pure filter: hits and misses cost the same)"


# The Renyi filter: log-moments at one fixed order add; a hit costs its price, a miss costs nothing (theory 1.4).


@dataclass(frozen=True)
class RenyiFilter(Filter):
    """Guarantee: (epsilon, delta)-DP for calls of any mixed sizes, adaptively chosen.

    The order is fixed for good when the filter is made; `RenyiFilter.best` picks the one that affords most. A target
    call so large that no hit cost exists at the order is charged like an ordinary release, hit or miss.

    >>> from chary.accounting import Targeted
    >>> f = RenyiFilter.best(Budget(epsilon=1, delta=1e-6), grain=Fraction(1, 50))
    >>> f.price(Targeted("0.02")).hit.copies_in(f.capacity), f.price(Targeted("0.02")).miss
    (36, Amount(main=0, delta=0))
    """

    budget: Budget
    order: Fraction
    delta_reserve: Fraction = Fraction(0)
    steps: int = field(default=MAIN_STEPS, repr=False)
    kind = "renyi"

    def __post_init__(self) -> None:
        if self.order <= 1:
            raise InvalidParameter("order must be greater than 1")
        self.check_delta_reserve()
        if self._log_moment <= 0:
            raise InvalidParameter(f"nothing fits into {self.budget}: smaller calls or a larger budget would")

    @classmethod
    def best(
        cls, budget: Budget, *, grain: Fraction | None = None, delta_reserve: Fraction = Fraction(0)
    ) -> "RenyiFilter":
        """The filter of the order that affords most hits of `grain`-DP calls (or most zCDP if grain is None)."""
        order = choose_order(budget.exact[0], _spare_delta(budget, delta_reserve), grain)
        return cls(budget, order, delta_reserve)

    @cached_property
    def _log_moment(self) -> Fraction:
        return capacity_down(self.budget.exact[0], _spare_delta(self.budget, self.delta_reserve), self.order)

    @property
    def capacity(self) -> Amount:
        return Amount(steps_down(self._log_moment, self.steps), self.delta_capacity())

    def cost(self, event: Event) -> tuple[Fraction, Fraction]:
        if (hit := event.hit_price_up(self.order)) is not None:
            return hit, event.miss_price_up(self.order)
        moment = event.log_moment_up(self.order)
        return moment, moment

    def for_sharp_tests(self, otherwise: str) -> Self:
        return self

    def coarser(self) -> Self:
        return replace(self, steps=self.steps // 10)

    @property
    def unit(self) -> str:
        return f"log-moment at order {plain(self.order)}"

    def promised(self, amount: Amount) -> tuple[float, float]:
        """What the log-moment gives at the budget's delta."""
        spare = _spare_delta(self.budget, self.delta_reserve)
        found = epsilon_up(Fraction(amount.main, self.steps), self.order, spare)
        return float(found), float(spare) + amount.delta / DELTA_STEPS

    def body(self) -> dict[str, Any]:
        sizes = {"order": str(self.order), "approximate_delta": str(self.delta_reserve)}
        return {"kind": self.kind} | sizes | self.counted()

    def describe(self) -> str:
        return "a Renyi filter (misses are free)"


def _spare_delta(budget: Budget, delta_reserve: Fraction) -> Fraction:
    """The delta that converts the log-moment; `InvalidParameter` if none is left."""
    spare = budget.exact[1] - delta_reserve
    if spare <= 0:
        raise InvalidParameter(
            f"the Renyi filter needs a delta greater than delta_reserve: {plain(budget.exact[1])} is not more than "
            f"{plain(delta_reserve)}"
        )
    return spare
