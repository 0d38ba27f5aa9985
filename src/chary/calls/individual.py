"""Tests with individual privacy accounting: each unit pays for itself until it is exhausted."""

import json
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Final

from chary.accounting import Event, NoiseLaw, Targeted, intervals, sharp_tests
from chary.amounts import Amount
from chary.answers import Answer
from chary.calls import answers, fields, run
from chary.calls import sharpness as sharp
from chary.calls.call import call
from chary.core.forecast import Within
from chary.core.plan import Data, Json, Paid, Question, Result, laplace_for_each, natural, steps_at_least
from chary.core.transaction import Spine, numbered
from chary.data import Count, NeighborRelation, Neighbors, Query, Reading, Rows, Sum
from chary.data.engines.protocol import LivingReading
from chary.data.rows import Rooms
from chary.data.table import living, table_of_units
from chary.errors import InvalidQuery, NotPriced, NotWithheld
from chary.filters import Filter, Price, RenyiFilter
from chary.mechanisms import Additive, Gaussian, Laplace, sketches, threshold_tests
from chary.numbers import Number, exact

# Individual charging ([TCT] Algorithm 5): every unit has a budget of hits, and drops out when it has used it up.

# Compiled queries that a stream keeps: those of a dashboard that asks a few dozen again and again.
PLANS = 64


class LivingCount(answers.NumberOrNothing):
    """A noisy count of the units that still live, or sum of what they contribute, if it reached the bar, which raised
    the counters of the units in it; otherwise nothing (`value` is None)."""


class CounterMemory:
    """What a stream remembers so that a call decodes and compiles nothing twice: counters, rooms, plans. Secret."""

    def __init__(self, rows: Rows) -> None:
        self.plan = lru_cache(PLANS)(lambda query: living(rows, query))
        self._last: tuple[bytes, sketches.Counters, Rooms] | None = None

    def standing(self, secret: bytes) -> tuple[sketches.Counters, Rooms]:
        """The counters in a secret state, and what they leave to each unit."""
        last = self._last
        if last is None or last[0] != secret:
            counters = sketches.Counters.load(secret)
            last = self._last = (secret, counters, Rooms(counters.rooms(), counters.hits))
        return last[1], last[2]

    def __repr__(self) -> str:
        return "Memory(<secret>)"


@dataclass(frozen=True)
class AskEachLiving(Paid):
    """One query of a stream, or one for each key, as it is run: free, it was paid when the stream was opened.

    Answer and counters come from one state of the rows and are stored in one transaction. An outcome on counters that
    moved meanwhile is thrown away by the spine, unseen. A sum moves by at most the query's sensitivity with a unit,
    and each unit that adds something pays for a whole hit, however little it adds. Of several keys a unit takes part in
    no more than its counter leaves it, the first ones.
    """

    opened: int
    query: Count | Sum
    neighbor_relation: NeighborRelation
    above: Fraction
    memory: CounterMemory = field(compare=False, repr=False)
    kind = "individual_ask"

    def __post_init__(self) -> None:
        self.noise  # noqa: B018 - refuses noise out of range

    @property
    @abstractmethod
    def noise(self) -> Additive:
        """The noise of each published count."""

    @abstractmethod
    def tests(self, threshold: int) -> threshold_tests.BarTests | threshold_tests.SharpTests:
        """The tests of all keys against a bar in steps."""

    @property
    @abstractmethod
    def terms(self) -> Json:
        """What the question says of the sharpness that the stream has."""

    def accuracy(self) -> tuple[Additive, Fraction]:
        return self.noise, self.query.grid

    @property
    def threshold(self) -> int:
        """The bar in steps."""
        return steps_at_least(self.above, self.query.grid)

    def check(self, secret: bytes | None) -> None:
        if secret is None:
            raise NotWithheld(f"call {self.opened} keeps no counters: it was interrupted; open a new stream")

    def body(self) -> Json:
        question = {"query": self.query.body(), "above": str(self.above)} | self.terms
        return question | {"individual": self.opened, "parallel": self.query.reach(self.neighbor_relation)}

    def queries(self) -> Sequence[Query]:
        return [self.query]

    def prepare(self, rows: Rows) -> Sequence[Reading]:
        return [self.memory.plan(self.query)]

    def run(self, data: Data) -> Result:
        secret = data.secret or b""
        counters, rooms = self.memory.standing(secret)
        plan: LivingReading = data.values[0]
        with plan.at(rooms) as units:
            found = self.tests(self.threshold).step(units.answers(), data.source)
            took = units.of(found.positions) if found.positions else None
        new = secret if took is None else counters.raised(took).dump()
        answer = {"positions": found.positions, "noisy": found.noisy}
        return Result(answer, hits=len(found.positions), tests=found.tested, secrets={self.opened: new})

    def present(self, answer: Json, call: int) -> Answer:
        noisy, told = [natural(steps, self.query.grid) for steps in answer["noisy"]], self.published()
        bar = None if told.bar is None else self.error_bar
        if self.query.keys is None:
            return LivingCount(call, noisy[0] if noisy else None, bar, publication=told)
        keys = tuple(self.query.keys)
        above = {keys[position]: value for position, value in zip(answer["positions"], noisy, strict=True)}
        silence = answers.silent(self.tails, self.query, self.neighbor_relation, self.threshold)
        return answers.WatchResult(
            call, self.query.columns, keys, above, len(keys), bar, publication=told, silence=silence
        )

    @property
    @abstractmethod
    def tails(self) -> intervals.Tails:
        """How often a test reports."""

    @abstractmethod
    def published(self) -> intervals.Publication:
        """How counts were published: because of their noise, or with noise of their own."""


@dataclass(frozen=True)
class AskLiving(AskEachLiving):
    """By Laplace noise, which is that of the count as well."""

    decides = True

    epsilon: Fraction = field(kw_only=True)

    @cached_property
    def noise(self) -> Laplace:
        return laplace_for_each(self.query, self.neighbor_relation, self.epsilon)

    @cached_property
    def event(self) -> Event:
        return Targeted(self.epsilon)

    @property
    def terms(self) -> Json:
        return {"epsilon": str(self.epsilon)}

    def tests(self, threshold: int) -> threshold_tests.BarTests:
        return threshold_tests.BarTests(self.noise, threshold)

    @property
    def tails(self) -> NoiseLaw:
        return self.noise.law()

    def published(self) -> intervals.Publication:
        """Counts are told from the bar on."""
        return answers.published(
            self.noise, self.query, self.neighbor_relation, intervals.Support.at_least(self.threshold)
        )


@dataclass(frozen=True)
class AskSharpLiving(AskEachLiving):
    """By sharp tests, each published count with fresh noise."""

    hit: sharp.HitTerms = field(kw_only=True)

    @cached_property
    def sharpness(self) -> sharp.Sharpness:
        """The test of each key."""
        return self.hit.sharpness(self.query.sensitivity(self.neighbor_relation), self.query.grid)

    @cached_property
    def noise(self) -> Gaussian:
        return self.hit.noise(self.query.sensitivity(self.neighbor_relation))

    @property
    def event(self) -> Event:
        return self.hit.event

    @property
    def terms(self) -> Json:
        return {"price": str(self.hit.price)}

    def tests(self, threshold: int) -> threshold_tests.SharpTests:
        return threshold_tests.SharpTests(self.sharpness.sampler, threshold - self.sharpness.bar, self.noise)

    @property
    def tails(self) -> sharp_tests.SharpTails:
        return self.sharpness.tails

    def published(self) -> intervals.Publication:
        """Counts have noise of their own."""
        return answers.published(self.noise, self.query, self.neighbor_relation, bar=self.threshold)

    def wrong_call(self, distance: int) -> float:
        return self.sharpness.wrong_call(distance)

    def within(self, tests: int, confidence: Number) -> Within:
        return self.sharpness.within(tests, confidence)


# Individual charging as runs: a stream in which each unit pays for itself.

_WAYS: Final = ("epsilon", "price", "within")
_TOLD: Final = "price= (the share of the budget for one hit), within= with tests=, or epsilon= for Laplace noise"


@dataclass(frozen=True)
class StreamState:
    """What is public of a stream: the hits that each unit pays for, and the epsilon of its calls by Laplace noise, or
    of sharp tests (epsilon is None) the share of the budget that a hit took. Counters are not."""

    epsilon: Fraction | None
    hits: int
    price: float | None = None


@call("individual_stream", subject="individual")
class IndividualTests(run.Opening[run.KeyedRun[LivingCount, answers.WatchResult, StreamState]]):
    """Open a stream in which each unit pays for itself: for `hits` hits, then it drops out.

    Guarantee (theorem 2.10 of [TCT], and for sharp tests docs/individual.md): for every unit that of `hits` hits (twice
    as many under `replace`, since each of two units may be in `hits` answers that the other is not in), whatever is
    asked and for how long, all charged now. Nothing is read. Afterwards the stream is free and never ends.

    How sharply is said in one way: `price`, the share of the whole budget for one hit; `within` with `tests`, so many
    tests together are right within so many units, with probability `sure` (0.95); or `epsilon`, calls of
    `Targeted(epsilon)`. The first two are `SharpTest`, and what is published has noise of its own, for the part
    `value` (a quarter) of the price; with `tests` the bar lies half way between false alarms and misses.

    Errors: `InvalidQuery` for rows without unit ids, `NotPriced` under a filter that charges misses, and for sharp
    tests under any but the Renyi filter."""

    _: KW_ONLY
    epsilon: fields.Positive | None = None
    hits: fields.Whole
    price: fields.Probability | None = None
    within: fields.Positive | None = None
    tests: fields.Whole | None = None
    sure: fields.Probability | None = None
    value: fields.Probability | None = None

    def __post_init__(self) -> None:
        sharp.check_one_way(self, _WAYS, _TOLD)
        sharp.check_tests(self)

    def bind(self, spine: Spine) -> "OpenIndividual | OpenSharpIndividual":
        neighbor_relation = spine.rows.neighbor_relation
        if self.epsilon is not None:
            return OpenIndividual(self, neighbor_relation)
        filter_ = sharp.priced_by(spine.filter, "open the stream with epsilon= for Laplace noise")
        hit = sharp.HitTerms.found(self.wanted, filter_, Fraction(1), self.value_share)
        return OpenSharpIndividual(self, neighbor_relation, hit)

    @property
    def wanted(self) -> sharp.Wanted:
        """How sharply."""
        return sharp.Wanted.said(self, hits=None)

    @property
    def value_share(self) -> Fraction:
        """The part of the price of a hit that its count takes."""
        return sharp.value_part(self.value)


class OpenIndividual(run.BoundOpening[IndividualTests]):
    """The stream, as it is opened."""

    @property
    def event(self) -> Event:
        return Targeted(self.call.epsilon or 0)

    @property
    def parallel(self) -> int:
        return self.call.hits * (2 if self.neighbor_relation.neighbors is Neighbors.REPLACE else 1)

    def price(self, filter_: Filter) -> Price:
        price = super().price(filter_)
        if not price.free_miss:
            raise NotPriced(
                "a stream never ends, so its misses must be free: open the session with a delta and with grain= the "
                "epsilon of the stream, or make that epsilon smaller"
            )
        return price

    def final(self, price: Price, ran: Result, reserved_hits: int) -> Amount:
        return self.worst(price)

    def body(self) -> Json:
        told = super().body()
        if epsilon := told.pop("epsilon", None):
            told["epsilon_per_call"] = epsilon
        return told | {"hits_per_unit": told.pop("hits")}

    def prepare(self, rows: Rows) -> Sequence[Reading]:
        table_of_units(rows)
        return []

    def run(self, data: Data) -> Result:
        return Result({}, hits=0, tests=0, secret=sketches.Counters(self.call.hits).dump())


@dataclass(frozen=True)
class OpenSharpIndividual(OpenIndividual):
    """A stream of sharp tests, as it is opened.

    The answer keeps the price of a hit: it may have been found in floats, so it is read again and never found anew.
    """

    hit: sharp.HitTerms = field(compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.hit.sharpness(), self.hit.noise()  # refuses what has no table

    @property
    def event(self) -> Event:
        return self.hit.event

    def within(self, tests: int, confidence: Number) -> Within:
        return self.hit.sharpness().within(tests, confidence)

    @property
    def foreseen(self) -> Within | None:
        return sharp.together(self.call, self.within)

    def run(self, data: Data) -> Result:
        ran = super().run(data)
        return Result({"price": str(self.hit.price)}, hits=0, tests=0, secret=ran.secret)


class IndividualRun(run.KeyedRun[LivingCount, answers.WatchResult, StreamState]):
    """`run.ask(query, above=500)`: the noisy count of living units, or `sum` of what they contribute, if it is at or
    above the bar; otherwise nothing. Whether a mean reaches a threshold is asked by `mean(...).shifted(threshold)`.

    An epsilon-DP call with the NotPrior target "published": if it is, every unit in it has one hit less left (in a
    sum is who adds something, however little), and a unit without any left drops out of all later queries. Of a keyed
    query one such number for each key, in one scan: a unit with r hits left takes part in its first r keys, in the
    order of the list, and pays for those of them that are published.

    Errors: `InvalidQuery` for anything but a `count` or a `sum`.
    """

    kind = IndividualTests.kind
    names = "individual"

    @cached_property
    def memory(self) -> CounterMemory:
        """What is kept from question to question."""
        return CounterMemory(self._spine.rows)

    def plan(self, query: Question, *, above: Number) -> AskEachLiving:
        if not isinstance(query, (Count, Sum)) or (isinstance(query, Count) and query.without is not None):
            raise InvalidQuery('a stream counts living units: ask count("age >= 65"), with by(...) for a watch, or sum')
        asked = (self.call, query, self._spine.rows.neighbor_relation, exact(above, "above"), self.memory)
        if self.hit is None:
            return AskLiving(*asked, epsilon=Fraction(self._terms["epsilon_per_call"]))
        return AskSharpLiving(*asked, hit=self.hit)

    @cached_property
    def hit(self) -> sharp.HitTerms | None:
        """What a hit of sharp tests costs and buys, as the opening stored it; None for Laplace noise."""
        if "epsilon_per_call" in self._terms:
            return None
        told = {name: size for name, size in self._terms.items() if name != "hits_per_unit"}
        opening, filter_ = IndividualTests(hits=self._terms["hits_per_unit"], **told), self._renyi
        answer = numbered(self._spine, self.call).answer
        if answer is None:
            raise NotWithheld(f"call {self.call} keeps no counters: it was interrupted; open a new stream")
        return sharp.HitTerms(
            filter_, Fraction(json.loads(answer)["price"]), opening.value_share, opening.wanted.chance
        )

    @property
    def _renyi(self) -> RenyiFilter:
        return sharp.priced_by(self._spine.filter, "open another stream with epsilon=")

    @property
    def state(self) -> StreamState:
        hits = self._terms["hits_per_unit"]
        if self.hit is None:
            return StreamState(Fraction(self._terms["epsilon_per_call"]), hits)
        filter_ = self._renyi
        return StreamState(None, hits, filter_.shares.taken(filter_.price(self.hit.event).hit))
