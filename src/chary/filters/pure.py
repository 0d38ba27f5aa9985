"""The pure filter: epsilons add, delta is 0, a target call is charged hit or miss (theory 1.5)."""

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Self

from chary.accounting import Event
from chary.amounts import MAIN_STEPS, Amount, steps_down
from chary.errors import NoPrice
from chary.filters.base import Budget, Filter

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
    approximate_delta: Fraction = Fraction(0)
    steps: int = field(default=MAIN_STEPS, repr=False)
    kind = "pure"

    def __post_init__(self) -> None:
        self.check_approximate_delta()

    @property
    def capacity(self) -> Amount:
        return Amount(steps_down(self.budget.exact[0], self.steps), self.delta_capacity())

    @property
    def basic_capacity(self) -> int:
        """None: it adds epsilons up itself."""
        return 0

    def cost(self, event: Event) -> tuple[Fraction, Fraction]:
        if event.epsilon is None:
            raise NoPrice(event.otherwise or _USUAL)
        return event.epsilon, event.epsilon

    def coarser(self) -> Self:
        return replace(self, steps=self.steps // 10)

    @property
    def unit(self) -> str:
        return "epsilon"

    def body(self) -> dict[str, Any]:
        return {"kind": self.kind, "approximate_delta": str(self.approximate_delta)} | self.counted()

    def describe(self) -> str:
        return "adding up epsilons (pure filter: hits and misses cost the same)"
