"""Pairs of laws that are E-indistinguishable for a rational E = e^epsilon, as fractions, and the best q of a target."""

import math
from fractions import Fraction
from itertools import product

import numpy as np

Laws = tuple[list[Fraction], list[Fraction]]


def epsilon_of(ratio: Fraction) -> Fraction:
    """`ln ratio`, rounded up a little."""
    return Fraction(math.log(ratio) * (1 + 1e-14))


def worst_ratio(pair: Laws) -> Fraction:
    """The largest likelihood ratio in either direction; outcomes that neither law has do not count."""
    return max(max(a, b) / min(a, b) for a, b in zip(*pair, strict=True) if a or b)


def best_q(pair: Laws, target: list[bool], ratio: Fraction) -> Fraction | None:
    """The largest q of the target under the definition of theory 1.2, or None where the laws never hit it.

    Outside the target all is shed that leaves the rest E-indistinguishable.
    """
    hit = min(sum(p for p, inside in zip(law, target, strict=True) if inside) for law in pair)
    shed = [(ratio * min(a, b) - max(a, b)) / (ratio - 1) for a, b in zip(*pair, strict=True)]
    kept = 1 - sum(m for m, inside in zip(shed, target, strict=True) if not inside)
    return hit / kept if kept else None


def mixed(first: list[Fraction], second: list[Fraction], ratio: Fraction) -> Laws:
    """Randomized response between two laws: every E-indistinguishable pair is one of these."""
    share = ratio / (1 + ratio)
    return (
        [share * a + (1 - share) * b for a, b in zip(first, second, strict=True)],
        [share * b + (1 - share) * a for a, b in zip(first, second, strict=True)],
    )


def grid(outcomes: int, ratio: Fraction) -> list[Laws]:
    """The pairs mixed from laws with masses in fourths, or nearly certain ones."""
    fourths = [law for law in product(range(5), repeat=outcomes) if sum(law) == 4]
    laws = [[Fraction(mass, 4) for mass in law] for law in fourths]
    rare = Fraction(1, 10**9)
    laws += [[mass * rare + (index == 0) * (1 - rare) for index, mass in enumerate(law)] for law in laws]
    return [mixed(first, second, ratio) for first, second in product(laws, repeat=2) if first != second]


def sampled(outcomes: int, ratio: Fraction, count: int, seed: int) -> list[Laws]:
    """Pairs mixed from random laws, many of them with rare outcomes or outcomes missing."""
    rng = np.random.default_rng(seed)

    def law() -> list[Fraction]:
        masses = [Fraction(int(m)) for m in np.exp(rng.normal(12, rng.choice([0.5, 3, 6]), outcomes)) + 1]
        kept = [mass * int(rng.integers(3) > 0) for mass in masses]
        kept[int(rng.integers(outcomes))] += 1
        return [mass / sum(kept) for mass in kept]

    return [mixed(law(), law(), ratio) for _ in range(count)]


def pairs(outcomes: int, ratio: Fraction) -> list[Laws]:
    """Grid and random pairs that differ."""
    found = (grid(outcomes, ratio) if outcomes < 4 else []) + sampled(outcomes, ratio, 1000, outcomes)
    return [pair for pair in found if pair[0] != pair[1]]


def wrapped(law: list[Fraction]) -> list[Fraction]:
    """[TCT] Algorithm 4, the boundary first."""
    rest = 1 - max(law)
    boundary = min(Fraction(1, 3), rest / (1 + rest))
    return [boundary, *((1 - boundary) * mass for mass in law)]


def wrapped_ratio(ratio: Fraction, outcomes: int) -> Fraction:
    """e^t of the wrapper, a rational number in E."""
    general = 3 * ratio**2 / (2 * ratio + 1)
    return max(ratio, 3 * (2 * ratio - 1) / (2 * ratio + 1)) if outcomes == 2 else general


def wrapped_q(ratio: Fraction, outcomes: int) -> Fraction:
    """q of the boundary."""
    whole = wrapped_ratio(ratio, outcomes)
    return (whole - 1) / (2 * whole * ratio - whole + ratio - 2)
