"""Worst cases of choices among keys, options and databases, and among candidates that callers bring."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from chary import calls
from chary.audit.cases.tests import even
from chary.audit.transcripts import OpenedUnder, Script, Tables, WorstCase, renyi
from chary.data import Rows, Votes, count
from chary.filters import Budget
from chary.session import Session

# Worst-case neighbours of choices among keys, options and databases.

PLACES = ["a", "b"]
MOVED = Tables(
    {"unit": [1, 2, 3], "place": ["a", "b", "a"]}, {"unit": [1, 2, 3], "place": ["a", "b", "b"]}, neighbors="replace"
)
SELDOM = Tables(
    {"unit": [1, 2, 3, 4, 5, 6], "place": ["b"] * 6},
    {"unit": [1, 2, 3, 4, 5, 6], "place": ["a", *["b"] * 5]},
    neighbors="replace",
)
# As far apart as bounds of 0 and 1 allow, either way round.
FARTHEST = Tables({"unit": [1], "place": ["a"]}, {"unit": [1], "place": ["b"]}, neighbors="replace")
ADDED = Tables({"unit": [1, 2, 3], "place": ["a", "b", "a"]}, {"unit": [1, 2], "place": ["a", "b"]})
CELL = Tables({"place": ["a"]}, {"place": ["b"]}, unit=None, neighbors="replace")
UNIVERSE: dict[str, Any] = {"universe": {"place": PLACES}}
# The errors of two queries move in opposite directions, so that the choice between them says something too.
EVEN = Tables({"place": [*"aabbb"]}, {"place": [*"aaabb"]}, unit=None, neighbors="replace")
IN_A, IN_B = "place = 'a'", "place = 'b'"
KEYED = count().by("place", PLACES, max_groups_per_unit=1)


def votes(here: list[int], there: list[int]) -> Callable[[], tuple[Rows, Rows]]:
    """Two polls that differ in one voter."""

    def ballots(counts: list[int]) -> Votes:
        return Votes(lambda question: np.array(counts), ["yes", "no"], voter="teacher")

    return lambda: (ballots(here), ballots(there))


# Few votes for the first option: where an outcome is rare, one vote makes nearly e^epsilon of it.
FEW, CLOSE = votes([0, 12], [1, 11]), votes([6, 0], [5, 1])


def small_database(k: int) -> calls.SmallDatabase:
    """A database of one row; whether the unit is in the cell that is asked for decides which row is likelier."""
    return calls.SmallDatabase(**UNIVERSE, queries=[IN_A], epsilon=k, rows=1, measure="databases")


CHOICES = [
    WorstCase("choose", lambda k: calls.Choose(KEYED, epsilon=k), MOVED),
    WorstCase("choose with the lead", lambda k: calls.Choose(KEYED, epsilon=k, lead=True), MOVED),
    WorstCase("choose by inverse sensitivity", lambda k: calls.Choose(KEYED, epsilon=k, mechanism="inverse"), MOVED),
    WorstCase(
        "choose by the exponential mechanism", lambda k: calls.Choose(KEYED, epsilon=k, mechanism="exponential"), SELDOM
    ),
    WorstCase("most_common", lambda k: calls.MostCommon("place", among=PLACES, epsilon=k), MOVED),
    WorstCase("majority", lambda k: calls.Majority("place = 'a'", epsilon=k), MOVED),
    WorstCase("top", lambda k: calls.TopK(KEYED, k=1, epsilon=k), MOVED),
    WorstCase("select", lambda k: calls.Select(["place = 'a'", "place = 'b'"], above=2, epsilon=k), MOVED),
    WorstCase(
        "select by draws: a hit", lambda k: calls.Select(["place = 'a'"], above=2, hits=4), ADDED, renyi(), priced=True
    ),
    WorstCase(
        "greedy of counts", lambda k: calls.Greedy(["place = 'a'", "place = 'b'"], above=2, epsilon=k, k=1), ADDED
    ),
    WorstCase(
        "choose by Gaussian noise",
        lambda k: calls.Choose(KEYED, epsilon=k, mechanism="gaussian", low=0, high=1),
        FARTHEST,
        transcripts=4000,
    ),
    WorstCase("label", lambda k: calls.Label(0, epsilon=k), FEW, quick=True),
    WorstCase("label of a guess", lambda k: calls.Label(0, guess="yes", epsilon=k), FEW),
    WorstCase("label where it is clear", lambda k: calls.Label(0, epsilon=k, clear=True), FEW),
    WorstCase("agreement", lambda k: calls.Agreement(0, above=6, expect="low", epsilon=k), CLOSE),
    WorstCase("small_database", small_database, CELL),
    WorstCase("mwem", lambda k: calls.MWEM(**UNIVERSE, queries=[IN_A, IN_B], rounds=1, epsilon=k), EVEN),
]

# Worst-case neighbours of choices among candidates that callers bring, by scores, distances or private algorithms.

# What is rarely chosen is e^epsilon times as likely with one unit more, or with one that is replaced.
ONE_MORE = Tables({"unit": list(range(8)), "place": ["a", *["b"] * 7]}, {"unit": list(range(1, 8)), "place": ["b"] * 7})
REPLACED = Tables(
    {"unit": list(range(12)), "place": ["a", *["b"] * 11]},
    {"unit": list(range(12)), "place": ["b"] * 12},
    neighbors="replace",
)
TWO_OR_ONE = Tables({"unit": [0, 1]}, {"unit": [0]})
# Whole sessions of two algorithms, which say a bit each.
SESSIONS = 1500
CONDITIONS = [f"place = '{place}'" for place in PLACES]


def in_places(rows: Any, candidates: Sequence[Any]) -> list[int]:
    """How many rows are in each place: one that is replaced moves a score up and another down."""
    places = rows["place"].to_pylist()
    return [places.count(candidate) for candidate in candidates]


def from_few(rows: Any, candidates: Sequence[Any]) -> list[int]:
    """How many rows are missing to this many: one more moves distances in one direction."""
    return [max(0, candidate - rows.num_rows) for candidate in candidates]


def by_scores(k: int) -> calls.ExponentialMechanism:
    """Scores of the caller's own, of which chary knows the sensitivity alone."""
    return calls.ExponentialMechanism(PLACES, calls.ScoreFunction("places", in_places), sensitivity=1, epsilon=k)


def by_counts(k: int) -> calls.ExponentialMechanism:
    """Scores that chary counts, so that it knows that they move in one direction."""
    return calls.ExponentialMechanism(PLACES, [count(condition) for condition in CONDITIONS], epsilon=k)


def by_distances(k: int) -> calls.ExponentialMechanism:
    """Distances of the caller's own, which move in one direction."""
    return calls.ExponentialMechanism([0, 8], distance=calls.ScoreFunction("few", from_few), monotone=True, epsilon=k)


def one_bit(k: int, name: str, scores: tuple[int, int]) -> calls.Algorithm:
    """Whether the number of rows is odd, by randomized response, as a score: the first or the second."""
    told = even(k)

    def run(rows: Any, source: Any, chosen: Sequence[Any] = ()) -> list[Any]:
        return [scores[told.run(rows, source) == "even"], "solution"]

    return calls.Algorithm(name, run, Fraction(k))


def bits(k: int, *scores: tuple[int, int]) -> list[calls.Algorithm]:
    """Two of them say two different bits of noise, and one unit changes both."""
    return [one_bit(k, name, scores[place % len(scores)]) for place, name in enumerate(["first", "second"])]


def in_turn(k: int) -> Script:
    """Which of two algorithms were chosen, one after the other; one unit changes how likely each is."""
    asked = calls.Greedy(bits(k, (2, 1)), above=2)

    def script(session: Session) -> Any:
        found = session.ask(asked)
        return [found.tested, *found.value]

    return script


def by_the_best(k: int) -> Script:
    """The better of two algorithms; it has the lower score only where both have."""
    asked = calls.Greedy(bits(k, (1, 2)), above=1, k=1, mechanism="best")

    def script(session: Session) -> Any:
        return [list(chosen) for chosen in session.ask(asked).value.items()]

    return script


def reselected(k: int) -> Script:
    """The scores that were published at first, and how many more after the threshold was lowered."""
    asked = calls.Select(bits(k, (2, 1)), above=2, room=64)

    def script(session: Session) -> Any:
        first = session.ask(asked)
        second = session.ask(calls.Widen(first.call, above=1))
        return [len(first.above), len(second.above), *(chosen.name for chosen in first.above)]

    return script


def twice(k: int) -> OpenedUnder:
    """A budget that two algorithms spend."""
    return OpenedUnder(Budget(2 * k))


CANDIDATES = [
    WorstCase("exponential_mechanism", by_counts, ONE_MORE),
    WorstCase("exponential_mechanism of a function", by_scores, REPLACED),
    WorstCase(
        "exponential_mechanism by distances",
        lambda k: calls.ExponentialMechanism([0, 14], distance=count(), epsilon=k),
        TWO_OR_ONE,
    ),
    WorstCase("exponential_mechanism by distances of a function", by_distances, TWO_OR_ONE),
    WorstCase("greedy", in_turn, TWO_OR_ONE, twice, whole=True, transcripts=SESSIONS),
    WorstCase("greedy by rounds", by_the_best, TWO_OR_ONE, twice, whole=True, transcripts=SESSIONS),
    WorstCase("widen of a selection", reselected, TWO_OR_ONE, twice, transcripts=SESSIONS),
]
