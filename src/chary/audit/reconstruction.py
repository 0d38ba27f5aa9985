"""Reconstruction: many counts of random groups, each nearly exact, give away everybody's bit (Dinur, Nissim 2003)."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array, hstack, identity, vstack

from chary.audit.limits import value_limit
from chary.audit.simulating import Bits, Floats, Progress, checked, generator, published_counts
from chary.errors import InvalidParameter
from chary.numbers import Number, whole

# The linear program has people + counts unknowns and twice as many rows as counts: minutes beyond this.
MOST_CELLS = 2_000_000


@dataclass(frozen=True)
class Reconstruction:
    """How many of the people's bits an attacker found from counts of random groups of them.

    - `people`, `counts` asked in each of `sessions`, each with an `epsilon` of its own, spent on all counts at once.
    - `exact`: the share of bits found from exact counts; `rounded`: from counts that are off by up to `off` to either
      side, at random.
    - `private`: from a session's counts. `baseline`: the share that the commoner bit has.
    - `limit`: the most that an attacker can find on average who knows no more than how common each bit is:
      `value_limit(epsilon, [baseline, 1 - baseline])`.
    """

    people: int
    counts: int
    sessions: int
    epsilon: float
    off: int
    exact: float
    rounded: float
    private: float
    baseline: float
    limit: float

    def as_dict(self) -> dict[str, Any]:
        """All figures by name."""
        return asdict(self)


def reconstruction(
    *,
    epsilon: Number,
    people: int | Bits = 100,
    counts: int | None = None,
    off: int | None = None,
    sessions: int = 3,
    seed: int | None = 0,
    on_progress: Progress | None = None,
) -> Reconstruction:
    """Ask how many of a random half of the people have the bit, many times, and solve for the bits.

    `people` is how many, with bits of fair coins, or their bits. `counts` is 4 for each of them unless said; `off` is
    the largest error of rounded counts, a quarter of the root of the number of people unless said. The attacker looks
    for numbers between 0 and 1 whose counts are nearest to those told, by the sum of the distances (a linear program),
    and rounds them. Every session draws new groups and releases all counts with Laplace noise for its whole epsilon;
    people may be replaced, their number is public.

    A result on people of your own is about them: where their bits are secret so is the result.

    Errors: `InvalidParameter` for an epsilon that no budget has, fewer than two people, bits that are no Boolean array,
    no counts or sessions, or more than two million people times counts.

    >>> found = reconstruction(epsilon=1, people=40, sessions=2)
    >>> found.exact, found.rounded > 0.9, found.private < 0.8, round(found.limit, 2)
    (1.0, True, True, 0.73)
    """
    budget, rng = checked(epsilon), generator(seed)
    bits = _bits(people, rng)
    asked, away = _sizes(len(bits), counts, off)
    runs = []
    for done in range(whole(sessions, "sessions")):
        groups = rng.random((asked, len(bits))) < 0.5
        exact = groups @ bits.astype(float)
        rounded = exact + rng.integers(-away, away + 1, asked)
        private = published_counts((groups & bits).T, budget, rng, seed)
        runs.append([np.mean(reconstructed(groups, told) == bits) for told in (exact, rounded, private)])
        if on_progress is not None:
            on_progress(done + 1, sessions)
    baseline = float(max(bits.mean(), 1 - bits.mean()))
    limit = value_limit(epsilon, [baseline, 1 - baseline])
    exact_share, rounded_share, private_share = np.mean(runs, axis=0).tolist()
    return Reconstruction(
        people=len(bits),
        counts=asked,
        sessions=sessions,
        epsilon=float(budget.exact[0]),
        off=away,
        exact=exact_share,
        rounded=rounded_share,
        private=private_share,
        baseline=baseline,
        limit=limit,
    )


def reconstructed(groups: Bits, told: Floats) -> Bits:
    """The bits whose counts over the groups (counts by people) are nearest to those told.

    >>> reconstructed(np.array([[True, False], [True, True]]), np.array([1.0, 1.0])).tolist()
    [True, False]
    """
    asked, people = groups.shape
    within, slack = csr_array(groups.astype(float)), identity(asked)
    rows = vstack([hstack([within, -slack]), hstack([-within, -slack])])
    costs = np.concatenate([np.zeros(people), np.ones(asked)])
    bounds = [(0, 1)] * people + [(0, None)] * asked
    found = linprog(costs, A_ub=rows, b_ub=np.concatenate([told, -told]), bounds=bounds, method="highs")
    return np.asarray(found.x[:people] >= 0.5)


def _bits(people: int | Bits, rng: np.random.Generator) -> Bits:
    if isinstance(people, np.ndarray):
        if people.ndim != 1 or people.dtype != np.bool_ or len(people) < 2:
            raise InvalidParameter("people are a number of them, or a Boolean array of at least two bits")
        return people
    return np.asarray(rng.random(whole(people, "people", least=2)) < 0.5)


def _sizes(people: int, counts: int | None, off: int | None) -> tuple[int, int]:
    asked = 4 * people if counts is None else whole(counts, "counts")
    if asked * people > MOST_CELLS:
        raise InvalidParameter(f"people times counts may be at most {MOST_CELLS}")
    return asked, int(people**0.5 / 4) if off is None else whole(off, "off", least=0)
