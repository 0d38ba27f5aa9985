"""How near to its bar a sharp test is right: half-widths for a budget, at the best order, against other tests."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final, Literal

from chary.accounting.log_moments import capacity_down, choose_order
from chary.accounting.sharp.chance_chain import EDGE_BITS, LEAST_SPEED
from chary.accounting.sharp.logit_steps import LogitSteps
from chary.accounting.sharp.sharp_event import SharpTest, least_price
from chary.amounts import MAIN_STEPS, steps_down
from chary.errors import InvalidParameter
from chary.numbers import Number, exact, plain, positive, probability, whole

Share = Number | Literal["best"]
# Golden section: the width is flat at its best, so a part in a hundred of the order is beyond what can be seen.
_GOLDEN: Final = (math.sqrt(5) - 1) / 2
_ROUNDS: Final = 14
_AROUND: Final = math.log(8)
_LARGEST_SHARE: Final = 0.9
# Advice, quotes and planned runs ask the same tests again and again, and each takes hundreds of steps.
_KEPT: Final = 4_096
# Tests that climb by less a sensitivity are walked several at a step, as many as climb by so much: a part in 10^4.
_WALKED: Final = Fraction(1, 16)
_ALIKE: Final = 1 / 16


@dataclass(frozen=True)
class AgreedNumber:
    """What is to be paid for: so many tests, of which so many hit, under one budget, all right with probability `sure`.

    Errors: `InvalidParameter` for no tests, more hits than tests, a delta of 0 or a probability outside (0, 1).
    """

    epsilon: Number
    delta: Number
    tests: int
    hits: int
    sure: Number = "0.95"

    def __post_init__(self) -> None:
        positive(self.epsilon, "epsilon")
        probability(self.delta, "delta")
        probability(self.sure, "sure")
        if whole(self.tests, "tests") < whole(self.hits, "hits"):
            raise InvalidParameter("hits must be at most tests")

    @property
    def beta(self) -> float:
        """The chance that a test is wrong."""
        return float(1 - probability(self.sure, "sure"))

    def test(self, order: Fraction, share: Fraction) -> SharpTest | None:
        """The test at this order whose hits and misses use up the budget; None where it buys nothing."""
        capacity = capacity_down(positive(self.epsilon, "epsilon"), probability(self.delta, "delta"), order)
        price, miss_price = _paid((1 - share) * capacity / self.hits), _paid(share * capacity / self.tests)
        return SharpTest(order, price, miss_price) if price >= least_price(order, LEAST_SPEED) else None


@dataclass(frozen=True)
class SharpWidth:
    """A sharp test for a budget, and the distance from its bar within which it may be wrong.

    `within` is counted in sensitivities, for a bar half way between where false alarms and where misses end. `share`
    is the part of the budget for misses.
    """

    test: SharpTest
    share: Fraction
    within: float


def check_chance(chance: Number) -> None:
    """Refuse a chance of an error that no table reaches: no walk towards it would end."""
    if exact(chance, "chance") * 2**EDGE_BITS < 1:
        raise InvalidParameter("a sharp test's chances end 2^-100 from 0 and 1: ask for fewer tests, or be less sure")


def half_width(test: SharpTest, chance: float) -> float:
    """Half of the way, in sensitivities, from where a hit has this chance to where a miss has it.

    >>> round(half_width(SharpTest(17, "0.29938"), 0.05 / 20000), 1)
    210.7

    Up to a part in 400 for a test that climbs by less than a part in 32 a sensitivity, and in 100 for one so slow that
    its table has one chance for several sensitivities. Errors:
    `InvalidParameter` for a chance below 2^-100, where chances end.
    """
    check_chance(chance)
    return (_reach(test, chance, up=False) + _reach(test, chance, up=True)) / 2


def sharp_width(
    *, epsilon: Number, delta: Number, tests: int, hits: int, misses_share: Share = 0, sure: Number = "0.95"
) -> SharpWidth:
    """The narrowest sharp test that a new budget pays for, at its best order.

    With probability `sure` all tests are right whose values are not within `within` sensitivities of the bar: a false
    alarm farther below it, or a miss farther above it, has a chance of at most `(1 - sure) / (2 tests)`. `misses_share`
    is the part of the budget that goes to misses, in [0, 1), which presumes that the number of tests is agreed;
    "best" finds the best part.

    Errors: `InvalidParameter` for no tests, more hits than tests, a delta of 0, a probability outside (0, 1), a share
    at which a miss would cost more than a hit, and a budget that pays for no such test.

    >>> found = sharp_width(epsilon=1, delta="1e-6", tests=10_000, hits=20)
    >>> round(found.within, 1), float(found.test.order)
    (210.7, 16.9)
    >>> round(sharp_width(epsilon=1, delta="1e-6", tests=10_000, hits=20, misses_share="0.2").within, 1)
    161.3
    """
    agreed = AgreedNumber(epsilon, delta, tests, hits, sure)
    if misses_share == "best":
        return _best_share(agreed)
    share = exact(misses_share, "misses_share")
    most = Fraction(agreed.tests, agreed.tests + agreed.hits)
    if not 0 <= share < 1 or share > most:
        raise InvalidParameter(
            f"misses_share must be at least 0, less than 1 and at most {plain(most)}, where a miss costs what a hit "
            f"costs, got {plain(share)}"
        )
    return _best_order(agreed, share)


def best_share(width: Callable[[Fraction], float], most: float = 1) -> Fraction:
    """The part of a budget for misses, in thousandths and at most `most`, at which tests are narrowest.

    `width` is the half-width for a part. It falls and then rises, so the search is by golden section.

    >>> round(float(best_share(lambda share: abs(float(share) - 0.2))), 2)
    0.2
    """
    found = _least(lambda share: width(_thousandths(share)), 0.0, min(_LARGEST_SHARE, most))
    return _thousandths(found)


def laplace_width(epsilon_per_call: Number, *, tests: int, sure: Number = "0.95") -> float:
    """The half-width, in sensitivities, of a test by Laplace noise: `ln(N/beta)/epsilon`, for the same chances.

    >>> round(laplace_width("0.0249", tests=10_000))
    490
    """
    beta = float(1 - probability(sure, "sure"))
    return math.log(whole(tests, "tests") / beta) / float(positive(epsilon_per_call, "epsilon_per_call"))


@lru_cache(maxsize=_KEPT)
def _reach(test: SharpTest, chance: float, *, up: bool) -> float:
    """How many sensitivities from 1/2 the rarer outcome has this chance; a part of one in proportion to chances.

    Several sensitivities at a step are as many times the one in their middle; fewer where they differ, and at the end.
    """
    steps, logit, reached, times = LogitSteps(test), 0.0, 0, _times(test)
    sign, rare, move = (1 if up else -1), 0.5, None
    while rare > chance:
        move = steps.step(logit, up=up, guess=move)
        middle = move if times == 1 else steps.step(logit + sign * (times - 1) / 2 * move, up=up, guess=move)
        end = logit + sign * times * middle
        found = 1 / (1 + math.exp(min(abs(end), 700.0)))
        if times > 1 and (found <= chance or abs(middle - move) > _ALIKE * move):
            times //= 2
        elif found <= chance:
            return reached + (rare - chance) / (rare - found)
        else:
            logit, rare, reached = end, found, reached + times
    return 0.0


def _times(test: SharpTest) -> int:
    """How many sensitivities are walked at a step."""
    slowness = math.sqrt(least_price(Fraction(test.order), Fraction(1)) / Fraction(test.price))
    return max(1, int(_WALKED * Fraction(slowness)))


def _best_order(agreed: AgreedNumber, share: Fraction) -> SharpWidth:
    start = math.log(float(choose_order(*_budget(agreed))) - 1)

    def width(log_order: float) -> float:
        found = _at(agreed, _three_digits(log_order), share)
        return math.inf if found is None else found.within

    order = _three_digits(_least(width, start - _AROUND, start + _AROUND))
    found = _at(agreed, order, share)
    if found is None:
        raise InvalidParameter(
            "this budget pays only for tests whose chances climb by less than a part in 100,000 a sensitivity: take "
            "fewer hits or a larger budget"
        )
    return found


def _best_share(agreed: AgreedNumber) -> SharpWidth:
    """The best share at the best order without one, then the best order for it."""
    order = Fraction(_best_order(agreed, Fraction(0)).test.order)

    def width(share: Fraction) -> float:
        found = _at(agreed, order, share)
        return math.inf if found is None else found.within

    share = best_share(width, agreed.tests / (agreed.tests + agreed.hits))
    return min((_best_order(agreed, part) for part in {Fraction(0), share}), key=lambda found: found.within)


def _at(agreed: AgreedNumber, order: Fraction, share: Fraction) -> SharpWidth | None:
    test = agreed.test(order, share)
    chance = agreed.beta / (2 * agreed.tests)
    return None if test is None else SharpWidth(test, share, half_width(test, chance))


def _paid(price: Fraction) -> Fraction:
    """Whole steps of a ledger, so that what is charged is the price itself."""
    return Fraction(steps_down(price, MAIN_STEPS), MAIN_STEPS)


def _budget(agreed: AgreedNumber) -> tuple[Fraction, Fraction]:
    return positive(agreed.epsilon, "epsilon"), probability(agreed.delta, "delta")


def _thousandths(share: float) -> Fraction:
    """A share, short in statements."""
    return Fraction(round(share, 3)).limit_denominator(1000)


def _three_digits(log_order: float) -> Fraction:
    """An order, short in statements."""
    return 1 + Fraction(f"{math.exp(log_order):.3g}")


def _least(value: Callable[[float], float], low: float, high: float) -> float:
    """Where a function that falls and then rises is least, by golden section."""
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = value(left), value(right)
    for _ in range(_ROUNDS):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = value(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = value(right)
    return (low + high) / 2
