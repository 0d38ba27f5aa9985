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

from chary.accounting import Extendable, exact_delta
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


class Gambler:
    """The best analyst on the privacy curve: the same moves, paid in tokens, for a hockey-stick divergence."""

    def __init__(self, pairs, tokens, total, fresh=0, cost=1):
        self.pairs, self.fresh, self.cost, self.slope = pairs, fresh, cost, math.exp(total)
        self.start = tuple(frozenset() for _ in pairs), tokens
        self.known = lru_cache(maxsize=None)(self._value)

    def best(self):
        return self.value(1.0, 1.0, self.start[0], self.start[1], self.fresh)

    def value(self, x, y, *state):
        return self.known(round(x, 14), round(y, 14), *state)

    def _value(self, x, y, held, tokens, fresh):
        """The most that transcripts which go on from chances x and y add to the divergence."""
        found = [max(0.0, x - self.slope * y)]
        if tokens and fresh:
            a, b = response_pair(EPSILON)
            hits = [self.value(x * a[j], y * b[j], held, tokens - 1, fresh - 1) for j in (0, 1)]
            misses = [self.value(x * a[j], y * b[j], held, tokens, fresh - 1) for j in (0, 1)]
            found += [hits[0] + misses[1], misses[0] + hits[1]]
        for j, excluded in enumerate(held):
            if excluded is not GONE and self.cost <= tokens:
                paid = tokens - self.cost
                found += [self.extended(x, y, held, paid, tokens, fresh, j, more) for more in self.left(held, j)]
        return max(found)

    def left(self, held, j):
        return subsets(frozenset(range(len(self.pairs[j][0]))) - held[j])

    def extended(self, x, y, held, paid, tokens, fresh, j, more):
        rest = [max(1e-300, 1 - sum(law[k] for k in held[j])) for law in self.pairs[j]]
        out = [[x * self.pairs[j][0][k] / rest[0], y * self.pairs[j][1][k] / rest[1]] for k in more]
        miss = [max(0.0, mass - sum(part)) for mass, part in zip((x, y), zip(*out, strict=True), strict=True)]
        gone, kept = (*held[:j], GONE, *held[j + 1 :]), (*held[:j], held[j] | set(more), *held[j + 1 :])
        return sum(self.value(*part, gone, paid, fresh) for part in out) + self.value(*miss, kept, tokens, fresh)


TOTALS = (1e-9, 0.1)


@pytest.mark.parametrize("total", TOTALS)
@pytest.mark.parametrize("tokens", [1, 2])
def test_held_outcomes_have_the_exact_curve_of_calls_of_their_epsilon(tokens, total):
    most = exact_delta(epsilon_per_call=EPSILON, hits=tokens, epsilon=total)
    one = [Gambler([pair], tokens, total, fresh=1).best() for pair in laws(5, 3)]
    two = [Gambler(list(pairs), tokens, total).best() for pairs in zip(laws(6, 3)[-2:], laws(7, 2)[:2], strict=True)]
    assert max(one + two) <= most * (1 + 1e-9)
    assert max(one + two) > most / 3


def test_held_outcomes_that_cost_nothing_pass_the_curve():
    most = exact_delta(epsilon_per_call=EPSILON, hits=1, epsilon=1e-9)
    assert Gambler([response_pair(EPSILON)] * 3, 1, 1e-9, fresh=2, cost=0).best() > 1.05 * most


def test_the_best_of_many_is_one_hit_on_the_exact_curve():
    """The best of m candidates that answer by randomized response: all that matters is how many said high."""
    epsilon, total, m = 0.2, 1.0, 60
    p, q = (1 / (1 + math.exp(s * epsilon)) for s in (-1, 1))
    # Published: the first that said high, or that none did; p for the first neighbour, q for the other.
    laws_of = [[chance * (1 - chance) ** j for j in range(m)] + [(1 - chance) ** m] for chance in (q, p)]
    found = sum(max(0.0, one - math.exp(total) * other) for one, other in zip(*laws_of, strict=True))
    once, twice = (exact_delta(epsilon_per_call=size, hits=1, epsilon=total) for size in (epsilon, 2 * epsilon))
    assert once / 4 < found <= once < twice / 4
