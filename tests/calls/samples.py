"""One call of each kind, of the visits that the sessions' kit opens, and the sessions that can answer it."""

from fractions import Fraction

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
    Greedy,
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
    PrincipalComponents,
    Proportion,
    PublishIf,
    Quantiles,
    RandomizedValues,
    Release,
    ReleaseAll,
    ReleaseIf,
    Rerun,
    RunAlgorithm,
    Select,
    SelfReporting,
    SmallDatabase,
    SparseVector,
    ThresholdTest,
    TopK,
    When,
    Widen,
)
from chary.data import Votes
from chary.growth import CountsBox
from chary.session import open_votes
from tests.session.kit import CLINICS

KEYED = count("age >= 44").by("clinic", CLINICS, max_groups_per_unit=2)
COSTS = chary.sum("cost", bounds=(0, 20), grid="0.5", max_rows_per_unit=2)
CELLS = {"clinic": CLINICS}
AGES = {"bounds": (0, 120), "max_rows_per_unit": 1, "epsilon": "0.01"}
SHARES = {"universe": CELLS, "alpha": "0.1", "epsilon": "0.01"}
RUNS = {"threshold": 50, "threshold_noise": 500, "low": 0, "high": 100, "epsilon": "0.05", "sensitivity": 1}
CONDITIONS = ["clinic = 'north'", "clinic = 'south'"]


def one(name="one"):
    """An algorithm of the caller's own."""
    return Algorithm(name, lambda rows, source: [1, "solution"], epsilon="0.01")


def adding(name):
    """One that knows what was chosen before it."""
    return Algorithm(name, lambda rows, source, chosen: [2 - len(chosen), "solution"], epsilon="0.01")


def even():
    """Randomized response of whether the number of rows is even, by its law."""
    likely = Fraction(401, 800)

    def law(rows):
        return [likely, 1 - likely] if rows.num_rows % 2 else [1 - likely, likely]

    return Algorithm("even", lambda rows, source: "odd", "0.01", outcomes=["odd", "even"], probabilities=law)


NONE = When("none", lambda outcome: False)
ANY = When("any", lambda outcome: True)
SAMPLES = {
    "above_threshold": lambda: GaussianAboveThreshold(
        threshold=50, threshold_noise=500, low=0, high=100, query_noise="0.5"
    ),
    "agreed_tests": lambda: PrepaidTests(tests=500, hits=40, part="0.2", misses="0.3", value="0.2"),
    "agreement": lambda: Agreement(0, above=90, expect="low", epsilon="0.01"),
    "best_of": lambda: MultiTarget(["a", "b"]),
    "boundary": lambda: Boundary(even()),
    "call": lambda: RunAlgorithm(one(), prior=[1, "solution"]),
    "choose": lambda: Choose(KEYED, epsilon="0.01", mechanism="exponential"),
    "classify": lambda: Classify(KEYED, epsilon="0.01"),
    "continual_count": lambda: ContinualCount("age >= 44", steps=100, epsilon="0.01"),
    "exponential_mechanism": lambda: ExponentialMechanism(["all", "old"], [count(), count("age > 60")], epsilon="0.01"),
    "fraction": lambda: Proportion("age >= 44", epsilon="0.01"),
    "greedy": lambda: Greedy(["age > 30", "age > 60"], above=1, epsilon="0.01", k=1),
    "growing_sparse_vector": lambda: GrowingTests(above="0.5", epsilon="0.01", values=True, rounds=3),
    "histogram": lambda: Histogram(
        "age", bins=[0, 18.5, 65, 120], epsilon="0.01", where="cost > 1", max_groups_per_unit=1
    ),
    "individual_stream": lambda: IndividualTests(epsilon="0.02", hits=2),
    "label": lambda: Label(0, guess="yes", epsilon="0.01"),
    "majority": lambda: Majority("age >= 44", epsilon="0.01", mechanism="inverse"),
    "marginal": lambda: Marginal({"clinic": CLINICS, "age": [20, 44]}, rho="0.0001", max_groups_per_unit=1),
    "matrix_mechanism": lambda: MatrixMechanism(KEYED, "ranges", epsilon="0.01", strategy="identity"),
    "most_common": lambda: MostCommon("clinic", among=CLINICS, epsilon="0.01", where="age >= 44"),
    "multiplicative_weights": lambda: PMW(**SHARES, follow_size=False),
    "mwem": lambda: MWEM(universe=CELLS, queries=CONDITIONS, rounds=2, epsilon="0.01"),
    "principal_components": lambda: PrincipalComponents(
        {"age": (0, "90"), "cost": (0, 20)}, rho="0.0001", max_rows_per_unit=2
    ),
    "publish_if": lambda: PublishIf(one(), when=ANY),
    "quantiles": lambda: Quantiles("age", [0.25, "1/2"], **AGES, step="0.5"),
    "randomized_values": lambda: RandomizedValues("clinic", among=CLINICS, epsilon="0.01", mechanism="symmetric"),
    "release": lambda: Release(KEYED, rho="1/10000"),
    "release_all": lambda: ReleaseAll([count(), KEYED, COSTS], epsilon="0.01"),
    "release_if": lambda: ReleaseIf(count(), above=-5, epsilon="0.01"),
    "schedule": lambda: Rerun(CountsBox(count("age >= 60")), epsilon="0.01", beta="0.05", growth="0.1"),
    "select": lambda: Select(["age >= 44", "age < 44"], above=2, epsilon="0.01"),
    "self_reporting": lambda: SelfReporting(**RUNS),
    "sketch": lambda: DistinctSketch("age >= 44", epsilon="0.01", registers=64),
    "small_database": lambda: SmallDatabase(universe=CELLS, queries=CONDITIONS, epsilon="0.01", rows=4),
    "sparse_vector": lambda: SparseVector(above=51, hits=2, epsilon="0.01", values=True, monotone=True),
    "test": lambda: ThresholdTest(COSTS, above="0.1", epsilon="0.01"),
    "top": lambda: TopK(KEYED, k=2, epsilon="0.01", gap=3),
    "track": lambda: OnChange(count(), step=100, epsilon="0.01"),
    "widen": lambda: Widen(1, above=5),
}
# Second samples of kinds that are asked in two quite different ways.
OTHERS = {
    "boundary of runs": lambda: Boundary(one(), runs=3),
    "choose by inverse sensitivity": lambda: Choose(KEYED, epsilon="0.01", mechanism="inverse"),
    "choose by Gaussian noise": lambda: Choose(KEYED, epsilon="0.01", mechanism="gaussian", low=0, high=100),
    "choose with its lead": lambda: Choose(KEYED, epsilon="0.01", lead=True),
    "boundary of a pair": lambda: Boundary(one(), runs=2, publish=True),
    "classify by a threshold": lambda: Classify(COSTS, above=51, epsilon="0.01"),
    "classify by two": lambda: Classify(count(), low=10, high="20.5", epsilon="0.01"),
    "widen by a condition": lambda: Widen(1, when=ANY),
    "test of keys": lambda: ThresholdTest(KEYED, above=51, hits=9),
    "release_if of keys": lambda: ReleaseIf(KEYED, above=51, epsilon="0.01", below_margin=True),
    "quantiles, one": lambda: Quantiles("age", 0.5, **AGES),
    "inverse_sensitivity": lambda: ExponentialMechanism([0, 50, 100], distance=count(), epsilon="0.01"),
    "sparse_weights": lambda: PMW(prepaid=True, **SHARES, rounds=2),
    "greedy of algorithms": lambda: Greedy([adding("first"), adding("second")], above=1, k=1),
    "greedy by rounds": lambda: Greedy([adding("first"), adding("second")], above=1, mechanism="best"),
}
# What nothing but its author can bring: algorithms and black boxes.
BROUGHT = {"boundary", "call", "publish_if", "schedule"}
OF_VOTES = {"agreement", "label"}
OF_REPLACED = {"fraction", "randomized_values"}
OF_ROWS = {
    "continual_count",
    "growing_sparse_vector",
    "multiplicative_weights",
    "mwem",
    "schedule",
    "small_database",
}


def revised(session, request):
    """Lower the bar of what is held."""
    return Widen(session.release_if(count(), above=10**9, epsilon="0.01", request=request).held, above=5)


def extended(session, request):
    """Publish the outcome that is held."""
    return Widen(session.ask(PublishIf(one(), when=NONE), request=request).held, when=ANY)


def reselected(session, request):
    """Publish what a selection held."""
    return Widen(session.ask(Select([one()], above=5, room=64), request=request).call, when=ANY)


# What needs an earlier call: asks that one under a request, and says the call that follows it.
AFTER = {"widen": revised}


def answering(kind, opened, **options):
    """A session that can answer this kind, after the earlier call that it may need."""
    if kind in OF_VOTES:
        ballots = Votes(lambda question: [90, 10], ["yes", "no"], voter="teacher")
        return open_votes(ballots, **({"dataset": "data", "ledger": ":memory:"} | options))
    if kind in OF_ROWS:
        return opened(neighbors="replace", privacy_unit=None, **options)
    session = opened(**(options | ({"neighbors": "replace"} if kind in OF_REPLACED else {})))
    if kind in AFTER:
        AFTER[kind](session, None)
    return session
