"""Events of additive noise, which at Renyi orders are cheaper than a pure event of the same epsilon."""

from dataclasses import dataclass
from fractions import Fraction

from chary.accounting.events import Event
from chary.accounting.exponentials import LARGEST_EXPONENT, decimal, precise, upper
from chary.numbers import Number, positive, whole


@dataclass(frozen=True)
class DiscreteLaplace(Event):
    """Integer noise `P(k) ~ exp(-|k|/scale)` on an integer that changes by at most `sensitivity`.

    Its log-moment is below that of `Pure(sensitivity/scale)` as soon as the sensitivity exceeds one grid step:

    >>> from chary.accounting import Pure
    >>> event, order = DiscreteLaplace(scale=100, sensitivity=10), Fraction(8)
    >>> event.epsilon, event.log_moment_up(order) < Pure("0.1").log_moment_up(order)
    (Fraction(1, 10), True)
    """

    scale: Number
    sensitivity: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", positive(self.scale, "scale"))
        whole(self.sensitivity, "sensitivity")

    @property
    def epsilon(self) -> Fraction:
        return self.sensitivity / Fraction(self.scale)

    def log_moment_up(self, order: Fraction) -> Fraction:
        """Closed form: with r = exp(-1/scale) and R = r^(2a-1), summing `P(k)^a P(k-D)^(1-a)` over the integers gives
        `(r^(D(1-a)) (1 + (1-r)R/(1-R)) + r^(Da) (r-R)/(1-R)) / (1+r)`; convex in D, so one coordinate is worst.
        """
        if order * self.epsilon > LARGEST_EXPONENT:
            return (order - 1) * self.epsilon
        with precise():
            a, step, shift = decimal(order), decimal(1 / Fraction(self.scale)), decimal(self.epsilon)
            r, tail = (-step).exp(), (-step * (2 * a - 1)).exp()
            rising = (shift * (a - 1)).exp() * (1 + (1 - r) * tail / (1 - tail))
            falling = (-shift * a).exp() * (r - tail) / (1 - tail)
            return upper(((rising + falling) / (1 + r)).ln())


@dataclass(frozen=True)
class ZeroConcentrated(Event):
    """A rho-zCDP computation, such as (discrete) Gaussian noise with `rho = sensitivity^2 / (2 sigma^2)`.

    >>> ZeroConcentrated("0.005").log_moment_up(Fraction(2))
    Fraction(1, 100)
    """

    rho: Number

    def __post_init__(self) -> None:
        object.__setattr__(self, "rho", positive(self.rho, "rho"))

    @property
    def epsilon(self) -> None:
        return None

    def log_moment_up(self, order: Fraction) -> Fraction:
        return order * (order - 1) * Fraction(self.rho)
