"""Answers that are the likelier, the fewer units would have to change to make them true: quantiles and modes."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Final, Self

from chary import noise
from chary.accounting import Event, ZeroConcentrated
from chary.accounting.accuracy import rank_errors_up
from chary.answers import Answer, Ends, Table, Value, in_row
from chary.calls.call import Bound, Call, call
from chary.calls.fields import Edges, Exact, Name, Numbers, Positive, Probability, Where, Whole
from chary.core.plan import Data, Json, Result
from chary.core.transaction import Spine
from chary.data import Neighbors, OfUnit, Ordered, Query, Reading, Rows, UnitValues, ordered
from chary.data import RowTable as DataTable
from chary.data.queries.ordered import Occurring
from chary.errors import InvalidQuery
from chary.filters import Filter, Price
from chary.mechanisms import GuardedQuantiles, HalvedQuantiles, Order
from chary.numbers import plain

RARE: Final = Fraction(1, 20)
_UNGUARDED: Final = "no interval: how far a quantile is off depends on secret data; interval=0.95 pays for one"


@dataclass(frozen=True)
class QuantileAnswer(Answer):
    """One noisy quantile. `rank_error`, `estimated` and the `interval`: see `QuantileAnswers`."""

    at: float
    value: Value
    rank_error: int
    estimated: str = field(default="", compare=False)
    guards: Ends | None = field(default=None, compare=False)

    @property
    def interval(self) -> Ends | None:
        return self.guards

    @property
    def interval_says(self) -> str:
        return _UNGUARDED if self.guards is None else "the interval holds as often as was asked, whatever the data"

    def __float__(self) -> float:
        return float(self.value)


@dataclass(frozen=True)
class QuantileAnswers(Table):
    """Noisy quantiles, ascending, all from the public grid; keys are the quantiles.

    `rank_errors`: for a value t at q, of n values b are below t and a above it, then `b - qn` and `a - (1-q)n` are both
    at most this, for all of them together 95 times in 100. For one quantile that holds whatever the data; for several,
    add for each round before it the values on one dithered place: one, or 1/4,096 of those that are equal if that is
    more. How far t itself is off depends on how densely the values lie there, which is secret: it is told only where
    `interval=` was asked for, as `low` and `high` of each row. All true quantiles of the values, clipped and rounded to
    the grid, lie between theirs together with that probability, whatever the data. An end at a bound says that the
    value is at or beyond it. `estimated` says of what they are quantiles, in words.
    """

    values: tuple[Value, ...]
    rank_errors: tuple[int, ...]
    estimated: str = field(default="", compare=False)
    guards: tuple[Ends, ...] | None = field(default=None, compare=False)

    @property
    def at(self) -> tuple[float, ...]:
        """The quantiles."""
        return tuple(at for (at,) in self.keys)

    @property
    def value(self) -> dict[float, Value]:
        """Quantile to value."""
        return dict(zip(self.at, self.values, strict=True))

    @property
    def interval_says(self) -> str:
        held = "all intervals hold together as often as was asked, whatever the data"
        return _UNGUARDED if self.guards is None else held

    def cells(self, position: int) -> dict[str, Any]:
        told = {"value": self.values[position], "rank_error": self.rank_errors[position]}
        return told if self.guards is None else told | in_row(self.guards[position])


@call("quantiles", subject="numbers")
class Quantiles(Call[QuantileAnswers]):
    """Several quantiles of a column together; `at` increases strictly between 0 and 1.

    Guarantee: epsilon-DP for all of them, or the lower price of the zCDP that comes with it
    (`chary.mechanisms.HalvedQuantiles`): the data are halved again and again, and a unit is in one part of each of
    `floor(log2 m) + 1` rounds, whatever the number m of quantiles (docs/quantiles.md); with `max_rows_per_unit` above 1
    there are m rounds. With `interval=0.95` two thirds of epsilon pay for guards, and each quantile has an interval in
    the column's units (`chary.mechanisms.GuardedQuantiles`). Otherwise as `Quantile`.
    """

    column: Name
    at: Numbers
    _: KW_ONLY
    bounds: Edges
    epsilon: Positive
    step: Positive = 1
    where: Where = None
    max_rows_per_unit: Whole | None = None
    of_unit: OfUnit = "spread"
    interval: Probability | None = None

    @classmethod
    def recorded(cls, body: Json) -> Self:
        return super().recorded(body | body["values"])

    def bind(self, spine: Spine) -> "AskQuantiles":
        return AskQuantiles(self, spine.rows.neighbor_relation).settled(spine.filter)


@dataclass(frozen=True)
class AskQuantiles(Bound[Quantiles]):
    """The quantiles, as they are chosen: by permute-and-flip where the filter prices its pure epsilon alone."""

    flip: bool = field(default=False, compare=False)

    def settled(self, filter_: Filter) -> Self:
        """By permute-and-flip unless the zCDP that it lacks is worth something to this filter."""
        return replace(self, flip=self.price(filter_) == filter_.price(self.event))

    @cached_property
    def asked(self) -> Ordered:
        """What is read; refuses bounds that make no grid."""
        call = self.call
        limits: dict[str, Any] = {"max_rows_per_unit": call.max_rows_per_unit, "of_unit": call.of_unit}
        return ordered(call.column, bounds=call.bounds, step=call.step, where=call.where, **limits)

    @cached_property
    def mechanism(self) -> HalvedQuantiles:
        """The exact choice of the quantiles themselves; refuses what are no quantiles."""
        if self.guarded is not None:
            return self.guarded.answers
        replaced, moves = (
            self.neighbor_relation.neighbors is Neighbors.REPLACE,
            self.asked.moves(self.neighbor_relation),
        )
        return HalvedQuantiles(tuple(self.call.at), self.call.epsilon, replaced, moves, flip=self.flip)

    @cached_property
    def guarded(self) -> GuardedQuantiles | None:
        """The same with guards, where intervals were asked for; refuses an epsilon that buys none."""
        if self.call.interval is None:
            return None
        replaced, moves = (
            self.neighbor_relation.neighbors is Neighbors.REPLACE,
            self.asked.moves(self.neighbor_relation),
        )
        beta = 1 - Fraction(self.call.interval)
        made = GuardedQuantiles(tuple(self.call.at), self.call.epsilon, replaced, beta, moves, self.flip)
        made.reaches(self.asked.points)
        return made

    @cached_property
    def event(self) -> Event:
        return (self.guarded or self.mechanism).event()

    adds_up = True

    def price(self, filter_: Filter) -> Price:
        """The zCDP of the rounds, of epsilon/rounds each, adds up."""
        if self.flip or self.mechanism.narrow(self.asked.points):
            return super().price(filter_)
        rounds = (self.guarded or self.mechanism).rounds
        zcdp = Fraction(self.call.epsilon) ** 2 / (8 * rounds)
        return filter_.cheapest(ZeroConcentrated(zcdp), self.event)

    def foretold(self) -> str:
        if self.guarded is None:
            return "how far values are off depends on the data: interval=0.95 pays for an interval of each"
        sure, reach = plain(100 * float(self.call.interval or 0)), max(self.guarded.reaches(self.asked.points))
        return f"intervals hold {sure} times in 100, and their ends are at most {reach} ranks farther off"

    def body(self) -> Json:
        size = {"at": [str(q) for q in self.mechanism.at], "epsilon": str(self.call.epsilon)}
        sure = {} if self.call.interval is None else {"interval": str(self.call.interval)}
        return {"values": self.asked.body()} | size | sure

    def queries(self) -> Sequence[Query]:
        return ()

    def prepare(self, rows: Rows) -> Sequence[Reading]:
        if not isinstance(rows, DataTable):
            raise InvalidQuery("only a table has columns of values to take quantiles of")
        return [rows.ordered(self.asked)]

    def run(self, data: Data) -> Result:
        order = self._order(data.values[0], data.source)
        if self.guarded is not None:
            return Result(self.guarded.step(order, data.source)._asdict(), 0, 0)
        return Result({"places": self.mechanism.step(order, data.source)}, 0, 0)

    def _order(self, found: Occurring | UnitValues, source: noise.Source) -> Order:
        if isinstance(found, UnitValues):
            return Order.drawn(found.places, found.units, self.asked.max_rows_per_unit or 1, self.asked.points, source)
        return Order(found.places, found.counts, self.asked.points)

    def present(self, answer: Json, call: int) -> Answer:
        values = tuple(self.asked.value(place) for place in answer["places"])
        keys = tuple((float(q),) for q in self.mechanism.at)
        return QuantileAnswers(call, ("at",), keys, values, self.rank_errors, self.estimated, self.guards(answer))

    @property
    def estimated(self) -> str:
        """Of what they are quantiles, in words."""
        return self.asked.estimated(self.neighbor_relation.unit)

    def guards(self, answer: Json) -> tuple[Ends, ...] | None:
        """The intervals, in the column's units, where there are guards."""
        if self.guarded is None:
            return None
        pairs = zip(answer["low"], answer["high"], strict=True)
        return tuple((float(self.asked.value(low)), float(self.asked.value(high))) for low, high in pairs)

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

    Guarantee: epsilon-DP, by inverse sensitivity (docs/quantiles.md); always charged. Values are clipped to the bounds
    and rounded to the grid, NULL and NaN are nobody's; an empty table gives any grid point. When the privacy unit is a
    column, `max_rows_per_unit=k` is needed: of a unit with more values k are kept, spread evenly, so that with k = 1
    the median is that of the units' own (lower) medians. `of_unit` offers other choices: "random" keeps k rows drawn at
    random, for the distribution of rows, "mean" the mean of all, "weighted" all rows with equal weights
    (`chary.data.Ordered` says what each estimates, the answer's `estimated` says it in a sentence). The draw is part of
    the call: the same request key finds the same answer, a new call draws anew.

    With `interval=0.95` the answer has an `interval` in the column's units that holds the true quantile with that
    probability, whatever the data: two guards, which are chosen to be below and above it, are published too. A third
    of epsilon pays for each of the three, so the rank error is three times that of a call without (docs/quantiles.md).

    Errors: `InvalidParameter` for a quantile outside (0, 1), `InvalidQuery` for bounds in the wrong order or off
    the grid, an unknown column, one that holds no numbers, or a missing `max_rows_per_unit`.
    """

    column: Name
    at: Exact
    _: KW_ONLY
    bounds: Edges
    epsilon: Positive
    step: Positive = 1
    where: Where = None
    max_rows_per_unit: Whole | None = None
    of_unit: OfUnit = "spread"
    interval: Probability | None = None

    def bind(self, spine: Spine) -> "AskQuantile":
        named = {name: getattr(self, name) for name in self.__dataclass_fields__ if name not in ("column", "at")}
        several = Quantiles(self.column, [self.at], **named)
        return AskQuantile(several, spine.rows.neighbor_relation).settled(spine.filter)


@dataclass(frozen=True)
class AskQuantile(AskQuantiles):
    """One quantile: in the ledger it is the only one of several."""

    def present(self, answer: Json, call: int) -> QuantileAnswer:
        [value], [error] = (self.asked.value(place) for place in answer["places"]), self.rank_errors
        [ends] = self.guards(answer) or [None]
        return QuantileAnswer(call, float(self.mechanism.at[0]), value, error, self.estimated, ends)
