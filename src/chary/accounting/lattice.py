"""The exact curve for q-targets and menus of calls: policy iteration on a lattice of likelihood ratios (theory 1.3).

`D_t(k)` bounds delta at total epsilon `k * grain` with t tokens. A call of m grains whose two atoms hit with chances
u and v and whose hit costs j tokens is worth, with `p = 1/(1+e^(-m grain))`,

    p     ((1-u) D_t(k-m) + u D_(t-j)(k-m)) +
    (1-p) ((1-v) D_t(k+m) + v D_(t-j)(k+m))

Below 0 the symmetry `D(-i) = 1 - e^(-i grain) + e^(-i grain) D(i)` applies, and above the top `D(k) <= D(top)`, so
every figure is an upper bound. For a fixed choice of call per point this is a banded system; Howard's iteration finds
the best choice in a few solves.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from chary.accounting.charging import published_total
from chary.accounting.composition import convex_upper
from chary.errors import InvalidParameter
from chary.numbers import Number, positive, probability, whole

Floats = NDArray[np.float64]
Choice = NDArray[np.int64]
INFLATION = 1 + 1e-9
LARGEST_TOP = 2**18


@dataclass(frozen=True)
class Call:
    """A kind of call on a menu: `steps` grains of epsilon, `tokens` a hit, and its target.

    `q=None` is NotPrior; `q=1` is an ordinary release, all of whose outcomes hit.
    """

    steps: int
    tokens: int
    q: float | None = None


@dataclass(frozen=True)
class _Option:
    """One extreme point of a call: hit chances of the likelier and of the less likely atom."""

    steps: int
    tokens: int
    p: float
    hit_high: float
    hit_low: float


def lattice_curves(grain: float, menu: Sequence[Call], top: int) -> Iterator[Floats]:
    """The curves for 1, 2, 3, ... tokens at total epsilon 0, grain, ..., top * grain.

    >>> curves = lattice_curves(0.1, [Call(1, 1)], 400)
    >>> [round(float(x), 6) for x in next(curves)[:3]]
    [0.066556, 0.03494, 0.018343]
    """
    options = [option for call in menu for option in _options(grain, call)]
    grid = _Grid(grain, top)
    done: list[Floats] = [np.zeros(top + 1)]
    choice = np.zeros(top + 1, dtype=np.int64)
    while True:
        allowed = [option for option in options if option.tokens <= len(done)]
        curve, choice = grid.solve(allowed, done, np.minimum(choice, len(allowed) - 1))
        done.append(curve)
        yield curve * INFLATION


def _options(grain: float, call: Call) -> list[_Option]:
    eps = call.steps * grain
    p, r = 1 / (1 + math.exp(-eps)), 1 / (1 + math.exp(eps))
    if call.q is None:
        pairs = [(0.0, 1.0), (1.0, 0.0)]
    else:
        q = call.q
        corner = (q / r, 0.0) if q <= r else ((q - r) / p, 1.0)
        pairs = [(q, q), corner, (corner[1], corner[0])]
    return [_Option(call.steps, call.tokens, p, u, v) for u, v in pairs]


class _Grid:
    """The lattice 0..top and the linear algebra of one token level."""

    def __init__(self, grain: float, top: int) -> None:
        self.grain, self.top = grain, top
        self.rows = np.arange(top + 1)

    def solve(self, options: list[_Option], done: list[Floats], choice: Choice) -> tuple[Floats, Choice]:
        """The curve of the next level, and which option is best at each point."""
        fixed = np.stack([self._hits(option, done[len(done) - option.tokens]) for option in options])
        while True:
            curve = self._evaluate(options, fixed, choice)
            values = fixed + np.stack([self._misses(option, curve) for option in options])
            best = np.argmax(values, axis=0)
            better = values[best, self.rows] > curve * (1 + 1e-12)
            if not better.any():
                return curve, choice
            choice = np.where(better, best, choice)

    def _below(self, curve: Floats, steps: int) -> Floats:
        mirror = np.arange(steps, 0, -1)
        weight = np.exp(-self.grain * mirror)
        return np.concatenate((1 - weight + weight * curve[mirror], curve[: self.top + 1 - steps]))

    def _above(self, curve: Floats, steps: int) -> Floats:
        return curve[np.minimum(self.rows + steps, self.top)]

    def _hits(self, option: _Option, curve: Floats) -> Floats:
        high = option.p * option.hit_high * self._below(curve, option.steps)
        return high + (1 - option.p) * option.hit_low * self._above(curve, option.steps)

    def _misses(self, option: _Option, curve: Floats) -> Floats:
        high = option.p * (1 - option.hit_high) * self._below(curve, option.steps)
        return high + (1 - option.p) * (1 - option.hit_low) * self._above(curve, option.steps)

    def _evaluate(self, options: list[_Option], fixed: Floats, choice: Choice) -> Floats:
        """Solve the banded system of one choice per point."""
        steps = np.array([option.steps for option in options])[choice]
        high = np.array([option.p * (1 - option.hit_high) for option in options])[choice]
        low = np.array([(1 - option.p) * (1 - option.hit_low) for option in options])[choice]
        width = int(steps.max())
        band = np.zeros((2 * width + 1, self.top + 1))
        band[width] = 1.0
        weight = np.exp(self.grain * np.minimum(0, self.rows - steps))
        self._subtract(band, width, np.abs(self.rows - steps), high * weight)
        self._subtract(band, width, np.minimum(self.rows + steps, self.top), low)
        known = fixed[choice, self.rows] + high * (1 - weight)
        return np.asarray(scipy.linalg.solve_banded((width, width), band, known, check_finite=False))

    def _subtract(self, band: Floats, width: int, columns: Choice, values: Floats) -> None:
        np.subtract.at(band, (width + self.rows - columns, columns), values)


def target_total(*, epsilon_per_call: Number, hits: int, delta: Number, q: Number) -> float:
    """The least total epsilon covering `hits` hits of q-targets at `delta`, rounded up.

    The grid is doubled until its upper bound stops moving in the seventh digit.

    >>> target_total(epsilon_per_call=0.1, hits=5, delta=1e-6, q=0.3) < 4
    True
    """
    eps, tau, d = float(positive(epsilon_per_call, "epsilon")), whole(hits, "hits"), float(probability(delta, "delta"))
    rate = float(positive(q, "q"))
    if rate > 1:
        raise InvalidParameter("q must be at most 1")
    top = 8 + math.ceil(published_total(epsilon_per_call=eps, hits=tau, delta=d, q=rate) / eps)
    total, previous = _total_on(eps, tau, d, rate, top), math.inf
    while previous - total > 1e-7 * total:
        top *= 2
        if top > LARGEST_TOP:
            raise InvalidParameter("the lattice of this curve is too large; use the Renyi price")
        total, previous = min(total, _total_on(eps, tau, d, rate, top)), total
    return total


def _total_on(epsilon: float, hits: int, delta: float, q: float, top: int) -> float:
    curves = lattice_curves(epsilon, [Call(1, 1, q)], top)
    for _ in range(hits - 1):
        next(curves)
    return convex_upper(next(curves), epsilon, delta)
