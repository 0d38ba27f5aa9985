"""Sharp tests of many values in order, hits with fresh values if any, halting when the paid hits run out."""

from dataclasses import dataclass

import numpy as np

from chary import noise
from chary.mechanisms.additive import Additive, Integers
from chary.mechanisms.thresholds.held_outcomes import Watched
from chary.mechanisms.thresholds.sharp import SharpSampler


@dataclass(frozen=True)
class SharpTests:
    """One sharp test for each of many values, in order; with `most_hits`, halting right after that many.

    Guarantee: each value is a `SharpTest`, and at a hit a release with noise of its own (`fresh`; None for no values),
    drawn for that purpose alone; draws are independent, so if neighbours differ in c of the values, at most
    min(hits, c) of the hits and values concern any of them (theory 1.6).
    """

    sampler: SharpSampler
    threshold: int
    fresh: Additive | None
    most_hits: int | None = None

    def step(self, values: Integers, source: noise.Source) -> Watched:
        """Test the exact values; values after the last allowed hit stay untested."""
        hits = np.flatnonzero(self.sampler.hits(noise.add(values, -self.threshold), source))
        tested = len(values)
        if self.most_hits is not None and len(hits) >= self.most_hits:
            hits = hits[: self.most_hits]
            tested = int(hits[-1]) + 1
        noisy = () if self.fresh is None else self.fresh.apply(values[hits], source)
        return Watched(tested, [int(k) for k in hits], [int(value) for value in noisy])
