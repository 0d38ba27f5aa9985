"""Losses with corners, rounded off within a public width: hinge and quantile loss, with what the rounding adds."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from chary.learning.erm.losses import Floats, Loss


@dataclass(frozen=True)
class Hinge(Loss):
    """`max(0, 1 - t p)` with the corner rounded to a parabola within `width` of it, targets -1 and 1.

    Nowhere below the hinge, and above it by `width / 4` at most. Its slope is that of the hinge at most, so rounding
    costs no privacy; it bends by `1/(2 width)`.

    >>> Hinge(Fraction(1, 10)).values(np.array([-1.0, 1.0, 1.1]), np.ones(3)).round(6).tolist()
    [2.0, 0.025, 0.0]
    """

    width: Fraction
    mean_slope = Fraction(1)

    @property
    def curvature(self) -> Fraction:  # type: ignore[override]
        return 1 / (2 * self.width)

    @property
    def pull(self) -> Fraction:  # type: ignore[override]
        """`p (1 + width - p)/(2 width)` where the parabola is, p where the slope is 1: largest at one of three ends."""
        middle = (1 + self.width) / 2
        rounded = middle**2 / (2 * self.width) if abs(middle - 1) <= self.width else Fraction(0)
        return max(rounded, 1 - self.width)

    @property
    def bias(self) -> Fraction:  # type: ignore[override]
        return self.width / 4

    def values(self, predictions: Floats, targets: Floats) -> Floats:
        short, width = 1 - targets * predictions, float(self.width)
        return np.where(short > width, short, np.clip(short + width, 0, 2 * width) ** 2 / (4 * width))

    def slopes(self, predictions: Floats, targets: Floats) -> Floats:
        width = float(self.width)
        found: Floats = -targets * np.clip((1 + width - targets * predictions) / (2 * width), 0, 1)
        return found

    def curvatures(self, predictions: Floats, targets: Floats) -> Floats:
        width = float(self.width)
        return np.where(np.abs(1 - targets * predictions) <= width, 1 / (2 * width), 0.0)

    def slope_up(self, prediction: Fraction) -> Fraction:
        return Fraction(1)


@dataclass(frozen=True)
class Quantile(Loss):
    """`level (t - p)` above the prediction and `(1 - level) (p - t)` below, targets between -bound and bound.

    The corner is rounded to a parabola within `width` of it, as Moreau's envelope does: nowhere above the loss with
    its corner, and below it by `width / 4` at most. The slope stays between `-level` and `1 - level`. Level 1/2 is half
    of the absolute error, whose best constant is the median.

    >>> loss = Quantile(Fraction(9, 10), Fraction(1), Fraction(1, 5))
    >>> loss.values(np.zeros(3), np.array([1, 0, -1.0])).round(6).tolist()
    [0.85, 0.0, 0.05]
    """

    level: Fraction
    bound: Fraction
    width: Fraction

    @property
    def mean_slope(self) -> Fraction:
        return max(self.level, 1 - self.level)

    @property
    def curvature(self) -> Fraction:  # type: ignore[override]
        return 1 / (2 * self.width)

    @property
    def pull(self) -> Fraction:  # type: ignore[override]
        """`p ((bound - p)/(2 width) + level - 1/2)` where the parabola is, `level p` where the slope is all of it."""
        middle = (self.bound + self.width * (2 * self.mean_slope - 1)) / 2
        straight = self.bound - self.width
        return middle**2 / (2 * self.width) if middle >= straight else straight * self.mean_slope

    @property
    def bias(self) -> Fraction:  # type: ignore[override]
        return self.width / 4

    def values(self, predictions: Floats, targets: Floats) -> Floats:
        off, width = targets - predictions, float(self.width)
        far = np.abs(off)
        found: Floats = np.where(far <= width, off**2 / (4 * width), far / 2 - width / 4)
        return found + float(self.level - Fraction(1, 2)) * off

    def slopes(self, predictions: Floats, targets: Floats) -> Floats:
        off = (targets - predictions) / float(self.width)
        found: Floats = -np.clip(off, -1, 1) / 2 - float(self.level - Fraction(1, 2))
        return found

    def curvatures(self, predictions: Floats, targets: Floats) -> Floats:
        width = float(self.width)
        return np.where(np.abs(targets - predictions) <= width, 1 / (2 * width), 0.0)

    def slope_up(self, prediction: Fraction) -> Fraction:
        return self.mean_slope
