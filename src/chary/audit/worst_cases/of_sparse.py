"""Worst-case neighbours of sparse vectors: misses that move up, and a hit that moves down."""

from fractions import Fraction
from functools import partial
from typing import Any, Literal

from chary.accounting import one_sided_noise
from chary.audit.auditing.transcripts import Chained
from chary.audit.worst_cases.worst_case import Tables, WorstCase
from chary.calls import SparseVector, SparseWeights
from chary.calls.run import Kept
from chary.core.plan import Interaction
from chary.data import count

# Below the bar is a key where the one unit is not, and where it is one is at the bar: it is in the last key, or in all
# before it. Another unit is in every key.
MISSED, AT = 2, 2
EACH = list(range(MISSED + 1))
CROSSING = Tables(
    {"unit": [1] * len(EACH) + [0], "place": [*EACH, MISSED]},
    {"unit": [1] * len(EACH) + [0] * MISSED, "place": [*EACH, *EACH[:MISSED]]},
    relation="replace",
)
CROSSED_KEYS = count().by("place", EACH, keep_per_unit=len(EACH))
# One unit that is in one of two keys.
MOVED = Tables({"unit": [0], "place": [0]}, {"unit": [0], "place": [1]}, relation="replace")
PAIRED = count().by("place", range(2), keep_per_unit=1)
# A histogram that answers a quarter of the rows everywhere (a cell is for places that are not listed); up to so many of
# 151 are as near to that as alpha says.
EASY = 57
WIDE: dict[str, Any] = {"universe": {"place": ["a", "b", "c"]}, "alpha": "0.2"}
TIPPED = Tables(
    {"place": ["a"] * EASY + ["b"] * 36 + ["c"] * (EASY + 1)},
    {"place": ["a"] * (EASY + 1) + ["b"] * 36 + ["c"] * EASY},
    unit=None,
    relation="replace",
)


def sparse(k: int, form: Literal["tuned", "published"], **options: Any) -> Chained:
    """Which of some keys is above, where one unit moves the first ones up and the last one down: that they miss and it
    hits is what uses up the noise of the threshold and that of a test."""
    opening = SparseVector(above=AT, hits=1, epsilon=2 * k, form=form, **options)
    return Chained(opening, (lambda run: run.question(CROSSED_KEYS),))


def last_is_high(told: Any) -> bool:
    """Whether only the last key was above, with a value at the bar or higher, which uses up the noise of values too."""
    found = told[1]
    return bool(found["positions"] == [MISSED] and found["values"][0] >= AT)


def one_sided(k: int, *, values: bool = False) -> Chained:
    """Which of two keys is above with one-sided noise, the bar lowered to where both are: that the first is not and the
    second is takes all of epsilon, since geometric noise has the same ratio everywhere."""
    lifted = one_sided_noise(epsilon=k, hits=1, tests=2, values=values).shift
    opening = SparseVector(above=-lifted, hits=1, epsilon=k, tests=2, values=values)
    return Chained(opening, (lambda run: run.question(PAIRED),))


def sparse_weights(k: int) -> Chained:
    """One round, which says how much it may spend of a budget that is kept for rounds of more rows: of the first
    questions the count comes up beyond the most that is easy, of the last it comes down to it."""
    asked = [partial(_weighed, place) for place in ["a"] * MISSED + ["c"]]
    return Chained(SparseWeights(**WIDE, epsilon=18 * k, rounds=1), tuple(asked))


def _weighed(place: str, run: Kept[Any, Any]) -> Interaction:
    question: Interaction = run.question(f"place = '{place}'")
    return question


def last_is_hard(told: Any) -> bool:
    """Whether only the last question was hard, with a count that is higher than any easy one."""
    last = told[-1]
    return bool(len(told) == MISSED + 2 and last["hard"] and last["count"] > EASY)


def of_the_round(told: Any) -> float:
    """The epsilon that its round says it has."""
    return float(Fraction(told[1]["epsilon"]))


CASES = [
    WorstCase("sparse_test", one_sided, MOVED.opened),
    WorstCase("sparse_watch", lambda k: one_sided(k, values=True), MOVED.opened),
    WorstCase(
        "sparse_watch in the tuned form with values",
        lambda k: sparse(k, "tuned", values=True),
        CROSSING.opened,
        seen=last_is_high,
    ),
    WorstCase("sparse_watch in the published form", lambda k: sparse(k, "published"), CROSSING.opened),
    WorstCase("sparse_watch in the tuned form", lambda k: sparse(k, "tuned"), CROSSING.opened),
    WorstCase(
        "sparse_weights_ask",
        sparse_weights,
        TIPPED.opened,
        transcripts=8000,
        seen=last_is_hard,
        says=of_the_round,
    ),
]
