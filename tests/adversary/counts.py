"""Calls on one count, or one for each key, as games: top keys, watches, tracked answers."""

import json
from copy import copy
from functools import cache, partial
from itertools import product

import numpy as np

from chary import count
from chary.calls.selection import TopK, top_keys
from chary.calls.thresholds import AskTracked, AskWatch, OnChange, Watch
from chary.core.plan import Data, laplace_for_each
from chary.data import NeighborRelation
from tests.adversary.kit import Ask, Result, World
from tests.adversary.told import Told, law, with_fields

ADDED = NeighborRelation("add_remove", "unit")


class Counts:
    """Any number of calls that `make(seen)` offers, on counts of 0 or 1 for each key; `moved` are the keys that differ.

    A call is its noise and what makes its plan with any noise. `after(told)` is the public state that an answer leaves.
    """

    def __init__(self, filter_, make, keys, moved, after, span=(-1, 2)):
        self.filter, self.make, self.keys, self.moved, self.after, self.span = filter_, make, keys, moved, after, span
        self.start = (None, tuple(World(side, 1.0, None) for side in (0, 1)))
        self.ran = cache(self._ran)

    def asks(self, seen):
        """What can be asked now."""
        return [self._ask(asked, seen) for asked in range(len(self.make(seen)))]

    def _ask(self, asked, seen):
        noise, made = self.make(seen)[asked]
        plan = made(noise)
        worst = plan.worst(plan.price(self.filter)).main

        def play(side, kept):
            laws = [law(noise, side * (key in self.moved), *self.span) for key in range(self.keys)]
            for noisy in product(*laws):
                told, charged = self.ran(asked, seen, noisy)
                chance = np.prod([chances[value] for chances, value in zip(laws, noisy, strict=True)])
                yield Result(float(chance), told, charged, self.after(told), None)

        return Ask(worst, play)

    def _ran(self, asked, seen, noisy):
        plan = self.make(seen)[asked][1](Told(noisy))
        price = plan.price(self.filter)
        ran = plan.run(Data([np.zeros(self.keys, np.int64)], None, None, None, price))
        return json.dumps(ran.answer), plan.cost.final(price, ran, plan.cost.most).main


def bound(made):
    """An interaction, with any noise."""
    return made.noise, lambda noise: with_fields(copy(made), noise=noise).plan()


def keyed(keys, reach):
    """A count for each key of which one unit has rows in at most `reach`."""
    return count().by("key", list(range(keys)), max_groups_per_unit=reach)


def top(filter_, epsilon, keys, moved, **rule):
    """The best keys, again and again."""
    query = keyed(keys, len(moved))
    noise, asked = (
        laplace_for_each(query, ADDED, epsilon),
        [TopK(query, k=k, epsilon=epsilon, **rule) for k in range(1, keys + 1)],
    )
    calls = [(noise, partial(top_keys, call, query, ADDED)) for call in asked]
    return Counts(filter_, lambda seen: calls, keys, moved, lambda told: None)


def watched(filter_, epsilon, keys, moved):
    """Watches at all bars, again and again."""
    query = keyed(keys, len(moved))
    calls = [bound(AskWatch(Watch(query, above=above, epsilon=epsilon), ADDED, query)) for above in (0, 1, 2)]
    return Counts(filter_, lambda seen: calls, keys, moved, lambda told: None)


def tracked(filter_, epsilon, step):
    """One count asked again and again, with the last answer, of any step, as the prior."""

    @cache
    def made(seen):
        return [bound(AskTracked(OnChange(count(), step=step, epsilon=epsilon), ADDED, count(), seen))]

    return Counts(filter_, made, 1, {0}, lambda told: json.loads(told)["value"])
