"""Runs of agreed tests as games: the opening and all questions are the real ones, hits and fresh values are told."""

import json
from fractions import Fraction
from functools import cache
from itertools import product
from types import SimpleNamespace

import numpy as np

from chary import BudgetExceeded, count
from chary.calls.prepaid_tests import PrepaidRun
from chary.core.plan import Data
from tests.adversary.by_hits import ToldTerms
from tests.adversary.counts import keyed
from tests.adversary.kit import Ask, Result, World
from tests.adversary.sharp import ADDED
from tests.adversary.told import law


class Agreed:
    """A run on counts of 0 or 1 for each key, at any of some bars; `moved` are the keys that differ.

    `charged` is what the opening was charged. What an analyst sees is the answer; the state is public.
    """

    def __init__(self, filter_, call, bars, keys, moved, reach=None):
        session = SimpleNamespace(rows=SimpleNamespace(neighbor_relation=ADDED), filter=filter_)
        opening = call.plan(session)
        price = opening.price(filter_)
        ran = opening.run(Data([], None, None, None, price))
        self.charged = opening.cost.final(price, ran, opening.cost.most).main
        self.filter, self.keys, self.moved, self.bars = filter_, keys, moved, bars
        self.query = count() if keys == 1 else keyed(keys, reach or len(moved))
        self.run = PrepaidRun(session, 1, {})
        self.run.agreed = self.terms = call.terms(filter_)
        self.made = [self.run.plan(self.query, above=above) for above in bars]
        self.start = (ran.secret, tuple(World(side, 1.0, None) for side in (0, 1)))
        self.ran = cache(self._ran)

    def asks(self, seen):
        """What the run still answers."""
        return [self._ask(asked, seen) for asked, made in enumerate(self.made) if answers(made, seen)]

    def _ask(self, asked, seen):
        made = self.made[asked]

        def play(side, kept):
            for hits in product((False, True), repeat=self.keys):
                chance = np.prod([self._chance(asked, side, key, hit) for key, hit in enumerate(hits)])
                for noisy, part in self._values(side, hits):
                    yield Result(float(chance * part), *self.ran(asked, seen, hits, noisy), None)

        return Ask(made.worst(made.price(self.filter)).main, play)

    def _chance(self, asked, side, key, hit):
        test, moved = self.terms.sharpness(1, Fraction(1)), side * (key in self.moved)
        chance = test.sampler.table.hit_chance(moved - self.bars[asked] + test.bar)
        return float(chance if hit else 1 - chance)

    def _values(self, side, hits):
        """The fresh values of the hits, with their chances."""
        noise = self.terms.noise(1)
        if noise is None:
            return [((), 1.0)]
        laws = [law(noise, side * (key in self.moved), -1, 2) for key, hit in enumerate(hits) if hit]
        return [
            (noisy, np.prod([chances[value] for chances, value in zip(laws, noisy, strict=True)]))
            for noisy in product(*laws)
        ]

    def _ran(self, asked, seen, hits, noisy):
        """What is told, what is charged, and the state then."""
        self.run.agreed = ToldTerms(self.terms, hits, noisy)
        made = self.run.plan(self.query, above=self.bars[asked])
        price = made.price(self.filter)
        ran = made.run(Data([np.zeros(self.keys, np.int64)], None, seen, None, price))
        return json.dumps(ran.answer), made.cost.final(price, ran, made.cost.most).main, ran.secrets[1]


def answers(made, seen):
    """Whether the run answers the question in this state."""
    try:
        made.check(seen)
    except BudgetExceeded:
        return False
    return True
