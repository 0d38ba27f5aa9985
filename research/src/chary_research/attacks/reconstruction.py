"""Reconstruction: counts that differ in one person, or of many random groups, give everybody's bit away."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy
from scipy.optimize import linprog
from scipy.sparse import csr_array, hstack, identity, vstack

from chary.calls import NoisyNumber
from chary.data import NeighborRelation, RowTable, count
from chary.errors import InvalidParameter
from chary.filters import Budget
from chary.numbers import Number, whole
from chary.session import Session
from chary_research.attacks import limits

# Differencing: two counts that differ in one person give that person away.

EVERYBODY = count("secret")
ALL_BUT_ONE = count("secret AND person <> 0")
# An interval so wide that an honest attack leaves it once in a thousand runs.
SURE = 0.999


@dataclass(frozen=True)
class Differencing(limits.Figures):
    """How often an attacker guessed one person's bit, which was 0 or 1 with probability 1/2.

    - `people` in the table; `sessions` simulated, each with a budget of (`epsilon`, `delta`) of its own.
    - `repeats`: how often each count was asked, for equal parts of the budget that together are all of it; the
      attacker took the mean. `informed`: he knew everybody else's bits and asked for one count instead of two.
    - `raw_accuracy`: the proportion of sessions in which exact counts gave the bit.
    - `accuracy`: the proportion in which the session's answers did, between `low` and `high` with 99.9 % confidence.
    - `limit`: the largest probability of a right guess, `guess_limit(epsilon, delta)`; `p_value`: the probability that
      an attacker who attains the limit makes at least this many right guesses.
    """

    people: int
    sessions: int
    repeats: int
    informed: bool
    epsilon: float
    delta: float
    raw_accuracy: float
    accuracy: float
    low: float
    high: float
    limit: float
    p_value: float


def differencing(
    *,
    epsilon: Number,
    delta: Number = 0,
    people: int = 200,
    sessions: int = 400,
    repeats: int = 1,
    informed: bool = False,
    seed: int | None = 0,
    on_progress: limits.Progress | None = None,
) -> Differencing:
    """Guess one person's secret bit from "how many have it?" and "how many but person 0 have it?".

    Exact counts give it away. Against sessions, the attacker asks both counts `repeats` times for the whole budget
    (Laplace noise; Gaussian noise if there is a `delta`). He says 1 if the mean difference is at least 1/2. The people
    are synthetic. `informed` is the attacker of the definition: he knows all bits but one. With one count, pure epsilon
    and `repeats=1` he attains the limit, so the noise is no larger than it must be.

    With a `seed` all is reproducible, noise included. Errors: `InvalidParameter` for an epsilon or delta that no budget
    has, fewer than two people, no sessions or repeats.

    >>> found = differencing(epsilon=1, sessions=50)
    >>> found.raw_accuracy, found.accuracy < 0.9, round(found.limit, 4)
    (1.0, True, 0.7311)
    """
    budget, rng = limits.checked(epsilon, delta), limits.generator(seed)
    crowd = rng.integers(0, 2, whole(people, "people", least=2))
    secrets = rng.integers(0, 2, whole(sessions, "sessions")).tolist()
    worlds = [_world(bit, crowd) for bit in (0, 1)]
    attack = _Attack(int(crowd[1:].sum()), whole(repeats, "repeats"), informed)
    raw = [attack.guess_raw(worlds[bit]) == bit for bit in secrets]
    right = _against_sessions(worlds, secrets, attack, budget, rng, seed, on_progress)
    return _result(budget, people, attack, raw, right)


def _world(bit: int, crowd: np.ndarray[Any, Any]) -> pa.Table:
    bits = np.concatenate(([bit], crowd[1:])).astype(bool)
    return pa.table({"person": np.arange(len(bits)), "secret": bits})


@dataclass(frozen=True)
class _Attack:
    """What the attacker knows and asks."""

    rest: int
    repeats: int
    informed: bool

    @property
    def questions(self) -> int:
        """How many counts he asks for in all."""
        return self.repeats if self.informed else 2 * self.repeats

    def guess_raw(self, world: pa.Table) -> bool:
        """The guess from exact counts."""
        has = world.filter(pc.field("secret"))
        rest = self.rest if self.informed else has.filter(pc.field("person") != 0).num_rows
        return bool(has.num_rows - rest >= 1)

    def guess(self, session: Session, size: dict[str, Any]) -> bool:
        """The guess from a session's answers, with the largest size that it pays for."""
        difference = 0.0
        for _ in range(self.repeats):
            rest = self.rest if self.informed else _asked(session, ALL_BUT_ONE, size)
            difference += _asked(session, EVERYBODY, size) - rest
        return 2 * difference >= self.repeats


def _asked(session: Session, question: Any, size: dict[str, Any]) -> float:
    answer = session.release(question, **size)
    assert isinstance(answer, NoisyNumber)
    return float(answer)


def _against_sessions(
    worlds: Sequence[pa.Table],
    secrets: list[int],
    attack: _Attack,
    budget: Budget,
    rng: np.random.Generator,
    seed: int | None,
    on_progress: limits.Progress | None,
) -> list[bool]:
    """Whether each guess was right. The tables are opened once, every session has its own ledger."""
    each = NeighborRelation("replace", None)
    with (
        closing(RowTable.open(worlds[0], neighbor_relation=each)) as without,
        closing(RowTable.open(worlds[1], neighbor_relation=each)) as having,
    ):
        tables = (without, having)
        size = limits.largest_size(limits.attacked(without, budget, rng, seed), EVERYBODY, attack.questions)
        right = []
        for bit in limits.in_turn(secrets, on_progress):
            right.append(attack.guess(limits.attacked(tables[bit], budget, rng, seed), size) == bit)
    return right


def _result(budget: Budget, people: int, attack: _Attack, raw: list[bool], right: list[bool]) -> Differencing:
    epsilon, delta = budget.exact
    limit, sessions = limits.guess_limit(epsilon, delta), len(right)
    interval = scipy.stats.binomtest(sum(right), sessions).proportion_ci(SURE)
    return Differencing(
        people=people,
        sessions=sessions,
        repeats=attack.repeats,
        informed=attack.informed,
        epsilon=float(epsilon),
        delta=float(delta),
        raw_accuracy=sum(raw) / sessions,
        accuracy=sum(right) / sessions,
        low=float(interval.low),
        high=float(interval.high),
        limit=limit,
        p_value=float(scipy.stats.binom.sf(sum(right) - 1, sessions, limit)),
    )


# Reconstruction: many counts of random groups, each nearly exact, give away everybody's bit (Dinur, Nissim 2003).

# The linear program has people + counts unknowns and twice as many rows as counts: minutes beyond this.
MOST_CELLS = 2_000_000


@dataclass(frozen=True)
class Reconstruction(limits.Figures):
    """How many of the people's bits an attacker found from counts of random groups of them.

    - `people`, `counts` asked in each of `sessions`, each with an `epsilon` of its own, spent on all counts at once.
    - `exact`: the proportion of bits found from exact counts; `rounded`: from counts that are off by up to `off` to
      either side, at random.
    - `private`: from a session's counts. `baseline`: the proportion that the commoner bit has.
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


def reconstruction(
    *,
    epsilon: Number,
    people: int | limits.Bits = 100,
    counts: int | None = None,
    off: int | None = None,
    sessions: int = 3,
    seed: int | None = 0,
    on_progress: limits.Progress | None = None,
) -> Reconstruction:
    """Ask how many of a random half of the people have the bit, many times, and solve for the bits.

    `people` is how many, with bits of fair coins, or their bits. `counts` is by default 4 for each of them. `off` is
    the largest error of rounded counts, by default a quarter of the root of the number of people. The attacker looks
    for numbers between 0 and 1 whose counts are nearest to those published, by the sum of the distances (a linear
    program), and rounds them. Every session draws new groups and releases all counts with Laplace noise for its whole
    epsilon; people may be replaced, their number is public.

    A result on people of your own is about them: where their bits are secret so is the result.

    Errors: `InvalidParameter` for an epsilon that no budget has, fewer than two people and bits that are no Boolean
    array. The same for no counts or sessions, or more than two million people times counts.

    >>> found = reconstruction(epsilon=1, people=40, sessions=2)
    >>> found.exact, found.rounded > 0.9, found.private < 0.8, round(found.limit, 2)
    (1.0, True, True, 0.73)
    """
    budget, rng = limits.checked(epsilon), limits.generator(seed)
    bits = _bits(people, rng)
    asked, away = _sizes(len(bits), counts, off)
    runs = []
    for _ in limits.in_turn(range(whole(sessions, "sessions")), on_progress):
        groups = rng.random((asked, len(bits))) < 0.5
        exact = groups @ bits.astype(float)
        rounded = exact + rng.integers(-away, away + 1, asked)
        private = limits.published_counts((groups & bits).T, budget, rng, seed)
        runs.append([np.mean(reconstructed(groups, told) == bits) for told in (exact, rounded, private)])
    baseline = float(max(bits.mean(), 1 - bits.mean()))
    limit = limits.value_limit(epsilon, [baseline, 1 - baseline])
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


def reconstructed(groups: limits.Bits, told: limits.Floats) -> limits.Bits:
    """The bits whose counts over the groups (counts by people) are nearest to those published.

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


def _bits(people: int | limits.Bits, rng: np.random.Generator) -> limits.Bits:
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
