"""Above threshold with Gaussian noise at a Renyi order: what opening a run costs, and what its hit costs (ours).

**A bound without a stopping time.** Values move by at most D. Write the bar under the one neighbour as u = v - D, v ~
N(r + D, s_T), and under the other as v ~ N(r, s_T). At the same v each miss is then no likelier under the first (m' <=
m), and a hit has h = Phi(y), h' <= Phi(y + k) with y = (x - v)/s_Q and k = 2D/s_Q. Given v the moment of order a of
all that may follow is at most W, if a step keeps it: `B W + A <= W`, A = h'^a h^(1-a), B = m'^a m^(1-a). So
`W = A/(1 - B)` of the worst step. That is rising in h' (its slope has the sign of 1 - (m'/m)^(a-1)), and falling in y:
the slope of its logarithm is at most 0 if `((1 - q^(a-1))/(a-1)) / ((1 - q^a)/a) <= r(y)/r(y + k)`, q = m'/m and
r = phi/Phi. The left side falls in a, to `L/(1 - e^-L)` at a = 1, L = -ln q; and `ln(r(y)/r(y + k))` grows in k by
`w + r(w)` (w = y + k) where the logarithm of the left side grows by `r(-w) (1/L - 1/(e^L - 1))`, at most half of r(-w).
And `w + r(w) >= r(-w)/2`: for w >= 0 since r(-w) <= (w + sqrt(w^2 + 4))/2, for w = -x < 0 since
r(w) >= (3x + sqrt(x^2 + 8))/4. So W(v) is that of x = low.

By Hoelder the moment of the answers is at most that of answers and v together: at most
`e^(a(a-1) D^2/(2 s_T^2)) E W(v)`, v ~ N(r + a D, s_T). **A part for the hit.** If a hit is charged c, all that may
follow at v is at most max(1, W e^-c), so the opening is charged the logarithm of its mean instead. Any number of
queries may come, adaptively, and other calls between them: given v their likelihood ratios multiply, and the bound on
what may follow is a supermartingale.

Sums are upper bounds: W rises in v, so each cell of v counts with its right end.
"""

import math
from fractions import Fraction
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from chary.accounting.gaussian.normal_integrals import LogCdf
from chary.numbers import Number, exact, positive

Floats = NDArray[np.float64]
# A cell is 1/1000 of a deviation, so W - 1 is too large by some 0.2 % at most; the tails beyond 10 are below 1e-22.
_CELLS: Final = 1000
_TAIL: Final = 10.0
# Above it the Taylor series of `_bent` would need more terms; at it the direct form has lost three digits of 16.
_SMALL: Final = 1e-2
# Roundings of some 1e-12 in differences of the distribution function, and of 1e-11 in `_bent`.
_MARGIN: Final = 1e-9
# No budget pays a hit of e^50, and sums of W stay far from overflow.
_MOST: Final = 50.0
# Beyond it the query noise is so small beside the bar's that cells would be too coarse for it.
_STEEPEST: Final = 20.0
# Beyond it squares are no floats any more, and no budget pays for what one of these ratios is then.
_APART: Final = 10**100
# Below -30 a hit is so unlikely that 1 - B is h (1 + a (h'/h - 1)) to all digits.
_FAR: Final = -30.0


class RunMoments(NamedTuple):
    """Log-moments at one order: `opening` a run, and its `hit`; or `whole`, all of it when it opens."""

    opening: float
    hit: float
    whole: float


def run_moments_up(
    order: Number,
    *,
    sensitivity: Number,
    threshold_noise: Number,
    query_noise: Number,
    threshold: Number,
    low: Number = 0,
) -> RunMoments | None:
    """What a run of above threshold costs at this Renyi order (its log-moment, `(order - 1) D`), rounded up.

    Queries are at least `low`, one unit moves each by at most `sensitivity`; any number of them, adaptively chosen.
    Misses are free. None where the noises are too small, or too far apart, for a price that any budget could pay.

    >>> noise = dict(threshold_noise="0.1", query_noise="0.1733", threshold="0.5")
    >>> run_moments_up(18, sensitivity="0.001", **noise)
    RunMoments(opening=0.0321..., hit=0.1569..., whole=0.1722...)
    """
    moved, bar = positive(sensitivity, "sensitivity"), positive(threshold_noise, "threshold_noise")
    scale = positive(query_noise, "query_noise")
    ratios = moved / bar, 2 * moved / scale, bar / scale, (exact(low, "low") - exact(threshold, "threshold")) / scale
    if max(map(abs, ratios)) > _APART:
        return None
    a, (ratio, shift, slope, above) = float(exact(order, "order")), map(float, ratios)
    return _moments(a, ratio, shift, slope, above - a * shift / 2)


@lru_cache(maxsize=256)
def _moments(a: float, ratio: float, shift: float, slope: float, start: float) -> RunMoments | None:
    """`start` is the least y at the mean of v, which falls by `slope` for each deviation of v."""
    # ln W is at most a times the change of ln Phi, whose slope is below |y| + 1: it rises by `pull` for each deviation.
    pull = a * shift * slope
    most = a * shift * (1 + shift + max(-start, 0.0)) + pull**2 / 2
    if slope * max(1.0, a * shift) > _STEEPEST or most > _MOST:
        return None
    ends = np.arange(-_TAIL, _TAIL + pull + 1 / _CELLS, 1 / _CELLS)
    chances, excess = _chances(ends), _excess(start - slope * ends, shift, a)
    tail = math.exp(most) * scipy.special.ndtr(pull - ends[-1])
    mean = (float(chances @ excess) + tail) * (1 + _MARGIN)
    gaussian, hit = a * (a - 1) * ratio**2 / 2, math.log1p(mean)
    above = np.maximum(0, np.expm1(np.log1p(excess) - hit))
    opening = gaussian + math.log1p((float(chances @ above) + tail) * (1 + _MARGIN))
    up = 1 + _MARGIN
    return RunMoments(opening * up, hit * up, (gaussian + hit) * up)


def _chances(ends: Floats) -> Floats:
    """The chance of each cell that ends there; the first one has no beginning."""
    below, above = scipy.special.ndtr(ends), scipy.special.ndtr(-ends)
    inner = np.where(ends[:-1] < 0, np.diff(below), -np.diff(above))
    return np.concatenate([below[:1], np.maximum(inner, 0)])


def _excess(y: Floats, shift: float, a: float) -> Floats:
    """`A/(1 - B) - 1` at y. First orders of A + B - 1 cancel: `h f(ln h'/h) + m f(ln m'/m)`, f as in `_bent`."""
    hits, misses = LogCdf(y), LogCdf(-y)
    rise, fall = hits.change(np.full_like(y, shift)), misses.change(np.full_like(y, -shift))
    # All is divided by h; where h is too small for that, only its first order is left.
    far = y < _FAR
    hit = np.where(far, 0, _log_cdf(hits))
    bent = _bent(rise, a) + np.where(far, 0, np.exp(_log_cdf(misses) - hit) * _bent(fall, a))
    ends = np.where(far, 1 + a * np.expm1(rise), -np.expm1(_log_cdf(misses) + a * fall) * np.exp(-hit))
    return np.asarray(bent / ends)


def _log_cdf(cdf: LogCdf) -> Floats:
    return np.asarray(cdf.scaled - cdf.below * cdf.below / 2)


def _bent(x: Floats, a: float) -> Floats:
    """`e^(a x) - 1 - a (e^x - 1)`, which is near `a (a - 1) x^2/2` for small x."""
    series, power, grown = np.zeros_like(x), np.ones_like(x), np.ones_like(x)
    for place in range(1, 9):
        power, grown = power * x / place, grown * a
        series = series + (grown - a) * power
    return np.where(np.abs(a * x) < _SMALL, series, np.expm1(a * x) - a * np.expm1(x))


def whole_runs(capacity: Fraction, moments: RunMoments) -> int:
    """How many runs, each charged whole, fit into a log-moment."""
    return int(capacity / Fraction(moments.whole))
