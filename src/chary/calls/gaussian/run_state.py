"""What a run of threshold tests is: its public terms, its secret state, and the loss of every answer it may give."""

import json
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

from chary.accounting import above_threshold_epsilons_up, halted_epsilon_up
from chary.accounting.gaussian_runs import Losses, RunNoise
from chary.errors import InvalidQuery
from chary.mechanisms.additive import SMALL, padded, unpadded
from chary.mechanisms.gaussian import GaussianThreshold
from chary.noise.gaussian import Deviate
from chary.numbers import plain

# Losses of so many steps are computed at once, and of twice as many whenever they run out.
FIRST_STEPS = 64
KEPT_LOSSES = 64
FORGOTTEN = Deviate(0, 0)


@dataclass(frozen=True)
class RunTerms:
    """The public terms of a run, all in the units of its queries; values are clipped to [low, high].

    `sensitivity=None` takes the largest of the queries that were asked. The threshold may lie outside of the bounds.
    """

    mechanism: GaussianThreshold
    low: Fraction
    high: Fraction
    sensitivity: Fraction | None = None

    def check(self) -> None:
        """Refuse terms for which no loss can be computed: noise a million times smaller than the distances."""
        halted_epsilon_up(1, **_priced(self.mechanism, self.low, self.high, self.high - self.low))

    @property
    def clipped_to(self) -> tuple[float, float]:
        """The bounds, as they are told."""
        return float(self.low), float(self.high)

    @property
    def noise(self) -> RunNoise:
        """What its log-moments follow from, where it has a sensitivity of its own."""
        own, other = self.mechanism.scales
        moved = min(self.sensitivity or Fraction(0), self.high - self.low)
        return RunNoise(moved, own, other, Fraction(self.mechanism.threshold) - self.low)

    def allowed(self, sensitivity: Fraction) -> Fraction:
        """What a query of this sensitivity is priced for; it is refused if the run was opened for less."""
        if self.sensitivity is None:
            return sensitivity
        if sensitivity > self.sensitivity:
            raise InvalidQuery(f"this run is for queries of sensitivity {plain(self.sensitivity)} at most")
        return self.sensitivity

    def losses(self, sensitivity: Fraction, steps: int) -> Losses:
        """The losses of at least so many steps, computed for twice as many whenever they run out."""
        known = self._known.get(sensitivity)
        if known is None or known.halted.size < steps:
            most = max(FIRST_STEPS, 1 << (steps - 1).bit_length())
            moved = min(sensitivity, self.high - self.low)
            known = _losses(self.mechanism, self.low, self.high, moved, most)
            self._known[sensitivity] = known
        return known

    @cached_property
    def _known(self) -> dict[Fraction, Losses]:
        return {}


@lru_cache(maxsize=KEPT_LOSSES)
def _losses(mechanism: GaussianThreshold, low: Fraction, high: Fraction, sensitivity: Fraction, most: int) -> Losses:
    return Losses(*above_threshold_epsilons_up(most, **_priced(mechanism, low, high, sensitivity)))


def _priced(mechanism: GaussianThreshold, low: Fraction, high: Fraction, sensitivity: Fraction) -> dict[str, Fraction]:
    own, other = mechanism.scales
    noises = {"threshold_noise": own, "query_noise": other, "threshold": Fraction(mechanism.threshold)}
    return noises | {"low": low, "high": high, "sensitivity": sensitivity}


@dataclass(frozen=True)
class RunState:
    """How far a run is. The noise of its threshold (`held`, forgotten once it halted) is secret, the rest is public.

    `charged` is the loss that was charged so far, `sensitivity` the largest of the queries so far.
    """

    held: Deviate
    steps: int = 0
    charged: float = 0.0
    sensitivity: Fraction = Fraction(0)
    halted: bool = False

    def increment(self, loss: float) -> Fraction:
        """What is still to be charged for a transcript of this loss; nothing if more was charged before."""
        return max(Fraction(0), Fraction(loss) - Fraction(self.charged))

    def dump(self) -> bytes:
        """The state for the ledger's secret table."""
        held = FORGOTTEN if self.halted else self.held
        known = [held.floor, held.bits]
        public = [self.steps, self.charged, str(self.sensitivity), self.halted]
        return padded(json.dumps([known, *public]).encode(), SMALL + len(json.dumps(public)))

    @classmethod
    def load(cls, data: bytes) -> "RunState":
        """The state that `dump` wrote."""
        held, steps, charged, sensitivity, halted = json.loads(unpadded(data))
        return cls(Deviate(*held), steps, charged, Fraction(sensitivity), halted)
