"""One-shot selection ([TCT] Algorithm 3): every candidate runs once, the best are published with their noisy scores."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from chary import noise
from chary.errors import InvalidParameter
from chary.mechanisms.additive import Additive, Integers
from chary.numbers import Number, exact, whole

Score = int | float


@dataclass(frozen=True)
class Ranked:
    """The positions that are published, best first, and their noisy values in grid steps."""

    positions: list[int]
    noisy: list[int]


@dataclass(frozen=True)
class TopK:
    """Which of many noisy scores are published: the best `most`, best first; of equal ones the earlier candidate.

    `gap` ends the list where the next score is more than this below the last; `above` ends it where the next score is
    below this bar. A candidate that failed (None) ranks below every score, reaches no bar and is a gap away.

    Guarantee: if each candidate's outcome is epsilon-DP on its own, this is `Extendable(epsilon)` with one hit for each
    published candidate, whatever their number: one bar comes down over the pairs (score, position) of all held outcomes
    and stops by what was published. Hence ties cost nothing, and where it stops depends on nothing unpublished but
    misses. If neighbours can differ in c candidates, at most min(hits, c) hits are charged.

    >>> TopK(2).choose([5, 9, None, 9.0]), TopK(4, gap=3).choose([5, 9, None, 9]), TopK(4, above=9).choose([5, 9])
    ([1, 3], [1, 3], [1])
    """

    most: int
    gap: Number | None = None
    above: Number | None = None

    def __post_init__(self) -> None:
        whole(self.most, "k")
        for name in ("gap", "above"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, exact(getattr(self, name), name))
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
