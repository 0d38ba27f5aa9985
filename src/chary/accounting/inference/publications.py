"""What a published noisy value says about the truth: intervals and p-values given that it was published."""

import math
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, Final, NamedTuple

from chary.accounting.exponentials import precise
from chary.accounting.inference.ends import lower_end, tail_up, upper_end
from chary.accounting.inference.noise_laws import NoiseLaw
from chary.accounting.inference.supports import End, Support
from chary.errors import InvalidParameter
from chary.numbers import Number, exact, natural_number, plain, positive, probability

CONFIDENCE: Final = Fraction(19, 20)
# Floats below have no digits left; a p-value is never told as 0.
_SMALLEST: Final = 1e-300
# Thousands of hits of one watch have a few hundred distances from its bar.
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
    noise tested it.

    Guarantee: given everything published before and given that this value was, an interval covers the truth with at
    least `confidence`, whatever the truth and however the question and the support were chosen from what was
    published before (theory 9.1; the noise is independent of the past). Hence the expected number of published values
    whose interval misses is at most `1 - confidence` times the expected number of published values, for any number of
    questions. Ends err outwards only, and the value itself always lies between them.

    With Laplace noise of scale b a hit less than `b ln(2/beta)` above its bar has no lower end: it may be a false
    alarm.

    >>> from chary.accounting.inference.noise_laws import LaplaceLaw
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
    at_once: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "grid", positive(self.grid, "grid"))
        for name, read in (("step", positive), ("floor", exact), ("ceiling", exact)):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, read(getattr(self, name), name))
        if None not in (self.floor, self.ceiling) and Fraction(self.floor or 0) > Fraction(self.ceiling or 0):
            raise InvalidParameter("floor must not be above ceiling")

    def interval(self, value: Number, confidence: Number = CONFIDENCE) -> Interval:
        """The truths under which the published value is not among the rarest on either side, cut to what they can be.

        Errors: `InvalidParameter` for a value that is never published, and a confidence outside (0, 1).
        """
        low, high = self._ends(value, confidence)
        return Interval(self._told(low, self.floor), self._told(high, self.ceiling))

    def within(self, value: Number, below: int, above: int) -> Interval:
        """From so many grid steps below the value to so many above it, cut to what the truth can be."""
        first, last = self._block(value)
        return Interval(self._told(first - below, self.floor), self._told(last + above, self.ceiling))

    def caution(self, value: Number, confidence: Number = CONFIDENCE) -> str | None:
        """In words, that the interval, known ranges aside, holds a truth of those that are held back; None if not.

        With Laplace noise it does exactly where it has no end towards them. Never where everything is published and no
        bar was tested.
        """
        since, until = self._held_back
        if since is None and until is None:
            return None
        low, high = self._ends(value, confidence)
        down, up = low is None or until is None or low <= until, high is None or since is None or high >= since
        if not (down and up):
            return None
        if since is None and low is None:
            return "may be a false alarm: no lower end"
        return "may be a false alarm: the interval reaches what is held back"

    def p_value(self, value: Number) -> float | None:
        """An upper bound of the chance of such a value or one farther from what is held back, if that holds the truth.

        The truth is then below the bar (a hit, a revision, a fresh value), above the last value (a support without a
        lowest), or between the two unbounded pieces (a change); None where everything may be published and no bar was
        tested. Given that the value was published it is at most p with a chance of at most p, whatever was asked before
        (theory 9.2).
        """
        first, last = self._block(value)
        since, until = self._held_back
        rise = None if until is None else self._rarer(self.support, first, until)
        fall = None if since is None else self._rarer(self.support.mirrored(), -last, -since)
        if rise is None or fall is None:
            return fall if rise is None else rise
        return min(1.0, 2 * min(rise, fall))

    @property
    def _held_back(self) -> tuple[End, End]:
        """The least and the largest truth that is held back, in grid steps, None for no end; both None for none."""
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
        if found is None:
            return None
        if self.floor is not None:
            found = max(found, Fraction(self.floor))
        if self.ceiling is not None:
            found = min(found, Fraction(self.ceiling))
        return natural_number(found)


@lru_cache(maxsize=_KEPT)
def _ends_from(noise: NoiseLaw, support: Support, last: int, chance: Fraction) -> tuple[End, End]:
    """The ends for the block from 0 to `last`: noise does not know where it is added."""
    return lower_end(noise, support, 0, chance), upper_end(noise, support, last, chance)
