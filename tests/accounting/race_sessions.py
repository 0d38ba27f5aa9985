"""Races by dynamic programming over all vectors of counters: independent of the product's recursion and its lattice.

A state is how many tokens each target has left. A value is the largest sum of max(0, P - e^(k grain) Q) over
transcripts, at whole numbers k of grains. A call is `(grains, tokens, free)`: randomized response, of which each target
is hit by one of the two atoms, or, where a miss is not free, by both. It may be made where a target has as many left.
"""

from functools import cache
from itertools import product

import numpy as np

REACH = 160
PLACES = np.arange(-REACH, REACH + 1)


class MultiTarget:
    """Sessions of calls of whole grains in which so many targets are counted side by side."""

    def __init__(self, grain, calls):
        self.grain, self.calls = grain, calls
        self.stopped = np.maximum(0, 1 - np.exp(PLACES * grain))
        self.value = cache(self._value)

    def at(self, tokens, total):
        """The worth of a race all of whose targets have so many tokens, at a total of so many grains."""
        return float(self.value(tokens)[REACH + total])

    def ended(self, left):
        """The worth of stopping."""
        return self.stopped

    def moved(self, value, steps):
        """The value after an outcome whose log-ratio is so many grains; F(x, y) - F(y, x) = x - y beyond the end."""
        places = PLACES - steps
        inside = value[np.clip(places, -REACH, REACH) + REACH]
        low = 1 - np.exp(np.minimum(0, places) * self.grain)
        return np.where(places < -REACH, low, np.where(places > REACH, 0.0, inside))

    def _value(self, left):
        if not any(left):
            return self.stopped
        known = [self._known(call, hits, left) for call in self.calls for hits in self._marks(call, left)]
        value = self.ended(left)
        while True:
            better = value
            for fixed, open_atoms in known:
                worth = fixed + sum(chance * self.moved(value, steps) for chance, steps in open_atoms)
                better = np.maximum(better, worth)
            if (better - value).max() < 1e-13:
                return better
            value = better

    def _marks(self, call, left):
        """Which targets each atom hits; targets that are used up are not told apart."""
        _, tokens, free = call
        if tokens > max(left):
            return []
        ways = [((True, False), (False, True)) if free and count else ((True, True),) for count in left]
        return list(product(*ways))

    def _known(self, call, hits, left):
        """What goes on with fewer tokens, as one array, and the atoms after which nothing has changed."""
        grains, tokens, _ = call
        chance = 1 / (1 + np.exp(-grains * self.grain))
        fixed, unchanged = np.zeros(len(PLACES)), []
        for atom, (mass, steps) in enumerate(((chance, grains), (1 - chance, -grains))):
            after = tuple(max(0, count - tokens * hit[atom]) for count, hit in zip(left, hits, strict=True))
            if after == left:
                unchanged.append((mass, steps))
            else:
                fixed = fixed + mass * self.moved(self.value(after), steps)
        return fixed, unchanged


class OfOne(MultiTarget):
    """Only the transcripts in the end of which the first of two targets was hit least, or both alike."""

    def ended(self, left):
        return self.stopped if left[0] >= left[1] else np.zeros(len(PLACES))
