"""Confidence intervals of published values, of values that were withheld, and of what is computed from them."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, Final, NamedTuple, Protocol

from chary.accounting.accuracy import gaussian_sum_error_up, laplace_sum_error_up
from chary.accounting.noise_laws import Mass, NoiseLaw, level_down, share_up
from chary.accounting.numerics import float_down, float_up, precise
from chary.errors import InvalidParameter
from chary.numbers import (
    Number,
    checked,
    exact,
    natural_number,
    optional,
    plain,
    positive,
    probability,
    set_fields,
    whole,
)

# Which published hits to act on, from their p-values: lists with a stated share of false ones.
#
# Every rule takes p-values in the order in which the hits came and returns the places, from 0, of those to act on. What
# it guarantees depends on how the questions were chosen. The p-value of a hit by `Publication.p_value` is valid *given
# everything published before*: whatever was asked and why, a hit of a truth below its threshold has p <= u with a
# probability of at most u. Rules that need no more than that are safe for an analyst who chooses each question by the
# answers so far.

# Just below 6/pi^2: the shares of a budget, this over i^2, add up to less than 1.
_FIRST_SHARE: Final = Fraction(60792710185402662, 10**17)


class Rule(Protocol):
    """From p-values in order to the places to act on.
    One of `online_list`, `spending_list`, `benjamini_hochberg_list` and `e_value_list`.

    The *false discovery rate* of a list is the expected share of its members whose truth is below the threshold (0 for
    an empty list).
    """

    def __call__(self, p_values: Sequence[Number], level: Number) -> list[int]: ...


def share_at_down(place: int) -> Fraction:
    """The fraction of a budget for the place-th of any number of events, places from 1: `6/(pi^2 i^2)`, rounded down.

    >>> [round(float(share_at_down(place)), 4) for place in (1, 2, 10)]
    [0.6079, 0.152, 0.0061]
    """
    return _FIRST_SHARE / whole(place, "place") ** 2


def online_list(p_values: Sequence[Number], level: Number) -> list[int]:
    """Decide on each hit as it comes: act if `p <= level 6/(pi^2 i^2) (k + 1)`, k being the number acted on before.

    Guarantee: the false discovery rate is at most `level` at every moment, wherever one stops looking, for questions
    chosen adaptively. A decision never changes later (Javanmard and Montanari 2018, LOND; proof in
    docs/theory/noise.md).

    >>> online_list([0.001, 0.5, 0.01, 0.02], "0.1")
    [0, 2]
    """
    chosen: list[int] = []
    for place, (p, share) in enumerate(_shared(p_values, level)):
        if p <= share * (len(chosen) + 1):
            chosen.append(place)
    return chosen


def spending_list(p_values: Sequence[Number], level: Number) -> list[int]:
    """Decide on each hit as it comes: act if `p <= level 6/(pi^2 i^2)`.

    Guarantee: with probability `1 - level` not a single member of the list is false, for any number of hits and
    questions chosen adaptively. Stricter than a false discovery rate, which it bounds too.
    """
    return [place for place, (p, share) in enumerate(_shared(p_values, level)) if p <= share]


def benjamini_hochberg_list(p_values: Sequence[Number], level: Number) -> list[int]:
    """Act on the k hits of smallest p, for the largest k whose k-th smallest p is at most `level k / n`.

    Guarantee: the false discovery rate is at most `level` under two conditions. All questions, thresholds and supports
    were fixed before the first answer. Noises are independent; then the p-values are independent, given which were
    published. It does *not* hold for an analyst who goes on until the list has a member; take `online_list` there.

    >>> benjamini_hochberg_list([0.04, 0.5, 0.01, 0.02], "0.1")
    [0, 2, 3]
    """
    ranked = sorted((_p(p), place) for place, p in enumerate(p_values))
    rate = probability(level, "level")
    least = [k for k, (p, _) in enumerate(ranked, 1) if p * len(ranked) <= rate * k]
    return sorted(place for _, place in ranked[: least[-1] if least else 0])


def e_value_list(p_values: Sequence[Number], level: Number, *, most: int | None = None) -> list[int]:
    """Benjamini-Hochberg on e-values `1/(2 sqrt(p))`: act on the k largest for the largest k at which all say enough.

    Each place has a weight w, by default `6/(pi^2 i^2)`. It is `1/most` where it was agreed beforehand that there would
    be at most this many hits. The k-th largest w e must be `1/(k level)` at least (Wang and Ramdas 2022, with weights).

    Guarantee: the false discovery rate is at most `level`, for questions chosen adaptively and p-values that depend on
    each other in any way. It looks back at the whole list, so earlier hits may join when later ones are strong.
    Errors: `InvalidParameter` for more p-values than `most`.

    >>> e_value_list([1e-7, 0.5, 1e-8, 1e-3], "0.1", most=4), e_value_list([1e-7, 0.5, 1e-8, 1e-3], "0.1")
    ([0, 2, 3], [0, 2])
    """
    if most is not None and len(p_values) > whole(most, "most"):
        raise InvalidParameter("there are more p-values than the most hits that were agreed on")
    rate = probability(level, "level")
    # Squares, so that all is rational: w/(2 sqrt(p)) >= 1/(k level) where (k level w)^2 >= 4 p.
    weights = [share_at_down(place) if most is None else Fraction(1, most) for place in range(1, len(p_values) + 1)]
    needs = [4 * _p(p) / weight**2 for p, weight in zip(p_values, weights, strict=True)]
    ranked = sorted((needed, place) for place, needed in enumerate(needs))
    least = [k for k, (needed, _) in enumerate(ranked, 1) if (k * rate) ** 2 >= needed]
    return sorted(place for _, place in ranked[: least[-1] if least else 0])


def fdr(p_values: Sequence[Number], *, level: Number = Fraction(1, 10), rule: Rule = online_list) -> list[int]:
    """The places, from 0, of the hits to act on, so that the expected share of false ones is at most `level`.

    By default the rule that holds for any analyst, whenever one stops. Errors: `InvalidParameter` for p-values outside
    [0, 1] and a level outside (0, 1).

    >>> fdr([0.001, 0.5, 0.01, 0.02])
    [0, 2]
    """
    return rule(p_values, level)


def _shared(p_values: Sequence[Number], level: Number) -> Iterator[tuple[Fraction, Fraction]]:
    """Each p-value with the part of the level that belongs to its place."""
    rate = probability(level, "level")
    return ((_p(p), rate * share_at_down(place)) for place, p in enumerate(p_values, 1))


def _p(value: Number) -> Fraction:
    found = exact(value, "a p-value")
    if not 0 < found <= 1:
        raise InvalidParameter("p-values must be greater than 0 and at most 1")
    return found


# What holds for all values of many tests at once: errors, margins, expected false alarms, thresholds.
#
# All distances are in grid steps and err on the safe side. A budget beta = 1 - confidence is split over the tests,
# which needs nothing of how they depend on each other or were chosen (theory chapter 3).


class Tails(Protocol):
    """How often a test reports a truth below its threshold, in grid steps: `NoiseLaw`, `SharpTails`, `SparseTails`."""

    def at_least_up(self, distance: int) -> Fraction:
        """The probability that a truth so far below the threshold (negative: above) is reported, rounded up."""

    def reach_up(self, chance: Number) -> int:
        """The least distance below the threshold from which on that probability is at most this, certainly."""

    def miss_reach_up(self, chance: Number) -> int:
        """The least distance above the threshold from which on a truth is missed with at most this probability."""


def confidence_of_each(confidence: Number, count: int) -> Fraction:
    """The confidence at which each of this many intervals is taken, so that all cover together with `confidence`.

    Guarantee with the intervals of `Publication`: for `count` agreed beforehand (the hits a budget pays for, say), or
    the number published if all questions were fixed before the first answer.

    >>> confidence_of_each("0.95", 10)
    Fraction(199, 200)
    """
    return 1 - (1 - probability(confidence, "confidence")) / whole(count, "count")


def confidence_at(confidence: Number, place: int) -> Fraction:
    """The confidence of the place-th interval, places from 1, when nobody knows how many there will be.

    The i-th may fail with `6 beta/(pi^2 i^2)`, which adds up to beta: all that are ever taken cover together with
    `confidence`, for questions chosen adaptively and wherever one stops.

    >>> round(float(confidence_at("0.95", 2)), 4)
    0.9924
    """
    return 1 - (1 - probability(confidence, "confidence")) * share_at_down(place)


def error_of_all_up(noise: NoiseLaw, *, tests: int, confidence: Number) -> int:
    """The steps within which the noise of every one of this many tests stays, published or not, with `confidence`.

    For Laplace noise of scale b about `b ln(tests/beta)`.

    >>> from chary.accounting.noise_laws import LaplaceLaw
    >>> error_of_all_up(LaplaceLaw(20), tests=1, confidence="0.95")
    60
    >>> error_of_all_up(LaplaceLaw(20), tests=10_000, confidence="0.95")
    244
    """
    return noise.reach_up(_failure(confidence, tests) / 2) - 1


def margin_up(noise: Tails, *, tests: int, confidence: Number) -> int:
    """The margin of tests: with `confidence` no value whose truth is this far below its threshold, or farther, is a
    hit.

    For Laplace noise of scale b about `b ln(tests/(2 beta))`. Where the threshold less the margin is at or below what
    values may ordinarily be, false alarms are to be expected.

    >>> from chary.accounting.noise_laws import LaplaceLaw
    >>> margin_up(LaplaceLaw(20), tests=10_000, confidence="0.95")
    231
    """
    return noise.reach_up(_failure(confidence, tests))


def least_bar(noise: Tails, *, truth: int, tests: int, confidence: Number = Fraction(19, 20)) -> int:
    """The least threshold at which, with `confidence`, none of these tests with truths up to `truth` is a false alarm.

    >>> from chary.accounting.noise_laws import LaplaceLaw
    >>> least_bar(LaplaceLaw(20), truth=0, tests=10_000)
    231
    """
    return truth + margin_up(noise, tests=tests, confidence=confidence)


def false_alarms_up(noise: Tails, *, bar: int, truth: int, tests: int) -> float:
    """The expected number of reports if this many tests have truths of at most `truth`: `tests P(Z >= bar - truth)`.

    For Laplace noise `N r^(bar - truth)/(1 + r)` where the threshold lies above. Rounded up.

    >>> from chary.accounting.noise_laws import LaplaceLaw
    >>> round(false_alarms_up(LaplaceLaw(20), bar=100, truth=0, tests=10_000), 2)
    34.53
    """
    return float_up(whole(tests, "tests") * noise.at_least_up(bar - truth))


def _failure(confidence: Number, tests: int) -> Fraction:
    return (1 - probability(confidence, "confidence")) / whole(tests, "tests")


# The interval of a mean, a ratio of two noisy numbers that both have intervals.

Ends = tuple[int | None, int | None]


def mean_interval(
    sums: Ends, counts: Ends, *, center: Number, bounds: tuple[Number, Number], grid: Number = 1
) -> tuple[float, float]:
    """Every mean that a sum of differences to the center and a count in their intervals can have, rounded outwards.

    The mean is `center + grid * sum / count`, clipped to `bounds`. Intervals are in whole steps, ends included, None
    for no end. A count is taken for 1 at least, since there is no mean of no values; where no count of 1 or more is
    left, the answer is the bounds.

    Guarantee: if both cover with probability 1 - beta together (each with 1 - beta/2, say), this covers the mean of the
    clipped values with 1 - beta (theory chapter 3).

    Errors: `InvalidParameter` for an interval whose ends are the wrong way round.

    >>> stay = {"center": 15, "bounds": (0, 30)}
    >>> mean_interval((-520, -480), (90, 110), **stay), mean_interval((-520, None), (-20, 20), **stay)
    ((9.2222..., 10.6363...), (0.0, 30.0))
    """
    low, high = (exact(end, "bounds") for end in bounds)
    for first, last in (sums, counts, (low, high)):
        if first is not None and last is not None and first > last:
            raise InvalidParameter("the ends of an interval must be in rising order")
    least, most = max(1, counts[0] or 1), counts[1]
    if most is not None and most < 1:
        return float_down(low), float_up(high)
    middle, step = exact(center, "center"), positive(grid, "grid")
    down, up = _quotient(sums[0], least, most, -1), _quotient(sums[1], least, most, 1)
    ends = (low if down is None else middle + step * down, high if up is None else middle + step * up)
    first, last = (min(max(end, low), high) for end in ends)
    # Adding 0.0 makes of the -0.0 that rounding downwards gives a 0.0.
    return float_down(first) + 0.0, float_up(last)


def mean_between(
    above: tuple[int, int], below: tuple[int, int], *, bounds: tuple[Number, Number]
) -> tuple[float, float]:
    """Every mean of values, rounded outwards.
    Distances from the lower bound sum up to a number in `above`, and those from the upper bound to one in `below`.

    With sums A and B the mean is `low + (high - low) A/(A + B)`, which rises with A and falls with B. Sums of distances
    are not negative. Where all of an interval is, it does not cover, so nothing is known. Where neither sum can be
    positive, there are no values. In both cases the answer is the bounds.

    Guarantee: if both cover with probability 1 - beta together, so does this cover the mean of the clipped values.

    Errors: `InvalidParameter` for an interval whose ends are the wrong way round.

    >>> mean_between((480, 520), (960, 1040), bounds=(0, 30))
    (9.4736..., 10.5405...)
    """
    low, high = (exact(end, "bounds") for end in bounds)
    for first, last in (above, below, (low, high)):
        if first > last:
            raise InvalidParameter("the ends of an interval must be in rising order")
    (least, most), (fewest, largest) = ((max(0, first), last) for first, last in (above, below))
    if most < 0 or largest < 0 or not (most or largest):
        return float_down(low) + 0.0, float_up(high)
    down = Fraction(least, least + largest) if least else Fraction(0)
    up = Fraction(most, most + fewest) if fewest else Fraction(1)
    return float_down(low + (high - low) * down) + 0.0, float_up(low + (high - low) * up)


def _quotient(total: int | None, least: int, most: int | None, sign: int) -> Fraction | None:
    """The smallest (sign -1) or largest quotient of this sum by a count from least to most; None for no end."""
    if total is None:
        return None
    if total * sign >= 0:
        return Fraction(total, least)
    return Fraction(0) if most is None else Fraction(total, most)


# Which noisy values are published: finite unions of intervals of whole grid steps.

End = int | None
Piece = tuple[End, End]


@dataclass(frozen=True)
class Support:
    """The noisy values, in grid steps, that a call publishes: pieces `(first, last)`, both included, None for no end.

    Pieces may touch or overlap in any order; they are put together. No piece at all, a piece whose first is above its
    last, and ends that are no integers raise `InvalidParameter`.

    >>> Support.outside(90, 110).pieces
    ((None, 89), (111, None))
    >>> Support(((5, 9), (1, 4))) == Support.between(1, 10)
    True
    """

    pieces: tuple[Piece, ...]

    def __post_init__(self) -> None:
        for first, last in self.pieces:
            if any(isinstance(end, bool) or not isinstance(end, (int, type(None))) for end in (first, last)):
                raise InvalidParameter("ends of a support must be integers of grid steps, or None for no end")
        pieces = tuple(_joined(self.pieces))
        if not pieces or any(_empty(piece) for piece in self.pieces):
            raise InvalidParameter("a support must hold a value: its first must not be above its last")
        set_fields(self, pieces=pieces)

    @classmethod
    def everything(cls) -> "Support":
        """An ordinary release: whatever comes out is published."""
        return cls(((None, None),))

    @classmethod
    def at_least(cls, bar: int) -> "Support":
        """A conditional release: noisy values from the threshold on."""
        return cls(((bar, None),))

    @classmethod
    def between(cls, bar: int, below: int) -> "Support":
        """A revision that lowered the threshold from `below` to `bar`, or a zone: from `bar` on, below `below`."""
        return cls(((bar, below - 1),))

    @classmethod
    def outside(cls, first: int, last: int) -> "Support":
        """A change: all values but those from `first` to `last`."""
        return cls(((None, first - 1), (last + 1, None)))

    @property
    def lowest(self) -> End:
        """The least value; None if there is none."""
        return self.pieces[0][0]

    @property
    def highest(self) -> End:
        """The largest value; None if there is none."""
        return self.pieces[-1][1]

    def __contains__(self, value: int) -> bool:
        return bool(self.cut(value, value))

    def cut(self, first: End, last: End) -> list[Piece]:
        """The pieces of the intersection with the interval from `first` to `last`, both included."""
        found = [(_larger(first, low), _smaller(last, high)) for low, high in self.pieces]
        return [piece for piece in found if not _empty(piece)]

    def moved(self, steps: int) -> "Support":
        """The support shifted by this many grid steps."""
        return Support(tuple((_less(first, -steps), _less(last, -steps)) for first, last in self.pieces))

    def mirrored(self) -> "Support":
        """The negatives of its values."""
        return Support(tuple((_minus(last), _minus(first)) for first, last in self.pieces))


def _joined(pieces: Iterable[Piece]) -> list[Piece]:
    """The pieces in rising order; pieces that touch or overlap become one."""
    found: list[Piece] = []
    for first, last in sorted(pieces, key=lambda piece: (piece[0] is not None, piece[0] or 0)):
        if found and (found[-1][1] is None or first is None or first <= found[-1][1] + 1):
            before, until = found.pop()
            found.append((before, None if until is None or last is None else max(until, last)))
        else:
            found.append((first, last))
    return found


def _empty(piece: Piece) -> bool:
    return piece[0] is not None and piece[1] is not None and piece[0] > piece[1]


def _larger(one: End, other: End) -> End:
    return other if one is None else one if other is None else max(one, other)


def _smaller(one: End, other: End) -> End:
    return other if one is None else one if other is None else min(one, other)


def _minus(end: End) -> End:
    return None if end is None else -end


# Where an interval ends that is valid given that the value was published: truths that make the value too rare.

# No truth of 64 bits is farther from a value that was published; a search ends there with "no end", which is wider.
_FARTHEST: Final = 2**66
_LEAST: Final = 1e-12
_COARSE: Final = Context(prec=12, Emax=MAX_EMAX, Emin=MIN_EMIN)


def tail_up(noise: NoiseLaw, support: Support, first: int, truth: int) -> Decimal:
    """`P(V >= first | V in the support)` for V = truth + noise, rounded up; call inside `precise`.

    It rises with the truth, which is what all else here rests on (docs/theory/noise.md, "Given that it was
    published").
    """

    def masses(pieces: list[Piece]) -> list[Mass]:
        return [mass for low, high in pieces for mass in noise.masses(_less(low, truth), _less(high, truth))]

    return share_up(masses(support.cut(first, None)), masses(support.cut(None, first - 1)))


def lower_end(noise: NoiseLaw, support: Support, first: int, chance: Fraction) -> End:
    """The least truth under which a published value is `first` or more with more than `chance`; None if all are such.

    All truths below it are certainly such that this happens with `chance` at most: it errs downwards only. It is never
    above `first`, though every truth up to there may make the value too rare.
    """
    with precise():
        level = level_down(chance)

        def excess(truth: int) -> float:
            found = tail_up(noise, support, first, truth)
            height = _height(found / level)
            # The side is decided by the decimals themselves.
            return max(height, _LEAST) if found > level else min(height, -_LEAST)

        # Noise without memory treats all truths below the support alike; elsewhere nobody looks farther.
        least = support.lowest if noise.flat and support.lowest is not None else first - _FARTHEST
        return _last_kept(excess, first, least, noise)


def upper_end(noise: NoiseLaw, support: Support, last: int, chance: Fraction) -> End:
    """The largest truth under which a published value is `last` or less with more than `chance`: as `lower_end`."""
    found = lower_end(noise, support.mirrored(), -last, chance)
    return None if found is None else -found


def _last_kept(excess: Callable[[int], float], start: int, least: int, noise: NoiseLaw) -> End:
    """The least from the start down with an excess above 0, where none below has one; the start if it has none.

    None where the least has one too. Each tail takes long to compute. The search goes where a straight line through the
    last two puts the end. It halves the height of a side that stays (the Illinois rule), so that both come closer.
    """
    low = high = start
    below = above = excess(start)
    if above <= 0:
        return start
    step = 1 + int(noise.spread * (above if noise.flat else math.sqrt(2 * above)))
    while below > 0:
        if low == least:
            return None
        high, above = low, below
        low, step = max(low - step, least), 2 * step
        below = excess(low)
    moved = 0
    while high - low > 1:
        middle = _crossing(low, below, high, above)
        found, before = excess(middle), moved
        moved = 1 if found > 0 else -1
        if found > 0:
            high, above, below = middle, found, below / 2 if moved == before else below
        else:
            low, below, above = middle, found, above / 2 if moved == before else above
    return high


def _crossing(low: int, below: float, high: int, above: float) -> int:
    """Where the line through both is 0, strictly between them; the middle where a height has no float."""
    share = below / (below - above) if -math.inf < below < above else 0.5
    return min(max(low + int((high - low) * share), low + 1), high - 1)


def _height(ratio: Decimal) -> float:
    """The logarithm of the ratio, to a few digits. It only decides where the search looks next."""
    return float(_COARSE.ln(ratio)) if ratio else -math.inf


def _less(end: End, truth: int) -> End:
    return None if end is None else end - truth


# What a published noisy value says about the truth: intervals and p-values given that it was published.

CONFIDENCE: Final = Fraction(19, 20)
# Floats below this have no digits left; a p-value is never reported as 0.
_SMALLEST: Final = 1e-300
# Thousands of hits of one watch have a few hundred distances from its threshold.
_KEPT: Final = 4096


class Interval(NamedTuple):
    """Where the truth lies, both ends included, in the units of the answer; None is no end on that side."""

    low: int | float | None
    high: int | float | None

    def __str__(self) -> str:
        return f"{'(-' if self.low is None else f'[{self.low}'}, {'-)' if self.high is None else f'{self.high}]'}"


@dataclass(frozen=True)
class Publication:
    """A value that was published because of how it came out: truth + noise, where that lies in a public support.

    `noise` and `support` are in grid steps; values, `step`, `floor` and `ceiling` in the answer's own units, of which a
    grid step is `grid`. With `step`, what is published is the noisy value rounded to the nearest multiple (halves
    upwards), and it stands for all that round to it. `floor` and `ceiling` bound what the truth can be, whatever the
    data, such as 0 for a count. `bar`, in grid steps, is for a value with noise of its own: that against which another
    noise tested it. `clearing` says that it was published as something ended: it is no alarm, and has no p-value.

    Guarantee: an interval covers the truth with at least `confidence`, given everything published before and given that
    this value was published. That holds whatever the truth is, and however the question and the support were chosen
    from what was published before (chapter 3; the noise is independent of the past). Hence the expected number of
    published values whose interval misses is at most `1 - confidence` times the expected number of published values,
    for any number of questions. Ends err outwards only, and the value itself always lies between them.

    With Laplace noise of scale b a hit less than `b ln(2/beta)` above its threshold has no lower end: it may be a false
    alarm.

    >>> from chary.accounting.noise_laws import LaplaceLaw
    >>> watch = Publication(LaplaceLaw(20), Support.at_least(100))
    >>> [str(watch.interval(value)) for value in (100, 160, 175, 200, 400)]
    ['(-, 107]', '(-, 219]', '[106, 234]', '[139, 260]', '[340, 460]']
    >>> round(watch.p_value(175), 6)
    0.023518
    """

    noise: NoiseLaw
    support: Support = Support.everything()  # noqa: RUF009 - frozen
    _: KW_ONLY
    grid: Number = 1
    step: Number | None = None
    floor: Number | None = None
    ceiling: Number | None = None
    bar: int | None = None
    clearing: bool = False
    at_once: ClassVar[bool] = False

    def __post_init__(self) -> None:
        checked(self, grid=positive, step=optional(positive), floor=optional(exact), ceiling=optional(exact))
        if None not in (self.floor, self.ceiling) and Fraction(self.floor or 0) > Fraction(self.ceiling or 0):
            raise InvalidParameter("`floor` must not be above `ceiling`")

    def interval(self, value: Number, confidence: Number = CONFIDENCE) -> Interval:
        """The truths under which the published value is not among the rarest on either side, cut to what they can be.

        Errors: `InvalidParameter` for a value that is never published, and a confidence outside (0, 1).
        """
        low, high = self._ends(value, confidence)
        return Interval(self._told(low, self.floor), self._told(high, self.ceiling))

    def within(self, value: Number, below: int, above: int) -> Interval:
        """From this many grid steps below the value to this many above it, cut to what the truth can be."""
        first, last = self._block(value)
        return Interval(self._told(first - below, self.floor), self._told(last + above, self.ceiling))

    def caution(self, value: Number, confidence: Number = CONFIDENCE) -> str | None:
        """A warning in words if the interval contains a truth for which nothing is published; None if it does not.

        `floor` and `ceiling` are ignored. With Laplace noise there is a warning exactly where the interval has no end
        on the side of such truths. There is none where everything is published and no threshold was tested.
        """
        since, until = self._held_back
        if since is None and until is None:
            return None
        low, high = self._ends(value, confidence)
        down, up = low is None or until is None or low <= until, high is None or since is None or high >= since
        if not (down and up):
            return None
        below = since is None and until is not None and high is not None and high <= until
        above = until is None and since is not None and low is not None and low >= since
        if below or above:
            return f"probably a false {self._event}: the whole interval lies where nothing is published"
        if since is None and low is None:
            return f"may be a false {self._event}: no lower end"
        return f"may be a false {self._event}: the interval reaches what is withheld"

    def p_value(self, value: Number) -> float | None:
        """An upper bound on the probability, under the null hypothesis, of this value or one farther away.

        The null hypothesis is a truth for which nothing should be published. It lies below the threshold (a hit, a
        revision, a fresh value), above the last value (a support without a lowest), or between both pieces (a change).
        None for a clearing, and where everything may be published and no threshold was tested. Guarantee: given that
        the value was published, the p-value is at most p with a probability of at most p, whatever was asked before
        (theory chapter 3).
        """
        first, last = self._block(value)
        since, until = (None, None) if self.clearing else self._held_back
        rise = None if until is None else self._rarer(self.support, first, until)
        fall = None if since is None else self._rarer(self.support.mirrored(), -last, -since)
        if rise is None or fall is None:
            return fall if rise is None else rise
        return min(1.0, 2 * min(rise, fall))

    @property
    def _event(self) -> str:
        return "clearing" if self.clearing else "alarm"

    @property
    def _held_back(self) -> tuple[End, End]:
        """The ends of the null hypothesis in grid steps, None for no end; both None where there is none."""
        pieces = self.support.pieces
        if self.bar is not None:
            return None, self.bar - 1
        if pieces[0][0] is not None:
            return None, pieces[0][0] - 1
        if pieces[-1][1] is not None:
            return pieces[-1][1] + 1, None
        return (None, None) if len(pieces) == 1 else ((pieces[0][1] or 0) + 1, (pieces[-1][0] or 0) - 1)

    def _ends(self, value: Number, confidence: Number) -> tuple[End, End]:
        """The ends in grid steps, before known ranges cut them."""
        first, last = self._block(value)
        chance = (1 - probability(confidence, "confidence")) / 2
        moved = self.support.moved(-first)
        low, high = _ends_from(self.noise, moved, last - first, chance)
        return None if low is None else low + first, None if high is None else high + first

    def _rarer(self, support: Support, first: int, truth: int) -> float:
        with precise():
            found = float(tail_up(self.noise, support, first, truth))
        # The guard of the share is a billion times the rounding of a float.
        return min(1.0, max(found, _SMALLEST) * (1 + 1e-15))

    def _block(self, value: Number) -> tuple[int, int]:
        """The least and the largest noisy value, in grid steps, that are published as this value."""
        number, grid = exact(value, "value"), Fraction(self.grid)
        unit = grid if self.step is None else Fraction(self.step)
        # A float stands for every multiple that is rounded to it: to what it is, not to its shortest decimals.
        half = Fraction(math.ulp(value)) / 2 if isinstance(value, float) else Fraction(0)
        stored = Fraction(value) if isinstance(value, float) else number
        first, last = math.ceil((stored - half) / unit), math.floor((stored + half) / unit)
        if first > last:
            raise InvalidParameter(f"value must be a multiple of {plain(unit)}, got {plain(number)}")
        if self.step is not None:
            first, last = (math.ceil((2 * cell - 1) * unit / (2 * grid)) for cell in (first, last + 1))
            last -= 1
        found = self.support.cut(first, last)
        if not found:
            raise InvalidParameter(f"a value of {plain(number)} is never published: it lies outside the support")
        return found[0][0] or 0, found[-1][1] or 0

    def _told(self, steps: End, without: Number | None) -> int | float | None:
        """An end in the answer's own units, moved into what the truth can be; `without` if there is no end."""
        grid = Fraction(self.grid)
        found = steps * grid if steps is not None else None if without is None else Fraction(without)
        return None if found is None else _possible(found, self.floor, self.ceiling)


def _possible(end: Fraction, floor: Number | None, ceiling: Number | None) -> int | float:
    """An end moved into the range of the truth; an integer where it is one."""
    found = end if floor is None else max(end, Fraction(floor))
    return natural_number(found if ceiling is None else min(found, Fraction(ceiling)))


@lru_cache(maxsize=_KEPT)
def _ends_from(noise: NoiseLaw, support: Support, last: int, chance: Fraction) -> tuple[End, End]:
    """The ends for the block from 0 to `last`; the noise does not depend on the value, so other blocks are shifts."""
    return lower_end(noise, support, 0, chance), upper_end(noise, support, last, chance)


# Intervals of a weighted sum of several published values.


@dataclass(frozen=True)
class Combination:
    """How a value was made: a weighted sum of numbers with independent noise, all of them published.

    `deviation`, `absolute` and `squared` are as in `laplace_sum_error_up`, in the answer's own units; `gaussian` says
    which noise it was. `floor` and `ceiling` bound what the truth can be, whatever the data.

    Guarantee: its interval covers the truth with at least `confidence`, whatever the truth. It was published in any
    case, so it is no alarm and has no p-value.

    >>> made = Combination(deviation=100, absolute=3, squared=3, floor=0)
    >>> [round(end) for end in made.interval(150)]
    [0, 369]
    """

    deviation: float
    absolute: float
    squared: float
    gaussian: bool = False
    floor: float | None = None
    ceiling: float | None = None
    at_once: ClassVar[bool] = False

    def reach(self, confidence: Number = CONFIDENCE) -> float:
        """Half the width of the interval: the truth is at most this far from the value, with this confidence."""
        beta: Fraction = 1 - probability(confidence, "confidence")
        if self.gaussian:
            return gaussian_sum_error_up(self.deviation, self.absolute, beta)
        return laplace_sum_error_up(self.deviation, self.absolute, self.squared, beta)

    def interval(self, value: Number, confidence: Number = CONFIDENCE) -> Interval:
        """The value plus and minus `reach`, cut to the range of the truth."""
        reach, told = self.reach(confidence), float(value)
        least = -math.inf if self.floor is None else self.floor
        most = math.inf if self.ceiling is None else self.ceiling
        low, high = (min(max(end, least), most) for end in (told - reach, told + reach))
        return Interval(low, high)

    def p_value(self, value: Number) -> float | None:
        """None: the value was published in any case, so it is no alarm."""
        return None

    def caution(self, value: Number, confidence: Number = CONFIDENCE) -> str | None:
        """None, for the same reason."""
        return None


# Values that were published because they were the largest of many: how far each may be off, together.


class Reach(NamedTuple):
    """By how many grid steps truths may lie below and above the published values."""

    below: int
    above: int


def chosen_reach_up(noise: NoiseLaw, *, candidates: int, published: int, confidence: Number) -> Reach:
    """How far the truths of at most `published` values may lie from them, all together with `confidence`.

    The values are the largest noisy ones of that many candidates, each with its own independent noise of this
    distribution. Any rule will do under which a candidate whose noise alone grows stays published, such as the best k.
    So will those above a threshold, and those up to the first gap.

    Guarantee: with probability `confidence` every published value v has its truth in `[v - below, v + above]`. A value
    chosen for its size has noise that is too high rather than too low. So all candidates count below it, for Laplace
    noise of scale b about `b ln(n/beta)`. Above it only the published ones do (this work). Noise that is low makes
    being published less likely, so the expected number published with noise below -m is at most `published P(Z < -m)`.

    Errors: `InvalidParameter` for more published than candidates.

    >>> from chary.accounting.noise_laws import LaplaceLaw
    >>> chosen_reach_up(LaplaceLaw(20), candidates=1000, published=3, confidence="0.95")
    Reach(below=198, above=82)
    """
    if whole(published, "published") > whole(candidates, "candidates"):
        raise InvalidParameter("published must not be more than candidates")
    half = Fraction(1 - probability(confidence, "confidence")) / 2
    return Reach(noise.reach_up(half / candidates) - 1, noise.reach_up(half / published) - 1)


@dataclass(frozen=True)
class LargestOf:
    """Values published as the largest of `candidates`, at most `most` of them, by a rule as `chosen_reach_up` allows.

    Guarantee: the intervals of all values of one such call hold together with `confidence`; so does each alone. Units,
    `floor` and `ceiling` are as for `Publication`.

    >>> from chary.accounting.noise_laws import LaplaceLaw
    >>> str(LargestOf(LaplaceLaw(20), candidates=1000, most=3).interval(500))
    '[302, 582]'
    """

    noise: NoiseLaw
    _: KW_ONLY
    candidates: int
    most: int
    grid: Number = 1
    floor: Number | None = None
    ceiling: Number | None = None
    at_once: ClassVar[bool] = True

    def interval(self, value: Number, confidence: Number = CONFIDENCE) -> Interval:
        """Where the truth lies, together with those of all other values of the call."""
        units = Publication(self.noise, grid=self.grid, floor=self.floor, ceiling=self.ceiling)
        return units.within(
            value, *_reach(self.noise, self.candidates, self.most, probability(confidence, "confidence"))
        )

    def p_value(self, value: Number) -> None:
        """None: nothing is withheld for being low, so it is no alarm."""

    def caution(self, value: Number, confidence: Number = CONFIDENCE) -> None:
        """None, for the same reason."""


@lru_cache
def _reach(noise: NoiseLaw, candidates: int, most: int, confidence: Fraction) -> Reach:
    return chosen_reach_up(noise, candidates=candidates, published=most, confidence=confidence)


# Intervals of a truth that was tested and not reported.


@dataclass(frozen=True)
class Silence:
    """A truth that was tested against the threshold `bar`, in grid steps, by a test with these tails, and not reported.

    `grid`, `floor` and `ceiling` are those of a `Publication`: steps in the answer's own units, what truths can be.
    `thresholds` is how many hidden ones a sparse vector may draw, of which any may have been the one that was tested.

    >>> from chary.accounting.noise_laws import LaplaceLaw
    >>> str(Silence(LaplaceLaw(20), 100).truths())
    '(-, 145]'
    """

    tails: Tails
    bar: int
    _: KW_ONLY
    grid: Number = 1
    floor: Number | None = None
    ceiling: Number | None = None
    thresholds: int = field(default=1)

    def __post_init__(self) -> None:
        checked(self, grid=positive)

    def truths(self, confidence: Number = CONFIDENCE) -> Interval:
        """The truths that the test does not report with `confidence`, cut to the range of the truth.

        Guarantee: with probability `confidence` it does not happen that the truth lies outside and is not reported,
        whatever the data and however the question was chosen from earlier answers. It is no statement given that
        nothing was reported: given that, no truth is ruled out. Of n tests all hold with 1 - beta at 1 - beta/n each,
        also where they share a hidden threshold (docs/theory/noise.md, "Keys without a hit").

        Errors: `InvalidParameter` for a confidence outside (0, 1), or above what an optimal test can ever have.
        """
        beta = (1 - probability(confidence, "confidence")) / self.thresholds
        high = (self.bar - 1 + self.tails.miss_reach_up(beta)) * Fraction(self.grid)
        low = None if self.floor is None else natural_number(Fraction(self.floor))
        return Interval(low, _possible(high, self.floor, self.ceiling))
