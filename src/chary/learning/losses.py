"""Convex losses of linear models, smooth or with rounded corners, and the bounds that privacy rests on."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt, nan
from typing import Final

import numpy as np
from numpy.typing import NDArray

from chary.errors import AlgorithmFailed, InvalidParameter, brought
from chary.numbers import Number, positive, set_fields

# Convex losses of linear models: what they cost, how they bend, and the bounds that privacy rests on.

Floats = NDArray[np.float64]

# The largest p/(1 + e^p) is W(1/e) = 0.278464..., rounded up.
LAMBERT_UP: Final = Fraction("0.27847")
# exp(-700) is no longer distinguished from 0 beside 1, and a normal float.
FAR: Final = 700.0


class Loss(ABC):
    """A convex loss l(p, t) of the prediction p = w.x for a row whose target is t.

    The objective is `mean(l) + lam/2 |w|^2`. Its optimum w* fulfils `lam |w*|^2 = mean(-l'(p) p)` and `lam |w*| <=
    radius * mean |l'(p)|`, which is where the bounds on its length come from. They hold for all rows of length at most
    `radius`, so they are public.
    """

    curvature: Fraction
    "The most that the slope changes per unit of the prediction."
    pull: Fraction
    "The most that `-l'(p) p` can be."
    bias = Fraction(0)
    "How far it may be from the loss with corners that it stands for, always on one side."

    @abstractmethod
    def values(self, predictions: Floats, targets: Floats) -> Floats:
        """The loss of each row."""

    @abstractmethod
    def slopes(self, predictions: Floats, targets: Floats) -> Floats:
        """Its derivative with respect to the prediction."""

    @abstractmethod
    def curvatures(self, predictions: Floats, targets: Floats) -> Floats:
        """Its second derivative, where it has one."""

    @property
    @abstractmethod
    def mean_slope(self) -> Fraction:
        """The most that the mean of `|l'|` can be at an optimum."""

    def slope_up(self, prediction: Fraction) -> Fraction:
        """The most that `|l'|` can be where predictions are no larger than this."""
        return self.mean_slope

    def norm_up(self, radius: Fraction, lam: Fraction) -> Fraction:
        """The most that an optimum's length can be."""
        return min(root_up(self.pull / lam), self.mean_slope * radius / lam)

    def apart_up(self, norm: Fraction, radius: Fraction) -> Fraction:
        """The most that the gradients of two rows can differ (L2) at the same weights, no longer than `norm`."""
        return 2 * self.slope_up(norm * radius) * radius


@dataclass(frozen=True)
class Logistic(Loss):
    """`ln(1 + exp(-t p))`, targets -1 and 1.

    >>> Logistic().slopes(np.array([0.0, 800.0]), np.array([1.0, -1.0])).tolist()
    [-0.5, 1.0]
    """

    curvature = Fraction(1, 4)
    pull = LAMBERT_UP
    mean_slope = Fraction(1)

    def values(self, predictions: Floats, targets: Floats) -> Floats:
        return np.logaddexp(0, -targets * predictions)

    def slopes(self, predictions: Floats, targets: Floats) -> Floats:
        return -targets * _shares(-targets * predictions)

    def curvatures(self, predictions: Floats, targets: Floats) -> Floats:
        return _shares(predictions) * _shares(-predictions)


@dataclass(frozen=True)
class SquaredHinge(Loss):
    """`max(0, 1 - t p)^2`, targets -1 and 1.

    >>> SquaredHinge().slopes(np.array([-1.0, 2.0]), np.ones(2)).tolist()
    [-4.0, -0.0]
    """

    curvature = Fraction(2)
    pull = Fraction(1, 2)
    mean_slope = Fraction(2)

    def values(self, predictions: Floats, targets: Floats) -> Floats:
        return np.maximum(0, 1 - targets * predictions) ** 2

    def slopes(self, predictions: Floats, targets: Floats) -> Floats:
        return -2 * targets * np.maximum(0, 1 - targets * predictions)

    def curvatures(self, predictions: Floats, targets: Floats) -> Floats:
        return np.where(targets * predictions < 1, 2.0, 0.0)

    def slope_up(self, prediction: Fraction) -> Fraction:
        return 2 * (1 + prediction)

    def apart_up(self, norm: Fraction, radius: Fraction) -> Fraction:
        """With v = t x: `2 v - 2 (w.v) v` less the same of v' is `2 (v - v')` less `2 (v v^T - v' v'^T) w`, and the
        matrix, a difference of two that are positive, stretches by `radius^2` at most. If one row is without loss, the
        other's gradient is all there is, and is shorter.
        """
        return 4 * radius + 2 * norm * radius**2


@dataclass(frozen=True)
class SquaredError(Loss):
    """`(p - t)^2 / 2`, targets between -bound and bound.

    >>> SquaredError(Fraction(2)).norm_up(Fraction(1), Fraction(4))
    Fraction(1, 2)
    """

    bound: Fraction
    curvature = Fraction(1)

    @property
    def pull(self) -> Fraction:  # type: ignore[override]
        """`(t - p) p` is largest at half the target."""
        return self.bound**2 / 4

    @property
    def mean_slope(self) -> Fraction:
        return self.bound

    def values(self, predictions: Floats, targets: Floats) -> Floats:
        return (predictions - targets) ** 2 / 2

    def slopes(self, predictions: Floats, targets: Floats) -> Floats:
        return predictions - targets

    def curvatures(self, predictions: Floats, targets: Floats) -> Floats:
        return np.ones_like(predictions)

    def slope_up(self, prediction: Fraction) -> Fraction:
        return self.bound + prediction

    def apart_up(self, norm: Fraction, radius: Fraction) -> Fraction:
        """`(x x^T - x' x'^T) w` less `t x - t' x'`, where the matrix stretches by `radius^2` at most."""
        return norm * radius**2 + 2 * self.bound * radius


def _shares(values: Floats) -> Floats:
    """`1 / (1 + exp(-v))`, with a relative error of at most 16 units of roundoff."""
    powers: Floats = np.exp(-np.minimum(np.abs(values), FAR))
    return np.where(values >= 0, 1.0, powers) / (1 + powers)


# Losses with corners, rounded off within a public width: hinge and quantile loss, with what the rounding adds.


class Kinked(Loss):
    """A loss whose corner is rounded to a parabola within `width` of it; that moves it by `width / 4` at most."""

    width: Fraction

    @property
    def curvature(self) -> Fraction:  # type: ignore[override]
        return 1 / (2 * self.width)

    @property
    def bias(self) -> Fraction:  # type: ignore[override]
        return self.width / 4


@dataclass(frozen=True)
class Hinge(Kinked):
    """`max(0, 1 - t p)` with the corner rounded to a parabola within `width` of it, targets -1 and 1.

    Nowhere below the hinge, and above it by `width / 4` at most. Its slope is that of the hinge at most, so rounding
    costs no privacy; it bends by `1/(2 width)`.

    >>> Hinge(Fraction(1, 10)).values(np.array([-1.0, 1.0, 1.1]), np.ones(3)).round(6).tolist()
    [2.0, 0.025, 0.0]
    """

    width: Fraction
    mean_slope = Fraction(1)

    @property
    def pull(self) -> Fraction:  # type: ignore[override]
        """`p (1 + width - p)/(2 width)` where the parabola is, p where the slope is 1: largest at one of three ends."""
        middle = (1 + self.width) / 2
        rounded = middle**2 / (2 * self.width) if abs(middle - 1) <= self.width else Fraction(0)
        return max(rounded, 1 - self.width)

    def values(self, predictions: Floats, targets: Floats) -> Floats:
        short, width = 1 - targets * predictions, float(self.width)
        return np.where(short > width, short, np.clip(short + width, 0, 2 * width) ** 2 / (4 * width))

    def slopes(self, predictions: Floats, targets: Floats) -> Floats:
        width = float(self.width)
        return -targets * np.clip((1 + width - targets * predictions) / (2 * width), 0, 1)

    def curvatures(self, predictions: Floats, targets: Floats) -> Floats:
        width = float(self.width)
        return np.where(np.abs(1 - targets * predictions) <= width, 1 / (2 * width), 0.0)


@dataclass(frozen=True)
class SmoothedHinge(Hinge):
    """The hinge within 1/2 of its corner a parabola (Huber's), a loss of its own: it stands for no other.

    >>> SmoothedHinge().values(np.array([-1.0, 1.0, 1.5]), np.ones(3)).tolist()
    [2.0, 0.125, 0.0]
    """

    # A wider parabola would bend less and be farther from the hinge.
    width: Fraction = Fraction(1, 2)
    bias = Fraction(0)


@dataclass(frozen=True)
class Quantile(Kinked):
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
    def pull(self) -> Fraction:  # type: ignore[override]
        """`p ((bound - p)/(2 width) + level - 1/2)` where the parabola is, `level p` where the slope is all of it."""
        middle = (self.bound + self.width * (2 * self.mean_slope - 1)) / 2
        straight = self.bound - self.width
        return middle**2 / (2 * self.width) if middle >= straight else straight * self.mean_slope

    def values(self, predictions: Floats, targets: Floats) -> Floats:
        off, width = targets - predictions, float(self.width)
        far = np.abs(off)
        found: Floats = np.where(far <= width, off**2 / (4 * width), far / 2 - width / 4)
        return found + float(self.level - Fraction(1, 2)) * off

    def slopes(self, predictions: Floats, targets: Floats) -> Floats:
        off = (targets - predictions) / float(self.width)
        return -np.clip(off, -1, 1) / 2 - float(self.level - Fraction(1, 2))

    def curvatures(self, predictions: Floats, targets: Floats) -> Floats:
        width = float(self.width)
        return np.where(np.abs(targets - predictions) <= width, 1 / (2 * width), 0.0)


# A loss of one's own, by its slope alone: what was declared of it is enforced where privacy rests on it.

# This many predictions and targets are tried before any row is: enough to find a wrong sign, bound or unit.
TRIED: Final = 65
# What functions of equal numbers may differ by, one by one and together.
EQUAL: Final = 1e-9


@dataclass(frozen=True)
class OwnLoss(Loss):
    """A convex loss of your own: `slopes(predictions, targets)`, its derivative in the prediction, for whole arrays.

    `slope` bounds the derivative, `curvature` how much it changes per unit of the prediction. Only descents train with
    it. Their guarantee rests on this: the function depends on nothing but its arguments and treats them one by one.
    Whatever else is declared wrongly costs accuracy alone: each row's slope is clipped to `slope`, and one that is no
    finite number, or for which it raises, counts as 0. That it is convex, and the bounds, is what the distribution of a
    `TrainingBox` rests on; they are tried on synthetic numbers before any row is read. `name` stands for the function
    in ledgers.

    Errors: `InvalidParameter` where a trial shows that a declaration cannot be right, `AlgorithmFailed` if it raises.

    >>> huber = OwnLoss("huber", lambda p, t: np.clip(p - t, -1, 1), slope=1, curvature=1)
    >>> huber.try_out(5, 5)
    >>> OwnLoss("steeper", lambda p, t: np.clip(p - t, -2, 2), slope=1, curvature=1).try_out(5, 5)
    Traceback (most recent call last):
    ...
    chary.errors.InvalidParameter: the loss 'steeper' is steeper than its slope= says
    """

    name: str
    slopes_of: Callable[[Floats, Floats], Floats]
    slope: Number
    curvature: Fraction

    def __init__(
        self, name: str, slopes: Callable[[Floats, Floats], Floats], *, slope: Number, curvature: Number
    ) -> None:
        if not isinstance(name, str) or not name or not callable(slopes):
            raise InvalidParameter('a loss has a name and a function: OwnLoss("huber", slopes, slope=1, curvature=1)')
        bounds = {"slope": positive(slope, "slope"), "curvature": positive(curvature, "curvature")}
        set_fields(self, name=name, slopes_of=slopes, **bounds)

    def __str__(self) -> str:
        return f"{self.name}, slope {self.slope}, curvature {self.curvature}"

    @property
    def mean_slope(self) -> Fraction:
        return Fraction(self.slope)

    @property
    def pull(self) -> Fraction:  # type: ignore[override]
        """It is not known; only optima need it."""
        raise InvalidParameter(DESCENTS_ONLY)

    def norm_up(self, radius: Fraction, lam: Fraction) -> Fraction:
        return self.mean_slope * radius / lam

    def values(self, predictions: Floats, targets: Floats) -> Floats:
        raise InvalidParameter(DESCENTS_ONLY)

    def curvatures(self, predictions: Floats, targets: Floats) -> Floats:
        raise InvalidParameter(DESCENTS_ONLY)

    def slopes(self, predictions: Floats, targets: Floats) -> Floats:
        try:
            found = brought(lambda: self._called(predictions, targets), self.name)
        except AlgorithmFailed:  # to stop at one row would say that it is there
            pairs = zip(predictions, targets, strict=True)
            found = np.array([self._single(prediction, target) for prediction, target in pairs], dtype=np.float64)
        # A NaN would reach the sum of all rows, and no noise hides that.
        return np.clip(np.where(np.isfinite(found), found, 0.0), -float(self.slope), float(self.slope))

    def _called(self, predictions: Floats, targets: Floats) -> Floats:
        with np.errstate(all="ignore"):
            found = np.asarray(self.slopes_of(predictions.copy(), targets.copy()), dtype=np.float64)
        if found.shape != predictions.shape:
            raise InvalidParameter("a slope for each row")
        return found

    def _single(self, prediction: float, target: float) -> float:
        """The slope of one row; NaN where it raises or gives other than one number."""
        try:
            return float(brought(lambda: self._called(np.array([prediction]), np.array([target]))[0], self.name))
        except AlgorithmFailed:
            return nan

    def try_out(self, most: float, bound: float) -> None:
        """Try it on predictions up to `most` and targets up to `bound` that are made up."""
        places, aims = np.linspace(-most, most, TRIED), np.linspace(-bound, bound, 5)
        predictions, targets = np.tile(places, len(aims)), np.repeat(aims, TRIED)
        told = f"the loss {self.name!r} raised, or gave other than one number for each row"
        found = brought(lambda: self._called(predictions, targets), told)
        single = brought(
            lambda: np.array([self._called(predictions[i : i + 1], targets[i : i + 1])[0] for i in range(len(found))]),
            told,
        )
        slope, curvature, room = float(self.slope), float(self.curvature), 1 + EQUAL
        rises = np.diff(found.reshape(len(aims), TRIED), axis=1)
        wrong = {
            "is no finite number everywhere": not np.isfinite(found).all(),
            "does not treat rows one by one": not np.allclose(found, single, rtol=EQUAL, atol=EQUAL * slope),
            "is steeper than its slope= says": (np.abs(found) > slope * room).any(),
            "is not convex: its slope falls": (rises < -EQUAL * slope).any(),
            "bends more than its curvature= says": (rises > curvature * 2 * most / (TRIED - 1) + EQUAL * slope).any(),
        }
        for what, is_so in wrong.items():
            if is_so:
                raise InvalidParameter(f"the loss {self.name!r} {what}")


DESCENTS_ONLY: Final = "a loss of your own is trained by descent: give the model rho= (or a delta=), and steps="


# Square roots of rationals between rationals.

# 60 significant bits: above the root by less than a float's last digit.
BITS: Final = 60


def root_bounds(value: Fraction, bits: int) -> tuple[Fraction, Fraction]:
    """Multiples of `2**-bits` next to the root of a number that is not negative: `low**2 <= value < high**2`.

    >>> root_bounds(Fraction(2), 3)
    (Fraction(11, 8), Fraction(3, 2))
    """
    whole = isqrt((value.numerator << 2 * bits) // value.denominator)
    return Fraction(whole, 1 << bits), Fraction(whole + 1, 1 << bits)


def root_up(value: Fraction) -> Fraction:
    """A bound on the root from above, which is the root itself where that is a short number.

    >>> root_up(Fraction(1, 4)), float(root_up(Fraction(2)))
    (Fraction(1, 2), 1.414213562373095...)
    """
    bits = max(BITS, BITS + (value.denominator.bit_length() - value.numerator.bit_length()) // 2)
    low, high = root_bounds(value, bits)
    return low if low**2 == value else high
