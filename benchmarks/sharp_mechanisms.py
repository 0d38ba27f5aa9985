"""The sharpest tests with fresh values, calibrated to one budget and so many hits; misses free, or agreed on."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from chary.accounting.sharp_tests import SharpTest, sharp_table
from chary.accounting.sharp_widths import SharpWidth, sharp_width
from chary.advise.options import deviation
from chary.mechanisms import Gaussian
from chary.mechanisms.threshold_tests import SharpSampler, SharpTests
from chary.noise import Seeded
from sparse_vector import Integers, Reports

VALUE_SHARES = ("0.1", "0.25", "0.4")
SHARP = {share: f"sharp, ours: value {share}" for share in VALUE_SHARES}
AGREED = "sharp, ours: agreed, value 0.25"


@dataclass(frozen=True)
class SharpWatch:
    """Sharp tests at the prices of `test`, a part `value` of that of a hit going to its fresh Gaussian value."""

    name: str
    hits: int
    test: SharpTest
    value: Fraction

    @property
    def sampler(self) -> SharpSampler:
        price = Fraction(self.test.price) * (1 - self.value)
        table = sharp_table(order=self.test.order, price=price, miss_price=self.test.miss_price)
        return SharpSampler(table)

    @property
    def noise(self) -> Gaussian:
        order = Fraction(self.test.order)
        return Gaussian.for_rho(Fraction(self.test.price) * self.value / (order * (order - 1)), l2_squared=1)

    @property
    def test_deviation(self) -> float:
        return deviation(self.sampler.table)

    @property
    def answer_deviation(self) -> float:
        return math.sqrt(self.noise.sigma_squared)

    def tests(self, threshold: int) -> SharpTests:
        """Hit with one half at the threshold."""
        return SharpTests(self.sampler, threshold, self.noise, self.hits)

    def run(self, values: Integers, threshold: int, generator: np.random.Generator) -> Reports:
        """The mechanism itself, seeded."""
        found = self.tests(threshold).step(values, Seeded(int(generator.integers(2**32))))
        return Reports(np.array(found.positions, dtype=np.int64), np.array(found.noisy, dtype=np.float64))


def sharp_forms(epsilon: float, delta: float, hits: int, tests: int) -> list[list[SharpWatch]]:
    """One for each part of the price that a value may get, at the best order; then for an agreed number of tests."""
    free, agreed = (_width(epsilon, delta, hits, tests, share) for share in (0, "best"))
    forms = [SharpWatch(name, hits, free.test, Fraction(share)) for share, name in SHARP.items()]
    return [*([form] for form in forms), [SharpWatch(AGREED, hits, agreed.test, Fraction(1, 4))]]


def _width(epsilon: float, delta: float, hits: int, tests: int, share: int | str) -> SharpWidth:
    return sharp_width(epsilon=epsilon, delta=delta, hits=hits, tests=tests, misses_share=share)
