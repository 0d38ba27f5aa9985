"""One line for each kind of call: what every kind must do is tested in test_every_kind.py."""

from dataclasses import replace
from fractions import Fraction
from unittest.mock import patch

import numpy as np
import pyarrow as pa

import chary
from chary import Algorithm, count
from chary.calls import (
    MWEM,
    PMW,
    Agreement,
    Boundary,
    Choose,
    Classify,
    ContinualCount,
    DistinctSketch,
    ExponentialMechanism,
    GaussianAboveThreshold,
    GrowingTests,
    Histogram,
    IndividualTests,
    Label,
    Majority,
    Marginal,
    MatrixMechanism,
    MostCommon,
    MultiTarget,
    OnChange,
    PrepaidTests,
    Proportion,
    Quantiles,
    RandomizedValues,
    Rerun,
    RunAlgorithm,
    ScoreFunction,
    Select,
    SelfReporting,
    SmallDatabase,
    SparseVector,
    ThresholdTest,
    TopK,
    Widen,
)
from chary.calls.continual import Progress
from chary.calls.gaussian_runs import ReportingProgress, RunState
from chary.calls.growing_tests import GrowingRoundState as GrowingState
from chary.calls.public_histograms import HistogramRound as WeightsState
from chary.calls.selection import stored
from chary.calls.sketch import Line
from chary.data.queries.ordered import Mark
from chary.growth import CountsBox
from chary.mechanisms import Distinct, HiddenThreshold, Laplace
from chary.mechanisms.continual import BinaryTree
from chary.mechanisms.sketches import Counters
from chary.mechanisms.threshold_tests import Held
from chary.mechanisms.weights import Change, Transcript
from chary.noise import Seeded
from chary.noise.gaussian import Deviate
from tests.calls.samples import OTHERS, SAMPLES, extended, reselected

CLINICS = ["north", "south", "east"]
EXTREME = 10**9
RUN = {"threshold": 50, "threshold_noise": 500, "low": 0, "high": 100}
SMALL = {"universe": {"clinic": CLINICS}, "queries": ["clinic = 'north'", "clinic = 'south'"], "epsilon": "0.01"}
AGES = {"bounds": (0, 120), "max_rows_per_unit": 1, "epsilon": "0.01"}


def fixed(value, epsilon="0.01"):
    """An algorithm whose outcome is known."""
    return Algorithm("fixed", lambda rows, source: value, epsilon=epsilon)


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


SIXTIES = CountsBox(count("age >= 60"))


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
    return session.start(PMW(universe={"clinic": CLINICS}, alpha="0.1", epsilon="0.01"), request=request)


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


GRID = [(clinic, age) for clinic in CLINICS for age in (20, 44)]
SIZES = ScoreFunction("sizes", lambda rows, candidates: range(len(candidates)), columns=["clinic"])
# Given a session and a name, each prepares what it needs and returns how to ask under a request key.
KINDS = {
    "release": asked(lambda s, key: s.release(count(), epsilon="0.01", request=key)),
    "release of keys": asked(lambda s, key: s.release(count().by("clinic", CLINICS), rho="0.0001", request=key)),
    "release by delta": asked(lambda s, key: s.release(count(), epsilon="0.1", delta="1e-7", request=key)),
    "histogram": asked(lambda s, key: s.ask(Histogram("age", bins=[0, 18, 65, 120], epsilon="0.01"), request=key)),
    "marginal": asked(
        lambda s, key: s.ask(Marginal({"clinic": CLINICS, "age": [20, 44]}, epsilon="0.01"), request=key)
    ),
    "quantiles": asked(lambda s, key: s.ask(Quantiles("age", [0.25, 0.5], **AGES), request=key)),
    "quantile": asked(lambda s, key: s.ask(Quantiles("age", 0.5, **AGES), request=key)),
    "mode": asked(
        lambda s, key: s.ask(Choose(count().by("clinic", CLINICS), epsilon="0.01", mechanism="inverse"), request=key)
    ),
    "fraction": asked(lambda s, key: s.ask(Proportion("age >= 44", epsilon="0.01"), request=key)),
    "test": asked(lambda s, key: s.ask(ThresholdTest(count(), above=51, epsilon="0.01"), request=key)),
    "release_if": asked(lambda s, key: s.release_if(count(), above=-EXTREME, epsilon="0.01", request=key)),
    "revise": revise,
    "extend": after(extended),
    "reselect": after(reselected),
    "watch": asked(
        lambda s, key: s.release_if(count().by("clinic", CLINICS), above=-EXTREME, epsilon="0.01", request=key)
    ),
    "call": asked(lambda s, key: s.ask(RunAlgorithm(fixed([1, "a"]), prior=2), request=key)),
    "call of a rho": asked(
        lambda s, key: s.ask(RunAlgorithm(Algorithm("zcdp", lambda rows, source: 1, rho="0.0001")), request=key)
    ),
    "track": asked(lambda s, key: s.ask(OnChange(count(), step=100, epsilon="0.01"), request=key)),
    "call_twice": asked(lambda s, key: s.ask(Boundary(fixed(1), runs=2, publish=True), request=key)),
    "between": asked(lambda s, key: s.ask(Classify(count(), low=-EXTREME, high=EXTREME, epsilon="0.01"), request=key)),
    "decide": asked(lambda s, key: s.ask(Classify(count(), above=51, epsilon="0.01"), request=key)),
    "classify": asked(lambda s, key: s.ask(Classify(count().by("clinic", CLINICS), epsilon="0.01"), request=key)),
    "best_of": asked(lambda s, key: s.start(MultiTarget(["a", "b", "c"]), request=key).call),
    "best_of_call": best_of_call,
    "top": asked(lambda s, key: s.ask(TopK(count().by("clinic", CLINICS), k=2, epsilon="0.01"), request=key)),
    "top of algorithms": asked(lambda s, key: s.ask(TopK([scoring(1), scoring(2)], k=1), request=key)),
    "select": asked(lambda s, key: s.ask(Select([scoring(1), scoring(2)], above=2), request=key)),
    "individual_stream": asked(lambda s, key: s.start(IndividualTests(epsilon="0.02", hits=2), request=key).call),
    "individual_ask": individual_ask,
    "sparse_vector": asked(lambda s, key: s.start(SparseVector(above=51, hits=2, epsilon="0.01"), request=key).call),
    "sparse_test": sparse(lambda opened, key: opened.ask(count(), request=key)),
    "sparse_watch": sparse(lambda opened, key: opened.ask(count().by("clinic", CLINICS[:1]), request=key)),
    "growing_sparse_vector": asked(lambda s, key: s.start(GrowingTests(above="0.5", epsilon="0.01"), request=key).call),
    "growing_sparse_round": growing_sparse_round,
    "growing_sparse_test": growing_sparse_test,
    "noisy_max_gaussian": asked(
        lambda s, key: s.ask(
            Choose(count().by("clinic", CLINICS), epsilon="0.01", mechanism="gaussian", low=0, high=100), request=key
        )
    ),
    "above_threshold": asked(lambda s, key: s.start(GaussianAboveThreshold(**RUN), request=key).call),
    "above_threshold_test": gaussian_run(lambda run, key: run.ask(count(), request=key)),
    "above_threshold_test of keys": gaussian_run(lambda run, key: run.ask(count().by("clinic", CLINICS), request=key)),
    "multiplicative_weights": asked(lambda s, key: multiplicative_weights(s, key).call),
    "multiplicative_weights_ask": multiplicative_weights_ask,
    "sparse_weights": asked(lambda s, key: sparse_weights(s, key).call),
    "sparse_weights_ask": sparse_weights_ask,
    "small_database": asked(lambda s, key: s.ask(SmallDatabase(**SMALL, rows=4), request=key)),
    "small_database of the best size": asked(lambda s, key: s.ask(SmallDatabase(**SMALL), request=key)),
    "mwem": asked(
        lambda s, key: s.ask(
            MWEM(universe={"clinic": CLINICS}, queries=["clinic = 'north'"], rounds=2, epsilon="0.01"), request=key
        )
    ),
    "sketch": asked(lambda s, key: s.start(DistinctSketch(epsilon="0.01", registers=64), request=key).call),
    "sketch_release_if": sketch_release_if,
    "choose": asked(lambda s, key: s.ask(Choose(count().by("clinic", CLINICS), epsilon="0.01"), request=key)),
    "most_common": asked(lambda s, key: s.ask(MostCommon("clinic", among=CLINICS, epsilon="0.01"), request=key)),
    "majority": asked(lambda s, key: s.ask(Majority("age >= 44", epsilon="0.01"), request=key)),
    "randomized": asked(lambda s, key: s.ask(RandomizedValues(condition="age >= 44", epsilon="0.01"), request=key)),
    "schedule": asked(lambda s, key: s.start(Rerun(SIXTIES, epsilon="0.01", beta="0.05"), request=key).call),
    "scheduled_run": scheduled_run,
    "continual_count": asked(lambda s, key: s.start(ContinualCount(steps=100, epsilon="0.01"), request=key).call),
    "continual_count by the root": asked(
        lambda s, key: s.start(ContinualCount(steps=9, rho="0.0001"), request=key).call
    ),
    "continual_step": continual_step,
    "label": asked(lambda s, key: s.ask(Label(0, epsilon="0.01"), request=key)),
    "label of a guess": asked(lambda s, key: s.ask(Label(0, guess="yes", epsilon="0.01"), request=key)),
    "label_clear": asked(lambda s, key: s.ask(Label(0, epsilon="0.01", clear=True), request=key)),
    "agreement": asked(lambda s, key: s.ask(Agreement(0, above=90, expect="low", epsilon="0.01"), request=key)),
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


NEWER = {
    "above_threshold by hits": asked(
        lambda s, key: s.start(GaussianAboveThreshold(**RUN, sensitivity=1, charged="hits"), request=key).call
    ),
    "above_threshold_test by hits": hit_run(lambda run, key: run.ask(count(), request=key)),
    "self_reporting": asked(
        lambda s, key: s.start(SelfReporting(**RUN, epsilon="0.05", sensitivity=1), request=key).call
    ),
    "self_reporting_test": self_reporting(lambda run, key: run.ask(count(), request=key)),
    "self_reporting_test of keys": self_reporting(lambda run, key: run.ask(count().by("clinic", CLINICS), request=key)),
    "best_of_ask": best_of_ask,
    "boundary of runs": asked(lambda s, key: s.ask(OTHERS["boundary of runs"](), request=key)),
    "quantiles with intervals": asked(
        lambda s, key: s.ask(Quantiles("age", [0.25, 0.5], **AGES, of_unit="random", interval="0.9"), request=key)
    ),
    "individual_stream of sharp tests": asked(
        lambda s, key: s.start(IndividualTests(price="0.05", hits=2), request=key).call
    ),
    "individual_ask of sharp tests": sharp_stream_ask,
    "individual_ask of a total": total_stream_ask,
    "multiplicative_weights of sharp tests": asked(
        lambda s, key: s.start(PMW(universe={"clinic": CLINICS}, alpha="0.1", hits=40), request=key).call
    ),
    "multiplicative_weights_ask of sharp tests": sharp_weights_ask,
    "growing_sparse_vector of sharp tests": asked(
        lambda s, key: s.start(GrowingTests(above="0.5", hits=40, values=True), request=key).call
    ),
    "growing_sparse_test of sharp tests": growing_hit,
    "exponential_mechanism of a function": asked(
        lambda s, key: s.ask(ExponentialMechanism(CLINICS, SIZES, sensitivity=1, epsilon="0.01"), request=key)
    ),
    "inverse_sensitivity": asked(lambda s, key: s.ask(OTHERS["inverse_sensitivity"](), request=key)),
    "inverse_sensitivity of a function": asked(
        lambda s, key: s.ask(ExponentialMechanism(CLINICS, distance=SIZES, epsilon="0.01"), request=key)
    ),
    "matrix_mechanism of marginals": asked(
        lambda s, key: s.ask(
            MatrixMechanism(count().by(["clinic", "age"], GRID), [["clinic"], []], rho="0.0001"), request=key
        )
    ),
    "agreed_tests": asked(lambda s, key: agreed_tests(s, key).call),
    "agreed_test": agreed(lambda run, key: run.ask(count(), above=-EXTREME, request=key)),
    "track by sharp tests": asked(lambda s, key: s.ask(OnChange(count(), step=50, hits=9), request=key)),
    "decide by draws": asked(lambda s, key: s.ask(Classify(count(), above=51, hits=9), request=key)),
    "between by draws": asked(lambda s, key: s.ask(Classify(count(), low=-EXTREME, high=EXTREME, hits=9), request=key)),
    "classify by draws": asked(lambda s, key: s.ask(Classify(count().by("clinic", CLINICS), hits=9), request=key)),
    "select of conditions": asked(
        lambda s, key: s.ask(Select(["age >= 0", "age > 44"], above=-EXTREME, hits=9), request=key)
    ),
    "select of keys": asked(
        lambda s, key: s.ask(Select(count().by("clinic", CLINICS), above=-EXTREME, epsilon="0.01"), request=key)
    ),
    "agreed_watch": agreed(lambda run, key: run.ask(count().by("clinic", CLINICS), above=-EXTREME, request=key)),
}
# What came after all ledgers that are kept.
LATER = {
    "choose_with_lead": asked(lambda s, key: s.ask(OTHERS["choose with its lead"](), request=key)),
    "test of keys": asked(
        lambda s, key: s.test(count().by("clinic", CLINICS), above=-EXTREME, epsilon="0.01", request=key)
    ),
    "test of keys by sharp tests": asked(
        lambda s, key: s.test(count().by("clinic", CLINICS), above=-EXTREME, hits=90, request=key)
    ),
}


def sampled(kind):
    """The sample of a kind."""
    return asked(lambda s, key: s.ask(SAMPLES[kind](), request=key))


# All of them: kinds that are not named above are asked as their samples are. A coverage is many calls, as a greedy
# choice is.
KNOWN = KINDS | NEWER | LATER
EVERY = KNOWN | {kind: sampled(kind) for kind in sorted(SAMPLES.keys() - KNOWN.keys() - {"greedy", "widen"})}


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
OF_VOTES = {"label", "label of a guess", "label_clear", "agreement"}
OF_REPLACED = {"fraction", "randomized", "randomized_values"}
# What needs a public number of rows.
OF_ROWS = {
    "multiplicative_weights of sharp tests",
    "multiplicative_weights_ask of sharp tests",
    "growing_sparse_vector of sharp tests",
    "growing_sparse_test of sharp tests",
    "continual_count",
    "continual_count by the root",
    "continual_step",
    "small_database",
    "small_database of the best size",
    "multiplicative_weights",
    "multiplicative_weights_ask",
    "mwem",
    "schedule",
    "scheduled_run",
    "growing_sparse_vector",
    "growing_sparse_round",
    "growing_sparse_test",
    "sparse_weights",
    "sparse_weights_ask",
}
