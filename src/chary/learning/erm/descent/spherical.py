"""Spherical noise in any dimension, of density exp(-|b|/scale) or Gaussian, added to real numbers and published on a
grid, exactly."""

from collections.abc import Sequence
from fractions import Fraction
from math import floor

from chary.learning.erm.roots import root_bounds
from chary.noise import Deviate, Source, normals

# A deviate that is refined has 64 bits more, so the root of the sum of squares is worth as many.
ROOT_BITS = 64
# Half a cell is then 1/2000 of the noise at most: accuracy only, for the grid costs no privacy.
FINENESS = 1024


def grid_for(scale: Fraction) -> Fraction:
    """A power of two, at most a thousandth of the scale and at least half of that.

    >>> grid_for(Fraction(3)), grid_for(Fraction(1, 4))
    (Fraction(1, 512), Fraction(1, 4096))
    """
    exponent = scale.numerator.bit_length() - scale.denominator.bit_length()
    power = Fraction(2) ** exponent
    return (power if power <= scale else power / 2) / FINENESS


def cells(center: Sequence[Fraction], scale: Fraction, grid: Fraction, source: Source) -> list[int]:
    """`floor((center + b) / grid)` in each coordinate, for one draw b with density proportional to `exp(-|b|/scale)`.

    Guarantee: epsilon-DP when the center is a function of the data that moves by at most `epsilon * scale` (L2). The
    real vector `center + b` is epsilon-DP, because the density changes by a factor of `exp(|shift| / scale)` at most;
    the cells are a function of it, so the grid costs nothing, however coarse. No rounding takes part: a cell is
    published when all real numbers that begin with the bits drawn so far lie in it, and else more bits are drawn.

    With d coordinates, `b = scale |u| z` for d + 1 normal deviates u and d others z: exp(-r) is the mixture of the
    densities of `N(0, v I)` over `v ~ chi-squared` of d + 1 degrees of freedom, since
    `exp(-r) = integral of exp(-r^2/(2v)) v^(-1/2) exp(-v/2) dv / sqrt(2 pi)` and `v^(-1/2) = v^(-d/2) v^((d+1)/2 - 1)`.

    >>> from chary.noise import OperatingSystem
    >>> cells([Fraction(1, 3)] * 4, Fraction(1, 2**80), Fraction(1, 8), OperatingSystem())
    [2, 2, 2, 2]
    """
    drawn = normals(source, 2 * len(center) + 1)
    radial = [drawn.one(place) for place in range(len(center) + 1)]
    bounds, bits, found = _length(radial, ROOT_BITS), ROOT_BITS, []
    for place, start in enumerate(center, start=len(center) + 1):
        z = drawn.one(place)
        while (cell := _cell(start / grid, scale / grid, bounds, z)) is None:
            z, radial, bits = z.refined(source), [u.refined(source) for u in radial], bits + ROOT_BITS
            bounds = _length(radial, bits)
        found.append(cell)
    return found


def gaussian_cells(center: Sequence[Fraction], sigma: Fraction, grid: Fraction, source: Source) -> list[int]:
    """`floor((center + sigma z) / grid)` in each coordinate, for standard normal deviates z.

    Guarantee: rho-zCDP when the center is a function of the data that moves by at most `sigma sqrt(2 rho)` (L2). The
    real vector is, by the Gaussian mechanism (Bun, Steinke 2016, Lemma 2.5), and the cells are a function of it, exact
    in the same way as those of `cells`.

    >>> from chary.noise import OperatingSystem
    >>> gaussian_cells([Fraction(1, 3)] * 4, Fraction(1, 2**80), Fraction(1, 8), OperatingSystem())
    [2, 2, 2, 2]
    """
    drawn, found = normals(source, len(center)), []
    for place, start in enumerate(center):
        z = drawn.one(place)
        while (cell := _cell(start / grid, sigma / grid, (Fraction(1), Fraction(1)), z)) is None:
            z = z.refined(source)
        found.append(cell)
    return found


def _cell(start: Fraction, unit: Fraction, length: tuple[Fraction, Fraction], z: Deviate) -> int | None:
    """The cell of `start + unit * length * z`, None while two are possible."""
    low, high = _ends(z)
    cell = floor(start + unit * low * length[low < 0])
    return cell if start + unit * high * length[high > 0] < cell + 1 else None


def _length(radial: Sequence[Deviate], bits: int) -> tuple[Fraction, Fraction]:
    """Bounds on the length of a vector of deviates."""
    squares = [sorted(end**2 for end in _ends(u)) for u in radial]
    least, most = (sum(side, Fraction(0)) for side in zip(*squares, strict=True))
    return root_bounds(least, bits)[0], root_bounds(most, bits)[1]


def _ends(z: Deviate) -> tuple[Fraction, Fraction]:
    """The least and the largest number that begins like this; both have the same sign."""
    unit = 1 << z.bits
    return Fraction(z.floor, unit), Fraction(z.floor + 1, unit)
