"""Above threshold with Gaussian noise, restarted after each hit for as long as a stopping rule admits a test."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NamedTuple

from chary.accounting.gaussian_runs import NOTHING_TOLD, Reported, StoppingRule, Table
from chary.mechanisms.gaussian.noisy_normals import GaussianThreshold
from chary.noise import Source
from chary.noise.gaussian import Deviate


@dataclass(frozen=True)
class RunsState:
    """The noise of the present threshold (`held`), which is secret, and what is public of all runs."""

    held: Deviate
    told: Reported = NOTHING_TOLD


class Scanned(NamedTuple):
    """Which of the values were above, how many were tested, and the state to go on with."""

    above: tuple[int, ...]
    tested: int
    state: RunsState


@dataclass(frozen=True)
class RestartingThreshold:
    """Tests values in turn against a noisy threshold; after each one that is above, the threshold's noise is new.

    Guarantee: that of the rule, where `losses` are those of the test's noises for the values' range and sensitivity.

    >>> import numpy as np
    >>> from chary.accounting.gaussian_runs import Losses, PureStopping
    >>> from chary.noise import OperatingSystem
    >>> losses = Losses(np.array([0.3] * 9), np.array([0.1] * 9))
    >>> runs = RestartingThreshold(GaussianThreshold(5, "0.01"), PureStopping(Fraction(1)), lambda steps: losses)
    >>> values = [Fraction(value) for value in (3, 9, 9, 2, 9, 9)]
    >>> runs.scan(values, runs.start(OperatingSystem()), OperatingSystem())[:2]
    ((1, 2, 4), 5)
    """

    test: GaussianThreshold
    rule: StoppingRule
    losses: Table

    def start(self, source: Source) -> RunsState:
        """A first run."""
        return RunsState(self.test.start(source))

    def admits(self, told: Reported) -> bool:
        """Whether another test may be made."""
        return self.rule.admits(told, self.losses(told.steps + 1))

    def scan(self, values: Sequence[Fraction], state: RunsState, source: Source) -> Scanned:
        """Test the values in turn, until the rule stops; values lie within the range of the losses."""
        above: list[int] = []
        for position, value in enumerate(values):
            if not self.admits(state.told):
                return Scanned(tuple(above), position, state)
            found, held = self.test.step(value, state.held, source)
            told = state.told.after(above=found, losses=self.losses(state.told.steps + 1))
            state = RunsState(self.test.start(source), told) if found else replace(state, held=held, told=told)
            above += [position] if found else []
        return Scanned(tuple(above), len(values), state)
