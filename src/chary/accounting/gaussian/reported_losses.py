"""What runs of above threshold report of their losses, and when the next test may still be made (theory 5).

A run reports its loss ex post. **Ours**: before each test both losses that it may end in are known, of halting there
and of running on; it is made only if the larger, with what earlier runs reported, fits into the total. Then every
transcript has a loss of at most the total, which is pure DP, whatever is asked and however often a run is restarted.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray


class Losses(NamedTuple):
    """Upper bounds on the loss of a run that halted at step t, or still runs after it; entry t - 1."""

    halted: NDArray[np.float64]
    running: NDArray[np.float64]

    def worst(self, first: int, last: int) -> float:
        """The most that any outcome of the steps from `first` to `last` can have lost."""
        if first == last:
            return max(float(column[first - 1]) for column in self)
        return max(float(column[first - 1 : last].max()) for column in self)

    def of(self, steps: int, *, halted: bool) -> float:
        """The loss of a run that halted at this step, or still runs after it."""
        return float((self.halted if halted else self.running)[steps - 1])


# The losses of runs of at least so many steps.
Table = Callable[[int], Losses]


@dataclass(frozen=True)
class Reported:
    """What is public of runs one after another: the losses of those that halted, how many they were, and how many tests
    the present one has made.

    >>> told = Reported().after(above=True, losses=Losses(np.array([0.25]), np.array([0.125])))
    >>> told.spent, told.halted, told.steps
    (Fraction(1, 4), 1, 0)
    """

    spent: Fraction = Fraction(0)
    halted: int = 0
    steps: int = 0

    def after(self, *, above: bool, losses: Losses) -> "Reported":
        """What is public after one more test. One above halts the run, and another begins."""
        step = self.steps + 1
        if not above:
            return replace(self, steps=step)
        return Reported(self.spent + Fraction(losses.of(step, halted=True)), self.halted + 1)

    def loss(self, losses: Losses) -> Fraction:
        """What all answers so far lost together."""
        return self.spent + (Fraction(losses.of(self.steps, halted=False)) if self.steps else 0)

    def worst(self, losses: Losses) -> Fraction:
        """The most that they can have lost after one more test."""
        return self.spent + Fraction(losses.worst(self.steps + 1, self.steps + 1))


NOTHING_TOLD: Final = Reported()


class StoppingRule(Protocol):
    """Decides from what is public alone whether the next test is made: `PureStopping`, and the published rules."""

    def admits(self, told: Reported, losses: Losses) -> bool:
        """Whether another test may be made; `losses` reach as far as that test."""
        ...


@dataclass(frozen=True)
class PureStopping:
    """Ours: stop before the losses of all runs could exceed the total, whichever way the next test ends.

    Guarantee: total-DP (`Pure`), for any number of tests, adaptively chosen.

    >>> losses = Losses(np.array([0.25, 0.375]), np.array([0.125, 0.25]))
    >>> rule = PureStopping(Fraction(1, 2))
    >>> rule.admits(Reported(steps=1), losses), rule.admits(Reported(Fraction(1, 4), 1, 1), losses)
    (True, False)
    """

    total: Fraction

    def admits(self, told: Reported, losses: Losses) -> bool:
        return told.worst(losses) <= self.total
