"""How near to the bar all tests are right, by mechanism and hits, and what a test takes of a processor."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from chary.accounting import error_up, laplace_error_up, sparse_half_width_up, sparse_noise
from chary.accounting.sharp_widths import Choice, sharp_menu
from chary.filters import Budget, largest_call
from chary.mechanisms import BarTests, Laplace
from chary.noise import OperatingSystem
from sharp_mechanisms import VALUE_SHARES, sharp_forms
from sparse_accuracy import exponential_error
from sparse_vector import Integers

REPEATS = 20


@dataclass(frozen=True)
class Widths:
    """Half-widths of so many tests under a budget, all right 95 times in 100, for several numbers of hits."""

    epsilon: float
    delta: float
    tests: int
    hits: tuple[int, ...]

    def rows(self) -> list[list[str]]:
        """One line for each mechanism: tests alone first, then tests and errors of all values."""
        budget = Budget(self.epsilon, self.delta)
        alone: dict[str, Callable[[int], float]] = {
            "sparse vector, tuned Laplace": self._tuned,
            # Found at epsilon 1: errors are in proportion to 1/epsilon, up to whole steps.
            "sparse vector, exponential": lambda hits: exponential_error(hits, self.tests) / self.epsilon,
            "sparse vector, ours: one-sided": self._one_sided,
            "charging, ours: exact": lambda hits: self._laplace(largest_call(budget, hits, "exact")),
            "charging, ours: Renyi": lambda hits: self._laplace(largest_call(budget, hits, "renyi")),
        }
        lines = [[name, *(f"{width(hits):,.0f}" for hits in self.hits)] for name, width in alone.items()]
        menus = {share: self._menu(share) for share in VALUE_SHARES}
        first = menus[VALUE_SHARES[0]]
        lines.append(["sharp, ours: no values", *(f"{choice.alone:,.0f}" for choice in first)])
        lines.append(["sharp, ours: agreed, no values", *(f"{choice.agreed:,.0f}" for choice in first)])
        for share, menu in menus.items():
            both = (f"{choice.within:,.0f} / {choice.value_error:,.0f}" for choice in menu)
            lines.append([f"sharp, ours: value {share}", *both])
        return [[f"epsilon {self.epsilon:g}", *("" for _ in self.hits)], *lines]

    def _tuned(self, hits: int) -> int:
        noise = sparse_noise(epsilon=self.epsilon, hits=hits, monotone=True)
        return error_up(noise, tests=self.tests, confidence="0.95")

    def _one_sided(self, hits: int) -> int:
        return sparse_half_width_up(epsilon=self.epsilon, tests=self.tests, hits=hits)

    def _laplace(self, size: Fraction) -> int:
        return laplace_error_up(1 / size, tests=self.tests, confidence="0.95")

    def _menu(self, share: str) -> list[Choice]:
        return sharp_menu(epsilon=self.epsilon, delta=self.delta, tests=self.tests, hits=self.hits, value=share)


def speeds(values: Integers, bar: int, epsilon: float, delta: float, hits: int) -> list[list[str]]:
    """Microseconds of processor for a test, with the operating system's randomness: before by Laplace noise, now."""
    laplace = Laplace.for_epsilon(largest_call(Budget(epsilon, delta), hits, "renyi"), sensitivity=1)
    forms = [BarTests(laplace, bar, hits)]
    forms += [form.tests(bar) for [form] in sharp_forms(epsilon, delta, hits, len(values))[1:2]]
    many = [replace(form, most_hits=None) for form in forms]
    names = ["charging, ours: Laplace", "sharp, ours: value 0.25"]
    return [[name, *(_micros(form, values) for form in pair)] for name, *pair in zip(names, forms, many, strict=True)]


def _micros(form: BarTests, values: Integers) -> str:
    source, times = OperatingSystem(), []
    for _ in range(REPEATS):
        start = time.process_time()
        form.step(values, source)
        times.append(time.process_time() - start)
    return f"{1e6 * float(np.median(times)) / len(values):.3f}"
