"""Exact laws of tiny interactions: noise with a rational ratio, so that every probability is a fraction.

Noise with `P(k) ~ r^|k|` makes a value that changes by one step `-ln r`-differentially private.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from chary.accounting import Targeted, hit_price_up
from chary.mechanisms import Additive

Law = dict[Hashable, Fraction]


@dataclass(frozen=True)
class Given(Additive):
    """Noise that was decided beforehand."""

    noise: tuple[int, ...]

    def draw(self, source: Any, size: int) -> Any:
        assert size == len(self.noise)
        return np.array(self.noise)

    def at_least(self, distance: int) -> float:
        raise NotImplementedError

    def event(self) -> Any:
        raise NotImplementedError

    def law(self) -> Any:
        raise NotImplementedError


def tail(ratio: Fraction, distance: int) -> Fraction:
    """P(noise >= distance), in closed form for positive distances and by symmetry below."""
    return ratio**distance / (1 + ratio) if distance > 0 else 1 - tail(ratio, 1 - distance)


def noisy(value: int, ratio: Fraction, low: int, high: int) -> Law:
    """The law of value + noise clamped to [low, high]: the ends carry the tails, so nothing is cut off."""
    law = {y: tail(ratio, y - value) - tail(ratio, y + 1 - value) for y in range(low, high + 1)}
    law[low] += 1 - tail(ratio, low - value)
    law[high] += tail(ratio, high + 1 - value)
    return law


def transcripts(values: Iterable[int], ratio: Fraction, low: int, high: int, run: Callable[..., Hashable]) -> Law:
    """The law of what `run(noisy values)` publishes."""
    laws = [noisy(value, ratio, low, high) for value in values]
    published: Law = defaultdict(Fraction)
    for outcome in product(*laws):
        published[run(*outcome)] += math.prod(law[y] for law, y in zip(laws, outcome, strict=True))
    assert sum(published.values()) == 1
    return published


def worst_ratio(first: Law, second: Law) -> Fraction:
    """The largest likelihood ratio of any transcript, in either direction."""
    assert first.keys() == second.keys()
    return max(max(first[t] / second[t], second[t] / first[t]) for t in first)


def moment(first: Law, second: Law, order: int, price: Callable[[Any], float]) -> float:
    """E_second[(first/second)^order exp(-price of the transcript)]."""
    return math.fsum(
        float(first[t] ** order * second[t] ** (1 - order)) * math.exp(-price(t)) for t in first.keys() & second.keys()
    )


def epsilon_of(ratio: Fraction) -> Fraction:
    """`-ln ratio`, rounded up a little."""
    return Fraction(-math.log(ratio) * (1 + 1e-14))


def price_of(epsilon: Fraction, order: int) -> float:
    """The price of a hit of an epsilon-DP call; such a price must exist."""
    price = hit_price_up(Targeted(epsilon), Fraction(order))
    assert price is not None
    return float(price)


def entropy(people: np.ndarray, model: np.ndarray) -> float:
    """The relative entropy of one histogram from another."""
    inside = people > 0
    return float((people[inside] * np.log(people[inside] / model[inside])).sum())


def edits(first: Iterable[int], second: Iterable[int]) -> int:
    """The fewest single changes between two tuples of counts: units that come or go."""
    return sum(abs(a - b) for a, b in zip(first, second, strict=True))


def moves(first: Iterable[int], second: Iterable[int]) -> int:
    """The same where a unit may also move, or have no key."""
    less = sum(max(a - b, 0) for a, b in zip(first, second, strict=True))
    more = sum(max(b - a, 0) for a, b in zip(first, second, strict=True))
    return max(less, more)


def worst(laws: dict[Any, list[float]], pairs: Iterable[tuple[Any, Any]]) -> float:
    """The largest log-likelihood ratio of any outcome between neighbours."""
    return max(abs(math.log(a / b)) for x, y in pairs for a, b in zip(laws[x], laws[y], strict=True))
