"""One choice: the best of many keys by private answers, the most common value, what the majority says."""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from math import ceil
from typing import Final, Literal, Self

from chary.accounting import (
    Event,
    Pure,
    ZeroConcentrated,
    exponential_loss_up,
    flip_loss_up,
    laplace_loss_up,
)
from chary.answers import scalar
from chary.calls.answers import ChosenKey, YesOrNo
from chary.calls.call import Bound, Call, call
from chary.calls.fields import AnyQuery, Keys, Name, Positive, Where
from chary.core.plan import BETA, KEPT, Json, Ran, Touched
from chary.core.transaction import Spine
from chary.data import Query, Relation, count
from chary.errors import InvalidQuery
from chary.filters import Filter, Price
from chary.mechanisms import Exponential, MajorityVote, PermuteAndFlip, ReportNoisyMax
from chary.mechanisms.choices import Rule
from chary.numbers import Number, exact

Way = Literal["permute_and_flip", "exponential", "laplace"]
_MADE: Final[dict[str, type[Exponential] | type[ReportNoisyMax]]] = {
    "permute_and_flip": PermuteAndFlip,
    "exponential": Exponential,
    "laplace": ReportNoisyMax,
}
_LOSSES: Final[dict[str, Callable[[Fraction, int, Fraction], float]]] = {
    "permute_and_flip": flip_loss_up,
    "exponential": exponential_loss_up,
    "laplace": laplace_loss_up,
}


@lru_cache(maxsize=KEPT)
def _steps(by: str, unit: Fraction, candidates: int, beta: Fraction) -> int:
    return ceil(_LOSSES[by](unit, candidates, beta)) - 1


def bounded_range_price(filter_: Filter, epsilon: Number) -> Price:
    """The price of an exponential mechanism: `Pure(epsilon)` or (epsilon^2/8)-zCDP, whichever is lower.

    The proof of the second is in `chary.calls.votes.ballot_questions`; it needs all log-likelihood ratios of a pair
    of neighbours in an interval of length epsilon, which permute-and-flip and noisy maxima do not promise.
    """
    return filter_.cheapest(ZeroConcentrated(exact(epsilon, "epsilon") ** 2 / 8), Pure(epsilon))


@call("choose", subject="selection")
class Choose(Call[ChosenKey]):
    """The key whose answer is the largest, up to noise, of a keyed query; its value is not published.

    Guarantee: `Pure(epsilon)` whatever the number of keys, and whatever of them one unit is in; always charged. A key
    is a scalar for one column, a tuple for several; of a series, the position.

    - "permute_and_flip" is the most accurate of its epsilon; it is report noisy max with exponential noise.
    - "exponential" is the exponential mechanism, which is report noisy max with Gumbel noise. It is (epsilon^2/8)-zCDP
      as well, and costs the lower of both: a Renyi filter charges less for it than for any other epsilon-DP choice,
      down to a quarter, so up to twice the epsilon fits.
    - "laplace" is report noisy max with discrete Laplace noise.

    Without `by` it is "exponential" where that costs half of a pure call or less, else "permute_and_flip".
    Counts under add/remove, and totals of one sign, all move together; they take half the noise. Errors:
    `InvalidQuery` for a query without at least two keys.
    """

    query: AnyQuery
    _: KW_ONLY
    epsilon: Positive
    by: Way | None = None

    def bind(self, spine: Spine) -> "ChooseKey":
        query, neighbouring = self.query, spine.rows.neighbouring
        if not isinstance(query, Query) or query.keys is None or len(query.keys) < 2:
            raise InvalidQuery('choose is for at least two public keys: count().by("clinic", ["a", "b"])')
        if self.by is not None:
            return ChooseKey(self, neighbouring, query)
        made = ChooseKey(replace(self, by="exponential"), neighbouring, query)
        narrow, usual = made.price(spine.filter).hit, spine.filter.price(made.event).hit
        half = narrow.times(2).fits_into(usual)
        return made if half else ChooseKey(replace(self, by="permute_and_flip"), neighbouring, query)


@dataclass(frozen=True)
class ChooseKey(Bound[Choose]):
    """The choice, as it is made: `by` is settled."""

    query: Query

    @cached_property
    def mechanism(self) -> Exponential | ReportNoisyMax:
        """The exact choice among the keys' answers in grid steps; refuses an epsilon out of range."""
        together, made = self.query.one_direction(self.neighbouring), _MADE[self.by]
        return made(self.call.epsilon, self.query.sensitivity(self.neighbouring), together)

    @property
    def by(self) -> Way:
        """How it is chosen."""
        return self.call.by or "permute_and_flip"

    @cached_property
    def event(self) -> Event:
        return Pure(self.mechanism.epsilon)

    adds_up = True

    def price(self, filter_: Filter) -> Price:
        return bounded_range_price(filter_, self.call.epsilon) if self.by == "exponential" else super().price(filter_)

    def shortfall(self, beta: Fraction) -> float:
        mechanism = self.mechanism
        unit = (mechanism.exponential if isinstance(mechanism, ReportNoisyMax) else mechanism).unit
        steps = _steps(self.by, unit, len(self.query.keys or ()), beta)
        return float(max(0, steps) * self.query.grid)

    def queries(self) -> Sequence[Query]:
        return [self.query]

    def run(self, touched: Touched) -> Ran:
        return Ran({"position": self.mechanism.step(touched.integers(), touched.source)}, 0, 0)

    def present(self, answer: Json, call: int) -> ChosenKey:
        key = scalar((self.query.keys or ())[answer["position"]])
        return ChosenKey(call, key, shortfall=self.shortfall(BETA))


@call("most_common", subject="selection")
class MostCommon(Call[ChosenKey]):
    """The value of a column that most units have, up to noise, among public values; as `Choose` of their counts.

    Guarantee and errors as for `Choose`. Values that are not listed are never returned.
    """

    column: Name
    _: KW_ONLY
    among: Keys
    epsilon: Positive
    where: Where = None
    by: Way | None = None

    def bind(self, spine: Spine) -> ChooseKey:
        counts = count(self.where).by(self.column, self.among)
        return Choose(counts, epsilon=self.epsilon, by=self.by).bind(spine)


@call("majority", subject="selection")
class Majority(Call[YesOrNo]):
    """Whether more units satisfy the condition than do not, up to noise; a tie is settled by a fair coin.

    Guarantee: `Pure(epsilon)` (`MajorityVote`); always charged. A unit that comes or goes moves the lead by one; one
    that is replaced, by two. The default rule is wrong least often of all votes that treat both answers alike;
    "inverse" and "exponential" are the published ones (`chary.mechanisms.MajorityVote`).
    """

    condition: Name
    _: KW_ONLY
    epsilon: Positive
    rule: Rule = "noise"

    @classmethod
    def recorded(cls, body: Json) -> Self:
        return super().recorded(body | {"condition": body["query"]["where"]})

    def bind(self, spine: Spine) -> "Vote":
        return Vote(self, spine.rows.neighbouring)


@dataclass(frozen=True)
class Vote(Bound[Majority]):
    """The vote, as it is taken."""

    @cached_property
    def mechanism(self) -> MajorityVote:
        """The exact vote on the lead; refuses noise out of range."""
        moved = 2 if self.neighbouring.relation is Relation.REPLACE else 1
        return MajorityVote(self.call.epsilon, moved, self.call.rule)

    @cached_property
    def event(self) -> Event:
        return Pure(self.mechanism.epsilon)

    def body(self) -> Json:
        size = {"epsilon": str(self.call.epsilon), "rule": self.call.rule}
        return {"query": count(self.call.condition).body()} | size

    def queries(self) -> Sequence[Query]:
        return [count(self.call.condition), count()]

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

    def present(self, answer: Json, call: int) -> YesOrNo:
        return YesOrNo(call, bool(answer["yes"]))
