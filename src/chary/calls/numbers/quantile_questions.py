"""Answers that are the likelier, the fewer units would have to change to make them true: quantiles and modes."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Final, Self

from chary.accounting import Event, Pure, ZeroConcentrated
from chary.accounting.utility.rank_errors import rank_errors_up
from chary.answer import Answer, Table, Value
from chary.calls.call import Bound, Call, call
from chary.calls.fields import Edges, Exact, Name, Numbers, Positive, Where, Whole
from chary.data import Ordered, Query, Reading, Relation, Rows, ordered
from chary.data import RowTable as DataTable
from chary.errors import InvalidQuery, NoPrice
from chary.filters import Filter, Price
from chary.mechanisms import HalvedQuantiles, Order
from chary.spine.interaction import Json, Ran, Touched
from chary.spine.spine import Spine

RARE: Final = Fraction(1, 20)


@dataclass(frozen=True)
class QuantileAnswer(Answer):
    """One noisy quantile. `rank_error`: see `QuantileAnswers`."""

    at: float
    value: Value
    rank_error: int

    def __float__(self) -> float:
        return float(self.value)


@dataclass(frozen=True)
class QuantileAnswers(Table):
    """Noisy quantiles, ascending, all from the public grid; keys are the quantiles.

    `rank_errors`: for a value t at q, of n values b are below t and a above it, then `b - qn` and `a - (1-q)n` are both
    at most this, for all of them together 95 times in 100. For one quantile that holds whatever the data; for several,
    add for each round before it the values on one dithered place: one, or 1/4,096 of those that are equal if that is
    more. How far t itself is off depends on how densely the values lie there, so nothing is said about it.
    """

    values: tuple[Value, ...]
    rank_errors: tuple[int, ...]

    @property
    def at(self) -> tuple[float, ...]:
        """The quantiles."""
        return tuple(at for (at,) in self.keys)

    @property
    def value(self) -> dict[float, Value]:
        """Quantile to value."""
        return dict(zip(self.at, self.values, strict=True))

    def cells(self, position: int) -> dict[str, Any]:
        return {"value": self.values[position], "rank_error": self.rank_errors[position]}


@call("quantiles", subject="numbers")
class Quantiles(Call[QuantileAnswers]):
    """Several quantiles of a column together; `at` increases strictly between 0 and 1.

    Guarantee: epsilon-DP for all of them, or the lower price of the zCDP that comes with it
    (`chary.mechanisms.HalvedQuantiles`): the data are halved again and again, and a unit is in one part of each of
    `floor(log2 m) + 1` rounds, whatever the number m of quantiles (docs/quantiles.md); with `rows_per_unit` above 1
    there are m rounds. Otherwise as `Quantile`.
    """

    column: Name
    at: Numbers
    _: KW_ONLY
    bounds: Edges
    epsilon: Positive
    step: Positive = 1
    where: Where = None
    rows_per_unit: Whole | None = None

    @classmethod
    def recorded(cls, body: Json) -> Self:
        return super().recorded(body | body["values"])

    def bind(self, spine: Spine) -> "AskQuantiles":
        return AskQuantiles(self, spine.rows.neighbouring)


@dataclass(frozen=True)
class AskQuantiles(Bound[Quantiles]):
    """The quantiles, as they are chosen."""

    @cached_property
    def asked(self) -> Ordered:
        """What is read; refuses bounds that make no grid."""
        call = self.call
        limits: dict[str, Any] = {"step": call.step, "where": call.where, "rows_per_unit": call.rows_per_unit}
        return ordered(call.column, bounds=call.bounds, **limits)

    @cached_property
    def mechanism(self) -> HalvedQuantiles:
        """The exact choice; refuses what are no quantiles."""
        replace, moves = self.neighbouring.relation is Relation.REPLACE, self.asked.moves(self.neighbouring)
        return HalvedQuantiles(tuple(self.call.at), self.call.epsilon, replace, moves)

    @cached_property
    def event(self) -> Event:
        return Pure(self.mechanism.epsilon)

    def price(self, filter_: Filter) -> Price:
        """The zCDP of the rounds, of epsilon/rounds each, adds up."""
        if self.mechanism.narrow(self.asked.points):
            return super().price(filter_)
        price, zcdp = super().price(filter_), Fraction(self.call.epsilon) ** 2 / (8 * self.mechanism.rounds)
        try:
            other = filter_.price(ZeroConcentrated(zcdp))
        except NoPrice:
            return price
        return min(price, other, key=lambda found: found.hit.main)

    def body(self) -> Json:
        size = {"at": [str(q) for q in self.mechanism.at], "epsilon": str(self.call.epsilon)}
        return {"values": self.asked.body()} | size

    def queries(self) -> Sequence[Query]:
        return ()

    def prepare(self, rows: Rows) -> Sequence[Reading]:
        if not isinstance(rows, DataTable):
            raise InvalidQuery("only a table has columns of values to take quantiles of")
        return [rows.ordered(self.asked)]

    def run(self, touched: Touched) -> Ran:
        found = touched.values[0]
        order = Order(found.places, found.counts, self.asked.points)
        return Ran({"places": self.mechanism.step(order, touched.source)}, 0, 0)

    def present(self, answer: Json, call: int) -> Answer:
        values = tuple(self.asked.value(place) for place in answer["places"])
        keys = tuple((float(q),) for q in self.mechanism.at)
        return QuantileAnswers(call, ("at",), keys, values, self.rank_errors)

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


@call("quantile", subject="numbers")
class Quantile(Call[QuantileAnswer]):
    """One quantile of a column, such as the median (at=0.5), out of the multiples of `step` between the bounds.

    Guarantee: epsilon-DP, by inverse sensitivity (docs/quantiles.md); always charged. Values are clipped to the
    bounds and rounded to the grid, NULL and NaN are nobody's; an empty table gives any grid point. When the privacy
    unit is a column, `rows_per_unit=k` is needed: of a unit with more values k are kept, spread evenly.

    Errors: `InvalidParameter` for a quantile outside (0, 1), `InvalidQuery` for bounds in the wrong order or off
    the grid, an unknown column, one that holds no numbers, or a missing `rows_per_unit`.
    """

    column: Name
    at: Exact
    _: KW_ONLY
    bounds: Edges
    epsilon: Positive
    step: Positive = 1
    where: Where = None
    rows_per_unit: Whole | None = None

    def bind(self, spine: Spine) -> "AskQuantile":
        limits: dict[str, Any] = {"step": self.step, "where": self.where, "rows_per_unit": self.rows_per_unit}
        several = Quantiles(self.column, [self.at], bounds=self.bounds, epsilon=self.epsilon, **limits)
        return AskQuantile(several, spine.rows.neighbouring)


@dataclass(frozen=True)
class AskQuantile(AskQuantiles):
    """One quantile: in the ledger it is the only one of several."""

    def present(self, answer: Json, call: int) -> QuantileAnswer:
        [value], [error] = (self.asked.value(place) for place in answer["places"]), self.rank_errors
        return QuantileAnswer(call, float(self.mechanism.at[0]), value, error)
