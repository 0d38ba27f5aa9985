"""Worst-case neighbours of tests, and of calls that are paid by what comes out."""

from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from typing import Any

from chary.audit.auditing.transcripts import Chained, Script
from chary.audit.worst_cases.worst_case import Tables, WorstCase, renyi
from chary.calls import (
    AgreedTests,
    Algorithm,
    Between,
    Boundary,
    Classify,
    Compute,
    Decide,
    Extend,
    PublishIf,
    ReleaseIf,
    Revise,
    Test,
    Track,
    Twice,
    Watch,
    When,
)
from chary.data import count
from chary.errors import BudgetRefused
from chary.noise import discrete_laplace
from chary.session import Session

PLACES = ["a", "b"]
MANY, FEWER = {"unit": list(range(6))}, {"unit": list(range(5))}
COUNTED = Tables(MANY, FEWER)
BOTH = Tables({"unit": [1, 2, 3, 3], "place": ["a", "b", "a", "b"]}, {"unit": [1, 2], "place": ["a", "b"]})
# One unit more, which breaks a tie.
LONGER = Tables({"unit": [1, 2, 3], "place": ["a", "b", "a"]}, {"unit": [1, 2], "place": ["a", "b"]})
SELDOM = Tables(
    {"unit": list(range(6)), "place": ["b"] * 6},
    {"unit": list(range(6)), "place": ["a", *["b"] * 5]},
    relation="replace",
)
KEYED = count().by("place", PLACES, keep_per_unit=2)
SINGLE = count().by("place", PLACES, keep_per_unit=1)
FAR = 10**6


def noisy_size(epsilon: Fraction | int) -> Algorithm:
    """An algorithm of somebody's own: how many rows there are, with noise."""

    def run(rows: Any, source: Any) -> int:
        size: int = rows.num_rows
        return size + int(discrete_laplace(source, 1 / Fraction(epsilon), 1)[0])

    return Algorithm("size", run, epsilon=epsilon)


def even(k: int, parts: int = 1) -> Algorithm:
    """Whether the number of rows is even, by randomized response of an epsilon of k/parts, and that law."""
    odds = LIKELIER[parts] ** k
    likely = odds / (1 + odds)

    def law(rows: Any) -> list[Fraction]:
        return [likely, 1 - likely] if rows.num_rows % 2 else [1 - likely, likely]

    def run(rows: Any, source: Any) -> str:
        return "odd" if int(source.words(1, 64)[0]) < law(rows)[0] * 2**64 else "even"

    return Algorithm("even", run, Fraction(k, parts), outcomes=["odd", "even"], probabilities=law)


# Just below e and its fourth root.
LIKELIER = {1: Fraction(2718, 1000), 4: Fraction(1284, 1000)}
SHARP: Any = COUNTED.opened, renyi()
ZONES: dict[str, Any] = {"low": 6, "high": 8}
SMALL = renyi(4, "0.25")
AGREED = 8


def revised(k: int) -> Script:
    """A value that was held back, and is told once its bar is lowered."""

    def script(session: Session) -> Any:
        held = session.release_if(count(), above=7, epsilon=k)
        if held.value is not None:
            return [0, held.value]
        return [1, session.ask(Revise(held.held, above=3)).value]

    return script


def extended(k: int) -> Script:
    """An outcome that was held back, and is told where a wider condition holds."""

    def script(session: Session) -> Any:
        held = session.ask(PublishIf(noisy_size(k), when=When("seven", lambda size: size >= 7)))
        if held.hit:
            return [0, held.value]
        return [1, session.ask(Extend(held.held, when=When("three", lambda size: size >= 3))).value]

    return script


def until_refused(ask: Callable[[], Any], most: int) -> list[Any]:
    """What was answered, until the budget was spent."""
    found: list[Any] = []
    with suppress(BudgetRefused):
        found.extend(ask() for _ in range(most))
    return found


def agreed(keyed: bool) -> Chained:
    """Tests that were agreed on, each of a value half way."""
    opening = AgreedTests(tests=AGREED, hits=4)
    if keyed:
        return Chained(opening, (lambda run: run.question(KEYED, above=2),) * (AGREED // 2))
    return Chained(opening, (lambda run: run.question(count(), above=6),) * AGREED)


CASES = [
    WorstCase("test", lambda k: Test(count(), above=6, epsilon=k), COUNTED.opened),
    WorstCase("test: a hit", lambda k: Test(count(), above=6, epsilon=k / 4), COUNTED.opened, SMALL, priced=True),
    WorstCase("sharp test: a hit", lambda k: Test(count(), above=6, hits=4), COUNTED.opened, renyi(), priced=True),
    WorstCase("release_if", lambda k: ReleaseIf(count(), above=6, epsilon=k), COUNTED.opened),
    WorstCase("revise", revised, COUNTED.opened),
    WorstCase("watch", lambda k: Watch(KEYED, above=2, epsilon=k), BOTH.opened),
    WorstCase("call", lambda k: Compute(noisy_size(k), prior=5), COUNTED.opened),
    WorstCase("call_twice", lambda k: Twice(noisy_size(k)), COUNTED.opened),
    WorstCase("boundary", lambda k: Boundary(even(k)), COUNTED.opened),
    WorstCase("boundary: a hit", lambda k: Boundary(even(k, 4)), COUNTED.opened, SMALL, priced=True),
    WorstCase("boundary of runs", lambda k: Boundary(even(k), runs=2), COUNTED.opened),
    WorstCase("publish_if", lambda k: PublishIf(noisy_size(k), when=When("six", lambda s: s >= 6)), COUNTED.opened),
    WorstCase("extend", extended, COUNTED.opened),
    WorstCase("track", lambda k: Track(count(), step=2, epsilon=k), COUNTED.opened),
    WorstCase("between", lambda k: Between(count(), **ZONES, epsilon=k), COUNTED.opened),
    WorstCase("between: a hit", lambda k: Between(count(), **ZONES, epsilon=k / 4), COUNTED.opened, SMALL, priced=True),
    WorstCase("decide", lambda k: Decide(count(), above=6, epsilon=k), COUNTED.opened),
    WorstCase("decide: a hit", lambda k: Decide(count(), above=6, epsilon=k / 4), COUNTED.opened, SMALL, priced=True),
    WorstCase("classify", lambda k: Classify(SINGLE, epsilon=k), SELDOM.opened),
    WorstCase("classify: a hit", lambda k: Classify(SINGLE, epsilon=k / 4), SELDOM.opened, SMALL, priced=True),
    WorstCase(
        "between by draws: a hit", lambda k: Between(count(), **ZONES, hits=4), COUNTED.opened, renyi(), priced=True
    ),
    WorstCase(
        "decide by draws: a hit", lambda k: Decide(count(), above=5, hits=4), COUNTED.opened, renyi(), priced=True
    ),
    WorstCase("classify by draws: a hit", lambda k: Classify(SINGLE, hits=4), LONGER.opened, renyi(), priced=True),
    WorstCase("agreed_test", lambda k: agreed(False), COUNTED.opened, renyi(), priced=True),
    WorstCase("agreed_watch", lambda k: agreed(True), BOTH.opened, renyi(), priced=True),
]
