"""Adaptive analysts on tiny domains: every transcript with its probability under both neighbours."""

import math
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Leaf:
    """One transcript: its probabilities under the two databases and the epsilons of the calls that hit."""

    p0: float
    p1: float
    hits: tuple[float, ...]


def random_pair(rng, epsilon, outcomes=3):
    """Two laws that are epsilon-indistinguishable: a random post-processing of randomized response."""
    p = 1 / (1 + math.exp(-epsilon))
    kernel = rng.dirichlet(np.full(outcomes, rng.choice([0.1, 1.0])), size=2)
    return p * kernel[0] + (1 - p) * kernel[1], (1 - p) * kernel[0] + p * kernel[1]


def response_pair(epsilon):
    """Randomized response itself."""
    p = 1 / (1 + math.exp(-epsilon))
    return np.array([p, 1 - p]), np.array([1 - p, p])


def random_leaves(rng, epsilons, most_hits, calls):
    """All transcripts of a random adaptive analyst: each node draws its own mechanism, epsilon and prior."""

    def grow(p0, p1, hits, left):
        if left == 0 or len(hits) == most_hits or rng.random() < 0.05:
            return [Leaf(p0, p1, hits)]
        epsilon = rng.choice(epsilons)
        laws = response_pair(epsilon) if rng.random() < 0.5 else random_pair(rng, epsilon)
        prior = rng.integers(len(laws[0]))
        return [
            leaf
            for outcome, (a, b) in enumerate(zip(*laws, strict=True))
            for leaf in grow(p0 * a, p1 * b, hits if outcome == prior else (*hits, epsilon), left - 1)
        ]

    return grow(1.0, 1.0, (), calls)


def divergence(leaves, epsilon):
    """The hockey-stick divergence of the transcripts at total epsilon."""
    return sum(max(0.0, leaf.p0 - math.exp(epsilon) * leaf.p1) for leaf in leaves)


def best_response(epsilon, hits, total, calls):
    """What the best analyst reaches with randomized response: the likelier atom is the prior below the diagonal.

    Walks the exact law of (steps of log-likelihood, hits) under the first database.
    """
    p = 1 / (1 + math.exp(-epsilon))
    law = {(0, 0): 1.0}
    reached = {}
    for _ in range(calls):
        following = {}
        for (steps, hit), mass in law.items():
            if hit == hits or mass < 1e-22:
                reached[steps] = reached.get(steps, 0.0) + mass
                continue
            prior_is_high = steps < total
            for up, chance in ((True, p), (False, 1 - p)):
                place = (steps + (1 if up else -1), hit + (up != prior_is_high))
                following[place] = following.get(place, 0.0) + mass * chance
        law = following
    for (steps, _hit), mass in law.items():
        reached[steps] = reached.get(steps, 0.0) + mass
    return sum(mass * max(0.0, -math.expm1((total - steps) * epsilon)) for steps, mass in reached.items())
