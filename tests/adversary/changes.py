"""Tracked values by sharp tests as a game: the last one told is the prior of the next, and is what decides it."""

import json
from functools import cache
from types import SimpleNamespace

from chary import count
from chary.calls import OnChange
from chary.calls.thresholds import changed, far_by
from chary.core.plan import Data
from tests.adversary.counts import as_made
from tests.adversary.kit import Ask, Result, World
from tests.adversary.sharp import ADDED, ToldHits
from tests.adversary.told import Told, law


class Changes:
    """One count of 0 or 1, asked again and again with steps of these sizes; `forgot` is what is wrong with the plans,
    by the last answer."""

    def __init__(self, filter_, steps, forgot=lambda plan, seen: as_made(plan), **how):
        spine = SimpleNamespace(rows=SimpleNamespace(neighbor_relation=ADDED), filter=filter_)
        self.filter, self.forgot = filter_, forgot
        self.calls = [OnChange(count(), step=step, **how) for step in steps]
        self.sharpness = [call.sharpness(filter_, 1, count().grid, call.value_share) for call in self.calls]
        self.spine, self.start = spine, (None, tuple(World(side, 1.0, None) for side in (0, 1)))
        self.made = cache(self._made)
        self.ran = cache(self._ran)

    def _made(self, asked, seen, *instead):
        """The plan, and the noise and the test behind it."""
        call, sharpness = self.calls[asked], self.sharpness[asked]
        drawn = instead or (sharpness.value_noise(1), far_by(call.step, sharpness))
        return self.forgot(changed(call, count(), ADDED, sharpness, *drawn, seen), seen), *drawn

    def asks(self, seen):
        """What can be asked after this answer."""
        return [self._ask(asked, seen) for asked in range(len(self.calls))]

    def _ask(self, asked, seen):
        made, noise, far = self.made(asked, seen)

        def play(side, kept):
            chance = 1.0 if seen is None else float(far.table.hit_chance(side - seen))
            if seen is not None:
                yield self._result(asked, seen, False, 0, 1 - chance)
            for noisy, part in law(noise, side, -2, 3).items():
                yield self._result(asked, seen, True, noisy, chance * float(part))

        return Ask(made.worst(made.price(self.filter)).main, play)

    def _result(self, asked, seen, hit, noisy, chance):
        told, charged = self.ran(asked, seen, hit, noisy)
        return Result(chance, told, charged, json.loads(told)["value"], None)

    def _ran(self, asked, seen, hit, noisy):
        made, *_ = self._made(asked, seen, Told((noisy,)), ToldHits(self.sharpness[asked].sampler, (hit,)))
        price = made.price(self.filter)
        ran = made.run(Data([0], None, None, None, price))
        return json.dumps(ran.answer), made.cost.final(price, ran, made.cost.most).main
