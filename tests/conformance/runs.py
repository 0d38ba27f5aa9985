"""One sample for each form of run: how it is opened and asked, what is used up, and where it differs from others."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from chary import count
from chary.accounting import Targeted
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
    SelfReporting,
    SparseVector,
)
from chary.growth import CountsBox
from chary.mechanisms.additive import unpadded
from chary.mechanisms.sketches import Counters
from tests.calls.samples import one

FAR = 10**9
# So small that noise has at least five digits, which are nowhere else.
TINY = "1e-7"
CELLS = {"universe": {"clinic": ["north", "south", "east"]}, "alpha": "0.1"}
NORTH, SOUTH = "clinic = 'north'", "clinic = 'south'"
NOISY = {"threshold_noise": 500, "low": 0, "high": 100, "sensitivity": 1}
HALTED = r"halted .* session\.start\(GaussianAboveThreshold\("
UNREACHED, REACHED = NOISY | {"threshold": 5000}, NOISY | {"threshold": -5000}


class Question(NamedTuple):
    """The words of a question."""

    said: tuple[Any, ...]
    options: dict[str, Any]

    def ask(self, run, **more):
        return run.ask(*self.said, **self.options, **more)

    def quote(self, run):
        return run.quote(*self.said, **self.options)

    def plan(self, run):
        said = {name: value for name, value in self.options.items() if name in run.words}
        return run.plan(*self.said, **said)


def asking(*said, **options):
    return Question(said, options)


class End(NamedTuple):
    """An opening that is used up after so many answers, and what is told then."""

    opening: Callable[[], Any]
    answers: int
    told: str


@dataclass(frozen=True)
class Run:
    """A form of run.

    `question` is asked again and again, and `other` under its request instead; None where there is only one question.
    `used` is what a run has used up, and `took` what some answers took of it. `hidden` finds in the state that
    is kept what nothing may show, or says why there is nothing to look for. `end` is None where it never ends.
    """

    opening: Callable[[], Any]
    question: Question
    other: Question | None
    used: Callable[[Any], Any]
    took: Callable[[list[Any]], Any]
    hidden: Callable[[bytes], Any] | str
    end: End | None = None
    public_size: bool = False
    box: Any = None
    """What is brought again."""
    followed: bool = False


def published(answers):
    return sum(answer.published for answer in answers)


def hard(answers):
    return sum(answer.hard for answer in answers)


def above(answers):
    return sum(answer.above for answer in answers)


def changes(run):
    return len(run.state.changes)


def kept_in(kept):
    """What stands first in a state that is padded."""
    return json.loads(unpadded(kept).splitlines()[0])


def floor(kept):
    """The noise of a threshold, as far as it is drawn."""
    return kept_in(kept)[0][0]


def most_hits(run):
    """Of any unit: what is published counts for all of them."""
    return max(Counters.load(run._secret()).used["used"].to_pylist(), default=0)


def charged_questions(run):
    ledger = run._spine.ledger
    return sum(call.charged.main > 0 and str(call.state) == "settled" for call in ledger.calls("data", after=run.call))


def raced(run):
    """In hits of the first target at the size of the question."""
    return json.loads(run._secret())[0] / run._spine.filter.price(Targeted("0.01")).hit.main


SIXTIES = CountsBox(count("age >= 60"))
SURE, WARD = asking(count(), above=-FAR), asking(count("age >= 44"), above=-FAR)
NEVER = asking(count(), above=FAR)
COUNTED, OLD = asking(count()), asking(count("age >= 44"))
SHARE, SHARES = asking(NORTH, must_verify=True), asking(SOUTH, must_verify=True)
LEARNT, UNITS = "none is kept: what was learnt is in the answers", "ids of units, which are looked for everywhere"
GROWING = {"question": SURE, "other": WARD, "used": lambda run: run.state.rounds, "took": above, "public_size": True}
WEIGHTS = {"question": SHARE, "other": SHARES, "used": changes, "took": hard, "public_size": True}
STEPS = {"question": COUNTED, "other": OLD, "used": lambda run: run.state.steps, "took": len, "hidden": floor}
COUNTING = {
    "question": asking(),
    "other": None,
    "used": lambda run: run.state.steps - run.state.steps_left,
    "took": len,
    "public_size": True,
    "followed": True,
}
STREAM = {"question": SURE, "other": WARD, "used": most_hits, "took": published, "hidden": UNITS}
RUNS = {
    "above_threshold": Run(
        lambda: GaussianAboveThreshold(**UNREACHED),
        **STEPS,
        end=End(lambda: GaussianAboveThreshold(**REACHED), 1, HALTED),
    ),
    "above_threshold by hits": Run(
        lambda: GaussianAboveThreshold(**UNREACHED, charged="hits"),
        **STEPS,
        end=End(lambda: GaussianAboveThreshold(**REACHED, charged="hits"), 1, HALTED),
    ),
    "above_threshold of several hits": Run(
        lambda: GaussianAboveThreshold(**UNREACHED, hits=3),
        **STEPS,
        end=End(lambda: GaussianAboveThreshold(**REACHED, hits=2), 2, HALTED),
    ),
    "agreed_tests": Run(
        lambda: PrepaidTests(tests=500, hits=40, part="0.2", misses="0.3", value="0.2"),
        SURE,
        WARD,
        lambda run: run.state.tests - run.state.left,
        len,
        "how many tests are used up, as the answers say",
        End(
            lambda: PrepaidTests(tests=2, hits=2, part="0.2", value="0.2"),
            2,
            "0 of the 2 tests .* ask ThresholdTest or ReleaseIf",
        ),
    ),
    "best_of": Run(
        lambda: MultiTarget(["a", "b"]),
        asking(one(), priors={"a": 1, "b": 2}),
        asking(one("two"), priors={"a": 1, "b": 2}),
        raced,
        lambda answers: sum("a" in answer.hits for answer in answers),
        "how often each target was hit, as the answers say",
    ),
    "continual_count": Run(
        lambda: ContinualCount("age >= 44", steps=100, epsilon=TINY),
        **COUNTING,
        hidden=lambda kept: json.loads(unpadded(kept.split(b"\n", 1)[1])),
        end=End(lambda: ContinualCount(steps=2, epsilon=TINY), 2, r"all 2 steps .* session\.start\(ContinualCount\("),
    ),
    "continual_count by the root": Run(
        lambda: ContinualCount("age >= 44", steps=100, rho="1e-12"),
        **COUNTING,
        hidden="exact counts and what follows from answers: no text tells them apart from public numbers",
    ),
    "growing_sparse_vector": Run(
        lambda: GrowingTests(above="0.5", epsilon=TINY, values=True, rounds=300),
        **GROWING,
        hidden=lambda kept: kept_in(kept)[3],
        end=End(
            lambda: GrowingTests(above="0.5", epsilon=TINY, rounds=2),
            2,
            r"all 2 rounds .* session\.start\(GrowingTests\(.*epsilon=",
        ),
    ),
    "growing_sparse_vector within a round": Run(
        lambda: GrowingTests(above="0.5", epsilon=TINY, exponent="0.5", mechanism="published"),
        **GROWING | {"question": NEVER, "took": lambda answers: min(1, len(answers))},
        hidden=lambda kept: kept_in(kept)[3],
    ),
    "growing_sparse_vector of sharp tests": Run(
        lambda: GrowingTests(above="0.5", hits=40, values=True, rounds=300),
        **GROWING,
        hidden="none is kept: each test has a threshold of its own",
        end=End(
            lambda: GrowingTests(above="0.5", hits=40, rounds=2),
            2,
            r"all 2 rounds .* session\.start\(GrowingTests\(.*hits=",
        ),
    ),
    "individual_stream": Run(lambda: IndividualTests(epsilon=TINY, hits=40), **STREAM),
    "individual_stream of sharp tests": Run(lambda: IndividualTests(price="0.005", hits=40), **STREAM),
    "multiplicative_weights": Run(lambda: PMW(**CELLS, epsilon=TINY, follow_size=False), **WEIGHTS, hidden=LEARNT),
    "multiplicative_weights of sharp tests": Run(
        lambda: PMW(**CELLS, hits=40, tests=20, sure="0.9", value="0.4"), **WEIGHTS, hidden=LEARNT
    ),
    "schedule": Run(
        lambda: Rerun(SIXTIES, epsilon="0.01", beta="0.05", growth="0.1"),
        asking(),
        None,
        lambda run: int(run._secret()),
        lambda answers: sum(answer is not None for answer in answers),
        "the number of the next run, as the answers say",
        public_size=True,
        box=SIXTIES,
        followed=True,
    ),
    "self_reporting": Run(
        lambda: SelfReporting(**UNREACHED, epsilon="0.5"),
        COUNTED,
        OLD,
        lambda run: run.state.tested,
        len,
        floor,
        End(
            lambda: SelfReporting(**NOISY | {"threshold": 50, "threshold_noise": 20}, epsilon="0.2"),
            None,
            r"stopped: .* session\.start\(SelfReporting\(",
        ),
    ),
    "sketch": Run(
        lambda: DistinctSketch("age >= 44", epsilon=TINY, registers=64),
        asking(above=0),
        asking(above=1),
        charged_questions,
        lambda answers: min(1, published(answers)),
        lambda kept: json.loads(kept_in(kept)[0])[2:5:2],
    ),
    "sparse_vector": Run(
        lambda: SparseVector(above=51, hits=400, epsilon=TINY, values=True),
        SURE,
        WARD,
        lambda run: run._terms["hits"] - run.state.left,
        above,
        lambda kept: kept_in(kept)[0],
        End(
            lambda: SparseVector(above=51, hits=2, epsilon=TINY),
            2,
            r"all 2 hits .* session\.start\(SparseVector\(.*hits=2",
        ),
    ),
    "sparse_weights": Run(
        lambda: PMW(prepaid=True, **CELLS, epsilon=TINY, rounds=300), **WEIGHTS, hidden=lambda kept: kept_in(kept)[2]
    ),
}
