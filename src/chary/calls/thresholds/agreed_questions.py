"""Questions to a run of agreed sharp tests: what is told, what is charged, how many tests are used up."""

import json
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from chary.accounting import Event, Publication
from chary.amounts import Amount
from chary.answers import Value
from chary.calls.answers import AboveOrNot, published, silent
from chary.calls.thresholds.agreed_terms import AgreedTerms
from chary.calls.thresholds.sharpness import Sharpness
from chary.calls.thresholds.tested_keys import TestedKeys
from chary.calls.thresholds.testing import tested_query
from chary.calls.thresholds.watching import keyed
from chary.core.plan import (
    Barred,
    Interaction,
    Json,
    Question,
    Ran,
    Touched,
    Within,
    check_question,
    error_bar,
    least_of,
    natural,
)
from chary.data import Mean, Neighbouring, Query
from chary.errors import BudgetRefused, InvalidQuery, UnknownHeld
from chary.filters import Filter, Price
from chary.mechanisms import Additive, Gaussian
from chary.mechanisms.threshold_tests import SharpTests
from chary.numbers import Number, exact


@dataclass(frozen=True)
class AgreedTest(AboveOrNot):
    """Whether one question was at or above its bar; `value` is that of a hit where the run publishes values, else None.

    `tests_left` is how many tests were left after it.
    """

    tests_left: int


@dataclass(frozen=True)
class AgreedWatch(TestedKeys):
    """Which keys were at or above the bar, with their values where the run publishes values, else None.

    A scan ends at the last hit that the budget can pay for: later keys are `untested`. `tests_left` is how many tests
    were left after it.
    """

    tests_left: int


def used(tests: int) -> bytes:
    """The state of a run, of which all is public: how many of its tests are used up."""
    return json.dumps([tests]).encode()


def used_up(state: bytes | None, opened: int) -> int:
    """What `used` wrote for the run of that call; `UnknownHeld` for an opening that was interrupted."""
    if state is None:
        raise UnknownHeld(f"call {opened} agreed on no tests: it was interrupted; open a new run")
    (tests,) = json.loads(state)
    return int(tests)


@dataclass(frozen=True)
class AskAgreed(Interaction):
    """One question to the run, or one for each key in order.

    Guarantee: each key is the test of the run's terms. Its miss was charged by the opening, for as many keys as one
    unit can be in (`parallel`); at most as many hits concern it (theory 1.6), and each is reserved before anything is
    read. The number of tests that are used up is stored with the answer, in one transaction, and only if no other
    question was faster: otherwise the outcome is thrown away by the spine, unseen. So no more are answered than were
    agreed on, whatever fails or races. A question that got no answer uses up none.
    """

    opened: int
    terms: AgreedTerms
    query: Question
    neighbouring: Neighbouring
    above: Number
    halts = True

    def __post_init__(self) -> None:
        check_question(self.query)
        object.__setattr__(self, "above", exact(self.above, "above"))
        if self.terms.plan.value and isinstance(self.query, Mean):
            raise InvalidQuery("a mean has no fresh value: ask its total, or agree on tests without value=")
        self.sharpness, self.accuracy()

    @cached_property
    def _tested(self) -> tuple[Query, int]:
        return tested_query(self.query, self.neighbouring, Fraction(self.above))

    @property
    def tested(self) -> Query:
        """What is read."""
        return self._tested[0]

    @property
    def threshold(self) -> int:
        """The bar, in steps of what is read."""
        return self._tested[1]

    @cached_property
    def sharpness(self) -> Sharpness:
        """The test of each key."""
        return self.terms.sharpness(self.tested.sensitivity(self.neighbouring), self.tested.grid)

    @cached_property
    def noise(self) -> Gaussian | None:
        """The noise of the value of a hit; None where no values are published."""
        rho = self.sharpness.value_rho
        if rho is None:
            return None
        return Gaussian.for_rho(rho, l2_squared=self.tested.sensitivity(self.neighbouring) ** 2)

    def accuracy(self) -> tuple[Additive, Fraction] | None:
        return None if self.noise is None else (self.noise, self.sharpness.grid)

    @property
    def event(self) -> Event:
        return self.sharpness.event

    @cached_property
    def parallel(self) -> int:
        return self.tested.reach(self.neighbouring)

    def price(self, filter_: Filter) -> Price:
        return Price(Amount(self.terms.charges.hit), Amount(0))

    def within(self, tests: int, confidence: Number) -> Within:
        return self.sharpness.within(tests, confidence)

    @property
    def barred(self) -> Barred | None:
        if isinstance(self.query, Mean):
            return None
        tests, least = max(self.terms.tests, len(self.tested.keys or (None,))), least_of(self.tested, self.neighbouring)
        return Barred(self.sharpness.tails, self.threshold, self.tested.grid, tests, least)

    @property
    def foreseen(self) -> Within:
        return self.within(self.terms.tests, self.terms.plan.sure)

    def wrong_call(self, distance: int) -> float:
        return self.sharpness.wrong_call(distance)

    @property
    def held(self) -> int:
        return self.opened

    def check(self, secret: bytes | None) -> None:
        left = self.terms.tests - used_up(secret, self.opened)
        if left < self.parallel:
            raise BudgetRefused(
                f"{left} of the {self.terms.tests} tests of call {self.opened} are left, and this question takes "
                f"{self.parallel}: open another run, or ask Test or Watch with hits=, whose misses are free"
            )

    def body(self) -> Json:
        asked = {"query": self.query.body(), "above": str(self.above)}
        return asked | {"agreed_tests": self.opened, "parallel": self.parallel}

    def queries(self) -> Sequence[Query]:
        return [self.tested]

    def run(self, touched: Touched) -> Ran:
        bar = self.threshold - self.sharpness.bar
        tests = SharpTests(self.sharpness.sampler, bar, self.noise, touched.most_hits)
        found = tests.step(touched.integers(), touched.source)
        after = used_up(touched.secret, self.opened) + self.parallel
        answer = {"tested": found.tested, "positions": found.positions, "noisy": found.noisy}
        answer["tests_left"] = self.terms.tests - after
        return Ran(answer, len(found.positions), found.tested, secrets={self.opened: used(after)})

    @property
    def published(self) -> Publication | None:
        """How the values of hits were published; None where none are."""
        if self.noise is None:
            return None
        return published(self.noise, self.tested, self.neighbouring, bar=self.threshold)

    def _values(self, answer: Json) -> list[Value | None]:
        if self.noise is None:
            return [None] * len(answer["positions"])
        return [natural(steps, self.sharpness.grid) for steps in answer["noisy"]]

    @abstractmethod
    def present(self, answer: Json, call: int) -> AgreedTest | AgreedWatch: ...


class AskAgreedOnce(AskAgreed):
    """A question with a single answer."""

    kind = "agreed_test"

    def present(self, answer: Json, call: int) -> AgreedTest:
        values = self._values(answer)
        value = values[0] if values else None
        bar, left = error_bar(self.accuracy()), answer["tests_left"]
        return AgreedTest(call, bool(values), value, bar, left, publication=self.published)


class AskAgreedKeys(AskAgreed):
    """A keyed question, in one scan."""

    kind = "agreed_watch"

    def __post_init__(self) -> None:
        keyed(self.query)
        super().__post_init__()

    def present(self, answer: Json, call: int) -> AgreedWatch:
        keys = tuple(self.query.keys or ())
        above = dict(zip([keys[position] for position in answer["positions"]], self._values(answer), strict=True))
        found = (above, answer["tested"], error_bar(self.accuracy()))
        left, silence = (
            answer["tests_left"],
            silent(self.sharpness.tails, self.tested, self.neighbouring, self.threshold),
        )
        return AgreedWatch(call, self.tested.columns, keys, *found, left, publication=self.published, silence=silence)
