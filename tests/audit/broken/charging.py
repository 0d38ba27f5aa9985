"""Charges that forget something."""

from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import patch

import pyarrow.compute as pc

from chary.calls import ReleaseIf
from chary.calls import compute as racing
from chary.calls import individual as living_questions
from chary.data.rows import Rooms
from chary.filters import Price

UNLIMITED = 10**6


def forgetting_multiplicity():
    """What differs between neighbours in several keys is charged as in one."""
    return patch.object(Price, "total", lambda self, hits, parts: self.hit if hits else self.miss)


@contextmanager
def telling_whether(charged):
    """A conditional release of which only is told whether it published its value; free even then unless `charged`."""
    plan = ReleaseIf.plan

    def told(self, spine):
        made = plan(self, spine)

        def run(data):
            ran = made.run(data)
            return replace(ran, answer={"told": ran.answer["value"] is not None}, hits=ran.hits * charged)

        return replace(made, run=run)

    with patch.object(ReleaseIf, "plan", told):
        yield


@contextmanager
def forgetting_to_drop():
    """Individual charging in which a unit that has used up its counter stays in all later counts."""

    def rooms(left, hits):
        lives = left.filter(pc.greater(left["room"], 0))
        return Rooms(lives, hits if len(lives) == len(left) else UNLIMITED)

    with patch.object(living_questions, "Rooms", rooms):
        yield


def counting_what_is_paid_in_full():
    """A race that raises its counters also for calls without a price per hit, and takes no more than these rise."""

    risen = racing.risen
    return patch.object(racing, "risen", lambda before, hits, full: risen(before, hits, None))
