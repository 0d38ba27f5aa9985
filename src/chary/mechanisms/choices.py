"""Private choices: noisy maximum, exponential mechanism, permute and flip, inverse sensitivity, votes, top k."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from chary import noise
from chary.accounting import Pure
from chary.accounting.numerics import doubled, first_within
from chary.errors import InvalidParameter
from chary.mechanisms.additive import Additive, Integers
from chary.noise import Source
from chary.noise.gaussian import Normals, normals, reaches
from chary.noise.partition import GUARD_BITS, LOOKUP_BITS, WEIGHT_ERROR, WORD_BITS, Bounds, Floats, powers
from chary.numbers import Number, checked, exact, optional, per_call, positive, probability, set_fields, whole

# The exponential mechanism: one of many candidates, the more useful the likelier.


@dataclass(frozen=True)
class Exponential:
    """Chooses j with `P(j)` exactly proportional to `exp(epsilon u_j / (2 sensitivity))`; monotone drops the 2.

    Guarantee: `Pure(epsilon)`, if every utility changes by at most `sensitivity` (whole steps) between neighbours, and
    the candidates do not depend on data. `monotone` says that all utilities change in the same direction, as counts of
    added units do; it is not checked.

    Utilities are integers of any size and sign, one a candidate; only differences matter.

    Source: theory chapter 4; McSherry, Talwar 2007.

    >>> chooser = Exponential("0.1", sensitivity=1)
    >>> [round(p, 4) for p in chooser.law([100, 120, 60]).probabilities()]
    [0.2595, 0.7054, 0.0351]
    >>> round(chooser.shortfall(3, 0.01), 1)
    114.1
    """

    epsilon: Number
    sensitivity: int
    monotone: bool = False

    def __post_init__(self) -> None:
        set_fields(self, epsilon=per_call(self.epsilon), sensitivity=whole(self.sensitivity, "sensitivity"))

    @property
    def outcomes(self) -> None:
        """Any number of candidates."""
        return None

    @property
    def unit(self) -> Fraction:
        """The exponent of a step of utility."""
        return positive(self.epsilon, "epsilon") / (self.sensitivity * (1 if self.monotone else 2))

    def law(self, utilities: Sequence[int] | Integers) -> noise.FiniteLaw:
        """The exact distribution of the choice.
        It depends on data: for drawing and for reports about synthetic data only."""
        return noise.ExponentialLaw(utilities, -self.unit)

    def step(self, utilities: Sequence[int] | Integers, source: noise.Source) -> int:
        """The position of the chosen candidate."""
        return self.law(utilities).draw(source)

    def event(self) -> Pure:
        """What the choice may reveal."""
        return Pure(self.epsilon)

    def shortfall(self, candidates: int, beta: Number) -> float:
        """The utility that is lost at most, with probability 1 - beta: `(2 sensitivity/epsilon) ln(candidates/beta)`.

        >>> Exponential(1, sensitivity=1, monotone=True).shortfall(1, "0.5")
        0.693147...
        """
        return math.log(whole(candidates, "candidates") / probability(beta, "beta")) / float(self.unit)


# Inverse sensitivity: an answer is the likelier, the fewer units would have to change to make it the true one.

# `bincount` adds widths in float64, which counts integers exactly up to here.
MOST_OUTCOMES: Final = 2**53
# Twice (75 + 8) 2**-52, for the sums above and below the line; and four times the roundings of a sum, for both of them.
_TERM_ERROR: Final = 2.0**-44
_SUM_ERROR: Final = 2.0**-51


@dataclass(frozen=True)
class Stretches:
    """Distances that are constant along stretches of numbered outcomes, which follow each other without gaps.

    `starts` is the first outcome of each stretch, ascending from 0; `widths` how many outcomes it has. Secret.
    """

    starts: Integers
    widths: Integers
    distances: Integers

    @classmethod
    def of(cls, distances: Sequence[int] | Integers) -> "Stretches":
        """One stretch for each outcome."""
        given = np.asarray(distances, dtype=np.int64)
        return cls(np.arange(given.size), np.ones(given.size, dtype=np.int64), given)

    def __repr__(self) -> str:
        return "Stretches(<secret>)"


@dataclass(frozen=True)
class InverseSensitivity:
    """Chooses t with `P(t)` exactly proportional to `exp(-epsilon D(t) / 2)`; with `whole`, the 1/2 is dropped.

    Guarantee: `Pure(epsilon)`, if the outcomes do not depend on data and each distance D(t), an integer, changes by at
    most 1 between neighbours. The log-likelihood ratios lie in an interval of length epsilon, hence it is
    (epsilon^2/8)-zCDP. `whole` needs more. Either all distances change in one direction up to a constant, as
    `largest count - count` does when a unit is added. Or there are two outcomes, one of distance 0, where the zCDP is
    lost.

    Source: theory chapter 4; Asi, Duchi 2020.

    >>> chooser = InverseSensitivity(1)
    >>> [round(p, 4) for p in chooser.law(Stretches.of([2, 0, 1])).probabilities()]
    [0.5065, 0.3072, 0.1863]
    >>> chooser.distance_up(121, "0.05")
    15
    """

    epsilon: Number
    whole: bool = False

    def __post_init__(self) -> None:
        set_fields(self, epsilon=per_call(self.epsilon))

    @property
    def unit(self) -> Fraction:
        """The exponent of a step of distance."""
        return positive(self.epsilon, "epsilon") / (1 if self.whole else 2)

    def law(self, stretches: Stretches) -> "LevelLaw":
        """The exact distribution of the level, the distance of the chosen outcome. It depends on data."""
        levels, of = np.unique(stretches.distances, return_inverse=True)
        totals = np.bincount(of, weights=stretches.widths.astype(np.float64))
        return LevelLaw(totals.astype(np.int64), self.unit, levels)

    def step(self, stretches: Stretches, source: noise.Source) -> int:
        """The chosen outcome: a level by its distribution, then any outcome of that level."""
        law = self.law(stretches)
        level = law.levels[law.draw(source)]
        chosen = np.flatnonzero(stretches.distances == level)
        ends = np.cumsum(stretches.widths[chosen])
        at = int(noise.uniform_integers(source, int(ends[-1]), 1)[0])
        stretch = int(np.searchsorted(ends, at, side="right"))
        before = int(ends[stretch - 1]) if stretch else 0
        return int(stretches.starts[chosen[stretch]]) + at - before

    def pick(self, distances: Sequence[int] | Integers, source: noise.Source) -> int:
        """The chosen one of a list of outcomes, given the distance of each."""
        return noise.ExponentialLaw(distances, self.unit).draw(source)

    def event(self) -> Pure:
        """What the choice may reveal."""
        return Pure(self.epsilon)

    def distance_up(self, outcomes: int, beta: Number) -> int:
        """The distance that is exceeded with a probability of at most beta, whatever the data:
        `ln(outcomes/beta)/unit`.

        Some outcome must have distance 0.
        """
        return math.floor(math.log(whole(outcomes, "outcomes") / probability(beta, "beta")) / float(self.unit) + 1e-9)


class LevelLaw(noise.FiniteLaw):
    """`P(j)` exactly proportional to `totals[j] * exp(-unit * levels[j])`, for whole totals that sum to at most 2**53.

    Levels ascend from 0, without others 0, 1, 2, ...; `totals[0]` must be positive. A million take milliseconds. All
    weights are computed to more bits only where a cut point is closer to the random word than its error bound, once in
    a million draws of that size.

    >>> [round(p, 4) for p in LevelLaw(np.array([1, 10]), Fraction(1)).probabilities()]
    [0.2137, 0.7863]
    """

    def __init__(self, totals: Integers, unit: Fraction, levels: Integers | None = None) -> None:
        self.levels = np.arange(totals.size) if levels is None else levels
        if not totals.size or self.levels[0] or totals[0] < 1 or totals.min() < 0 or int(totals.sum()) > MOST_OUTCOMES:
            raise InvalidParameter("distances need an outcome of distance 0 and at most 2**53 outcomes")
        self._totals, self._unit = totals, unit

    @property
    def size(self) -> int:
        return len(self._totals)

    def bounds(self, bits: int) -> list[Bounds]:
        """Every power errs by at most one unit more than the one before it, which the guard bits hold."""
        work = bits + GUARD_BITS + 2 * self.size.bit_length() + MOST_OUTCOMES.bit_length()
        pairs = zip(self._totals.tolist(), powers(self._unit, np.diff(self.levels).tolist(), work), strict=True)
        weights = [(total * lower, total * upper) for total, (lower, upper) in pairs]
        least, most = (sum(column) for column in zip(*weights, strict=True))
        return [((lower << bits) // most, -((-upper << bits) // least)) for lower, upper in weights]

    def near(self) -> tuple[Floats, float]:
        """Each weight errs by `(x + 8) 2**-52` of itself, x being its exponent. By the distribution's own weights x
        averages at most 75, because the weights sum to 1 at least and the totals to 2**53 at most. Each sum errs by a
        rounding.
        """
        sums = self._weights.cumsum()
        points: Floats = sums[:-1] / sums[-1]
        return points, _TERM_ERROR + self.size * _SUM_ERROR

    @cached_property
    def _weights(self) -> Floats:
        with np.errstate(under="ignore"):
            powers = np.exp(-float(self._unit) * self.levels.astype(np.float64))
            weights: Floats = self._totals.astype(np.float64) * powers
        return weights


def mode_distances(counts: Integers, *, replace: bool) -> Integers:
    """For each key, how many units must change to make its count a largest one; each unit has one key.

    Adding units: the gap to the largest count. Replacing them: the least k at which the counts above this one by more
    than k exceed that by at most k in all. For each replaced unit leaves such a key and enters this one.

    >>> mode_distances(np.array([9, 4, 0]), replace=False), mode_distances(np.array([9, 4, 0]), replace=True)
    (array([0, 5, 9]), array([0, 3, 5]))
    """
    gaps: Integers = np.max(counts) - counts
    if not replace:
        return gaps
    ranked = np.sort(counts)[::-1]
    sums = np.concatenate([[0], np.cumsum(ranked)])
    low, high = np.full(len(counts), -1), gaps.copy()
    while np.any(high - low > 1):
        middle = (low + high) // 2
        leads = np.searchsorted(-ranked, -(counts + middle))
        enough = sums[leads] - leads * (counts + middle) <= middle
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return high


def bits_distances(ones: int, size: int) -> Integers:
    """For each j = 0, ..., size, how many of `size` bits must be replaced for j of them to be 1.

    >>> bits_distances(2, 3)
    array([2, 1, 0, 1])
    """
    distances: Integers = np.abs(np.arange(whole(size, "size", least=0) + 1) - ones)
    return distances


# Majority vote: whether more units say yes than no, by three distributions of which the default errs least.

Rule = Literal["noise", "inverse", "exponential"]


@dataclass(frozen=True)
class MajorityVote:
    """Yes or no, whichever more units say, up to noise; an even vote is settled by a fair coin.

    The *lead* is the number of yes less that of no. `moved` is how far one unit moves it: 2 where it is replaced, 1
    where it is added or removed.

    - "noise": the sign of the lead plus `moved` times discrete Laplace noise of scale 1/epsilon. With n = 2k + 1
      replaceable units, k + r of which say yes, it is wrong with probability `e^(-(r-1) epsilon) / (1 + e^epsilon)`. No
      epsilon-DP vote that treats both answers alike is wrong less often, for any r (docs/theory/choices.md).
    - "inverse": `P(yes) = 1 / (1 + e^(-r epsilon))`, r units at least having to change for another majority.
    - "exponential": the exponential mechanism on both counts, `P(yes) = 1 / (1 + e^(-(k + r - n/2) epsilon))`.

    Guarantee: `Pure(epsilon)`, if one unit moves the lead by at most `moved`. Source: theory chapter 4.

    >>> [round(MajorityVote("0.5", rule=rule).chance(3), 4) for rule in ("noise", "inverse", "exponential")]
    [0.771, 0.7311, 0.6792]
    """

    epsilon: Number
    moved: int = 2
    rule: Rule = "noise"

    def __post_init__(self) -> None:
        set_fields(self, epsilon=per_call(self.epsilon))
        if whole(self.moved, "moved") > 2:
            raise InvalidParameter("one unit moves the lead by 1 (added or removed) or by 2 (replaced)")
        if self.rule not in get_args(Rule):
            raise InvalidParameter(f"the rule is one of {', '.join(get_args(Rule))}")
        noise.checked_scale(self.scale)

    @property
    def scale(self) -> Fraction:
        """The scale of the noise in units, at least 2**-10."""
        return max(noise.SMALLEST_SCALE, 1 / positive(self.epsilon, "epsilon"))

    def step(self, lead: int, source: noise.Source) -> bool:
        """Whether yes has the majority, up to noise."""
        if self.rule == "noise":
            lead += self.moved * int(noise.discrete_laplace(source, self.scale, 1)[0])
            return lead > 0 if lead else bool(noise.bernoulli(source, noise.Enclosure.rational("1/2"), 1)[0])
        wrong = noise.Enclosure.logistic(self._odds(lead))
        return bool(noise.bernoulli(source, wrong, 1)[0]) != (lead > 0)

    def chance(self, lead: int) -> float:
        """The probability of yes; for reports about synthetic data, since the lead is data."""
        wrong = self._wrong(abs(lead))
        return 1 - wrong if lead > 0 else wrong

    def shortfall(self, beta: Fraction) -> float:
        """How many more units there may be on the other side, at most, with 1 - beta."""
        low, high = doubled(lambda lead: 1 - self.chance(lead) <= beta, 0, 1)
        return float(first_within(lambda lead: 1 - self.chance(lead), float(beta), low, high)[0])

    def event(self) -> Pure:
        """What the answer may reveal."""
        return Pure(self.epsilon)

    def _odds(self, lead: int) -> Fraction:
        """The logarithm of the odds for the larger side, for the published rules."""
        units = Fraction(abs(lead), self.moved)
        return positive(self.epsilon, "epsilon") * (math.ceil(units) if self.rule == "inverse" else units)

    def _wrong(self, lead: int) -> float:
        """The noise must reach past the lead, or make it even and lose the coin."""
        if self.rule != "noise":
            return _logistic(float(self._odds(lead)))
        step = 1 / float(self.scale)
        reached, even = -(-lead // self.moved), lead % self.moved == 0
        beyond = reached + 1 if even else reached
        most = math.exp(-step * beyond)
        return (most + (even and (math.exp(-step * reached) - most) / 2)) / (1 + math.exp(-step))


def _logistic(exponent: float) -> float:
    """`1 / (1 + exp(exponent))` without overflow."""
    return math.exp(-exponent) / (1 + math.exp(-exponent))


# Report noisy max: noise for every candidate, and the one that comes out first, without its score.

Shape = Literal["laplace", "exponential", "gumbel"]


@dataclass(frozen=True)
class ReportNoisyMax:
    """The candidate with the largest utility plus noise of scale `2 sensitivity / epsilon`; monotone drops the 2.

    Guarantee: `Pure(epsilon)`, under the conditions of `Exponential`. Proof: keep all noise but that of the chosen
    candidate, and the order of equals. It is chosen when its noise reaches an integer k, which moves by at most
    2 sensitivity between neighbours (monotone: by sensitivity), and `P(noise >= k) <= e^(1/scale) P(noise >= k + 1)`.

    - "laplace": discrete Laplace noise, equals told apart by a fair draw.
    - "exponential": geometric noise and a fair draw among equals. A continuous exponential variable is a geometric
      number of whole steps and an independent rest, so this is continuous noise exactly, and permute-and-flip in
      distribution.
    - "gumbel": drawn from its distribution, that of the exponential mechanism.

    Source: theory chapter 4; Ding et al. 2021 for exponential noise.

    >>> from chary.noise import OperatingSystem
    >>> ReportNoisyMax(1000, sensitivity=1).step([3, 9, 4], OperatingSystem())
    1
    """

    epsilon: Number
    sensitivity: int
    monotone: bool = False
    shape: Shape = "laplace"

    def __post_init__(self) -> None:
        set_fields(self, epsilon=self.exponential.epsilon)
        if self.shape not in get_args(Shape):
            raise InvalidParameter(f"the noise is one of {', '.join(get_args(Shape))}")
        noise.checked_scale(self.scale)

    @property
    def exponential(self) -> Exponential:
        """The exponential mechanism of the same size."""
        return Exponential(self.epsilon, self.sensitivity, self.monotone)

    @property
    def scale(self) -> Fraction:
        """The scale of the noise in steps of utility, at least 2**-10."""
        return max(noise.SMALLEST_SCALE, 1 / self.exponential.unit)

    def step(self, utilities: Sequence[int] | Integers, source: noise.Source) -> int:
        """The position of the chosen candidate."""
        if self.shape == "gumbel":
            return self.exponential.step(utilities, source)
        if not len(utilities):
            raise InvalidParameter("there must be at least one candidate")
        given = utilities if isinstance(utilities, np.ndarray) else np.array(utilities, dtype=object)
        draw = noise.geometric if self.shape == "exponential" else noise.discrete_laplace
        # Sums that left int64 come back as Python ints, which compare exactly: no score is compared after rounding.
        first = largest(noise.add(given, draw(source, self.scale, len(utilities))))
        return int(first[noise.uniform_integers(source, first.size, 1)[0]])

    def step_with_lead(self, utilities: Sequence[int] | Integers, source: noise.Source) -> tuple[int, int]:
        """The winner, and how many steps more its noisy utility has than it needed to win: epsilon-DP together.

        Equals are told apart by a random order, which counts: where a runner-up comes before the winner, that needed a
        step more. The plain gap to the runner-up can lose twice epsilon where the first of equals wins
        (docs/theory/choices.md). Laplace noise alone reaches both ways. Source: Ding, Wang, Zhang, Kifer 2019.

        >>> from chary.noise import OperatingSystem
        >>> ReportNoisyMax(1000, sensitivity=1).step_with_lead([3, 9, 9], OperatingSystem())[1]
        0
        """
        if self.shape != "laplace" or len(utilities) < 2:
            raise InvalidParameter("a lead is for at least two candidates, with Laplace noise")
        given = utilities if isinstance(utilities, np.ndarray) else np.array(utilities, dtype=object)
        noisy = noise.add(given, noise.discrete_laplace(source, self.scale, len(given)))
        first = largest(noisy)
        winner = int(first[noise.uniform_integers(source, first.size, 1)[0]])
        others = np.delete(noisy, winner)
        gap = int(noisy[winner]) - int(others.max())
        # The winner precedes all runners-up with probability 1/(1 + their number); of equals it is the first.
        behind = noise.uniform_integers(source, largest(others).size + 1, 1)[0] > 0
        return winner, gap - int(gap > 0 and behind)

    def event(self) -> Pure:
        """What the choice may reveal."""
        return Pure(self.epsilon)


def largest(scores: Integers) -> NDArray[np.intp]:
    """The positions of all largest scores.

    >>> largest(np.array([4, 7, 7, 1])).tolist()
    [1, 2]
    """
    return np.flatnonzero(scores == scores.max())


# Permute-and-flip, which is report-noisy-max with exponential noise: exact choices of any number of candidates.

# The distribution needs numbers of 2 n bits more and n**3 products: 32 candidates take milliseconds. Choices have no
# limit.
MOST_CANDIDATES: Final = 32
# Sixteen times the error that `near` derives; too wide only sends more draws to the enclosures.
_ERROR: Final = 2.0**-44
# That of the weights in units of a 16-bit word; the rounding of the product with 2**16 is exact.
_CELL_ERROR: Final = WEIGHT_ERROR * 2**LOOKUP_BITS


class PermuteAndFlip(Exponential):
    """Tries the candidates in random order, taking j with probability `exp(epsilon (u_j - max u) / (2 sensitivity))`.

    Guarantee: `Pure(epsilon)`, under the conditions of `Exponential`; its expected utility is never below that of
    `Exponential`. Choices are exact and fast for any number of candidates; only `law` takes at most 32 of them.

    Source: theory chapter 4; McKenna, Sheldon 2020. Ding et al. 2021 for the equality with report-noisy-max.

    >>> [round(p, 4) for p in PermuteAndFlip("0.1", sensitivity=1).law([100, 120, 60]).probabilities()]
    [0.1809, 0.7973, 0.0218]
    """

    def law(self, utilities: Sequence[int] | Integers) -> noise.FiniteLaw:
        if len(utilities) > MOST_CANDIDATES:
            raise InvalidParameter(
                f"the distribution of permute-and-flip is known for at most {MOST_CANDIDATES} candidates"
            )
        return FlipLaw(noise.ExponentialLaw(utilities, -self.unit))

    def step(self, utilities: Sequence[int] | Integers, source: noise.Source) -> int:
        """The position of the chosen candidate.

        Coins do not depend on the order in which they are tried, so all are thrown at once. The first in random order
        among those that came up is any of them with the same probability.
        """
        taken = np.flatnonzero(_coins(utilities, self.unit, source))
        return int(taken[noise.uniform_integers(source, taken.size, 1)[0]])


class FlipLaw(noise.FiniteLaw):
    """The distribution of permute-and-flip, from weights a_j of which the largest is 1.

    With independent uniform times of arrival, P(j) is a_j times the integral over [0, 1] of the product over i != j of
    `1 - a_i t`, a polynomial.
    """

    def __init__(self, chances: noise.ExponentialLaw) -> None:
        self._chances = chances

    @property
    def size(self) -> int:
        return self._chances.size

    def bounds(self, bits: int) -> list[Bounds]:
        """The product has coefficients below 2**size, and the sums lose as many bits again."""
        work = bits + 2 * self.size + GUARD_BITS
        weights = self._chances.weights(work)
        found = {weights[j]: _flip_bounds(j, weights, work) for j in range(self.size)}
        return [(found[weight][0] >> work - bits, -(-found[weight][1] >> work - bits)) for weight in weights]

    def near(self) -> tuple[Floats, float]:
        """Gauss-Legendre quadrature, exact for the degree: all its terms are positive and err by size * 2**-48."""
        weights = self._chances.near_weights()
        times, shares = _quadrature(self.size)
        misses = 1 - np.outer(times, weights)
        parts = [weights[j] * (shares @ np.delete(misses, j, axis=1).prod(axis=1)) for j in range(self.size)]
        return np.cumsum(parts)[:-1], self.size**2 * _ERROR


def _coins(utilities: Sequence[int] | Integers, unit: Fraction, source: noise.Source) -> NDArray[np.bool_]:
    """For each candidate True with probability exactly `exp(-unit (max - utility))`, all independent.

    16 bits decide by a float nearly always; where the probability may lie between them and the next, enclosures decide.
    """
    scaled = noise.ExponentialLaw(utilities, -unit).near_weights() * 2**LOOKUP_BITS
    cells = source.words(scaled.size, LOOKUP_BITS)
    up: NDArray[np.bool_] = cells + 1.0 <= scaled - _CELL_ERROR
    open_ones = np.flatnonzero(~up & (cells < scaled + _CELL_ERROR)).tolist()
    best = int(utilities.max() if isinstance(utilities, np.ndarray) else max(utilities))
    tails = source.words(len(open_ones), WORD_BITS).tolist()
    for j, tail in zip(open_ones, tails, strict=True):
        word = int(cells[j]) << WORD_BITS - LOOKUP_BITS | tail >> LOOKUP_BITS
        up[j] = noise.Enclosure.exponential((best - int(utilities[j])) * unit).reached(source, word, WORD_BITS)
    return up


@lru_cache(maxsize=MOST_CANDIDATES)
def _quadrature(size: int) -> tuple[Floats, Floats]:
    nodes, shares = np.polynomial.legendre.leggauss(size // 2 + 1)
    return (nodes + 1) / 2, shares / 2


def _flip_bounds(chosen: int, weights: Sequence[Bounds], bits: int) -> Bounds:
    """Bounds of P(chosen), from the coefficients `e_k >= 0` of the product, which count with the sign of (-1)^k."""
    rest = [weight for j, weight in enumerate(weights) if j != chosen]
    least, most = (_symmetric([weight[end] for weight in rest], bits, round_up=end == 1) for end in (0, 1))
    terms = [(k + 1, pair) for k, pair in enumerate(zip(least, most, strict=True))]
    lower = sum(low // k if k % 2 else high // -k for k, (low, high) in terms)
    upper = -sum(high // -k if k % 2 else low // k for k, (low, high) in terms)
    return max(0, lower) * weights[chosen][0] >> bits, -(-upper * weights[chosen][1] >> bits)


def _symmetric(values: Iterable[int], bits: int, *, round_up: bool) -> list[int]:
    """The elementary symmetric polynomials of values scaled by 2**bits, each product rounded one way."""
    sums = [1 << bits]
    for value in values:
        products = [-(-term * value >> bits) if round_up else term * value >> bits for term in sums]
        sums = [term + product for term, product in zip([*sums, 0], [0, *products], strict=True)]
    return sums


# One-shot selection ([TCT] Algorithm 3): every candidate runs once, the best are published with their noisy scores.

Score = int | float


@dataclass(frozen=True)
class Ranked:
    """The positions that are published, best first, and their noisy values in grid steps."""

    positions: list[int]
    noisy: list[int]


@dataclass(frozen=True)
class OneShotTopK:
    """Which of many noisy scores are published: the best `most`, best first; of equal ones the earlier candidate.

    `gap` ends the list where the next score is more than this below the last; `above` ends it where the next score is
    below this threshold. A candidate that failed (None) ranks below every score, reaches no threshold and is a gap
    away.

    Guarantee: if each candidate's outcome is epsilon-DP on its own, this is `Extendable(epsilon)` with one hit for each
    published candidate, whatever their number. For one threshold comes down over the pairs (score, position) of all
    withheld outcomes and stops by what was published. Hence ties cost nothing, and where it stops depends on nothing
    unpublished but misses. If neighbours can differ in c candidates, at most min(hits, c) hits are charged.

    >>> OneShotTopK(2).choose([5, 9, None, 9.0]), OneShotTopK(4, gap=3).choose([5, 9, None, 9])
    ([1, 3], [1, 3])
    >>> OneShotTopK(4, above=9).choose([5, 9])
    [1]
    """

    most: int
    gap: Number | None = None
    above: Number | None = None

    def __post_init__(self) -> None:
        whole(self.most, "k")
        checked(self, gap=optional(exact), above=optional(exact))
        if self.gap is not None and Fraction(self.gap) < 0:
            raise InvalidParameter("gap must not be negative")

    def choose(self, scores: Sequence[Score | None]) -> list[int]:
        """The positions that are published, best first, given the noisy scores of all candidates."""
        order = sorted(range(len(scores)), key=lambda position: _rank(scores[position]))[: self.most]
        return order[: self._kept([scores[position] for position in order])]

    def step(self, values: Integers, additive: Additive, source: noise.Source) -> Ranked:
        """Rank exact values, all in grid steps as `gap` and `above`, by fresh noise for each."""
        noisy = additive.apply(values, source)
        order = _best(noisy, self.most)
        steps = [int(noisy[position]) for position in order]
        kept = self._kept(steps)
        return Ranked([int(position) for position in order[:kept]], steps[:kept])

    def _kept(self, ranked: Sequence[Score | None]) -> int:
        """How many of the best scores are published."""
        for place, score in enumerate(ranked):
            last = ranked[place - 1] if place else None
            if self._below_bar(score) or (last is not None and self._far_below(score, last)):
                return place
        return len(ranked)

    def _below_bar(self, score: Score | None) -> bool:
        return self.above is not None and (score is None or score < Fraction(self.above))

    def _far_below(self, score: Score | None, last: Score) -> bool:
        return self.gap is not None and (score is None or Fraction(last) - Fraction(score) > Fraction(self.gap))


def _rank(score: Score | None) -> tuple[bool, Score]:
    return (score is None, 0 if score is None else -score)


def _best(noisy: Integers, most: int) -> NDArray[np.intp]:
    """The positions of the largest values, best first, the earlier of equal ones."""
    near = np.arange(len(noisy))
    if most < len(noisy):
        near = np.flatnonzero(noisy >= np.partition(noisy, len(noisy) - most)[len(noisy) - most])
    # Unlike the negative, the complement of an integer never overflows; it reverses the order just as well.
    order: NDArray[np.intp] = near[np.argsort(~noisy[near], kind="stable")][:most]
    return order


# The place of the largest of many values under real Gaussian noise ([GAUSS]; theory chapter 2).


@dataclass(frozen=True)
class GaussianMax:
    """The position of the largest value after Gaussian noise of standard deviation `noise`, in steps of the values.

    Guarantee: for values within a range, `Pure(accounting.noisy_max_epsilon_up(...))`. The noise is exactly normal
    (real numbers, as many bits of them as the comparisons need), so no float rounding leaks and ties have probability
    0.

    No values at all, or values which are no integers, raise `InvalidParameter`, which shows none.

    Source: [GAUSS]; theory chapter 2.

    >>> from chary.noise import OperatingSystem
    >>> GaussianMax(Fraction(1, 100)).step(np.array([3, 10, 7]), OperatingSystem())
    1
    """

    noise: Number

    def __post_init__(self) -> None:
        checked(self, noise=positive)

    def step(self, values: Sequence[int] | Integers, source: Source) -> int:
        """The position of the winner. One rounded comparison of all leaves few candidates, an exact one the winner."""
        values = values if isinstance(values, np.ndarray) else np.array(_whole_only(values), dtype=object)
        if values.ndim != 1 or not values.size or values.dtype.kind not in "iuO":
            raise InvalidParameter("a noisy maximum needs a list of at least one integer")
        drawn = normals(source, values.size)
        near = self._near(values, drawn)
        best, known = int(near[0]), drawn.one(int(near[0]))
        for position in near[1:].tolist():
            lead = Fraction(int(values[position]) - int(values[best]))
            scale = Fraction(self.noise)
            found = reaches(source, lead, [(scale, drawn.one(position)), (-scale, known)])
            best, known = (position, found.deviates[0]) if found.reached else (best, found.deviates[1])
        return best

    def _near(self, values: Integers, drawn: Normals) -> NDArray[np.intp]:
        """All positions that may hold the largest sum, given float64 and the known bits.

        A sum errs by at most `noise * 2**-32` for unknown bits, and by four roundings of its terms.
        """
        scale = float(self.noise)
        heights = _above_least(values)
        noises = scale * drawn.near()
        sums = heights + noises
        # Twice what open bits and roundings can be: a candidate too many costs a comparison, one too few the
        # distribution.
        error = scale * 2.0**-31 + 2.0**-50 * (float(heights.max()) + float(np.abs(noises).max()))
        return np.flatnonzero(sums >= sums.max() - 2 * error)


def _whole_only(values: Sequence[int]) -> list[int]:
    """A list of integers; an empty one, which is refused, for anything else."""
    found = list(values) if isinstance(values, (list, tuple, range)) else []
    return found if all(type(value) is int for value in found) else []


def _above_least(values: Integers) -> NDArray[np.float64]:
    """How far each value is above the least, each correctly rounded."""
    least = int(values.min())
    narrow = values.dtype.kind == "i" and int(values.max()) - least < 2**62
    heights: NDArray[np.float64] = (values.astype(np.int64 if narrow else object) - least).astype(np.float64)
    return heights
