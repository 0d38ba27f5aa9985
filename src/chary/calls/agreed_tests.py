"""A fixed number of tests whose misses are prepaid: opening, questions and state."""

import json
import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Self

from chary.accounting import Event, Publication
from chary.accounting.sharp_tests import LEAST_SPEED, SharpTest, least_price, sharp_table
from chary.accounting.sharp_widths import best_share, check_chance, half_width
from chary.amounts import Amount
from chary.answers import Value
from chary.calls import answers, fields, run, thresholds
from chary.calls.call import call
from chary.calls.sharpness import SURE, Sharpness, chance_of_each, priced_by, rho_of
from chary.core import forecast
from chary.core import plan as core_plan
from chary.core.transaction import Spine, numbered
from chary.data import Mean, NeighborRelation, Query
from chary.errors import BudgetExceeded, InvalidParameter, InvalidQuery, NotWithheld
from chary.filters import Filter, Price, RenyiFilter
from chary.mechanisms import Additive, Gaussian
from chary.mechanisms.threshold_tests import SharpSampler, SharpTests
from chary.numbers import Number, exact, whole

# What a number of sharp tests is agreed at: what each miss and each hit costs, and the law of each test.


@dataclass(frozen=True)
class AgreedPlan:
    """So many tests, as many hits as are to fit beside their misses, and how to divide what they may take.

    `main` is that in steps of the filter; `misses` is the part of it for misses, None for the best one; `value` is the
    part of the price of a hit for its value. All tests are to be right together with probability `sure`.
    """

    tests: int
    hits: int
    main: int
    misses: Fraction | None
    value: Fraction
    sure: Fraction

    @property
    def chance(self) -> Fraction:
        """The chance of a false alarm, or of a miss, from where on a test counts as right."""
        return chance_of_each(self.sure, self.tests)

    def charges(self, share: Fraction) -> "Charges":
        """Whole steps for each miss from this share, and for each hit from all that it leaves."""
        miss = int(share * self.main) // self.tests
        return Charges((self.main - miss * self.tests) // self.hits, miss)


@dataclass(frozen=True)
class Charges:
    """What is charged, in steps of the filter: a miss in advance, and a hit above that when it comes.

    A test that hits was paid a miss in advance, so its price is the sum of both.
    """

    hit: int
    miss: int

    def of(self, filter_: RenyiFilter, value: Fraction) -> SharpTest:
        """The test that these charges buy, once the part `value` of the price of a hit went to its value.

        `InvalidParameter` where the rest would be less than a miss.
        """
        hit, miss = Fraction(self.hit, filter_.steps), Fraction(self.miss, filter_.steps)
        return SharpTest(filter_.order, (hit + miss) * (1 - value), miss)

    def body(self) -> core_plan.Json:
        """What the ledger keeps of them: they are found in floats, so they are read again and never found anew."""
        return {"hit": self.hit, "miss": self.miss}


@dataclass(frozen=True)
class AgreedTerms:
    """A plan under a filter, with its charges."""

    plan: AgreedPlan
    charges: Charges
    filter: RenyiFilter

    @classmethod
    def planned(cls, plan: AgreedPlan, filter_: RenyiFilter) -> Self:
        """With the charges that follow from the plan; `InvalidParameter` where they buy no test."""
        return cls(plan, _charges(plan, filter_), filter_)

    @property
    def tests(self) -> int:
        """How many tests one unit can be in."""
        return self.plan.tests

    @property
    def event(self) -> SharpTest:
        """What a test may reveal, with the value of its hit."""
        return self.charges.of(self.filter, Fraction(0))

    @property
    def paid(self) -> Amount:
        """All misses."""
        return Amount(self.charges.miss).times(self.tests)

    def sharpness(self, sensitivity: int, grid: Fraction) -> Sharpness:
        """The test of values that one unit moves by so many steps."""
        return _sharpness(self, sensitivity, grid)

    def within(self, tests: int, confidence: Number) -> forecast.Within:
        """How far off so many tests may be together, in sensitivities."""
        return self.sharpness(1, Fraction(1)).within(tests, confidence)


@lru_cache(maxsize=core_plan.KEPT)
def _charges(plan: AgreedPlan, filter_: RenyiFilter) -> Charges:
    check_chance(plan.chance)

    def width(share: Fraction) -> float:
        try:
            test = plan.charges(share).of(filter_, plan.value)
            return half_width(test, float(plan.chance)) if _has_table(test) else math.inf
        except InvalidParameter:  # a price at which a test tells nothing
            return math.inf

    share = best_share(width) if plan.misses is None else plan.misses
    charges = plan.charges(share)
    if charges.hit == 0 or width(share) == math.inf:
        raise InvalidParameter(
            "so little is left for each hit that it tells nothing: agree on fewer hits, or on a smaller part for misses"
        )
    if share and charges.miss == 0:
        raise InvalidParameter("so small a part for misses pays for none of them: give a larger misses=, or misses=0")
    return charges


def _has_table(test: SharpTest) -> bool:
    return Fraction(test.price) >= least_price(Fraction(test.order), LEAST_SPEED)


@lru_cache(maxsize=core_plan.KEPT)
def _sharpness(terms: AgreedTerms, sensitivity: int, grid: Fraction) -> Sharpness:
    filter_, value = terms.filter, terms.plan.value
    test = terms.charges.of(filter_, value)
    table = sharp_table(
        order=filter_.order, price=Fraction(test.price), miss_price=Fraction(test.miss_price), steps=sensitivity
    )
    rho = rho_of(Fraction(terms.event.price) * value, filter_.order) if value else None
    return Sharpness(terms.event, SharpSampler(table), table.bar(terms.plan.chance), rho, grid)


# Questions to a run of agreed sharp tests: what is told, what is charged, how many tests are used up.


@dataclass(frozen=True)
class AgreedTest(answers.AboveOrNot):
    """Whether one question was at or above its bar; `value` is that of a hit where the run publishes values, else None.

    `tests_left` is how many tests were left after it.
    """

    tests_left: int


@dataclass(frozen=True)
class AgreedWatch(answers.TestedKeys):
    """Which keys were at or above the bar, with their values where the run publishes values, else None.

    A scan ends at the last hit that the budget can pay for: later keys are `untested`. `tests_left` is how many tests
    were left after it.
    """

    tests_left: int


def used(tests: int) -> bytes:
    """The state of a run, of which all is public: how many of its tests are used up."""
    return json.dumps([tests]).encode()


def used_up(state: bytes | None, opened: int) -> int:
    """What `used` wrote for the run of that call; `NotWithheld` for an opening that was interrupted."""
    if state is None:
        raise NotWithheld(f"call {opened} agreed on no tests: it was interrupted; open a new run")
    (tests,) = json.loads(state)
    return int(tests)


@dataclass(frozen=True)
class AskAgreed(core_plan.Interaction):
    """One question to the run, or one for each key in order.

    Guarantee: each key is the test of the run's terms. Its miss was charged by the opening, for as many keys as one
    unit can be in (`parallel`); at most as many hits concern it (theory 1.6), and each is reserved before anything is
    read. The number of tests that are used up is stored with the answer, in one transaction, and only if no other
    question was faster: otherwise the outcome is thrown away by the spine, unseen. So no more are answered than were
    agreed on, whatever fails or races. A question that got no answer uses up none.
    """

    opened: int
    terms: AgreedTerms
    query: core_plan.Question
    neighbor_relation: NeighborRelation
    above: Number
    halts = True

    def __post_init__(self) -> None:
        core_plan.check_question(self.query)
        object.__setattr__(self, "above", exact(self.above, "above"))
        if self.terms.plan.value and isinstance(self.query, Mean):
            raise InvalidQuery("a mean has no fresh value: ask its sum, or agree on tests without value=")
        self.sharpness, self.accuracy()

    @cached_property
    def _tested(self) -> tuple[Query, int]:
        return thresholds.tested_query(self.query, self.neighbor_relation, Fraction(self.above))

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
        return self.terms.sharpness(self.tested.sensitivity(self.neighbor_relation), self.tested.grid)

    @cached_property
    def noise(self) -> Gaussian | None:
        """The noise of the value of a hit; None where no values are published."""
        rho = self.sharpness.value_rho
        if rho is None:
            return None
        return Gaussian.for_rho(rho, l2_squared=self.tested.sensitivity(self.neighbor_relation) ** 2)

    def accuracy(self) -> tuple[Additive, Fraction] | None:
        return None if self.noise is None else (self.noise, self.sharpness.grid)

    @property
    def event(self) -> Event:
        return self.sharpness.event

    @cached_property
    def parallel(self) -> int:
        return self.tested.reach(self.neighbor_relation)

    def price(self, filter_: Filter) -> Price:
        return Price(Amount(self.terms.charges.hit), Amount(0))

    def within(self, tests: int, confidence: Number) -> forecast.Within:
        return self.sharpness.within(tests, confidence)

    @property
    def barred(self) -> forecast.TestForecast | None:
        if isinstance(self.query, Mean):
            return None
        tests, least = (
            max(self.terms.tests, len(self.tested.keys or (None,))),
            forecast.least_of(self.tested, self.neighbor_relation),
        )
        return forecast.TestForecast(self.sharpness.tails, self.threshold, self.tested.grid, tests, least)

    @property
    def foreseen(self) -> forecast.Within:
        return self.within(self.terms.tests, self.terms.plan.sure)

    def wrong_call(self, distance: int) -> float:
        return self.sharpness.wrong_call(distance)

    @property
    def held(self) -> int:
        return self.opened

    def check(self, secret: bytes | None) -> None:
        left = self.terms.tests - used_up(secret, self.opened)
        if left < self.parallel:
            raise BudgetExceeded(
                f"{left} of the {self.terms.tests} tests of call {self.opened} are left, and this question takes "
                f"{self.parallel}: open another run, or ask ThresholdTest or Watch with hits=, whose misses are free"
            )

    def body(self) -> core_plan.Json:
        asked = {"query": self.query.body(), "above": str(self.above)}
        return asked | {"agreed_tests": self.opened, "parallel": self.parallel}

    def queries(self) -> Sequence[Query]:
        return [self.tested]

    def run(self, data: core_plan.Data) -> core_plan.Result:
        bar = self.threshold - self.sharpness.bar
        tests = SharpTests(self.sharpness.sampler, bar, self.noise, data.most_hits)
        found = tests.step(data.integers(), data.source)
        after = used_up(data.secret, self.opened) + self.parallel
        answer = {"tested": found.tested, "positions": found.positions, "noisy": found.noisy}
        answer["tests_left"] = self.terms.tests - after
        return core_plan.Result(answer, len(found.positions), found.tested, secrets={self.opened: used(after)})

    @property
    def published(self) -> Publication | None:
        """How the values of hits were published; None where none are."""
        if self.noise is None:
            return None
        return answers.published(self.noise, self.tested, self.neighbor_relation, bar=self.threshold)

    def _values(self, answer: core_plan.Json) -> list[Value | None]:
        if self.noise is None:
            return [None] * len(answer["positions"])
        return [core_plan.natural(steps, self.sharpness.grid) for steps in answer["noisy"]]

    @abstractmethod
    def present(self, answer: core_plan.Json, call: int) -> AgreedTest | AgreedWatch: ...


class AskAgreedOnce(AskAgreed):
    """A question with a single answer."""

    kind = "agreed_test"

    def present(self, answer: core_plan.Json, call: int) -> AgreedTest:
        values = self._values(answer)
        value = values[0] if values else None
        bar, left = forecast.error_bar(self.accuracy()), answer["tests_left"]
        return AgreedTest(call, bool(values), value, bar, left, publication=self.published)


class AskAgreedKeys(AskAgreed):
    """A keyed question, in one scan."""

    kind = "agreed_watch"

    def __post_init__(self) -> None:
        thresholds.keyed(self.query)
        super().__post_init__()

    def present(self, answer: core_plan.Json, call: int) -> AgreedWatch:
        keys = tuple(self.query.keys or ())
        above = dict(zip([keys[position] for position in answer["positions"]], self._values(answer), strict=True))
        found = (above, answer["tested"], forecast.error_bar(self.accuracy()))
        left, silence = (
            answer["tests_left"],
            answers.silent(self.sharpness.tails, self.tested, self.neighbor_relation, self.threshold),
        )
        return AgreedWatch(call, self.tested.columns, keys, *found, left, publication=self.published, silence=silence)


# A run of an agreed number of sharp tests: all their misses are paid at once, each hit when it comes.


@dataclass(frozen=True)
class AgreedState:
    """What is public of a run: how many of its `tests` are left.

    Shares of the whole budget: `misses` is what the opening was charged, `price_if_hit` what a hit is charged.
    """

    tests: int
    left: int
    misses: float
    price_if_hit: float
    terms: AgreedTerms = field(repr=False)

    def accuracy(self, *, tests: int | None = None, confidence: Number | None = None) -> forecast.Within:
        """How far off so many tests may be together, in sensitivities (default: all that were agreed on, as sure)."""
        wanted = self.tests if tests is None else whole(tests, "tests")
        return self.terms.within(wanted, self.terms.plan.sure if confidence is None else confidence)


@call("agreed_tests", subject="thresholds")
class PrepaidTests(run.Opening[run.KeyedRun[AgreedTest, AgreedWatch, AgreedState]]):
    """Agree on a number of tests: all their misses are paid now, a hit when it comes, and they are the sharper for it.

    Guarantee: each test is a `SharpTest` of these prices at the order of the session's filter. The opening is charged
    `tests` misses, a hit what it costs above a miss; a test that is not asked stays paid. One unit can be in at most
    `tests` of them: a keyed question uses up as many as it has keys that one unit can be in, and none is answered
    beyond. In the end open another run, or ask `ThresholdTest(..., hits=20)`, whose misses are free.

    `hits` says how much a hit costs: so many fit beside the misses into `part` of the whole budget (all of it, unless
    given). Further ones are charged alike while there is room. `misses` is the share of that part for misses (default:
    the one of the sharpest tests). `value` publishes a fresh, unbiased value with each hit, for that share of its
    price; without, only yes or no. With probability `sure` (0.95) so many tests, every key counted, are all right for
    values farther from their bar than `session.quote(call).within`, in sensitivities; `run.state.accuracy(tests=)`
    tells it for more keys. The quote has the prices of each hit and miss to come, too: `later_hit` and `later_miss`.

    Why hits are not bought, too: those that never come would be lost, most of the price of a run. So other calls may
    take the room of a hit; then a test is refused unread, and it is not used up. What no other call can take are the
    misses and the number of tests. To keep room for hits, cap other analysts by `session.set_quota`.

    Errors: `InvalidParameter` for more hits than tests and where so little is left for each that it tells nothing;
    `NotPriced` under any but the Renyi filter; `BudgetExceeded` if the misses do not fit.

    >>> PrepaidTests(tests=10_000, hits=20, misses="0.2").tests
    10000
    """

    _: KW_ONLY
    tests: fields.Whole
    hits: fields.Whole
    part: fields.Probability | None = None
    misses: fields.Probability | None = None
    value: fields.Probability | None = None
    sure: fields.Probability | None = None

    def __post_init__(self) -> None:
        if self.hits > self.tests:
            raise InvalidParameter("hits must be at most tests")

    def bind(self, spine: Spine) -> "OpenAgreed":
        filter_ = priced_by(spine.filter, "start SparseVector(above=, hits=, epsilon=)")
        return OpenAgreed(self, spine.rows.neighbor_relation, AgreedTerms.planned(self.paid(filter_), filter_))

    def paid(self, filter_: Filter) -> AgreedPlan:
        """What is to be paid for under this filter, in its steps."""
        main = (filter_.capacity if self.part is None else filter_.shares.cap(Fraction(self.part))).main
        misses = None if self.misses is None else Fraction(self.misses)
        return AgreedPlan(self.tests, self.hits, main, misses, Fraction(self.value or 0), Fraction(self.sure or SURE))


@dataclass(frozen=True)
class OpenAgreed(run.BoundOpening[PrepaidTests]):
    """The opening: nothing is read, and all misses are charged."""

    terms: AgreedTerms

    def __post_init__(self) -> None:
        super().__post_init__()
        self.terms.sharpness(1, Fraction(1))  # refuses, before it is paid, what no question could be asked of

    @property
    def event(self) -> Event:
        return self.terms.event

    def price(self, filter_: Filter) -> Price:
        return Price(self.terms.paid, self.terms.paid)

    @property
    def later(self) -> Price:
        return Price(Amount(self.terms.charges.hit), Amount(self.terms.charges.miss))

    def within(self, tests: int, confidence: Number) -> forecast.Within:
        """In sensitivities."""
        return self.terms.within(tests, confidence)

    @property
    def barred(self) -> forecast.TestForecast:
        """In sensitivities; each question brings its bar."""
        return forecast.TestForecast(
            self.terms.sharpness(1, Fraction(1)).tails, None, Fraction(1), self.terms.tests, bought=True
        )

    @property
    def foreseen(self) -> forecast.Within:
        return self.within(self.terms.tests, self.terms.plan.sure)

    def run(self, data: core_plan.Data) -> core_plan.Result:
        return core_plan.Result(self.terms.charges.body(), hits=0, tests=0, secret=used(0))


class PrepaidRun(run.KeyedRun[AgreedTest, AgreedWatch, AgreedState]):
    """`run.ask(query, above=500)`: is it at or above the bar? Of a keyed query each key in order, in one scan.

    A miss is free, a hit is charged. A question uses up as many tests as it has keys that one unit can be in. Errors:
    `BudgetExceeded` where fewer are left, or a hit does not fit into the budget: neither uses any up; `InvalidQuery`
    for a mean where values are published; `ledger.SecretMoved` when other processes were faster several times: then
    nothing was told or charged, and the question may be asked again."""

    kind = PrepaidTests.kind
    names = "agreed_tests"

    @cached_property
    def agreed(self) -> AgreedTerms:
        """What was agreed on; the charges are those that the opening stored."""
        filter_ = priced_by(self._spine.filter, "open another run")
        charges = Charges(**json.loads(numbered(self._spine, self.call).answer or "{}"))
        return AgreedTerms(PrepaidTests(**self._terms).paid(filter_), charges, filter_)

    def plan(self, query: core_plan.Question, *, above: Number) -> AskAgreed:
        kind = AskAgreedKeys if getattr(query, "keys", None) is not None else AskAgreedOnce
        return kind(self.call, self.agreed, query, self._spine.rows.neighbor_relation, above)

    @property
    def state(self) -> AgreedState:
        done = used_up(self._spine.ledger.secret(self.call), self.call)
        terms, shares = self.agreed, self._spine.filter.shares
        paid, hit = shares.taken(terms.paid), shares.taken(Amount(terms.charges.hit))
        return AgreedState(terms.tests, terms.tests - done, paid, hit, terms)
