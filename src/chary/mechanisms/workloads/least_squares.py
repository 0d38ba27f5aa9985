"""The matrix mechanism: measure the sums of a strategy, and put every question together by weighted least squares."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Final

import numpy as np
import scipy
from numpy.typing import NDArray

from chary.accounting import laplace_deviation
from chary.errors import InvalidQuery
from chary.mechanisms.additive import Additive, Gaussian, Integers, Laplace
from chary.mechanisms.workloads.linear_queries import Cells, LinearQueries
from chary.mechanisms.workloads.sum_strategies import CellChange, SumStrategy, strategies
from chary.numbers import Number, positive

Floats = NDArray[np.float64]
# Shares are told in thousandths; a group that gets less than five of them is not worth its noise.
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
        """The noise of one group for its share of epsilon or rho.

        One unit changes each sum by at most M and all by at most T, added. Laplace: T is counted in multiples of M.
        Gaussian: the squares add up to at most M T.
        """
        single, total = change.of(sums)
        if self.gaussian:
            return Gaussian.for_rho(positive(self.size, "rho") * share, l2_squared=single * total)
        part = positive(self.size, "epsilon") * share
        return Laplace.for_epsilon(part, sensitivity=single, times=-(-total // single))

    def precision(self, sums: Integers, change: CellChange) -> float:
        """What one over the variance of a group is proportional to, but for its share."""
        single, total = change.of(sums)
        return 1 / (single * total) if self.gaussian else 1 / float(single * -(-total // single)) ** 2

    def weights(self, shares: Floats, precisions: Floats) -> tuple[Floats, Floats]:
        """One over the variances, up to a common factor, and how they change with the shares."""
        if self.gaussian:
            return shares * precisions, precisions
        return shares**2 * precisions, 2 * shares * precisions


@dataclass(frozen=True, eq=False)
class MatrixMeasurement:
    """A strategy and the share of each of its groups; groups without a share are not measured.

    Guarantee: epsilon-DP, or rho-zCDP, for all sums together: each group is private for its share, and the shares sum
    to 1. The estimates are worked out from noisy sums alone, by weighted least squares, which has the least variance
    of all unbiased combinations of them.

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
        """The sums without noise, as whole numbers of any size."""
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
        """The same for continuous noise, which is at least as much."""
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
    """The strategy with the best shares; None where it cannot tell what is asked."""
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
    """The shares at which the variances of all answers have the least sum: `tr(H^-1 W)` of the weighted grams H."""
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
    """That of the continuous noise."""
    return float(noise.sigma_squared) if isinstance(noise, Gaussian) else 2 * float(_scale(noise)) ** 2


def _scale(noise: Additive) -> Fraction:
    assert isinstance(noise, Laplace)
    return noise.scale
