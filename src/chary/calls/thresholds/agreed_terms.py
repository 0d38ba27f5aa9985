"""What a number of sharp tests is agreed at: what each miss and each hit costs, and the law of each test."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Self

from chary.accounting.sharp_tests import LEAST_SPEED, SharpTest, least_price, sharp_table
from chary.accounting.sharp_widths import best_share, check_chance, half_width
from chary.amounts import Amount
from chary.calls.thresholds.sharpness import Sharpness, chance_of_each, rho_of
from chary.core.plan import KEPT, Json, Within
from chary.errors import InvalidParameter
from chary.filters import RenyiFilter
from chary.mechanisms.threshold_tests import SharpSampler
from chary.numbers import Number


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

    def body(self) -> Json:
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

    def within(self, tests: int, confidence: Number) -> Within:
        """How far off so many tests may be together, in sensitivities."""
        return self.sharpness(1, Fraction(1)).within(tests, confidence)


@lru_cache(maxsize=KEPT)
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


@lru_cache(maxsize=KEPT)
def _sharpness(terms: AgreedTerms, sensitivity: int, grid: Fraction) -> Sharpness:
    filter_, value = terms.filter, terms.plan.value
    test = terms.charges.of(filter_, value)
    table = sharp_table(
        order=filter_.order, price=Fraction(test.price), miss_price=Fraction(test.miss_price), steps=sensitivity
    )
    rho = rho_of(Fraction(terms.event.price) * value, filter_.order) if value else None
    return Sharpness(terms.event, SharpSampler(table), table.bar(terms.plan.chance), rho, grid)
