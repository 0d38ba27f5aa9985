"""Calls on one count, or one for each key, as games: top keys, watches, tracked answers."""

import json
from dataclasses import replace
from functools import cache, partial
from itertools import product
from types import SimpleNamespace

import numpy as np

from chary import count
from chary.calls import OnChange, ReleaseIf, TopK
from chary.calls.selection import top_keys
from chary.calls.thresholds import rounded, tested_keys
from chary.core.plan import Data, laplace_for, laplace_for_each
from chary.data import NeighborRelation
from chary.mechanisms import BarTests
from tests.adversary.kit import Ask, Result, World
from tests.adversary.told import Told, law

ADDED = NeighborRelation("add_remove", "unit")
SPINE = SimpleNamespace(rows=SimpleNamespace(neighbor_relation=ADDED))


class Counts:
    """Any number of calls that `make(seen)` offers, on counts of 0 or 1 for each key; `moved` are the keys that differ.

    A call is a plan as it is made with this noise. `after(told)` is the public state that an answer leaves, `forgot`
    what is wrong with the plans.
    """

    def __init__(self, filter_, noise, make, keys, moved, after, forgot, span=(-1, 2)):
        self.filter, self.noise, self.make, self.keys, self.moved = filter_, noise, make, keys, moved
        self.after, self.forgot, self.span = after, forgot, span
        self.start = (None, tuple(World(side, 1.0, None) for side in (0, 1)))
        self.ran = cache(self._ran)

    def asks(self, seen):
        """What can be asked now."""
        return [self._ask(asked, seen) for asked in range(len(self.make(seen)))]

    def _ask(self, asked, seen):
        made = self.forgot(self.make(seen)[asked](self.noise))
        worst = made.worst(made.price(self.filter)).main

        def play(side, kept):
            laws = [law(self.noise, side * (key in self.moved), *self.span) for key in range(self.keys)]
            for noisy in product(*laws):
                told, charged = self.ran(asked, seen, noisy)
                chance = np.prod([chances[value] for chances, value in zip(laws, noisy, strict=True)])
                yield Result(float(chance), told, charged, self.after(told), None)

        return Ask(worst, play)

    def _ran(self, asked, seen, noisy):
        made = self.forgot(self.make(seen)[asked](Told(noisy)))
        price = made.price(self.filter)
        ran = made.run(Data([np.zeros(self.keys, np.int64)], None, None, None, price))
        return json.dumps(ran.answer), made.cost.final(price, ran, made.cost.most).main


def as_made(plan):
    """Nothing is wrong with it."""
    return plan


def keyed(keys, reach):
    """A count for each key of which one unit has rows in at most `reach`."""
    return count().by("key", list(range(keys)), max_groups_per_unit=reach)


def top(filter_, epsilon, keys, moved, forgot=as_made, **rule):
    """The best keys, again and again."""
    query = keyed(keys, len(moved))
    noise = laplace_for_each(query, ADDED, epsilon)
    calls = [partial(top_keys, TopK(query, k=k, epsilon=epsilon, **rule), SPINE, query) for k in range(1, keys + 1)]
    return Counts(filter_, noise, lambda seen: calls, keys, moved, lambda told: None, forgot)


def watching(filter_, epsilon, keys, moved, forgot=as_made, kind=ReleaseIf):
    """Watches at all bars, or tests of which no value is told, again and again."""
    query = keyed(keys, len(moved))
    calls = [kind(query, above=above, epsilon=epsilon) for above in (0, 1, 2)]
    real = calls[0].law(SPINE, query)

    def by(call, noise):
        return tested_keys(call, SPINE, query, replace(real, noise=noise, machine=partial(BarTests, noise)))

    made = [partial(by, call) for call in calls]
    return Counts(filter_, real.noise, lambda seen: made, keys, moved, lambda told: None, forgot)


def tracked(filter_, epsilon, step, forgot=as_made):
    """One count asked again and again, with the last answer, of any step, as the prior."""
    call = OnChange(count(), step=step, epsilon=epsilon)

    def made(seen):
        return [lambda noise: rounded(call, count(), ADDED, noise, seen)]

    noise = laplace_for(count(), ADDED, epsilon)
    return Counts(filter_, noise, made, 1, {0}, lambda told: json.loads(told)["value"], forgot)
