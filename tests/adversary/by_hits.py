"""What is open and paid by its hits, as games: public histograms, growing tables, and streams of sharp tests.

The real calls run on the exact values of each neighbour; their samplers are told what hits, and remember of what.
"""

import json
from copy import copy
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import product
from math import prod

import numpy as np

from chary import count
from chary.calls import PMW, Alert, GrowingRun, GrowingTests, IndividualTests
from chary.calls.alerts import AlertLaw, AlertMemory, AlertRun
from chary.calls.growing_tests import GrowingRoundState, HitsLaw
from chary.calls.individual import CounterMemory, IndividualRun
from chary.calls.public_histograms import HistogramMemory, SharpHits
from chary.calls.sharpness import HitTerms, TestLaw
from chary.calls.weights import PMWRun
from chary.core.plan import Data
from chary.core.transaction import Spine
from chary.data import Bins, NeighborRelation
from chary.mechanisms.weights import Transcript
from tests.adversary.kit import Ask, Result, World
from tests.adversary.openings import ADDED, OneUnit, Stream
from tests.adversary.told import Heard, law, with_fields

ROW = NeighborRelation("replace", None)


class Remembering:
    """Stands for the sampler of a sharp test: these values hit, whatever they are; how likely that was is kept."""

    def __init__(self, table, hits):
        self.table, self._hits, self.chance = table, hits, None

    def hits(self, values, source):
        """The hits that were told."""
        chances = [float(self.table.hit_chance(int(value))) for value in values]
        self.chance = prod(p if hit else 1 - p for p, hit in zip(chances, self._hits, strict=True))
        return np.array(self._hits)

    def step(self, value, source):
        """The single one."""
        return bool(self.hits([value], source)[0])


class ToldTerms:
    """Stands for the terms of a hit: its tests and its values come out as they were told."""

    def __init__(self, own, hits, noisy):
        self._own, self._hits, self._noisy, self.sampler = own, hits, noisy, None

    def sharpness(self, *steps):
        """The test, whose sampler remembers how likely that was."""
        found = copy(self._own.sharpness(*steps))
        self.sampler = Remembering(found.sampler.table, self._hits)
        return with_fields(found, sampler=self.sampler)

    def noise(self, *steps):
        """The noise that was told; None where no values are published."""
        own = self._own.noise(*steps)
        return None if own is None else Heard(self._noisy, own)

    def __getattr__(self, name):
        return getattr(self._own, name)


class Weighed:
    """A question to a public histogram, at one size."""

    def __init__(self, law, size):
        self._law, self._size = law, size
        self.plan, self.noise = self._made(law), law.at(size).noise

    def told(self, hits, noisy):
        """The question with what comes out, and the sampler that remembers how likely that was."""
        own = ToldTerms(self._law.at(self._size).terms, hits, noisy)
        made = SharpHits(own, self._law.hits.wanted)
        return self._made(with_fields(copy(self._law), at=lambda size: made)), own.sampler

    def _made(self, law):
        run = PMWRun(None, 1, {})
        run.law, run.memory = law, HistogramMemory(law, {"age": "int64"})
        return run.planned(run.memory.asked("age >= 1", self._size))


class Average:
    """A count as an average over a table that grows, by the terms of one size."""

    def __init__(self, law, size, above):
        self._law, self._asked = law, (size, count(), Fraction(above))
        own = law.at(size)
        self.plan, self.noise = self._made(law), own.noise(1) if own.share else None

    def told(self, hits, noisy):
        """As of any question."""
        own = ToldTerms(self._law.at(self._asked[0]), hits, noisy)
        law = with_fields(copy(self._law), at=lambda size: own)
        return self._made(law), own.sampler

    def _made(self, law):
        return GrowingRun(None, 1, {})._sharply(law, *self._asked)


class Alerted:
    """A version of an alert on one count, whose state is public: what is drawn is how far it is beyond its threshold.

    Values of noise are told as they stand to the count, so they are turned round where the alert is active.
    """

    def __init__(self, call, own):
        found = own.sharpness()
        tests = TestLaw.sharp(found, own.noise() if own.share else None)
        fire, clear = int(call.above), int(call.clear_below)
        self._found, self._law = found, AlertLaw(call, tests, fire, clear, {}, groups=1, parts=1, least=0)
        self.plan, self.noise = self._made(tests), tests.noise

    def told(self, hits, noisy):
        """As of any question."""
        sampler = Remembering(self._found.sampler.table, hits)
        noise = None if self.noise is None else Heard(noisy, self.noise)
        return self._made(TestLaw.sharp(with_fields(copy(self._found), sampler=sampler), noise)), sampler

    def _made(self, tests):
        # Rows in no blocks; none are read.
        run = AlertRun(Spine(*[None] * 7), 1, {})
        vars(run).update(opened=self._law.call, law=replace(self._law, tests=tests))
        return run._at(0, None)


class ByHits:
    """One count that is `counts[side]`, asked again and again in any of some ways; the state is public."""

    def __init__(self, filter_, made, state, counts):
        self.filter, self.made, self.counts = filter_, made, counts
        self.start = (state, tuple(World(side, 1.0, None) for side in (0, 1)))
        self.ran = cache(self._ran)

    def asks(self, seen):
        """All ways, at any time."""
        return [self._ask(asked, seen) for asked in range(len(self.made))]

    def _ask(self, asked, seen):
        made = self.made[asked]

        def play(side, kept):
            yield self.ran(asked, seen, side, False, ())
            for noisy, part in [((), 1.0)] if made.noise is None else self._values(made, side):
                found = self.ran(asked, seen, side, True, noisy)
                yield found._replace(chance=found.chance * part)

        return Ask(made.plan.worst(made.plan.price(self.filter)).main, play)

    def _values(self, made, side):
        low, high = min(self.counts) - 1, max(self.counts) + 1
        return [((value,), chance) for value, chance in law(made.noise, self.counts[side], low, high).items()]

    def _ran(self, asked, seen, side, hit, noisy):
        plan, sampler = self.made[asked].told([hit], noisy)
        price = plan.price(self.filter)
        ran = plan.run(Data([self.counts[side]], None, seen, None, price))
        charged, after = plan.cost.final(price, ran, plan.cost.most).main, ran.secrets.get(1, seen)
        return Result(sampler.chance, json.dumps(ran.answer), charged, after, None)


def terms(filter_, price, value="0.25", chance=None):
    """Of hits that take this share of the budget."""
    whole = Fraction(int(filter_.capacity.main * Fraction(price)), filter_.steps)
    return HitTerms(filter_, whole, Fraction(value), chance)


def weights(filter_, price, size=40, counts=(20, 21), **how):
    """A public histogram of 20 rows then, asked at a size about a condition that one row moves, and about another."""
    call = PMW(universe={"age": Bins([0, 1, 2])}, alpha="0.1", price=price, **how)
    made = Weighed(call.sharply(terms(filter_, price), 20), size)
    return ByHits(filter_, [made], Transcript().dump(), counts)


def growing(filter_, price, size=40, **how):
    """Averages over a table that had 20 rows then, at thresholds around the count."""
    call = GrowingTests(above="0.5", price=price, **how)
    law = HitsLaw(call, ROW, 20, terms(filter_, price, "0.25" if call.values else "0"))
    made = [Average(law, size, above) for above in ("0.45", "0.5", "0.6")]
    return ByHits(filter_, made, GrowingRoundState().dump(), (20, 21))


def alert(filter_, price, counts=(20, 21), clear_below=20, value="0.25"):
    """An alert at 21, or quiet below another number, of a count that one row moves."""
    call = Alert(count(), above=21, clear_below=clear_below, price=price)
    return ByHits(filter_, [Alerted(call, terms(filter_, price, value))], AlertMemory().dump(), counts)


class SharpStream(Stream):
    """A stream of sharp tests over one or two keys; only neighbour 1 has the unit."""

    def __init__(self, filter_, price, hits, keys):
        self._open(IndividualTests(price=price, hits=hits), filter_, keys)
        self.hit = terms(filter_, price)

    def _run(self):
        run = IndividualRun(None, 1, {})
        run.hit = self.hit
        return run

    def _play(self, side, kept, above):
        noise, plan = self._run().law(self._query, ADDED).noise, OneUnit(side == 1, self.keys)
        with plan.at(CounterMemory(None).standing(kept)[1]):
            counts = plan.answers()
        for hits in product((False, True), repeat=self.keys):
            laws = [law(noise, int(value), -1, 2) for value, hit in zip(counts, hits, strict=True) if hit]
            for noisy in product(*laws):
                chance = prod(chances[value] for chances, value in zip(laws, noisy, strict=True))
                told, secret, likely = self.ran(side, kept, above, hits, noisy)
                yield Result(chance * likely, told, 0, None, secret)

    def _ran(self, side, kept, above, hits, noisy):
        run = self._run()
        run.hit = ToldTerms(self.hit, hits, noisy)
        made = self._made(above, run.law(self._query, ADDED))
        sampler = run.hit.sampler
        ran = made.run(Data([OneUnit(side == 1, self.keys)], None, kept, None, made.price(self.filter)))
        return json.dumps(ran.answer), ran.secrets[1], sampler.chance
