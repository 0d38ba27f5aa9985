"""A run of an agreed number of sharp tests: all their misses are paid at once, each hit when it comes."""

import json
from dataclasses import KW_ONLY, dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

from chary.accounting import Event
from chary.amounts import Amount
from chary.calls.call import call
from chary.calls.fields import Probability, Whole
from chary.calls.keyed_run import KeyedRun
from chary.calls.openings import BoundOpening
from chary.calls.run import Kept, Opening, keeps
from chary.calls.thresholds.agreed_questions import (
    AgreedTest,
    AgreedWatch,
    AskAgreed,
    AskAgreedKeys,
    AskAgreedOnce,
    used,
    used_up,
)
from chary.calls.thresholds.agreed_terms import AgreedPlan, AgreedTerms, Charges
from chary.calls.thresholds.sharpness import SURE, priced_by
from chary.core.history import numbered
from chary.core.plan import Barred, Question, Ran, Touched, Within
from chary.core.transaction import Spine
from chary.errors import InvalidParameter
from chary.filters import Filter, Price
from chary.numbers import Number, whole


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

    def accuracy(self, *, tests: int | None = None, confidence: Number | None = None) -> Within:
        """How far off so many tests may be together, in sensitivities (default: all that were agreed on, as sure)."""
        wanted = self.tests if tests is None else whole(tests, "tests")
        return self.terms.within(wanted, self.terms.plan.sure if confidence is None else confidence)


@call("agreed_tests", subject="thresholds")
class AgreedTests(Opening[KeyedRun[AgreedTest, AgreedWatch, AgreedState]]):
    """Agree on a number of tests: all their misses are paid now, a hit when it comes, and they are the sharper for it.

    Guarantee: each test is a `SharpTest` of these prices at the order of the session's filter. The opening is charged
    `tests` misses, a hit what it costs above a miss; a test that is not asked stays paid. One unit can be in at most
    `tests` of them: a keyed question uses up as many as it has keys that one unit can be in, and none is answered
    beyond. In the end open another run, or ask `Test(..., hits=20)`, whose misses are free.

    `hits` says how much a hit costs: so many fit beside the misses into `part` of the whole budget (all of it, unless
    given). Further ones are charged alike while there is room. `misses` is the share of that part for misses (default:
    the one of the sharpest tests). `value` publishes a fresh, unbiased value with each hit, for that share of its
    price; without, only yes or no. With probability `sure` (0.95) so many tests, every key counted, are all right for
    values farther from their bar than `session.quote(call).within`, in sensitivities; `run.state.accuracy(tests=)`
    tells it for more keys. The quote has the prices of each hit and miss to come, too: `later_hit` and `later_miss`.

    Why hits are not bought, too: those that never come would be lost, most of the price of a run. So other calls may
    take the room of a hit; then a test is refused unread, and it is not used up. What no other call can take are the
    misses and the number of tests. To keep room for hits, cap other analysts by `session.set_share`.

    Errors: `InvalidParameter` for more hits than tests and where so little is left for each that it tells nothing;
    `NoPrice` under any but the Renyi filter; `BudgetRefused` if the misses do not fit.

    >>> AgreedTests(tests=10_000, hits=20, misses="0.2").tests
    10000
    """

    _: KW_ONLY
    tests: Whole
    hits: Whole
    part: Probability | None = None
    misses: Probability | None = None
    value: Probability | None = None
    sure: Probability | None = None

    def __post_init__(self) -> None:
        if self.hits > self.tests:
            raise InvalidParameter("hits must be at most tests")

    def bind(self, spine: Spine) -> "OpenAgreed":
        filter_ = priced_by(spine.filter, "start SparseVector(above=, hits=, epsilon=)")
        return OpenAgreed(self, spine.rows.neighbouring, AgreedTerms.planned(self.plan(filter_), filter_))

    def plan(self, filter_: Filter) -> AgreedPlan:
        """What is to be paid for under this filter, in its steps."""
        main = (filter_.capacity if self.part is None else filter_.shares.cap(Fraction(self.part))).main
        misses = None if self.misses is None else Fraction(self.misses)
        return AgreedPlan(self.tests, self.hits, main, misses, Fraction(self.value or 0), Fraction(self.sure or SURE))


@dataclass(frozen=True)
class OpenAgreed(BoundOpening[AgreedTests]):
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

    def within(self, tests: int, confidence: Number) -> Within:
        """In sensitivities."""
        return self.terms.within(tests, confidence)

    @property
    def barred(self) -> Barred:
        """In sensitivities; each question brings its bar."""
        return Barred(self.terms.sharpness(1, Fraction(1)).tails, None, Fraction(1), self.terms.tests, bought=True)

    @property
    def foreseen(self) -> Within:
        return self.within(self.terms.tests, self.terms.plan.sure)

    def run(self, touched: Touched) -> Ran:
        return Ran(self.terms.charges.body(), hits=0, tests=0, secret=used(0))


@keeps
class KeptAgreed(Kept[Any, AgreedState]):
    """`run.ask(query, above=500)`: is it at or above the bar? Of a keyed query each key in order, in one scan.

    A miss is free, a hit is charged. A question uses up as many tests as it has keys that one unit can be in. Errors:
    `BudgetRefused` where fewer are left, or a hit does not fit into the budget: neither uses any up; `InvalidQuery` for
    a mean where values are published; `ledger.SecretMoved` when other processes were faster several times: then nothing
    was told or charged, and the question may be asked again.
    """

    kind = AgreedTests.kind
    names = "agreed_tests"

    @cached_property
    def agreed(self) -> AgreedTerms:
        """What was agreed on; the charges are those that the opening stored."""
        filter_ = priced_by(self.spine.filter, "open another run")
        charges = Charges(**json.loads(numbered(self.spine, self.number).answer or "{}"))
        return AgreedTerms(AgreedTests(**self.terms).plan(filter_), charges, filter_)

    def opened(self) -> KeyedRun[AgreedTest, AgreedWatch, AgreedState]:
        return KeyedRun(self)

    def question(self, query: Question, *, above: Number) -> AskAgreed:
        kind = AskAgreedKeys if getattr(query, "keys", None) is not None else AskAgreedOnce
        return kind(self.number, self.agreed, query, self.spine.rows.neighbouring, above)

    @property
    def state(self) -> AgreedState:
        done = used_up(self.spine.ledger.secret(self.number), self.number)
        terms, shares = self.agreed, self.spine.filter.shares
        paid, hit = shares.taken(terms.paid), shares.taken(Amount(terms.charges.hit))
        return AgreedState(terms.tests, terms.tests - done, paid, hit, terms)
