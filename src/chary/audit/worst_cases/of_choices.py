"""Worst-case neighbours of choices among keys, options and databases."""

from collections.abc import Callable
from typing import Any

import numpy as np

from chary.audit.worst_cases.worst_case import Tables, WorstCase, renyi
from chary.calls import (
    MWEM,
    Agreement,
    Choose,
    ClearLabel,
    Cover,
    Label,
    Majority,
    MostCommon,
    NoisyMax,
    Select,
    SmallDatabase,
    Top,
)
from chary.data import Ballots, Rows, count

PLACES = ["a", "b"]
MOVED = Tables(
    {"unit": [1, 2, 3], "place": ["a", "b", "a"]}, {"unit": [1, 2, 3], "place": ["a", "b", "b"]}, relation="replace"
)
SELDOM = Tables(
    {"unit": [1, 2, 3, 4, 5, 6], "place": ["b"] * 6},
    {"unit": [1, 2, 3, 4, 5, 6], "place": ["a", *["b"] * 5]},
    relation="replace",
)
# As far apart as bounds of 0 and 1 allow, either way round.
FARTHEST = Tables({"unit": [1], "place": ["a"]}, {"unit": [1], "place": ["b"]}, relation="replace")
ADDED = Tables({"unit": [1, 2, 3], "place": ["a", "b", "a"]}, {"unit": [1, 2], "place": ["a", "b"]})
CELL = Tables({"place": ["a"]}, {"place": ["b"]}, unit=None, relation="replace")
UNIVERSE: dict[str, Any] = {"universe": {"place": PLACES}}
# The errors of two queries move in opposite directions, so that the choice between them tells something too.
EVEN = Tables({"place": [*"aabbb"]}, {"place": [*"aaabb"]}, unit=None, relation="replace")
IN_A, IN_B = "place = 'a'", "place = 'b'"
KEYED = count().by("place", PLACES, keep_per_unit=1)


def votes(here: list[int], there: list[int]) -> Callable[[], tuple[Rows, Rows]]:
    """Two polls that differ in one voter."""

    def ballots(counts: list[int]) -> Ballots:
        return Ballots(lambda question: np.array(counts), ["yes", "no"], voter="teacher")

    return lambda: (ballots(here), ballots(there))


# Few votes for the first option: where an outcome is rare, one vote makes nearly e^epsilon of it.
FEW, CLOSE = votes([0, 12], [1, 11]), votes([6, 0], [5, 1])


def small_database(k: int) -> SmallDatabase:
    """One row that is in the cell which is asked for, or in one of more others: the choice moves to where it is not."""
    return SmallDatabase(**UNIVERSE, queries=[IN_A], epsilon=k, rows=1, measure="databases")


CASES = [
    WorstCase("choose", lambda k: Choose(KEYED, epsilon=k), MOVED.opened),
    WorstCase(
        "choose by the exponential mechanism", lambda k: Choose(KEYED, epsilon=k, by="exponential"), SELDOM.opened
    ),
    WorstCase("most_common", lambda k: MostCommon("place", among=PLACES, epsilon=k), MOVED.opened),
    WorstCase("majority", lambda k: Majority("place = 'a'", epsilon=k), MOVED.opened),
    WorstCase("top", lambda k: Top(KEYED, k=1, epsilon=k), MOVED.opened),
    WorstCase("select", lambda k: Select(["place = 'a'", "place = 'b'"], above=2, epsilon=k), MOVED.opened),
    WorstCase(
        "select by draws: a hit", lambda k: Select(["place = 'a'"], above=2, hits=4), ADDED.opened, renyi(), priced=True
    ),
    WorstCase("cover", lambda k: Cover(["place = 'a'", "place = 'b'"], above=2, epsilon=k, k=1), ADDED.opened),
    WorstCase(
        "noisy_max_gaussian",
        lambda k: NoisyMax(KEYED, low=0, high=1, epsilon=k),
        FARTHEST.opened,
        transcripts=4000,
    ),
    WorstCase("label", lambda k: Label(0, epsilon=k), FEW),
    WorstCase("label of a guess", lambda k: Label(0, guess="yes", epsilon=k), FEW),
    WorstCase("label_clear", lambda k: ClearLabel(0, epsilon=k), FEW),
    WorstCase("agreement", lambda k: Agreement(0, above=6, expect="low", epsilon=k), CLOSE),
    WorstCase("small_database", small_database, CELL.opened),
    WorstCase("mwem", lambda k: MWEM(**UNIVERSE, queries=[IN_A, IN_B], rounds=1, epsilon=k), EVEN.opened),
]
