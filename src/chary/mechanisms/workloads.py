"""Workloads of linear queries: strategies, least squares, noise of moments."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from typing import Any, Final

import numpy as np
import scipy
from numpy.typing import NDArray

from chary import noise
from chary.accounting import Event, Pure, ZeroConcentrated, laplace_deviation
from chary.accounting.accuracy import gaussian_norm_up, laplace_norm_up, length_up
from chary.accounting.least_squares import NoisySquares
from chary.errors import InvalidQuery
from chary.mechanisms.additive import Additive, Gaussian, Integers, Laplace
from chary.numbers import Number, positive, probability, whole, work_out

# Noise on the number of rows, their sum, and the sums of products of their columns; all exact integers.


@dataclass(frozen=True)
class MomentNoise:
    """Noise for the moments of rows of d integers, at most `squared` long (squared, L2) and `most` in sum (L1).

    Let y = (c, s) be a row with one more column, the constant c, about half of the longest row. The number of rows
    times c^2, the sums times c, and the sums of products are the matrix of all y y'. Let r^2 = c^2 + `squared`.

    - `rho`: discrete Gaussian noise of variance v on the diagonal of that matrix and v/2 off it. The change by a row,
      counted in these variances, is `|y y'|_F^2 / v = |y|^4 / v <= r^4 / v`, and of a row that is replaced
      `|y y' - z z'|_F^2 / v <= 2 r^4 / v`, since `(y z')^2 >= 0`; of k rows k^2 times as much. Both are attained. So
      rho-zCDP, for v = k^2 r^4 / (2 rho), twice that where units are replaced (docs/theory/linear.md).
    - `epsilon`: discrete Laplace noise of scale b. A row changes all entries together by
      `c^2 + c most + (most^2 + squared)/2` at most, in these units; b is that by k, twice where units are replaced,
      over epsilon. So epsilon-DP.

    >>> made = MomentNoise(2, squared=200, most=20, rows=1, replace=False, rho="0.5")
    >>> made.constant, made.event(), made.size
    (7, ZeroConcentrated(rho=Fraction(1, 2)), Fraction(62001, 1))
    """

    columns: int
    squared: int
    most: int
    rows: int
    replace: bool
    epsilon: Number | None = None
    rho: Number | None = None

    def __post_init__(self) -> None:
        whole(self.columns, "columns")
        whole(self.squared, "squared")
        work_out(self.noises)  # refuses noise out of range

    @property
    def constant(self) -> int:
        """c: with half of the longest row, the means take a fifth of the length of a change; measured, less or more of
        it leaves the covariances farther off."""
        return max(1, math.isqrt(self.squared) // 2)

    @property
    def gaussian(self) -> bool:
        """Whether the noise is Gaussian."""
        return self.rho is not None

    @property
    def size(self) -> Fraction:
        """The variance v, or the scale b, of a sum of squares."""
        c, times = self.constant, 2 if self.replace else 1
        if self.rho is not None:
            length = self.rows**2 * (c**2 + self.squared) ** 2 * times
            return length / (2 * positive(self.rho, "rho"))
        # most^2 + squared is twice the sum over pairs; half of an odd number is rounded up.
        change = c**2 + c * self.most + (self.most**2 + self.squared + 1) // 2
        return self.rows * change * times / positive(self.epsilon or 0, "epsilon")

    def event(self) -> Event:
        """What all moments together may reveal."""
        return Pure(self.epsilon or 0) if self.rho is None else ZeroConcentrated(self.rho)

    @cached_property
    def noises(self) -> tuple[Additive, Additive, Additive, Additive]:
        """The noise of the number of rows, of a sum, of a sum of squares, of a sum of products of two columns."""
        c = self.constant
        if self.gaussian:
            return self._each(lambda part: Gaussian(max(noise.SMALLEST_VARIANCE, part), 1), c**4, 2 * c**2, 1, 2)
        return self._each(lambda part: Laplace(max(noise.SMALLEST_SCALE, part), 1), c**2, c, 1, 1)

    def _each(self, of: Callable[[Fraction], Additive], *parts: int) -> tuple[Additive, Additive, Additive, Additive]:
        one, sums, squares, products = (of(self.size / part) for part in parts)
        return one, sums, squares, products

    def apply(self, moments: Integers, source: noise.Source) -> Integers:
        """The noisy moments, in the order of `SecondMoments.keys`."""
        d = self.columns
        first, second = np.triu_indices(d)
        count, sums, squares, products = self.noises
        noisy = np.empty(len(moments), dtype=object)
        noisy[:1] = count.apply(moments[:1], source)
        noisy[1 : d + 1] = sums.apply(moments[1 : d + 1], source)
        for each, where in ((squares, first == second), (products, first != second)):
            places = np.flatnonzero(where) + d + 1
            noisy[places] = each.apply(moments[places], source)
        return noisy

    def squares(self, sums: NDArray[np.float64], places: Sequence[int]) -> NoisySquares:
        """The noisy matrix of sums of products of (1, s), and its noise, as the sums of y y' of these lines alone."""
        c, (count, own, squares, products) = self.constant, self.noises
        own_scale = np.array([c, *[1] * self.columns], dtype=float)
        scaled = sums * np.outer(own_scale, own_scale)
        if self.gaussian:
            parts = [(count, c**4), (own, 2 * c**2), (squares, 1), (products, 2)]
            scale = math.sqrt(max(_variance(each) * part for each, part in parts))
        else:
            scale = float(max(_scale(each) * part for each, part in ((count, c**2), (own, c), (squares, 1))))
        return NoisySquares(scaled[np.ix_(places, places)], scale, self.gaussian, c)

    def reaches(self, beta: Number) -> tuple[int, float, float]:
        """But for a probability of beta in all: how far off the number of rows is, the sums in L2, the products as a
        matrix in L2. Rounded up."""
        each, d = probability(beta, "beta") / 4, self.columns
        count, sums, squares, _ = self.noises
        rows = count.law().reach_up(each / 2)
        if isinstance(sums, Gaussian) and isinstance(squares, Gaussian):
            length = math.sqrt(sums.sigma_squared) * length_up(d, beta=each)
            return rows, length, gaussian_norm_up(d, variance=float(squares.sigma_squared), beta=2 * each)
        scale = float(squares.scale) if isinstance(squares, Laplace) else 0.0
        length = math.sqrt(d) * sums.law().reach_up(each / (2 * d))
        return rows, length, laplace_norm_up(d, scale=scale, beta=2 * each)


# Workloads: lists of linear questions about cells, each an integer for every cell.

Cells = tuple[tuple[Any, ...], ...]
# The best shares of privacy for that many take a second or two.
MOST_CELLS: Final = 256
MOST_QUESTIONS: Final = 20_000
# Noise is drawn for sums of cells, which must stay far from the ends of 64 bits.
LARGEST_WEIGHT: Final = 2**20
NAMES: Final = ("cells", "prefixes", "ranges")


@dataclass(frozen=True, eq=False)
class LinearQueries:
    """Questions about `cells`, in their order: `weights` has a row of integers for each, `keys` its name.

    Errors: `InvalidQuery` for fewer than two cells or more than 256, and for no questions or more than 20,000. Also for
    a row of another length, or of zeros alone, and for weights that are no integers up to 2**20.

    >>> asked = LinearQueries.of("prefixes", (("a",), ("b",), ("c",)), ("letter",))
    >>> asked.columns, asked.keys[1], asked.weights.tolist()
    (('first', 'last'), ('a', 'b'), [[1, 0, 0], [1, 1, 0], [1, 1, 1]])
    """

    columns: tuple[str, ...]
    keys: tuple[tuple[Any, ...], ...]
    weights: Integers

    @classmethod
    def of(cls, workload: Any, cells: Cells, columns: Sequence[str]) -> "LinearQueries":
        """A workload by name, by marginals (lists of the cells' columns), or by rows of weights, which may have names.

        "cells" asks each cell, "prefixes" the sums of the first 1, 2, ... cells in the order of the list, "ranges" the
        sum of every run of neighbouring ones. `[["sex"], ["sex", "age"], []]` asks, for each list of columns, the sum
        of the cells for each combination of their values: the last one is the sum of all. `{"old": [0, 0, 1]}` asks one
        sum by weights.
        """
        if not 2 <= len(cells) <= MOST_CELLS:
            raise InvalidQuery(f"a workload is about 2 to {MOST_CELLS} cells: give the query as many keys")
        if isinstance(workload, str):
            return _runs(workload, cells)
        if isinstance(workload, Mapping):
            return cls(("question",), tuple((str(name),) for name in workload), _rows(list(workload.values()), cells))
        listed = list(workload)
        if listed and all(isinstance(part, (list, tuple)) and all(isinstance(n, str) for n in part) for part in listed):
            return _marginals([tuple(part) for part in listed], cells, tuple(columns))
        return cls(("question",), tuple((number,) for number in range(len(listed))), _rows(listed, cells))

    @property
    def gram(self) -> NDArray[np.float64]:
        """The products of all pairs of its columns, which is all of it that decides about errors."""
        weights = self.weights.astype(np.float64)
        found: NDArray[np.float64] = weights.T @ weights
        return found


def partitions(cells: Cells) -> dict[tuple[int, ...], Integers]:
    """For each set of the cells' columns, the sums of the cells by their values there, in the order of the cells.

    >>> [weights.tolist() for weights in partitions((("f", 1), ("f", 2))).values()]
    [[[1, 1]], [[1, 1]], [[1, 0], [0, 1]], [[1, 0], [0, 1]]]
    """
    width = len(cells[0])
    sets = [places for size in range(width + 1) for places in combinations(range(width), size)]
    return {places: _grouped(cells, places)[1] for places in sets}


def _runs(name: str, cells: Cells) -> LinearQueries:
    size, ends = len(cells), [_scalar(cell) for cell in cells]
    if name not in NAMES:
        raise InvalidQuery(f"a workload is one of {', '.join(NAMES)}, lists of columns, or rows of integers")
    pairs = [(low, low) for low in range(size)] if name == "cells" else [(0, high) for high in range(size)]
    if name == "ranges":
        pairs = [(low, high) for low in range(size) for high in range(low, size)]
    _check_number(len(pairs))
    places = np.arange(size)
    first, last = (np.array(column)[:, None] for column in zip(*pairs, strict=True))
    weights = ((places >= first) & (places <= last)).astype(np.int64)
    return LinearQueries(("first", "last"), tuple((ends[low], ends[high]) for low, high in pairs), weights)


def _marginals(asked: Sequence[tuple[str, ...]], cells: Cells, columns: tuple[str, ...]) -> LinearQueries:
    if any(name not in columns for part in asked for name in part) or any(len(set(part)) < len(part) for part in asked):
        raise InvalidQuery(f"marginals are lists of the columns of the query, {', '.join(columns)}")
    keys: list[tuple[Any, ...]] = []
    rows: list[Integers] = []
    for part in asked:
        found, weights = _grouped(cells, tuple(columns.index(name) for name in part))
        named = [dict(zip(part, values, strict=True)) for values in found]
        keys += [tuple(values.get(name) for name in columns) for values in named]
        rows.append(weights)
    _check_number(len(keys))
    if len(set(keys)) < len(keys):
        raise InvalidQuery("each marginal is asked once")
    return LinearQueries(columns, tuple(keys), np.concatenate(rows))


def _grouped(cells: Cells, places: tuple[int, ...]) -> tuple[list[tuple[Any, ...]], Integers]:
    """The different values of some columns, and which cells have them."""
    parts = [tuple(cell[place] for place in places) for cell in cells]
    found = list(dict.fromkeys(parts))
    numbers = {values: number for number, values in enumerate(found)}
    weights = np.zeros((len(found), len(cells)), dtype=np.int64)
    weights[[numbers[part] for part in parts], np.arange(len(cells))] = 1
    return found, weights


def _rows(rows: list[Any], cells: Cells) -> Integers:
    _check_number(len(rows))
    for row in rows:
        known = isinstance(row, (list, tuple)) and len(row) == len(cells)
        if not known or any(type(weight) is not int or abs(weight) > LARGEST_WEIGHT for weight in row):
            raise InvalidQuery(f"each question is a list of {len(cells)} integers up to 2**20, one for each cell")
        if not any(row):
            raise InvalidQuery("a question whose weights are all 0 has the answer 0")
    return np.array(rows, dtype=np.int64)


def _check_number(questions: int) -> None:
    if not 1 <= questions <= MOST_QUESTIONS:
        raise InvalidQuery(f"a workload has 1 to {MOST_QUESTIONS:,} questions")


def _scalar(cell: tuple[Any, ...]) -> Any:
    return cell[0] if len(cell) == 1 else cell


# Strategies: which sums of cells are measured with noise, in groups that share the privacy between them.

BRANCHINGS: Final = (2, 4, 8, 16)
# Sets of columns double with each one; keys of more have hardly any sums to share.
MOST_COLUMNS: Final = 5


@dataclass(frozen=True)
class CellChange:
    """How far one unit can change the cells: `single` one of them, `together` the sum of any of them, `l1` all, added.

    >>> CellChange(single=1, together=1, l1=2).of(np.array([[1, 1, 0], [0, 0, 1]]))
    (1, 2)
    """

    single: int
    together: int
    l1: int

    def of(self, sums: Integers) -> tuple[int, int]:
        """How far it changes one of these sums of cells, and all of them, added.

        All change by at most `l1` times the largest column. One sum changes by at most `single` times its weights.
        Weights of one sign up to e are a mixture of sets of cells with e in all. So it also changes by at most
        `together` times e, or `l1` times e for both signs.
        """
        sizes = np.abs(sums)
        one_sign = np.all(sums >= 0, axis=1) | np.all(sums <= 0, axis=1)
        spread = [self.together if same else self.l1 for same in one_sign.tolist()]
        most = [
            min(self.single * weights, each * largest)
            for weights, each, largest in zip(
                sizes.sum(axis=1).tolist(), spread, sizes.max(axis=1).tolist(), strict=True
            )
        ]
        total = self.l1 * int(sizes.sum(axis=0).max())
        return min(max(most), total), total


@dataclass(frozen=True, eq=False)
class SumStrategy:
    """Sums of cells to be measured, in groups; a larger share of the privacy makes the noise of a group smaller."""

    name: str
    groups: tuple[Integers, ...]

    @cached_property
    def grams(self) -> NDArray[np.float64]:
        """For each group the products of all pairs of its columns."""
        return np.stack([group.T.astype(np.float64) @ group.astype(np.float64) for group in self.groups])

    @property
    def sums(self) -> int:
        """The number of sums in all groups."""
        return sum(map(len, self.groups))


def strategies(asked: LinearQueries, cells: Cells) -> Iterator[SumStrategy]:
    """The strategies that are tried: single cells, the questions themselves, hierarchies, and all marginals."""
    identity = np.eye(len(cells), dtype=np.int64)
    yield SumStrategy("identity", (identity,))
    yield SumStrategy("workload", (np.unique(asked.weights, axis=0),))
    for branching in BRANCHINGS:
        if branching < len(cells):
            yield hierarchy(len(cells), branching)
    if 1 < len(cells[0]) <= MOST_COLUMNS:
        yield SumStrategy("marginals", tuple(partitions(cells).values()))


def hierarchy(cells: int, branching: int) -> SumStrategy:
    """Runs of 1, b, b**2, ... neighbouring cells, and the sum of all.

    >>> [len(level) for level in hierarchy(9, 4).groups]
    [9, 3, 1]
    """
    levels, places, width = [], np.arange(cells), 1
    while True:
        blocks = places // width
        levels.append((blocks == np.arange(blocks[-1] + 1)[:, None]).astype(np.int64))
        if width >= cells:
            return SumStrategy(f"hierarchy of {branching}", tuple(levels))
        width *= branching


# The matrix mechanism: measure the sums of a strategy, and put every question together by weighted least squares.

Floats = NDArray[np.float64]
# Shares are rounded to thousandths; a group that gets less than five of them is not worth its noise.
SHARES: Final = 1000
LEAST_SHARE: Final = 5
# A matrix of questions by sums with more entries takes 80 MB.
MOST_ENTRIES: Final = 10**7
# Whether a question is a combination of the sums: residues are 1e-12 where it is and 1 where it is not.
_RESIDUE: Final = 1e-6
# What is better by less than a thousandth may be so by rounded shares alone: then the first strategy is taken.
_BETTER: Final = 0.999


@dataclass(frozen=True)
class Noising:
    """Which noise makes a strategy private: discrete Laplace noise for `epsilon`, or discrete Gaussian for `rho`."""

    size: Number
    gaussian: bool

    def noise(self, sums: Integers, change: CellChange, share: Fraction) -> Additive:
        """The noise of one group for its part of epsilon or rho.

        One unit changes each sum by at most M and all by at most T, added. Laplace: T is counted in multiples of M.
        Gaussian: the squares add up to at most M T.
        """
        single, total = change.of(sums)
        if self.gaussian:
            return Gaussian.for_rho(positive(self.size, "rho") * share, l2_squared=single * total)
        part = positive(self.size, "epsilon") * share
        return Laplace.for_epsilon(part, sensitivity=single, times=-(-total // single))

    def precision(self, sums: Integers, change: CellChange) -> float:
        """What one over the variance of a group is proportional to, but for its part of the privacy."""
        single, total = change.of(sums)
        return 1 / (single * total) if self.gaussian else 1 / float(single * -(-total // single)) ** 2

    def weights(self, shares: Floats, precisions: Floats) -> tuple[Floats, Floats]:
        """One over the variances, up to a common factor, and how they change with the parts."""
        if self.gaussian:
            return shares * precisions, precisions
        return shares**2 * precisions, 2 * shares * precisions


@dataclass(frozen=True, eq=False)
class MatrixMeasurement:
    """A strategy and the part of the privacy of each of its groups; groups without a part are not measured.

    Guarantee: epsilon-DP, or rho-zCDP, for all sums together: each group is private for its part, and the parts sum to
    1. The estimates are worked out from noisy sums alone, by weighted least squares, which has the least variance of
    all unbiased combinations of them.

    >>> cells = tuple((k,) for k in range(64))
    >>> asked = LinearQueries.of("prefixes", cells, ("k",))
    >>> found = best_measurement(asked, cells, CellChange(1, 1, 1), Noising(1, gaussian=False))
    >>> found.strategy.name, [round(float(error)) for error in (found.rms, found.deviations.max())]
    ('hierarchy of 4', [6, 7])
    """

    asked: LinearQueries
    strategy: SumStrategy
    shares: tuple[Fraction, ...]
    change: CellChange
    noising: Noising

    @cached_property
    def measured(self) -> Sequence[int]:
        """The numbers of the groups that are."""
        return [number for number, share in enumerate(self.shares) if share]

    @cached_property
    def noises(self) -> Sequence[Additive]:
        """The noise of each group that is measured."""
        groups = self.strategy.groups
        return [self.noising.noise(groups[number], self.change, self.shares[number]) for number in self.measured]

    @cached_property
    def sums(self) -> Integers:
        """The sums of cells that are measured."""
        return np.concatenate([self.strategy.groups[number] for number in self.measured])

    def exact(self, cells: Any) -> list[Any]:
        """The sums without noise, as integers of any size."""
        given = np.asarray(cells).astype(object)
        parts = (self.strategy.groups[number].astype(object) @ given for number in self.measured)
        return list(parts)

    @cached_property
    def combination(self) -> Floats:
        """The weight of every sum in every answer."""
        design = self.sums.astype(np.float64)
        # Those of continuous noise, which are never 0 in floats.
        scaled = design.T * self._each([1 / _variance(noise) for noise in self.noises])
        inverse = _inverse(scaled @ design)
        found: Floats = self.asked.weights.astype(np.float64) @ inverse @ scaled
        return found

    def estimates(self, noisy: Sequence[int]) -> Floats:
        """All answers, in steps, from the noisy sums."""
        found: Floats = self.combination @ np.array([float(value) for value in noisy])
        return found

    @cached_property
    def deviations(self) -> Floats:
        """The standard deviation of each answer, in steps, from the variances of the noise on the grid."""
        found: Floats = np.sqrt(self.combination**2 @ self._each(self._variances))
        return found

    @cached_property
    def smooth_deviations(self) -> Floats:
        """`deviations` for continuous noise, which is at least as much."""
        found: Floats = np.sqrt(self.combination**2 @ self._each([_variance(noise) for noise in self.noises]))
        return found

    @property
    def rms(self) -> float:
        """The root of the mean squared error of all answers, in steps."""
        return float(np.sqrt(np.mean(self.deviations**2)))

    @cached_property
    def _variances(self) -> list[float]:
        return [_variance(n) if isinstance(n, Gaussian) else laplace_deviation(_scale(n)) ** 2 for n in self.noises]

    def _each(self, of_groups: Sequence[float]) -> Floats:
        """A figure of each group for each of its sums."""
        return np.repeat(of_groups, [len(self.strategy.groups[number]) for number in self.measured])


def best_measurement(
    asked: LinearQueries, cells: Cells, change: CellChange, noising: Noising, strategy: str | None = None
) -> MatrixMeasurement:
    """The strategy of that name, or of all the one with the least mean squared error, with the best shares found.

    Nothing here depends on data. Errors: `InvalidQuery` for an unknown name, one that cannot answer the workload, and
    where all are too large.
    """
    tried = list(strategies(asked, cells))
    if strategy is not None and strategy not in [each.name for each in tried]:
        raise InvalidQuery(f"a strategy for these cells is one of {', '.join(each.name for each in tried)}")
    fits = [each for each in tried if strategy in (None, each.name) and each.sums * len(asked.keys) <= MOST_ENTRIES]
    found = [made for each in fits if (made := _shared(asked, each, change, noising)) is not None]
    if not found:
        raise InvalidQuery("the workload is too large: ask fewer questions, or about fewer cells")
    return _least(found)


def _least(found: Iterable[MatrixMeasurement]) -> MatrixMeasurement:
    best, *others = found
    for other in others:
        if other.rms < best.rms * _BETTER:
            best = other
    return best


def _shared(
    asked: LinearQueries, strategy: SumStrategy, change: CellChange, noising: Noising
) -> MatrixMeasurement | None:
    """The strategy with the best shares; None where the questions are no combinations of its sums."""
    precisions = np.array([noising.precision(group, change) for group in strategy.groups])
    best = _best_shares(strategy.grams, asked.gram, precisions, noising)
    parts = np.rint(best * SHARES).astype(int)
    parts[parts < LEAST_SHARE] = 0
    if not _tells(strategy.grams[parts > 0].sum(axis=0), asked.gram):
        parts = np.maximum(np.rint(best * SHARES).astype(int), 1)
    if not _tells(strategy.grams[parts > 0].sum(axis=0), asked.gram):
        return None
    shares = tuple(Fraction(int(part), int(parts.sum())) for part in parts)
    return MatrixMeasurement(asked, strategy, shares, change, noising)


def _best_shares(grams: Floats, wanted: Floats, precisions: Floats, noising: Noising) -> Floats:
    """The parts at which the variances of all answers have the least sum: `tr(H^-1 W)` of the weighted grams H."""
    if len(grams) == 1:
        return np.ones(1)
    flat = grams.reshape(len(grams), -1)

    def loss(free: Floats) -> tuple[float, Floats]:
        shares = scipy.special.softmax(free)
        weights, slopes = noising.weights(shares, precisions)
        inverse = _inverse((weights @ flat).reshape(wanted.shape))
        half = inverse @ wanted
        total = float(np.trace(half))
        by_share = -(flat @ (half @ inverse).T.ravel()) * slopes
        # The logarithm has one scale whatever the workload.
        found: Floats = shares * (by_share - shares @ by_share) / total
        return float(np.log(total)), found

    done = scipy.optimize.minimize(loss, np.zeros(len(grams)), jac=True, method="L-BFGS-B", options={"maxiter": 30})
    shares: Floats = scipy.special.softmax(done.x)
    return shares


def _tells(gram: Floats, wanted: Floats) -> bool:
    """Whether all that is asked are combinations of what is measured."""
    kept = gram @ _inverse(gram) @ wanted
    return bool(np.abs(kept - wanted).max() <= _RESIDUE * np.abs(wanted).max())


def _inverse(gram: Floats) -> Floats:
    """The inverse of products of columns; on what they span alone, where that is not everything."""
    try:
        corners = np.diag(np.linalg.cholesky(gram))
        if corners.min() > _RESIDUE * corners.max():
            return np.asarray(np.linalg.inv(gram), dtype=np.float64)
    except np.linalg.LinAlgError:
        pass
    return np.asarray(np.linalg.pinv(gram, hermitian=True, rcond=_RESIDUE**2), dtype=np.float64)


def _variance(noise: Additive) -> float:
    """The variance of the continuous noise of this scale."""
    return float(noise.sigma_squared) if isinstance(noise, Gaussian) else 2 * float(_scale(noise)) ** 2


def _scale(noise: Additive) -> Fraction:
    assert isinstance(noise, Laplace)
    return noise.scale
