"""One line for each kind of call: what every kind must do is tested in test_every_kind.py."""

from dataclasses import replace
from fractions import Fraction
from functools import partial
from unittest.mock import patch

import numpy as np
import pyarrow as pa

import chary
from chary import Algorithm, count
from chary.calls import (
    PMW,
    ContinualCount,
    DistinctSketch,
    GaussianAboveThreshold,
    GrowingTests,
    IndividualTests,
    MultiTarget,
    PrepaidTests,
    Rerun,
    RunAlgorithm,
    Select,
    SelfReporting,
    SparseVector,
    ThresholdTest,
    TopK,
    Widen,
)
from chary.calls.continual import Progress
from chary.calls.gaussian_runs import ReportingProgress, RunState
from chary.calls.growing_tests import GrowingRoundState as GrowingState
from chary.calls.public_histograms import HistogramRound as WeightsState
from chary.calls.run import Opening
from chary.calls.selection import stored
from chary.calls.sketch import Line
from chary.data.queries.ordered import Mark
from chary.mechanisms import Distinct, Held, HiddenThreshold, Laplace
from chary.mechanisms.continual import BinaryTree
from chary.mechanisms.sketches import Counters
from chary.mechanisms.weights import Change, Transcript
from chary.noise import Deviate, Seeded
from tests.calls import samples
from tests.calls.samples import CLINICS, EXTREME, OTHERS, RUN, SAMPLES, SIXTIES, extended, fixed, reselected


def revise(session, name):
    """Needs a held outcome."""
    held = session.release_if(count(), above=EXTREME, epsilon="0.01", request=f"held {name}")
    return lambda key: session.ask(Widen(held.call, above=-EXTREME), request=key)


def after(ask):
    """Needs an outcome that an earlier call withheld."""

    def prepared(session, name):
        call = ask(session, f"before {name}")
        return lambda key: session.ask(call, request=key)

    return prepared


def best_of_call(session, name):
    """Needs two targets side by side."""
    race = session.start(MultiTarget(["a", "b"]), request=f"race {name}")
    return lambda key: race.ask(fixed(1), priors={"a": 1, "b": 2}, request=key)


def best_of_ask(session, name):
    """Needs two targets side by side, of which a test is asked."""
    race = session.start(MultiTarget(["a", "b"]), request=f"race of tests {name}")
    call = ThresholdTest(count(), above=-EXTREME, epsilon="0.01")
    return lambda key: race.ask(call, targets={"a": {}, "b": {"prior": False}}, request=key)


def individual_ask(session, name):
    """Needs an open stream."""
    stream = session.start(IndividualTests(epsilon="0.02", hits=2), request=f"stream {name}")
    return lambda key: stream.ask(count(), above=-EXTREME, request=key)


def sparse(ask):
    """Needs an open sparse vector."""

    def prepared(session, name):
        opening = SparseVector(above=-EXTREME, hits=3, epsilon="0.01", values=True)
        opened = session.start(opening, request=f"sparse {name}")
        return lambda key: ask(opened, key)

    return prepared


def gaussian_run(ask):
    """Needs an open run of threshold tests."""

    def prepared(session, name):
        run = session.start(GaussianAboveThreshold(**RUN), request=f"run {name}")
        return lambda key: ask(run, key)

    return prepared


def sketch_release_if(session, name):
    """Needs a sketch."""
    sketch = session.start(DistinctSketch(epsilon="0.01", registers=64), request=f"sketch {name}")
    return lambda key: sketch.ask(above=0, request=key)


def growing_sparse(session, name):
    """A sparse vector on a growing table."""
    return session.start(GrowingTests(above="0.5", epsilon="0.01", values=True), request=f"growing {name}")


def growing_sparse_round(session, name):
    """Needs a growing sparse vector without an open round."""
    opened = growing_sparse(session, name)
    return lambda key: opened.ask(request=key)


def growing_sparse_test(session, name):
    """Needs a growing sparse vector with an open round."""
    opened = growing_sparse(session, name)
    opened.ask(request=f"round {name}")
    return lambda key: opened.ask(count(), above=0, request=key)


def scheduled_run(session, name):
    """Needs an open schedule."""
    schedule = session.start(Rerun(SIXTIES, epsilon="0.01", beta="0.05"), request=f"schedule {name}")
    return lambda key: schedule.ask(request=key)


def continual_step(session, name):
    """Needs an open continual count."""
    counting = session.start(ContinualCount(steps=100, epsilon="0.01"), request=f"continual {name}")
    return lambda key: counting.ask(request=key)


def multiplicative_weights(session, request):
    """A public histogram over the clinics."""
    return session.start(SAMPLES["multiplicative_weights"](), request=request)


def multiplicative_weights_ask(session, name):
    """Needs an open histogram."""
    weights = multiplicative_weights(session, f"weights {name}")
    return lambda key: weights.ask("clinic = 'north'", must_verify=True, request=key)


def sparse_weights(session, request):
    """The same with rounds that are paid for once."""
    return session.start(PMW(prepaid=True, universe={"clinic": CLINICS}, alpha="0.1", epsilon="0.01"), request=request)


def sparse_weights_ask(session, name):
    """Needs such a histogram."""
    weights = sparse_weights(session, f"weights {name}")
    return lambda key: weights.ask("clinic = 'north'", must_verify=True, request=key)


def scoring(score):
    """An algorithm whose score is known."""
    return Algorithm(f"scores {score}", lambda rows, source: [score, "solution"], epsilon="0.01")


def asked(ask):
    """A question that needs no earlier call."""
    return lambda session, name: lambda key: ask(session, key)


def sampled(*names):
    """What is asked as its sample is; of what stays open, its number."""
    return {name: asked(partial(_asked, (SAMPLES | OTHERS)[name])) for name in names}


def _asked(sample, session, key):
    call = sample()
    return session.start(call, request=key).call if isinstance(call, Opening) else session.ask(call, request=key)


def agreed_tests(session, request):
    """A run of few tests, whose hits come with values."""
    call = PrepaidTests(tests=9, hits=9, part="0.05", misses="0.2", value="0.3")
    return session.start(call, request=request)


def agreed(ask):
    """Needs an open run of agreed tests."""

    def prepared(session, name):
        run = agreed_tests(session, f"agreed {name}")
        return lambda key: ask(run, key)

    return prepared


# Given a session and a name, each prepares what it needs and returns how to ask under a request key.
KINDS = sampled(
    "release",
    "release of keys",
    "release by delta",
    "histogram",
    "marginal",
    "quantiles",
    "quantile",
    "mode",
    "fraction",
    "test",
    "release_if",
    "watch",
    "track",
    "call_twice",
    "between",
    "decide",
    "classify",
    "best_of",
    "top",
    "individual_stream",
    "sparse_vector",
    "growing_sparse_vector",
    "noisy_max_gaussian",
    "above_threshold",
    "multiplicative_weights",
    "sparse_weights",
    "small_database",
    "small_database of the best size",
    "mwem",
    "sketch",
    "choose",
    "most_common",
    "majority",
    "randomized",
    "schedule",
    "continual_count",
    "continual_count by the root",
    "label",
    "label of a guess",
    "label_clear",
    "agreement",
) | {
    "revise": revise,
    "call": asked(lambda s, key: s.ask(RunAlgorithm(fixed([1, "a"]), prior=2), request=key)),
    "call of a rho": asked(
        lambda s, key: s.ask(RunAlgorithm(Algorithm("zcdp", lambda rows, source: 1, rho="0.0001")), request=key)
    ),
    "best_of_call": best_of_call,
    "top of algorithms": asked(lambda s, key: s.ask(TopK([scoring(1), scoring(2)], k=1), request=key)),
    "select": asked(lambda s, key: s.ask(Select([scoring(1), scoring(2)], above=2), request=key)),
    "individual_ask": individual_ask,
    "sparse_test": sparse(lambda opened, key: opened.ask(count(), request=key)),
    "sparse_watch": sparse(lambda opened, key: opened.ask(count().by("clinic", CLINICS[:1]), request=key)),
    "growing_sparse_round": growing_sparse_round,
    "growing_sparse_test": growing_sparse_test,
    "above_threshold_test": gaussian_run(lambda run, key: run.ask(count(), request=key)),
    "above_threshold_test of keys": gaussian_run(lambda run, key: run.ask(count().by("clinic", CLINICS), request=key)),
    "multiplicative_weights_ask": multiplicative_weights_ask,
    "sparse_weights_ask": sparse_weights_ask,
    "sketch_release_if": sketch_release_if,
    "scheduled_run": scheduled_run,
    "continual_step": continual_step,
}


# Kinds that came after the ledgers were written that are kept.
def sharp_stream_ask(session, name):
    """Needs an open stream of sharp tests."""
    stream = session.start(IndividualTests(price="0.05", hits=2), request=f"sharp stream {name}")
    return lambda key: stream.ask(count(), above=-EXTREME, request=key)


def total_stream_ask(session, name):
    """Needs an open stream; the lowest total is above the bar."""
    stream = session.start(IndividualTests(epsilon="0.02", hits=2), request=f"stream of totals {name}")
    asked = chary.sum("age", bounds=(0, 100), max_rows_per_unit=1)
    return lambda key: stream.ask(asked, above=-EXTREME, request=key)


def sharp_weights_ask(session, name):
    """Needs a histogram that is told hard from easy by sharp tests."""
    opening = PMW(universe={"clinic": CLINICS}, alpha="0.1", hits=40)
    weights = session.start(opening, request=f"sharp weights {name}")
    return lambda key: weights.ask("clinic = 'north'", must_verify=True, request=key)


def growing_hit(session, name):
    """Needs sharp tests on a growing table."""
    opening = GrowingTests(above="0.5", hits=40, values=True)
    opened = session.start(opening, request=f"growing hits {name}")
    return lambda key: opened.ask(count(), above=0, request=key)


def hit_run(ask):
    """Needs an open run that is charged by hits."""

    def prepared(session, name):
        run = session.start(GaussianAboveThreshold(**RUN, sensitivity=1, charged="hits"), request=f"hit run {name}")
        return lambda key: ask(run, key)

    return prepared


def self_reporting(ask):
    """Needs open runs."""

    def prepared(session, name):
        run = session.start(SelfReporting(**RUN, epsilon="0.05", sensitivity=1), request=f"runs {name}")
        return lambda key: ask(run, key)

    return prepared


NEWER = sampled(
    "above_threshold by hits",
    "self_reporting",
    "quantiles with intervals",
    "individual_stream of sharp tests",
    "multiplicative_weights of sharp tests",
    "growing_sparse_vector of sharp tests",
    "exponential_mechanism of a function",
    "inverse_sensitivity of a function",
    "matrix_mechanism of marginals",
    "agreed_tests",
    "track by sharp tests",
    "decide by draws",
    "between by draws",
    "classify by draws",
    "select of conditions",
    "select of keys",
) | {
    "extend": after(extended),
    "reselect": after(reselected),
    "above_threshold_test by hits": hit_run(lambda run, key: run.ask(count(), request=key)),
    "self_reporting_test": self_reporting(lambda run, key: run.ask(count(), request=key)),
    "self_reporting_test of keys": self_reporting(lambda run, key: run.ask(count().by("clinic", CLINICS), request=key)),
    "best_of_ask": best_of_ask,
    "boundary of runs": asked(lambda s, key: s.ask(OTHERS["boundary of runs"](), request=key)),
    "individual_ask of sharp tests": sharp_stream_ask,
    "individual_ask of a total": total_stream_ask,
    "multiplicative_weights_ask of sharp tests": sharp_weights_ask,
    "growing_sparse_test of sharp tests": growing_hit,
    "inverse_sensitivity": asked(lambda s, key: s.ask(OTHERS["inverse_sensitivity"](), request=key)),
    "agreed_test": agreed(lambda run, key: run.ask(count(), above=-EXTREME, request=key)),
    "agreed_watch": agreed(lambda run, key: run.ask(count().by("clinic", CLINICS), above=-EXTREME, request=key)),
}
# What came after all ledgers that are kept.
LATER = sampled(
    "linear_regression",
    "test of keys",
    "test of keys by sharp tests",
) | {
    "choose_with_lead": asked(lambda s, key: s.ask(OTHERS["choose with its lead"](), request=key)),
}


# All of them: kinds that are not named above are asked as their samples are. A coverage is many calls, as a greedy
# choice is.
KNOWN = KINDS | NEWER | LATER
EVERY = KNOWN | sampled(*sorted(SAMPLES.keys() - KNOWN.keys() - {"greedy", "widen"}))


def units(*ids):
    return pa.table({"unit": pa.array(ids, pa.int64()), "used": pa.array([1] * len(ids), pa.int64())})


def line(upto, raised):
    sketch = Distinct("0.01", 64).start(Seeded(1))
    registers = bytes([sketch.distinct.least + raised] * 64)
    return Line(replace(sketch, registers=registers), 3, paid=True, mark=Mark("rows", upto))


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
# States of one length in the ledger: whatever is secret in them is as short and as long as it gets. By the kinds of
# calls beside which they are kept.
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
# Kinds that keep a state of which all is public, or whose length is that of numbers of a fixed size.
UNPADDED = {
    "agreed_tests",
    "agreed_test",
    "agreed_watch",
    "best_of",
    "multiplicative_weights of sharp tests",
    "multiplicative_weights",
    "schedule",
    "continual_count by the root",
}
# What never costs anything itself, what is asked of votes instead of a table, and what needs a public number of units.
FREE = {
    "individual_ask of sharp tests",
    "individual_ask of a total",
    "multiplicative_weights of sharp tests",
    "growing_sparse_vector of sharp tests",
    "continual_step",
    "multiplicative_weights",
    "sparse_test",
    "sparse_watch",
    "growing_sparse_vector",
    "growing_sparse_test",
    "individual_ask",
    "sketch",
    "above_threshold",
    "self_reporting_test",
    "self_reporting_test of keys",
    "scheduled_run",
    "sparse_weights_ask",
}
OF_VOTES = samples.OF_VOTES | {"label of a guess", "label_clear"}
OF_REPLACED = samples.OF_REPLACED | {"randomized"}
# What needs a public number of rows.
OF_ROWS = samples.OF_ROWS | {
    "multiplicative_weights of sharp tests",
    "multiplicative_weights_ask of sharp tests",
    "growing_sparse_vector of sharp tests",
    "growing_sparse_test of sharp tests",
    "continual_count by the root",
    "continual_step",
    "small_database of the best size",
    "multiplicative_weights_ask",
    "scheduled_run",
    "growing_sparse_round",
    "growing_sparse_test",
    "sparse_weights",
    "sparse_weights_ask",
}
