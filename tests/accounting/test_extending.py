"""Held outcomes published in parts, against every adaptive analyst: one price is enough, and no less is.

The value of a state is the most that any analyst can still make of `E_P1[(P0/P1)^a e^(-charged)]`. Held outcomes are
known by what revisions excluded so far; fresh calls by randomized response may come in between.
"""

import math
from fractions import Fraction
from functools import lru_cache
from itertools import combinations

import numpy as np
import pytest

from chary.accounting import Extendable
from tests.accounting.strategies import random_pair, response_pair

EPSILON, ORDERS = 0.1, (2, 4, 6.5)
GONE = None


def price(epsilon, order):
    found = Extendable(Fraction(str(epsilon))).hit_price_up(Fraction(order))
    assert found is not None
    return float(found)


def subsets(free):
    """All non-empty subsets of some outcomes, as sorted tuples."""
    return [part for size in range(1, len(free) + 1) for part in combinations(sorted(free), size)]


class Analyst:
    """The best adaptive analyst with some held outcomes, one a pair of laws, and a few fresh calls."""

    def __init__(self, pairs, order, hit, fresh=(), revised=None):
        self.pairs, self.order, self.fresh = pairs, order, fresh
        self.factor, self.again = math.exp(-hit), math.exp(-(hit if revised is None else revised))
        self.value = lru_cache(maxsize=None)(self._value)

    def best(self):
        """The value of the start: nothing excluded yet."""
        return self.value(tuple(frozenset() for _ in self.pairs), 0)

    def _value(self, held, used):
        reached = [math.prod(self._rest(j, excluded) for j, excluded in enumerate(held) if excluded is not GONE)]
        reached += [self._revised(held, used, j) for j, excluded in enumerate(held) if excluded is not GONE]
        if used < len(self.fresh):
            after = self.value(held, used + 1)
            reached += [after * miss + after * hit for miss, hit in self._responses(*self.fresh[used])]
        return max(reached)

    def _rest(self, j, excluded):
        p0, p1 = (1 - sum(law[x] for x in excluded) for law in self.pairs[j])
        return p0**self.order * p1 ** (1 - self.order) if min(p0, p1) > 1e-15 else 0.0

    def _revised(self, held, used, j):
        """The best extension of the target of one held outcome: it is published at a price, or more is excluded."""
        laws = self.pairs[j]
        free = frozenset(range(len(laws[0]))) - held[j]
        published = self.value((*held[:j], GONE, *held[j + 1 :]), used)
        factor = self.again if held[j] else self.factor
        return max(
            (
                sum(laws[0][x] ** self.order * laws[1][x] ** (1 - self.order) for x in more) * factor * published
                + self.value((*held[:j], held[j] | set(more), *held[j + 1 :]), used)
                for more in subsets(free)
            ),
            default=0.0,
        )

    def _responses(self, epsilon, hit):
        """Either atom of randomized response as the prior: what a miss and a hit are worth."""
        p = 1 / (1 + math.exp(-epsilon))
        high, low = (a**self.order * b ** (1 - self.order) for a, b in ((p, 1 - p), (1 - p, p)))
        return (high, low * math.exp(-hit)), (low, high * math.exp(-hit))


def laws(seed, outcomes):
    """Random pairs and extremal ones: randomized response split over the outcomes, in both directions."""
    rng = np.random.default_rng(seed)
    found = [random_pair(rng, EPSILON, outcomes) for _ in range(3)]
    likely, rare = response_pair(EPSILON)
    for split in (rng.dirichlet(np.ones(outcomes - 1)), np.full(outcomes - 1, 1 / (outcomes - 1))):
        found.append(tuple(np.array([law[0], *(law[1] * split)]) for law in (likely, rare)))
    return [pair[::step] for pair in found for step in (1, -1)]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("outcomes", [3, 4])
def test_one_held_outcome_costs_one_hit(order, outcomes):
    hit = price(EPSILON, order)
    values = [
        Analyst([pair], order, hit, fresh=[(0.05, price(0.05, order))]).best() for pair in laws(outcomes, outcomes)
    ]
    assert max(values) <= 1 + 1e-9
    assert max(values) > 1 - 1e-9


@pytest.mark.parametrize("order", ORDERS)
def test_two_held_outcomes_with_other_calls_in_between(order):
    hit, fresh = price(EPSILON, order), [(0.05, price(0.05, order)), (EPSILON, price(EPSILON, order))]
    mixed = list(zip(laws(1, 3), laws(2, 4), strict=True))
    assert max(Analyst(pairs, order, hit, fresh).best() for pairs in mixed) <= 1 + 1e-9


@pytest.mark.parametrize("order", ORDERS)
def test_nine_tenths_of_the_price_are_not_enough(order):
    hit = price(EPSILON, order)
    pair = max(laws(3, 3), key=lambda pair: Analyst([pair], order, 0.9 * hit).best())
    assert Analyst([pair], order, 0.9 * hit).best() > 1
    assert Analyst([pair, pair], order, 0.9 * hit).best() > Analyst([pair], order, 0.9 * hit).best()


@pytest.mark.parametrize("order", ORDERS)
def test_revisions_at_half_price_are_not_enough(order):
    hit = price(EPSILON, order)
    assert max(Analyst([pair], order, hit, revised=0.5 * hit).best() for pair in laws(4, 3)) > 1


def test_a_call_of_twice_the_size_costs_far_more():
    """What the published analysis charges for a revision."""
    assert price(0.1, 4) > 2.5 * price(0.05, 4)
