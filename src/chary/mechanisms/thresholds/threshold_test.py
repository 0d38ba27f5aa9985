"""A noisy threshold test whose outcome probabilities are known exactly."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from chary import noise
from chary.accounting import Targeted
from chary.errors import InvalidParameter
from chary.mechanisms.additive import Laplace
from chary.noise.choice import GUARD_BITS, NEGLIGIBLE, WEIGHT_ERROR, Floats
from chary.noise.partition import Bounds


def call_epsilon(additive: Laplace) -> Fraction:
    """The epsilon of one value with this noise; noise that is shared by several values raises `InvalidParameter`."""
    if additive.times != 1:
        raise InvalidParameter("the noise must be for one value at a time")
    return additive.sensitivity / additive.scale


@dataclass(frozen=True)
class ThresholdTest:
    """Whether an integer plus discrete Laplace noise reaches a threshold: outcome 1, or 0. All in grid steps.

    Guarantee: an epsilon-DP call with the NotPrior target 1, epsilon = sensitivity / scale; with its law for a
    `Boundary` wrapper.

    >>> test = ThresholdTest(Laplace.for_epsilon("0.1", sensitivity=1), threshold=500)
    >>> [round(p, 4) for p in test.law(510).probabilities()]
    [0.1748, 0.8252]
    >>> test.event()
    Targeted(bound=Fraction(1, 10), q=None, failure=Fraction(0, 1))
    """

    additive: Laplace
    threshold: int

    def __post_init__(self) -> None:
        Targeted(self.epsilon)

    @property
    def epsilon(self) -> Fraction:
        """The privacy of one test."""
        return call_epsilon(self.additive)

    @property
    def outcomes(self) -> int:
        """Two."""
        return 2

    def law(self, value: int) -> noise.FiniteLaw:
        """The exact law of the outcome. It depends on data: for drawing and for reports about made-up data only."""
        return ThresholdLaw(self.additive.scale, self.threshold - int(value))

    def step(self, value: int, source: noise.Source) -> int:
        """The outcome for an exact value."""
        return self.law(value).draw(source)

    def event(self) -> Targeted:
        """What a test may reveal; outcome 1 is the hit."""
        return Targeted(self.epsilon)


class ThresholdLaw(noise.FiniteLaw):
    """Outcome 1 has the chance that discrete Laplace noise is `distance` or more: `r^distance/(1 + r)`, or 1 minus it.

    Here `r = exp(-1/scale)`, and the rarer outcome is the one in closed form.
    """

    def __init__(self, scale: Fraction, distance: int) -> None:
        self._rate = 1 / noise.checked_scale(scale)
        self._high_is_rare = distance >= 1
        self._steps = distance if distance >= 1 else 1 - distance

    @property
    def size(self) -> int:
        return 2

    def bounds(self, bits: int) -> list[Bounds]:
        work = bits + GUARD_BITS
        one = 1 << work
        top, ratio = (noise.Enclosure.exponential(k * self._rate).bounds(work) for k in (self._steps, 1))
        low, high = (top[0] << bits) // (one + ratio[1]), -((-top[1] << bits) // (one + ratio[0]))
        rest = ((1 << bits) - high, (1 << bits) - low)
        return [rest, (low, high)] if self._high_is_rare else [(low, high), rest]

    def near(self) -> tuple[Floats, float]:
        """One cut point, from two correctly rounded exponents and two exponentials."""
        exponent = float(min(self._steps * self._rate, Fraction(NEGLIGIBLE)))
        rare = math.exp(-exponent) / (1 + math.exp(-float(self._rate)))
        return np.array([1 - rare if self._high_is_rare else rare]), WEIGHT_ERROR
