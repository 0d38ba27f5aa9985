"""One call of each kind, and others by what they are asked with, of the visits that the sessions' kit opens."""

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
    LinearRegression,
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
    Quantile,
    RandomizedValues,
    Release,
    ReleaseAll,
    ReleaseIf,
    Rerun,
    RunAlgorithm,
    ScoreFunction,
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
CONDITIONS = ["clinic = 'north'", "clinic = 'south'"]
EXTREME = 10**9
RUN = {"threshold": 50, "threshold_noise": 500, "low": 0, "high": 100}
SMALL = {"universe": CELLS, "queries": CONDITIONS, "epsilon": "0.01"}
SIXTIES = CountsBox(count("age >= 60"))
GRID = [(clinic, age) for clinic in CLINICS for age in (20, 44)]
SIZES = ScoreFunction("sizes", lambda rows, candidates: range(len(candidates)), columns=["clinic"])


def fixed(value, epsilon="0.01"):
    """An algorithm whose outcome is known."""
    return Algorithm("fixed", lambda rows, source: value, epsilon=epsilon)


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
    "above_threshold": lambda: GaussianAboveThreshold(**RUN),
    "agreed_tests": lambda: PrepaidTests(tests=9, hits=9, part="0.05", misses="0.2", value="0.3"),
    "agreement": lambda: Agreement(0, above=90, expect="low", epsilon="0.01"),
    "best_of": lambda: MultiTarget(["a", "b", "c"]),
    "boundary": lambda: Boundary(even()),
    "call": lambda: RunAlgorithm(one(), prior=[1, "solution"]),
    "choose": lambda: Choose(count().by("clinic", CLINICS), epsilon="0.01"),
    "classify": lambda: Classify(count().by("clinic", CLINICS), epsilon="0.01"),
    "continual_count": lambda: ContinualCount(steps=100, epsilon="0.01"),
    "exponential_mechanism": lambda: ExponentialMechanism(["all", "old"], [count(), count("age > 60")], epsilon="0.01"),
    "fraction": lambda: Proportion("age >= 44", epsilon="0.01"),
    "greedy": lambda: Greedy(["age > 30", "age > 60"], above=1, epsilon="0.01", k=1),
    "growing_sparse_vector": lambda: GrowingTests(above="0.5", epsilon="0.01"),
    "histogram": lambda: Histogram("age", bins=[0, 18, 65, 120], epsilon="0.01"),
    "individual_stream": lambda: IndividualTests(epsilon="0.02", hits=2),
    "label": lambda: Label(0, epsilon="0.01"),
    "linear_regression": lambda: LinearRegression(
        "cost", {"age": (0, "90"), "cost": (0, 20)}, rho="0.0001", max_rows_per_unit=2
    ),
    "majority": lambda: Majority("age >= 44", epsilon="0.01"),
    "marginal": lambda: Marginal({"clinic": CLINICS, "age": [20, 44]}, epsilon="0.01"),
    "matrix_mechanism": lambda: MatrixMechanism(KEYED, "ranges", epsilon="0.01", strategy="identity"),
    "most_common": lambda: MostCommon("clinic", among=CLINICS, epsilon="0.01"),
    "multiplicative_weights": lambda: PMW(**SHARES),
    "mwem": lambda: MWEM(universe={"clinic": CLINICS}, queries=["clinic = 'north'"], rounds=2, epsilon="0.01"),
    "principal_components": lambda: PrincipalComponents(
        {"age": (0, "90"), "cost": (0, 20)}, rho="0.0001", max_rows_per_unit=2
    ),
    "publish_if": lambda: PublishIf(one(), when=ANY),
    "quantiles": lambda: Quantile("age", [0.25, 0.5], **AGES),
    "randomized_values": lambda: RandomizedValues("clinic", among=CLINICS, epsilon="0.01", mechanism="symmetric"),
    "release": lambda: Release(count(), epsilon="0.01"),
    "release_all": lambda: ReleaseAll([count(), KEYED, COSTS], epsilon="0.01"),
    "release_if": lambda: ReleaseIf(count(), above=-EXTREME, epsilon="0.01"),
    "schedule": lambda: Rerun(SIXTIES, epsilon="0.01", beta="0.05"),
    "select": lambda: Select(["age >= 44", "age < 44"], above=2, epsilon="0.01"),
    "self_reporting": lambda: SelfReporting(**RUN, epsilon="0.05", sensitivity=1),
    "sketch": lambda: DistinctSketch(epsilon="0.01", registers=64),
    "small_database": lambda: SmallDatabase(**SMALL, rows=4),
    "sparse_vector": lambda: SparseVector(above=51, hits=2, epsilon="0.01"),
    "test": lambda: ThresholdTest(count(), above=51, epsilon="0.01"),
    "top": lambda: TopK(count().by("clinic", CLINICS), k=2, epsilon="0.01"),
    "track": lambda: OnChange(count(), step=100, epsilon="0.01"),
    "widen": lambda: Widen(1, above=5),
}
# Further samples of kinds that are asked in quite different ways.
OTHERS = {
    "boundary of runs": lambda: Boundary(one(), runs=3),
    "choose with its lead": lambda: Choose(KEYED, epsilon="0.01", lead=True),
    "widen by a condition": lambda: Widen(1, when=ANY),
    "inverse_sensitivity": lambda: ExponentialMechanism([0, 50, 100], distance=count(), epsilon="0.01"),
    "greedy of algorithms": lambda: Greedy([adding("first"), adding("second")], above=1, k=1),
    "greedy by rounds": lambda: Greedy([adding("first"), adding("second")], above=1, mechanism="best"),
    "release of keys": lambda: Release(count().by("clinic", CLINICS), rho="0.0001"),
    "release by delta": lambda: Release(count(), epsilon="0.1", delta="1e-7"),
    "quantile": lambda: Quantile("age", 0.5, **AGES),
    "mode": lambda: Choose(count().by("clinic", CLINICS), epsilon="0.01", mechanism="inverse"),
    "watch": lambda: ReleaseIf(count().by("clinic", CLINICS), above=-EXTREME, epsilon="0.01"),
    "call_twice": lambda: Boundary(fixed(1), runs=2, publish=True),
    "between": lambda: Classify(count(), low=-EXTREME, high=EXTREME, epsilon="0.01"),
    "decide": lambda: Classify(count(), above=51, epsilon="0.01"),
    "noisy_max_gaussian": lambda: Choose(
        count().by("clinic", CLINICS), epsilon="0.01", mechanism="gaussian", low=0, high=100
    ),
    "sparse_weights": lambda: PMW(prepaid=True, **SHARES),
    "small_database of the best size": lambda: SmallDatabase(**SMALL),
    "randomized": lambda: RandomizedValues(condition="age >= 44", epsilon="0.01"),
    "continual_count by the root": lambda: ContinualCount(steps=9, rho="0.0001"),
    "label of a guess": lambda: Label(0, guess="yes", epsilon="0.01"),
    "label_clear": lambda: Label(0, epsilon="0.01", clear=True),
    "above_threshold by hits": lambda: GaussianAboveThreshold(**RUN, sensitivity=1, charged="hits"),
    "quantiles with intervals": lambda: Quantile("age", [0.25, 0.5], **AGES, of_unit="random", interval="0.9"),
    "individual_stream of sharp tests": lambda: IndividualTests(price="0.05", hits=2),
    "multiplicative_weights of sharp tests": lambda: PMW(universe={"clinic": CLINICS}, alpha="0.1", hits=40),
    "growing_sparse_vector of sharp tests": lambda: GrowingTests(above="0.5", hits=40, values=True),
    "exponential_mechanism of a function": lambda: ExponentialMechanism(CLINICS, SIZES, sensitivity=1, epsilon="0.01"),
    "inverse_sensitivity of a function": lambda: ExponentialMechanism(CLINICS, distance=SIZES, epsilon="0.01"),
    "matrix_mechanism of marginals": lambda: MatrixMechanism(
        count().by(["clinic", "age"], GRID), [["clinic"], []], rho="0.0001"
    ),
    "track by sharp tests": lambda: OnChange(count(), step=50, hits=9),
    "decide by draws": lambda: Classify(count(), above=51, hits=9),
    "between by draws": lambda: Classify(count(), low=-EXTREME, high=EXTREME, hits=9),
    "classify by draws": lambda: Classify(count().by("clinic", CLINICS), hits=9),
    "select of conditions": lambda: Select(["age >= 0", "age > 44"], above=-EXTREME, hits=9),
    "select of keys": lambda: Select(count().by("clinic", CLINICS), above=-EXTREME, epsilon="0.01"),
    "test of keys": lambda: ThresholdTest(count().by("clinic", CLINICS), above=-EXTREME, epsilon="0.01"),
    "test of keys by sharp tests": lambda: ThresholdTest(count().by("clinic", CLINICS), above=-EXTREME, hits=90),
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
