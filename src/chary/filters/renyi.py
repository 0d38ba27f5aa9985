"""The Renyi filter: log-moments at one fixed order add; a hit costs its price, a miss costs nothing (theory 1.4)."""

from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

from chary.accounting import Event, capacity_down, choose_order
from chary.amounts import MAIN_STEPS, Amount, steps_down
from chary.errors import InvalidParameter
from chary.filters.base import Budget, Filter
from chary.numbers import plain


@dataclass(frozen=True)
class RenyiFilter(Filter):
    """Guarantee: (epsilon, delta)-DP for calls of any mixed sizes, adaptively chosen.

    The order is fixed for good when the filter is made; `RenyiFilter.best` picks the one that affords most. A target
    call so large that no hit price exists at the order is priced like an ordinary release, hit or miss.

    >>> from chary.accounting import Targeted
    >>> f = RenyiFilter.best(Budget(epsilon=1, delta=1e-6), grain=Fraction(1, 50))
    >>> f.price(Targeted("0.02")).hit.copies_in(f.capacity), f.price(Targeted("0.02")).miss
    (36, Amount(main=0, delta=0))
    """

    budget: Budget
    order: Fraction
    approximate_delta: Fraction = Fraction(0)
    steps: int = field(default=MAIN_STEPS, repr=False)
    kind = "renyi"

    def __post_init__(self) -> None:
        if self.order <= 1:
            raise InvalidParameter("order must be greater than 1")
        self.check_approximate_delta()
        if self._log_moment <= 0:
            raise InvalidParameter(f"nothing fits into {self.budget}: smaller calls or a larger budget would")

    @classmethod
    def best(
        cls, budget: Budget, *, grain: Fraction | None = None, approximate_delta: Fraction = Fraction(0)
    ) -> "RenyiFilter":
        """The filter of the order that affords most hits of `grain`-DP calls (or most zCDP if grain is None)."""
        order = choose_order(budget.exact[0], _spare_delta(budget, approximate_delta), grain)
        return cls(budget, order, approximate_delta)

    @cached_property
    def _log_moment(self) -> Fraction:
        return capacity_down(self.budget.exact[0], _spare_delta(self.budget, self.approximate_delta), self.order)

    @property
    def capacity(self) -> Amount:
        return Amount(steps_down(self._log_moment, self.steps), self.delta_capacity())

    def cost(self, event: Event) -> tuple[Fraction, Fraction]:
        if (hit := event.hit_price_up(self.order)) is not None:
            return hit, event.miss_price_up(self.order)
        moment = event.log_moment_up(self.order)
        return moment, moment

    def coarser(self) -> Self:
        return replace(self, steps=self.steps // 10)

    @property
    def unit(self) -> str:
        return f"log-moment at order {plain(self.order)}"

    def body(self) -> dict[str, Any]:
        sizes = {"order": str(self.order), "approximate_delta": str(self.approximate_delta)}
        return {"kind": self.kind} | sizes | self.counted()

    def describe(self) -> str:
        return "a Renyi filter (misses are free)"


def _spare_delta(budget: Budget, approximate_delta: Fraction) -> Fraction:
    """The delta that converts the log-moment; `InvalidParameter` if none is left."""
    spare = budget.exact[1] - approximate_delta
    if spare <= 0:
        raise InvalidParameter(
            f"the Renyi filter needs a delta greater than approximate_delta: {plain(budget.exact[1])} is not more than "
            f"{plain(approximate_delta)}"
        )
    return spare
