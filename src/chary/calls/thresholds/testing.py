"""Private tests, alone or over many keys: True and the published values are hits, False is free."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

from chary.accounting import Event, Publication, Support, Targeted
from chary.calls.answers import YesOrNo, published
from chary.calls.call import call
from chary.calls.thresholds.barring import Barring, tails_of
from chary.calls.thresholds.sharpness import Sharply, Sharpness, Threshold, Valued
from chary.calls.thresholds.tested_keys import WatchResult
from chary.data import Mean, Neighbouring, Query
from chary.errors import InvalidQuery
from chary.mechanisms import Additive, BarTests, Gaussian, Laplace
from chary.mechanisms.thresholds.sharp_tests import SharpTests
from chary.numbers import exact
from chary.spine.interaction import (
    ENCODER,
    KEPT,
    Asked,
    Json,
    Question,
    Ran,
    Touched,
    error_bar,
    laplace_for_each,
    natural,
    steps_at_least,
    threshold_body,
)
from chary.spine.outlook import Barred
from chary.spine.spine import Spine


@dataclass(frozen=True)
class Tested(YesOrNo):
    """Whether the query is at or above the bar, up to noise; as a condition it is its `value`."""

    @property
    def hit(self) -> bool:
        return self.value


@call("test", subject="thresholds")
class Test(Threshold[Tested]):
    """Whether a query is at or above a threshold, up to noise: True is charged, False is free.

    Guarantee: with `epsilon`, one epsilon-DP call with the NotPrior target "True" ([TCT] section 4); otherwise
    `SharpTest` at the order of the session's filter. A mean is tested through the sum of its differences from the
    threshold, which needs no count. With `tests` the bar lies half way between false alarms and misses; without, a
    value at the bar hits with one half.

    >>> from chary import count
    >>> Test(count("age >= 65"), above=500, epsilon="0.02").body()["above"]
    '500'
    """

    def bind(self, spine: Spine) -> "AskTest | AskSharpTest":
        if self.query.keys is not None:
            raise InvalidQuery("a keyed query is tested by session.watch(query, above=..., hits=...)")
        neighbouring = spine.rows.neighbouring
        if self.epsilon is not None:
            return AskTest(self, neighbouring)
        tested, threshold = tested_query(self.query, neighbouring, exact(self.above, "above"))
        sharpness = self.sharpness(spine.filter, tested.sensitivity(neighbouring), tested.grid, Fraction(0))
        return AskSharpTest(self, neighbouring, sharpness, tested, threshold)


class AskTest(Barring[Test]):
    """The test, as it is run."""

    decides = True

    @cached_property
    def asked(self) -> Asked:
        """What follows from the question; refuses a mean that cannot be shifted, and noise out of range."""
        return _asked(self.call.query, self.neighbouring, self.call.above, self.call.epsilon or 0)

    def accuracy(self) -> tuple[Additive, Fraction] | None:
        query = self.call.query
        return None if isinstance(query, Mean) else (self.asked.noises[0], query.grid)

    @property
    def barred(self) -> Barred | None:
        if isinstance(self.call.query, Mean):
            return None
        return self.against(self.asked.noises[0].law(), self.call.query, self.asked.threshold)

    @property
    def event(self) -> Event:
        return self.asked.event

    def text(self) -> str:
        return self.asked.text

    def queries(self) -> Sequence[Query]:
        return self.asked.parts

    def run(self, touched: Touched) -> Ran:
        hit = BarTests(self.asked.noises[0], self.asked.threshold).reached(touched.integer(), touched.source)
        return Ran({"hit": hit}, hits=int(hit), tests=1)

    def present(self, answer: Json, call: int) -> Tested:
        return Tested(call, bool(answer["hit"]))


@dataclass(frozen=True)
class AskSharpTest(Sharply, Barring[Test]):
    """The sharp test, as it is run: of one integer against a threshold in steps."""

    sharpness: Sharpness
    tested: Query
    threshold: int

    @property
    def bar_step(self) -> Fraction | None:
        return None if isinstance(self.call.query, Mean) else self.tested.grid

    @property
    def barred(self) -> Barred | None:
        if isinstance(self.call.query, Mean):
            return None
        return self.against(tails_of(self.sharpness), self.tested, self.threshold)

    def queries(self) -> Sequence[Query]:
        return (self.tested,)

    def run(self, touched: Touched) -> Ran:
        above = touched.integer() - self.threshold + self.sharpness.bar
        hit = self.sharpness.sampler.step(above, touched.source)
        return Ran({"hit": hit}, hits=int(hit), tests=1)

    def present(self, answer: Json, call: int) -> Tested:
        return Tested(call, bool(answer["hit"]))


@lru_cache(maxsize=KEPT)
def _asked(query: Question, neighbouring: Neighbouring, above: Fraction, epsilon: Fraction) -> Asked:
    """Refuses a mean that cannot be shifted by this threshold, and noise out of range."""
    tested, threshold = tested_query(query, neighbouring, above)
    noises = (laplace_for_each(tested, neighbouring, epsilon),)
    text = ENCODER.encode(threshold_body(query, above, epsilon))
    return Asked((tested,), noises, Targeted(epsilon), text, threshold)


def tested_query(query: Question, neighbouring: Neighbouring, above: Fraction) -> tuple[Query, int]:
    """What is read instead of the question, and its threshold in steps."""
    if isinstance(query, Mean):
        query.parts(neighbouring)  # refuses a mean without a limit on rows, in the words of a mean
        return query.shifted(above), 0
    return query, steps_at_least(above, query.grid)


@call("watch", subject="thresholds")
class Watch(Valued[WatchResult]):
    """Test every key of a keyed query, in order and in one scan; keys that hit come with their noisy value.

    Guarantee: each key is an epsilon-DP call with the NotPrior target "published", or a `SharpTest` (see `Test`) whose
    hit comes with a fresh value: Gaussian noise of its own, unbiased, for the part `value` of the price of a hit (a
    quarter). One unit can be in only so many keys (`keep_per_unit`, `stated_per_unit`, or all of them), and at most
    that many hits are charged (theory 1.6). When the budget cannot pay for that many, the watch halts at the last hit
    that fits; later keys are `untested`.

    >>> from chary import count
    >>> Watch(count().by("clinic", ["north", "south"]), above=500, epsilon="0.02").kind
    'watch'
    """

    def bind(self, spine: Spine) -> "AskWatch | AskSharpWatch":
        neighbouring, query = spine.rows.neighbouring, keyed(self.query)
        if self.epsilon is not None:
            return AskWatch(self, neighbouring, query)
        sharpness = self.sharpness(spine.filter, query.sensitivity(neighbouring), query.grid, self.value_share)
        return AskSharpWatch(self, neighbouring, query, sharpness)


def keyed(query: Question) -> Query:
    """The query if it can be watched: it has public keys and one value for each; otherwise `InvalidQuery`."""
    if not isinstance(query, Query) or query.keys is None:
        raise InvalidQuery(
            'watch needs a count, a total or a series with public keys, such as count().by("clinic", ["a", "b"])'
        )
    return query


@dataclass(frozen=True)
class _AskEachKey(Barring[Watch]):
    """A watch, as it is run: one test for each key."""

    query: Query
    halts = True

    @cached_property
    def parallel(self) -> int:
        return self.query.reach(self.neighbouring)

    def body(self) -> Json:
        return super().body() | {"parallel": self.parallel}

    def queries(self) -> Sequence[Query]:
        return [self.query]

    @cached_property
    def threshold(self) -> int:
        """The bar in steps."""
        return steps_at_least(self.call.above, self.query.grid)

    @abstractmethod
    def watch(self, most_hits: int | None) -> BarTests | SharpTests:
        """The tests of all keys."""

    def run(self, touched: Touched) -> Ran:
        found = self.watch(touched.most_hits).step(touched.integers(), touched.source)
        answer = {"tested": found.tested, "positions": found.positions, "noisy": found.noisy}
        return Ran(answer, hits=len(found.positions), tests=found.tested)

    def present(self, answer: Json, call: int) -> WatchResult:
        keys = tuple(self.query.keys or ())
        values = [natural(steps, self.query.grid) for steps in answer["noisy"]]
        above = {keys[position]: value for position, value in zip(answer["positions"], values, strict=True)}
        told = self.published()
        bar = None if told.bar is None else error_bar(self.accuracy())
        return WatchResult(call, self.query.columns, keys, above, answer["tested"], bar, publication=told)

    @abstractmethod
    def published(self) -> Publication:
        """How the values of hits were published: because of their noise, or with noise of their own."""


@dataclass(frozen=True)
class AskWatch(_AskEachKey):
    """By Laplace noise, which is that of the value as well."""

    decides = True

    def accuracy(self) -> tuple[Additive, Fraction]:
        return self.noise, self.query.grid

    @cached_property
    def noise(self) -> Laplace:
        """The noise of each key's value."""
        return laplace_for_each(self.query, self.neighbouring, self.call.epsilon or 0)

    @cached_property
    def event(self) -> Event:
        return Targeted(self.call.epsilon or 0)

    @property
    def barred(self) -> Barred:
        law = self.noise.law()
        return self.against(law, self.query, self.threshold, shared=law)

    def watch(self, most_hits: int | None) -> BarTests:
        return BarTests(self.noise, self.threshold, most_hits)

    def published(self) -> Publication:
        return published(self.noise, self.query, self.neighbouring, Support.at_least(self.threshold))


@dataclass(frozen=True)
class AskSharpWatch(Sharply, _AskEachKey):
    """By sharp tests, each hit with a fresh value."""

    sharpness: Sharpness

    @property
    def barred(self) -> Barred:
        return self.against(tails_of(self.sharpness), self.query, self.threshold)

    def accuracy(self) -> tuple[Additive, Fraction]:
        return self.noise, self.query.grid

    @cached_property
    def noise(self) -> Gaussian:
        """The noise of the value of a hit."""
        change = self.query.sensitivity(self.neighbouring)
        return Gaussian.for_rho(self.sharpness.value_rho or 0, l2_squared=change**2)

    def watch(self, most_hits: int | None) -> SharpTests:
        return SharpTests(self.sharpness.sampler, self.threshold - self.sharpness.bar, self.noise, most_hits)

    def published(self) -> Publication:
        return published(self.noise, self.query, self.neighbouring, bar=self.threshold)
