"""Quantiles by inverse sensitivity: a value is the likelier, the fewer units have to change to make it the quantile."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, Required, Self, TypedDict, Unpack, overload

from chary.accounting import ZeroConcentrated
from chary.accounting.accuracy import rank_errors_up
from chary.answers import Answer, Ends, Table, Value, in_row, scalar
from chary.calls.call import Call, call
from chary.calls.fields import ColumnName, Columns, Edges, OneOrMore, Positive, Probability, Where, Whole
from chary.calls.releases import combinations
from chary.core.forecast import Forecast
from chary.core.plan import ENCODER, AnswerT, Data, Json, PerHit, Plan, Result, Size
from chary.core.transaction import Spine
from chary.data import NeighborRelation, Neighbors, OfUnit, Ordered, Predicate, Reading, Rows, UnitValues, ordered
from chary.data import RowTable as DataTable
from chary.data.queries.keys import Domain
from chary.data.queries.ordered import Occurring
from chary.data.queries.query import Keying
from chary.data.queries.stored import STORED
from chary.data.queries.sums import coarse
from chary.errors import InvalidQuery
from chary.filters import Filter
from chary.mechanisms import GuardedQuantiles, HalvedQuantiles, Order
from chary.mechanisms.choices import MOST_CANDIDATES
from chary.noise import FiniteLaw, Source
from chary.numbers import Number, set_fields, sure

RARE: Final = Fraction(1, 20)
# The distribution of a quantile is reported of this many possible values at most.
_LISTED: Final = 1000
_UNGUARDED: Final = "no interval: how far a quantile is off depends on secret data; interval=0.95 pays for one"


def _says(answer: Any, held: str) -> str:
    """What intervals hold for, or why there are none, in words."""
    told = f"{held} of the rounded values as often as was asked, whatever the data"
    return _UNGUARDED if answer.guards is None else "; ".join((told, *answer._notes))


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
        return _says(self, "the interval contains the quantile")

    def __float__(self) -> float:
        return float(self.value)


@dataclass(frozen=True)
class _Quantiles(Table):
    """The common part of tables of quantiles."""

    values: tuple[Value, ...]
    rank_errors: tuple[int, ...]
    estimated: str = field(default="", compare=False)
    guards: tuple[Ends, ...] | None = field(default=None, compare=False)
    noun, also = "quantiles", "estimated"

    @property
    def value(self) -> dict[Any, Value]:
        """Key to value."""
        return {scalar(key): value for key, value in zip(self.keys, self.values, strict=True)}

    @property
    def interval_says(self) -> str:
        return _says(self, "all intervals together contain the quantiles")

    def cells(self, position: int) -> dict[str, Any]:
        told = {"value": self.values[position], "rank_error": self.rank_errors[position]}
        return told if self.guards is None else told | in_row(self.guards[position])

    def _told_rows(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows())


@dataclass(frozen=True)
class QuantileAnswers(_Quantiles):
    """Noisy quantiles, ascending, all from the public grid; groups are the quantiles.

    `rank_errors`: take a value t at q, of n values b below t and a above it. Then `b - qn` and `a - (1-q)n` are both at
    most this, for all of them together with 95 % confidence. For one quantile that holds for any data. For several, add
    for each round before it the values on one dithered place: one, or 1/4,096 of those that are equal if that is more.
    The error of t itself depends on how densely the values lie there, which is secret. It is reported only where
    `interval=` was asked for, as `low` and `high` of each row. All true quantiles of the values, clipped and rounded to
    the grid, lie between theirs together with that probability, whatever the data. An end at a bound says that the
    value is at or beyond it. `estimated` says of what they are quantiles, in words.
    """

    @property
    def at(self) -> tuple[float, ...]:
        """The quantiles."""
        return tuple(at for (at,) in self.keys)


@dataclass(frozen=True)
class GroupQuantiles(_Quantiles):
    """Noisy quantiles of each group; groups are the groups, and behind them the quantiles where several were asked.

    `rank_errors` and intervals are those of `QuantileAnswers`: they hold for all quantiles of one group together, not
    for all groups.
    """

    @property
    def interval_says(self) -> str:
        return _says(self, "the intervals of each group together contain its quantiles")


class _Terms(TypedDict, total=False):
    """How quantiles are taken; see `Quantile`."""

    bounds: Required[tuple[Number, Number]]
    epsilon: Required[Number]
    step: Number
    where: Predicate | str | None
    max_rows_per_unit: int | None
    of_unit: OfUnit
    interval: Number | None


class _GroupedTerms(_Terms, total=False):
    """The same with groups."""

    groups: Required[Mapping[str, Sequence[Any]]]
    max_groups_per_unit: int | None
    assumed_groups_per_unit: int | None


# A choice takes a millisecond or so, and each group has its own.
MOST_GROUPS: Final = 10_000


@call(
    "quantiles",
    subject="numbers",
    meanings={
        "epsilon": "Epsilon of this call (of each group).",
        "groups": "Quantiles of each group: columns and their public values.",
        "step": "Answers are multiples of this.",
    },
)
class Quantile(Call[AnswerT]):
    """Publish one quantile of a column, such as the median at 0.5, or several together. They are multiples of `step`
    between the bounds.

    Guarantee: epsilon-DP for all of them, or the lower cost of the zCDP that comes with it, by inverse sensitivity
    (docs/theory/choices.md); always charged. Several, which increase strictly, are chosen in `floor(log2 m) + 1` rounds
    for m of them. The data are halved again and again, and a unit is in one part of each round
    (`chary.mechanisms.HalvedQuantiles`). With `max_rows_per_unit` above 1 there are m rounds.

    Values are clipped to the bounds and rounded to the grid. NULL and NaN count for nobody; an empty table gives any
    grid point. When the privacy unit is a column, `max_rows_per_unit=k` is needed: of a unit with more values k are
    kept, spread evenly. So with k = 1 the median is that of the units' own (lower) medians. `of_unit` offers other
    choices. "random" keeps k rows drawn at random, for the distribution of rows. "mean" is the mean of all, "weighted"
    is all rows with equal weights. `chary.data.Ordered` says what each estimates, and the answer's `estimated` says it
    in a sentence. The draw is part of the call: the same idempotency key finds the same answer, a new call draws anew.

    With `interval=0.95` each quantile has an `interval` in the column's units: all of them together hold the true
    quantiles of the rounded values with that probability, whatever the data. Its ends are two guards, which are chosen
    to be below and above the quantile, and are published too (`chary.mechanisms.GuardedQuantiles`). A third of epsilon
    pays for each of the three, so the rank error is three times that of a call without.

    With `groups={"clinic": ["north", "south"]}` there are quantiles of each group, each by coins of its own. Of several
    columns there are quantiles of each combination of their values. What is said above is of one group. A call on all
    of them costs what one costs, times the number of groups in which neighbours can differ. That number is 1 where each
    row is a unit that is added or removed. Else it is as many as `max_groups_per_unit` (chary keeps the first ones in
    the order of the list) or `assumed_groups_per_unit` say, or all. It is twice that where units are replaced, and
    never more than there are. `max_rows_per_unit` is then for each group. *Proof.* Given the rows, groups are drawn
    independently; neighbours differ in at most that number of groups, and in each by one unit. An empty group has any
    grid point.

    Errors: `InvalidParameter` for a quantile outside (0, 1). `InvalidQuery` for bounds in the wrong order or off the
    grid, an unknown column, one that holds no numbers and a missing `max_rows_per_unit`. The same for more than 10,000
    groups, and for limits on groups where there are none.

    >>> Quantile("age", 0.5, bounds=(0, 120), epsilon="0.1").body()["at"]
    '1/2'
    >>> import chary, pyarrow as pa
    >>> rows = pa.table({"clinic": ["north", "south"] * 500, "age": [70, 30] * 500})
    >>> with chary.open(rows, privacy_unit=None, budget=chary.Budget(epsilon=9), ledger=":memory:") as session:
    ...     asked = Quantile("age", 0.5, bounds=(0, 120), epsilon=1, groups={"clinic": ["north", "south"]})
    ...     session.ask(asked).value, session.spent.share < 0.12
    ({'north': 70, 'south': 30}, True)
    """

    column: ColumnName
    at: OneOrMore
    _: KW_ONLY
    bounds: Edges
    epsilon: Positive
    step: Positive = 1
    where: Where = None
    max_rows_per_unit: Whole | None = None
    of_unit: OfUnit = "spread"
    interval: Probability | None = None
    groups: Columns | None = None
    max_groups_per_unit: Whole | None = None
    assumed_groups_per_unit: Whole | None = None

    def __post_init__(self) -> None:
        set_fields(self, groups=self.groups or None)
        if self.groups is not None:
            keying_of(self)
        elif self.max_groups_per_unit is not None or self.assumed_groups_per_unit is not None:
            raise InvalidQuery('name the groups too, such as groups={"clinic": ["north", "south"]}')

    if TYPE_CHECKING:

        @overload
        def __init__(self: "Quantile[QuantileAnswer]", column: str, at: Number, **terms: Unpack[_Terms]) -> None: ...

        @overload
        def __init__(
            self: "Quantile[GroupQuantiles]",
            column: str,
            at: Number | Sequence[Number],
            **terms: Unpack[_GroupedTerms],
        ) -> None: ...

        @overload
        def __init__(
            self: "Quantile[QuantileAnswers]", column: str, at: Sequence[Number], **terms: Unpack[_Terms]
        ) -> None: ...

        def __init__(self, column: str, at: Any, **terms: Any) -> None:
            """See the fields."""

    @property
    def alone(self) -> bool:
        """Whether `at` is a single quantile, whose answer without groups is no table."""
        return not isinstance(self.at, tuple)

    @classmethod
    def recorded(cls, body: Json) -> Self:
        """A stored body does not say whether one quantile was asked alone or in a list."""
        return super().recorded(body | body["values"])

    @property
    def limits(self) -> str:
        bounds = Fraction(self.bounds[0]), Fraction(self.bounds[1])
        rounded = coarse(bounds, Fraction(self.step))
        told = f"values are {rounded}" if rounded else ""
        return "; ".join(filter(None, (told, "" if self.groups is None else keying_of(self).kept)))

    @property
    def numeric(self) -> bool:
        return self.alone and self.groups is None

    def plan(self, spine: Spine) -> Plan[Any]:
        return chosen(self, spine.rows.neighbor_relation, spine.filter, self.size(spine))


def values_of(call: Quantile[Any]) -> Ordered:
    """The query that is read; refuses bounds off the grid of `step`."""
    limits: dict[str, Any] = {"max_rows_per_unit": call.max_rows_per_unit, "of_unit": call.of_unit}
    values = ordered(call.column, bounds=call.bounds, step=call.step, where=call.where, **limits)
    return values if call.groups is None else values.keyed(keying_of(call))


def keying_of(call: Quantile[Any]) -> Keying:
    """The groups; refuses invalid ones, and too many."""
    columns = call.groups or {}
    domain = Domain.of(list(columns), combinations(columns))
    if len(domain) > MOST_GROUPS:
        raise InvalidQuery(f"quantiles are of {MOST_GROUPS:,} groups at most")
    return Keying(domain, call.max_groups_per_unit, call.assumed_groups_per_unit)


def mechanism_of(call: Quantile[Any], neighbor_relation: NeighborRelation) -> HalvedQuantiles | GuardedQuantiles:
    """The exact choice, with guards where intervals were asked for; refuses invalid quantiles, and an epsilon too small
    for guards."""
    values, replaced = values_of(call), neighbor_relation.neighbors is Neighbors.REPLACE
    at: Any = (call.at,) if call.alone else call.at
    moves = values.moves(neighbor_relation)
    if call.interval is None:
        return HalvedQuantiles(at, call.epsilon, replaced, moves)
    made = GuardedQuantiles(at, call.epsilon, replaced, 1 - Fraction(call.interval), moves)
    made.reaches(values.points)
    return made


def chosen(
    call: Quantile[Any], neighbor_relation: NeighborRelation, filter_: Filter | None = None, size: Size | None = None
) -> Plan[Any]:
    """The plan of quantiles. It uses permute-and-flip where zCDP, which that does not have, saves nothing.

    Each of the rounds has epsilon/rounds, and their zCDP adds up.
    """
    values, made = values_of(call), mechanism_of(call, neighbor_relation)
    event, answers, cost = made.event(), made.answers, PerHit(values.reach(neighbor_relation))
    if not answers.narrow(values.points):
        cost = replace(cost, bounds=(ZeroConcentrated(Fraction(call.epsilon) ** 2 / (8 * made.rounds)), event))
    if filter_ is not None and cost.price(event, filter_) == filter_.price(event):
        made, cost = replace(made, flip=True), replace(cost, bounds=())
    body: Json = {"at": [str(q) for q in answers.at], "epsilon": str(call.epsilon), "values": values.body()}
    said = {name: told for name, told in call.question_body().items() if name in _SAID}

    def read(rows: Rows) -> Sequence[Reading]:
        if not isinstance(rows, DataTable):
            raise InvalidQuery("only a table has columns of values to take quantiles of")
        return [rows.ordered(values)]

    def run(data: Data) -> Result:
        listed = data.values[0] if values.keys is not None else [data.values[0]]
        steps = [_stepped(made, _order(each, values, data.source), data.source) for each in listed]
        # Of groups one after another.
        return Result({name: [place for step in steps for place in step[name]] for name in steps[0]}, 0, 0)

    def present(answer: Json, number: int) -> QuantileAnswer | QuantileAnswers | GroupQuantiles:
        found = tuple(values.value(place) for place in answer["places"])
        quantiles, estimated = tuple((float(q),) for q in answers.at), values.estimated(neighbor_relation.unit)
        guards, errors = (
            None if call.interval is None else _guards(answer, values),
            _rank_errors(answers, values.points),
        )
        if values.keys is not None:
            columns = values.total.columns if call.alone else (*values.total.columns, "at")
            keys = values.keys if call.alone else tuple(group + at for group in values.keys for at in quantiles)
            return GroupQuantiles(number, columns, keys, found, errors * len(values.keys), estimated, guards)
        told = QuantileAnswers(number, ("at",), quantiles, found, errors, estimated, guards)
        return _one(told) if call.alone else told

    def forecast() -> Forecast:
        told = "how far values are off depends on the data: interval=0.95 pays for an interval of each"
        if isinstance(made, GuardedQuantiles):
            confident, reach = sure(float(call.interval or 0)), max(made.reaches(values.points))
            told = f"intervals hold with {confident}; their ends are at most {reach} ranks farther off"
        return Forecast(rank_error=max(_rank_errors(answers, values.points)), interval=told)

    plan = Plan(call.kind, ENCODER.encode(body | said), event, run, present, read, cost, forecast, size=size)
    return plan if isinstance(made, GuardedQuantiles) else _with_law(plan, call, made, values)


def _with_law(plan: Plan[Any], call: Quantile[Any], made: HalvedQuantiles, values: Ordered) -> Plan[Any]:
    """The same choice with its distribution, if it is one of not too many values and draws no rows at random."""
    listed = min(_LISTED, MOST_CANDIDATES if made.flip else _LISTED)
    if not call.numeric or values.of_unit == "random" or values.points > listed:
        return plan

    def law(data: Data) -> FiniteLaw:
        return made.law(_order(data.values[0], values, data.source))

    return replace(plan, outcomes=[{"places": [place]} for place in range(values.points)], law=law)


# Fields that a stored body has only where the call has them.
_SAID: Final = ("interval", "groups", *(STORED[name] for name in ("max_groups_per_unit", "assumed_groups_per_unit")))


def _stepped(made: HalvedQuantiles | GuardedQuantiles, order: Order, source: Source) -> dict[str, list[int]]:
    if isinstance(made, GuardedQuantiles):
        return made.step(order, source)._asdict()
    return {"places": made.step(order, source)}


def _one(told: QuantileAnswers) -> QuantileAnswer:
    [at], [value], [error], [ends] = told.at, told.values, told.rank_errors, told.guards or [None]
    return QuantileAnswer(told.call, at, value, error, told.estimated, ends)


def _order(found: Occurring | UnitValues, values: Ordered, source: Source) -> Order:
    if isinstance(found, UnitValues):
        return Order.drawn(found.places, found.units, values.max_rows_per_unit or 1, values.points, source)
    return Order(found.places, found.counts, values.points)


def _guards(answer: Json, values: Ordered) -> tuple[Ends, ...]:
    """The intervals, in the column's units."""
    pairs = zip(answer["low"], answer["high"], strict=True)
    return tuple((float(values.value(low)), float(values.value(high))) for low, high in pairs)


def _rank_errors(made: HalvedQuantiles, points: int) -> tuple[int, ...]:
    """The largest error of each rank, in values, with 95 % confidence."""
    terms: dict[str, Any] = {"at": made.at, "points": made.grid(points), "replace": made.replace, "moves": made.moves}
    return tuple(rank_errors_up(epsilon=made.epsilon, beta=RARE, **terms))
