"""Sharp tests and sharp watches as games: hits and fresh values are told, chances are those of the real tables."""

import json
from copy import copy
from functools import cache
from itertools import product
from types import SimpleNamespace

import numpy as np

from chary import count
from chary.calls import ThresholdTest, Watch
from chary.calls.thresholds import AskSharpTest
from chary.core.plan import Data
from chary.data import NeighborRelation
from tests.adversary.counts import keyed
from tests.adversary.kit import Ask, Result, World
from tests.adversary.told import Told, law, with_fields

ADDED = NeighborRelation("add_remove", "unit")


class ToldHits:
    """Stands for the sampler of a sharp test: these values hit, whatever they are."""

    def __init__(self, sampler, hits):
        self.table, self._hits = sampler.table, hits

    def hits(self, values, source):
        """The hits that were told."""
        assert len(values) == len(self._hits)
        return np.array(self._hits)

    def step(self, value, source):
        """The single one."""
        return self._hits[0]


class Sharp:
    """Any number of sharp calls, on counts of 0 or 1 for each key; `moved` are the keys that differ."""

    def __init__(self, filter_, calls, keys, moved):
        spine = SimpleNamespace(rows=SimpleNamespace(neighbor_relation=ADDED), filter=filter_)
        self.filter, self.keys, self.moved = filter_, keys, moved
        self.made = [call.bind(spine) for call in calls]
        self.start = (None, tuple(World(side, 1.0, None) for side in (0, 1)))
        self.ran = cache(self._ran)

    def asks(self, seen):
        """What can be asked, at any time."""
        return [self._ask(asked) for asked in range(len(self.made))]

    def _ask(self, asked):
        made = self.made[asked]

        def play(side, kept):
            for hits in product((False, True), repeat=self.keys):
                chance = np.prod([self._chance(made, side, key, hit) for key, hit in enumerate(hits)])
                for noisy, part in self._values(made, side, hits):
                    told, charged = self.ran(asked, hits, noisy)
                    yield Result(float(chance * part), told, charged, None, None)

        return Ask(made.worst(made.price(self.filter)).main, play)

    def _chance(self, made, side, key, hit):
        table, moved = made.sharpness.sampler.table, side * (key in self.moved)
        chance = float(table.hit_chance(moved - made.threshold + made.sharpness.bar))
        return chance if hit else 1 - chance

    def _values(self, made, side, hits):
        """The fresh values of the hits, with their chances."""
        if isinstance(made, AskSharpTest):
            return [((), 1.0)]
        laws = [law(made.noise, side * (key in self.moved), -1, 2) for key, hit in enumerate(hits) if hit]
        return [
            (noisy, np.prod([chances[value] for chances, value in zip(laws, noisy, strict=True)]))
            for noisy in product(*laws)
        ]

    def _ran(self, asked, hits, noisy):
        sharpness = copy(self.made[asked].sharpness)
        made = with_fields(
            copy(self.made[asked]),
            sharpness=with_fields(sharpness, sampler=ToldHits(sharpness.sampler, hits)),
            noise=Told(noisy),
        )
        price = made.price(self.filter)
        read = len(made.queries())
        ran = made.run(Data([np.zeros(self.keys // read, np.int64)] * read, None, None, None, price))
        return json.dumps(ran.answer), made.final(price, ran, made.most_hits).main


def tests(filter_, **how):
    """Tests of one count at bars around it, again and again."""
    return Sharp(filter_, [ThresholdTest(count(), above=above, **how) for above in (-2, 0, 1, 3)], 1, {0})


def watches(filter_, moved, **how):
    """Watches of two counts."""
    query = keyed(2, len(moved))
    return Sharp(filter_, [Watch(query, above=above, **how) for above in (-3, 0, 2)], 2, moved)
