"""What sparse vectors hand out: public answers."""

from dataclasses import dataclass

from chary.calls.answers import AboveOrNot
from chary.calls.thresholds.tested_keys import TestedKeys


@dataclass(frozen=True)
class SparseTest(AboveOrNot):
    """Whether one question was above the threshold; its value where the sparse vector publishes values, else None.

    `hits_left` says how many hits were left after it. Nothing is charged, it was paid when the sparse vector was
    opened; a `hit` uses one up.
    """

    hits_left: int


@dataclass(frozen=True)
class SparseWatch(TestedKeys):
    """What a sparse vector found among keys, in the order they were listed.

    `above` maps each key that hit to its noisy value, or to None where no values are published; the first `tested` keys
    were tested, the rest are `untested` because the hits were used up. `hits_left` hits were left after it.
    """

    hits_left: int
