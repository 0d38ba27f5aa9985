"""How likely noisy queries stay below a noisy bar, and how much likelier once they move: the integrals of theory 5.

With z standard normal, `M = E[A B]`, `A = Phi(slope z + offset)^k`, `B = Phi(last - slope z)` (or 1): k noisy queries
stay below a noisy bar and the next one does not. Wanted is `ln M' - ln M` when a shift is added to offset and last,
with a small *relative* error also where it is 1e-200. So no two masses are subtracted:
`M' - M = E[(A' - A) B'] + E[A (B' - B)]`, and both differences under the integrals are computed as such.

All three integrands are log-concave in z (Prekopa) and fall at least as fast as exp(-z^2/2) from their modes, whose
place is known within bounds. An outline from a few operations finds where any integrand matters. The trapezoidal rule
converges geometrically there; its nodes are doubled until the three sums over every third node agree to 1e-5, which
leaves an error of about the cube of that. Logarithms are taken relative to the likeliest node, so no digits are lost.

Nodes are uniform in t, `z = center + width sinh t`, so that a bar with much more noise than the queries has a fine grid
where they cross it and a coarse one elsewhere.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import scipy

from chary.accounting.gaussian.normal_integrals import Floats, LogCdf
from chary.accounting.gaussian.trapezoid import LOWEST, Outline, Sums, evenly
from chary.errors import InvalidParameter

# exp(-9.6**2/2) is 1e-20: so far from its mode an integrand adds less than a thousandth of rounding.
_TAIL: Final = 9.6
# Within 6 query noises of the crossing the nodes are nearly evenly spaced. 1 - Phi(8) is 6e-16: beyond 8 a power of Phi
# is flat to a float, for k queries from 8 + sqrt(2 ln k) on.
_CORE: Final = 6.0
_FLAT: Final = 8.0
# Enough nodes for an outline, which the search narrows down until integrands fill an eighth of it.
_SCAN: Final = 96
# At 0.35 deviations a node the trapezoidal rule errs by exp(-2 pi^2/0.35^2) for a normal density; too coarse a start
# would only cost a doubling, since the sums decide when it is enough.
_FINEST: Final = 0.35
# A gain below exp(-660) is raised to it, before sums could turn denormal (exp(-708)) and lose digits unnoticed.
_SMALLEST: Final = -660.0
# Changes known to an absolute 1e-16 are multiplied by k: up to k tail = 100 that is 1e-14; beyond it the slower form,
# whose error is relative, is taken.
_MODERATE: Final = 100.0
# Beyond the 660 at which gains are raised anyway: an integral so far below the first one adds nothing that is told.
_UNSEEN: Final = 700.0
_SIGNS: Final = np.array([[1.0], [-1.0]])
# Which of A and B is taken after the move, for the three integrands in turn: A B, (A' - A) B', A (B' - B).
_AFTER: Final[Floats] = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
# Nodes to begin with, and where to give up: 2**23 numbers for each integrand are 64 megabytes.
_START: Final = 96
_MOST: Final = 2**19
_MOST_TERMS: Final = 2**23


@dataclass(frozen=True)
class Crossing:
    """k noisy queries below a noisy bar, then (unless `last` is None) one above it; all in units of the query noise.

    `slope` is the noise of the bar, `offset` and `-last` its distances from the queries, and `shift` moves both.
    """

    slope: float
    offset: float
    shift: float
    last: float | None = None

    def gains(self, counts: Floats) -> Floats:
        """`ln M' - ln M` for each k in `counts`, which rise; a gain below 1e-286 comes out as that.

        The relative error is below 2e-13. All counts share their nodes, so they should be of similar size.
        """
        with np.errstate(divide="ignore"):
            logs = self._logs(counts, [0, 1] if self.last is None else [0, 1, 2], LOWEST)
        risen = np.logaddexp.reduce(logs[1:]) - logs[0]
        return np.asarray(np.logaddexp(0, np.maximum(risen, _SMALLEST)))

    def _logs(self, counts: Floats, chosen: list[int], floor: float) -> Floats:
        """Logarithms of the chosen integrals, a row each; one by one where no common nodes suit them.

        Each may be off by a constant that they share; what lies below the floor is not integrated.
        """
        outline = self._outlined(counts[:: max(len(counts) - 1, 1)], chosen)
        if outline.scattered and len(chosen) > 1:
            first = self._logs(counts, chosen[:1], floor)
            others = [self._logs(counts, [which], float(first.min()) - _UNSEEN) for which in chosen[1:]]
            return np.concatenate([first, *others])
        if outline.peak < floor:
            return np.full((1, len(counts)), -np.inf)
        found = self._integrated(counts, chosen, outline)
        return found if len(chosen) > 1 else found + self._left_out(outline.anchor, counts, _moves(chosen))

    def _integrated(self, counts: Floats, chosen: list[int], outline: Outline) -> Floats:
        anchor, low, high = outline.anchor, outline.low - outline.anchor, outline.high - outline.anchor
        nodes = 3 * math.ceil(max(self._least_nodes(outline.low, outline.high, float(counts[-1])), _START) / 3)
        while True:
            if nodes > _MOST or nodes * len(counts) > _MOST_TERMS:
                raise InvalidParameter("the range and the noises are too far apart for double precision")
            masses = Sums.of(self._integrands(counts, anchor, evenly(low, high, nodes), _moves(chosen))[chosen])
            if masses.settled:
                return masses.logs + math.log((high - low) / (nodes - 1))
            margin = (high - low) / 16
            nodes, low, high = 2 * nodes, low - margin, high + margin

    def _outlined(self, counts: Floats, chosen: list[int]) -> Outline:
        low, high = self._interval(float(counts[-1]))
        while True:
            grid = evenly(low, high, _SCAN)
            found = Outline.of(grid, self._outlines(counts[:, np.newaxis], grid)[chosen])
            if found.high - found.low > (high - low) / 8:
                return found
            low, high = found.low, found.high

    def _starts(self, z: float, moves: Floats) -> Floats:
        """The arguments in A and B at z, those that move counted after the move."""
        starts = [self.slope * z + self.offset] + ([] if self.last is None else [self.last - self.slope * z])
        return np.array(starts) + self.shift * moves[: len(starts)]

    def _left_out(self, t: float, counts: Floats, moves: Floats) -> Floats:
        """The constant that `_integrands` leaves out."""
        z = self._place(t)
        at = scipy.special.log_ndtr(self._starts(z, moves))
        return np.asarray(counts * at[0] + at[1:].sum() - z * z / 2)

    def _outlines(self, counts: Floats, grid: Floats) -> Floats:
        """What `_integrands` returns, to within a few units, from a few operations."""
        z = self._center + self._width * np.sinh(grid)
        x = np.array([self.slope * z + self.offset] + ([] if self.last is None else [self.last - self.slope * z]))
        before, after = scipy.special.log_ndtr(x), scipy.special.log_ndtr(x + self.shift)
        rise = math.log(self.shift) - x * x / 2 - before
        stay, moved = counts * before[0], counts * after[0] + np.minimum(rise[0] + np.log(counts), 0)
        terms = [stay, moved] if self.last is None else [stay + before[1], moved + after[1], stay + after[1] + rise[1]]
        return np.stack(terms) - z * z / 2

    def _integrands(self, counts: Floats, anchor: float, grid: Floats, moves: Floats) -> Floats:
        """Logarithms of `A B`, `(A' - A) B'` and `A (B' - B)` by count and node, relative to the factors at the anchor.

        `grid` is t - anchor; `moves` tells whether A and B at the anchor are taken after the move.
        """
        z = self._place(anchor)
        moved = 2 * self._width * np.cosh(anchor + grid / 2) * np.sinh(grid / 2)
        density = np.log(np.cosh(anchor + grid)) - moved * (z + moved / 2)
        before, gain, after = self._factors(self._starts(z, moves), moved, moves, float(counts[-1]))
        terms = np.empty((2 if self.last is None else 3, len(counts), len(grid)))
        np.multiply.outer(counts, before[0], out=terms[0])
        np.multiply.outer(counts, -gain[0], out=terms[1])
        _log_risen(terms[1])
        terms[1] += np.multiply.outer(counts, after[0])
        if self.last is not None:
            crossed = density + after[1]
            np.add(terms[0], crossed + _log_risen(-gain[1]), out=terms[2])
            terms[1] += crossed
            density += before[1]
        else:
            terms[1] += density
        terms[0] += density
        return terms

    def _factors(self, starts: Floats, moved: Floats, moves: Floats, most: float) -> tuple[Floats, Floats, Floats]:
        """`ln Phi` in A and B relative to its value at the start; what the shift adds to it; the sum of both."""
        rows = len(starts)
        start, shifts = LogCdf(starts[:, np.newaxis]), self.shift * moves[:rows, np.newaxis]
        change = self.slope * _SIGNS[:rows] * moved - shifts
        reached = LogCdf(start.x + change)
        gain = reached.change(np.array([[self.shift]]))
        if most * start.tail[0, 0] > _MODERATE:
            return start.change(change, reached), gain, start.change(change + self.shift)
        before = start.change_to(reached, change)
        if most * gain.max() < _MODERATE:
            return before, gain, before + gain
        return before, gain, start.change_to(LogCdf(reached.x + self.shift), change + self.shift)

    @cached_property
    def _width(self) -> float:
        return _CORE / self.slope

    @cached_property
    def _center(self) -> float:
        """Where a query crosses the bar, or the end of the standard normal law nearest to it."""
        return min(max(-self.offset / self.slope, -_TAIL), _TAIL)

    def _place(self, t: float) -> float:
        return self._center + self._width * math.sinh(t)

    def _time(self, z: float) -> float:
        return math.asinh((z - self._center) / self._width)

    def _least_nodes(self, low: float, high: float, most: float) -> float:
        """The nodes that resolve `Phi^k` wherever its argument is moderate; it varies over 1/sqrt(2 ln k) there."""
        overlaps = [(max(low, first), min(high, last)) for first, last in self._bends]
        widest = max((math.cosh(max(-first, last)) for first, last in overlaps if first < last), default=0)
        return _CORE * widest * (high - low) * math.sqrt(1 + 2 * math.log1p(most)) / _FINEST

    @cached_property
    def _bends(self) -> list[tuple[float, float]]:
        """The intervals of t in which an argument of Phi, before or after the move, is at most 8."""
        places = [-self.offset, -self.offset - self.shift]
        if self.last is not None:
            places += [self.last, self.last + self.shift]
        return [(self._time((at - _FLAT) / self.slope), self._time((at + _FLAT) / self.slope)) for at in places]

    def _interval(self, most: float) -> tuple[float, float]:
        """Bounds in t beyond which no integrand matters, for counts up to `most`."""
        low, high = self._modes(most)
        return self._time(low - _TAIL), self._time(high + _TAIL)

    def _modes(self, most: float) -> tuple[float, float]:
        """Bounds of all modes, where z equals the slope of the logarithm of what multiplies its density.

        A power of Phi pulls at most as hard as at z = 0, and not beyond the crossing; a difference of two pulls the
        other way, at most by the distance from the crossing.
        """
        flat = _FLAT + math.sqrt(2 * math.log1p(most))
        left, right = self.slope * max(self.offset + self.shift, 0), self.slope * most * _hazard_up(self.offset)
        first, last = -(self.offset + self.shift) / self.slope, (flat - self.offset) / self.slope
        if self.last is not None:
            left, right = left + self.slope * _hazard_up(self.last), right + self.slope * max(self.last + self.shift, 0)
            first = min(first, (self.last - flat) / self.slope)
            last = max(last, (self.last + self.shift) / self.slope)
        return max(-left, min(0, first)), min(right, max(0, last))


def _moves(chosen: list[int]) -> Floats:
    """Which factors of the integrals are after the move."""
    return np.asarray(_AFTER[chosen[0] if len(chosen) == 1 else 0])


def _log_risen(loss: Floats) -> Floats:
    """The loss, replaced in place by `ln(1 - exp(loss))`, minus infinity at 0."""
    np.expm1(loss, out=loss)
    np.negative(loss, out=loss)
    np.log(loss, out=loss)
    return loss


def _hazard_up(x: float) -> float:
    """A bound on the slope of `ln Phi` at x."""
    return math.sqrt(2 / math.pi) * math.exp(-x * x / 2) if x >= 0 else (math.sqrt(x * x + 4) - x) / 2
