"""Between thresholds ([TCT] section 1): low and high are free, only the zone between them is paid."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from chary import noise
from chary.accounting import Targeted, between_q_down
from chary.errors import InvalidParameter
from chary.mechanisms.additive import Laplace
from chary.mechanisms.thresholds.threshold_test import call_epsilon

Zone = Literal["low", "between", "high"]


@dataclass(frozen=True)
class ThreeZones:
    """Where an integer plus discrete Laplace noise lies: below `low`, from `low` on below `high`, or from `high` on.

    Thresholds are whole grid steps, `low < high`; epsilon = sensitivity / scale.

    Guarantee: `Targeted(epsilon, q)` with the target "between" and
    `q = (1 - exp(-(high - low)/scale)) / (e^epsilon + 1)`, which is attained. The noisy value itself is not published.

    >>> zones = ThreeZones(Laplace.for_epsilon("0.1", sensitivity=1), low=450, high=550)
    >>> zones.step(10**6, noise.OperatingSystem())
    'high'
    >>> round(float(zones.event().q), 6)
    0.474999
    """

    additive: Laplace
    low: int
    high: int

    def __post_init__(self) -> None:
        if any(isinstance(bar, bool) or not isinstance(bar, int) for bar in (self.low, self.high)):
            raise InvalidParameter("low and high must be whole numbers of grid steps")
        if self.low >= self.high:
            raise InvalidParameter("low must be below high")
        self.event()

    @property
    def epsilon(self) -> Fraction:
        """The privacy of one call."""
        return call_epsilon(self.additive)

    def step(self, value: int, source: noise.Source) -> Zone:
        """The zone of an exact value."""
        noisy = noise.add(int(value), self.additive.draw(source, 1))
        return "low" if noisy < self.low else "between" if noisy < self.high else "high"

    def event(self) -> Targeted:
        """What a call may reveal; a hit is "between"."""
        width = self.high - self.low
        return Targeted(self.epsilon, between_q_down(self.epsilon, width=width, sensitivity=self.additive.sensitivity))
