"""Gaussian noise on normals, and mechanisms that start again after a hit."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chary.accounting.gaussian_runs import NOTHING_TOLD, Reported, StoppingRule, Table
from chary.errors import InvalidParameter
from chary.mechanisms.additive import Integers
from chary.noise import Source
from chary.noise.gaussian import Deviate, Normals, deviate, normals, reaches
from chary.numbers import Number, checked, exact, positive, set_fields

# Selection with real Gaussian noise ([GAUSS]; theory chapter 2): the largest of many values, and a noisy threshold.

# Rounded up: more noise than sqrt(3) times only adds privacy, less would void bounds that start there.
ROOT_OF_THREE_UP = Fraction(1732051, 10**6)


@dataclass(frozen=True)
class GaussianMax:
    """The position of the largest value after Gaussian noise of standard deviation `noise`, in steps of the values.

    Guarantee: for values within a range, `Pure(accounting.noisy_max_epsilon_up(...))`. The noise is exactly normal
    (real numbers, as many bits of them as the comparisons need), so no float rounding leaks and ties have probability
    0.

    No values at all, or values which are no integers, raise `InvalidParameter`, which shows none.

    Source: [GAUSS]; theory chapter 2.

    >>> from chary.noise import OperatingSystem
    >>> GaussianMax(Fraction(1, 100)).step(np.array([3, 10, 7]), OperatingSystem())
    1
    """

    noise: Number

    def __post_init__(self) -> None:
        checked(self, noise=positive)

    def step(self, values: Sequence[int] | Integers, source: Source) -> int:
        """The position of the winner. One rounded comparison of all leaves few candidates, an exact one the winner."""
        values = values if isinstance(values, np.ndarray) else np.array(_whole_only(values), dtype=object)
        if values.ndim != 1 or not values.size or values.dtype.kind not in "iuO":
            raise InvalidParameter("a noisy maximum needs a list of at least one integer")
        drawn = normals(source, values.size)
        near = self._near(values, drawn)
        best, known = int(near[0]), drawn.one(int(near[0]))
        for position in near[1:].tolist():
            lead = Fraction(int(values[position]) - int(values[best]))
            scale = Fraction(self.noise)
            found = reaches(source, lead, [(scale, drawn.one(position)), (-scale, known)])
            best, known = (position, found.deviates[0]) if found.reached else (best, found.deviates[1])
        return best

    def _near(self, values: Integers, drawn: Normals) -> NDArray[np.intp]:
        """All positions that may hold the largest sum, given float64 and the known bits.

        A sum errs by at most `noise * 2**-32` for unknown bits, and by four roundings of its terms.
        """
        scale = float(self.noise)
        heights = _above_least(values)
        noises = scale * drawn.near()
        sums = heights + noises
        # Twice what open bits and roundings can be: a candidate too many costs a comparison, one too few the
        # distribution.
        error = scale * 2.0**-31 + 2.0**-50 * (float(heights.max()) + float(np.abs(noises).max()))
        return np.flatnonzero(sums >= sums.max() - 2 * error)


def _whole_only(values: Sequence[int]) -> list[int]:
    """A list of integers; an empty one, which is refused, for anything else."""
    found = list(values) if isinstance(values, (list, tuple, range)) else []
    return found if all(type(value) is int for value in found) else []


def _above_least(values: Integers) -> NDArray[np.float64]:
    """How far each value is above the least, each correctly rounded."""
    least = int(values.min())
    narrow = values.dtype.kind == "i" and int(values.max()) - least < 2**62
    heights: NDArray[np.float64] = (values.astype(np.int64 if narrow else object) - least).astype(np.float64)
    return heights


@dataclass(frozen=True)
class GaussianThreshold:
    """Whether values reach a threshold, both with Gaussian noise: the threshold's drawn once, each value's afresh.

    `query_noise=None` is sqrt(3) times `threshold_noise`, rounded up to six digits ([GAUSS]). All in one unit.

    Guarantee: that of `accounting.above_threshold_epsilons_up`, ex post, for values in a range which stop at the first
    True: `ExPost` of the loss of all answers together. Noise is exact, as in `GaussianMax`.

    >>> from chary.noise import OperatingSystem
    >>> test = GaussianThreshold(threshold=5, threshold_noise="0.01")
    >>> held = test.start(OperatingSystem())
    >>> above, held = test.step(Fraction(6), held, OperatingSystem())
    >>> above, held
    (True, Deviate(<secret>))
    """

    threshold: Number
    threshold_noise: Number
    query_noise: Number | None = None

    def __post_init__(self) -> None:
        checked(self, threshold=exact, threshold_noise=positive)
        given = self.query_noise
        found = Fraction(self.threshold_noise) * ROOT_OF_THREE_UP if given is None else positive(given, "query_noise")
        set_fields(self, query_noise=found)

    @property
    def scales(self) -> tuple[Fraction, Fraction]:
        """The standard deviations of the noise on the threshold and on each value."""
        return Fraction(self.threshold_noise), Fraction(self.query_noise or 0)

    def start(self, source: Source) -> Deviate:
        """The noise of the threshold in units of `threshold_noise`: secret state of the run."""
        return deviate(source)

    def step(self, value: Fraction, held: Deviate, source: Source) -> tuple[bool, Deviate]:
        """Whether the noisy value is at or above the noisy threshold, and the state to continue."""
        own, other = self.scales
        found = reaches(source, value - Fraction(self.threshold), [(other, deviate(source)), (-own, held)])
        return found.reached, found.deviates[1]


# Above threshold with Gaussian noise, restarted after each hit for as long as a stopping rule admits a test.


@dataclass(frozen=True)
class RunsState:
    """The noise of the present threshold (`held`), which is secret, and what is public of all runs."""

    held: Deviate
    told: Reported = NOTHING_TOLD


class Scanned(NamedTuple):
    """Which of the values were above, how many were tested, and the state to continue."""

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
