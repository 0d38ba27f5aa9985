"""Low bits: noise in floating-point numbers has gaps, and which gaps depends on the secret (Mironov 2012)."""

import math
from contextlib import closing
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import scipy

from chary.calls import NoisyNumber
from chary.data import NeighborRelation, RowTable, count
from chary.filters import Budget
from chary.numbers import Number, whole
from chary_research.attacks.limits import Figures, Progress, attacked, checked, generator, guess_limit, in_turn
from chary_research.attacks.reconstruction import SURE

# A float between 0 and 1 of the usual generators is a multiple of 2^-53.
GRAIN = 2.0**-53
# exp(log(u)) is off by the rounding of the sum and of both functions: a few grains where the noise is small, and so
# many more as the sum has lost bits. A search that is too narrow would only make the attacker weaker.
NEARBY = 8


@dataclass(frozen=True)
class LowBits(Figures):
    """How often an attacker distinguished from one noisy count whether it was `count` or one more, both equally likely.

    - `naive_accuracy`: against `naive_laplace`, noise of the right scale in floating-point numbers. `certain`: the
      proportion of its answers that the other count could not have given at all.
    - `accuracy`: against a session that released the count, between `low` and `high` with 99.9 % confidence.
    - `limit`: the largest probability of a right guess, `guess_limit(epsilon)`.
    """

    epsilon: float
    count: int
    sessions: int
    naive_accuracy: float
    certain: float
    accuracy: float
    low: float
    high: float
    limit: float


def low_bits(
    *, epsilon: Number, people: int = 0, sessions: int = 400, seed: int | None = 0, on_progress: Progress | None = None
) -> LowBits:
    """Distinguish a count of `people` from one more by the last bits of a noisy answer.

    The attacker tries which of both counts can give the answer. Some uniform number must lead to exactly these
    64 bits. If only one can, he is certain. Else he takes the nearer one, the best guess against exact noise. The same
    attacker meets a session that releases the count for its whole epsilon. Its noise is an integer drawn by integer
    arithmetic, so every count can give every answer, and he is back at the limit.

    Errors: `InvalidParameter` for an epsilon that no budget has, fewer than no people, or no sessions.

    >>> found = low_bits(epsilon="0.1", sessions=100)
    >>> found.naive_accuracy > 0.65, found.limit < 0.53
    (True, True)
    """
    budget, rng = checked(epsilon), generator(seed)
    size, least = float(budget.exact[0]), whole(people, "people", least=0)
    truths = rng.integers(0, 2, whole(sessions, "sessions")).tolist()
    naive = [naive_laplace(least + bit, 1 / size, rng) for bit in truths]
    right = _against_sessions(truths, least, budget, rng, seed, on_progress)
    interval = scipy.stats.binomtest(sum(right), sessions).proportion_ci(SURE)
    sure = [_only(told, least, 1 / size) for told in naive]
    caught = [_nearer(told, only, least) == bit for told, only, bit in zip(naive, sure, truths, strict=True)]
    return LowBits(
        epsilon=size,
        count=least,
        sessions=sessions,
        naive_accuracy=float(np.mean(caught)),
        certain=float(np.mean([each is not None for each in sure])),
        accuracy=sum(right) / sessions,
        low=float(interval.low),
        high=float(interval.high),
        limit=guess_limit(epsilon),
    )


def _against_sessions(
    truths: list[int],
    least: int,
    budget: Budget,
    rng: np.random.Generator,
    seed: int | None,
    on_progress: Progress | None,
) -> list[bool]:
    """Whether each guess was right, of a session with a budget of its own."""
    each, epsilon = NeighborRelation("add_remove", None), budget.exact[0]
    right = []
    with (
        closing(RowTable.open(_world(least), neighbor_relation=each)) as smaller,
        closing(RowTable.open(_world(least + 1), neighbor_relation=each)) as larger,
    ):
        for bit in in_turn(truths, on_progress):
            answer = attacked((smaller, larger)[bit], budget, rng, seed).release(count(), epsilon=epsilon)
            assert isinstance(answer, NoisyNumber)
            right.append(guess(float(answer), least, 1 / float(epsilon)) == bit)
    return right


def naive_laplace(value: float, scale: float, rng: np.random.Generator) -> float:
    """The value with Laplace noise as textbooks draw it, in floating-point numbers. **It protects nobody.**

    The logarithm of a uniform number, with a random sign, times the scale.
    """
    uniform = 1 - rng.random()
    return float(value + rng.choice([-1.0, 1.0]) * scale * math.log(uniform))


def reachable(told: float, value: float, scale: float) -> bool:
    """Whether `naive_laplace` of the value can give exactly this answer.

    >>> rng = np.random.default_rng(1)
    >>> told = naive_laplace(3, 10, rng)
    >>> reachable(told, 3, 10), reachable(told + 2**-40, 3, 10)
    (True, False)
    """
    sign = -1.0 if told >= value else 1.0
    middle = math.exp(-abs(told - value) / scale)
    # The answer has an error of half its last bit, which the scale shrinks and the uniform number sees as a factor.
    blur = NEARBY + math.ulp(max(abs(told), abs(value))) / scale * middle / GRAIN
    around = round(middle / GRAIN)
    tried = range(max(1, around - round(blur)), min(2**53, around + round(blur)) + 1)
    return any(value + sign * scale * math.log(grains * GRAIN) == told for grains in tried)


def guess(told: float, least: int, scale: float) -> int:
    """1 if the count was rather `least` + 1 than `least`."""
    return _nearer(told, _only(told, least, scale), least)


def _nearer(told: float, sure: int | None, least: int) -> int:
    """The count that is known; where none is, the nearer one."""
    return int(told - least > 0.5) if sure is None else sure


def _only(told: float, least: int, scale: float) -> int | None:
    """Which of both counts alone can give the answer; None if both can, or neither."""
    can = [reachable(told, least + bit, scale) for bit in (0, 1)]
    return can.index(True) if sum(can) == 1 else None


def _world(rows: int) -> pa.Table:
    return pa.table({"person": np.arange(rows)})
