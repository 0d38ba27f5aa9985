"""Worst-case neighbours of choices among candidates that callers bring, by scores, distances or private algorithms."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from chary.audit.auditing.transcripts import OpenedUnder, Script
from chary.audit.worst_cases.of_thresholds import even
from chary.audit.worst_cases.worst_case import Tables, WorstCase
from chary.calls import (
    Algorithm,
    ExponentialMechanism,
    Greedy,
    InverseSensitivityMechanism,
    Reselect,
    ScoreFunction,
    Select,
)
from chary.data import count
from chary.filters import Budget
from chary.session import Session

PLACES = ["a", "b"]
# What is rarely chosen is e^epsilon times as likely with one unit more, or with one that is replaced.
ONE_MORE = Tables({"unit": list(range(8)), "place": ["a", *["b"] * 7]}, {"unit": list(range(1, 8)), "place": ["b"] * 7})
REPLACED = Tables(
    {"unit": list(range(12)), "place": ["a", *["b"] * 11]},
    {"unit": list(range(12)), "place": ["b"] * 12},
    relation="replace",
)
TWO_OR_ONE = Tables({"unit": [0, 1]}, {"unit": [0]})
# Whole sessions of two algorithms, which tell a bit each.
SESSIONS = 1500
CONDITIONS = [f"place = '{place}'" for place in PLACES]


def in_places(rows: Any, candidates: Sequence[Any]) -> list[int]:
    """How many rows are in each place: one that is replaced moves a score up and another down."""
    places = rows["place"].to_pylist()
    return [places.count(candidate) for candidate in candidates]


def from_few(rows: Any, candidates: Sequence[Any]) -> list[int]:
    """How many rows are missing to so many: one more moves distances in one direction."""
    return [max(0, candidate - rows.num_rows) for candidate in candidates]


def by_scores(k: int) -> ExponentialMechanism:
    """Scores of the caller's own, of which chary knows the sensitivity alone."""
    return ExponentialMechanism(PLACES, ScoreFunction("places", in_places), sensitivity=1, epsilon=k)


def by_counts(k: int) -> ExponentialMechanism:
    """Scores that chary counts, so that it knows that they move in one direction."""
    return ExponentialMechanism(PLACES, [count(condition) for condition in CONDITIONS], epsilon=k)


def by_distances(k: int) -> InverseSensitivityMechanism:
    """Distances of the caller's own, which move in one direction."""
    return InverseSensitivityMechanism([0, 8], ScoreFunction("few", from_few), monotone=True, epsilon=k)


def one_bit(k: int, name: str, scores: tuple[int, int]) -> Algorithm:
    """Whether the number of rows is odd, by randomized response, as a score: the first or the second."""
    told = even(k)

    def run(rows: Any, source: Any, chosen: Sequence[Any] = ()) -> list[Any]:
        return [scores[told.run(rows, source) == "even"], "solution"]

    return Algorithm(name, run, Fraction(k))


def bits(k: int, *scores: tuple[int, int]) -> list[Algorithm]:
    """Two of them tell two different bits of noise, and one unit changes both."""
    return [one_bit(k, name, scores[place % len(scores)]) for place, name in enumerate(["first", "second"])]


def in_turn(k: int) -> Script:
    """Which of two were chosen, one after the other, each as often as one unit tells."""
    asked = Greedy(bits(k, (2, 1)), above=2)

    def script(session: Session) -> Any:
        found = session.ask(asked)
        return [found.tested, *(chosen.name for chosen in found.above)]

    return script


def by_the_best(k: int) -> Script:
    """The better of two; where it has the lower score, so has the other."""
    asked = Greedy(bits(k, (1, 2)), above=1, k=1, by="best")

    def script(session: Session) -> Any:
        return [[chosen.name, chosen.score] for chosen in session.ask(asked).above]

    return script


def reselected(k: int) -> Script:
    """Scores that were published, and of the others those that were once the bar was lowered."""
    asked = Select(bits(k, (2, 1)), above=2, room=64)

    def script(session: Session) -> Any:
        first = session.ask(asked)
        second = session.ask(Reselect(first.call, above=1))
        return [len(first.above), len(second.above), *(chosen.name for chosen in first.above)]

    return script


def twice(k: int) -> OpenedUnder:
    """A budget that two algorithms spend."""
    return OpenedUnder(Budget(2 * k))


CASES = [
    WorstCase("exponential_mechanism", by_counts, ONE_MORE.opened),
    WorstCase("exponential_mechanism of a function", by_scores, REPLACED.opened),
    WorstCase(
        "inverse_sensitivity",
        lambda k: InverseSensitivityMechanism([0, 14], count(), epsilon=k),
        TWO_OR_ONE.opened,
    ),
    WorstCase("inverse_sensitivity of a function", by_distances, TWO_OR_ONE.opened),
    WorstCase("greedy", in_turn, TWO_OR_ONE.opened, twice, whole=True, transcripts=SESSIONS),
    WorstCase("greedy by rounds", by_the_best, TWO_OR_ONE.opened, twice, whole=True, transcripts=SESSIONS),
    WorstCase("reselect", reselected, TWO_OR_ONE.opened, twice, transcripts=SESSIONS),
]
