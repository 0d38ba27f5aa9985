"""What a transaction needs to know of a question: its event, its data, its run, and what it is charged."""

import json
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from fractions import Fraction
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from chary import noise
from chary.accounting import Event
from chary.amounts import LIMIT, Amount
from chary.core.forecast import Forecast
from chary.data import Mean, NeighborRelation, Query, Reading, Rows
from chary.data.queries.query import AnsweredT
from chary.errors import InvalidQuery, NotPriced
from chary.filters import Filter, Price
from chary.ledger import Parts
from chary.mechanisms import Laplace
from chary.mechanisms.additive import Integers
from chary.numbers import Number, exact

Json = dict[str, Any]
AnswerT = TypeVar("AnswerT")
Question = Query[AnsweredT] | Mean[AnsweredT]
# What follows from a question alone: a few kilobytes each, and an analyst repeats tens of them.
KEPT = 256
# How often what an answer says may be false.
BETA: Final = Fraction(1, 20)
FREE: Final = Price(Amount(0), Amount(0), 0)
"""The cost of a call whose privacy an earlier one has paid for."""
# Ledgers find a repeated request by this text, so neither the order of keys nor the separators may ever change.
ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


@dataclass(frozen=True)
class Data:
    """What a run may use: what each plan read, the noise source, the secret state, the hits paid for, the cost.

    `most_hits=None` means that every hit that can be charged is reserved, so nothing needs to halt.
    """

    values: Sequence[Any]
    source: noise.Source
    secret: bytes | None
    most_hits: int | None
    price: Price

    def integers(self, position: int = 0) -> Integers:
        """The exact answer of one query as an array, with one entry for a query without keys."""
        return np.atleast_1d(np.asarray(self.values[position]))

    def integer(self, position: int = 0) -> int:
        """The exact answer of one query without keys."""
        value = self.values[position]
        return value if type(value) is int else int(self.integers(position)[0])

    def __repr__(self) -> str:
        return "Data(<secret>)"


@dataclass(frozen=True)
class Result:
    """What a run produced: the public answer, how much of it hit, and the secret state to keep.

    `secrets` replaces (or, with None, erases) the secret state of earlier calls.
    """

    answer: Json
    hits: int
    tests: int
    secret: bytes | None = None
    secrets: dict[int, bytes | None] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Result(hits={self.hits}, tests={self.tests})"


def nothing_read(rows: Rows) -> Sequence[Reading]:
    """The readings of a plan that needs none."""
    return ()


def reading(*queries: Query) -> Callable[[Rows], Sequence[Reading]]:
    """The readings of these queries, in order."""
    return lambda rows: [rows.prepare(query) for query in queries]


def nothing_refused(secret: bytes | None) -> None:
    """The check of a plan that every state allows."""


class Cost(Protocol):
    """What a plan is charged for what comes out; nothing about its data.

    `parts` is in how many parts neighbours can differ, `most` how many of those can hit. `halts` says that it may begin
    with fewer hits than that, and stops when they run out. `adds_up` says that all that it publishes is within the
    epsilon of its event, for each part, hit or miss; anything else is more than any basic account holds.
    """

    @property
    def parts(self) -> int: ...

    @property
    def most(self) -> int: ...

    @property
    def halts(self) -> bool: ...

    @property
    def adds_up(self) -> bool: ...

    def price(self, event: Event, filter_: Filter) -> Price:
        """What one part costs if it hits and if it misses."""

    def final(self, price: Price, result: Result, reserved: int) -> Amount:
        """What is charged for what came out, with hits reserved for this many; never more than what was reserved."""


@dataclass(frozen=True)
class PerHit:
    """The cost of the event for each part, of a hit or of a miss.

    `hits` limits how many parts can hit (default: all). `bounds` are the events that each bound the call, where there
    are several: the cheapest is charged. A call that `extends` an earlier one is free where that was charged hit or
    miss. `agreed` is the cost where an opening has fixed it."""

    parts: int = 1
    hits: int | None = None
    halts: bool = False
    adds_up: bool = True
    bounds: tuple[Event, ...] = ()
    extends: bool = False
    agreed: Price | None = None

    @property
    def most(self) -> int:
        return self.parts if self.hits is None else self.hits

    def price(self, event: Event, filter_: Filter) -> Price:
        if self.agreed is not None:
            return self.agreed
        price = filter_.cheapest(*self.bounds) if self.bounds else filter_.price(event)
        return FREE if self.extends and not price.free_miss else price

    def final(self, price: Price, result: Result, reserved: int) -> Amount:
        return price.total(min(result.hits, reserved), self.parts)


@dataclass(frozen=True)
class AsReported(PerHit):
    """The cost of the event is reserved, and what `of` makes of it and of what came out is charged; never more."""

    adds_up: bool = False
    _: KW_ONLY
    of: Callable[[Price, Result], Amount]

    def final(self, price: Price, result: Result, reserved: int) -> Amount:
        return self.of(price, result)


@dataclass(frozen=True)
class Prepaid:
    """Free: the opening of a run has paid for all that is asked of it, and its epsilon holds for all of that together.

    The event must be one that the filter can cost.
    """

    parts: int = 1
    most: int = 1
    halts: bool = False
    adds_up: bool = True

    def price(self, event: Event, filter_: Filter) -> Price:
        filter_.price(event)
        return FREE

    def final(self, price: Price, result: Result, reserved: int) -> Amount:
        return Amount(0)


PREPAID: Final = Prepaid()


@dataclass(frozen=True)
class Whole:
    """The opening of a run pays for each part as for a hit, and later questions are free.

    Unless it `adds_up`, no sum of epsilons bounds what the later answers report. In a run without an end misses must be
    free: `endless` is the message where they are not.
    """

    parts: int
    endless: str | None = None
    halts: bool = False
    adds_up: bool = False

    @property
    def most(self) -> int:
        return self.parts

    def price(self, event: Event, filter_: Filter) -> Price:
        price = filter_.price(event)
        if self.endless is not None and not price.free_miss:
            raise NotPriced(self.endless)
        return price

    def final(self, price: Price, result: Result, reserved: int) -> Amount:
        return price.total(self.parts, self.parts)


@dataclass(frozen=True, eq=False)
class Plan(Generic[AnswerT]):
    """One call on the rows of one dataset: all that the transaction needs, and what can be said before.

    - `kind` and `body` are the question in the ledger: canonical JSON, which finds a repeated request.
    - `event` is the worst event of one part, and `cost` what is charged for what comes out.
    - `reads` checks and compiles what must be evaluated; `run` makes a result of exact values, noise and secret state.
    - `present` makes the analyst's answer of a stored one, the same for a fresh and for a repeated request.
    - `forecast` is what is known of cost and accuracy before it is paid, computed on demand.
    - `state` is the call whose secret state the run needs; `check` refuses what that already rules out.
    - `parts` are all parts of one partition whose rows it may read; None where that is everything its session reads.
    - `anywhere` says that the state at `state` is public, so that other parts may be asked than those it came from.
    - `size` is the epsilon of the call, if it has one, and the same question at another epsilon.
    - `outcomes` are all results that can be stored, where they are few and the exact `law` of their places is known.

    Anyone who makes a plan has checked everything that can be checked without data.
    """

    kind: str
    body: str
    event: Event
    run: Callable[[Data], Result]
    present: Callable[[Json, int], AnswerT]
    reads: Callable[[Rows], Sequence[Reading]] = nothing_read
    cost: Cost = PerHit()
    forecast: Callable[[], Forecast] = Forecast
    state: int | None = None
    check: Callable[[bytes | None], None] = nothing_refused
    size: "Size | None" = None
    outcomes: Sequence[Json] = ()
    law: Callable[[Data], noise.FiniteLaw] | None = None
    parts: Parts | None = None
    anywhere: bool = False

    def __post_init__(self) -> None:
        cost = self.cost
        if isinstance(cost, PerHit) and cost.adds_up and (self.state is not None or cost.extends or cost.agreed):
            raise TypeError(f"{self.kind} goes on from an earlier call: say whether what it reports adds up")

    def price(self, filter_: Filter) -> Price:
        """What one part costs if it hits and if it misses."""
        return self.cost.price(self.event, filter_)

    def worst(self, price: Price, hits: int | None = None) -> Amount:
        """What is reserved, for this many hits or for all that can be charged."""
        return price.total(self.cost.most if hits is None else hits, self.cost.parts)

    def epsilons(self, price: Price) -> int:
        """What it adds to the basic account, hit or miss."""
        return price.basics(self.cost.parts) if self.cost.adds_up else LIMIT

    def may_halt(self, price: Price) -> bool:
        """Whether it can start with fewer hits than may be charged: it halts when they run out, and misses are free."""
        return self.cost.halts and price.free_miss


class Size(NamedTuple):
    """The epsilon of a call, and the same question `at` another: refusals propose an epsilon that would fit."""

    epsilon: Fraction
    at: Callable[[Fraction], Plan[Any]]


def laplace_for(query: Query, neighbor_relation: NeighborRelation, epsilon: Number) -> Laplace:
    """Noise that makes the whole query epsilon-DP: the L1 change is counted in multiples of the largest single one."""
    single = query.sensitivity(neighbor_relation)
    times = -(-query.l1(neighbor_relation) // single)
    return Laplace.for_epsilon(epsilon, sensitivity=single, times=times)


def laplace_for_each(query: Query, neighbor_relation: NeighborRelation, epsilon: Number) -> Laplace:
    """Noise that makes each key's value epsilon-DP on its own."""
    return Laplace.for_epsilon(epsilon, sensitivity=query.sensitivity(neighbor_relation))


def natural(steps: int, grid: Fraction) -> int | float:
    """Grid steps in the query's own units; integers stay whole."""
    whole, rest = divmod(steps * grid.numerator, grid.denominator)
    return steps * grid.numerator / grid.denominator if rest else whole


def naturals(steps: Sequence[int], grid: Fraction) -> list[int | float]:
    """Several values in grid steps, in the query's own units."""
    if grid.denominator == 1:
        return [each * grid.numerator for each in steps] if grid.numerator != 1 else list(steps)
    return [natural(each, grid) for each in steps]


def steps_at_least(threshold: Number, grid: Fraction, name: str = "above") -> int:
    """The threshold in grid steps, rounded up: an integer value is at or above it exactly if it reaches this."""
    exactly = exact(threshold, name)
    return -(-exactly.numerator * grid.denominator // (exactly.denominator * grid.numerator))


def check_question(query: Any) -> None:
    """Refuse what is no question at all."""
    if not isinstance(query, (Query, Mean)):
        raise InvalidQuery(f'ask count(), sum() or mean(), such as count("age >= 65"), not {type(query).__name__}')


def threshold_body(query: Question, above: Number, epsilon: Number) -> Json:
    """The canonical question "is this query at or above that", at some epsilon."""
    return {"query": query.body(), "above": str(above), "epsilon": str(epsilon)}
