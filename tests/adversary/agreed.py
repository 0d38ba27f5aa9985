"""Runs of agreed tests as games: the opening and all questions are the real ones, hits and fresh values are told."""

import json
from copy import copy
from functools import cache
from itertools import product
from types import SimpleNamespace

import numpy as np

from chary import BudgetExceeded, count
from chary.calls.agreed_tests import AskAgreedKeys, AskAgreedOnce
from chary.core.plan import Data
from tests.adversary.counts import keyed
from tests.adversary.kit import Ask, Result, World
from tests.adversary.sharp import ADDED, ToldHits
from tests.adversary.told import Told, law, with_fields


class Agreed:
    """A run on counts of 0 or 1 for each key, at any of some bars; `moved` are the keys that differ.

    `charged` is what the opening was charged. What an analyst sees is the answer; the state is public.
    """

    def __init__(self, filter_, call, bars, keys, moved):
        opening = call.bind(SimpleNamespace(rows=SimpleNamespace(neighbor_relation=ADDED), filter=filter_))
        price = opening.price(filter_)
        ran = opening.run(Data([], None, None, None, price))
        self.charged = opening.final(price, ran, opening.most_hits).main
        self.filter, self.keys, self.moved = filter_, keys, moved
        kind, query = (AskAgreedOnce, count()) if keys == 1 else (AskAgreedKeys, keyed(keys, len(moved)))
        self.made = [kind(1, opening.terms, query, ADDED, above) for above in bars]
        self.start = (ran.secret, tuple(World(side, 1.0, None) for side in (0, 1)))
        self.ran = cache(self._ran)

    def asks(self, seen):
        """What the run still answers."""
        return [self._ask(asked, seen) for asked, made in enumerate(self.made) if answers(made, seen)]

    def _ask(self, asked, seen):
        made = self.made[asked]

        def play(side, kept):
            for hits in product((False, True), repeat=self.keys):
                chance = np.prod([self._chance(made, side, key, hit) for key, hit in enumerate(hits)])
                for noisy, part in self._values(made, side, hits):
                    yield Result(float(chance * part), *self.ran(asked, seen, hits, noisy), None)

        return Ask(made.worst(made.price(self.filter)).main, play)

    def _chance(self, made, side, key, hit):
        table, moved = made.sharpness.sampler.table, side * (key in self.moved)
        chance = table.hit_chance(moved - made.threshold + made.sharpness.bar)
        return float(chance if hit else 1 - chance)

    def _values(self, made, side, hits):
        """The fresh values of the hits, with their chances."""
        if made.noise is None:
            return [((), 1.0)]
        laws = [law(made.noise, side * (key in self.moved), -1, 2) for key, hit in enumerate(hits) if hit]
        return [
            (noisy, np.prod([chances[value] for chances, value in zip(laws, noisy, strict=True)]))
            for noisy in product(*laws)
        ]

    def _ran(self, asked, seen, hits, noisy):
        """What is told, what is charged, and the state then."""
        made, sharpness = copy(self.made[asked]), copy(self.made[asked].sharpness)
        fresh = None if made.noise is None else Told(noisy)
        made = with_fields(
            made, sharpness=with_fields(sharpness, sampler=ToldHits(sharpness.sampler, hits)), noise=fresh
        )
        price = made.price(self.filter)
        ran = made.run(Data([np.zeros(self.keys, np.int64)], None, seen, None, price))
        return json.dumps(ran.answer), made.final(price, ran, made.most_hits).main, ran.secrets[1]


def answers(made, seen):
    """Whether the run answers the question in this state."""
    try:
        made.check(seen)
    except BudgetExceeded:
        return False
    return True
