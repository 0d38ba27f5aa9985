"""The key that most units have, and the fraction of units that satisfies a condition."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil
from typing import Any

from chary.accounting import Event, Pure, exponential_loss_up
from chary.data import Neighbouring, Predicate, Query, Relation, Total, count
from chary.errors import InvalidQuery
from chary.filters import Filter, Price
from chary.mechanisms import InverseSensitivity, Laplace, mode_distances
from chary.numbers import Number, positive
from chary.session.choosing import bounded_range_price
from chary.session.interaction import Interaction, Json, Ran, Touched
from chary.session.results import Answer


@dataclass(frozen=True)
class AskMode(Interaction):
    """The key that most units have. Guarantee: `Pure(epsilon)`, or the zCDP of `InverseSensitivity` if it has one."""

    query: Query
    neighbouring: Neighbouring
    epsilon: Number
    kind = "mode"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive(self.epsilon, "epsilon"))
        if not isinstance(self.query, Query) or self.query.keys is None or len(self.query.keys) < 2:
            raise InvalidQuery('a mode is one of at least two public keys: count().by("clinic", ["a", "b"])')
        cell = self.query.contribution(self.neighbouring)
        if isinstance(self.query, Total) or (cell.low, cell.high, cell.rows) != (0, 1, None):
            raise InvalidQuery("a mode counts units: ask count() or a histogram, not a total")
        if self.replace and cell.spread > 1:
            raise InvalidQuery(
                "where units are replaced, the mode needs units with one key each: say keep_per_unit=1 or "
                "stated_per_unit=1, or use session.choose"
            )
        self.mechanism  # noqa: B018 - refuses an epsilon out of range

    @property
    def replace(self) -> bool:
        """Whether units are replaced."""
        return self.neighbouring.relation is Relation.REPLACE

    @cached_property
    def mechanism(self) -> InverseSensitivity:
        """The choice: of two keys one has distance 0, and added units raise counts only, so the 1/2 is dropped then."""
        return InverseSensitivity(self.epsilon, whole=not self.replace or len(self.query.keys or ()) == 2)

    @cached_property
    def event(self) -> Event:
        return Pure(self.epsilon)

    def price(self, filter_: Filter) -> Price:
        if self.mechanism.whole and self.replace:
            return super().price(filter_)
        return bounded_range_price(filter_, self.epsilon)

    def shortfall(self, beta: Fraction) -> float:
        """How many more units another key may have: moving one unit from key to key changes the gap by two."""
        rate = self.mechanism.epsilon if self.mechanism.whole else Fraction(self.mechanism.epsilon) / 2
        units = ceil(exponential_loss_up(rate, len(self.query.keys or ()), beta)) - 1
        return float(max(0, units) * (2 if self.replace else 1))

    def body(self) -> Json:
        return {"query": self.query.body(), "epsilon": str(self.epsilon)}

    def queries(self) -> Sequence[Query]:
        return [self.query]

    def run(self, touched: Touched) -> Ran:
        distances = mode_distances(touched.integers(), replace=self.replace)
        return Ran({"position": self.mechanism.pick(distances, touched.source)}, 0, 0)

    def present(self, answer: Json, call: int) -> Any:
        key = (self.query.keys or ())[answer["position"]]
        return key[0] if len(key) == 1 else key


@dataclass(frozen=True)
class AskFraction(Interaction):
    """Which fraction of all units satisfies a condition, their number being public.

    Guarantee: epsilon-DP: the count has discrete Laplace noise for epsilon, and is cut off at 0 and at the number.
    """

    condition: Predicate
    neighbouring: Neighbouring
    epsilon: Number
    kind = "fraction"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive(self.epsilon, "epsilon"))
        if self.neighbouring.relation is not Relation.REPLACE:
            raise InvalidQuery(
                "the number of units is secret where they are added or removed: release a count, or a mean of 0 and 1"
            )
        self.noise  # noqa: B018 - refuses noise out of range

    @cached_property
    def noise(self) -> Laplace:
        """The noise on the number of units that satisfy the condition."""
        return Laplace.for_epsilon(self.epsilon, sensitivity=1)

    @cached_property
    def event(self) -> Event:
        return self.noise.event()

    def body(self) -> Json:
        return {"query": count(self.condition).body(), "epsilon": str(self.epsilon)}

    def queries(self) -> Sequence[Query]:
        return [count(self.condition), count()]

    def run(self, touched: Touched) -> Ran:
        size = touched.integer(1)
        noisy = self.noise.apply_one(touched.integer(0), touched.source)
        return Ran({"ones": min(max(noisy, 0), size), "size": size}, 0, 0)

    def present(self, answer: Json, call: int) -> Answer:
        size = max(1, answer["size"])
        return Answer(call, answer["ones"] / size, min(1.0, self.noise.error_bar() / size))
