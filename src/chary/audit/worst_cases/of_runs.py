"""Worst-case neighbours of runs, asked in whole sessions."""

from typing import Any

from chary.audit.worst_cases.worst_case import WorstCase, Tables, renyi
from chary.audit.auditing.transcripts import Script
from chary.calls import (
    AboveThreshold,
    ContinualCount,
    GrowingSparse,
    Individual,
    Race,
    Schedule,
    Sketch,
    SparseVector,
    SparseWeights,
    Weights,
)
from chary.audit.worst_cases.of_thresholds import noisy_size
from chary.data import count
from chary.errors import BudgetRefused
from chary.growing import CountsBox
from chary.session import Session

PLACES = ["a", "b"]
COUNTED = Tables({"unit": list(range(6))}, {"unit": list(range(5))})
# One question moves up and the other down.
CROSSED = Tables(
    {"unit": [1, 2, 3], "place": ["a", "b", "a"]}, {"unit": [1, 2, 3], "place": ["a", "b", "b"]}, relation="replace"
)
ROWS = Tables({"place": ["a"] * 3 + ["b"] * 2}, {"place": ["a"] * 2 + ["b"] * 3}, unit=None, relation="replace")
UNIVERSE = {"universe": {"place": PLACES}, "alpha": "0.1"}
A, B = count("place = 'a'"), count("place = 'b'")


def until_refused(ask: Any, most: int) -> list[Any]:
    """Answers, until the budget is spent."""
    found: list[Any] = []
    try:
        for _ in range(most):
            found.append(ask().value)
    except BudgetRefused:
        found.append("refused")
    return found


def sparse(k: int) -> Script:
    def script(session: Session) -> Any:
        run = session.start(SparseVector(above=2, hits=1, epsilon=k, form="tuned"))
        first = run.ask(A).value
        return [first, None if first else run.ask(B).value]

    return script


def sparse_watch(k: int) -> Script:
    def script(session: Session) -> Any:
        run = session.start(SparseVector(above=2, hits=1, epsilon=k, values=True))
        found = run.ask(count().by("place", PLACES, keep_per_unit=1))
        return [found.above.get(place) for place in PLACES]

    return script


def growing_sparse(k: int) -> Script:
    def script(session: Session) -> Any:
        run = session.start(GrowingSparse(above="0.5", epsilon=k, rounds=1))
        run.ask()
        first = run.ask(A, above="0.5").value
        return [first, None if first else run.ask(B, above="0.5").value]

    return script


def above_threshold(k: int) -> Script:
    def script(session: Session) -> Any:
        call = AboveThreshold(threshold=2, threshold_noise=f"{2 / k}", low=0, high=5)
        run = session.start(call)
        first = run.ask(A).value
        return [first, None if first else run.ask(B).value]

    return script


def weights(opening: Any) -> Script:
    def script(session: Session) -> Any:
        run = session.start(opening)
        return [run.ask("place = 'a'", must_verify=True).value]

    return script


def sketch(k: int) -> Script:
    def script(session: Session) -> Any:
        run = session.start(Sketch(epsilon=k, registers=16))
        return [run.ask(above=0).value]

    return script


def scheduled(k: int) -> Script:
    def script(session: Session) -> Any:
        run = session.start(Schedule(CountsBox(A), epsilon=k, beta="0.05", growth=1))
        return [run.ask().value]

    return script


def continual(k: int, **size: Any) -> Script:
    def script(session: Session) -> Any:
        run = session.start(ContinualCount("place = 'a'", steps=3, **size))
        return [run.ask().value for _ in range(3)]

    return script


def individual(k: int, **size: Any) -> Script:
    def script(session: Session) -> Any:
        run = session.start(Individual(hits=2, **size))
        return [run.ask(count(), above=6).value for _ in range(6)]

    return script


def race(k: int) -> Script:
    def script(session: Session) -> Any:
        run = session.start(Race(["five", "six"]))
        ask = lambda: run.ask(noisy_size(k), priors={"five": 5, "six": 6})  # noqa: E731
        return until_refused(ask, 12)

    return script


CASES = [
    WorstCase("sparse_test", sparse, CROSSED.opened),
    WorstCase("sparse_watch", sparse_watch, CROSSED.opened),
    WorstCase("growing_sparse_test", growing_sparse, ROWS.opened),
    WorstCase("above_threshold_test", above_threshold, CROSSED.opened),
    WorstCase("multiplicative_weights_ask", lambda k: weights(Weights(**UNIVERSE, epsilon=k)), ROWS.opened),
    WorstCase("sparse_weights_ask", lambda k: weights(SparseWeights(**UNIVERSE, epsilon=k, rounds=1)), ROWS.opened),
    WorstCase("sketch_release_if", sketch, COUNTED.opened),
    WorstCase("scheduled_run", scheduled, ROWS.opened),
    WorstCase("continual_step", lambda k: continual(k, epsilon=k), ROWS.opened),
    WorstCase("continual_step by the root", lambda k: continual(k, rho=f"{k * k / 10}"), ROWS.opened, renyi(3)),
    WorstCase("individual_ask", lambda k: individual(k, epsilon=f"{k / 5}"), COUNTED.opened, renyi(1, "0.2")),
    WorstCase("best_of_call", race, COUNTED.opened, renyi(4, "0.5"), whole=True),
]
