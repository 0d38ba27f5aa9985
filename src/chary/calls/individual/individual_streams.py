"""Individual charging as runs: a stream in which each unit pays for itself."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from chary.accounting import Event, Targeted
from chary.amounts import Amount
from chary.calls.call import call
from chary.calls.fields import Positive, Whole
from chary.calls.individual.living_questions import AskLiving, CounterMemory, LivingCount, WatchLiving
from chary.calls.keyed_run import KeyedRun
from chary.calls.openings import BoundOpening
from chary.calls.run import Kept, Opening, keeps
from chary.calls.thresholds.tested_keys import WatchResult
from chary.data import Count, Reading, Relation, Rows
from chary.data.rows.living import table_of_units
from chary.errors import InvalidQuery, NoPrice
from chary.filters import Filter, Price
from chary.mechanisms.thresholds.counters import Counters
from chary.numbers import Number, exact
from chary.spine.interaction import Json, Question, Ran, Touched
from chary.spine.spine import Spine


@dataclass(frozen=True)
class StreamState:
    """What is public of a stream: the epsilon of its calls and the hits that each unit pays for. Counters are not."""

    epsilon: Fraction
    hits: int


@call("individual_stream", subject="individual")
class Individual(Opening[KeyedRun[LivingCount, WatchResult, StreamState]]):
    """Open a stream in which each unit pays for itself: `hits` hits of `epsilon`-DP calls each, then it drops out.

    Guarantee (theorem 2.10 of [TCT]): for every unit that of `hits` hits of `Targeted(epsilon)` (twice as many under
    `replace`, since each of two units may be in `hits` answers that the other is not in), whatever is asked and for how
    long, all charged now. Nothing is read. Afterwards the stream is free and never ends. Errors: `InvalidQuery` for
    rows without unit ids, `NoPrice` under a filter that charges misses.
    """

    _: KW_ONLY
    epsilon: Positive
    hits: Whole

    def bind(self, spine: Spine) -> "OpenIndividual":
        return OpenIndividual(self, spine.rows.neighbouring)


class OpenIndividual(BoundOpening[Individual]):
    """The stream, as it is opened."""

    @cached_property
    def event(self) -> Event:
        return Targeted(self.call.epsilon)

    @property
    def parallel(self) -> int:
        return self.call.hits * (2 if self.neighbouring.relation is Relation.REPLACE else 1)

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
        return {"epsilon_per_call": str(self.call.epsilon), "hits_per_unit": self.call.hits}

    def prepare(self, rows: Rows) -> Sequence[Reading]:
        table_of_units(rows)
        return []

    def run(self, touched: Touched) -> Ran:
        return Ran({}, hits=0, tests=0, secret=Counters(self.call.hits).dump())


@keeps
class KeptStream(Kept[Any, StreamState]):
    """`run.ask(query, above=500)`: the noisy count of living units, if it is at or above the bar; otherwise nothing.

    An epsilon-DP call with the NotPrior target "published": if it is, every unit in it has one hit less left, and a
    unit without any left drops out of all later queries. Of a keyed count one such count for each key, in one scan: a
    unit with r hits left takes part in its first r keys, in the order of the list, and pays for those of them that are
    published. Errors: `InvalidQuery` for anything but a `count`.
    """

    kind = Individual.kind
    names = "individual"

    @cached_property
    def memory(self) -> CounterMemory:
        """What is kept from question to question."""
        return CounterMemory(self.spine.rows)

    def opened(self) -> KeyedRun[LivingCount, WatchResult, StreamState]:
        return KeyedRun(self)

    def question(self, query: Question, *, above: Number) -> AskLiving:
        if not isinstance(query, Count) or query.without is not None:
            raise InvalidQuery('a stream counts living units: ask count("age >= 65"), with by(...) for a watch')
        kind = AskLiving if query.keys is None else WatchLiving
        bar, neighbouring = exact(above, "above"), self.spine.rows.neighbouring
        return kind(self.number, self.state.epsilon, query, neighbouring, bar, self.memory)

    @property
    def state(self) -> StreamState:
        return StreamState(Fraction(self.terms["epsilon_per_call"]), self.terms["hits_per_unit"])
