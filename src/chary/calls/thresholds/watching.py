"""Many tests at once: one for each key of a query, in order and in one scan."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from chary.accounting import Event, NoiseLaw, Publication, Silence, Support, Targeted
from chary.accounting.intervals import Tails
from chary.accounting.sharp_tests import SharpTails
from chary.calls.answers import published, silent
from chary.calls.call import call
from chary.calls.fields import AnyQuery
from chary.calls.thresholds.barring import Barring
from chary.calls.thresholds.how_sharply import Sharply, Valued
from chary.calls.thresholds.sharpness import Sharpness
from chary.calls.thresholds.tested_keys import WatchResult
from chary.core.plan import Barred, Json, Question, Ran, Touched, error_bar, laplace_for_each, natural, steps_at_least
from chary.core.transaction import Spine
from chary.data import Query
from chary.errors import InvalidQuery
from chary.mechanisms import Additive, BarTests, Gaussian, Laplace
from chary.mechanisms.additive import Integers
from chary.mechanisms.threshold_tests import SharpTests


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

    query: AnyQuery

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
class AskEachKey(Barring[Any]):
    """Many values against a bar, as they are tested: one test for each.

    The call has a bar `above` and says how sharply; `query` has the sensitivity, the grid and, if any, the keys.
    """

    query: Query
    halts = True

    @cached_property
    def parallel(self) -> int:
        return self.query.reach(self.neighbouring)

    @property
    def at_once(self) -> int:
        return len(self.query.keys or ())

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
        found = self.watch(touched.most_hits).step(self.exact(touched), touched.source)
        answer = {"tested": found.tested, "positions": found.positions, "noisy": found.noisy}
        return Ran(answer, hits=len(found.positions), tests=found.tested)

    def exact(self, touched: Touched) -> Integers:
        """What is tested, in order."""
        return touched.integers()

    def present(self, answer: Json, call: int) -> Any:
        keys = tuple(self.query.keys or ())
        values = [natural(steps, self.query.grid) for steps in answer["noisy"]]
        above = {keys[position]: value for position, value in zip(answer["positions"], values, strict=True)}
        told = self.published()
        bar = None if told.bar is None else error_bar(self.accuracy())
        said = (call, self.query.columns, keys, above, answer["tested"], bar)
        return WatchResult(*said, publication=told, silence=self.silence)

    @property
    def silence(self) -> Silence:
        """What it says of a key that it did not hit."""
        return silent(self.tails, self.query, self.neighbouring, self.threshold)

    @property
    @abstractmethod
    def tails(self) -> Tails:
        """How often a test reports."""

    @abstractmethod
    def published(self) -> Publication:
        """How the values of hits were published: because of their noise, or with noise of their own."""


@dataclass(frozen=True)
class AskWatch(AskEachKey):
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
    def tails(self) -> NoiseLaw:
        return self.noise.law()

    @property
    def barred(self) -> Barred:
        return self.against(self.tails, self.query, self.threshold, shared=self.tails)

    def watch(self, most_hits: int | None) -> BarTests:
        return BarTests(self.noise, self.threshold, most_hits)

    def published(self) -> Publication:
        return published(self.noise, self.query, self.neighbouring, Support.at_least(self.threshold))


@dataclass(frozen=True)
class AskSharpWatch(Sharply, AskEachKey):
    """By sharp tests, each hit with a fresh value."""

    sharpness: Sharpness

    @property
    def tails(self) -> SharpTails:
        return self.sharpness.tails

    @property
    def barred(self) -> Barred:
        return self.against(self.tails, self.query, self.threshold)

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
