"""The events of a run of above threshold with Gaussian noise that is priced at a Renyi order: misses are free."""

from dataclasses import dataclass
from fractions import Fraction

from chary.accounting.events import Event
from chary.accounting.gaussian.run_moments import RunMoments, run_moments_up
from chary.errors import NoPrice
from chary.numbers import Number, exact, positive


@dataclass(frozen=True)
class RunNoise:
    """The noises of a run, what a query may move, and how far the threshold is above the least value."""

    sensitivity: Number
    threshold_noise: Number
    query_noise: Number
    above_low: Number

    def __post_init__(self) -> None:
        for name in ("sensitivity", "threshold_noise", "query_noise"):
            object.__setattr__(self, name, positive(getattr(self, name), name))
        object.__setattr__(self, "above_low", exact(self.above_low, "above_low"))

    def moments_up(self, order: Fraction) -> RunMoments | None:
        """Its log-moments at an order; None where none is finite enough to be paid."""
        noises = {"threshold_noise": self.threshold_noise, "query_noise": self.query_noise}
        return run_moments_up(order, sensitivity=self.sensitivity, **noises, threshold=self.above_low)


@dataclass(frozen=True)
class ThresholdRun(Event):
    """A whole run: any number of queries until one is above, adaptively chosen, charged when it opens.

    >>> run = ThresholdRun(RunNoise("0.001", "0.1", "0.1733", "0.5"))
    >>> run.epsilon, round(float(run.log_moment_up(Fraction(18))), 3)
    (None, 0.172)
    """

    noise: RunNoise

    @property
    def epsilon(self) -> None:
        return None

    @property
    def otherwise(self) -> str:
        return "a run that is paid by hits has a price under the Renyi filter only: open the session with a delta"

    def log_moment_up(self, order: Fraction) -> Fraction:
        found = self.noise.moments_up(order)
        if found is None:
            raise NoPrice("a run with so little noise has no price at the order of this filter: give more noise")
        return self.part(found)

    def part(self, moments: RunMoments) -> Fraction:
        """What of them is charged."""
        return Fraction(moments.whole)


@dataclass(frozen=True)
class RunOpening(ThresholdRun):
    """The opening of a run whose hit is charged when it comes."""

    def part(self, moments: RunMoments) -> Fraction:
        return Fraction(moments.opening)


@dataclass(frozen=True)
class RunHit(ThresholdRun):
    """Tests of a run that was charged by `RunOpening`: a hit, after which it ends, is charged, and misses are free.

    >>> test = RunHit(RunNoise("0.001", "0.1", "0.1733", "0.5"))
    >>> round(float(test.hit_price_up(Fraction(18))), 3), test.miss_price_up(Fraction(18))
    (0.157, Fraction(0, 1))
    """

    def hit_price_up(self, order: Fraction) -> Fraction:
        return self.log_moment_up(order)

    def part(self, moments: RunMoments) -> Fraction:
        return Fraction(moments.hit)
