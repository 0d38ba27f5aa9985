"""The key that most units have, and the fraction of units that satisfies a condition."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil
from typing import Self

from chary.accounting import Event, Pure, exponential_loss_up
from chary.answers import NoisyNumber, scalar
from chary.calls.answers import ChosenKey
from chary.calls.call import Bound, Call, call
from chary.calls.fields import AnyQuery, Positive, Where
from chary.calls.selection.choices import bounded_range_price
from chary.core.plan import BETA, Json, Question, Ran, Touched
from chary.core.transaction import Spine
from chary.data import Neighbouring, Query, Relation, Total, count
from chary.errors import InvalidQuery
from chary.filters import Filter, Price
from chary.mechanisms import InverseSensitivity, Laplace, mode_distances


@call("mode", subject="numbers")
class Mode(Call[ChosenKey]):
    """The key of a count or histogram that most units have: a key of one column itself, a tuple for several.

    Guarantee: epsilon-DP, by inverse sensitivity, or the zCDP of `InverseSensitivity` where it has one: a key is the
    likelier, the fewer units would have to change to make it the mode. Always charged. With three or more keys and
    units that are replaced, `Choose` is more accurate (docs/quantiles.md). Errors: `InvalidQuery` for what counts no
    units by at least two keys, and, where units are replaced, for units with several keys.
    """

    query: AnyQuery
    _: KW_ONLY
    epsilon: Positive

    def bind(self, spine: Spine) -> "AskMode":
        return AskMode(self, spine.rows.neighbouring, _counting(self.query, spine.rows.neighbouring))


def _counting(query: Question, neighbouring: Neighbouring) -> Query:
    """The query if it has a mode; otherwise `InvalidQuery`."""
    if not isinstance(query, Query) or query.keys is None or len(query.keys) < 2:
        raise InvalidQuery('a mode is one of at least two public keys: count().by("clinic", ["a", "b"])')
    cell = query.contribution(neighbouring)
    if isinstance(query, Total) or (cell.low, cell.high, cell.rows) != (0, 1, None):
        raise InvalidQuery("a mode counts units: ask count() or a histogram, not a total")
    if neighbouring.relation is Relation.REPLACE and cell.spread > 1:
        raise InvalidQuery(
            "where units are replaced, the mode needs units with one key each: say keep_per_unit=1 or "
            "stated_per_unit=1, or ask Choose(...)"
        )
    return query


@dataclass(frozen=True)
class AskMode(Bound[Mode]):
    """The choice of the mode, as it is made."""

    query: Query

    @property
    def replace(self) -> bool:
        """Whether units are replaced."""
        return self.neighbouring.relation is Relation.REPLACE

    @cached_property
    def mechanism(self) -> InverseSensitivity:
        """The choice: of two keys one has distance 0, and added units raise counts only, so the 1/2 is dropped then."""
        return InverseSensitivity(self.call.epsilon, whole=not self.replace or len(self.query.keys or ()) == 2)

    @cached_property
    def event(self) -> Event:
        return Pure(self.mechanism.epsilon)

    adds_up = True

    def price(self, filter_: Filter) -> Price:
        if self.mechanism.whole and self.replace:
            return super().price(filter_)
        return bounded_range_price(filter_, self.call.epsilon)

    def shortfall(self, beta: Fraction) -> float:
        """How many more units another key may have: moving one unit from key to key changes the gap by two."""
        rate = self.mechanism.epsilon if self.mechanism.whole else Fraction(self.mechanism.epsilon) / 2
        units = ceil(exponential_loss_up(rate, len(self.query.keys or ()), beta)) - 1
        return float(max(0, units) * (2 if self.replace else 1))

    def queries(self) -> Sequence[Query]:
        return [self.query]

    def run(self, touched: Touched) -> Ran:
        distances = mode_distances(touched.integers(), replace=self.replace)
        return Ran({"position": self.mechanism.pick(distances, touched.source)}, 0, 0)

    def present(self, answer: Json, call: int) -> ChosenKey:
        key = scalar((self.query.keys or ())[answer["position"]])
        return ChosenKey(call, key, shortfall=self.shortfall(BETA))


@call("fraction", subject="numbers")
class Share(Call[NoisyNumber]):
    """The fraction of all units that satisfies a condition; for sessions where units are replaced, so that their
    number is public. 0 where there are none.

    Guarantee: epsilon-DP: discrete Laplace noise on the count, cut off at 0 and at the number of units, which is
    universally optimal for a count (Ghosh, Roughgarden, Sundararajan 2009). Always charged.
    """

    where: Where
    _: KW_ONLY
    epsilon: Positive

    def __post_init__(self) -> None:
        if self.where is None:
            raise InvalidQuery('a fraction needs its condition, such as Share("age >= 65", epsilon=0.1)')

    @classmethod
    def recorded(cls, body: Json) -> Self:
        return super().recorded(body | {"where": body["query"]["where"]})

    def bind(self, spine: Spine) -> "AskFraction":
        if spine.rows.neighbouring.relation is not Relation.REPLACE:
            raise InvalidQuery(
                "the number of units is secret where they are added or removed: release a count, or a mean of 0 and 1"
            )
        return AskFraction(self, spine.rows.neighbouring)


@dataclass(frozen=True)
class AskFraction(Bound[Share]):
    """The fraction, as it is asked."""

    @cached_property
    def noise(self) -> Laplace:
        """The noise on the number of units that satisfy the condition."""
        return Laplace.for_epsilon(self.call.epsilon, sensitivity=1)

    @cached_property
    def event(self) -> Event:
        return self.noise.event()

    def body(self) -> Json:
        return {"query": count(self.call.where).body(), "epsilon": str(self.call.epsilon)}

    def queries(self) -> Sequence[Query]:
        return [count(self.call.where), count()]

    def run(self, touched: Touched) -> Ran:
        size = touched.integer(1)
        noisy = self.noise.apply_one(touched.integer(0), touched.source)
        return Ran({"ones": min(max(noisy, 0), size), "size": size}, 0, 0)

    def present(self, answer: Json, call: int) -> NoisyNumber:
        size = max(1, answer["size"])
        return NoisyNumber(call, answer["ones"] / size, min(1.0, self.noise.error_bar() / size))
