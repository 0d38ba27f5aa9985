"""Privacy losses of selections by Gaussian noise: the noisy maximum, above threshold, halted runs."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Final

import numpy as np
import scipy
from numpy.typing import NDArray

from chary.accounting.numerics import LOWEST, Floats, LogCdf, Outline, Sums, doubled, evenly, geometric_mean, least
from chary.errors import BudgetExceeded, InvalidParameter
from chary.numbers import Number, checked, exact, plain, positive, probability, whole

# How likely noisy queries stay below a noisy threshold, and how much likelier once they move: the integrals of theory
# 5.
#
# With z standard normal, `M = E[A B]`, `A = Phi(slope z + offset)^k`, `B = Phi(last - slope z)` (or 1): k noisy queries
# stay below a noisy threshold and the next one does not. Wanted is `ln M' - ln M` when a shift is added to offset and
# last, with a small *relative* error also where it is 1e-200. So no two masses are subtracted: `M' - M = E[(A' - A) B']
# + E[A (B' - B)]`, and both differences under the integrals are computed as such.
#
# All three integrands are log-concave in z (Prekopa) and fall at least as fast as exp(-z^2/2) from their modes, whose
# place is known within bounds. An outline from a few operations finds where any integrand matters. The trapezoidal rule
# converges geometrically there; its nodes are doubled until the three sums over every third node agree to 1e-5, which
# leaves an error of about the cube of that. Logarithms are taken relative to the likeliest node, so no digits are lost.
#
# Nodes are uniform in t, `z = center + width sinh t`, so that a threshold with much more noise than the queries has a
# fine grid where they cross it and a coarse one elsewhere.

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
    """k noisy queries below a noisy threshold, then one above it (unless `last` is None); in units of the query noise.

    `slope` is the noise of the threshold, `offset` and `-last` its distances from the queries, and `shift` moves both.
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

        Each may be off by a constant that they share; what lies below the `floor` is not integrated.
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

        `grid` is t - anchor; `moves` says whether A and B at the anchor are taken after the move.
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
        """`ln Phi` in A and B relative to its value at the start, what the shift adds to it, and the sum of both."""
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
        """Where a query crosses the threshold, or the end of the standard normal distribution nearest to it."""
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

        A power of Phi pulls at most as hard as at z = 0, and not beyond the crossing. A difference of two pulls the
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


# Selection with Gaussian noise ([GAUSS] Theorems 8 and 10; chapter 2): pure losses of queries with a bounded range.
#
# Queries lie in [low, high], one unit moves each by at most D, x' and x are their values on two neighbours. Noisy max
# picks i with probability `E prod_j Phi(z + (x_i - x_j)/s)`; above threshold halts at t with probability `E prod_(j<t)
# Phi((u - x_j)/s_Q) Phi((x_t - u)/s_Q)`, u = r + s_T z, and still runs with the first product alone.
#
# **The worst pair ([GAUSS]; of a run that still runs this work).** Lower every x_j, j < t, by d and raise x_t by d;
# write u = v - d. Given the outcome, v has the density `phi((v - d - r)/s_T) prod Phi((v - x_j)/s_Q) Phi((x_t + 2d -
# v)/s_Q)`; its likelihood ratio in v rises with d. `-(d/dx_k) ln P` is the mean of `(phi/Phi)((v - x_k)/s_Q)/s_Q`,
# which falls in v, so it falls as d grows: how much the move adds to ln P rises in each x_k, and by the same argument
# falls in x_t. It is largest at x_k = high, x_t = low and d = D, which two neighbours attain. Likewise for noisy max,
# and both losses rise with t; a run that halts at t + 1 lost no less than one that still runs after t.
#
# A sensitivity above the range is the range. All results are upper bounds in float64: the error of the integrals is
# below
# 2e-13, and 7e-13 is added.

# The integrals err by 2e-13 where elementary functions are rounded well, and by 5e-13 in the steepest corner where they
# err by two units in the last place.
_MARGIN: Final = 7e-13
# Noise is promised to 1e-9: bisection stops at a tenth of that, and returns the end that keeps the budget.
_PRECISION: Final = 1e-10
_ROOT_3: Final = math.sqrt(3)
# Counts that share their nodes: more would save outlines and take larger arrays.
_ROWS: Final = 512
# Farther apart, no common nodes would resolve both noises; and a smaller shift is below the rounding of its argument.
_WIDEST: Final = 10**6
_SMALLEST_SHIFT: Final = 1e-15
# A float counts them exactly, with room for the factors it meets; no run is as long.
_MOST_STEPS: Final = 10**12


def noisy_max_epsilon_up(queries: int, *, sensitivity: Number, noise: Number, spread: Number = 1) -> float:
    """The epsilon for which the place of the largest of noisy queries is epsilon-DP (`Pure`).

    Each query lies in a public interval of length `spread` (the same for all), and one unit moves it by at most
    `sensitivity`. It gets Gaussian noise of standard deviation `noise`. Only the place of the largest is published. Two
    neighbours attain it.

    >>> noisy_max_epsilon_up(1000, sensitivity=0.001, noise=0.1)
    0.2530...
    >>> noisy_max_epsilon_up(1, sensitivity=1, noise=1)
    0.0
    """
    others, width = whole(queries, "queries") - 1, positive(spread, "spread")
    scale, moved = positive(noise, "noise"), min(positive(sensitivity, "sensitivity"), width)
    if not others:
        return 0.0
    crossing = Crossing(1.0, *_moderate({"spread": -width / scale, "sensitivity": 2 * moved / scale}))
    return float(_up(crossing, np.array([_steps(others)]))[0])


def halted_epsilon_up(
    steps: int,
    *,
    sensitivity: Number,
    threshold_noise: Number,
    query_noise: Number,
    threshold: Number,
    low: Number = 0,
    high: Number = 1,
) -> float:
    """What a run of above threshold with Gaussian noise lost that halted at query number `steps` (`ExPost`).

    The outcome "halted at `steps`" is at most e^epsilon likelier on one neighbour than on the other. Queries lie in
    [low, high] and may depend on all that was published; one unit moves each by at most `sensitivity`. The noise of the
    public `threshold` is drawn once for the run. Two neighbours attain it.

    >>> halted_epsilon_up(10, sensitivity=0.001, threshold_noise=0.1, query_noise=0.1 * 3**0.5, threshold=0.5)
    0.0981...
    """
    run = _halting(sensitivity, threshold_noise, query_noise, threshold, low, high)
    return float(_up(run, np.array([_steps(whole(steps, "steps") - 1)]))[0])


def running_epsilon_up(
    steps: int,
    *,
    sensitivity: Number,
    threshold_noise: Number,
    query_noise: Number,
    threshold: Number,
    low: Number = 0,
    high: Number = 1,
) -> float:
    """What a run of above threshold lost that did not halt at any of `steps` queries (`ExPost`).

    The arguments are those of `halted_epsilon_up`.

    >>> running_epsilon_up(10, sensitivity=0.001, threshold_noise=0.1, query_noise=0.1 * 3**0.5, threshold=0.5)
    0.0489...
    >>> running_epsilon_up(0, sensitivity=0.001, threshold_noise=0.1, query_noise=0.2, threshold=0.5)
    0.0
    """
    run = _running(_halting(sensitivity, threshold_noise, query_noise, threshold, low, high))
    count = whole(steps, "steps", least=0)
    return float(_up(run, np.array([_steps(count)]))[0]) if count else 0.0


def above_threshold_epsilons_up(
    most_steps: int,
    *,
    sensitivity: Number,
    threshold_noise: Number,
    query_noise: Number,
    threshold: Number,
    low: Number = 0,
    high: Number = 1,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """`halted_epsilon_up` and `running_epsilon_up` for 1 to `most_steps` queries, each an array of that length.

    >>> noise = dict(threshold_noise=0.1, query_noise=0.1 * 3**0.5)
    >>> halted, running = above_threshold_epsilons_up(1000, sensitivity=0.001, **noise, threshold=0.5)
    >>> halted[9], running[9]
    (np.float64(0.0981...), np.float64(0.0489...))
    """
    run = _halting(sensitivity, threshold_noise, query_noise, threshold, low, high)
    most = whole(most_steps, "most_steps")
    _steps(most)
    return _all_up(run, 0, most - 1), _all_up(_running(run), 1, most)


def noisy_max_noise(epsilon: Number, queries: int, *, sensitivity: Number, spread: Number = 1) -> float:
    """The least noise, to 1e-9, for which `noisy_max_epsilon_up` is at most epsilon; queries, at least 2.

    >>> noise = noisy_max_noise(1, 1000, sensitivity=0.001)
    >>> noise, noisy_max_epsilon_up(1000, sensitivity=0.001, noise=noise) <= 1
    (0.0471..., True)
    """
    whole(queries, "queries", least=2)

    def loss(noise: float) -> float:
        return noisy_max_epsilon_up(queries, sensitivity=sensitivity, noise=noise, spread=spread)

    return _least(loss, epsilon, float(positive(spread, "spread")))


def above_threshold_noise(
    epsilon: Number, steps: int, *, sensitivity: Number, threshold: Number, low: Number = 0, high: Number = 1
) -> tuple[float, float]:
    """Threshold noise, and query noise sqrt(3) times as much: a run of at most `steps` queries is epsilon-DP.

    The run ends after `steps` queries if it did not halt before, so this is a guarantee beforehand (`Pure`): the larger
    of both losses at `steps`. The noise is the least one to 1e-9.

    >>> above_threshold_noise(1, 100, sensitivity=0.001, threshold=0.5)
    (0.0351..., 0.0608...)
    """

    def loss(noise: float) -> float:
        run = _halting(sensitivity, noise, _ROOT_3 * noise, threshold, low, high)
        count = _steps(whole(steps, "steps"))
        return float(max(_up(run, np.array([count - 1]))[0], _up(_running(run), np.array([count]))[0]))

    found = _least(loss, epsilon, float(exact(high, "high") - exact(low, "low")))
    return found, _ROOT_3 * found


def _least(loss: Callable[[float], float], epsilon: Number, start: float) -> float:
    """The least noise, to 1e-9, whose loss is at most epsilon; the loss falls in the noise."""
    budget = float(positive(epsilon, "epsilon"))

    def kept(noise: float) -> bool:
        return loss(noise) <= budget

    _, high = doubled(kept, 0.0, start)
    high, low = doubled(lambda noise: not kept(noise), high, high / 2, times=0.5)
    return least(kept, low, high, middle=geometric_mean, ratio=1 + _PRECISION)


def _halting(
    sensitivity: Number, threshold_noise: Number, query_noise: Number, threshold: Number, low: Number, high: Number
) -> Crossing:
    """The run in units of the query noise."""
    bar_scale, scale = positive(threshold_noise, "threshold_noise"), positive(query_noise, "query_noise")
    bar, bottom, top = exact(threshold, "threshold"), exact(low, "low"), exact(high, "high")
    if bottom >= top:
        raise InvalidParameter(f"low must be below high, such as low=0, high=1, got {plain(bottom)} and {plain(top)}")
    moved = min(positive(sensitivity, "sensitivity"), top - bottom)
    slope, offset, shift, last = _moderate(
        {
            "threshold_noise": bar_scale / scale,
            "threshold - high": (bar - top) / scale,
            "sensitivity": moved / scale,
            "low - threshold": (bottom - bar) / scale,
        }
    )
    return Crossing(slope, offset, shift, last)


def _running(run: Crossing) -> Crossing:
    return Crossing(run.slope, run.offset, run.shift)


def _moderate(ratios: dict[str, Fraction]) -> list[float]:
    for name, ratio in ratios.items():  # before they are floats: a quotient may lie beyond all of them
        if abs(ratio) > _WIDEST or (name == "threshold_noise" and ratio * _WIDEST < 1):
            raise InvalidParameter(f"{name} must be within a factor of 10**6 of the noise of a query")
    if ratios["sensitivity"] < _SMALLEST_SHIFT:
        raise InvalidParameter("sensitivity must be at least 1e-15 of the noise of a query")
    return [float(ratio) for ratio in ratios.values()]


def _steps(count: int) -> float:
    if count > _MOST_STEPS:
        raise InvalidParameter("at most 10**12 queries are supported")
    return float(count)


def _up(crossing: Crossing, counts: NDArray[np.float64]) -> NDArray[np.float64]:
    return crossing.gains(counts) * (1 + _MARGIN)


def _all_up(crossing: Crossing, first: int, last: int) -> NDArray[np.float64]:
    blocks = [_up(crossing, np.arange(start, end, dtype=float)) for start, end in _blocks(first, last + 1)]
    return np.concatenate(blocks)


def _blocks(first: int, end: int) -> Iterator[tuple[int, int]]:
    """Counts of similar size, which can share nodes."""
    while first < end:
        after = min(4 * first + 2, first + _ROWS, end)
        yield first, after
        first = after


# What bounds runs by the moment of their stopping time, and the filter of their losses (theory chapters 1 and 2).

# Logarithms of the order minus 1, from 1e-4 to 9e6; every order gives a bound.
_ORDERS: Final = (-9.0, 16.0)
# The weight of one of the 24,001 nodes on [-60, 60], as a logarithm; the density falls below floats at both ends.
_STEP: Final = math.log(0.005 / math.sqrt(2 * math.pi))


def nonnegative_epsilon(
    *, sensitivity: Number, threshold_noise: Number, query_noise: Number, threshold: Number, delta: Number
) -> float:
    """The bound for queries that are never negative with the moment itself (this work); s_Q is at least sqrt(3) s_T.

    `D_a <= (2a - 1) D^2/(2 s_T^2) + 2 a D^2/s_Q^2 + ln(E Phi(-(r + s_T z)/s_Q)^-2) / (2 (a - 1))`. Proof: moving the
    threshold along with the neighbours leaves the misses likelier and the hit at most 2D away. So the moment of order a
    is at most `e^(2a(a-1)D^2/s_Q^2) E[(f/f')^(a-1) K(z)]`. Here f and f' are the densities of the threshold and the
    moved one. K is the mean stopping time given it, at most 1/Phi(-(r + s_T z)/s_Q). Cauchy and Schwarz give the rest.

    >>> noise = dict(threshold_noise=0.1, query_noise=0.18)
    >>> nonnegative_epsilon(sensitivity=0.001, **noise, threshold=0.1, delta=1e-6)
    0.0788...
    """
    bar, query = noise_ratios(sensitivity, threshold_noise, query_noise)
    check_noises(bar, query)
    scale = positive(threshold_noise, "threshold_noise")
    ratio, distance = float(positive(query_noise, "query_noise") / scale), float(exact(threshold, "threshold") / scale)
    z = np.linspace(-60, 60, 24001) + 2 * max(distance, 0) / (ratio**2 - 2)
    moment = float(np.logaddexp.reduce(-2 * scipy.special.log_ndtr(-(distance + z) / ratio) - z * z / 2)) + _STEP
    return best_order(lambda less: (0.5 + less) * bar + (1 + less) * 2 * query + moment / (2 * less), delta)


def whitehouse_filter_epsilon(epsilons: Sequence[Number], *, delta: Number) -> float:
    """Total epsilon of the (epsilon, delta) filter of Rogers, Whitehouse and others for adaptive epsilon_i-DP calls.

    `sqrt(2 ln(1/delta) sum e_i^2) + sum e_i (exp(e_i) - 1)/(exp(e_i) + 1)`; deltas of the calls come on top of `delta`.

    >>> whitehouse_filter_epsilon([0.1] * 50, delta=1e-6)
    3.96...
    """
    sizes = np.array([float(positive(epsilon, "epsilon")) for epsilon in epsilons])
    spread = -2 * math.log(float(probability(delta, "delta"))) * float(sizes @ sizes)
    return math.sqrt(spread) + float(sizes @ np.tanh(sizes / 2))


@dataclass(frozen=True)
class FilteredSelfReporting:
    """Filtered self-reporting composition ([GAUSS] Algorithm 4), with the deltas of all runs added.

    Runs are (epsilon_i, delta_i)-pDP and report their loss afterwards. A run starts if what was reported and its
    epsilon_i fit into `epsilon` and the deltas of all runs into `delta`; together they are (epsilon, delta)-DP. As
    published one delta is counted for all, which does not hold: which run is the last depends on what was reported.

    >>> account = FilteredSelfReporting(epsilon=1, delta=1e-6).start("0.5", "1e-7").report("0.01")
    >>> float(account.spent), float(account.failing)
    (0.01, 1e-07)
    """

    epsilon: Number
    delta: Number
    spent: Fraction = Fraction(0)
    failing: Fraction = Fraction(0)
    reserved: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        checked(self, epsilon=positive, delta=probability)

    def start(self, epsilon: Number, delta: Number) -> "FilteredSelfReporting":
        """The account while an (epsilon, delta)-pDP run is on its way; `BudgetExceeded` where it does not fit."""
        size, failing = positive(epsilon, "epsilon"), self.failing + exact(delta, "delta")
        if self.reserved or self.spent + size > Fraction(self.epsilon) or failing > Fraction(self.delta):
            raise BudgetExceeded(f"a run of epsilon {plain(size)} does not fit into what is left")
        return replace(self, reserved=size, failing=failing)

    def report(self, loss: Number) -> "FilteredSelfReporting":
        """The account after the run reported what it lost."""
        return replace(self, reserved=Fraction(0), spent=self.spent + exact(loss, "loss"))


def noise_ratios(sensitivity: Number, threshold_noise: Number, query_noise: Number) -> tuple[float, float]:
    """`D^2/s_T^2` and `D^2/s_Q^2`."""
    moved = positive(sensitivity, "sensitivity")
    bar, query = positive(threshold_noise, "threshold_noise"), positive(query_noise, "query_noise")
    return float(moved / bar) ** 2, float(moved / query) ** 2


def check_noises(bar: float, query: float) -> None:
    """Refuse query noise below sqrt(3) times the threshold's, given `noise_ratios`."""
    if query > bar / 3 * (1 + 1e-12):
        raise InvalidParameter("this bound needs query_noise of at least sqrt(3) threshold_noise")


def best_order(divergence: Callable[[float], float], delta: Number) -> float:
    """Epsilon at the best order 1 + less, by the conversion of theory chapter 1; never below 0."""
    target = math.log(float(probability(delta, "delta")))

    def total(log_less: float) -> float:
        less = math.exp(log_less)
        return divergence(less) + math.log(less / (1 + less)) - (target + math.log1p(less)) / less

    found = scipy.optimize.minimize_scalar(total, bounds=_ORDERS, method="bounded", options={"xatol": 1e-9})
    return max(0.0, float(found.fun))
