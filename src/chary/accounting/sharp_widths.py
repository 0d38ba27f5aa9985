"""How far from its threshold an optimal test errs, and menus of such tests for a budget."""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, Literal

import scipy

from chary.accounting import charging_curve, composition, sharp_tests, sparse_vector
from chary.accounting.numerics import precise
from chary.amounts import MAIN_STEPS, steps_down
from chary.errors import InvalidParameter
from chary.numbers import Number, exact, plain, positive, probability, whole

# Two draws of a label, charged where they disagree: which distributions of a draw neighbours may have
# (docs/theory/thresholds.md).
#
# A draw is its own label with probability 1 - y and each of the other k - 1 with y/(k-1). With A = (1-y)^a (1-z)^(1-a)
# and B = y^a z^(1-a) for neighbours y, z, two draws agree on the own label with A^2 and on another one with B^2/(k-1),
# free; what is left is charged: `D (A + B)^2 + (1 - D) (A^2 + B^2/(k-1)) <= 1`, both ways round. A and B are convex,
# and this is convex and rising in both, so allowed pairs (y, z) are a convex set with corner (0, 0), as those of one
# test are.

_TAIL: Final = sharp_tests.ONE >> 12
_LARGEST: Final = 300.0
_MARGIN, _MORE, _TRIES = 1e-13, 16, 8


class DrawInequalities(sharp_tests.Inequalities):
    """Both inequalities of two draws of a label. Make it and use it inside one `precise` block."""

    def __init__(self, test: sharp_tests.SharpTest, labels: int) -> None:
        super().__init__(test)
        self._others = labels - 1

    def _side(self, miss: Decimal, hit: Decimal) -> Decimal:
        return self._hit_kept * (miss + hit) ** 2 + (1 - self._hit_kept) * (miss**2 + hit**2 / self._others)


@dataclass(frozen=True)
class DrawSteps(sharp_tests.LogitSteps):
    """Steps of two draws between logits `ln(y / (1 - y))`, in floats: where to look."""

    labels: int

    def start(self) -> float:
        """The logit where all labels meet."""
        return math.log(self.labels - 1)

    def _excess(self, logit: float, start: tuple[float, float], move: float) -> tuple[float, float]:
        power, price, _ = self._sizes
        hit, miss = start
        next_hit, next_miss = sharp_tests.log_chances(logit + move)
        hits, misses = power * (next_hit - hit), power * (miss - next_miss)
        z, t = math.exp(next_hit), math.exp(next_miss)
        there = self._draws(miss + misses, hit - hits, power * z, -power * t, price)
        back = self._draws(next_miss - misses, next_hit + hits, -(power + 1) * z, (power + 1) * t, price)
        return max(there, back)

    def _draws(
        self, own: float, other: float, own_slope: float, other_slope: float, price: float
    ) -> tuple[float, float]:
        """The excess of a side over 1 from the logarithms of A and B, and its slope from their slopes."""
        kept, alike = math.exp(-price), -math.expm1(-price) / (self.labels - 1)
        a, b = math.exp(min(own, _LARGEST / 2)), math.exp(min(other, _LARGEST / 2))
        excess = math.expm1(min(2 * own, _LARGEST)) + 2 * kept * a * b + (kept + alike) * b * b
        slope = own_slope * 2 * a * (a + kept * b) + other_slope * 2 * b * (kept * a + (kept + alike) * b)
        return excess, slope


@lru_cache(maxsize=64)
def draw_chain(test: sharp_tests.SharpTest, labels: int) -> tuple[int, ...]:
    """The probabilities `u(j) 2^192` that a draw is its own label for certain, j sensitivities from where labels meet.

    With the rest, 1 - u, it is uniform among all labels. Guarantee: u(0) = 0, u rises, each pair of neighbours
    satisfies both inequalities, and beyond the end, within 2^-100 of 1, u stays as it is. Each step is one sensitivity.
    So a `price` at which a test of its own would take several a step is refused with `InvalidParameter`, as is a cost
    of misses.
    """
    sharp_tests.check_price(test, sharp_tests.LEAST_EVEN_SPEED)
    if test.miss_price:
        raise InvalidParameter("draws that agree are free: leave `miss_price` out")
    with precise(-18):
        rest = [sharp_tests.ONE, *_Walk(test, labels).chances()]
    return tuple(sharp_tests.ONE - value for value in (*rest, *sharp_tests.tail(rest)))


def draw_table(test: sharp_tests.SharpTest, labels: int, steps: int) -> sharp_tests.SharpTable:
    """The probabilities of `draw_chain` by depth, in steps of which one unit moves a depth by at most this many."""
    return sharp_tests.SharpTable(test, whole(steps, "steps"), draw_chain(test, labels), 0)


class _Walk:
    """Steps from where all labels meet; each is found in floats, drawn back a little and verified in decimals."""

    def __init__(self, test: sharp_tests.SharpTest, labels: int) -> None:
        self._pairs, self._steps, self._labels = DrawInequalities(test, labels), DrawSteps(test, labels), labels

    def chances(self) -> Iterator[int]:
        """The probabilities of another draw than the certain one, times 2^192, until one factor does for the rest."""
        value, guess = sharp_tests.ONE, None
        while value > _TAIL:
            logit = self._logit(value)
            guess = self._steps.step(logit, up=False, guess=guess)
            value = self._verified(value, logit, guess)
            yield value

    def _verified(self, value: int, logit: float, move: float) -> int:
        here, margin = self._chance(value), _MARGIN
        for _ in range(_TRIES):
            found = self._nearest(logit - move * (1 - margin))
            if 0 < found < value and self._pairs.allow(here, self._chance(found)):
                return found
            margin *= _MORE
        raise InvalidParameter(
            "probabilities of neighbours cannot be told apart at this cost: take a larger price of a hit"
        )

    def _chance(self, value: int) -> sharp_tests.Chance:
        other, every = value * (self._labels - 1), sharp_tests.ONE * self._labels
        return sharp_tests.Chance(Decimal(other) / every, Decimal(every - other) / every)

    def _logit(self, value: int) -> float:
        other = value * (self._labels - 1)
        return math.log(other / (sharp_tests.ONE * self._labels - other))

    def _nearest(self, logit: float) -> int:
        hit, miss = sharp_tests.log_chances(logit)
        other = (
            int(math.exp(hit) * float(sharp_tests.ONE))
            if hit < miss
            else sharp_tests.ONE - int(math.exp(miss) * float(sharp_tests.ONE))
        )
        return other * self._labels // (self._labels - 1)


def clear_depth(labels: int, test: sharp_tests.SharpTest, chance: float) -> float:
    """The sensitivities from where all labels meet to where the own one is drawn but for this probability.

    Errors: `InvalidParameter` for a `price` too small for a chain.
    """
    sharp_tests.check_price(test, sharp_tests.LEAST_EVEN_SPEED)
    steps = DrawSteps(test, labels)
    logit, reached, move = steps.start(), 0, None
    last = rare = 1 - labels**-2.0
    while rare > chance:
        move = steps.step(logit, up=False, guess=move)
        logit -= move
        y = 1 / (1 + math.exp(min(-logit, 700.0)))
        last, rare = rare, y * (2 - y)
        reached += 1
    return reached - (chance - rare) / (last - rare) if reached else 0.0


# How near to its threshold an optimal threshold test is right: half-widths for a budget, at the best order, against
# other tests.

ValueShare = Number | Literal["best"]
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
    """What is to be paid for: tests, of which some hit, under one budget, all right with probability `confidence`.

    Errors: `InvalidParameter` for no tests, more hits than tests, a delta of 0 or a probability outside (0, 1).
    """

    epsilon: Number
    delta: Number
    tests: int
    hits: int
    confidence: Number = "0.95"

    def __post_init__(self) -> None:
        positive(self.epsilon, "epsilon")
        probability(self.delta, "delta")
        probability(self.confidence, "confidence")
        if whole(self.tests, "tests") < whole(self.hits, "hits"):
            raise InvalidParameter("hits must be at most tests")

    @property
    def beta(self) -> float:
        """The probability that a test is wrong."""
        return float(1 - probability(self.confidence, "confidence"))

    def test(self, order: Fraction, share: Fraction) -> sharp_tests.SharpTest | None:
        """The test at this order whose hits and misses use up the budget; None where it buys nothing."""
        capacity = composition.capacity_down(positive(self.epsilon, "epsilon"), probability(self.delta, "delta"), order)
        price, miss_price = _paid((1 - share) * capacity / self.hits), _paid(share * capacity / self.tests)
        return (
            sharp_tests.SharpTest(order, price, miss_price)
            if price >= sharp_tests.least_price(order, sharp_tests.LEAST_SPEED)
            else None
        )


@dataclass(frozen=True)
class SharpWidth:
    """An optimal test for a budget, and the distance from its threshold within which it may be wrong.

    `within` is counted in sensitivities, for a threshold half way between where false alarms and where misses end.
    `share` is the part of the budget for misses.
    """

    test: sharp_tests.SharpTest
    share: Fraction
    within: float


def check_chance(chance: Number) -> None:
    """Refuse a probability of an error that no table reaches: no walk towards it would end."""
    if exact(chance, "chance") * 2**sharp_tests.EDGE_BITS < 1:
        raise InvalidParameter(
            "probabilities of a test end 2^-100 from 0 and 1: ask for fewer tests or less confidence"
        )


def half_width(test: sharp_tests.SharpTest, chance: float) -> float:
    """Half of the way, in sensitivities, from where a hit has this probability to where a miss has it.

    >>> from chary.accounting import SharpTest
    >>> round(half_width(SharpTest(17, "0.29938"), 0.05 / 20000), 1)
    210.7

    Up to a part in 400 for a test that climbs by less than a part in 32 a sensitivity. Up to a part in 100 for one so
    slow that its table has one probability for several sensitivities. Errors: `InvalidParameter` for a probability
    below 2^-100, where probabilities end.
    """
    check_chance(chance)
    return (_reach(test, chance, up=False) + _reach(test, chance, up=True)) / 2


def sharp_width(
    *, epsilon: Number, delta: Number, tests: int, hits: int, misses_share: ValueShare = 0, confidence: Number = "0.95"
) -> SharpWidth:
    """The narrowest optimal test that a new budget pays for, at its best order.

    With probability `confidence` all tests are right whose values are not within `within` sensitivities of the
    threshold. A false alarm farther below it, or a miss farther above it, has a probability of at most `(1 -
    confidence) / (2 tests)`. `misses_share` is the part of the budget that goes to misses, in [0, 1), which presumes
    that the number of tests is agreed; "best" finds the best part.

    Errors: `InvalidParameter` for no tests, more hits than tests, a delta of 0, and a probability outside (0, 1). Also
    for a `misses_share` at which a miss would cost more than a hit, and a budget that pays for no such test.

    >>> found = sharp_width(epsilon=1, delta="1e-6", tests=10_000, hits=20)
    >>> round(found.within, 1), float(found.test.order)
    (210.7, 16.9)
    >>> round(sharp_width(epsilon=1, delta="1e-6", tests=10_000, hits=20, misses_share="0.2").within, 1)
    161.3
    """
    agreed = AgreedNumber(epsilon, delta, tests, hits, confidence)
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

    `width` is the margin for a part. It falls and then rises, so the search is by golden section.

    >>> round(float(best_share(lambda share: abs(float(share) - 0.2))), 2)
    0.2
    """
    found = _least(lambda share: width(_thousandths(share)), 0.0, min(_LARGEST_SHARE, most))
    return _thousandths(found)


def laplace_width(epsilon_per_call: Number, *, tests: int, confidence: Number = "0.95") -> float:
    """The margin, in sensitivities, of a test by Laplace noise: `ln(N/beta)/epsilon`, for the same probabilities.

    >>> round(laplace_width("0.0249", tests=10_000))
    490
    """
    beta = float(1 - probability(confidence, "confidence"))
    return math.log(whole(tests, "tests") / beta) / float(positive(epsilon_per_call, "epsilon_per_call"))


@lru_cache(maxsize=_KEPT)
def _reach(test: sharp_tests.SharpTest, chance: float, *, up: bool) -> float:
    """How many sensitivities from 1/2 the rarer outcome has this probability; parts of one are in proportion.

    Several sensitivities at a step are as many times the one in their middle; fewer where they differ, and at the end.
    """
    steps, logit, reached, times = sharp_tests.LogitSteps(test), 0.0, 0, _times(test)
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


def _times(test: sharp_tests.SharpTest) -> int:
    """How many sensitivities are walked at a step."""
    slowness = math.sqrt(sharp_tests.least_price(Fraction(test.order), Fraction(1)) / Fraction(test.price))
    return max(1, int(_WALKED * Fraction(slowness)))


def _best_order(agreed: AgreedNumber, share: Fraction) -> SharpWidth:
    start = math.log(float(composition.choose_order(*_budget(agreed))) - 1)

    def width(log_order: float) -> float:
        found = _at(agreed, _three_digits(log_order), share)
        return math.inf if found is None else found.within

    order = _three_digits(_least(width, start - _AROUND, start + _AROUND))
    found = _at(agreed, order, share)
    if found is None:
        raise InvalidParameter(
            "this budget pays only for tests whose probabilities rise by less than 1/100,000 a sensitivity: take "
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
    """The cost rounded down to whole ledger steps, so that the ledger charges exactly this."""
    return Fraction(steps_down(price, MAIN_STEPS), MAIN_STEPS)


def _budget(agreed: AgreedNumber) -> tuple[Fraction, Fraction]:
    return positive(agreed.epsilon, "epsilon"), probability(agreed.delta, "delta")


def _thousandths(share: float) -> Fraction:
    """A fraction in thousandths, which keeps it short in statements."""
    return Fraction(round(share, 3)).limit_denominator(1000)


def _three_digits(log_order: float) -> Fraction:
    """The order of three digits, which keeps it short in statements."""
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


# Menus: for that many tests under a budget, how near to the threshold they are right and how exact values are, by hits.

_QUARTER: Final = Fraction(1, 4)


@dataclass(frozen=True)
class Choice:
    """What this many hits leave to each test, all of them right with one probability; in sensitivities.

    `alone` is the margin of optimal threshold tests without values. `agreed` is that of a fixed number of tests, with
    the best part of the budget for misses. `within` is the margin of tests with values, which all are off by at most
    `value_error`. `sparse` is the one-sided sparse vector without values. None: the budget is too small for it.
    """

    hits: int
    tests: int
    alone: float | None
    agreed: float | None
    within: float | None
    value_error: float | None
    sparse: int


def sharp_menu(
    *,
    epsilon: Number,
    delta: Number,
    tests: int,
    hits: Iterable[int] = charging_curve.USUAL_HITS,
    value: Number = _QUARTER,
    confidence: Number = "0.95",
) -> list[Choice]:
    """For a new budget and this many tests, what several numbers of hits (at most `tests`) leave to each.

    `value` is the part of the cost of a hit for its value. Each figure holds with probability `confidence`; each test
    is at its best order. Errors: as of `sharp_width`, and `InvalidParameter` for a value outside (0, 1).

    >>> for choice in sharp_menu(epsilon=1, delta="1e-6", tests=10_000, hits=[5, 20]):
    ...     choice.hits, round(choice.alone), round(choice.agreed), round(choice.within), round(choice.value_error)
    (5, 140, 113, 151, 60)
    (20, 211, 161, 233, 129)
    """
    part, whole_tests = probability(value, "value"), whole(tests, "tests")
    return [_choice(epsilon, delta, whole_tests, count, part, confidence) for count in hits if count <= whole_tests]


def _choice(epsilon: Number, delta: Number, tests: int, hits: int, part: Fraction, confidence: Number) -> Choice:
    agreed = AgreedNumber(epsilon, delta, tests, hits, confidence)
    alone, best = _found(agreed, 0), _found(agreed, "best")
    return Choice(
        hits,
        tests,
        None if alone is None else alone.within,
        None if best is None else best.within,
        None if alone is None else half_width(_with_value(alone.test, part), agreed.beta / (2 * tests)),
        None if alone is None else _value_error(alone.test, part, agreed),
        sparse_vector.sparse_half_width_up(epsilon=epsilon, tests=tests, hits=hits, confidence=confidence),
    )


def _found(agreed: AgreedNumber, share: ValueShare) -> SharpWidth | None:
    """The narrowest test; None where the budget is too small, all else having been checked."""
    terms: dict[str, Any] = {"tests": agreed.tests, "hits": agreed.hits, "confidence": agreed.confidence}
    try:
        return sharp_width(epsilon=agreed.epsilon, delta=agreed.delta, misses_share=share, **terms)
    except InvalidParameter:
        return None


def _with_value(test: sharp_tests.SharpTest, part: Fraction) -> sharp_tests.SharpTest:
    return sharp_tests.SharpTest(test.order, Fraction(test.price) * (1 - part))


def _value_error(test: sharp_tests.SharpTest, part: Fraction, agreed: AgreedNumber) -> float:
    """The error of the Gaussian values of all hits together; noise of rho has log-moment a (a - 1) rho at order a."""
    order = Fraction(test.order)
    sigma = math.sqrt(order * (order - 1) / (2 * Fraction(test.price) * part))
    each = -math.expm1(math.log1p(-agreed.beta) / agreed.hits)
    return float(-scipy.special.ndtri(each / 2)) * sigma
