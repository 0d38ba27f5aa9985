"""The two noisy numbers behind a mean: which they are, their noise, and what they say together."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Literal

import numpy as np

from chary import noise
from chary.accounting import Event, Joint, mean_between, mean_interval
from chary.accounting.intervals import CONFIDENCE, Interval
from chary.answers import Ends, NoisyNumber, NoisyNumbers
from chary.core.plan import KEPT, laplace_for
from chary.data import Mean, Neighbouring, Relation
from chary.mechanisms import Additive, Laplace
from chary.mechanisms.additive import Integers
from chary.numbers import Number, plain, probability

Form = Literal["halves", "joint", "ends", "size"]


@dataclass(frozen=True)
class MeanNoise:
    """The noise of a mean of `steps` = (low, high) around its center, in grid steps.

    - "halves": the centred sum S and the number N of values, independent, each with half of the epsilon or rho.
    - "joint", where a unit is replaced: S has the noise of all of epsilon, and N noise that is free. A value that
      becomes another moves S by W = high - low and not N; one that becomes NULL moves S by M = max(-low, high) and N by
      one, so N may have scale b/(W - M) for the scale b of S (docs/theory.md, "Means").
    - "ends": the sums of the distances of all values from the lower and from the upper bound. Of one value the two add
      up to W, so both have noise of scale W/epsilon, half of the variance of halves.
    - "size", where N is public (`Mean.of_public_size`): S has the noise of all of epsilon, and N the least noise there
      is, which is practically never drawn and protects nothing.
    """

    form: Form
    query: Mean[Any]
    steps: tuple[int, int]
    noises: tuple[Additive, Additive]
    event: Event

    def parts(self, sums: Integers, counts: Integers) -> tuple[Integers, Integers]:
        """The exact numbers that noise is added to, from S and N."""
        if self.form != "ends":
            return sums, counts
        low, high = self.steps
        # Whole numbers of any size: as many rows times a width may pass 64 bits.
        total, size = sums.astype(object), counts.astype(object)
        return total - low * size, high * size - total

    def values(self, first: Sequence[int], second: Sequence[int]) -> list[float]:
        """The means: clipped to the bounds; where no values seem to be left, what is nearest the middle of the bounds
        of all that the interval at 95 % holds."""
        one, other = (np.array(noisy, dtype=float) for noisy in (first, second))
        if self.form == "ends":
            low, high = self.steps
            one, other = (high * one + low * other) / (high - low), (one + other) / (high - low)
        found: list[float] = self.query.combine(one, other).tolist()
        reaches = self.reaches()
        for place in np.flatnonzero(other <= 0).tolist():
            least, most = self._within(first[place], second[place], reaches)
            found[place] = min(max(found[place], least), most)
        return found

    def interval(self, first: int, second: int, confidence: Number = CONFIDENCE) -> Interval:
        """Where the mean lies: both numbers in their intervals, a quarter of the risk on each side (theory 9.6)."""
        return Interval(*self._within(first, second, self.reaches(confidence)))

    def _within(self, first: int, second: int, reaches: tuple[int, int]) -> tuple[float, float]:
        one, other = reaches
        above, below, bounds = (first - one, first + one), (second - other, second + other), self.query.bounds
        if self.form == "ends":
            return mean_between(above, below, bounds=bounds)
        return mean_interval(above, below, center=self.query.center, bounds=bounds, grid=self.query.grid)

    def foretold(self) -> str:
        """How wide an interval will be, as far as that is known before the number of values is."""
        (one, other), grid = self.reaches(), self.query.grid
        least = plain(float(one * grid))
        if self.form == "ends":
            return f"the interval of a mean of n values reaches about {least}/n to either side"
        most = plain(float((one + other * max(-self.steps[0], self.steps[1])) * grid))
        return f"the interval of a mean of n values reaches about {least}/n to {most}/n to either side"

    def reaches(self, confidence: Number = CONFIDENCE) -> tuple[int, int]:
        """How far each number is off, at most, but for half of the risk."""
        side = (1 - probability(confidence, "confidence")) / 4
        one, other = (each.law().reach_up(side) - 1 for each in self.noises)
        return one, other


@dataclass(frozen=True)
class ToldMean:
    """What one mean says of its truth: that of its two noisy numbers (`chary.accounting.findings.Told`)."""

    made: MeanNoise
    parts: tuple[int, int]
    at_once: ClassVar[bool] = False

    def interval(self, value: Number, confidence: Number = CONFIDENCE) -> Interval:
        """Where the mean lies; the value follows from the parts."""
        return self.made.interval(*self.parts, confidence)

    def p_value(self, value: Number) -> None:
        """A mean is published whatever comes out."""

    def caution(self, value: Number, confidence: Number = CONFIDENCE) -> None:
        """It is no alarm."""


@dataclass(frozen=True)
class NoisyMean(NoisyNumber):
    """A noisy mean. Its `interval` is that of its two noisy numbers together; it has no `error_bar`."""

    @property
    def interval(self) -> Ends | None:
        return None if self.told is None else self.told.interval(self.value)


@dataclass(frozen=True)
class NoisyMeans(NoisyNumbers):
    """One noisy mean for each key. The interval of each covers 95 times in 100, not all of them together."""

    parts: tuple[tuple[int, ...], tuple[int, ...]]
    made: MeanNoise

    def cells(self, position: int) -> dict[str, Any]:
        low, high = self.made.interval(*(part[position] for part in self.parts))
        return {"value": self.values[position], "low": low, "high": high}


def mean_answer(made: MeanNoise, noisy: Sequence[Sequence[int]], call: int) -> NoisyMean | NoisyMeans:
    """The answer from the noisy numbers in the ledger."""
    query, values = made.query, made.values(noisy[0], noisy[1])
    if query.keys is None:
        return NoisyMean(call, values[0], None, told=ToldMean(made, (noisy[0][0], noisy[1][0])))
    parts = (tuple(noisy[0]), tuple(noisy[1]))
    return NoisyMeans(call, query.columns, tuple(query.keys), tuple(values), None, parts, made)


def halves(query: Mean[Any], neighbouring: Neighbouring, drawn: Sequence[Additive]) -> MeanNoise:
    """The noise of the centred sum and of the number of values, as `releasing.noises` makes it."""
    first, second = drawn
    event = Joint((first.event(), second.event()))
    return MeanNoise("halves", query, query.parts(neighbouring)[0].steps, (first, second), event)


@lru_cache(maxsize=KEPT)
def laplace_mean(query: Mean[Any], neighbouring: Neighbouring, epsilon: Fraction) -> MeanNoise:
    """The best of the forms with Laplace noise: size where the number of values is public, joint where one mean is
    asked and units are replaced, otherwise ends.

    Guarantee: the event of the first number's noise alone, which is epsilon-DP for both (docs/theory.md, "Means").
    """
    total, rows = query.parts(neighbouring)
    low, high = total.steps
    width, most = high - low, max(-low, high)
    if query.of_public_size(neighbouring):
        sums = laplace_for(total, neighbouring, epsilon)
        return MeanNoise("size", query, (low, high), (sums, Laplace(noise.SMALLEST_SCALE, 1)), sums.event())
    if neighbouring.relation is Relation.REPLACE and query.keying is None and width > most:
        sums = laplace_for(total, neighbouring, epsilon)
        return MeanNoise("joint", query, (low, high), (sums, _free(sums, width - most)), sums.event())
    # Every row that comes or goes moves the two sums by W together; where one is replaced, one goes and one comes.
    moved = 2 if neighbouring.relation is Relation.REPLACE else 1
    each = Laplace.for_epsilon(epsilon, sensitivity=rows.sensitivity(neighbouring) * width, times=moved)
    return MeanNoise("ends", query, (low, high), (each, each), each.event())


def _free(sums: Laplace, spared: int) -> Laplace:
    """The noise of a number of values whose change of one leaves the sum so many steps short of its largest change."""
    return Laplace(max(noise.SMALLEST_SCALE, sums.scale / spared), 1)
