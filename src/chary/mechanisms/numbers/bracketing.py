"""A choice among the places of a grid, of which only those are looked at that are likely."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np

from chary.mechanisms.additive import Integers
from chary.mechanisms.numbers.scattering import Coins, Scattered
from chary.mechanisms.selection.inverse_sensitivity import InverseSensitivity, Stretches


class Distances(Protocol):
    """Distances of places that grow with the values below a place, and with those above it."""

    def of(self, below: Integers, equal: Integers, size: int) -> Integers:
        """Of places with so many values below and on them, of `size` in all."""
        ...

    def wanted(self, size: int) -> int:
        """How many values are below a place of distance 0."""
        ...


@dataclass(frozen=True)
class Part:
    """The fine places from `first` to `last`, the values there, and `more` values, a public number, on the last."""

    values: Scattered
    first: int
    last: int
    more: int = 0

    @property
    def size(self) -> int:
        """How many values there are in all; secret."""
        return self.upto(self.last + 1)

    def upto(self, place: int) -> int:
        """How many of them are below a place."""
        found = self.values.below(place) - self.values.below(self.first)
        return found + self.more if place > self.last else found

    def brackets(self, wanted: int) -> list[int]:
        """Places that divide the part, ever closer to where so many values are below."""
        base, steps = self.values.below(self.first), 1 << np.arange(max(1, self.size.bit_length()))
        around = self.values.around(base + wanted + np.concatenate([-steps[::-1], [0], steps]))
        inside = {edge for edge in around if self.first < edge <= self.last} | {self.first, self.last, self.last + 1}
        return sorted({*inside, *self._halvings(sorted(inside), wanted)})

    def _halvings(self, edges: list[int], wanted: int) -> Iterator[int]:
        low, high = next((pair for pair in pairwise(edges) if self.upto(pair[1]) > wanted), (self.last, self.last + 1))
        while high - low > 1:
            middle = (low + high) // 2
            yield middle
            low, high = (low, middle) if self.upto(middle) > wanted else (middle, high)


def choose_place(chooser: InverseSensitivity, distances: Distances, part: Part, coins: Coins) -> int:
    """A place of the part, counted from its first, by the law of the chooser over the distances of all of them.

    The part is divided into intervals. A place within one has at least its values below the interval below it, and at
    most those above the interval above it, so its distance is at least that of all the interval's values on one place.
    A place is proposed as if that were its distance, and taken with the chance by which its own distance makes it less
    likely; else the interval is divided there, and the next one is proposed.

    Guarantee: exactly the law of looking at all places. Given the values, each proposal ends with place t with a chance
    of `exp(-unit D(t))` times what does not depend on t; so it does whatever was refused before. Coins of the values
    that were thrown meanwhile are thrown once, by a law that does not depend on who asks (`Scattered`). An interval of
    one place, or without values, is never refused; so it ends.
    """
    size = part.size
    edges = part.brackets(distances.wanted(size))
    ranks = [part.upto(edge) for edge in edges]
    while True:
        starts, below = np.array(edges, dtype=np.int64), np.array(ranks, dtype=np.int64)
        least = distances.of(below[:-1], np.diff(below), size)
        found = part.first + coins.place(chooser, Stretches(starts[:-1] - part.first, np.diff(starts), least))
        at = int(np.searchsorted(starts, found, side="right")) - 1
        mine, after = part.upto(found), part.upto(found + 1)
        own = distances.of(np.array([mine]), np.array([after - mine]), size)
        if coins.accepts(chooser, int(own[0] - least[at])):
            return found - part.first
        _divide(edges, ranks, at, ((found, mine), (found + 1, after)))


def _divide(edges: list[int], ranks: list[int], at: int, where: tuple[tuple[int, int], ...]) -> None:
    for place, rank in reversed(where):
        if edges[at] < place < edges[at + 1]:
            edges.insert(at + 1, place)
            ranks.insert(at + 1, rank)
