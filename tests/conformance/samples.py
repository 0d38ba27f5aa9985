"""One sample a way of asking a kind: its call, what comes before it, its command, its run, and what differs.

Each is asked of the visits that the sessions' kit opens. Ledgers that are kept replay `FIRST` and `SECOND` under the
names that stand here, so that what these ask stays as it is.
"""

from dataclasses import replace
from fractions import Fraction

import chary
from chary import Algorithm, count
from chary.calls import (
    MWEM,
    PMW,
    Agreement,
    Alert,
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
    kinds,
)
from chary.growth import CountsBox
from tests.conformance.sample import (
    NEIGHBORS,
    REPLACED,
    ROWS,
    VOTES,
    End,
    Run,
    Sample,
    above,
    after,
    asking,
    changes,
    charged_questions,
    first_kept,
    floor,
    hard,
    most_hits,
    published,
    question,
    raced,
    registers,
    tree_noise,
)
from tests.session.kit import CLINICS, open_teachers, visits


def lowered(session, request):
    """Lower the bar of what is held."""
    return Widen(session.release_if(count(), above=EXTREME, epsilon="0.01", request=request).held, above=-EXTREME)


def extended(session, request):
    """Publish the outcome that is held."""
    return Widen(session.ask(PublishIf(one(), when=NONE), request=request).held, when=ANY)


def reselected(session, request):
    """Publish what a selection held."""
    return Widen(session.ask(Select([one()], above=5, room=64), request=request).call, when=ANY)


def fixed(value, epsilon="0.01", **options):
    """An algorithm whose outcome is known: it is 0-DP, whatever it declares."""
    return Algorithm("fixed", lambda rows, source: value, epsilon=epsilon, **options)


def scoring(score):
    """An algorithm whose score is known."""
    return Algorithm(f"scores {score}", lambda rows, source: [score, "solution"], epsilon="0.01")


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
EXTREME = 10**9
BY_CLINIC = count().by("clinic", CLINICS)
KEYED = count("age >= 44").by("clinic", CLINICS, max_groups_per_unit=2)
COSTS = chary.sum("cost", bounds=(0, 20), grid="0.5", max_rows_per_unit=2)
GRID = [(clinic, age) for clinic in CLINICS for age in (20, 44)]
SIZES = ScoreFunction("sizes", lambda rows, candidates: range(len(candidates)), columns=["clinic"])
SIXTIES = CountsBox(count("age >= 60"))
AGES = {"bounds": (0, 120), "max_rows_per_unit": 1, "epsilon": "0.01"}
CELLS = {"universe": {"clinic": CLINICS}, "alpha": "0.1"}
NORTH, SOUTH = "clinic = 'north'", "clinic = 'south'"
SMALL = {"universe": {"clinic": CLINICS}, "queries": [NORTH, SOUTH], "epsilon": "0.01"}
RUN = {"threshold": 50, "threshold_noise": 500, "low": 0, "high": 100}
# Options of commands.
TYPED_SIZE, TYPED_COUNTS = "--epsilon 0.01", "--count --by clinic --keys north,south,east"
TYPED_CELLS = "--values clinic=north,south,east"
TYPED_RUN = "--threshold 50 --threshold-noise 500 --low 0 --high 100"
TYPED_AGES = f"--column age --low 0 --high 120 --max-rows-per-unit 1 {TYPED_SIZE}"
# Runs whose noise has at least five digits, which are nowhere else.
TINY = "1e-7"
NOISY = {"threshold_noise": 500, "low": 0, "high": 100, "sensitivity": 1}
UNREACHED, REACHED = NOISY | {"threshold": 5000}, NOISY | {"threshold": -5000}
HALTED = r"halted .* session\.start\(GaussianAboveThreshold\("
SURE, WARD = asking(count(), above=-EXTREME), asking(count("age >= 44"), above=-EXTREME)
LEARNT = "none is kept: what was learnt is in the answers"
GROWING = {"question": SURE, "other": WARD, "used": lambda run: run.state.rounds, "took": above}
HARD = {"question": asking(NORTH, must_verify=True), "other": asking(SOUTH, must_verify=True), "used": changes,
        "took": hard}  # fmt: skip
STEPS = {"question": asking(count()), "other": asking(count("age >= 44")), "used": lambda run: run.state.steps,
         "took": len, "hidden": floor}  # fmt: skip
COUNTING = {"question": asking(), "other": None, "used": lambda run: run.state.steps - run.state.steps_left,
            "took": len, "followed": True}  # fmt: skip
STREAM = {"question": SURE, "other": WARD, "used": most_hits, "took": published,
          "hidden": "ids of units, which are looked for everywhere"}  # fmt: skip


def a_race():
    return MultiTarget(["a", "b"])


def a_stream():
    return IndividualTests(epsilon="0.02", hits=2)


def a_sparse_vector():
    return SparseVector(above=-EXTREME, hits=3, epsilon="0.01", values=True)


def a_run():
    return GaussianAboveThreshold(**RUN)


def a_run_by_hits():
    return GaussianAboveThreshold(**RUN, sensitivity=1, charged="hits")


def runs():
    return SelfReporting(**RUN, epsilon="0.05", sensitivity=1)


def growing_tests():
    return GrowingTests(above="0.5", epsilon="0.01", values=True)


def prepaid_tests():
    return PrepaidTests(tests=9, hits=9, part="0.05", misses="0.2", value="0.3")


def an_alert(**size):
    return Alert(count(), above=-EXTREME, clear_below=-2 * EXTREME, severity="info", **(size or {"epsilon": "0.01"}))


def sharp_stream():
    return IndividualTests(price="0.05", hits=2)


def sharp_weights():
    return PMW(**CELLS, hits=40)


def growing_hits():
    return GrowingTests(above="0.5", hits=40, values=True)


# What both ledgers have that are kept.
FIRST = {
    "release": Sample(lambda: Release(count(), epsilon="0.01"), typed=f"--count {TYPED_SIZE}"),
    "release of keys": Sample(lambda: Release(BY_CLINIC, rho="0.0001"), typed=f"{TYPED_COUNTS} --rho 0.0001"),
    "release by delta": Sample(
        lambda: Release(count(), epsilon="0.1", delta="1e-7"), typed="--count --epsilon 0.1 --delta 1e-7"
    ),
    "histogram": Sample(
        lambda: Histogram("age", bins=[0, 18, 65, 120], epsilon="0.01"),
        typed=f"--column age --bins 0,18,65,120 {TYPED_SIZE}",
    ),
    "marginal": Sample(
        lambda: Marginal({"clinic": CLINICS, "age": [20, 44]}, epsilon="0.01"),
        typed=f"{TYPED_CELLS} --values age=20,44 {TYPED_SIZE}",
    ),
    "quantiles": Sample(lambda: Quantile("age", [0.25, 0.5], **AGES), typed=f"{TYPED_AGES} --at 0.25,0.5"),
    "quantile": Sample(lambda: Quantile("age", 0.5, **AGES), typed=f"{TYPED_AGES} --at 0.5"),
    "mode": Sample(
        lambda: Choose(BY_CLINIC, epsilon="0.01", mechanism="inverse"),
        typed=f"{TYPED_COUNTS} {TYPED_SIZE} --mechanism inverse",
    ),
    "fraction": Sample(
        lambda: Proportion("age >= 44", epsilon="0.01"), rows=REPLACED, typed=f"--where age>=44 {TYPED_SIZE}"
    ),
    "test": Sample(lambda: ThresholdTest(count(), above=51, epsilon="0.01"), typed=f"--count --above 51 {TYPED_SIZE}"),
    "release_if": Sample(
        lambda: ReleaseIf(count(), above=-EXTREME, epsilon="0.01"), typed=f"--count --above -1000000000 {TYPED_SIZE}"
    ),
    "watch": Sample(
        lambda: ReleaseIf(BY_CLINIC, above=-EXTREME, epsilon="0.01"),
        typed=f"{TYPED_COUNTS} --above -1000000000 {TYPED_SIZE}",
    ),
    "revise": Sample(prepared=after(lowered, "held")),
    "track": Sample(lambda: OnChange(count(), step=100, epsilon="0.01"), typed=f"--count --step 100 {TYPED_SIZE}"),
    "call": Sample(
        lambda: RunAlgorithm(one(), prior=[1, "solution"]),
        lambda session, name: lambda key: session.ask(RunAlgorithm(fixed([1, "a"]), prior=2), request=key),
        code=True,
    ),
    "call of a rho": Sample(lambda: RunAlgorithm(Algorithm("zcdp", lambda rows, source: 1, rho="0.0001")), code=True),
    "call_twice": Sample(lambda: Boundary(fixed(1), runs=2, publish=True), code=True),
    "between": Sample(
        lambda: Classify(count(), low=-EXTREME, high=EXTREME, epsilon="0.01"),
        typed=f"--count --low -1000000000 --high 1000000000 {TYPED_SIZE}",
    ),
    "decide": Sample(lambda: Classify(count(), above=51, epsilon="0.01"), typed=f"--count --above 51 {TYPED_SIZE}"),
    "classify": Sample(lambda: Classify(BY_CLINIC, epsilon="0.01"), typed=f"{TYPED_COUNTS} {TYPED_SIZE}"),
    "best_of": Sample(
        lambda: MultiTarget(["a", "b", "c"]),
        public=True,
        run=Run(
            a_race,
            asking(one(), priors={"a": 1, "b": 2}),
            asking(one("two"), priors={"a": 1, "b": 2}),
            raced,
            lambda answers: sum("a" in answer.hits for answer in answers),
            "how often each target was hit, as the answers say",
        ),
    ),
    "best_of_call": Sample(prepared=question("race", a_race, fixed(1), priors={"a": 1, "b": 2}), code=True),
    "top": Sample(lambda: TopK(BY_CLINIC, k=2, epsilon="0.01"), typed=f"{TYPED_COUNTS} --k 2 {TYPED_SIZE}"),
    "top of algorithms": Sample(lambda: TopK([scoring(1), scoring(2)], k=1), code=True),
    "select": Sample(
        lambda: Select(["age >= 44", "age < 44"], above=2, epsilon="0.01"),
        lambda session, name: lambda key: session.ask(Select([scoring(1), scoring(2)], above=2), request=key),
        code=True,
    ),
    "individual_stream": Sample(
        a_stream,
        typed="--hits 2 --epsilon 0.02",
        run=Run(lambda: IndividualTests(epsilon=TINY, hits=40), **STREAM),
    ),
    "individual_ask": Sample(prepared=question("stream", a_stream, count(), above=-EXTREME), free=True),
    "sparse_vector": Sample(
        lambda: SparseVector(above=51, hits=2, epsilon="0.01"),
        typed=f"--above 51 --hits 2 {TYPED_SIZE}",
        run=Run(
            lambda: SparseVector(above=51, hits=400, epsilon=TINY, values=True),
            SURE,
            WARD,
            lambda run: run._terms["hits"] - run.state.left,
            above,
            lambda kept: first_kept(kept)[0],
            End(
                lambda: SparseVector(above=51, hits=2, epsilon=TINY),
                2,
                r"all 2 hits .* session\.start\(SparseVector\(.*hits=2",
            ),
        ),
    ),
    "sparse_test": Sample(prepared=question("sparse", a_sparse_vector, count()), free=True),
    "sparse_watch": Sample(prepared=question("sparse", a_sparse_vector, count().by("clinic", CLINICS[:1])), free=True),
    "growing_sparse_vector": Sample(
        lambda: GrowingTests(above="0.5", epsilon="0.01"),
        rows=ROWS,
        typed=f"--above 0.5 {TYPED_SIZE}",
        free=True,
        run=Run(
            lambda: GrowingTests(above="0.5", epsilon=TINY, values=True, rounds=300),
            **GROWING,
            hidden=lambda kept: first_kept(kept)[3],
            end=End(
                lambda: GrowingTests(above="0.5", epsilon=TINY, rounds=2),
                2,
                r"all 2 rounds .* session\.start\(GrowingTests\(.*epsilon=",
            ),
        ),
    ),
    "growing_sparse_round": Sample(prepared=question("growing", growing_tests), rows=ROWS),
    "growing_sparse_test": Sample(
        prepared=question("growing", growing_tests, count(), above=0, rounds=True), rows=ROWS, free=True
    ),
    "noisy_max_gaussian": Sample(
        lambda: Choose(BY_CLINIC, epsilon="0.01", mechanism="gaussian", low=0, high=100),
        typed=f"{TYPED_COUNTS} {TYPED_SIZE} --mechanism gaussian --low 0 --high 100",
    ),
    "above_threshold": Sample(
        a_run,
        typed=TYPED_RUN,
        free=True,
        run=Run(
            lambda: GaussianAboveThreshold(**UNREACHED),
            **STEPS,
            end=End(lambda: GaussianAboveThreshold(**REACHED), 1, HALTED),
        ),
    ),
    "above_threshold_test": Sample(prepared=question("run", a_run, count())),
    "above_threshold_test of keys": Sample(prepared=question("run", a_run, BY_CLINIC)),
    "multiplicative_weights": Sample(
        lambda: PMW(**CELLS, epsilon="0.01"),
        rows=ROWS,
        typed=f"{TYPED_CELLS} --alpha 0.1 {TYPED_SIZE}",
        free=True,
        public=True,
        run=Run(lambda: PMW(**CELLS, epsilon=TINY, follow_size=False), **HARD, hidden=LEARNT),
    ),
    "multiplicative_weights_ask": Sample(
        prepared=question("weights", lambda: PMW(**CELLS, epsilon="0.01"), NORTH, must_verify=True), rows=ROWS
    ),
    "sparse_weights": Sample(
        lambda: PMW(prepaid=True, **CELLS, epsilon="0.01"),
        rows=ROWS,
        typed=f"{TYPED_CELLS} --alpha 0.1 {TYPED_SIZE} --prepaid",
        run=Run(
            lambda: PMW(prepaid=True, **CELLS, epsilon=TINY, rounds=300),
            **HARD,
            hidden=lambda kept: first_kept(kept)[2],
        ),
    ),
    "sparse_weights_ask": Sample(
        prepared=question("weights", lambda: PMW(prepaid=True, **CELLS, epsilon="0.01"), NORTH, must_verify=True),
        rows=ROWS,
        free=True,
    ),
    "small_database": Sample(
        lambda: SmallDatabase(**SMALL, rows=4),
        rows=ROWS,
        typed=f"{TYPED_CELLS} --queries clinic='north' --queries clinic='south' --rows 4 {TYPED_SIZE}",
    ),
    "small_database of the best size": Sample(lambda: SmallDatabase(**SMALL), rows=ROWS),
    "mwem": Sample(
        lambda: MWEM(universe={"clinic": CLINICS}, queries=[NORTH], rounds=2, epsilon="0.01"),
        rows=ROWS,
        typed=f"{TYPED_CELLS} --queries clinic='north' --rounds 2 {TYPED_SIZE}",
    ),
    "sketch": Sample(
        lambda: DistinctSketch(epsilon="0.01", registers=64),
        typed=f"--registers 64 {TYPED_SIZE}",
        free=True,
        run=Run(
            lambda: DistinctSketch("age >= 44", epsilon=TINY, registers=64),
            asking(above=0),
            asking(above=1),
            charged_questions,
            lambda answers: min(1, published(answers)),
            registers,
        ),
    ),
    "sketch_release_if": Sample(
        prepared=question("sketch", lambda: DistinctSketch(epsilon="0.01", registers=64), above=0)
    ),
    "choose": Sample(lambda: Choose(BY_CLINIC, epsilon="0.01"), typed=f"{TYPED_COUNTS} {TYPED_SIZE}"),
    "most_common": Sample(
        lambda: MostCommon("clinic", among=CLINICS, epsilon="0.01"),
        typed=f"--column clinic --among north,south,east {TYPED_SIZE}",
    ),
    "majority": Sample(lambda: Majority("age >= 44", epsilon="0.01"), typed=f"--condition age>=44 {TYPED_SIZE}"),
    "randomized": Sample(
        lambda: RandomizedValues(condition="age >= 44", epsilon="0.01"),
        rows=REPLACED,
        typed=f"--condition age>=44 {TYPED_SIZE}",
    ),
    "schedule": Sample(
        lambda: Rerun(SIXTIES, epsilon="0.01", beta="0.05"),
        rows=ROWS,
        code=True,
        public=True,
        run=Run(
            lambda: Rerun(SIXTIES, epsilon="0.01", beta="0.05", growth="0.1"),
            asking(),
            None,
            lambda run: int(run._secret()),
            lambda answers: sum(answer is not None for answer in answers),
            "the number of the next run, as the answers say",
            box=SIXTIES,
            followed=True,
        ),
    ),
    "scheduled_run": Sample(
        prepared=question("schedule", lambda: Rerun(SIXTIES, epsilon="0.01", beta="0.05")),
        rows=ROWS,
        free=True,
        code=True,
    ),
    "continual_count": Sample(
        lambda: ContinualCount(steps=100, epsilon="0.01"),
        rows=ROWS,
        typed=f"--steps 100 {TYPED_SIZE}",
        run=Run(
            lambda: ContinualCount("age >= 44", steps=100, epsilon=TINY),
            **COUNTING,
            hidden=tree_noise,
            end=End(
                lambda: ContinualCount(steps=2, epsilon=TINY), 2, r"all 2 steps .* session\.start\(ContinualCount\("
            ),
        ),
    ),
    "continual_count by the root": Sample(
        lambda: ContinualCount(steps=9, rho="0.0001"),
        rows=ROWS,
        typed="--steps 9 --rho 0.0001",
        public=True,
        run=Run(
            lambda: ContinualCount("age >= 44", steps=100, rho="1e-12"),
            **COUNTING,
            hidden="exact counts and what follows from answers: no text tells them apart from public numbers",
        ),
    ),
    "continual_step": Sample(
        prepared=question("continual", lambda: ContinualCount(steps=100, epsilon="0.01")), rows=ROWS, free=True
    ),
    "label": Sample(lambda: Label(0, epsilon="0.01"), rows=VOTES),
    "label of a guess": Sample(lambda: Label(0, guess="yes", epsilon="0.01"), rows=VOTES),
    "label_clear": Sample(lambda: Label(0, epsilon="0.01", clear=True), rows=VOTES),
    "agreement": Sample(lambda: Agreement(0, above=90, expect="low", epsilon="0.01"), rows=VOTES),
}
# What only the second of them has.
SECOND = {
    "above_threshold by hits": Sample(
        a_run_by_hits,
        typed=f"{TYPED_RUN} --query-sensitivity 1 --charged hits",
        run=Run(
            lambda: GaussianAboveThreshold(**UNREACHED, charged="hits"),
            **STEPS,
            end=End(lambda: GaussianAboveThreshold(**REACHED, charged="hits"), 1, HALTED),
        ),
    ),
    "above_threshold_test by hits": Sample(prepared=question("hit run", a_run_by_hits, count())),
    "self_reporting": Sample(
        runs,
        typed=f"{TYPED_RUN} --query-sensitivity 1 --epsilon 0.05",
        run=Run(
            lambda: SelfReporting(**UNREACHED, epsilon="0.5"),
            **STEPS | {"used": lambda run: run.state.tested},
            end=End(
                lambda: SelfReporting(**NOISY | {"threshold": 50, "threshold_noise": 20}, epsilon="0.2"),
                None,
                r"stopped: .* session\.start\(SelfReporting\(",
            ),
        ),
    ),
    "self_reporting_test": Sample(prepared=question("runs", runs, count()), free=True),
    "self_reporting_test of keys": Sample(prepared=question("runs", runs, BY_CLINIC), free=True),
    "quantiles with intervals": Sample(
        lambda: Quantile("age", [0.25, 0.5], **AGES, of_unit="random", interval="0.9"),
        typed=f"{TYPED_AGES} --at 0.25,0.5 --of-unit random --interval 0.9",
    ),
    "individual_stream of sharp tests": Sample(
        sharp_stream, typed="--price 0.05 --hits 2", run=Run(lambda: IndividualTests(price="0.005", hits=40), **STREAM)
    ),
    "individual_ask of sharp tests": Sample(
        prepared=question("sharp stream", sharp_stream, count(), above=-EXTREME), free=True
    ),
    # The lowest total is above the bar.
    "individual_ask of a total": Sample(
        prepared=question(
            "stream of totals",
            a_stream,
            chary.sum("age", bounds=(0, 100), max_rows_per_unit=1),
            above=-EXTREME,
        ),
        free=True,
    ),
    "multiplicative_weights of sharp tests": Sample(
        sharp_weights,
        rows=ROWS,
        typed=f"{TYPED_CELLS} --alpha 0.1 --hits 40",
        free=True,
        public=True,
        run=Run(lambda: PMW(**CELLS, hits=40, tests=20, confidence="0.9", value="0.4"), **HARD, hidden=LEARNT),
    ),
    "multiplicative_weights_ask of sharp tests": Sample(
        prepared=question("sharp weights", sharp_weights, NORTH, must_verify=True), rows=ROWS
    ),
    "growing_sparse_vector of sharp tests": Sample(
        growing_hits,
        rows=ROWS,
        typed="--above 0.5 --hits 40 --values",
        free=True,
        run=Run(
            lambda: GrowingTests(above="0.5", hits=40, values=True, rounds=300),
            **GROWING,
            hidden="none is kept: each test has a threshold of its own",
            end=End(
                lambda: GrowingTests(above="0.5", hits=40, rounds=2),
                2,
                r"all 2 rounds .* session\.start\(GrowingTests\(.*hits=",
            ),
        ),
    ),
    "growing_sparse_test of sharp tests": Sample(
        prepared=question("growing hits", growing_hits, count(), above=0), rows=ROWS
    ),
    "exponential_mechanism": Sample(
        lambda: ExponentialMechanism(["all", "old"], [count(), count("age > 60")], epsilon="0.01")
    ),
    "exponential_mechanism of a function": Sample(
        lambda: ExponentialMechanism(CLINICS, SIZES, sensitivity=1, epsilon="0.01"), code=True
    ),
    "inverse_sensitivity": Sample(lambda: ExponentialMechanism([0, 50, 100], distance=count(), epsilon="0.01")),
    "inverse_sensitivity of a function": Sample(
        lambda: ExponentialMechanism(CLINICS, distance=SIZES, epsilon="0.01"), code=True
    ),
    "matrix_mechanism": Sample(lambda: MatrixMechanism(KEYED, "ranges", epsilon="0.01", strategy="identity")),
    "matrix_mechanism of marginals": Sample(
        lambda: MatrixMechanism(count().by(["clinic", "age"], GRID), [["clinic"], []], rho="0.0001")
    ),
    "principal_components": Sample(
        lambda: PrincipalComponents({"age": (0, "90"), "cost": (0, 20)}, rho="0.0001", max_rows_per_unit=2),
        typed="--range age=0,90 --range cost=0,20 --rho 0.0001 --max-rows-per-unit 2",
    ),
    "publish_if": Sample(lambda: PublishIf(one(), when=ANY), code=True),
    "randomized_values": Sample(
        lambda: RandomizedValues("clinic", among=CLINICS, epsilon="0.01", mechanism="symmetric"),
        rows=REPLACED,
        typed=f"--column clinic --among north,south,east {TYPED_SIZE} --mechanism symmetric",
    ),
    "release_all": Sample(lambda: ReleaseAll([count(), KEYED, COSTS], epsilon="0.01")),
    "agreed_tests": Sample(
        prepaid_tests,
        typed="--tests 9 --hits 9 --part 0.05 --misses 0.2 --value-share 0.3",
        public=True,
        run=Run(
            lambda: PrepaidTests(tests=500, hits=40, part="0.2", misses="0.3", value="0.2"),
            SURE,
            WARD,
            lambda run: run.state.tests - run.state.left,
            len,
            "how many tests are used up, as the answers say",
            End(
                lambda: PrepaidTests(tests=2, hits=2, part="0.2", value="0.2"),
                2,
                "0 of the 2 tests .* ask a threshold test",
            ),
        ),
    ),
    "agreed_test": Sample(prepared=question("agreed", prepaid_tests, count(), above=-EXTREME), public=True),
    "agreed_watch": Sample(prepared=question("agreed", prepaid_tests, BY_CLINIC, above=-EXTREME), public=True),
    "track by sharp tests": Sample(lambda: OnChange(count(), step=50, hits=9)),
    "decide by draws": Sample(lambda: Classify(count(), above=51, hits=9)),
    "between by draws": Sample(lambda: Classify(count(), low=-EXTREME, high=EXTREME, hits=9)),
    "classify by draws": Sample(lambda: Classify(BY_CLINIC, hits=9)),
    "select of conditions": Sample(lambda: Select(["age >= 0", "age > 44"], above=-EXTREME, hits=9)),
    "select of keys": Sample(
        lambda: Select(BY_CLINIC, above=-EXTREME, epsilon="0.01"),
        typed=f"{TYPED_COUNTS} --above -1000000000 {TYPED_SIZE}",
    ),
    "extend": Sample(prepared=after(extended), code=True),
    "reselect": Sample(prepared=after(reselected), code=True),
    "best_of_ask": Sample(
        prepared=question(
            "race of tests",
            a_race,
            ThresholdTest(count(), above=-EXTREME, epsilon="0.01"),
            targets={"a": {}, "b": {"prior": False}},
        )
    ),
    "boundary": Sample(lambda: Boundary(even()), code=True),
    "boundary of runs": Sample(lambda: Boundary(one(), runs=3), code=True),
}
# What came after all ledgers that are kept.
LATER = {
    "alert": Sample(
        an_alert,
        typed=f"--count --above -1000000000 --clear-below -2000000000 --severity info {TYPED_SIZE}",
        free=True,
        public=True,
        run=Run(
            lambda: an_alert(price="0.025"),
            asking(),
            None,
            lambda run: len(run.state.transitions),
            lambda answers: sum(answer.changed for answer in answers),
            "which groups are active, as the answers say",
            followed=True,
        ),
    ),
    "alert_ask": Sample(prepared=question("alert", an_alert)),
    "alert_ask of groups": Sample(
        prepared=question("alert of groups", lambda: Alert(BY_CLINIC, above=-EXTREME, epsilon="0.01"))
    ),
    "linear_regression": Sample(
        lambda: LinearRegression("cost", {"age": (0, "90"), "cost": (0, 20)}, rho="0.0001", max_rows_per_unit=2),
        typed="--response cost --range age=0,90 --range cost=0,20 --rho 0.0001 --max-rows-per-unit 2",
    ),
    "release of a mean": Sample(
        lambda: Release(chary.mean("cost", bounds=(0, 20), max_rows_per_unit=1), epsilon="0.01"),
        typed=f"--mean cost --bounds 0,20 --max-rows-per-unit 1 {TYPED_SIZE}",
    ),
    "release_if withheld": Sample(lambda: ReleaseIf(count(), above=EXTREME, epsilon="0.01")),
    "watch by sharp tests": Sample(lambda: ReleaseIf(BY_CLINIC, above=-EXTREME, hits=90)),
    "test of keys": Sample(lambda: ThresholdTest(BY_CLINIC, above=-EXTREME, epsilon="0.01")),
    "test of keys by sharp tests": Sample(lambda: ThresholdTest(BY_CLINIC, above=-EXTREME, hits=90)),
    "choose_with_lead": Sample(
        lambda: Choose(KEYED, epsilon="0.01", lead=True),
        typed="--count --where age>=44 --by clinic --keys north,south,east --max-groups-per-unit 2 "
        f"{TYPED_SIZE} --lead",
    ),
}
EVERY = FIRST | SECOND | LATER
# What is many calls, what needs an earlier one, and further forms of runs.
ALONE = {
    "greedy": Sample(lambda: Greedy(["age > 30", "age > 60"], above=1, epsilon="0.01", k=1)),
    "greedy of keys": Sample(
        lambda: Greedy(BY_CLINIC, above=1, epsilon="0.01", k=1), typed=f"{TYPED_COUNTS} --above 1 --k 1 {TYPED_SIZE}"
    ),
    "greedy of algorithms": Sample(lambda: Greedy([adding("first"), adding("second")], above=1, k=1), code=True),
    "greedy by rounds": Sample(
        lambda: Greedy([adding("first"), adding("second")], above=1, mechanism="best"), code=True
    ),
    "widen": Sample(lambda: Widen(1, above=5)),
    "widen by a condition": Sample(lambda: Widen(1, when=ANY), code=True),
    "above_threshold of several hits": Sample(
        run=Run(
            lambda: GaussianAboveThreshold(**UNREACHED, hits=3),
            **STEPS,
            end=End(lambda: GaussianAboveThreshold(**REACHED, hits=2), 2, HALTED),
        ),
    ),
    "growing_sparse_vector within a round": Sample(
        rows=ROWS,
        run=Run(
            lambda: GrowingTests(above="0.5", epsilon=TINY, exponent="0.5", mechanism="published"),
            **GROWING | {"question": asking(count(), above=EXTREME), "took": lambda answers: min(1, len(answers))},
            hidden=lambda kept: first_kept(kept)[3],
        ),
    ),
}
ALL = EVERY | ALONE
CALLS = {name: sample.call for name, sample in ALL.items() if sample.call is not None}
# One call of each kind, and of each form of run what it says.
KINDS = {kind: CALLS[kind] for kind in sorted(kinds())}
RUNS = {name: replace(sample.run, rows=sample.rows) for name, sample in ALL.items() if sample.run is not None}
TYPED = {name: sample for name, sample in ALL.items() if sample.typed is not None}
# The first one of each kind that a command line can state.
USUAL = {sample.kind: name for name, sample in reversed(TYPED.items())}
# Kinds that nothing but their author can bring: algorithms and black boxes.
BROUGHT = {"boundary", "call", "publish_if", "schedule"}
# What needs an earlier call: asks that one under a request, and says the call that follows it.
AFTER = {"widen": lowered, "widen by a condition": extended}


def names_of(*rows):
    """What is asked of such rows."""
    return tuple(name for name, sample in EVERY.items() if sample.rows in rows)


def answering(name, *, opened=chary.open, **options):
    """A session that can answer this sample, after the earlier call that it may need."""
    rows = ALL[name].rows
    if rows == VOTES:
        return open_teachers(**options)
    session = opened(visits(), **NEIGHBORS[rows] | options)
    if name in AFTER:
        AFTER[name](session, None)
    return session
