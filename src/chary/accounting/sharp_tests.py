"""Optimal threshold tests: the chain of probabilities with the smallest privacy loss, verified in decimals."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal, getcontext
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Final

from chary.accounting.events import Event
from chary.accounting.numerics import decimal, least, precise
from chary.errors import InvalidParameter, NotPriced
from chary.numbers import Number, exact, plain, positive, probability, set_fields, whole

# The event of an optimal threshold test: a test whose distribution is made for the price of its hit at one Renyi order.

# Below this speed (chapter 2: price = a (a-1) speed^2) neighbours' probabilities agree to 7 digits, and a test
# decides nothing.
LEAST_PRICED_SPEED: Final = Fraction(1, 10**7)
# e^-price keeps 60 digits in the checks; a hit at this price reveals everything anyway.
LARGEST_PRICE: Final = 1000
LARGEST_ORDER: Final = 10**7


def least_price(order: Fraction, speed: Fraction = LEAST_PRICED_SPEED) -> Fraction:
    """The cost of a hit at which a test climbs with this speed: `order (order - 1) speed^2`."""
    return order * (order - 1) * speed**2


@dataclass(frozen=True)
class SharpTest(Event):
    """A test that hits with probabilities p, q under neighbours, which its costs at this order allow (chapter 2).

    A hit is charged `price` and a miss `miss_price` of log-moment at `order`; all pairs (p, q) of probabilities under
    neighbours have `(1-p)^a (1-q)^(1-a) e^(-miss_price) + p^a q^(1-a) e^(-price) <= 1`, both ways round.

    Guarantee: a session charges so and stops before the sum passes B. It has log-moment at most B at `order`, and at
    most `B (b-1)/(a-1)` at each order b below it, however adaptively it was asked. Above `order` there is no price of a
    hit.

    Errors: `InvalidParameter` for an order of at most 1 or above 1e7, and for a `price` of at most 0 or above 1000.
    Also for one so small that the test could decide nothing (the message has the least that works), and for a
    `miss_price` below 0 or above `price`.

    >>> test = SharpTest(18, "0.19295")
    >>> test.hit_price_up(Fraction(18)), test.miss_price_up(Fraction(18)), test.hit_price_up(Fraction(19))
    (Fraction(3859, 20000), Fraction(0, 1), None)
    """

    order: Number
    price: Number
    miss_price: Number = 0

    def __post_init__(self) -> None:
        set_fields(self, order=_order(self.order), price=_price(Fraction(self.order), self.price))
        miss_price = exact(self.miss_price, "miss_price")
        if not 0 <= miss_price <= Fraction(self.price):
            raise InvalidParameter("`miss_price` must be at least 0 and at most `price`")
        set_fields(self, miss_price=miss_price)

    @property
    def epsilon(self) -> None:
        return None

    @property
    def otherwise(self) -> str:
        return (
            "an optimal threshold test needs the Renyi filter: open the session with a delta, or ask with epsilon= "
            "for a Laplace test"
        )

    def hit_price_up(self, order: Fraction) -> Fraction | None:
        """The price of a hit at the order a of the test; at a lower order b the part (b-1)/(a-1) of it.

        Take the logarithm of what the inequality bounds, its costs in proportion to b - 1. It is a log-sum-exp of
        functions linear in b, so convex. It is 0 at b = 1 and at most 0 at a, hence at most 0 between.
        """
        part = self._part(order)
        return None if part is None else Fraction(self.price) * part

    def miss_price_up(self, order: Fraction) -> Fraction:
        part = self._part(order)
        return Fraction(0) if part is None else Fraction(self.miss_price) * part

    def log_moment_up(self, order: Fraction) -> Fraction:
        """The cost of a hit, charged whatever comes out; `NotPriced` above the test's order, where it is unbounded."""
        moment = self.hit_price_up(order)
        if moment is None:
            raise NotPriced(
                f"an optimal test for order {plain(Fraction(self.order))} has no cost at order {plain(order)}: make "
                "it for that order, or ask with epsilon= for a Laplace test"
            )
        return moment

    def _part(self, order: Fraction) -> Fraction | None:
        own = Fraction(self.order)
        return (order - 1) / (own - 1) if order <= own else None


def _order(value: Number) -> Fraction:
    order = exact(value, "order")
    if not 1 < order <= LARGEST_ORDER:
        raise InvalidParameter(f"order must be greater than 1 and at most 1e7, such as 18, got {plain(order)}")
    return order


def _price(order: Fraction, value: Number) -> Fraction:
    price, least = positive(value, "price"), least_price(order)
    if not least <= price <= LARGEST_PRICE:
        raise InvalidParameter(
            f"`price` must be at least {plain(least * Fraction(1001, 1000))} at order {plain(order)}, or a test "
            f"decides nothing, and at most {LARGEST_PRICE}, got {plain(price)}"
        )
    return price


# Which probabilities of a hit neighbours may have: the two inequalities of chapter 2, in decimals rounded correctly.
#
# With b = a - 1, X = ((1-p)/(1-q))^b, Y = (q/p)^b, D = e^-price, M = e^-miss_price they read `(1-p) M X + p D / Y <= 1`
# and `(1-q) M / X + q D Y <= 1`. Each term is a perspective of a convex power, so the allowed pairs (p, q) are a
# **convex** set. It holds every (p, p), and (0, 0) as a limit. Hence
#
# - between p and the largest q that is allowed everything is allowed;
# - mixtures of allowed pairs are allowed;
# - if (p, k p) is allowed, so is (r, k r) for every r below p.

# Roundings of a part in 10^prec, multiplied by orders of at most 10^7 or by logarithms of some 10^3, a dozen of them.
_SPARE_DIGITS = 12


@dataclass(frozen=True)
class Chance:
    """A probability of a hit and of a miss, each with all its digits."""

    hit: Decimal
    miss: Decimal


@dataclass(frozen=True)
class Sides:
    """What the inequalities compare with 1, and how fast both grow with the logit of q."""

    rising: Decimal
    falling: Decimal
    rising_slope: Decimal
    falling_slope: Decimal


class Inequalities:
    """Both inequalities of one test; make it and use it inside one `precise` block.

    >>> from chary.accounting.numerics import precise
    >>> with precise():
    ...     pairs = Inequalities(SharpTest(18, "0.19295"))
    ...     half = Chance(Decimal("0.5"), Decimal("0.5"))
    ...     [pairs.allow(half, Chance(1 - miss, miss)) for miss in (Decimal("0.48996"), Decimal("0.48995"))]
    [True, False]
    """

    def __init__(self, test: SharpTest) -> None:
        self._power = decimal(Fraction(test.order)) - 1
        self._hit_kept = (-decimal(Fraction(test.price))).exp()
        self._miss_kept = (-decimal(Fraction(test.miss_price))).exp()
        self._most = 1 - Decimal(10) ** (_SPARE_DIGITS - getcontext().prec)

    def sides(self, p: Chance, q: Chance) -> Sides:
        """Both sides and their slopes."""
        hits, misses = ((q.hit / p.hit).ln() * self._power).exp(), ((p.miss / q.miss).ln() * self._power).exp()
        missed, hit = p.miss * self._miss_kept * misses, p.hit * self._hit_kept / hits
        missed_back, hit_back = q.miss * self._miss_kept / misses, q.hit * self._hit_kept * hits
        return Sides(
            missed + hit,
            missed_back + hit_back,
            self._power * (missed * q.hit - hit * q.miss),
            (self._power + 1) * (hit_back * q.miss - missed_back * q.hit),
        )

    def allow(self, p: Chance, q: Chance) -> bool:
        """Whether both inequalities certainly hold."""
        hits, misses = ((q.hit / p.hit).ln() * self._power).exp(), ((p.miss / q.miss).ln() * self._power).exp()
        there = self._side(p.miss * misses, p.hit / hits)
        return there <= self._most and self._side(q.miss / misses, q.hit * hits) <= self._most

    def _side(self, miss: Decimal, hit: Decimal) -> Decimal:
        """What must be at most 1, from the moments of a miss and of a hit."""
        return miss * self._miss_kept + hit * self._hit_kept


# Probabilities of a hit a few sensitivities apart, as exact multiples of 2^-192, every neighbouring pair verified.

# Probabilities end at 2^-100 from 0 and 1, where 92 of the bits are left: no number of tests distinguishes that from 0.
BITS: Final = 192
ONE: Final = 1 << BITS
EDGE_BITS: Final = 100
_EDGE: Final = ONE >> EDGE_BITS
_EDGE_LOGIT: Final = EDGE_BITS * math.log(2)
# Below this, growth by one factor (allowed_pairs) is within a part in 10^4 of the fastest where misses are free.
_TAIL: Final = ONE >> 12
# Floats are off by some 1e-15; this margin costs a test of 1,000 steps less than one part in 10^9 of its slope.
_MARGIN, _MORE, _TRIES = 1e-13, 16, 8
# A margin that was needed serves the next steps at once, while it costs less than can be seen.
_LARGEST_FIRST: Final = 1e-8
# Steps of many sensitivities settle quickly where probabilities change by a part in 1,000, but not where they fall by
# powers.
_STRETCHED_MARGIN, _SETTLING, _SETTLED, _HALVINGS = 1e-10, 3, 1e-3, 12
# Sides that differ from 1 by more than 10^-24 need 42 digits, which halve the time of 60. A miss price below 10^-9 has
# to be told from rounding at probabilities of 2^-100, and takes 80.
_FEWER_DIGITS, _MORE_DIGITS, _TINY = -18, 20, Fraction(1, 10**9)
# Below this speed floats do not find a next probability to the digits that are verified.
LEAST_SPEED: Final = Fraction(1, 10**5)
# Slower chains take several sensitivities at a step, as many as make it so fast: half a second and 10^5 numbers.
LEAST_EVEN_SPEED: Final = Fraction(1, 1000)
_STRETCHED_TO: Final = Fraction(1, 500)
# Where misses cost far less than hits no factor does for small probabilities, so thousands more are verified: fewer by
# this.
_FAR_LESS, _FASTER = Fraction(1, 1000), 3
# From this price on a test climbs no faster in its middle.
_SATURATED: Final = Fraction(1)


@lru_cache(maxsize=64)
def chance_chain(test: SharpTest) -> tuple[tuple[int, ...], int]:
    """The probabilities `f(j) 2^192` for each j of `stretch(test)` sensitivities, and the place where f is 1/2, j = 0.

    Guarantee: they rise, and if probabilities between them are mixed in proportion, each pair one sensitivity apart
    satisfies both inequalities of the test. Beyond the ends, within 2^-100 of 0 and 1, probabilities stay as they are.
    A `price` too small for a table raises `InvalidParameter`, with the least that works.
    """
    check_price(test)
    with precise(_MORE_DIGITS if 0 < Fraction(test.miss_price) < _TINY else _FEWER_DIGITS):
        walk = _Walk(test)
        below = [*walk.chances(up=False)]
        above = [*walk.chances(up=True)]
    below += tail(below)
    return (*reversed(below), ONE >> 1, *above), len(below)


def check_price(test: SharpTest, speed: Fraction = LEAST_SPEED) -> None:
    """Refuse a `price` too small for a table of this speed."""
    order = Fraction(test.order)
    least = least_price(order, speed)
    if Fraction(test.price) < least:
        raise InvalidParameter(
            f"a test at order {plain(order)} needs a price of a hit of at least {plain(least * Fraction(1001, 1000))}"
        )


def stretch(test: SharpTest) -> int:
    """How many sensitivities one step of the test's chain is long: 1 unless a hit costs very little.

    >>> stretch(SharpTest(18, "0.19295")), stretch(SharpTest(18, "0.0000003"))
    (1, 64)
    """
    order, price = Fraction(test.order), min(Fraction(test.price), _SATURATED)
    faster = _FASTER if 0 < Fraction(test.miss_price) < _FAR_LESS * Fraction(test.price) else 1
    if price >= least_price(order, LEAST_EVEN_SPEED * faster):
        return 1
    return math.ceil(_STRETCHED_TO * faster * Fraction(math.sqrt(order * (order - 1) / price)))


class _Walk:
    """Steps from 1/2 to either end; each is found in floats, drawn back a little and verified in decimals.

    A step of several sensitivities is divided evenly. Allowed pairs are a convex set, so all its pairs of neighbours
    are allowed if the first and the last are.
    """

    def __init__(self, test: SharpTest) -> None:
        self._pairs = Inequalities(test)
        self._steps = LogitSteps(test)
        self._stretch = stretch(test)
        self._margin = _MARGIN if self._stretch == 1 else _STRETCHED_MARGIN
        self._last = -_EDGE_LOGIT if test.miss_price else -math.log(ONE / _TAIL)

    def chances(self, *, up: bool) -> Iterator[int]:
        """The probabilities after 1/2, until the end."""
        logit, value, guess = 0.0, ONE >> 1, None
        while self._last < logit < _EDGE_LOGIT:
            guess = self._steps.step(logit, up=up, guess=guess)
            move = guess if up else -guess
            value = self._verified(value, logit, move if self._stretch == 1 else self._stretched(logit, move))
            logit = math.log(value / (ONE - value))
            yield value

    def _stretched(self, logit: float, move: float) -> float:
        """How far the logit moves in one step: as many times the shorter of the first and the last sensitivity's."""
        first, before, reached = _gap(logit, logit + move), move, move
        last, final = first, abs(move)
        rest = math.exp(log_chances(logit)[1 if move > 0 else 0])
        for _ in range(_SETTLING):
            change = self._stretch * min(first, last)
            if change >= rest:
                return self._ending(logit, move, final)
            before, reached = reached, _moved(logit, math.copysign(change, move)) - logit
            last, final = self._final(logit + reached, move, final)
        return reached if abs(reached - before) <= _SETTLED * abs(reached) else self._ending(logit, move, final)

    def _ending(self, logit: float, move: float, final: float) -> float:
        """`_stretched` near an end, where the last sensitivity's move is far shorter: by bisection of the move."""
        first, low, high = _gap(logit, logit + move), move, move * self._stretch
        for _ in range(_HALVINGS):
            middle = math.copysign(math.sqrt(low * high), move)
            last, final = self._final(logit + middle, move, final)
            fits = _gap(logit, logit + middle) <= self._stretch * min(first, last)
            low, high = (middle, high) if fits else (low, middle)
        return low

    def _final(self, end: float, move: float, guess: float) -> tuple[float, float]:
        """How far apart the last sensitivity of a step may be in probability, and in logits, to begin the next from."""
        back = self._steps.step(end, up=move < 0, guess=guess)
        return _gap(end - math.copysign(back, move), end), back

    def _verified(self, value: int, logit: float, move: float) -> int:
        margin = self._margin
        for _ in range(_TRIES):
            found = _nearest(logit + move * (1 - margin))
            found = value + (found - value) // self._stretch * self._stretch
            rises = value < found if move > 0 else found < value
            if rises and self._allowed(min(value, found), max(value, found)):
                self._margin = min(margin, _LARGEST_FIRST)
                return found
            margin *= _MORE
        raise InvalidParameter(
            "probabilities of neighbours cannot be told apart at this cost: take a larger price of a hit"
        )

    def _allowed(self, low: int, high: int) -> bool:
        part = (high - low) // self._stretch
        return self._pairs.allow(chance(low), chance(low + part)) and (
            self._stretch == 1 or self._pairs.allow(chance(high - part), chance(high))
        )


def chance(value: int) -> Chance:
    """A multiple of 2^-192 as decimals, which hold all of its digits; call inside `precise`.

    >>> with precise():
    ...     chance(ONE // 4)
    Chance(hit=Decimal('0.25'), miss=Decimal('0.75'))
    """
    return Chance(Decimal(value) / ONE, Decimal(ONE - value) / ONE)


def _nearest(logit: float) -> int:
    """The multiple of 2^-192 for a logit, no closer to 0 or 1 than half of 2^-100; the rarer side is precise."""
    hit, miss = log_chances(max(-_EDGE_LOGIT - 0.5, min(_EDGE_LOGIT + 0.5, logit)))
    return int(math.exp(hit) * float(ONE)) if hit < miss else ONE - int(math.exp(miss) * float(ONE))


def _gap(logit: float, other: float) -> float:
    """How far apart two probabilities are, from the rarer outcome's logarithms."""
    (hit, miss), (other_hit, other_miss) = log_chances(logit), log_chances(other)
    if hit < miss:
        return abs(math.exp(hit) * math.expm1(other_hit - hit))
    return abs(math.exp(miss) * math.expm1(other_miss - miss))


def _moved(logit: float, change: float) -> float:
    """The logit of the probability of this logit plus `change`."""
    hit, miss = (math.exp(log) for log in log_chances(logit))
    return math.log((hit + change) / (miss - change))


def tail(below: list[int]) -> list[int]:
    """Probabilities that fall by one factor from the last two, rounded up: the third point of `allowed_pairs`.

    Rounding up brings two neighbours nearer to each other than the factor, also within a step that is divided evenly.
    """
    least, above = below[-1], below[-2] if len(below) > 1 else ONE >> 1
    found, value = [], least
    while value > _EDGE:
        value = -(-value * least // above)
        found.append(value)
    return found


# The next probability of a hit in floats, by logits: where to look, never what is relied on.

# Powers are cut off here, where a side exceeds 1 by far, so that its slope is a float as well.
_LARGEST: Final = 300.0
_STEPS: Final = 100
# Newton's steps square their errors: behind one of this part of the move, only the rounding of floats is left.
_CLOSE: Final = 1e-8
_FACTOR: Final = 4.0
_FAR: Final = 1e6


@dataclass(frozen=True)
class LogitSteps:
    """Steps of one test between logits `ln(f / (1 - f))`, in which both ends of the probabilities are precise."""

    test: SharpTest

    @cached_property
    def _sizes(self) -> tuple[float, float, float]:
        order = float(self.test.order)
        return order - 1, float(self.test.price), float(self.test.miss_price)

    @property
    def _usual(self) -> float:
        """The move at small probabilities in the limit of small costs (theory chapter 2)."""
        power, price, _ = self._sizes
        return math.sqrt(2 * price / (power * (power + 1)))

    def step(self, logit: float, *, up: bool, guess: float | None = None) -> float:
        """How far the logit may move: up to the next probability of a hit, or down to the one whose next it is.

        Newton's method on the side that exceeds 1 most; as both sides are convex it comes from beyond. Where it leaves
        the bracket, or a side was cut off, the bracket is halved.
        """
        move, sign, low, high = guess or self._usual, 1.0 if up else -1.0, 0.0, math.inf
        start = log_chances(logit)
        for _ in range(_STEPS):
            excess, slope = self._excess(logit, start, sign * move)
            low, high = (low, move) if excess > 0 else (move, high)
            aim = move - excess / (sign * slope) if sign * slope > 0 and excess < _FAR else math.inf
            reached = min(aim if low < aim < high else (low + high) / 2, _FACTOR * move)
            if abs(aim - move) <= _CLOSE * move:
                return aim
            move = reached
        return low

    def _excess(self, logit: float, start: tuple[float, float], move: float) -> tuple[float, float]:
        """By how much the larger of both sides exceeds 1, and how fast it grows with the logit, whose probabilities
        `start` are."""
        power, price, miss_price = self._sizes
        hit, miss = start
        next_hit, next_miss = log_chances(logit + move)
        hits, misses = power * (next_hit - hit), power * (miss - next_miss)
        q, t, low = math.exp(next_hit), math.exp(next_miss), logit < 0
        rising, missed, made = _side(miss + misses - miss_price, hit - hits - price, low)
        falling, missed_back, made_back = _side(next_miss - misses - miss_price, next_hit + hits - price, low)
        if rising > falling:
            return rising, power * (missed * q - made * t)
        return falling, (power + 1) * (made_back * t - missed_back * q)


def log_chances(logit: float) -> tuple[float, float]:
    """The logarithms of the probabilities of a hit and of a miss.

    >>> log_chances(0.0) == (-math.log(2), -math.log(2))
    True
    """
    if logit > 0:
        hit = -math.log1p(math.exp(-logit))
        return hit, hit - logit
    miss = -math.log1p(math.exp(logit))
    return miss + logit, miss


def _side(miss: float, hit: float, low: bool) -> tuple[float, float, float]:
    """The excess over 1 of two terms given by their logarithms (the term near 1 by `expm1`), and both terms."""
    miss, hit = _LARGEST if miss > _LARGEST else miss, _LARGEST if hit > _LARGEST else hit
    missed, made = math.exp(miss), math.exp(hit)
    return (math.expm1(miss) + made if low else math.expm1(hit) + missed), missed, made


# The next probability of a hit, to sixty digits and on the allowed side; how it behaves near 0.

_NEWTON_STEPS: Final = 30
# The first margin is far below what 18 digits show; each try that fails takes a hundred times more, up to 1e-13.
_NEXT_MARGIN, _NEXT_MORE, _NEXT_TRIES = Decimal("1e-25"), 100, 7
_NEAR_ZERO: Final = Fraction(1, 10**40)


def next_miss_up(p: Number, *, order: Number, price: Number, miss_price: Number = 0) -> Fraction:
    """The probability of a miss, rounded up, one sensitivity above where the probability of a hit is p: `1 - next(p)`.

    `next(p)` is the largest probability of a hit that a neighbour may have at these costs. What is returned is
    certainly allowed, and above the true probability by less than one part in 1e12. Errors: `InvalidParameter` for p
    outside (0, 1) and for what `SharpTest` refuses.

    >>> float(next_miss_up("0.5", order=18, price="0.19295"))
    0.489953683288319
    """
    return _next_miss(probability(p, "p"), SharpTest(order, price, miss_price))


def tail_down(*, order: Number, price: Number) -> Fraction:
    """The factor that small probabilities of a hit may grow by: the limit of `next(p)/p` for p to 0, rounded down.

    It is the largest k with `k^a D <= a k - (a-1)` and `k^(1-a) D <= a - (a-1) k`, `D = e^-price`. Allowed pairs are a
    convex set with corner (0, 0), so `next(p)/p` grows as p falls, and any p gives a lower bound, off by a part of p.

    >>> float(tail_down(order=18, price="0.19295"))
    1.02898191056801...
    """
    return (1 - _next_miss(_NEAR_ZERO, SharpTest(order, price))) / _NEAR_ZERO


def _next_miss(p: Fraction, test: SharpTest) -> Fraction:
    # Near 0 the sides differ from 1 by a part of p only, which costs as many digits as p has zeros.
    with precise(len(str(math.ceil(1 / min(p, 1 - p))))):
        start = Chance(decimal(p), decimal(1 - p))
        pairs = Inequalities(test)
        logit = float(start.hit.ln() - start.miss.ln())
        move = Decimal(LogitSteps(test).step(logit, up=True))
        return Fraction(_backed(pairs, start, _polished(pairs, start, move)).miss)


def _polished(pairs: Inequalities, start: Chance, move: Decimal) -> Decimal:
    """The move of the logit by Newton's method on the larger side, from what floats found."""
    close = Decimal(10) ** (30 - getcontext().prec)
    for _ in range(_NEWTON_STEPS):
        sides = pairs.sides(start, moved(start, move))
        larger = max((sides.rising, sides.rising_slope), (sides.falling, sides.falling_slope))
        step = (larger[0] - 1) / larger[1]
        move -= step
        if abs(step) <= close * abs(move):
            break
    return move


def _backed(pairs: Inequalities, start: Chance, move: Decimal) -> Chance:
    """The probability a margin before this move, certainly allowed."""
    margin = _NEXT_MARGIN
    for _ in range(_NEXT_TRIES):
        reached = moved(start, move * (1 - margin))
        if pairs.allow(start, reached):
            return reached
        margin *= _NEXT_MORE
    raise InvalidParameter(
        "the next probability cannot be told apart from p at this cost: take a larger price of a hit"
    )


def moved(start: Chance, move: Decimal) -> Chance:
    """The probability whose logit is larger by `move`."""
    grown = start.hit * move.exp()
    return Chance(grown / (start.miss + grown), start.miss / (start.miss + grown))


# Tables of optimal threshold tests: the probability of a hit at each integer of steps from the centre, as exact
# rationals.


@dataclass(frozen=True)
class SharpTable:
    """The distribution of an optimal threshold test for values of a sensitivity of that many steps.

    `hit_chance(x)` rises with x and is 1/2 at x = 0. It is one of the exact multiples `chances[j] / 2^192` of the chain
    at each j-th of `spacing` steps: one sensitivity or, where a hit costs very little, several. Between them it is
    mixed in proportion. Beyond the chain, within 2^-100 of 0 and of 1, it stays. It is the distribution itself, not an
    approximation of one: a sampler draws from these rationals.

    Guarantee: for values that differ by at most a sensitivity the probabilities satisfy the test's inequalities, both
    ways round. For whole sensitivities each pair was verified, or lies between two that were; pairs between are
    mixtures of two of them, and allowed pairs are a convex set.

    >>> table = sharp_table(order=18, price="0.19295", steps=10)
    >>> table.hit_chance(0), float(table.hit_chance(10)), float(table.hit_chance(-10**9))
    (Fraction(1, 2), 0.5100463167116..., 7.75...e-31)
    """

    test: SharpTest
    spacing: int
    chances: tuple[int, ...]
    centre: int

    def hit_chance(self, steps: int) -> Fraction:
        """The probability of a hit this many steps above the centre."""
        place, part = divmod(steps, self.spacing)
        low, high = (self.chances[self.place(place + more)] for more in (0, 1))
        return Fraction(low * (self.spacing - part) + high * part, self.spacing * ONE)

    def place(self, spacings: int) -> int:
        """Where in `chances` that of this many times the spacing above the centre is."""
        return min(max(spacings + self.centre, 0), len(self.chances) - 1)

    def false_alarm_reach(self, chance: Number) -> int:
        """The fewest steps below the centre at which a hit has at most this probability.

        A probability below 2^-100 raises `InvalidParameter`.
        """
        most = probability(chance, "chance")
        return self._fewest(lambda steps: self.hit_chance(-steps) <= most, self.centre)

    def miss_reach(self, chance: Number) -> int:
        """The fewest steps above the centre at which a miss has at most this probability.
        Errors are as below the centre."""
        most = probability(chance, "chance")
        return self._fewest(lambda steps: 1 - self.hit_chance(steps) <= most, len(self.chances) - self.centre)

    def bar(self, chance: Number) -> int:
        """The steps above the centre, usually negative, half way between both reaches: where a threshold belongs.

        A test of a value asks for the hit probability at `value - threshold + bar(chance)`.
        """
        return (self.miss_reach(chance) - self.false_alarm_reach(chance)) // 2

    def _fewest(self, holds: Callable[[int], bool], spacings: int) -> int:
        low, high = -1, spacings * self.spacing
        if not holds(high):
            raise InvalidParameter(
                "the probabilities of an optimal threshold test end 2^-100 from 0 and 1: take a larger one"
            )
        return least(holds, low, high)


def sharp_table(*, order: Number, price: Number, miss_price: Number = 0, steps: int = 1) -> SharpTable:
    """The test that separates best at these costs of a hit and a miss, for a sensitivity of this many steps.

    Whole sensitivities apart, each probability is the next of the one before (`next_miss_up`), up to a part in 1e11;
    small probabilities fall by one factor. No test at these costs climbs faster (docs/theory/thresholds.md). Some costs
    are so small that it would climb by less than a part in 1,000 a sensitivity (300 where misses cost far less than
    hits). Then the table has one probability for several of them, evenly divided, and is wider by a part in a hundred
    at most. Tables are kept: the first takes some tens of milliseconds at usual costs, whatever the steps. Errors: as
    of `SharpTest`, and `InvalidParameter` for a `price` too small for a table.
    """
    test = SharpTest(order, price, miss_price)
    chances, centre = chance_chain(test)
    return SharpTable(test, whole(steps, "steps") * stretch(test), chances, centre)


# How often an optimal threshold test reports a truth below its threshold.


@dataclass(frozen=True)
class SharpTails:
    """The tails of a test whose threshold lies `bar` steps above the centre of its table (usually below: negative).

    >>> from chary.accounting.sharp_tests import sharp_table
    >>> tails = SharpTails(sharp_table(order=18, price="0.19295"), bar=-40)
    >>> tails.reach_up("0.001"), tails.at_least_up(tails.reach_up("0.001")) <= Fraction(1, 1000)
    (189, True)
    """

    table: SharpTable
    bar: int

    def at_least_up(self, distance: int) -> Fraction:
        """The probability of a hit of a truth so far below the threshold: the distribution itself."""
        return self.table.hit_chance(self.bar - distance)

    def reach_up(self, chance: Number) -> int:
        """The fewest steps below the threshold from which on a hit has at most this probability; never below 0."""
        return max(0, self.table.false_alarm_reach(chance) + self.bar)

    def miss_reach_up(self, chance: Number) -> int:
        """The fewest steps above the threshold from which on a miss has at most this probability; never below 0."""
        return max(0, self.table.miss_reach(chance) - self.bar)


# Two-sided optimal threshold tests: whether a value is far from a public one, above or below.


@dataclass(frozen=True)
class TwoSidedTable:
    """The distribution of a test whether integers are `change` steps or more away from 0.
    One unit moves them by at most the sensitivity of the table.

    `hit_chance(x) = max(f(x - change), f(-x - change))`, f the one-sided distribution: as f rises, that is `f(|x| -
    change)`.

    Guarantee: `SharpTest`, the event of the table: |x| moves by no more than x does. So the probabilities of
    neighbours, on one side or across the valley, are those of two values of the one-sided test. These differ by at most
    its sensitivity, also where a step of its chain is several sensitivities long. No test at these costs that hits at 0
    with no more than `valley` rises faster on either side (docs/theory/thresholds.md).

    >>> from chary.accounting.sharp_tests import sharp_table
    >>> apart = TwoSidedTable(sharp_table(order=18, price="0.19295", steps=10), change=900)
    >>> apart.hit_chance(900), apart.hit_chance(-900), float(apart.valley)
    (Fraction(1, 2), Fraction(1, 2), 0.051355621145167...)
    """

    table: SharpTable
    change: int

    @property
    def event(self) -> SharpTest:
        """What one test may reveal."""
        return self.table.test

    @property
    def valley(self) -> Fraction:
        """The least probability of a hit, that of 0."""
        return self.hit_chance(0)

    def hit_chance(self, steps: int) -> Fraction:
        """The probability of a hit this many steps above 0, or below it."""
        return self.table.hit_chance(abs(steps) - self.change)

    def false_alarm_reach(self, chance: Number) -> int | None:
        """The most steps from 0 at which a hit has at most this probability; None where even 0 hits more often."""
        most = self.change - self.table.false_alarm_reach(chance)
        return most if most >= 0 else None

    def miss_reach(self, chance: Number) -> int:
        """The fewest steps from 0 from which on a miss has at most this probability."""
        return max(0, self.change + self.table.miss_reach(chance))
