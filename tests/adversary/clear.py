"""Answers that are charged where they are unclear, as a game: two draws of a label, told by the real calls."""

import json
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np

from chary import count
from chary.calls import Classify
from chary.core.plan import Data
from tests.adversary.counts import keyed
from tests.adversary.kit import Ask, Result, World
from tests.adversary.sharp import ADDED


class ToldLabel:
    """Stands for two draws: this label, or None, whatever is read."""

    def __init__(self, draws, label):
        self.labels, self._draws, self._label = draws.labels, draws, label

    def step(self, own, depth, source):
        """The label that was told."""
        return self._label

    def __getattr__(self, name):
        return getattr(self._draws, name)


class Clear:
    """Any number of such calls on counts of 0 or 1 for each key; `moved` are the keys that differ."""

    def __init__(self, filter_, calls, keys=1, moved=frozenset({0})):
        spine = SimpleNamespace(rows=SimpleNamespace(neighbor_relation=ADDED), filter=filter_)
        self.filter, self.keys, self.moved = filter_, keys, moved
        self.made = [(call, call.plan(spine), call.clearly(spine)) for call in calls]
        self.spine = spine
        self.start = (None, tuple(World(side, 1.0, None) for side in (0, 1)))
        self.ran = cache(self._ran)

    def asks(self, seen):
        """What can be asked, at any time."""
        return [self._ask(asked) for asked in range(len(self.made))]

    def _ask(self, asked):
        _, plan, made = self.made[asked]

        def play(side, kept):
            values = np.array([side * (key in self.moved) for key in range(self.keys)])
            own, depth = made.placed(Data([values], None, None, None, None))
            rest = 1.0
            for label in range(made.labels):
                law = made.draws.clear_chance if label == own else made.draws.other_chance
                rest -= float(law(depth))
                yield Result(float(law(depth)), *self.ran(asked, label), None, None)
            yield Result(rest, *self.ran(asked, None), None, None)

        return Ask(plan.worst(plan.price(self.filter)).main, play)

    def _ran(self, asked, label):
        call, _, made = self.made[asked]
        told = replace(made, draws=ToldLabel(made.draws, label))
        with patch.object(type(call), "clearly", lambda self, spine: told):
            plan = call.plan(self.spine)
        price = plan.price(self.filter)
        ran = plan.run(Data([np.zeros(self.keys, np.int64)], None, None, None, price))
        return json.dumps(ran.answer), plan.cost.final(price, ran, plan.cost.most).main


def decisions(filter_, **how):
    """By thresholds around one count."""
    return Clear(filter_, [Classify(count(), above=above, **how) for above in (-2, 0, 1, 3)])


def zones(filter_, **how):
    """By two, near each other and far apart."""
    return Clear(
        filter_, [Classify(count(), low=low, high=high, **how) for low, high in ((0, 1), (-2, 1), (1, 60), (-70, 1))]
    )


def largest(filter_, moved, **how):
    """Which of two or three counts is the largest."""
    return Clear(filter_, [Classify(keyed(3, len(moved)), **how)], 3, moved)
