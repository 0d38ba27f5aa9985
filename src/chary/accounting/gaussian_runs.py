"""Privacy losses of runs of Gaussian noise: stopping rules, self-reporting, what is charged by what was published."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import scipy
from numpy.typing import NDArray

from chary.accounting import composition, gaussian_selection, numerics
from chary.accounting.events import Event
from chary.accounting.gaussian_selection import whitehouse_filter_epsilon
from chary.accounting.numerics import LogCdf, largest
from chary.errors import InvalidParameter, NotPriced
from chary.numbers import Number, checked, exact, flag, positive, probability, whole

# What runs of above threshold report of their losses, and when the next test may still be made (theory chapter 2).
#
# A run reports its loss ex post. **Ours**: before each test both losses that it may end in are known, of halting there
# and of running on; it is made only if the larger, with what earlier runs reported, fits into the total. Then every
# transcript has a loss of at most the total, which is pure DP, whatever is asked and however often a run is restarted.


class Losses(NamedTuple):
    """Upper bounds on the loss of a run that halted at step t, or still runs after it; entry t - 1."""

    halted: NDArray[np.float64]
    running: NDArray[np.float64]

    def worst(self, first: int, last: int) -> float:
        """The most that any outcome of the steps from `first` to `last` can have lost."""
        if first == last:
            return max(float(column[first - 1]) for column in self)
        return max(float(column[first - 1 : last].max()) for column in self)

    def of(self, steps: int, *, halted: bool) -> float:
        """The loss of a run that halted at this step, or still runs after it."""
        return float((self.halted if halted else self.running)[steps - 1])


# The losses of runs of at least this many steps.
Table = Callable[[int], Losses]


@dataclass(frozen=True)
class Reported:
    """What is public of runs one after another: the losses of those that halted, how many they were, and how many tests
    the present one has made.

    >>> told = Reported().after(above=True, losses=Losses(np.array([0.25]), np.array([0.125])))
    >>> told.spent, told.halted, told.steps
    (Fraction(1, 4), 1, 0)
    """

    spent: Fraction = Fraction(0)
    halted: int = 0
    steps: int = 0

    def after(self, *, above: bool, losses: Losses) -> "Reported":
        """What is public after one more test. One above halts the run, and another begins."""
        step = self.steps + 1
        if not above:
            return replace(self, steps=step)
        return Reported(self.spent + Fraction(losses.of(step, halted=True)), self.halted + 1)

    def loss(self, losses: Losses) -> Fraction:
        """What all answers so far lost together."""
        return self.spent + (Fraction(losses.of(self.steps, halted=False)) if self.steps else 0)

    def worst(self, losses: Losses) -> Fraction:
        """The most that they can have lost after one more test."""
        return self.spent + Fraction(losses.worst(self.steps + 1, self.steps + 1))


NOTHING_TOLD: Final = Reported()


class StoppingRule(Protocol):
    """Decides from what is public alone whether the next test is made: `PureStopping`, and the published rules."""

    def admits(self, told: Reported, losses: Losses) -> bool:
        """Whether another test may be made; `losses` reach as far as that test."""
        ...


@dataclass(frozen=True)
class PureStopping:
    """This work: stop before the losses of all runs could exceed the total, whichever way the next test ends.

    Guarantee: total-DP (`Pure`), for any number of tests, adaptively chosen.

    >>> losses = Losses(np.array([0.25, 0.375]), np.array([0.125, 0.25]))
    >>> rule = PureStopping(Fraction(1, 2))
    >>> rule.admits(Reported(steps=1), losses), rule.admits(Reported(Fraction(1, 4), 1, 1), losses)
    (True, False)
    """

    total: Fraction

    def admits(self, told: Reported, losses: Losses) -> bool:
        return told.worst(losses) <= self.total


# Above threshold with Gaussian noise, one run after another: what the runs lose at most, and the noise that fits.

# The losses of few tests bend most, so all are computed. Later ones stand a tenth apart, each replaced by the next
# larger, which is above it: some seventy of them reach from a thousand tests to a million.
_ONE_BY_ONE: Final = 1024
_RATIO_OF_LENGTHS: Final = 1.1


def runs_epsilon_up(
    tests: int,
    hits: int,
    *,
    sensitivity: Number,
    threshold_noise: Number,
    query_noise: Number,
    threshold: Number,
    low: Number,
    high: Number,
) -> float:
    """What `hits` runs of above threshold, a new one after each hit, lose together over this many tests (`ExPost`).

    It holds wherever the hits lie. Let L(t) be the loss of a run of t tests and C a concave function above L with C(0)
    = 0. Runs of t_1, ..., t_k tests, k <= hits, lose `sum C(t_i) <= k C(tests / k) <= hits C(tests / hits)`. Between
    tests that are not looked at one by one, L is replaced by its value at the next that is.

    >>> noise = dict(threshold_noise=100, query_noise=173, threshold=500, low=0, high=1000)
    >>> round(runs_epsilon_up(1000, 10, sensitivity=1, **noise), 2)
    1.55
    """
    noise = {"threshold_noise": threshold_noise, "query_noise": query_noise}
    terms = noise | {"sensitivity": sensitivity, "threshold": threshold, "low": low, "high": high}
    count, runs = whole(tests, "tests"), whole(hits, "hits")
    dense = min(count, _ONE_BY_ONE)
    halted, running = gaussian_selection.above_threshold_epsilons_up(dense, **terms)
    starts, losses = list(range(dense + 1)), [0.0, *np.maximum(halted, running).tolist()]
    for last in _later(dense, count, -(-count // runs)):
        starts.append(dense + 1)
        losses.append(gaussian_selection.halted_epsilon_up(last + 1, **terms))
        dense = last
    # The interpolation is a few roundings of 1e-16; 1e-12 covers them upwards.
    return runs * _hull(starts, losses, count / runs) * (1 + 1e-12)


def runs_noise(
    tests: int,
    hits: int,
    *,
    epsilon: Number,
    sensitivity: Number,
    threshold: Number,
    low: Number,
    high: Number,
    ratio: Number,
) -> Fraction:
    """The least standard deviation of the threshold's noise with which the runs lose at most epsilon together.

    A test has `ratio` times as much. Four digits, rounded up. Noise for which the loss cannot be computed (see
    `halted_epsilon_up`) is not considered.

    >>> bounds = dict(sensitivity=1, threshold=500, low=0, high=1000, ratio=1.732051)
    >>> float(runs_noise(100, 2, epsilon=1, **bounds))
    49.24
    """
    total, times = positive(epsilon, "epsilon"), positive(ratio, "ratio")
    terms = {"sensitivity": sensitivity, "threshold": threshold, "low": low, "high": high}

    def lost(own: Fraction) -> float:
        return runs_epsilon_up(tests, hits, threshold_noise=own, query_noise=times * own, **terms)

    def fits(precision: float) -> bool:
        try:
            return lost(numerics.four_digits_up(1 / precision)) <= total
        except InvalidParameter:
            return False

    widest = positive(exact(high, "high") - exact(low, "low"), "high - low")
    lost(widest)
    most = float(1 / widest)
    while fits(most):
        most *= 2
    return numerics.four_digits_up(1 / numerics.largest_size(fits, most))


def _later(first: int, last: int, focus: int) -> Iterator[int]:
    """From `first` on ever farther apart up to `last`; close together below `focus`."""
    while first < last:
        after = min(last, int(first * _RATIO_OF_LENGTHS) + 1)
        first = next((point for point in (focus - 1, focus) if first < point < after), after)
        yield first


def _hull(places: list[int], heights: list[float], at: float) -> float:
    """The least concave function above the points (rising, and flat after the last), at one place."""
    corners: list[tuple[int, float]] = []
    for place, height in zip(places, heights, strict=True):
        while len(corners) > 1 and _below(corners[-2], corners[-1], (place, height)):
            corners.pop()
        corners.append((place, height))
    return float(np.interp(at, [place for place, _ in corners], [height for _, height in corners]))


def _below(first: tuple[int, float], middle: tuple[int, float], last: tuple[int, float]) -> bool:
    """Whether the middle point does not rise above the line through the others."""
    (a, low), (b, height), (c, high) = first, middle, last
    return (height - low) * (c - a) <= (high - low) * (b - a)


# Above threshold with Gaussian noise at a Renyi order: what opening a run costs, and what its hit costs (this work).
#
# **A bound without a stopping time.** Values move by at most D. Write the threshold under the one neighbour as u = v -
# D, v ~ N(r + D, s_T), and under the other as v ~ N(r, s_T). At the same v each miss is then no likelier under the
# first (m' <=
# m), and a hit has h = Phi(y), h' <= Phi(y + k) with y = (x - v)/s_Q and k = 2D/s_Q. Given v the moment of order a of
# all that may follow is at most W, if a step keeps it: `B W + A <= W`, A = h'^a h^(1-a), B = m'^a m^(1-a). So
# `W = A/(1 - B)` of the worst step. That is rising in h' (its slope has the sign of 1 - (m'/m)^(a-1)), and falling in
# y:
# the slope of its logarithm is at most 0 if `((1 - q^(a-1))/(a-1)) / ((1 - q^a)/a) <= r(y)/r(y + k)`, q = m'/m and
# r = phi/Phi. The left side falls in a, to `L/(1 - e^-L)` at a = 1, L = -ln q; and `ln(r(y)/r(y + k))` grows in k by
# `w + r(w)` (w = y + k) where the logarithm of the left side grows by `r(-w) (1/L - 1/(e^L - 1))`, at most half of
# r(-w).
# And `w + r(w) >= r(-w)/2`: for w >= 0 since r(-w) <= (w + sqrt(w^2 + 4))/2, for w = -x < 0 since
# r(w) >= (3x + sqrt(x^2 + 8))/4. So W(v) is that of x = low.
#
# By Hoelder the moment of the answers is at most that of answers and v together: at most `e^(a(a-1) D^2/(2 s_T^2)) E
# W(v)`, v ~ N(r + a D, s_T). **A part for the hit.** If a hit is charged c, all that may follow at v is at most max(1,
# W e^-c), so the opening is charged the logarithm of its mean instead. Any number of queries may come, adaptively, and
# other calls between them: given v their likelihood ratios multiply, and the bound on what may follow is a
# supermartingale.
#
# **Several hits at one threshold.** With j hits left all that may follow at v is at most W^j, since
# `B W^j + A W^(j-1) = W^(j-1) (B W + A)`; with c charged for each it is at most max(1, W e^-c)^j. **Monotone queries**,
# which one unit moves all in one direction: where P's values are higher nothing is shifted, where they are lower by d,
# D - d of the shift is left. Either way a hit moves by k = D/s_Q at most.
#
# Sums are upper bounds: W rises in v, so each cell of v counts with its right end.

Floats = NDArray[np.float64]
# A cell is 1/1000 of a deviation, so W - 1 is too large by some 0.2 % at most; the tails beyond 10 are below 1e-22.
_CELLS: Final = 1000
_TAIL: Final = 10.0
# Above it the Taylor series of `_bent` would need more terms; at it the direct form has lost three digits of 16.
_SMALL: Final = 1e-2
# Roundings of some 1e-12 in differences of the distribution function, and of 1e-11 in `_bent`.
_MARGIN: Final = 1e-9
# No budget pays a hit of e^50, nor hits of e^150 together, and sums of W stay far from overflow.
_MOST: Final = 50.0
_MOST_TOGETHER: Final = 150.0
# Beyond it the query noise is so small beside the threshold's that cells would be too coarse for it.
_STEEPEST: Final = 20.0
# Beyond it squares are no floats any more, and no budget pays for what one of these ratios is then.
_APART: Final = 10**100
# Below -30 a hit is so unlikely that 1 - B is h (1 + a (h'/h - 1)) to all digits.
_FAR: Final = -30.0


class RunMoments(NamedTuple):
    """Log-moments at one order: `opening` a run, and each `hit`; or `whole`, all of it when it opens."""

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
    hits: int = 1,
    monotone: bool = False,
) -> RunMoments | None:
    """What a run of above threshold costs at this Renyi order (its log-moment, `(order - 1) D`), rounded up.

    Queries are at least `low`, one unit moves each by at most `sensitivity`; any number of them, adaptively chosen. The
    run ends after that many `hits`, all against one noisy threshold. `monotone`: one unit moves all queries in one
    direction. Misses are free. None where the noises are too small, or too far apart, for a cost that any budget could
    pay.

    >>> noise = dict(threshold_noise="0.1", query_noise="0.1733", threshold="0.5")
    >>> run_moments_up(18, sensitivity="0.001", **noise)
    RunMoments(opening=0.0321..., hit=0.1569..., whole=0.1722...)
    >>> run_moments_up(18, sensitivity="0.001", **noise, hits=5, monotone=True)
    RunMoments(opening=0.0416..., hit=0.0463..., whole=0.2472...)
    """
    moved, bar = positive(sensitivity, "sensitivity"), positive(threshold_noise, "threshold_noise")
    scale = positive(query_noise, "query_noise")
    ratios = moved / bar, moved / scale, bar / scale, (exact(low, "low") - exact(threshold, "threshold")) / scale
    if max(map(abs, ratios)) > _APART:
        return None
    a, (ratio, step, slope, above) = float(exact(order, "order")), map(float, ratios)
    shift = step if flag(monotone, "monotone") else 2 * step
    return _moments(a, ratio, shift, slope, above - a * step, whole(hits, "hits"))


@lru_cache(maxsize=256)
def _moments(a: float, ratio: float, shift: float, slope: float, start: float, hits: int) -> RunMoments | None:
    """`start` is the least y at the mean of v, which falls by `slope` for each deviation of v."""
    # ln W is at most a times the change of ln Phi, whose slope is below |y| + 1: it rises by `pull` for each deviation.
    pull = hits * a * shift * slope
    most = hits * a * shift * (1 + shift + max(-start, 0.0)) + pull**2 / 2
    if slope * max(1.0, a * shift) > _STEEPEST or most > min(hits * _MOST, _MOST_TOGETHER):
        return None
    beyond = pull + (_TAIL if hits == 1 else max(_TAIL, math.sqrt(2 * most) + 5))
    ends = np.arange(-_TAIL, beyond + 1 / _CELLS, 1 / _CELLS)
    chances, worth = _chances(ends), np.log1p(_excess(start - slope * ends, shift, a))
    tail = math.exp(most) * scipy.special.ndtr(pull - ends[-1])

    def together(each: Floats) -> float:
        """ln E of the product over all hits, each of which has this logarithm at v."""
        return math.log1p((float(chances @ np.expm1(hits * each)) + tail) * (1 + _MARGIN))

    gaussian, all_hits = a * (a - 1) * ratio**2 / 2, together(worth)
    hit, up = all_hits / hits, 1 + _MARGIN
    opening = gaussian + together(np.maximum(0, worth - hit))
    return RunMoments(opening * up, hit * up, (gaussian + all_hits) * up)


def capped_moment_up(
    order: Number,
    *,
    tests: int,
    hits: int = 1,
    sensitivity: Number,
    threshold_noise: Number,
    query_noise: Number,
    monotone: bool = False,
) -> float:
    """The log-moment of a run that ends after this many `tests` if not after its `hits`, rounded up.

    It needs no bound on the values, and holds for discrete Gaussian noise on whole steps too. Let
    `M = e^(a(a-1) k^2/2)` be the moment of a query's noise at the shift `k = 2D/s_Q` (`D/s_Q` where `monotone`). With
    that of the threshold's at D, it is `a(a-1) D^2/(2 s_T^2) + ln(sum over j <= hits of C(tests, j) (M - 1)^j)`. That
    is never more than all tests cost as releases. (This work, after Zhu and Wang 2020; docs/theory/thresholds.md.)

    >>> noise = dict(sensitivity="0.001", threshold_noise="0.1", query_noise="0.1733")
    >>> round(capped_moment_up(18, tests=100, hits=5, **noise), 3)
    2.037
    """
    moved, bar = positive(sensitivity, "sensitivity"), positive(threshold_noise, "threshold_noise")
    scale, (most, last) = positive(query_noise, "query_noise"), (whole(tests, "tests"), whole(hits, "hits"))
    a, step = float(exact(order, "order")), moved if flag(monotone, "monotone") else 2 * moved
    if max(step / scale, moved / bar) > _APART:
        return math.inf
    lost = a * (a - 1) * float(step / scale) ** 2 / 2
    if lost == 0:
        return 0.0
    # ln(M - 1), of which nothing is lost for small M or large.
    more = lost + math.log(-math.expm1(-lost))
    number = np.arange(min(most, last))
    terms = np.cumsum(np.log((most - number) / (number + 1)) + more)
    together = float(np.logaddexp(0, scipy.special.logsumexp(terms)))
    return (a * (a - 1) * float(moved / bar) ** 2 / 2 + together) * (1 + _MARGIN)


def _chances(ends: Floats) -> Floats:
    """The probability of each cell that ends there; the first one has no beginning."""
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


# The events of a run of above threshold with Gaussian noise that is priced at a Renyi order: misses are free.


@dataclass(frozen=True)
class RunNoise:
    """The noises of a run, what a query may move, how far the threshold is above the least value, and its hits."""

    sensitivity: Number
    threshold_noise: Number
    query_noise: Number
    above_low: Number
    hits: int = 1
    monotone: bool = False

    def __post_init__(self) -> None:
        checked(self, sensitivity=positive, threshold_noise=positive, query_noise=positive, above_low=exact)
        whole(self.hits, "hits")
        flag(self.monotone, "monotone")

    def moments_up(self, order: Fraction) -> RunMoments | None:
        """The log-moments of the run at this order; None where no budget could pay them."""
        return run_moments_up(
            order,
            sensitivity=self.sensitivity,
            threshold_noise=self.threshold_noise,
            query_noise=self.query_noise,
            threshold=self.above_low,
            hits=self.hits,
            monotone=self.monotone,
        )


@dataclass(frozen=True)
class ThresholdRun(Event):
    """A whole run: any number of queries until its last hit, adaptively chosen, charged when it opens.

    >>> run = ThresholdRun(RunNoise("0.001", "0.1", "0.1733", "0.5"))
    >>> run.epsilon, round(float(run.log_moment_up(Fraction(18))), 3)
    (None, 0.172)
    """

    noise: RunNoise

    @property
    def epsilon(self) -> None:
        return None

    @property
    def otherwise(self) -> str:
        return "a run that is paid by hits needs the Renyi filter: open the session with a delta"

    def log_moment_up(self, order: Fraction) -> Fraction:
        found = self.noise.moments_up(order)
        if found is None:
            raise NotPriced(
                "a run with so little noise has no finite cost at the order of this filter: give more noise"
            )
        return self.part(found)

    def part(self, moments: RunMoments) -> Fraction:
        """The part of these log-moments that this event is charged."""
        return Fraction(moments.whole)


@dataclass(frozen=True)
class RunOpening(ThresholdRun):
    """The opening of a run whose hits are charged as they come."""

    def part(self, moments: RunMoments) -> Fraction:
        return Fraction(moments.opening)


@dataclass(frozen=True)
class RunHit(ThresholdRun):
    """Tests of a run that was charged by `RunOpening`: each hit is charged, and misses are free.

    >>> test = RunHit(RunNoise("0.001", "0.1", "0.1733", "0.5"))
    >>> round(float(test.hit_price_up(Fraction(18))), 3), test.miss_price_up(Fraction(18))
    (0.157, Fraction(0, 1))
    """

    def hit_price_up(self, order: Fraction) -> Fraction:
        return self.log_moment_up(order)

    def part(self, moments: RunMoments) -> Fraction:
        return Fraction(moments.hit)


# When runs of above threshold that follow one another stop, by rules with a delta: the published ones, and ours.
#
# Each is a `StoppingRule`; see `PureStopping` for ours without a delta.

# More than the roundings of a sum of a million floats.
_MOST_STEPS: Final = 10**6


@dataclass(frozen=True)
class SelfReportingStopping:
    """Filtered self-reporting ([GAUSS] Algorithm 4): a run starts if its pDP epsilon fits next to what was reported.

    Each run is (`run_epsilon`, `run_delta`)-pDP. Guarantee: (total, runs * run_delta)-DP, since at most this many
    `runs` start: as published the delta of one is counted for all, which does not hold (`FilteredSelfReporting`).
    """

    total: Fraction
    run_epsilon: Fraction
    runs: int

    def admits(self, told: Reported, losses: Losses) -> bool:
        if told.steps:
            return True
        return told.halted < self.runs and told.spent + self.run_epsilon <= self.total


@dataclass(frozen=True)
class CountedRuns:
    """This many runs, whatever they report: for totals that follow from their number, such as those of filters."""

    runs: int

    def admits(self, told: Reported, losses: Losses) -> bool:
        return told.halted < self.runs


@dataclass(frozen=True)
class WhitehouseFilter:
    """The filter of Whitehouse and others ([GAUSS] Theorem 20) for (epsilon_i, delta_i)-DP calls, adaptively chosen.

    `slack` is the delta of the composition, and `spare` what the deltas of the calls may add up to. Guarantee: while
    `admits` holds of all calls so far they are (epsilon, slack + spare)-DP together.

    >>> rule = WhitehouseFilter(epsilon=1, slack="5e-7", spare="5e-7")
    >>> rule.admits([(0.1, 1e-8)] * 3), rule.admits([(0.1, 1e-8)] * 4), rule.admits([(0.01, 3e-7)] * 2)
    (True, False, False)
    """

    epsilon: Number
    slack: Number
    spare: Number

    def __post_init__(self) -> None:
        checked(self, epsilon=positive, slack=probability, spare=exact)

    def admits(self, calls: Sequence[tuple[Number, Number]]) -> bool:
        """Whether all of these calls may be made."""
        if sum((exact(delta, "delta") for _, delta in calls), Fraction(0)) > Fraction(self.spare):
            return False
        if not calls:
            return True
        total = whitehouse_filter_epsilon([size for size, _ in calls], delta=self.slack) * (1 + _MARGIN)
        return Fraction(total) <= Fraction(self.epsilon)

    def times(self, epsilon: Number, delta: Number) -> int:
        """How many calls of one size it admits, at most a million."""
        size, single = positive(epsilon, "epsilon"), exact(delta, "delta")
        most = min(int(Fraction(self.spare) / single), _MOST_STEPS) if single else _MOST_STEPS
        # The total of n calls is a sqrt(n) + b n; two of them tell a and b.
        once, four = (whitehouse_filter_epsilon([size] * count, delta=self.slack) for count in (1, 4))
        b = (four - 2 * once) / 2

        def admitted(count: int) -> bool:
            return Fraction(((once - b) * math.sqrt(count) + b * count) * (1 + _MARGIN)) <= Fraction(self.epsilon)

        return largest(admitted, 0, most + 1)


# Runs of above threshold with Gaussian noise by the distribution of their stopping time, and losses that hold but for a
# delta.
#
# A mechanism is (epsilon, delta)-pDP if its loss exceeds epsilon with probability at most delta ([GAUSS] Definition 3).
# By Markov a divergence D of order a gives `epsilon = D + ln(1/delta)/(a - 1)`.
#
# **Zhu and Wang with a distribution.** As in `run_moments`, at a noise v of the threshold misses are no likelier under
# the first neighbour, and each test has moment at most `e^(2a(a-1)D^2/s_Q^2)`, so all of them together at most that
# times the mean
# number T of tests given v. Hoelder with any g > 1 and Jensen make of it
# `(a - 1) D_a <= 2a(a-1)D^2/s_Q^2 + a (a g/(g-1) - 1) D^2/(2 s_T^2) + ln(E T^g)/g`: g = infinity takes the largest T.
# The
# distribution of T must hold for all data, such as that of values that never come near the threshold.

# Orders minus 1, and Hoelder's exponents minus 1; every one of them gives a bound, infinity that of the largest time.
_ORDERS: Final = np.geomspace(0.05, 5000, 120)
_EXPONENTS: Final = np.append(np.geomspace(0.02, 100, 60), np.inf)
# An order of ours takes some 30 ms, so few are tried.
_WIDE: Final = np.geomspace(0.5, 5000, 14).tolist()
# More than all roundings of the short formulas here.
_UP: Final = 1 + 1e-10


def stopping_pdp_epsilon(
    stopping: Mapping[int, float], *, sensitivity: Number, threshold_noise: Number, query_noise: Number, delta: Number
) -> float:
    """The epsilon for which a run whose number of tests has this distribution is (epsilon, delta)-pDP (Zhu and Wang).

    `stopping` has the probability of each number of tests, which add up to 1.

    >>> noise = dict(sensitivity="0.001", threshold_noise="0.1", query_noise="0.1733", delta=1e-6)
    >>> rarely, most = {1: 0.5, 10: 0.5 - 1e-9, 10**6: 1e-9}, {10**6: 1}
    >>> stopping_pdp_epsilon(rarely, **noise), stopping_pdp_epsilon(most, **noise)
    (0.107..., 0.113...)
    """
    moved = positive(sensitivity, "sensitivity")
    bar = float(moved / positive(threshold_noise, "threshold_noise")) ** 2
    query = float(moved / positive(query_noise, "query_noise")) ** 2
    counts = np.log([float(whole(count, "stopping")) for count in stopping])
    chances = np.array([float(chance) for chance in stopping.values()])
    if not len(counts) or (chances <= 0).any() or not math.isclose(chances.sum(), 1, rel_tol=1e-9):
        raise InvalidParameter("stopping has a positive probability for each number of tests, 1 in all")
    with np.errstate(over="ignore", invalid="ignore"):
        moments = [_mean_log(counts, np.log(chances), 1 + more) for more in _EXPONENTS.tolist()]
    order, conjugate = 1 + _ORDERS[:, np.newaxis], np.append(1 + 1 / _EXPONENTS[:-1], 1.0)
    divergence = 2 * order * (order - 1) * query + order * (order * conjugate - 1) * bar / 2 + np.array(moments)
    return float(((divergence - math.log(float(probability(delta, "delta")))) / (order - 1)).min()) * _UP


def run_pdp_epsilon_up(
    *,
    sensitivity: Number,
    threshold_noise: Number,
    query_noise: Number,
    threshold: Number,
    delta: Number,
    low: Number = 0,
) -> float:
    """The pDP epsilon of a run of any number of tests of values that are at least `low` (this work), rounded up.

    Errors: `InvalidParameter` where the noise is too small for any order.

    >>> noise = dict(threshold_noise="0.1", query_noise="0.1733", threshold="0.5")
    >>> run_pdp_epsilon_up(sensitivity="0.001", **noise, delta=1e-6)
    0.112...
    """
    target = -math.log(float(probability(delta, "delta")))
    noise: dict[str, Any] = {"threshold_noise": threshold_noise, "query_noise": query_noise}
    noise |= {"threshold": threshold, "low": low}

    def at(less: float) -> float:
        found = run_moments_up(1 + less, sensitivity=sensitivity, **noise)
        return math.inf if found is None else (found.whole + target) / less

    best = _least(at)
    if best == math.inf:
        raise InvalidParameter("the noise is too small for a bound without a largest number of tests")
    return best * _UP


def runs_within(
    epsilon: Number,
    delta: Number,
    *,
    sensitivity: Number,
    threshold_noise: Number,
    query_noise: Number,
    threshold: Number,
    low: Number = 0,
    hits: int = 1,
    monotone: bool = False,
) -> int:
    """How many runs of any numbers of tests are (epsilon, delta)-DP together (this work), at the best order.

    >>> noise = dict(threshold_noise="0.1", query_noise="0.1733", threshold="0.5")
    >>> runs_within(1, 1e-6, sensitivity="0.001", **noise)
    46
    """
    size, failure = positive(epsilon, "epsilon"), probability(delta, "delta")
    noise: dict[str, Any] = {"threshold_noise": threshold_noise, "query_noise": query_noise}
    noise |= {"threshold": threshold, "low": low, "hits": hits, "monotone": monotone}

    def fitting(less: float) -> float:
        order = 1 + Fraction(less)
        found = run_moments_up(order, sensitivity=sensitivity, **noise)
        room = composition.capacity_down(size, failure, order)
        return 0.0 if found is None or room <= 0 else -float(room / Fraction(found.whole))

    return math.floor(-_least(fitting))


def _least(cost: Callable[[float], float]) -> float:
    """The least over a grid of orders minus 1, and once more around the best."""
    wide = [cost(less) for less in _WIDE]
    best = int(np.argmin(wide))
    near = np.geomspace(_WIDE[max(best - 1, 0)], _WIDE[min(best + 1, len(_WIDE) - 1)], 9)
    return min(*wide, *(cost(less) for less in near.tolist()))


def _mean_log(logs: Floats, chances: Floats, exponent: float) -> float:
    """`ln(E T^g)/g`."""
    if exponent == math.inf:
        return float(logs.max())
    return float(np.logaddexp.reduce(exponent * logs + chances)) / exponent
