"""Which chances of a hit neighbours may have: the two inequalities of theory 10, in decimals rounded correctly.

With b = a - 1, X = ((1-p)/(1-q))^b, Y = (q/p)^b, D = e^-price, M = e^-miss_price they read
`(1-p) M X + p D / Y <= 1` and `(1-q) M / X + q D Y <= 1`. Each term is a perspective of a convex power, so the allowed
pairs (p, q) are a **convex** set. It holds every (p, p), and (0, 0) as a limit. Hence

- between p and the largest q that is allowed everything is allowed;
- mixtures of allowed pairs are allowed;
- if (p, k p) is allowed, so is (r, k r) for every r below p.
"""

from dataclasses import dataclass
from decimal import Decimal, getcontext
from fractions import Fraction

from chary.accounting.exponentials import decimal
from chary.accounting.sharp.sharp_event import SharpTest

# Roundings of a part in 10^prec, multiplied by orders of at most 10^7 or by logarithms of some 10^3, a dozen of them.
_SPARE_DIGITS = 12


@dataclass(frozen=True)
class Chance:
    """A chance of a hit and of a miss, each with all its digits."""

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

    >>> from chary.accounting.exponentials import precise
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
        rising = p.miss * self._miss_kept * misses + p.hit * self._hit_kept / hits
        return rising <= self._most and q.miss * self._miss_kept / misses + q.hit * self._hit_kept * hits <= self._most
