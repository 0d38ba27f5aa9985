"""What a published noisy value says about the truth: intervals and p-values given that it was published."""

import math
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from typing import Final, NamedTuple

from chary.accounting.exponentials import precise
from chary.accounting.inference.ends import lower_end, tail_up, upper_end
from chary.accounting.inference.noise_laws import NoiseLaw
from chary.accounting.inference.supports import End, Support
from chary.errors import InvalidParameter
from chary.numbers import Number, exact, plain, positive, probability

CONFIDENCE: Final = Fraction(19, 20)
# Floats below have no digits left; a p-value is never told as 0.
_SMALLEST: Final = 1e-300


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
    data, such as 0 for a count.

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
        first, last = self._block(value)
        chance = (1 - probability(confidence, "confidence")) / 2
        low = lower_end(self.noise, self.support, first, chance)
        high = upper_end(self.noise, self.support, last, chance)
        return Interval(self._told(low, self.floor), self._told(high, self.ceiling))

    def p_value(self, value: Number) -> float | None:
        """An upper bound of the chance of such a value or one farther from what is held back, if that holds the truth.

        The truth is then below the bar (a hit or a revision), above the last value (a support without a lowest), or
        between the two unbounded pieces (a change); None where everything may be published. Given that the value was
        published it is at most p with a chance of at most p, whatever was asked before (theory 9.2).
        """
        first, last = self._block(value)
        low, high = self.support.lowest, self.support.highest
        if low is not None:
            return self._rarer(self.support, first, low - 1)
        if high is not None:
            return self._rarer(self.support.mirrored(), -last, -(high + 1))
        if len(self.support.pieces) == 1:
            return None
        until, since = self.support.pieces[0][1] or 0, self.support.pieces[-1][0] or 0
        rise = self._rarer(self.support, first, since - 1)
        fall = self._rarer(self.support.mirrored(), -last, -(until + 1))
        return min(1.0, 2 * min(rise, fall))

    def _rarer(self, support: Support, first: int, truth: int) -> float:
        with precise():
            found = float(tail_up(self.noise, support, first, truth))
        # The guard of the share is a billion times the rounding of a float.
        return min(1.0, max(found, _SMALLEST) * (1 + 1e-15))

    def _block(self, value: Number) -> tuple[int, int]:
        """The least and the largest noisy value, in grid steps, that are published as this value."""
        number, grid = exact(value, "value"), Fraction(self.grid)
        unit = grid if self.step is None else Fraction(self.step)
        # A float stands for every multiple that is rounded to it.
        half = Fraction(math.ulp(value)) / 2 if isinstance(value, float) else Fraction(0)
        first, last = math.ceil((number - half) / unit), math.floor((number + half) / unit)
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
        return int(found) if found.denominator == 1 else float(found)
