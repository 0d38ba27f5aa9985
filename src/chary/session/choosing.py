"""One choice: the best of many keys by private answers, the most common value, what the majority says."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil
from typing import Any, Final, Literal

from chary.accounting import (
    Event,
    Pure,
    ZeroConcentrated,
    exponential_loss_up,
    flip_loss_up,
    laplace_loss_up,
)
from chary.data import Neighbouring, Query, Relation, count
from chary.errors import InvalidParameter, InvalidQuery, NoPrice
from chary.filters import Filter, Price
from chary.mechanisms import Exponential, Majority, NoisyMax, PermuteAndFlip
from chary.mechanisms.majority import Rule
from chary.numbers import Number, exact, positive
from chary.session.door import Door
from chary.session.interaction import Interaction, Json, Ran, Touched

Way = Literal["permute_and_flip", "exponential", "laplace"]
_MADE: Final[dict[str, type[Exponential] | type[NoisyMax]]] = {
    "permute_and_flip": PermuteAndFlip,
    "exponential": Exponential,
    "laplace": NoisyMax,
}
_LOSSES: Final[dict[str, Callable[[Fraction, int, Fraction], float]]] = {
    "permute_and_flip": flip_loss_up,
    "exponential": exponential_loss_up,
    "laplace": laplace_loss_up,
}


def bounded_range_price(filter_: Filter, epsilon: Number) -> Price:
    """The price of an exponential mechanism: `Pure(epsilon)` or (epsilon^2/8)-zCDP, whichever is lower.

    The proof of the second is in `chary.session.labelling`; it needs all log-likelihood ratios of a pair of neighbours
    in an interval of length epsilon, which permute-and-flip and noisy maxima do not promise.
    """
    price = filter_.price(Pure(epsilon))
    try:
        other = filter_.price(ZeroConcentrated(exact(epsilon, "epsilon") ** 2 / 8))
    except NoPrice:
        return price
    return min(price, other, key=lambda found: found.hit.main)


def one_direction(query: Query, neighbouring: Neighbouring) -> bool:
    """Whether neighbours change all answers of a query in one direction: units that come or go, and only ever add (or
    only ever subtract) something. A unit that is replaced may leave one key for another."""
    if neighbouring.relation is not Relation.ADD_REMOVE:
        return False
    unit = query.contribution(neighbouring)
    return unit.low == 0 or unit.high == 0


@dataclass(frozen=True)
class ChooseKey(Interaction):
    """The key with the largest answer, up to noise, and nothing else. Always charged.

    Guarantee: `Pure(epsilon)`; the exponential mechanism is (epsilon^2/8)-zCDP as well, and costs the lower of both.
    """

    query: Query
    neighbouring: Neighbouring
    epsilon: Number
    by: Way = "permute_and_flip"
    kind = "choose"

    def __post_init__(self) -> None:
        if not isinstance(self.query, Query) or self.query.keys is None or len(self.query.keys) < 2:
            raise InvalidQuery('choose is for at least two public keys: count().by("clinic", ["a", "b"])')
        if self.by not in _MADE:
            raise InvalidParameter(f"choose by one of {', '.join(_MADE)}")
        object.__setattr__(self, "epsilon", positive(self.epsilon, "epsilon"))
        self.mechanism  # noqa: B018 - refuses an epsilon out of range

    @cached_property
    def mechanism(self) -> Exponential | NoisyMax:
        """The exact choice among the keys' answers in grid steps."""
        together = one_direction(self.query, self.neighbouring)
        return _MADE[self.by](self.epsilon, self.query.sensitivity(self.neighbouring), together)

    @cached_property
    def event(self) -> Event:
        return Pure(self.epsilon)

    def price(self, filter_: Filter) -> Price:
        return bounded_range_price(filter_, self.epsilon) if self.by == "exponential" else super().price(filter_)

    def shortfall(self, beta: Fraction) -> float:
        mechanism = self.mechanism
        unit = (mechanism.exponential if isinstance(mechanism, NoisyMax) else mechanism).unit
        steps = ceil(_LOSSES[self.by](unit, len(self.query.keys or ()), beta)) - 1
        return float(max(0, steps) * self.query.grid)

    def body(self) -> Json:
        return {"query": self.query.body(), "epsilon": str(self.epsilon), "by": self.by}

    def queries(self) -> Sequence[Query]:
        return [self.query]

    def run(self, touched: Touched) -> Ran:
        return Ran({"position": self.mechanism.step(touched.integers(), touched.source)}, 0, 0)

    def present(self, answer: Json, call: int) -> Any:
        key = (self.query.keys or ())[answer["position"]]
        return key[0] if len(key) == 1 else key


@dataclass(frozen=True)
class Vote(Interaction):
    """Whether more units satisfy a condition than do not. Guarantee: `Pure(epsilon)` (`Majority`). Always charged.

    A unit that comes or goes moves the lead by one; one that is replaced, by two.
    """

    condition: str
    neighbouring: Neighbouring
    epsilon: Number
    rule: Rule = "noise"
    kind = "majority"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive(self.epsilon, "epsilon"))
        if not isinstance(self.condition, str):
            raise InvalidQuery("the majority decides about a condition, such as 'age >= 65'")
        self.queries()
        self.mechanism  # noqa: B018 - refuses a rule there is not and noise out of range

    @cached_property
    def mechanism(self) -> Majority:
        """The exact vote on the lead."""
        return Majority(self.epsilon, 2 if self.neighbouring.relation is Relation.REPLACE else 1, self.rule)

    @cached_property
    def event(self) -> Event:
        return Pure(self.epsilon)

    def body(self) -> Json:
        return {"query": count(self.condition).body(), "epsilon": str(self.epsilon), "rule": self.rule}

    def queries(self) -> Sequence[Query]:
        return [count(self.condition), count()]

    def shortfall(self, beta: Fraction) -> float:
        """How many more units there may be on the other side."""
        low, high = 0, 1
        while 1 - self.mechanism.chance(high) > beta:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if 1 - self.mechanism.chance(middle) > beta else (low, middle)
        return float(low)

    def run(self, touched: Touched) -> Ran:
        lead = 2 * touched.integer(0) - touched.integer(1)
        return Ran({"yes": self.mechanism.step(lead, touched.source)}, 0, 0)

    def present(self, answer: Json, call: int) -> bool:
        return bool(answer["yes"])


class Choosing(Door):
    """Choices of one of several answers, which publish the choice alone."""

    def choose(self, query: Query, *, epsilon: Number, by: Way | None = None, request: str | None = None) -> Any:
        """The key whose answer is the largest, up to noise, of a keyed query; its value is not published.

        Guarantee: `Pure(epsilon)` whatever the number of keys, and whatever of them one unit is in. A key is a scalar
        for one column, a tuple for several; of a series, the position.

        - "permute_and_flip" is the most accurate of its epsilon; it is report noisy max with exponential noise.
        - "exponential" is the exponential mechanism, which is report noisy max with Gumbel noise. A Renyi filter
          charges less for it than for any other epsilon-DP choice, down to a quarter: up to twice the epsilon fits.
        - "laplace" is report noisy max with discrete Laplace noise.

        Without `by` it is "exponential" where that costs half of a pure call or less, else "permute_and_flip".
        Counts under add/remove, and totals of one sign, all move together; they take half the noise. Errors:
        `InvalidQuery` for a query without at least two keys.
        """
        return self.spine.perform(self._choice(query, epsilon, by), request)

    def most_common(
        self,
        column: str,
        *,
        among: Iterable[Any],
        epsilon: Number,
        where: str | None = None,
        by: Way | None = None,
        request: str | None = None,
    ) -> Any:
        """The value of a column that most units have, up to noise, among public values; as `choose` of their counts.

        Guarantee and errors as for `choose`. Values that are not listed are never returned.
        """
        return self.choose(count(where).by(column, among), epsilon=epsilon, by=by, request=request)

    def majority(self, condition: str, *, epsilon: Number, rule: Rule = "noise", request: str | None = None) -> bool:
        """Whether more units satisfy the condition than do not, up to noise; a tie is settled by a fair coin.

        Guarantee: `Pure(epsilon)`. The default rule is wrong least often of all votes that treat both answers alike;
        "inverse" and "exponential" are the published ones (`chary.mechanisms.Majority`).
        """
        answer: bool = self.spine.perform(Vote(condition, self.spine.rows.neighbouring, epsilon, rule), request)
        return answer

    def _choice(self, query: Query, epsilon: Number, by: Way | None) -> ChooseKey:
        neighbouring, filter_ = self.spine.rows.neighbouring, self.spine.filter
        if by is not None:
            return ChooseKey(query, neighbouring, epsilon, by)
        made = ChooseKey(query, neighbouring, epsilon, "exponential")
        half = 2 * made.price(filter_).hit.main <= filter_.price(made.event).hit.main
        return made if half else ChooseKey(query, neighbouring, epsilon)
