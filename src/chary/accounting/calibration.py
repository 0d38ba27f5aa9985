"""The largest sizes that fit a budget, by bisection: plain composition, and target charging by any of its totals."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from chary.accounting import composition, gaussian_noise
from chary.accounting.numerics import geometric_mean, largest
from chary.errors import InvalidParameter
from chary.numbers import Number, plain, positive, probability, whole

# Four digits are short to read and to keep in a ledger, and lose a thousandth at most, on the side that fits.
_DIGITS: Final = 4
# A ten-thousandth of a size is nothing that can be measured, and only `low`, which was seen to fit, is returned.
_CLOSE: Final = 1.0001
# 2**-80 is 1e-24: whatever does not fit there never fits, and the search must end.
_HALVINGS: Final = 80
# A total may be infinite: no step divides by more than this. Secants stay 1/20 of the way from both ends, so that each
# shortens the bracket even where the function is far from straight.
_FAR: Final = 1e6
_EDGE: Final = 0.05


@dataclass(frozen=True)
class PlainNoise:
    """The least noise of many answers under a budget: its standard deviation, and whether it is Gaussian."""

    deviation: float
    gaussian: bool


def largest_size(fits: Callable[[float], bool], most: float) -> float:
    """The largest size up to `most` that fits, to one part in ten thousand, never above, by bisection of its logarithm.

    Smaller sizes must fit wherever larger ones do. `InvalidParameter` if not even `most / 2**80` fits.

    >>> largest_size(lambda size: size <= 0.3, 1), largest_size(lambda size: True, 1)
    (0.2999..., 1)
    """
    if fits(most):
        return most
    low, high = most / 2, most
    while not fits(low):
        low, high = low / 2, low
        if low * 2**_HALVINGS < most:
            raise InvalidParameter(f"nothing fits, not even a size of {plain(low)}")
    return largest(fits, low, high, middle=geometric_mean, ratio=_CLOSE)


def four_digits_down(size: Fraction | float) -> Fraction:
    """A positive number rounded down to four digits, or to an integer.

    >>> four_digits_down(Fraction(1, 3)), four_digits_down(0.0123456)
    (Fraction(3333, 10000), Fraction(617, 50000))
    """
    number, unit = Fraction(size), _unit(size)
    return math.floor(number / unit) * unit


def four_digits_up(size: Fraction | float) -> Fraction:
    """A positive number rounded up to four digits, or to an integer.

    >>> four_digits_up(Fraction(1, 3)), four_digits_up(12345.6)
    (Fraction(1667, 5000), Fraction(12346, 1))
    """
    number, unit = Fraction(size), _unit(size)
    return math.ceil(number / unit) * unit


def _unit(size: Fraction | float) -> Fraction:
    exponent = 0
    while size * 10**exponent < 10 ** (_DIGITS - 1):
        exponent += 1
    return Fraction(1, 10**exponent)


def plain_noise(*, epsilon: Number, delta: Number, tests: int) -> PlainNoise:
    """The least noise of this many answers of sensitivity 1, all paid beforehand.

    The better of Laplace noise under optimal composition, which no other theorem undercuts, and of continuous Gaussian
    noise, calibrated exactly.

    >>> plain_noise(epsilon=1, delta=1e-6, tests=10_000)
    PlainNoise(deviation=422.46..., gaussian=True)
    """
    total, failure = float(positive(epsilon, "epsilon")), float(probability(delta, "delta"))
    if whole(tests, "tests") > composition.LARGEST_TIMES:
        raise InvalidParameter(f"optimal composition is worked out for at most {composition.LARGEST_TIMES} tests")
    # The float of a delta may be above it by half a unit: the margin of 1e-11 covers that many times over.
    room = failure * (1 - composition.MARGIN)
    laplace = math.sqrt(2) / largest_size(lambda size: composition.optimal_delta(size, tests, total) <= room, total)
    gaussian = gaussian_noise.gaussian_sigma(epsilon=epsilon, delta=failure, sensitivity=math.sqrt(tests))
    return PlainNoise(min(laplace, gaussian), gaussian <= laplace)


def charging_size(total: Callable[..., float], *, epsilon: Number, delta: Number, hits: int) -> Fraction:
    """The largest epsilon per call with which `hits` hits fit, by one of the totals of target charging.

    >>> from chary.accounting import published_total
    >>> round(float(charging_size(published_total, epsilon=1, delta=1e-6, hits=50)), 5)
    0.01261
    """
    most = float(positive(epsilon, "epsilon"))

    def reached(size: float) -> float:
        """Of what there is."""
        return total(epsilon_per_call=size, hits=hits, delta=delta) / most

    return Fraction(_where_one(reached, most))


def _where_one(reached: Callable[[float], float], most: float) -> float:
    """Like `largest_size`, for a rising function that is at most 1 where a size fits: by secants of logarithms.

    Every other step halves, and the secants aim a little to the left, where sizes fit.
    """
    high, above = most, reached(most)
    if above <= 1:
        return most
    low, below = most / 2, reached(most / 2)
    while below > 1:
        high, above = low, below
        low /= max(2.0, min(below, _FAR))
        below = reached(low)
    halve = False
    while high > low * _CLOSE:
        share = 0.5 if halve or not below > 0 else math.log(below) / (math.log(below) - math.log(above))
        middle = low * (high / low) ** min(max(share, _EDGE), 1 - _EDGE)
        found = reached(middle)
        low, below, high, above = (middle, found, high, above) if found <= 1 else (low, below, middle, found)
        halve = not halve
    return low
