"""Charges that forget something."""

from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import patch

from chary.calls.algorithms import racing
from chary.calls.thresholds import conditional_release
from chary.filters import Price
from chary.mechanisms.thresholds.counters import Counters


def forgetting_multiplicity():
    """What differs between neighbours in several keys is charged as in one."""
    return patch.object(Price, "total", lambda self, hits, parts: self.hit if hits else self.miss)


@contextmanager
def free_on_a_hit():
    """A conditional release that charges nothing when it tells its value."""
    kind = conditional_release.AskReleaseIf
    run = kind.run
    with patch.object(kind, "run", lambda self, touched: replace(run(self, touched), hits=0)):
        yield


def never_dropping():
    """Units that take part in hits for ever."""
    return patch.object(Counters, "raised", lambda self, took: self)


def raised_by_paid_calls():
    """Counters of a race that grow with calls that are paid in full, whose later hits are free on that account."""

    def counted(before, hit, price):
        after = [count + price.hit.main * hits for count, hits in zip(before, hit, strict=True)]
        return after, min(after) - min(before) if price.free_miss else price.hit.main

    return patch.object(racing, "counted", counted)
