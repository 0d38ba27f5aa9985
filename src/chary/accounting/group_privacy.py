"""What a guarantee for one unit says of several, and of a mechanism that is not drawn quite by its law."""

from fractions import Fraction
from typing import Final

from chary.accounting.exponentials import LARGEST_EXPONENT, decimal, precise
from chary.accounting.rounding import rounded_up
from chary.errors import InvalidParameter
from chary.numbers import Number, exact, positive, whole

_ONE: Final = Fraction(1)


def group_privacy_up(*, epsilon: Number, delta: Number = 0, units: int) -> tuple[Fraction, Fraction]:
    """The (epsilon, delta) of neighbours that differ in `units` units, delta rounded up (theory 9.7).

    `(k epsilon, delta (e^(k epsilon) - 1)/(e^epsilon - 1))`: one unit after another multiplies by e^epsilon and adds
    delta. Delta is never above 1, and 0 stays 0.

    >>> epsilon, delta = group_privacy_up(epsilon="0.1", delta=1e-6, units=3)
    >>> epsilon, round(float(delta), 9)
    (Fraction(3, 10), 3.327e-06)
    """
    each, failure, count = positive(epsilon, "epsilon"), _chance(delta, "delta"), whole(units, "units")
    if not failure or count == 1:
        return count * each, failure
    if count * each > LARGEST_EXPONENT:
        return count * each, _ONE
    # Differences of numbers near 1 lose as many digits as epsilon has zeros.
    with precise(len(str(each.denominator))):
        grown = (decimal(count * each).exp() - 1) / (decimal(each).exp() - 1)
        return count * each, min(_ONE, rounded_up(decimal(failure) * grown))


def sampler_delta_up(*, epsilon: Number, delta: Number = 0, distance: Number) -> Fraction:
    """The delta of an (epsilon, delta)-DP mechanism drawn within this total variation distance of its law, rounded up.

    `delta + (1 + e^epsilon) distance`: the distance is paid once on either side (theory 9.7). At most 1.

    >>> round(float(sampler_delta_up(epsilon=1, distance=1e-9)), 12)
    3.718e-09
    """
    each, failure = positive(epsilon, "epsilon"), _chance(delta, "delta")
    away = _chance(distance, "distance")
    if not away:
        return failure
    if each > LARGEST_EXPONENT:
        return _ONE
    with precise():
        return min(_ONE, failure + rounded_up((1 + decimal(each).exp()) * decimal(away)))


def _chance(value: Number, name: str) -> Fraction:
    found = exact(value, name)
    if not 0 <= found <= 1:
        raise InvalidParameter(f"{name} must be at least 0 and at most 1")
    return found
