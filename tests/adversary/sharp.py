"""Sharp tests and sharp watches as games: hits and fresh values are told, chances are those of the real tables."""

import json
from dataclasses import replace
from functools import cache
from itertools import product
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np

from chary import count
from chary.calls import ReleaseIf, ThresholdTest
from chary.core.plan import Data, PerHit
from chary.data import NeighborRelation
from tests.adversary.counts import as_made, keyed
from tests.adversary.kit import Ask, Result, World
from tests.adversary.told import Told, law

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
    """Any number of sharp calls, on counts of 0 or 1 for each key; `moved` are the keys that differ, `forgot` is what
    is wrong with the plans."""

    def __init__(self, filter_, calls, keys, moved, forgot=as_made):
        self.spine = SimpleNamespace(rows=SimpleNamespace(neighbor_relation=ADDED), filter=filter_)
        self.filter, self.keys, self.moved, self.forgot = filter_, keys, moved, forgot
        self.calls, self.laws = calls, [call.law(self.spine, call.query) for call in calls]
        self.start = (None, tuple(World(side, 1.0, None) for side in (0, 1)))
        self.ran = cache(self._ran)

    def asks(self, seen):
        """What can be asked, at any time."""
        return [self._ask(asked) for asked in range(len(self.calls))]

    def _ask(self, asked):
        made = self.forgot(self.calls[asked].plan(self.spine))

        def play(side, kept):
            for hits in product((False, True), repeat=self.keys):
                chance = np.prod([self._chance(asked, side, key, hit) for key, hit in enumerate(hits)])
                for noisy, part in self._values(asked, side, hits):
                    told, charged = self.ran(asked, hits, noisy)
                    yield Result(float(chance * part), told, charged, None, None)

        return Ask(made.worst(made.price(self.filter)).main, play)

    def _chance(self, asked, side, key, hit):
        tests, moved = self.laws[asked].machine(int(self.calls[asked].above), None), side * (key in self.moved)
        chance = float(tests.sampler.table.hit_chance(moved - tests.threshold))
        return chance if hit else 1 - chance

    def _values(self, asked, side, hits):
        """The fresh values of the hits, with their chances."""
        noise = self.laws[asked].noise
        if noise is None:
            return [((), 1.0)]
        laws = [law(noise, side * (key in self.moved), -1, 2) for key, hit in enumerate(hits) if hit]
        return [
            (noisy, np.prod([chances[value] for chances, value in zip(laws, noisy, strict=True)]))
            for noisy in product(*laws)
        ]

    def _ran(self, asked, hits, noisy):
        call, own = self.calls[asked], self.laws[asked]

        def machine(threshold, most_hits):
            tests = own.machine(threshold, most_hits)
            fresh = None if own.noise is None else Told(noisy)
            return replace(tests, sampler=ToldHits(tests.sampler, hits), fresh=fresh)

        with patch.object(type(call), "law", lambda self, spine, query: replace(own, machine=machine)):
            made = self.forgot(call.plan(self.spine))
        price, read = made.price(self.filter), len(read_by(made))
        ran = made.run(Data([np.zeros(self.keys // read, np.int64)] * read, None, None, None, price))
        return json.dumps(ran.answer), made.cost.final(price, ran, made.cost.most).main


def read_by(made):
    """The queries that a plan reads."""
    return made.reads(SimpleNamespace(prepare=lambda query: query))


def in_one_part(made):
    """As if neighbours differed in one part."""
    return replace(made, cost=PerHit(1, halts=True))


def tests(filter_, **how):
    """Tests of one count at bars around it, again and again."""
    return Sharp(filter_, [ThresholdTest(count(), above=above, **how) for above in (-2, 0, 1, 3)], 1, {0})


def watches(filter_, moved, forgot=as_made, kind=ReleaseIf, **how):
    """Watches of two counts, or tests of which no value is told."""
    query = keyed(2, len(moved))
    return Sharp(filter_, [kind(query, above=above, **how) for above in (-3, 0, 2)], 2, moved, forgot)
