"""Individual charging ([TCT] Algorithm 5): every unit has a budget of hits, and drops out when it has used it up."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache

from chary.accounting import Event, NoiseLaw, Publication, Support, Targeted
from chary.accounting.intervals import Tails
from chary.accounting.sharp_tests import SharpTails
from chary.answers import Answer
from chary.calls.answers import NumberOrNothing, published, silent
from chary.calls.thresholds.hit_terms import HitTerms
from chary.calls.thresholds.sharpness import Sharpness
from chary.calls.thresholds.tested_keys import WatchResult
from chary.core.plan import Json, Paid, Ran, Touched, Within, laplace_for_each, natural, steps_at_least
from chary.data import Count, Neighbouring, Query, Reading, Rows, Total
from chary.data.engines.engine import LivingReading
from chary.data.rows.living import living
from chary.data.rows.rooms import Rooms
from chary.errors import UnknownHeld
from chary.mechanisms import Additive, BarTests, Gaussian, Laplace
from chary.mechanisms.sketches import Counters
from chary.mechanisms.threshold_tests import SharpTests
from chary.numbers import Number

# Compiled queries that a stream keeps: those of a dashboard that asks a few dozen again and again.
PLANS = 64


class LivingCount(NumberOrNothing):
    """A noisy count of the units that still live, or total of what they contribute, if it reached the bar, which raised
    the counters of the units in it; otherwise nothing (`value` is None)."""


class CounterMemory:
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
class AskEachLiving(Paid):
    """One query of a stream, or one for each key, as it is run: free, it was paid when the stream was opened.

    Answer and counters come from one state of the rows and are stored in one transaction. An outcome on counters that
    moved meanwhile is thrown away by the spine, unseen. A total moves by at most the query's sensitivity with a unit,
    and each unit that adds something pays for a whole hit, however little it adds. Of several keys a unit takes part in
    no more than its counter leaves it, the first ones.
    """

    opened: int
    query: Count | Total
    neighbouring: Neighbouring
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
    def tests(self, threshold: int) -> BarTests | SharpTests:
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
            raise UnknownHeld(f"call {self.opened} keeps no counters: it was interrupted; open a new stream")

    def body(self) -> Json:
        question = {"query": self.query.body(), "above": str(self.above)} | self.terms
        return question | {"individual": self.opened, "parallel": self.query.reach(self.neighbouring)}

    def queries(self) -> Sequence[Query]:
        return [self.query]

    def prepare(self, rows: Rows) -> Sequence[Reading]:
        return [self.memory.plan(self.query)]

    def run(self, touched: Touched) -> Ran:
        secret = touched.secret or b""
        counters, rooms = self.memory.standing(secret)
        plan: LivingReading = touched.values[0]
        with plan.at(rooms) as units:
            found = self.tests(self.threshold).step(units.answers(), touched.source)
            took = units.of(found.positions) if found.positions else None
        new = secret if took is None else counters.raised(took).dump()
        answer = {"positions": found.positions, "noisy": found.noisy}
        return Ran(answer, hits=len(found.positions), tests=found.tested, secrets={self.opened: new})

    def present(self, answer: Json, call: int) -> Answer:
        noisy, told = [natural(steps, self.query.grid) for steps in answer["noisy"]], self.published()
        bar = None if told.bar is None else self.error_bar
        if self.query.keys is None:
            return LivingCount(call, noisy[0] if noisy else None, bar, publication=told)
        keys = tuple(self.query.keys)
        above = {keys[position]: value for position, value in zip(answer["positions"], noisy, strict=True)}
        silence = silent(self.tails, self.query, self.neighbouring, self.threshold)
        return WatchResult(call, self.query.columns, keys, above, len(keys), bar, publication=told, silence=silence)

    @property
    @abstractmethod
    def tails(self) -> Tails:
        """How often a test reports."""

    @abstractmethod
    def published(self) -> Publication:
        """How counts were published: because of their noise, or with noise of their own."""


@dataclass(frozen=True)
class AskLiving(AskEachLiving):
    """By Laplace noise, which is that of the count as well."""

    decides = True

    epsilon: Fraction = field(kw_only=True)

    @cached_property
    def noise(self) -> Laplace:
        return laplace_for_each(self.query, self.neighbouring, self.epsilon)

    @cached_property
    def event(self) -> Event:
        return Targeted(self.epsilon)

    @property
    def terms(self) -> Json:
        return {"epsilon": str(self.epsilon)}

    def tests(self, threshold: int) -> BarTests:
        return BarTests(self.noise, threshold)

    @property
    def tails(self) -> NoiseLaw:
        return self.noise.law()

    def published(self) -> Publication:
        """Counts are told from the bar on."""
        return published(self.noise, self.query, self.neighbouring, Support.at_least(self.threshold))


@dataclass(frozen=True)
class AskSharpLiving(AskEachLiving):
    """By sharp tests, each published count with fresh noise."""

    hit: HitTerms = field(kw_only=True)

    @cached_property
    def sharpness(self) -> Sharpness:
        """The test of each key."""
        return self.hit.sharpness(self.query.sensitivity(self.neighbouring), self.query.grid)

    @cached_property
    def noise(self) -> Gaussian:
        return self.hit.noise(self.query.sensitivity(self.neighbouring))

    @property
    def event(self) -> Event:
        return self.hit.event

    @property
    def terms(self) -> Json:
        return {"price": str(self.hit.price)}

    def tests(self, threshold: int) -> SharpTests:
        return SharpTests(self.sharpness.sampler, threshold - self.sharpness.bar, self.noise)

    @property
    def tails(self) -> SharpTails:
        return self.sharpness.tails

    def published(self) -> Publication:
        """Counts have noise of their own."""
        return published(self.noise, self.query, self.neighbouring, bar=self.threshold)

    def wrong_call(self, distance: int) -> float:
        return self.sharpness.wrong_call(distance)

    def within(self, tests: int, confidence: Number) -> Within:
        return self.sharpness.within(tests, confidence)
