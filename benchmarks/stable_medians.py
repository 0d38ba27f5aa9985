"""Peers for a private median when one value is replaced: smooth sensitivity and propose-test-release, in floats."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_CAUCHY = 2


def sensitivities(values: Floats, low: float, high: float) -> Floats:
    """The largest local sensitivity of the median among data that differ in k values, for k = 0, ..., size.

    `A(k) = max over t = 0, ..., k+1 of x[m+t] - x[m+t-k-1]`, x ascending, `low` before and `high` behind it, m the
    place of the median (Nissim, Raskhodnikova, Smith 2007, section 3.1).
    """
    size = len(values)
    padded = np.concatenate([np.full(size + 2, low), np.sort(values), np.full(size + 2, high)])
    middle = size + 2 + (size - 1) // 2
    found = [(padded[middle : middle + k + 2] - padded[middle - k - 1 : middle + 1]).max() for k in range(size + 1)]
    return np.array(found)


def median(values: Floats) -> float:
    """The lower one."""
    return float(np.sort(values)[(len(values) - 1) // 2])


@dataclass(frozen=True)
class SmoothSensitivity:
    """The median with noise as large as `max of A(k) e^(-beta k)`.

    With no delta Cauchy noise times 6/epsilon, beta = epsilon/6; with delta Laplace noise times 2/epsilon,
    beta = epsilon/(2 ln(2/delta)) (ibid., Lemmas 2.6 and 2.9).
    """

    epsilon: float
    delta: float | None = None

    @property
    def beta(self) -> float:
        """By which factor, as a logarithm, the size of the noise may change between neighbours."""
        if self.delta is None:
            return self.epsilon / (2 * (_CAUCHY + 1))
        return self.epsilon / (2 * math.log(2 / self.delta))

    def scale(self, local: Floats) -> float:
        """That of the noise."""
        smooth = float((local * np.exp(-self.beta * np.arange(len(local)))).max())
        return smooth * (2 * (_CAUCHY + 1) if self.delta is None else 2) / self.epsilon

    def draw(self, values: Floats, low: float, high: float, runs: int, generator: np.random.Generator) -> Floats:
        """Noisy medians, clipped to the bounds."""
        scale = self.scale(sensitivities(values, low, high))
        noise = generator.standard_cauchy(runs) if self.delta is None else generator.laplace(0, 1, runs)
        return np.clip(median(values) + scale * noise, low, high)


@dataclass(frozen=True)
class ProposedMedian:
    """Propose a sensitivity; test that no data of a larger one are near; release (Dwork, Lei 2009).

    Half of epsilon for the test, half for Laplace noise of the proposed size. Where the test fails, which it does with
    all but a chance of delta where the sensitivity is larger, the middle of the bounds is told.
    """

    epsilon: float
    delta: float
    proposed: float

    @property
    def bar(self) -> float:
        """What Laplace noise alone reaches with chance delta."""
        return math.log(1 / (2 * self.delta)) / (self.epsilon / 2)

    def distance(self, local: Floats) -> int:
        """How many values must be replaced before the local sensitivity can exceed what was proposed."""
        beyond = local > self.proposed
        return int(beyond.argmax()) if beyond.any() else len(local)

    def passes(self, local: Floats) -> float:
        """The chance to pass the test."""
        gap = (self.bar - self.distance(local)) * self.epsilon / 2
        return 0.5 * math.exp(-gap) if gap > 0 else 1 - 0.5 * math.exp(gap)

    def draw(self, values: Floats, low: float, high: float, runs: int, generator: np.random.Generator) -> Floats:
        """Noisy medians, clipped to the bounds."""
        passed = generator.random(runs) < self.passes(sensitivities(values, low, high))
        noisy = median(values) + generator.laplace(0, 2 * self.proposed / self.epsilon, runs)
        return np.clip(np.where(passed, noisy, (low + high) / 2), low, high)
