"""The scaled tail of the normal law, `exp(u^2/2)` times the integral of `exp(-t^2/2)` from u on, in decimals."""

from decimal import Decimal
from typing import Final

Enclosed = tuple[Decimal, Decimal]
# The square root of pi/2.
_ROOT_OF_HALF_PI: Final = Decimal("1.25331413731550025120788264240552262650349337030496915831496178817114682730392")
# Below, the difference loses 8 of 60 digits; from here on so many levels of the fraction agree to 40.
_FRACTION_FROM: Final = 6
_LEVELS: Final = 70
_CUT: Final = Decimal("1e-50")


def scaled_tail(u: Decimal) -> Enclosed:
    """Bounds of `exp(u^2/2)` times the normal integral from u >= 0 on; equal where 40 digits hold. Inside `precise`.

    >>> from chary.accounting.exponentials import precise
    >>> with precise():
    ...     [round(float(end), 10) for u in (0, 3, 9) for end in scaled_tail(Decimal(u))]
    [1.2533141373, 1.2533141373, 0.3045902987, 0.3045902987, 0.1097872826, 0.1097872826]
    """
    return _by_fraction(u) if u >= _FRACTION_FROM else _by_series(u)


def _by_series(u: Decimal) -> Enclosed:
    """From u on is the whole half less 0 to u, which is `u + u^3/3 + u^5/(3 5) + ...` in this scale."""
    square, term, total, odd = u * u, u, u, 1
    while term > _CUT:
        odd += 2
        term = term * square / odd
        total += term
    found = _ROOT_OF_HALF_PI * (square / 2).exp() - total
    return found, found


def _by_fraction(u: Decimal) -> Enclosed:
    """Laplace's continued fraction `1/(u + 1/(u + 2/(u + ...)))`, between whose convergents the value lies."""
    ends = []
    for levels in (_LEVELS, _LEVELS + 1):
        found = u
        for level in range(levels, 0, -1):
            found = u + level / found
        ends.append(1 / found)
    return min(ends), max(ends)
