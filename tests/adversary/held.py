"""Conditional releases and their revisions as a game: outcomes are held, published in parts, and charged once."""

import math
from fractions import Fraction
from functools import cache
from types import SimpleNamespace

from chary import Algorithm, count
from chary.calls import ReleaseIf, RunAlgorithm, Widen
from chary.calls.compute import run_once
from chary.calls.thresholds import asked_release, released_if, revision
from chary.core.plan import Data
from chary.data import NeighborRelation
from tests.adversary.kit import Ask, Result, World
from tests.adversary.told import Told, law

ADDED = NeighborRelation("add_remove", "unit")
ROWS = SimpleNamespace(neighbor_relation=ADDED)
LOW, HIGH = -1, 3


class Releases:
    """Up to `most` releases of a count that is 0 or 1, each above any of the `bars`, revised in any order, and a call
    of a public algorithm in between. What is seen are the lowest bars that held outcomes have failed."""

    def __init__(self, filter_, epsilon, bars=(3, 2, 1, 0), most=2, fresh=None):
        self.filter, self.epsilon, self.bars, self.most, self.fresh = filter_, Fraction(epsilon), bars, most, fresh
        self.start = ((), tuple(World(side, 1.0, ()) for side in (0, 1)))
        self.revised, self.released = cache(self._revised), cache(self._released)

    def asks(self, seen):
        """A new release, a lower bar for what is held, or a fresh call."""
        if len(seen) < self.most:
            yield from (self._release(bar, seen) for bar in self.bars)
        for place, floor in enumerate(seen):
            yield from (self._revise(place, bar, seen) for bar in self.bars if floor is not None and bar < floor)
        if self.fresh is not None:
            yield from (self._call(prior, seen) for prior in (0, 1))

    def _release(self, bar, seen):
        made = self._made(bar)
        worst = made.worst(made.price(self.filter)).main

        def play(side, kept):
            for noisy, chance in law(self._asked(bar).noises[0], side, LOW, HIGH).items():
                value, charged, secret = self.released(bar, noisy)
                floors = (*seen, None if value is not None else bar)
                yield Result(chance, value, charged, floors, (*kept, secret))

        return Ask(worst, play)

    def _asked(self, bar):
        return asked_release(count(), ADDED, Fraction(bar), self.epsilon)

    def _made(self, bar, **instead):
        call, spine = ReleaseIf(count(), above=bar, epsilon=self.epsilon), SimpleNamespace(rows=ROWS)
        return released_if(call, spine, self._asked(bar)._replace(**instead))

    def _released(self, bar, noisy):
        made = self._made(bar, noises=(Told((noisy,)),))
        price = made.price(self.filter)
        ran = made.run(Data([0], None, None, None, price))
        return ran.answer["value"], made.cost.final(price, ran, made.cost.most).main, ran.secret

    def _revise(self, place, bar, seen):
        made = self._revision(bar)
        worst = made.worst(made.price(self.filter)).main

        def play(side, kept):
            value, charged, secret = self.revised(bar, kept[place])
            floors = (*seen[:place], None if value is not None else bar, *seen[place + 1 :])
            yield Result(1.0, value, charged, floors, (*kept[:place], secret, *kept[place + 1 :]))

        return Ask(worst, play)

    def _revision(self, bar):
        original = {"epsilon": str(self.epsilon), "grid": "1", "error_bar": None}
        return revision(Widen(1, above=bar), original, ADDED)

    def _revised(self, bar, secret):
        made = self._revision(bar)
        made.check(secret)
        price = made.price(self.filter)
        ran = made.run(Data([], None, secret, None, price))
        return ran.answer["value"], made.cost.final(price, ran, made.cost.most).main, ran.secrets[1]

    def _call(self, prior, seen):
        made = self._fresh(prior, 0)
        likely = 1 / (1 + math.exp(-float(self.fresh)))

        def play(side, kept):
            for outcome in (0, 1):
                charged = charged_for(self._fresh(prior, outcome), self.filter)
                yield Result(likely if outcome == side else 1 - likely, outcome, charged, seen, kept)

        return Ask(made.worst(made.price(self.filter)).main, play)

    def _fresh(self, prior, outcome):
        told = Algorithm("told", lambda rows, source: outcome, epsilon=self.fresh)
        return run_once(RunAlgorithm(told, prior=prior), told)


def charged_for(made, filter_):
    """What a call without secret state is charged."""
    price = made.price(filter_)
    return made.cost.final(price, made.run(Data([None], None, None, None, price)), made.cost.most).main
