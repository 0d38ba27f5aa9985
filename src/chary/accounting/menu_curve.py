"""The exact curve of an event menu: tests of several sizes on one lattice of tokens."""

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal
from functools import cached_property

import numpy as np
import scipy
from numpy.typing import NDArray

from chary.accounting import charging_curve, composition, hit_prices
from chary.accounting.numerics import Floats, precise
from chary.errors import InvalidParameter
from chary.numbers import Number

# Distributions whose likelihood ratios are integers of grains: what a menu's curve is worked out on (theory 1.3).
#
# An outcome whose ratio lies between two multiples of the grain is split into two outcomes, one at each multiple, whose
# mixture it is. So every distribution is replaced by one that reveals at least as much: the curve is an upper bound.
# The excess falls with the grain.

# A distribution with as many ratios would be a band of the lattice as wide as that.
MOST_STEPS = 400
# Decimals of 60 digits leave less than this of an outcome beside its grain; curves are rounded up by far more.
_NOTHING = Decimal("1e-30")

Masses = tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class LatticeLaw:
    """The probabilities under the first neighbour of what hits, which costs `tokens`, and of what misses.

    Each goes with the grains of its log-likelihood ratio.
    """

    tokens: int
    hits: Masses
    misses: Masses


def on_lattice(laws: Iterable[hit_prices.MenuLaw], grain: float, tokens: int) -> list[LatticeLaw]:
    """The distributions and their mirror images, every ratio split into the two multiples of the grain around it.

    Errors: `InvalidParameter` for ratios beyond 400 grains.

    >>> from chary.accounting.hit_prices import Chances
    >>> half = Decimal("0.5")
    >>> on_lattice([(Chances(half, half, False), Chances(half, half, True))], 0.1, 1)
    [LatticeLaw(tokens=1, hits=((0, 0.5),), misses=((0, 0.5),))]
    """
    found = []
    with precise():
        for law in laws:
            mirrored = tuple(hit_prices.Chances(told.second, told.first, told.hit) for told in law)
            found += [_rounded(law, Decimal(grain), tokens), _rounded(mirrored, Decimal(grain), tokens)]
    return list(dict.fromkeys(found))


def _rounded(law: hit_prices.MenuLaw, grain: Decimal, tokens: int) -> LatticeLaw:
    masses: dict[bool, dict[int, Decimal]] = {True: defaultdict(Decimal), False: defaultdict(Decimal)}
    for told in law:
        if not told.first and not told.second:
            continue
        for steps, mass in _around(told, grain):
            masses[told.hit][steps] += mass
    hits, misses = (tuple((steps, float(mass)) for steps, mass in sorted(masses[hit].items())) for hit in (True, False))
    return LatticeLaw(tokens, hits, misses)


def _around(told: hit_prices.Chances, grain: Decimal) -> list[tuple[int, Decimal]]:
    """The two outcomes of whole grains whose mixture this outcome is, with their probabilities under the first
    neighbour."""
    exactly = (told.first / told.second).ln() / grain
    steps = int(exactly.to_integral_value(ROUND_FLOOR))
    if abs(steps) >= MOST_STEPS:
        raise InvalidParameter("a call of this menu is too large for the grain of its lattice: make the grain larger")
    low, high = (steps * grain).exp(), ((steps + 1) * grain).exp()
    upper = min(told.second, max(Decimal(0), (told.first - told.second * low) / (high - low)))
    parts = [(steps, (told.second - upper) * low), (steps + 1, upper * high)]
    return [(place, mass) for place, mass in parts if mass > told.first * _NOTHING]


class Laws:
    """The distributions of a menu as matrices: how much of each hits, and misses, at each number of grains.

    They are sparse, so that nothing but the terms of a distribution is added up, and no threads are woken for small
    products.
    """

    def __init__(self, laws: Sequence[LatticeLaw]) -> None:
        self.laws = laws
        self.steps = sorted({steps for law in laws for steps, _ in (*law.hits, *law.misses)})
        self.tokens = np.array([law.tokens for law in laws])

    @cached_property
    def hits(self) -> "scipy.sparse.csr_array":
        """The probability of a hit of each distribution (rows) at each number of grains (columns), sparse."""
        return scipy.sparse.csr_array(self._matrix([law.hits for law in self.laws]))

    @cached_property
    def misses(self) -> "scipy.sparse.csr_array":
        """The probability of a miss of each distribution (rows) at each number of grains (columns), sparse."""
        return scipy.sparse.csr_array(self.chances_of_a_miss)

    @cached_property
    def chances_of_a_miss(self) -> Floats:
        """The probabilities of a miss as a dense matrix."""
        return self._matrix([law.misses for law in self.laws])

    @cached_property
    def terms(self) -> int:
        """The largest number of terms that the worth of one distribution adds up."""
        return max(len(law.hits) + len(law.misses) for law in self.laws)

    def _matrix(self, all_masses: Sequence[Masses]) -> Floats:
        found = np.zeros((len(all_masses), len(self.steps)))
        column = {steps: place for place, steps in enumerate(self.steps)}
        for row, masses in zip(found, all_masses, strict=True):
            for steps, mass in masses:
                row[column[steps]] = mass
        return found


def width(laws: Laws) -> int:
    """The largest number of grains that an outcome moves by."""
    return max(abs(steps) for steps in laws.steps)


def rounding(laws: Laws) -> tuple[float, float]:
    """What worths of the distributions are compared with, and what a solution is made larger by, four times as much.

    A worth is some 15 roundings of positive terms and one for each that is added: 32 units and one more for each cover
    it. A solution that is larger by four times that passes the test in spite of the errors of its own solving.

    >>> few = Laws([LatticeLaw(1, ((1, 0.5),), ((0, 0.5),))])
    >>> [math.log2(part - 1) for part in rounding(few)]
    [-48.0, -46.0]
    """
    units = 32 * max(1, math.ceil(laws.terms / 8))
    return 1 + units * 2.0**-53, 1 + 4 * units * 2.0**-53


# The exact curve for q-targets and menus of calls: policy iteration on a lattice of likelihood ratios (theory 1.3).
#
# `D_t(k)` bounds delta at total epsilon `k * grain` with t tokens. A call of m grains whose two atoms hit with
# probabilities u and v and whose hit costs j tokens is worth, with `p = 1/(1+e^(-m grain))`,
#
#     p     ((1-u) D_t(k-m) + u D_(t-j)(k-m)) +
#     (1-p) ((1-v) D_t(k+m) + v D_(t-j)(k+m))
#
# and any distribution the sum of its outcomes' probabilities times D, that many grains below. Below 0 the symmetry
# `D(-i) = 1 - e^(-i grain) + e^(-i grain) D(i)` applies, and above the top `D(k) <= D(top)`, so every figure is an
# upper bound. For a fixed choice of call per point this is a banded system; Howard's iteration finds the best choice in
# a few solves.
#
# Rounding: the system is solved with what is known and all misses a little larger (see `rounding`) and with `FLOOR`
# added, so that no value is lost to underflow. Its solution V is taken only if no call, rounded up, is worth more than
# V anywhere; worths rise with values, hence V lies above the least solution, which is the curve.

Choice = NDArray[np.int64]
# FLOOR adds up over the calls until absorption, so the least delta is 1e20 floors away from it, and a part of 1e-8 of
# that delta, down to which curves are followed, 1e12.
FLOOR = 1e-300
LEAST_DELTA = 1e-280
# Three seconds at 100 ns a point. A level costs at least as much as 1300 points (calls of NumPy and LAPACK), and with
# 2**20 points each diagonal of the band takes eight megabytes.
LARGEST_WORK = 3 * 10**7
LARGEST_TOP = 2**20
# Above the top the curve is taken for its last value: that adds at most this part of delta, on the safe side.
NEGLIGIBLE = 1e-8
_A_LEVEL = 1300


@dataclass(frozen=True)
class MenuCall:
    """A kind of call on a menu: `steps` grains of epsilon, `tokens` a hit, and its target.

    `q=None` is NotPrior; `q=1` is an ordinary release, all of whose outcomes hit.
    """

    steps: int
    tokens: int
    q: float | None = None


@dataclass(frozen=True)
class _Option:
    """One extreme point of a call: how likely a hit and a miss are with the likelier and the less likely atom."""

    steps: int
    tokens: int
    hit_high: float
    miss_high: float
    hit_low: float
    miss_low: float


def lattice_curves(grain: float, menu: Sequence[MenuCall | LatticeLaw], top: int) -> Iterator[Floats]:
    """The curves for 1, 2, 3, ... tokens at total epsilon 0, grain, ..., top * grain; at least 1e-300.

    A distribution on the menu stands for itself alone: its mirror image must be listed too (see `on_lattice`).

    >>> curves = lattice_curves(0.1, [MenuCall(1, 1)], 400)
    >>> [round(float(x), 6) for x in next(curves)[:3]]
    [0.066556, 0.03494, 0.018343]
    """
    grid = _Grid(grain, top, Laws(list(dict.fromkeys(law for call in menu for law in _laws(grain, call)))))
    done: list[Floats] = [grid.wide(np.zeros(top + 1))]
    choice, most = np.zeros(top + 1, dtype=np.int64), max(call.tokens for call in menu)
    while True:
        curve, choice = grid.solve(done, choice)
        done = [*done, grid.wide(curve)][-most:]
        yield curve


def _laws(grain: float, call: MenuCall | LatticeLaw) -> list[LatticeLaw]:
    """The lattice distributions of one entry of a menu."""
    return [call] if isinstance(call, LatticeLaw) else [_law(option) for option in _options(grain, call)]


def _law(option: _Option) -> LatticeLaw:
    steps = option.steps

    def both(high: float, low: float) -> Masses:
        return tuple((place, mass) for place, mass in ((-steps, low), (steps, high)) if mass)

    return LatticeLaw(option.tokens, both(option.hit_high, option.hit_low), both(option.miss_high, option.miss_low))


def _options(grain: float, call: MenuCall) -> list[_Option]:
    """The extreme points; what misses is written without a difference that could vanish next to what hits."""
    # With decimals, each probability is rounded once: floats would lose as many units of r as the call has epsilon, and
    # more where q is near r.
    with precise():
        odds, none = (-call.steps * Decimal(grain)).exp(), Decimal(0)
        p, r = 1 / (1 + odds), odds / (1 + odds)
        q = none if call.q is None else Decimal(call.q)
        even = (p * q, p * (1 - q), r * q, r * (1 - q))
        if call.q is None:
            parts = [(none, p, r, none), (p, none, none, r)]
        elif q <= r:
            share = q / r
            parts = [even, (p * share, p * (r - q) / r, none, r), (none, p, q, r - q)]
        else:
            parts = [even, (q - r, 1 - q, r, none), (p, none, r * (q - r) / p, r * (1 - q) / p)]
        return [_Option(call.steps, call.tokens, *map(float, chances)) for chances in parts]


class _Grid:
    """The lattice 0..top and the linear algebra of one token level."""

    def __init__(self, grain: float, top: int, laws: Laws) -> None:
        _check_work(1, top)
        self.grain, self.top, self.released = grain, top, [law for law in laws.laws if not law.misses]
        self.rows, self.solves = np.arange(top + 1), 0
        self.rounded, self.wider = rounding(laws)
        self.far = width(laws)
        self.faded = np.exp(-grain * np.arange(self.far, 0, -1))
        self.surely = -np.expm1(-grain * np.arange(self.far, 0, -1))
        # What a release is worth is known beforehand, so nothing but the best of them is a choice: one distribution of
        # its own.
        best = [LatticeLaw(min(law.tokens for law in self.released), (), ((0, 0.0),))] if self.released else []
        self.laws = Laws([law for law in laws.laws if law.misses] + best)
        costs = {law.tokens: self.laws.tokens == law.tokens for law in self.laws.laws if law.hits}
        self.same = {tokens: (same, self.laws.hits[same]) for tokens, same in costs.items()}

    def solve(self, done: list[Floats], choice: Choice) -> tuple[Floats, Choice]:
        """The curve of the next level, and which distribution is best at each point."""
        fixed, tokens = self._hits(done), self.laws.tokens
        affordable = tokens <= len(done)
        if not affordable.any():
            return np.zeros(self.top + 1), choice
        choice = np.where(affordable[choice], choice, int(affordable.argmax()))
        while True:
            self.solves += 1
            _check_work(self.solves, self.top)
            curve = self._evaluate(fixed, choice)
            values = fixed + self.laws.misses @ self._around(self.wide(curve))
            values[~affordable] = 0.0
            best = values.argmax(axis=0)
            better = values[best, self.rows] * self.rounded > curve
            if not better.any():
                return curve, choice
            choice = np.where(better, best, choice)

    def wide(self, curve: Floats) -> Floats:
        """The curve with as many points below 0 and above the top as an outcome may move."""
        mirrored = self.surely + self.faded * curve[self.far : 0 : -1]
        return np.concatenate((mirrored, curve, np.full(self.far, curve[-1])))

    def _around(self, wide: Floats) -> Floats:
        """The curve this many grains below every point, a row for each number of grains of the distributions."""
        return np.stack([self._below(wide, steps) for steps in self.laws.steps])

    def _below(self, wide: Floats, steps: int) -> Floats:
        return wide[self.far - steps : self.far - steps + self.top + 1]

    def _hits(self, done: list[Floats]) -> Floats:
        """What a hit adds to the worth of each distribution that can be paid; no worth is above 1, also of a race."""
        found = np.zeros((len(self.laws.laws), self.top + 1))
        for tokens, (same, hits) in self.same.items():
            if tokens <= len(done):
                found[same] = hits @ self._around(done[-tokens])
        for law in self.released:
            if law.tokens <= len(done):
                worth = sum(mass * self._below(done[-law.tokens], steps) for steps, mass in law.hits)
                np.maximum(found[-1], worth, out=found[-1])
        return np.minimum(1.0, found)

    def _evaluate(self, fixed: Floats, choice: Choice) -> Floats:
        """Solve the banded system of one choice per point."""
        wide, known = width(self.laws), fixed[choice, self.rows] * self.wider + FLOOR
        band = np.zeros((2 * wide + 1, self.top + 1))
        band[wide] = 1.0
        for steps, chances in zip(self.laws.steps, self.laws.chances_of_a_miss.T, strict=True):
            below, missed = self.rows - steps, chances[choice] * self.wider
            mirrored = self.grain * np.minimum(0, below)
            columns = np.minimum(np.abs(below), self.top)
            band[wide + self.rows - columns, columns] -= missed * np.exp(mirrored)
            known -= missed * np.expm1(mirrored)
        return np.asarray(scipy.linalg.solve_banded((wide, wide), band, known, check_finite=False))


def target_total(*, epsilon_per_call: Number, hits: int, delta: Number, q: Number) -> float:
    """The least total epsilon covering `hits` hits of q-targets at `delta`, rounded up.

    The grid reaches as far as delta is more than a hundred millionth of what is asked.
    Errors: `InvalidParameter` for numbers outside their domain, an epsilon_per_call above 700, a delta below 1e-280,
    and where grid times hits is more than some seconds of work.

    >>> target_total(epsilon_per_call=0.1, hits=5, delta=1e-6, q=0.3) < 4
    True
    """
    asked = charging_curve.WantedTotal.of(epsilon_per_call, hits, delta, q)
    if asked.delta < LEAST_DELTA:
        raise InvalidParameter(f"with a q, delta must be at least {LEAST_DELTA}")
    far = charging_curve.published_total(
        epsilon_per_call=asked.epsilon, hits=hits, delta=asked.delta * NEGLIGIBLE / 8, q=q
    )
    top = 8 + math.ceil(far / asked.epsilon)
    while True:
        _check_work(hits, top)
        curve = _curve_on(asked, top)
        if curve[-1] <= NEGLIGIBLE * asked.delta:
            return composition.convex_upper(curve, asked.epsilon, asked.delta)
        top += top // 2


def _check_work(solves: int, top: int) -> None:
    """Refuse what would take more than some seconds (about 100 ns a point), or a gigabyte."""
    if top > LARGEST_TOP or solves * (top + _A_LEVEL) > LARGEST_WORK:
        raise InvalidParameter(
            f"this exact curve needs a lattice of {top} points, which is too long: take fewer hits or larger calls, "
            "or the Renyi filter, which has no limit"
        )


def _curve_on(asked: charging_curve.WantedTotal, top: int) -> Floats:
    curves = lattice_curves(asked.epsilon, [MenuCall(1, 1, asked.q)], top)
    return next(itertools.islice(curves, asked.hits - 1, None))
