"""Membership: whether somebody is in the data, traced in a mean of many attributes (Homer et al. 2008)."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from scipy.special import ndtr, ndtri

from chary.errors import InvalidParameter
from chary.filters import Budget
from chary.numbers import Number, probability, whole
from chary_research.attacks import limits

# One outsider in twenty: the usual point at which attacks are compared. The curve is reported at every hundredth.
FPR = 0.05
GRID = 101
# Scores take an array of floats of that size: 160 megabytes.
MOST_CELLS = 20_000_000
# Shares of 0 and 1 alone have no spread, and 0/0 would be NaN.
TINY = 1e-300
Scores = tuple[limits.Floats, limits.Floats]


@dataclass(frozen=True)
class Power:
    """How well members are distinguished from outsiders.

    - `tpr`: the proportion of members found at the threshold that at most 5 % of the outsiders pass.
    - `auc`: the probability that a member scores higher than an outsider; 0.5 is guessing.
    - `advantage`: the largest difference between the two shares at any threshold; 0 is guessing. Measured, it is the
      best of many thresholds, so a little too large.
    - `roc`: the proportion of members found at false-positive rates of 0, 0.01, ..., 1.
    """

    tpr: float
    auc: float
    advantage: float
    roc: tuple[float, ...]

    @classmethod
    def measured(cls, members: limits.Floats, outsiders: limits.Floats) -> "Power":
        """From scores of both.

        >>> Power.measured(np.array([2.0, 3.0]), np.array([1.0, 2.5])).auc
        0.75
        """
        falling = -np.sort(-outsiders)
        passed = np.concatenate([falling, [-np.inf]])
        ranks = scipy.stats.rankdata(np.concatenate([members, outsiders]))[: len(members)]
        below = ranks.sum() - len(members) * (len(members) + 1) / 2
        found = _above(members, passed)
        allowed = [int(rate * len(outsiders) + 1e-9) for rate in np.linspace(0, 1, GRID)]
        false = _above(outsiders, passed)
        return cls(
            tpr=float(found[int(FPR * len(outsiders) + 1e-9)]),
            auc=float(below / (len(members) * len(outsiders))),
            advantage=float(np.max(found - false)),
            roc=tuple(found[allowed].tolist()),
        )

    @classmethod
    def limit(cls, epsilon: Number, delta: Number = 0) -> "Power":
        """The most against an (epsilon, delta)-DP release.

        >>> round(Power.limit(1).tpr, 4)
        0.1359
        """
        roc = limits.roc_limit(np.linspace(0, 1, GRID), epsilon, delta)
        tpr = float(limits.roc_limit(FPR, epsilon, delta))
        return cls(tpr, limits.auc_limit(epsilon, delta), limits.advantage_limit(epsilon, delta), tuple(roc.tolist()))


@dataclass(frozen=True)
class Membership(limits.Figures):
    """How well an attacker who knows people's attributes found out who was in the data.

    - `rows` in each data set, `attributes` of each person, `sessions` simulated. Each has new people and a budget of
      (`epsilon`, `delta`) of its own, spent on one release of all means.
    - `raw`: against exact means. `private`: against the session's. `limit`: the most against any such session.
    - `expected_tpr`: what theory expects of `raw.tpr` for independent attributes.
    """

    rows: int
    attributes: int
    sessions: int
    epsilon: float
    delta: float
    raw: Power
    private: Power
    limit: Power
    expected_tpr: float


def membership(
    *,
    epsilon: Number,
    delta: Number = 0,
    rows: int = 100,
    attributes: int | limits.Bits = 1000,
    sessions: int = 10,
    seed: int | None = 0,
    on_progress: limits.Progress | None = None,
) -> Membership:
    """Trace people in a mean: the score of a person x is the inner product of x - p and mean - p, p the known shares.

    `attributes` is a number of independent yes-or-no attributes with proportions between 0.1 and 0.9. Or it is a
    Boolean matrix, people by attributes, from which members and as many outsiders are drawn; the proportions are those
    of all the others. Every session draws anew and is opened for replaced people: the number of members is public. The
    session releases how many members have each attribute (Laplace noise; Gaussian noise if there is a `delta`).

    A result on people of your own is about them: where they are secret so is the result, which no budget protects.

    Errors: `InvalidParameter` for an epsilon or delta that no budget has, fewer than two rows, and no attributes or
    sessions. The same for more than 20 million members' attributes, or a matrix with fewer than three times `rows`
    people.

    >>> found = membership(epsilon=1, rows=50, attributes=500, sessions=4)
    >>> found.raw.auc > 0.95, found.private.auc < 0.7
    (True, True)
    """
    budget, rng = limits.checked(epsilon, delta), limits.generator(seed)
    draw = _draws(whole(rows, "rows", least=2), attributes)
    counted = limits.in_turn(range(whole(sessions, "sessions")), on_progress)
    rounds = [_Round.play(draw(rng), budget, rng, seed) for _ in counted]
    evenness = float(np.mean([played.evenness for played in rounds]))
    return Membership(
        rows=rows,
        attributes=rounds[0].attributes,
        sessions=sessions,
        epsilon=float(budget.exact[0]),
        delta=float(budget.exact[1]),
        raw=_power([played.raw for played in rounds]),
        private=_power([played.private for played in rounds]),
        limit=Power.limit(epsilon, delta),
        expected_tpr=tracing_power(attributes=rounds[0].attributes, rows=rows, evenness=evenness),
    )


def tracing_power(*, attributes: int, rows: int, fpr: float = FPR, evenness: float = 1) -> float:
    """The true-positive rate against an exact mean of many independent attributes.

    It is Phi(evenness sqrt(attributes/rows) - z), z being the quantile that `fpr` of the normal distribution exceeds.
    `evenness` is the mean of p (1 - p) over the attributes by the root of its mean square, 1 where all proportions p
    are alike.

    >>> [round(tracing_power(attributes=d, rows=100), 3) for d in (1, 100, 1000)]
    [0.061, 0.26, 0.935]
    """
    away = evenness * math.sqrt(whole(attributes, "attributes") / whole(rows, "rows"))
    return float(ndtr(away + ndtri(float(probability(fpr, "fpr")))))


@dataclass(frozen=True)
class _People:
    """Whom one session holds, as many others, and the proportions that everybody knows."""

    members: limits.Bits
    outsiders: limits.Bits
    shares: limits.Floats

    def score(self, mean: limits.Floats) -> Scores:
        """Members' and outsiders' scores against a mean."""
        away = mean - self.shares
        return (self.members - self.shares) @ away, (self.outsiders - self.shares) @ away


def _draws(rows: int, attributes: int | limits.Bits) -> Callable[[np.random.Generator], _People]:
    """What draws the people of one session."""
    if isinstance(attributes, np.ndarray):
        return _from_matrix(rows, attributes)
    width = whole(attributes, "attributes")
    _check_cells(rows * width)

    def draw(rng: np.random.Generator) -> _People:
        shares = rng.uniform(0.1, 0.9, width)
        members, outsiders = (rng.random((rows, width)) < shares for _ in range(2))
        return _People(members, outsiders, shares)

    return draw


def _from_matrix(rows: int, people: limits.Bits) -> Callable[[np.random.Generator], _People]:
    if people.ndim != 2 or people.dtype != np.bool_ or not people.shape[1] or len(people) < 3 * rows:
        raise InvalidParameter("attributes must be a Boolean matrix of at least three times as many people as rows")
    _check_cells(people.size)

    def draw(rng: np.random.Generator) -> _People:
        members, outsiders, others = np.split(people[rng.permutation(len(people))], [rows, 2 * rows])
        return _People(members, outsiders, others.mean(axis=0))

    return draw


def _check_cells(cells: int) -> None:
    if cells > MOST_CELLS:
        raise InvalidParameter(f"people times attributes may be at most {MOST_CELLS}")


@dataclass(frozen=True)
class _Round:
    """One session: the scores of members and outsiders against the exact mean and against the published one."""

    attributes: int
    evenness: float
    raw: Scores
    private: Scores

    @classmethod
    def play(cls, people: _People, budget: Budget, rng: np.random.Generator, seed: int | None) -> "_Round":
        """Open, spend the whole budget on the means, score everybody."""
        exact = people.members.mean(axis=0)
        published = limits.published_counts(people.members, budget, rng, seed) / len(people.members)
        spreads = people.shares * (1 - people.shares)
        evenness = float(spreads.mean() / max(math.sqrt(np.mean(spreads**2)), TINY))
        return cls(people.members.shape[1], evenness, people.score(exact), people.score(published))


def _above(scores: limits.Floats, thresholds: limits.Floats) -> limits.Floats:
    """The proportion of the scores above each threshold."""
    passing = len(scores) - np.searchsorted(np.sort(scores), thresholds, side="right")
    return np.asarray(passing / len(scores))


def _power(scores: Sequence[Scores]) -> Power:
    members, outsiders = (np.concatenate(side) for side in zip(*scores, strict=True))
    return Power.measured(members, outsiders)
