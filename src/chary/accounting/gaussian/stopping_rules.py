"""When runs of above threshold that follow one another stop, by rules with a delta: the published ones, and ours.

Each is a `StoppingRule`; see `PureStopping` for ours without a delta.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from chary.accounting.gaussian.reported_losses import Losses, Reported
from chary.accounting.gaussian.selection_peers import whitehouse_filter_epsilon
from chary.numbers import Number, exact, positive, probability

# More than the roundings of a sum of a million floats.
_MARGIN: Final = 1e-9
_MOST_STEPS: Final = 10**6


@dataclass(frozen=True)
class SelfReportingStopping:
    """Filtered self-reporting ([GAUSS] Algorithm 4): a run starts if its pDP epsilon fits beside what was reported.

    Each run is (`run_epsilon`, `run_delta`)-pDP. Guarantee: (total, runs * run_delta)-DP, since at most so many `runs`
    start: as published the delta of one is counted for all, which does not hold (`FilteredSelfReporting`).
    """

    total: Fraction
    run_epsilon: Fraction
    runs: int

    def admits(self, told: Reported, losses: Losses) -> bool:
        if told.steps:
            return True
        return told.halted < self.runs and told.spent + self.run_epsilon <= self.total


@dataclass(frozen=True)
class CountedRuns:
    """So many runs, whatever they report: for totals that follow from their number, such as those of filters."""

    runs: int

    def admits(self, told: Reported, losses: Losses) -> bool:
        return told.halted < self.runs


@dataclass(frozen=True)
class WhitehouseFilter:
    """The filter of Whitehouse and others ([GAUSS] Theorem 20) for (epsilon_i, delta_i)-DP calls, adaptively chosen.

    `slack` is the delta of the composition, and `spare` what the deltas of the calls may add up to. Guarantee: while
    `admits` holds of all calls so far they are (epsilon, slack + spare)-DP together.

    >>> rule = WhitehouseFilter(epsilon=1, slack="5e-7", spare="5e-7")
    >>> rule.admits([(0.1, 1e-8)] * 3), rule.admits([(0.1, 1e-8)] * 4), rule.admits([(0.01, 3e-7)] * 2)
    (True, False, False)
    """

    epsilon: Number
    slack: Number
    spare: Number

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive(self.epsilon, "epsilon"))
        object.__setattr__(self, "slack", probability(self.slack, "slack"))
        object.__setattr__(self, "spare", exact(self.spare, "spare"))

    def admits(self, calls: Sequence[tuple[Number, Number]]) -> bool:
        """Whether all of these calls may be made."""
        if sum((exact(delta, "delta") for _, delta in calls), Fraction(0)) > Fraction(self.spare):
            return False
        if not calls:
            return True
        total = whitehouse_filter_epsilon([size for size, _ in calls], delta=self.slack) * (1 + _MARGIN)
        return Fraction(total) <= Fraction(self.epsilon)

    def times(self, epsilon: Number, delta: Number) -> int:
        """How many calls of one size it admits, at most a million."""
        size, single = positive(epsilon, "epsilon"), exact(delta, "delta")
        most = min(int(Fraction(self.spare) / single), _MOST_STEPS) if single else _MOST_STEPS
        # The total of n calls is a sqrt(n) + b n; two of them tell a and b.
        once, four = (whitehouse_filter_epsilon([size] * count, delta=self.slack) for count in (1, 4))
        b = (four - 2 * once) / 2
        low, high = 0, most + 1
        while high - low > 1:
            middle = (low + high) // 2
            total = Fraction(((once - b) * math.sqrt(middle) + b * middle) * (1 + _MARGIN))
            low, high = (middle, high) if total <= Fraction(self.epsilon) else (low, middle)
        return low
