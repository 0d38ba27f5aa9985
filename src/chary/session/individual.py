"""Individual charging ([TCT] Algorithm 5): every unit has a budget of hits, and drops out when it has used it up."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache

from chary.accounting import Event, Targeted
from chary.amounts import Amount
from chary.data import Count, Neighbouring, Query, Reading, Relation, Rows
from chary.data.living import Living, Rooms, living, table_of_units
from chary.errors import NoPrice, UnknownHeld
from chary.filters import Filter, Price
from chary.mechanisms import Additive, Laplace, Watch
from chary.mechanisms.counters import Counters
from chary.numbers import Number, positive, whole
from chary.session.interaction import (
    FREE,
    Interaction,
    Json,
    Ran,
    Touched,
    error_bar,
    laplace_for_each,
    settle_numbers,
    steps_at_least,
    threshold_body,
)
from chary.session.results import WatchResult

PLANS = 64


@dataclass(frozen=True)
class LivingCount:
    """A noisy count of the units that still live, if it reached the bar; otherwise nothing (`value` is None)."""

    call: int
    value: int | None
    error_bar: float | None

    @property
    def published(self) -> bool:
        """Whether there is a value, which raised the counters of the units in it."""
        return self.value is not None


@dataclass(frozen=True)
class OpenIndividual(Interaction):
    """Open a stream in which every unit takes part in at most `hits` published answers of epsilon-DP calls.

    Guarantee: that of `hits` hits of `Targeted(epsilon)`, charged at once; under `replace` twice as many, since each of
    two units may be in `hits` answers that the other is not in. Nothing is read.
    """

    epsilon: Number
    hits: int
    neighbouring: Neighbouring
    kind = "individual_stream"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive(self.epsilon, "epsilon"))
        whole(self.hits, "hits")

    @cached_property
    def event(self) -> Event:
        return Targeted(self.epsilon)

    @property
    def parallel(self) -> int:
        return self.hits * (2 if self.neighbouring.relation is Relation.REPLACE else 1)

    def price(self, filter_: Filter) -> Price:
        price = super().price(filter_)
        if not price.free_miss:
            raise NoPrice(
                "a stream never ends, so its misses must be free: open the session with a delta and with grain= the "
                "epsilon of the stream, or make that epsilon smaller"
            )
        return price

    def final(self, price: Price, ran: Ran, reserved_hits: int) -> Amount:
        return self.worst(price)

    def body(self) -> Json:
        return {"epsilon_per_call": str(self.epsilon), "hits_per_unit": self.hits}

    def queries(self) -> Sequence[Query]:
        return ()

    def prepare(self, rows: Rows) -> Sequence[Reading]:
        table_of_units(rows)
        return []

    def run(self, touched: Touched) -> Ran:
        return Ran({}, hits=0, tests=0, secret=Counters(self.hits).dump())

    def present(self, answer: Json, call: int) -> int:
        return call


class Memory:
    """What a stream remembers so that a call decodes and compiles nothing twice: counters, rooms, plans. Secret."""

    def __init__(self, rows: Rows) -> None:
        self.plan = lru_cache(PLANS)(lambda query: living(rows, query))
        self._last: tuple[bytes, Counters, Rooms] | None = None

    def standing(self, secret: bytes) -> tuple[Counters, Rooms]:
        """The counters in a secret state, and what they leave to each unit."""
        last = self._last
        if last is None or last[0] != secret:
            counters = Counters.load(secret)
            last = self._last = (secret, counters, Rooms(counters.rooms(), counters.hits))
        return last[1], last[2]

    def __repr__(self) -> str:
        return "Memory(<secret>)"


@dataclass(frozen=True)
class AskLiving(Interaction):
    """One query of a stream: a noisy count of living units, or one for each key, published where it reaches the bar.

    Guarantee: nothing is charged, it was paid when the stream was opened. Each key is an epsilon-DP call with the
    NotPrior target "published", and a unit takes part in no more keys than its counter leaves it, the first ones in
    their order. Answer and counters come from one state of the rows and are stored in one transaction. Hit or miss,
    the run hands back the state it was based on: an outcome on counters that moved meanwhile is never published.
    """

    stream: int
    epsilon: Number
    query: Count
    neighbouring: Neighbouring
    above: Number
    memory: Memory = field(compare=False, repr=False)
    kind = "individual_ask"

    def __post_init__(self) -> None:
        settle_numbers(self)
        self.noise  # noqa: B018 - refuses noise out of range

    @cached_property
    def noise(self) -> Laplace:
        """The noise of each count."""
        return laplace_for_each(self.query, self.neighbouring, self.epsilon)

    @cached_property
    def event(self) -> Event:
        return Targeted(self.epsilon)

    def price(self, filter_: Filter) -> Price:
        return FREE

    def accuracy(self) -> tuple[Additive, Fraction]:
        return self.noise, self.query.grid

    @property
    def held(self) -> int:
        return self.stream

    def check(self, secret: bytes | None) -> None:
        if secret is None:
            raise UnknownHeld(f"call {self.stream} keeps no counters: it was interrupted; open a new stream")

    def body(self) -> Json:
        question = threshold_body(self.query, self.above, self.epsilon)
        return question | {"individual": self.stream, "parallel": self.query.reach(self.neighbouring)}

    def queries(self) -> Sequence[Query]:
        return [self.query]

    def prepare(self, rows: Rows) -> Sequence[Reading]:
        return [self.memory.plan(self.query)]

    def run(self, touched: Touched) -> Ran:
        secret = touched.secret or b""
        counters, rooms = self.memory.standing(secret)
        plan: Living = touched.values[0]
        with plan.at(rooms) as units:
            found = Watch(self.noise, steps_at_least(self.above, self.query.grid)).step(units.counts(), touched.source)
            took = units.of(found.positions) if found.positions else None
        new = secret if took is None else counters.raised(took).dump()
        answer = {"positions": found.positions, "noisy": found.noisy}
        return Ran(answer, hits=len(found.positions), tests=found.tested, secrets={self.stream: new})

    def present(self, answer: Json, call: int) -> LivingCount | WatchResult:
        bar, noisy = error_bar(self.accuracy()), answer["noisy"]
        if self.query.keys is None:
            return LivingCount(call, noisy[0] if noisy else None, bar)
        keys = tuple(self.query.keys)
        above = {keys[position]: value for position, value in zip(answer["positions"], noisy, strict=True)}
        return WatchResult(call, keys, above, len(keys), bar)
