"""Conditional release and revisions ([TCT] Algorithm 2): publish the noisy value if it is in the target, or nothing."""

import json
from dataclasses import dataclass

import numpy as np

from chary import noise
from chary.errors import InvalidParameter
from chary.mechanisms.additive import Additive, Integers
from chary.mechanisms.padding import SMALL, padded, unpadded


@dataclass(frozen=True)
class Held:
    """A noisy outcome that was not published: secret state.

    `value` is what would be published, `score` its whole number of grid steps, `floor` the (public) lowest bar it has
    failed. Neither repr nor str shows value or score.
    """

    value: int | float
    score: int
    floor: int

    def __repr__(self) -> str:
        return f"Held(<secret>, floor={self.floor})"

    def dump(self) -> bytes:
        """The state for the ledger's secret table."""
        return padded(json.dumps([self.value, self.score, self.floor]).encode(), SMALL + len(str(self.floor)))

    @classmethod
    def load(cls, data: bytes) -> "Held":
        """The state that `dump` wrote."""
        return cls(*json.loads(unpadded(data)))


@dataclass(frozen=True)
class Published:
    """An outcome that was in the target."""

    value: int | float


def judge(value: int | float, score: int, threshold: int) -> Held | Published:
    """Publish an outcome whose score reaches the threshold, hold it otherwise.

    Guarantee: if the outcome is epsilon-DP, this is an epsilon-DP call with the NotPrior target "published".
    """
    return Published(value) if score >= threshold else Held(value, score, threshold)


def revise(held: Held, threshold: int) -> Held | Published:
    """Lower the bar for a held outcome: a 2 epsilon-DP call with a NotPrior target, one hit at most in all.

    Errors: `InvalidParameter` if the new bar is not below the last one, since the target must grow by a disjoint set.

    >>> revise(Held(480, 480, 500), 450)
    Published(value=480)
    >>> revise(Held(480, 480, 500), 490)
    Held(<secret>, floor=490)
    """
    if threshold >= held.floor:
        raise InvalidParameter("a revision must lower the bar below the last one that was tried")
    return judge(held.value, held.score, threshold)


@dataclass(frozen=True)
class Watched:
    """What a watch found: how many values were tested in order, the positions that hit, their noisy values."""

    tested: int
    positions: list[int]
    noisy: list[int]


@dataclass(frozen=True)
class BarTests:
    """One conditional release for each of many values, in order; with `most_hits`, halting right after that many.

    Guarantee: each value is an epsilon-DP call with a NotPrior target; noise is independent, so if neighbours differ
    in c of the values, at most min(hits, c) of the hits concern any of them (theory 1.6).
    """

    additive: Additive
    threshold: int
    most_hits: int | None = None

    def reached(self, value: int, source: noise.Source) -> bool:
        """Test one exact value alone."""
        return self.additive.apply_one(value, source) >= self.threshold

    def step(self, values: Integers, source: noise.Source) -> Watched:
        """Test the exact values; values after the last allowed hit stay untested."""
        noisy = self.additive.apply(values, source)
        hits = np.flatnonzero(noisy >= self.threshold)
        tested = len(values)
        if self.most_hits is not None and len(hits) >= self.most_hits:
            hits = hits[: self.most_hits]
            tested = int(hits[-1]) + 1
        return Watched(tested, [int(k) for k in hits], [int(noisy[k]) for k in hits])
