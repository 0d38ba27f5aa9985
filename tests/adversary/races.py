"""Races of several targets as a game: calls of any sizes by randomized response, with any prior for each target."""

import json
import math
from fractions import Fraction
from functools import cache, cached_property
from itertools import product
from types import SimpleNamespace

from chary import Algorithm
from chary.calls.compute import RaceRun
from chary.core.plan import Data
from tests.adversary.kit import Ask, Result, World


@cache
def made(filter_, epsilon, priors, outcome):
    """The real call, of an algorithm whose outcome is known."""
    algorithm = Algorithm("told", lambda rows, source: outcome, epsilon=epsilon)
    race = RaceRun(SimpleNamespace(filter=filter_), 1, {"targets": range(len(priors))})
    return race.plan(algorithm, priors=dict(enumerate(priors)))


def start(counters):
    """A race with these counters: nothing about it is secret."""
    return None, tuple(World(side, 1.0, counters) for side in (0, 1))


class Races:
    """`targets` side by side under a filter; `sizes` are the epsilons of the calls, `priors` the choices for each.

    Counters are public. They are kept less the smallest of them, which test_races.py shows to be all that matters.
    """

    def __init__(self, filter_, targets, sizes, priors=None):
        self.filter, self.sizes = filter_, tuple(map(Fraction, sizes))
        self.start = start((0,) * targets)
        self.results = cache(self._results)
        self.priors = list(product((0, 1), repeat=targets)) if priors is None else priors

    def asks(self, seen):
        """Every size with every choice of priors."""
        return self._every

    @cached_property
    def _every(self):
        return [self._ask(epsilon, priors) for epsilon, priors in product(self.sizes, self.priors)]

    def _ask(self, epsilon, priors):
        call = made(self.filter, epsilon, priors, 0)
        worst = call.worst(call.price(self.filter)).main
        return Ask(worst, lambda side, kept: self.results(epsilon, priors, side, kept))

    def _results(self, epsilon, priors, side, counters):
        likely = 1 / (1 + math.exp(-float(epsilon)))
        return [
            self._result(epsilon, priors, counters, outcome, likely if outcome == side else 1 - likely)
            for outcome in (0, 1)
        ]

    def _result(self, epsilon, priors, counters, outcome, chance):
        charged, after = self.run(epsilon, priors, counters, outcome)
        least = min(after)
        return Result(chance, outcome, charged, None, tuple(count - least for count in after))

    def run(self, epsilon, priors, counters, outcome):
        """What the real call charges, and the counters it leaves."""
        call = made(self.filter, epsilon, priors, outcome)
        price = call.price(self.filter)
        ran = call.run(Data([None], None, json.dumps(list(counters)).encode(), None, price))
        return call.cost.final(price, ran, call.cost.most).main, tuple(json.loads(ran.secrets[1]))


def counted_twice(before, hits, full):
    """The broken rule of earlier versions: a call paid in full raised the counters as well."""
    after = {name: count + hits.get(name, 0) for name, count in before.items()}
    return after, min(after.values()) - min(before.values()) if full is None else full
