"""Private tests, alone or over many keys: True and the published values are hits, False is free."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

from chary.accounting import Event, Targeted
from chary.calls.answers import YesOrNo
from chary.calls.call import call
from chary.calls.fields import AnyQuery
from chary.calls.thresholds.barring import Barring
from chary.calls.thresholds.how_sharply import Sharply, Threshold
from chary.calls.thresholds.sharpness import Sharpness
from chary.core.plan import (
    ENCODER,
    KEPT,
    Asked,
    Barred,
    Json,
    Question,
    Ran,
    Touched,
    laplace_for_each,
    steps_at_least,
    threshold_body,
)
from chary.core.transaction import Spine
from chary.data import Mean, Neighbouring, Query
from chary.errors import InvalidQuery
from chary.mechanisms import Additive, BarTests
from chary.numbers import exact


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

    query: AnyQuery

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

    raced = True

    decides = True

    @cached_property
    def asked(self) -> Asked:
        """What follows from the question; refuses a mean that cannot be shifted, and noise out of range."""
        return _test_asked(self.call.query, self.neighbouring, self.call.above, self.call.epsilon or 0)

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

    raced = True

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
        return self.against(self.sharpness.tails, self.tested, self.threshold)

    def queries(self) -> Sequence[Query]:
        return (self.tested,)

    def run(self, touched: Touched) -> Ran:
        above = touched.integer() - self.threshold + self.sharpness.bar
        hit = self.sharpness.sampler.step(above, touched.source)
        return Ran({"hit": hit}, hits=int(hit), tests=1)

    def present(self, answer: Json, call: int) -> Tested:
        return Tested(call, bool(answer["hit"]))


@lru_cache(maxsize=KEPT)
def _test_asked(query: Question, neighbouring: Neighbouring, above: Fraction, epsilon: Fraction) -> Asked:
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
