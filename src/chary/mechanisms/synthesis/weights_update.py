"""Private multiplicative weights (theory 6): a public histogram that is corrected by the answers that surprise it."""

import json
import math
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from chary.errors import InvalidParameter
from chary.mechanisms.synthesis.public_histogram import Cells, PublicHistogram
from chary.numbers import Number, positive, probability

Update = Literal["projected", "published"]
# With a mean within 2**30 of 1 no weight exceeds 2**30 times the cells; a factor of 2**30 more stays well below the end
# of single precision, 2**128.
FARTHEST: Final = 30
# Lines of a transcript are written and read again at every change: 65,536 of them stay in memory.
KEPT: Final = 2**16
LARGEST_FACTOR: Final = 2.0**FARTHEST
# The interval of exponents is below 2**5 long; 60 halvings leave it below the spacing of floats.
HALVINGS: Final = 60
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Change:
    """What one hard answer did to the histogram: `scale` and then `lift` all cells, `factor` those of `query`.

    `size` is the number of rows at that time. All of it follows from published answers.
    """

    query: str
    size: int
    scale: float
    lift: float
    factor: float


class Easy(NamedTuple):
    """The noisy counts that leave the histogram's answer standing: from `low` to `high`."""

    low: int
    high: int


@dataclass(frozen=True)
class MultiplicativeWeights:
    """The rule: how far an answer may be off, and how a hard answer corrects the histogram.

    With noisy answers within alpha/3 of the truth, easy answers are within alpha. *published*: weights are multiplied
    by exp(-alpha/6) on the side that is too heavy ([GROW] Algorithm 3). *projected* (ours): by as much as brings the
    histogram's answer to the nearest value that the noise leaves possible; it needs at least 8 times fewer hard answers
    in the worst case. `mixing` is how much of a new row is taken to be anywhere, the rest being taken to be like the
    rows before it; in the published rule it is 1. See docs/multiplicative_weights.md for both.
    """

    alpha: Number
    update: Update = "projected"
    mixing: Number = Fraction(1, 10)

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", probability(self.alpha, "alpha"))
        if self.update not in ("projected", "published"):
            raise InvalidParameter("update must be 'projected' or 'published'")
        object.__setattr__(self, "mixing", positive(self.mixing, "mixing"))
        if Fraction(self.mixing) > 1:
            raise InvalidParameter("mixing is a part of a row, at most 1")

    def kept(self, before: int, size: int) -> float:
        """The weight of the histogram from `before` rows in that for `size` rows; the rest is uniform.

        The product of 1 - mixing/t over the new rows t, in closed form. A table that shrank keeps all.

        >>> MultiplicativeWeights("0.1", mixing=1).kept(100, 400), round(MultiplicativeWeights("0.1").kept(100, 400), 4)
        (0.25, 0.8708)
        """
        if size <= before:
            return 1.0
        mixing = float(self.mixing)
        if mixing == 1:
            return before / size
        logs = math.lgamma(size + 1 - mixing) - math.lgamma(size + 1)
        return min(1.0, math.exp(logs + math.lgamma(before + 1) - math.lgamma(before + 1 - mixing)))

    def easy(self, share: float, size: int) -> Easy:
        """Noisy counts within 2 alpha/3 of the histogram's share, compared exactly.

        >>> MultiplicativeWeights("0.1").easy(0.5, 300)
        Easy(low=130, high=170)
        """
        off = Fraction(self.alpha) * 2 / 3
        return Easy(math.ceil(size * (Fraction(share) - off)), math.floor(size * (Fraction(share) + off)))

    def factor(self, share: float, answer: float, margin: float, above: bool | None = None) -> float:
        """By what a hard answer, off by at most `margin`, multiplies the cells of its query.

        It is 1 where the answer cannot be that near the truth. A margin above alpha/3 counts as alpha/3. `above` says
        on which side of the share the truth was found, by alpha/3 at least, if something else than the answer told it.

        >>> rule = MultiplicativeWeights("0.03")
        >>> rule.factor(0.25, 0.51, 0.01), rule.factor(0.75, 0.49, 0.01), rule.factor(0.985, 1.02, 0.01)
        (3.0, 0.333..., 3.030...)
        """
        alpha, upwards = float(self.alpha), answer >= share if above is None else above
        if self.update == "published":
            return math.exp(alpha / 6 if upwards else -alpha / 6)
        if not upwards:
            return 1 / self.factor(1 - share, 1 - answer, margin, True) if 0 < share < 1 else 1.0
        goal = self._goal(share, answer, margin, 1.0)
        if share <= 0 or goal is None:
            return 1.0
        return min(LARGEST_FACTOR, goal * (1 - share) / (share * (1 - goal)))

    def tilt(self, levels: Floats, masses: Floats, answer: float, margin: float, above: bool | None = None) -> float:
        """The same for cells of these weights, of which the histogram has these parts: what each cell is multiplied by
        is the result to the power of its weight.

        >>> rule = MultiplicativeWeights("0.03")
        >>> f"{rule.tilt(np.array([0, 1]), np.array([0.75, 0.25]), 0.51, 0.01):.6f}"
        '3.000000'
        >>> f"{rule.tilt(np.array([0, 0.5, 1]), np.array([0.5, 0.25, 0.25]), 0.51, 0.01):.6f}"
        '2.000000'
        """
        share = float(masses @ levels)
        upwards = answer >= share if above is None else above
        if self.update == "published":
            return self.factor(share, answer, margin, above)
        if not upwards:
            return 1 / self.tilt(1 - levels[::-1], masses[::-1], 1 - answer, margin, True)
        goal = self._goal(share, answer, margin, float(levels[masses > 0].max()))
        return 1.0 if goal is None else math.exp(_tilted(levels, masses, goal))

    def _goal(self, share: float, answer: float, margin: float, top: float) -> float | None:
        """How high the truth is at least; None where that is the most that there can be, or more."""
        least, goal = share + float(self.alpha) / 3, answer - min(margin, float(self.alpha) / 3)
        return None if least >= top else goal if least < goal < top else least


class WeightVector:
    """A public histogram at the size of its last change. What it says at a later size follows without changing it, by
    mixing it with the uniform histogram."""

    def __init__(self, rule: MultiplicativeWeights, rows: int, columns: int, size: int) -> None:
        self.histogram = PublicHistogram(rows, columns)
        self.rule, self.size = rule, size
        self.changes: tuple[Change, ...] = ()

    def share(self, cells: Cells, size: int) -> float:
        """The histogram's answer at this size."""
        kept = self.rule.kept(self.size, size)
        return kept * self.histogram.share(cells) + (1 - kept) * cells.count / self.histogram.cells

    def shares(self, size: int) -> NDArray[np.float64]:
        """The whole histogram at this size; it sums to 1."""
        kept = self.rule.kept(self.size, size)
        return kept * self.histogram.shares() + (1 - kept) / self.histogram.cells

    def change(
        self, query: str, cells: Cells, size: int, answer: float, margin: float, above: bool | None = None
    ) -> Change:
        """What a hard answer at this size, off by at most `margin`, is to do; nothing is changed yet."""
        exponent = math.frexp(self.histogram.total / self.histogram.cells)[1]
        scale = 2.0**-exponent if abs(exponent) > FARTHEST else 1.0
        kept = self.rule.kept(self.size, size)
        lift = self.histogram.total / self.histogram.cells * scale * (1 - kept) / kept
        if cells.levels is None:
            factor = self.rule.factor(self.share(cells, size), answer, margin, above)
        else:
            factor = self.rule.tilt(cells.levels, self._masses(cells, kept), answer, margin, above)
        return Change(query, max(size, self.size), scale, lift, factor)

    def _masses(self, cells: Cells, kept: float) -> Floats:
        """What part of the histogram each level has, with a part of it kept and the rest uniform."""
        return kept * self.histogram.masses(cells) + (1 - kept) * cells.counts / self.histogram.cells

    def apply(self, change: Change, cells: Cells) -> None:
        """Carry it out."""
        if change.scale != 1:
            self.histogram.scale(change.scale)
        if change.lift:
            self.histogram.lift(change.lift)
        if change.factor != 1:
            self.histogram.multiply(cells, change.factor)
        self.size = change.size
        self.changes = (*self.changes, change)


@dataclass(frozen=True)
class Transcript:
    """Every change so far, in order: with the universe it is all there is to know of the histogram."""

    changes: tuple[Change, ...] = ()

    def then(self, change: Change) -> Self:
        """With one more."""
        return type(self)((*self.changes, change))

    def dump(self) -> bytes:
        """As the ledger keeps it, a line for each change; numbers come back bit by bit."""
        return b"\n".join(map(_line, self.changes))

    @classmethod
    def load(cls, data: bytes) -> Self:
        """What `dump` wrote."""
        return cls(tuple(map(_change, data.splitlines())))


@lru_cache(maxsize=KEPT)
def _line(change: Change) -> bytes:
    return json.dumps(asdict(change)).encode()


@lru_cache(maxsize=KEPT)
def _change(line: bytes) -> Change:
    return Change(**json.loads(line))


def _tilted(levels: Floats, masses: Floats, goal: float) -> float:
    """The least exponent, to the last bit or so, at which the average weight reaches the goal."""
    low, high = 0.0, math.log(LARGEST_FACTOR)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        times = masses * np.exp(levels * middle)
        low, high = (low, middle) if float(times @ levels) >= goal * float(times.sum()) else (middle, high)
    return high
