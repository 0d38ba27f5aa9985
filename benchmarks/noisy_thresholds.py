"""BetweenThresholds of Bun, Steinke and Ullman (2017), a peer: two bars with one noise, and how far apart."""

import math
from dataclasses import dataclass

from scipy import integrate

from chary.accounting.composition import optimal_total

LOW, HIGH, BETWEEN = "low", "high", "between"


@dataclass(frozen=True)
class BetweenThresholds:
    """Low or high until a first "between": counts with Lap(6/epsilon), bars moved inwards by one Lap(2/epsilon).

    (epsilon, delta)-DP where the bars are at least `gap` apart (ibid., section 4); what lies between is the hit, after
    which it starts afresh.
    """

    epsilon: float
    delta: float

    @property
    def gap(self) -> float:
        """The least distance of the bars."""
        return 12 / self.epsilon * (math.log(10 / self.epsilon) + math.log(1 / self.delta) + 1)

    def within(self, queries: int, sure: float) -> float:
        """How far beyond the bars all of so many queries are told as they should be, by the published bound."""
        return 8 / self.epsilon * (math.log(queries + 1) + math.log(1 / (1 - sure)))

    def chance(self, values: tuple[float, ...], told: tuple[str, ...], gap: float) -> float:
        """The chance to tell this of counts, the lower bar being at 0: an integral over the noise of the bars."""

        def given(move: float) -> float:
            chances = [self._told(value, move, gap, said) for value, said in zip(values, told, strict=True)]
            return math.prod(chances) * math.exp(-abs(move) * self.epsilon / 2) * self.epsilon / 4

        reach = 80 / self.epsilon
        kinks = {0.0, gap / 2, *values, *(gap - value for value in values)}
        inside = sorted(kink for kink in kinks if -reach < kink < reach)
        found, _ = integrate.quad(given, -reach, reach, points=inside, limit=400)
        return float(found)

    def _told(self, value: float, move: float, gap: float, said: str) -> float:
        scale = 6 / self.epsilon
        low = laplace_below(move - value, scale)
        high = 1 - laplace_below(max(move, gap - move) - value, scale)
        return {LOW: low, HIGH: high, BETWEEN: 1 - low - high}[said]


def laplace_below(bar: float, scale: float) -> float:
    """The chance of Laplace noise below a bar."""
    return 0.5 * math.exp(bar / scale) if bar < 0 else 1 - 0.5 * math.exp(-bar / scale)


def repeated(epsilon: float, delta: float, hits: int) -> BetweenThresholds:
    """The restart of which so many keep the promise: half of delta for the restarts, half for their composition."""
    low, high = epsilon / (2 * hits), epsilon
    while high > low * 1.0005:
        middle = math.sqrt(low * high)
        fits = optimal_total(middle, hits, delta / 2) <= epsilon
        low, high = (middle, high) if fits else (low, middle)
    return BetweenThresholds(low, delta / (2 * hits))
