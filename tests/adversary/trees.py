"""A tree of histograms as a game: a unit of one block of two, whose histograms, and that of both, are asked."""

import json
from functools import cache

from chary.calls import PMW
from chary.calls.public_histograms import HistogramMemory
from chary.core.plan import Data
from chary.data import Bins
from chary.mechanisms.weights import Transcript
from tests.adversary.by_hits import Weighed, terms
from tests.adversary.kit import Ask, Result, World
from tests.adversary.told import law

ROWS = 20
# Of the nodes over each block: how many rows are stated, and in how many rows the condition holds under each neighbour.
NODES = {"a": (ROWS, (10, 11)), "b": (ROWS, (13, 13)), "a and b": (2 * ROWS, (23, 24))}


class Tree:
    """What a unit of block a is charged, and what everything tells of it; nodes are opened at any time, from any other.

    A state is what is public of each node in turn: its changes, or None where it is not open. `charged` are the nodes
    that are charged in block a; `copied` makes what a node starts from of another's changes, and of the counts.
    """

    def __init__(self, filter_, price, charged=("a", "a and b"), copied=None):
        call = PMW(universe={"age": Bins([0, 1, 2])}, alpha="0.2", price=price, rows=ROWS)
        self.filter, self.charged = filter_, charged
        self.laws = {name: call.sharply(terms(filter_, price), rows) for name, (rows, _) in NODES.items()}
        self.made = {name: Weighed(self.laws[name], rows) for name, (rows, _) in NODES.items()}
        self.memories = {name: HistogramMemory(self.laws[name], {"age": "int64"}) for name in NODES}
        self.copied = copied or (lambda name, changes, side: self.memories[name].inherited(changes))
        self.start = ((None,) * len(NODES), tuple(World(side, 1.0, None) for side in (0, 1)))
        self.ran = cache(self._ran)

    def asks(self, seen):
        """Questions to what is open; and what is not, opened from nothing or from another."""
        for place, name in enumerate(NODES):
            if seen[place] is not None:
                yield self._question(place, name, seen)
                continue
            for source in (None, *(other for other in range(len(NODES)) if seen[other])):
                yield self._opening(place, name, seen, source)

    def _opening(self, place, name, seen, source):
        def play(side, kept):
            changes = () if source is None else Transcript.load(seen[source]).changes
            begun = Transcript(tuple(self.copied(name, changes, side))).dump()
            yield Result(1.0, begun, 0, (*seen[:place], begun, *seen[place + 1 :]), None)

        return Ask(0, play)

    def _question(self, place, name, seen):
        made, counts = self.made[name], NODES[name][1]

        def play(side, kept):
            yield self.ran(place, name, seen, side, False, ())
            values = law(made.noise, counts[side], min(counts) - 1, max(counts) + 1)
            for value, chance in values.items():
                found = self.ran(place, name, seen, side, True, (value,))
                yield found._replace(chance=found.chance * chance)

        worst = made.plan.worst(made.plan.price(self.filter)).main
        return Ask(worst if name in self.charged else 0, play)

    def _ran(self, place, name, seen, side, hit, noisy):
        plan, sampler = self.made[name].told([hit], noisy)
        price = plan.price(self.filter)
        ran = plan.run(Data([NODES[name][1][side]], None, seen[place], None, price))
        charged = plan.cost.final(price, ran, plan.cost.most).main if name in self.charged else 0
        after = ran.secrets.get(1, seen[place])
        return Result(sampler.chance, json.dumps(ran.answer), charged, (*seen[:place], after, *seen[place + 1 :]), None)
