"""Worst-case neighbours of choices among keys, options and databases."""

from collections.abc import Callable
from typing import Any

from chary.audit.worst_cases.worst_case import WorstCase, Tables, renyi
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
ADDED = Tables({"unit": [1, 2, 3], "place": ["a", "b", "a"]}, {"unit": [1, 2], "place": ["a", "b"]})
CELLS = Tables({"place": ["a"] * 3 + ["b"] * 2}, {"place": ["a"] * 2 + ["b"] * 3}, unit=None, relation="replace")
UNIVERSE = {"universe": {"place": PLACES}, "queries": ["place = 'a'"]}
KEYED = count().by("place", PLACES, keep_per_unit=1)


def votes(here: list[int], there: list[int]) -> Callable[[], tuple[Rows, Rows]]:
    """Two polls that differ in one voter."""

    def ballots(counts: list[int]) -> Ballots:
        return Ballots(lambda question: counts, ["yes", "no"], voter="teacher")

    return lambda: (ballots(here), ballots(there))


TIE = votes([4, 3], [3, 4])

CASES = [
    WorstCase("choose", lambda k: Choose(KEYED, epsilon=k), MOVED.opened),
    WorstCase("choose by the exponential mechanism", lambda k: Choose(KEYED, epsilon=k, by="exponential"), MOVED.opened),
    WorstCase("most_common", lambda k: MostCommon("place", among=PLACES, epsilon=k), MOVED.opened),
    WorstCase("majority", lambda k: Majority("place = 'a'", epsilon=k), MOVED.opened),
    WorstCase("top", lambda k: Top(KEYED, k=1, epsilon=k), MOVED.opened),
    WorstCase("select", lambda k: Select(["place = 'a'", "place = 'b'"], above=2, epsilon=k), MOVED.opened),
    WorstCase("select by draws", lambda k: Select(["place = 'a'"], above=2, hits=1), ADDED.opened, renyi()),
    WorstCase("cover", lambda k: Cover(["place = 'a'", "place = 'b'"], above=2, epsilon=k, k=1), ADDED.opened),
    WorstCase("noisy_max_gaussian", lambda k: NoisyMax(KEYED, low=0, high=5, epsilon=k), MOVED.opened, renyi()),
    WorstCase("label", lambda k: Label(0, epsilon=k), TIE),
    WorstCase("label of a guess", lambda k: Label(0, guess="yes", epsilon=k), TIE),
    WorstCase("label_clear", lambda k: ClearLabel(0, epsilon=k), TIE),
    WorstCase("agreement", lambda k: Agreement(0, above=4, expect="low", epsilon=k), TIE),
    WorstCase("small_database", lambda k: SmallDatabase(**UNIVERSE, epsilon=k, rows=4), CELLS.opened),
    WorstCase("mwem", lambda k: MWEM(**UNIVERSE, rounds=1, epsilon=k), CELLS.opened),
]
