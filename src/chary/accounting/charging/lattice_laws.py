"""Laws whose likelihood ratios are whole numbers of grains: what a menu's curve is worked out on (theory 1.3).

An outcome whose ratio lies between two multiples of the grain is told as one of both, so that told together they are
the outcome: every law becomes one that tells more, which is what a bound may do. What is added falls with the grain.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal
from functools import cached_property

import numpy as np
import scipy

from chary.accounting.binomial import Floats
from chary.accounting.charging.menu_laws import Chances, MenuLaw
from chary.accounting.exponentials import precise
from chary.errors import InvalidParameter

# A law with as many ratios would be a band of the lattice as wide as that.
MOST_STEPS = 400
# Decimals of 60 digits leave less than this of an outcome beside its grain; curves are rounded up by far more.
_NOTHING = Decimal("1e-30")

Masses = tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class LatticeLaw:
    """The chances under the first neighbour of what hits, which costs `tokens`, and of what misses.

    Each goes with the grains of its log-likelihood ratio.
    """

    tokens: int
    hits: Masses
    misses: Masses


def on_lattice(laws: Iterable[MenuLaw], grain: float, tokens: int) -> list[LatticeLaw]:
    """The laws and their mirror images, with every ratio told as one of the two multiples of the grain around it.

    Errors: `InvalidParameter` for ratios beyond 400 grains.

    >>> half = Decimal("0.5")
    >>> on_lattice([(Chances(half, half, False), Chances(half, half, True))], 0.1, 1)
    [LatticeLaw(tokens=1, hits=((0, 0.5),), misses=((0, 0.5),))]
    """
    found = []
    with precise():
        for law in laws:
            mirrored = tuple(Chances(told.second, told.first, told.hit) for told in law)
            found += [_rounded(law, Decimal(grain), tokens), _rounded(mirrored, Decimal(grain), tokens)]
    return list(dict.fromkeys(found))


def _rounded(law: MenuLaw, grain: Decimal, tokens: int) -> LatticeLaw:
    masses: dict[bool, dict[int, Decimal]] = {True: defaultdict(Decimal), False: defaultdict(Decimal)}
    for told in law:
        if not told.first and not told.second:
            continue
        for steps, mass in _around(told, grain):
            masses[told.hit][steps] += mass
    hits, misses = (tuple((steps, float(mass)) for steps, mass in sorted(masses[hit].items())) for hit in (True, False))
    return LatticeLaw(tokens, hits, misses)


def _around(told: Chances, grain: Decimal) -> list[tuple[int, Decimal]]:
    """An outcome as two of whole grains, by their chances under the first neighbour."""
    exactly = (told.first / told.second).ln() / grain
    steps = int(exactly.to_integral_value(ROUND_FLOOR))
    if abs(steps) >= MOST_STEPS:
        raise InvalidParameter("a call of this menu is too large for the grain of its lattice: make the grain larger")
    low, high = (steps * grain).exp(), ((steps + 1) * grain).exp()
    upper = min(told.second, max(Decimal(0), (told.first - told.second * low) / (high - low)))
    parts = [(steps, (told.second - upper) * low), (steps + 1, upper * high)]
    return [(place, mass) for place, mass in parts if mass > told.first * _NOTHING]


class Laws:
    """The laws of a menu as matrices: how much of each hits, and misses, at each number of grains.

    They are sparse, so that nothing but the terms of a law is added up, and no threads are woken for small products.
    """

    def __init__(self, laws: Sequence[LatticeLaw]) -> None:
        self.laws = laws
        self.steps = sorted({steps for law in laws for steps, _ in (*law.hits, *law.misses)})
        self.tokens = np.array([law.tokens for law in laws])

    @cached_property
    def hits(self) -> scipy.sparse.csr_array:
        """Of every law (rows) what hits, by its grains."""
        return scipy.sparse.csr_array(self._matrix([law.hits for law in self.laws]))

    @cached_property
    def misses(self) -> scipy.sparse.csr_array:
        """Of every law (rows) what misses, by its grains."""
        return scipy.sparse.csr_array(self.chances_of_a_miss)

    @cached_property
    def chances_of_a_miss(self) -> Floats:
        """The same with all that is 0."""
        return self._matrix([law.misses for law in self.laws])

    @cached_property
    def terms(self) -> int:
        """The most that are added up for one law."""
        return max(len(law.hits) + len(law.misses) for law in self.laws)

    def _matrix(self, all_masses: Sequence[Masses]) -> Floats:
        found = np.zeros((len(all_masses), len(self.steps)))
        column = {steps: place for place, steps in enumerate(self.steps)}
        for row, masses in zip(found, all_masses, strict=True):
            for steps, mass in masses:
                row[column[steps]] = mass
        return found


def width(laws: Laws) -> int:
    """The largest number of grains by which an outcome moves."""
    return max(abs(steps) for steps in laws.steps)


def rounding(laws: Laws) -> tuple[float, float]:
    """What worths of the laws are compared with, and what a solution is made larger by, four times as much.

    A worth is some 15 roundings of positive terms and one for each that is added: 32 units and one more for each cover
    it. A solution that is larger by four times that passes the test in spite of the errors of its own solving.

    >>> few = Laws([LatticeLaw(1, ((1, 0.5),), ((0, 0.5),))])
    >>> [math.log2(part - 1) for part in rounding(few)]
    [-48.0, -46.0]
    """
    units = 32 * max(1, math.ceil(laws.terms / 8))
    return 1 + units * 2.0**-53, 1 + 4 * units * 2.0**-53
