"""Charges that forget something."""

from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import patch

from chary.calls.thresholds import conditional_release
from chary.filters import Price


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
