"""States as the ledger keeps them: what is secret in them as short and as long as it gets."""

from dataclasses import replace
from fractions import Fraction
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from chary.calls.continual import Progress
from chary.calls.gaussian_runs import ReportingProgress, RunState
from chary.calls.growing_tests import GrowingRoundState as GrowingState
from chary.calls.public_histograms import HistogramRound as WeightsState
from chary.calls.selection import stored
from chary.calls.sketch import Line
from chary.data.queries.ordered import Mark
from chary.mechanisms import Distinct, Held, HiddenThreshold, Laplace
from chary.mechanisms.continual import BinaryTree
from chary.mechanisms.sketches import Counters
from chary.mechanisms.weights import Change, Transcript
from chary.noise import Deviate, Seeded


def units(*ids):
    return pa.table({"unit": pa.array(ids, pa.int64()), "used": pa.array([1] * len(ids), pa.int64())})


def line(upto, raised):
    sketch = Distinct("0.01", 64).start(Seeded(1))
    registers = bytes([sketch.distinct.least + raised] * 64)
    secret = replace(sketch, registers=registers, key=sketch.key[:: -1 if raised else 1])
    return Line(secret, 3, paid=True, mark=Mark("rows", upto))


def tree_state(noise):
    """The state of a continual count of three keys after seven steps whose every noise is this."""
    tree = BinaryTree.for_epsilon("0.1", steps=100, keys=3)
    state = tree.start()
    drawn = patch.object(Laplace, "draw", lambda self, source, size: np.array([noise] * size, dtype=np.int64))
    with drawn:
        for step in range(1, 8):
            state = tree.tell(step, state, np.zeros(3, dtype=np.int64), Seeded(1))[1]
    return Progress(7, 2, 9, state).dump()


CHANGES = Transcript((Change("half = 0", 9, 1.0, 0.0, 1.5),))
# All of one length, by the kinds of calls beside which they are kept.
SECRETS = {
    "release_if": [Held(0, 0, 5), Held(-(2**62), 2**62, 5), Held(-1.2345678901234567e-300, -(2**62), 5)],
    "select": [stored({}, 64, 3), stored({0: (-1.2345678901234567e-300, "x" * 30), 2: (9, [7] * 20)}, 64, 3)],
    "individual_stream": [Counters(2, 3), Counters(2, 3, units(7)), Counters(2, 3, units(*range(0, 10**9, 10**6)))],
    "sparse_vector": [HiddenThreshold(0), HiddenThreshold(-(2**62)), HiddenThreshold(10**300)],
    "growing_sparse_vector": [GrowingState(2, 9, Fraction(1, 3), shift) for shift in (0, -(2**62))],
    "above_threshold": [RunState(Deviate(floor, 64), 5, 0.125) for floor in (0, -(2**64), 2**1000)],
    "self_reporting": [ReportingProgress(Deviate(floor, 64), tested=9) for floor in (0, -(2**64), 2**1000)],
    "sparse_weights": [WeightsState(CHANGES, 1, 9, shift) for shift in (0, -(2**62))],
    "sketch": [line(0, 0), line(10**15, 5)],
    "continual_count": [tree_state(0), tree_state(-(10**9))],
}
