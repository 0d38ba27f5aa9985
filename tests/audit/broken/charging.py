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
def telling_whether(charged):
    """A conditional release of which only is told whether it published its value; free even then unless `charged`."""
    kind = conditional_release.AskReleaseIf
    run = kind.run

    def told(self, touched):
        ran = run(self, touched)
        return replace(ran, answer={"told": ran.answer["value"] is not None}, hits=ran.hits * charged)

    with patch.object(kind, "run", told):
        yield
