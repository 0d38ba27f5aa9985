"""What is charged at once when it is opened, as games: individual streams and sparse vectors."""

import json
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from functools import cache, partial
from itertools import product
from types import SimpleNamespace

import numpy as np
import pyarrow as pa

from chary import count
from chary.calls import IndividualTests
from chary.calls.individual import CounterMemory, IndividualRun
from chary.calls.prepaid_tests import SparseRun
from chary.core.plan import Data
from chary.data import NeighborRelation
from chary.mechanisms import BarTests, HiddenThreshold
from chary.noise import Seeded
from tests.adversary.kit import Ask, Result, World
from tests.adversary.told import Told, law

ADDED = NeighborRelation("add_remove", "unit")
SESSION = SimpleNamespace(rows=SimpleNamespace(neighbor_relation=ADDED))


class OneUnit:
    """A plan over rows in which unit 7, if it is there and has room, is in the first keys that its room allows."""

    def __init__(self, there, keys):
        self.there, self.keys = there, keys

    @contextmanager
    def at(self, rooms):
        """The living units."""
        used = dict(zip(rooms.left["unit"].to_pylist(), rooms.left["room"].to_pylist(), strict=True))
        self.taken = min(self.keys, used.get(7, rooms.hits)) if self.there else 0
        yield self

    def answers(self):
        """How many there are in each key."""
        return np.array([int(key < self.taken) for key in range(self.keys)])

    def of(self, positions):
        """In how many of these keys it takes part."""
        used = sum(position < self.taken for position in positions)
        return pa.table({"unit": [7] * bool(used), "used": [used] * bool(used)})


class Stream:
    """A stream asked again and again over one or two keys; only neighbour 1 has the unit. Opening paid for all."""

    def __init__(self, filter_, epsilon, hits, keys):
        self.epsilon = epsilon
        self._open(IndividualTests(epsilon=epsilon, hits=hits), filter_, keys)

    def _open(self, call, filter_, keys):
        opening = call.plan(SimpleNamespace(rows=SESSION.rows, filter=filter_))
        price = opening.price(filter_)
        ran = opening.run(Data([], None, None, None, price))
        self.charged = opening.cost.final(price, ran, opening.cost.most).main
        self.keys, self.filter = keys, filter_
        self.start = (None, tuple(World(side, 1.0, ran.secret) for side in (0, 1)))
        self.ran = cache(self._ran)

    def asks(self, seen):
        """Every bar."""
        return [Ask(0, lambda side, kept, above=above: self._play(side, kept, above)) for above in (0, 1, 2)]

    def _run(self):
        return IndividualRun(None, 1, {"epsilon_per_call": self.epsilon, "hits_per_unit": 1})

    @property
    def _query(self):
        return count() if self.keys == 1 else count().by("key", list(range(self.keys)))

    def _made(self, above, law):
        run = self._run()
        run.memory, run.law = CounterMemory(None), lambda *asked: law
        return run._test(self._query, Fraction(above), ADDED)

    def _play(self, side, kept, above):
        noise, plan = self._run().law(self._query, ADDED).noise, OneUnit(side == 1, self.keys)
        rooms = CounterMemory(None).standing(kept)[1]
        with plan.at(rooms):
            laws = [law(noise, int(value), -1, 2) for value in plan.answers()]
        for noisy in product(*laws):
            chance = float(np.prod([chances[value] for chances, value in zip(laws, noisy, strict=True)]))
            told, secret = self.ran(side, kept, above, noisy)
            yield Result(chance, told, 0, None, secret)

    def _ran(self, side, kept, above, noisy):
        law = self._run().law(self._query, ADDED)
        made = self._made(above, replace(law, machine=partial(BarTests, Told(noisy))))
        price = made.price(self.filter)
        ran = made.run(Data([OneUnit(side == 1, self.keys)], None, kept, None, price))
        assert made.cost.final(price, ran, made.cost.most).main == 0
        return json.dumps(ran.answer), ran.secrets[1]


class Sparse:
    """A sparse vector whose values are far below, at or far above the bar and move by at most one, in any direction.

    The threshold's noise is summed over all that have a chance worth counting; a test comes out by its exact chance.
    Gaps count from the bar that is tested, wherever the form puts it.
    """

    def __init__(self, filter_, law, moves, reach=12):
        self.law, self.filter, self.moves, self.ran = law, filter_, moves, cache(self._ran)
        opening = law.call.plan(SESSION)
        price = opening.price(filter_)
        ran = opening.run(Data([], Seeded(1), None, None, price))
        self.charged = opening.cost.final(price, ran, opening.cost.most).main
        bar, self.test = law.machine._laws()
        shifts = range(-reach * int(bar.scale) - reach, reach * int(bar.scale) + reach + 1)
        chances = {shift: bar.at_least(shift) - bar.at_least(shift + 1) for shift in shifts}
        worlds = [World(side, chances[s], HiddenThreshold(s).dump()) for side in (0, 1) for s in shifts if chances[s]]
        self.start = (0, tuple(worlds))

    def asks(self, seen):
        """Each gap between value and bar, each move of the neighbour."""
        if seen >= self.law.call.hits:
            return []
        return [
            Ask(0, lambda side, kept, gap=gap, move=move: self._play(kept, gap + side * move))
            for gap, move in product((-2, 0, 2), self.moves)
        ]

    def _play(self, kept, gap):
        reached = self.test.at_least(HiddenThreshold.load(kept).shift - gap)
        for above, chance in ((True, reached), (False, 1 - reached)):
            used, secret = self.ran(kept, above)
            yield Result(chance, above, 0, used, secret)

    def _ran(self, kept, above):
        """The real question, of a value so far up or down that the outcome is the one that is told."""
        run = SparseRun(None, 1, {})
        run.law = self.law
        made = run.plan(count(), above=0)
        price = made.price(self.filter)
        ran = made.run(Data([10**9 if above else -(10**9)], Seeded(1), kept, None, price))
        assert made.cost.final(price, ran, made.cost.most).main == 0
        secret = ran.secrets[1]
        return HiddenThreshold.load(secret).used, secret
