"""Answers that are the likelier, the fewer units would have to change to make them true: quantiles and modes."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Final

from chary.accounting import Event, Pure, ZeroConcentrated
from chary.accounting.quantile_accuracy import rank_errors_up
from chary.data import Neighbouring, Ordered, Predicate, Query, Reading, Relation, Rows, Table, ordered
from chary.errors import InvalidParameter, InvalidQuery, NoPrice
from chary.filters import Filter, Price
from chary.mechanisms import Order, Quantiles
from chary.numbers import Number, positive
from chary.session.door import Door
from chary.session.interaction import Interaction, Json, Ran, Touched
from chary.session.modes import AskFraction, AskMode
from chary.session.results import Answer, Value

RARE: Final = Fraction(1, 20)


@dataclass(frozen=True)
class Quantile:
    """One noisy quantile. `rank_error`: see `QuantileAnswers`."""

    call: int
    at: float
    value: Value
    rank_error: int

    def __float__(self) -> float:
        return float(self.value)


@dataclass(frozen=True)
class QuantileAnswers:
    """Noisy quantiles, ascending, all from the public grid.

    `rank_errors`: for a value t at q, of n values b are below t and a above it, then `b - qn` and `a - (1-q)n` are both
    at most this, for all of them together 95 times in 100. For one quantile that holds whatever the data; for several,
    add for each round before it the values on one dithered place: one, or 1/4,096 of those that are equal if that is
    more. How far t itself is off depends on how densely the values lie there, so nothing is said about it.
    """

    call: int
    at: tuple[float, ...]
    values: tuple[Value, ...]
    rank_errors: tuple[int, ...]

    def as_dict(self) -> dict[float, Value]:
        """Quantile to value."""
        return dict(zip(self.at, self.values, strict=True))


@dataclass(frozen=True)
class AskQuantiles(Interaction):
    """Quantiles of a column on a public grid.

    Guarantee: `Pure(epsilon)`, or the lower price of the zCDP that comes with it (`chary.mechanisms.Quantiles`).
    """

    asked: Ordered
    neighbouring: Neighbouring
    at: tuple[Number, ...]
    epsilon: Number
    kind = "quantiles"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive(self.epsilon, "epsilon"))
        object.__setattr__(self, "at", self.mechanism.at)

    @cached_property
    def mechanism(self) -> Quantiles:
        """The exact choice."""
        replace = self.neighbouring.relation is Relation.REPLACE
        return Quantiles(tuple(self.at), self.epsilon, replace, self.asked.moves(self.neighbouring))

    @cached_property
    def event(self) -> Event:
        return Pure(self.epsilon)

    def price(self, filter_: Filter) -> Price:
        """The zCDP of the rounds, of epsilon/rounds each, adds up."""
        if self.mechanism.narrow(self.asked.points):
            return super().price(filter_)
        price, zcdp = super().price(filter_), Fraction(self.epsilon) ** 2 / (8 * self.mechanism.rounds)
        try:
            other = filter_.price(ZeroConcentrated(zcdp))
        except NoPrice:
            return price
        return min(price, other, key=lambda found: found.hit.main)

    def body(self) -> Json:
        return {"values": self.asked.body(), "at": [str(q) for q in self.at], "epsilon": str(self.epsilon)}

    def queries(self) -> Sequence[Query]:
        return ()

    def prepare(self, rows: Rows) -> Sequence[Reading]:
        if not isinstance(rows, Table):
            raise InvalidQuery("only a table has columns of values to take quantiles of")
        return [rows.ordered(self.asked)]

    def run(self, touched: Touched) -> Ran:
        found = touched.values[0]
        order = Order(found.places, found.counts, self.asked.points)
        return Ran({"places": self.mechanism.step(order, touched.source)}, 0, 0)

    def present(self, answer: Json, call: int) -> QuantileAnswers:
        values = tuple(self.asked.value(place) for place in answer["places"])
        return QuantileAnswers(call, tuple(float(q) for q in self.at), values, self.rank_errors)

    @property
    def rank_error(self) -> int:
        return max(self.rank_errors)

    @cached_property
    def rank_errors(self) -> tuple[int, ...]:
        """By how many values each rank is off at most, 95 times in 100."""
        made = self.mechanism
        points = made.grid(self.asked.points)
        errors = rank_errors_up(
            epsilon=made.epsilon, at=made.at, points=points, beta=RARE, replace=made.replace, moves=made.moves
        )
        return tuple(errors)


class Quantiling(Door):
    """Order statistics, modes and fractions."""

    def quantile(
        self,
        column: str,
        at: Number,
        *,
        bounds: tuple[Number, Number],
        epsilon: Number,
        step: Number = 1,
        where: Predicate | str | None = None,
        rows_per_unit: int | None = None,
        request: str | None = None,
    ) -> Quantile:
        """One quantile of a column, such as the median (at=0.5), out of the multiples of `step` between the bounds.

        Guarantee: epsilon-DP, by inverse sensitivity (docs/quantiles.md); always charged. Values are clipped to the
        bounds and rounded to the grid, NULL and NaN are nobody's; an empty table gives any grid point. When the privacy
        unit is a column, `rows_per_unit=k` is needed: of a unit with more values k are kept, spread evenly.

        Errors: `InvalidParameter` for a quantile outside (0, 1), `InvalidQuery` for bounds in the wrong order or off
        the grid, an unknown column, one that holds no numbers, or a missing `rows_per_unit`.
        """
        asked = ordered(column, bounds=bounds, step=step, where=where, rows_per_unit=rows_per_unit)
        made = AskQuantiles(asked, self.spine.rows.neighbouring, (at,), epsilon)
        found: QuantileAnswers = self.spine.perform(made, request)
        return Quantile(found.call, found.at[0], found.values[0], found.rank_errors[0])

    def quantiles(
        self,
        column: str,
        at: Sequence[Number],
        *,
        bounds: tuple[Number, Number],
        epsilon: Number,
        step: Number = 1,
        where: Predicate | str | None = None,
        rows_per_unit: int | None = None,
        request: str | None = None,
    ) -> QuantileAnswers:
        """Several quantiles of a column together; `at` increases strictly between 0 and 1.

        Guarantee: epsilon-DP for all of them: the data are halved again and again, and a unit is in one part of each of
        `floor(log2 m) + 1` rounds, whatever the number m of quantiles (docs/quantiles.md); with `rows_per_unit` above 1
        there are m rounds. Otherwise as `quantile`.
        """
        if isinstance(at, (str, int, float, Fraction)) or not isinstance(at, Sequence):
            raise InvalidParameter("at is a list of quantiles, such as at=[0.25, 0.5, 0.75]")
        asked = ordered(column, bounds=bounds, step=step, where=where, rows_per_unit=rows_per_unit)
        found: QuantileAnswers = self.spine.perform(
            AskQuantiles(asked, self.spine.rows.neighbouring, tuple(at), epsilon), request
        )
        return found

    def mode(self, query: Query, *, epsilon: Number, request: str | None = None) -> Any:
        """The key of a count or histogram that most units have: a key of one column itself, a tuple for several.

        Guarantee: epsilon-DP, by inverse sensitivity: a key is the likelier, the fewer units would have to change to
        make it the mode. Always charged. With three or more keys and units that are replaced, `session.choose` is more
        accurate (docs/quantiles.md). Errors: `InvalidQuery` for what counts no units by at least two keys, and, where
        units are replaced, for units with several keys.
        """
        return self.spine.perform(AskMode(query, self.spine.rows.neighbouring, epsilon), request)

    def fraction(self, where: Predicate | str, *, epsilon: Number, request: str | None = None) -> Answer:
        """The fraction of all units that satisfies a condition; for sessions where units are replaced, so that their
        number is public. 0 where there are none.

        Guarantee: epsilon-DP: discrete Laplace noise on the count, cut off at 0 and at the number of units, which is
        universally optimal for a count (Ghosh, Roughgarden, Sundararajan 2009). Always charged.
        """
        condition = Predicate.of(where)
        if condition is None:
            raise InvalidQuery('a fraction needs its condition, such as session.fraction("age >= 65", epsilon=0.1)')
        answer: Answer = self.spine.perform(AskFraction(condition, self.spine.rows.neighbouring, epsilon), request)
        return answer
