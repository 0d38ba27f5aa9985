"""The domain of the parameters which all samplers share."""

from fractions import Fraction
from typing import Final

from chary.errors import InvalidParameter
from chary.numbers import positive, whole

# At 2**-10 the noise is 0 but for a chance of exp(-1024): whoever asks for less has too coarse a grid. Up to 2**40
# values leave 64 bits with a chance below exp(-2**22), also those of a Gaussian's proposals (see `Ladder`).
SMALLEST_SCALE: Final = Fraction(1, 2**10)
LARGEST_SCALE: Final = Fraction(2**40)
SMALLEST_VARIANCE: Final = SMALLEST_SCALE**2
LARGEST_VARIANCE: Final = LARGEST_SCALE**2
_RANGE: Final = "must be at least 2**-10 and at most 2**40 grid steps: choose another epsilon or another grid"


def checked_size(size: int) -> int:
    """A whole number of at least 0.

    >>> checked_size(-1)
    Traceback (most recent call last):
    ...
    chary.errors.InvalidParameter: size must be a whole number of at least 0, got -1
    """
    return whole(size, "size", least=0)


def checked_scale(scale: Fraction) -> Fraction:
    """A rational number from 2**-10 to 2**40.

    >>> checked_scale(Fraction(1, 2048))
    Traceback (most recent call last):
    ...
    chary.errors.InvalidParameter: scale must be at least 2**-10 and at most 2**40 grid steps: ...
    """
    number = positive(scale, "scale")
    if not SMALLEST_SCALE <= number <= LARGEST_SCALE:
        raise InvalidParameter(f"scale {_RANGE}")
    return number


def checked_variance(sigma_squared: Fraction) -> Fraction:
    """A rational number from 2**-20 to 2**80, the square of a scale.

    >>> checked_variance(Fraction(2**81))
    Traceback (most recent call last):
    ...
    chary.errors.InvalidParameter: sigma must be at least 2**-10 and at most 2**40 grid steps: ...
    """
    number = positive(sigma_squared, "sigma_squared")
    if not SMALLEST_VARIANCE <= number <= LARGEST_VARIANCE:
        raise InvalidParameter(f"sigma {_RANGE}")
    return number
