"""Worst-case neighbours of calls that tell numbers."""

from typing import Any

from chary.audit.worst_cases.worst_case import Tables, WorstCase, renyi
from chary.calls import (
    Histogram,
    Marginal,
    Mode,
    Quantile,
    Quantiles,
    Randomized,
    Release,
    Share,
)
from chary.data import count

PLACES = ["a", "b", "c"]
# One unit more, whose only row is in one place.
ONE_MORE = Tables({"unit": [1, 2, 3], "place": ["a", "b", "a"]}, {"unit": [1, 2], "place": ["a", "b"]})
# A unit in all places, or in none.
EVERYWHERE = Tables({"unit": [1, 2, 3, 3, 3], "place": ["a", "b", *PLACES]}, {"unit": [1, 2], "place": ["a", "b"]})
# A unit that moves from one place to another.
MOVED = Tables(
    {"unit": [1, 2, 3], "place": ["a", "b", "a"]}, {"unit": [1, 2, 3], "place": ["a", "b", "b"]}, relation="replace"
)
# Of which there are as many places above as below.
HALF_WAY = 15


def ages(*values: int) -> dict[str, list[int]]:
    """One unit for each age."""
    return {"unit": list(range(len(values))), "age": list(values)}


MEDIAN = Tables(ages(*[0] * 4, *[1] * 3), ages(*[0] * 3, *[1] * 4), relation="replace")
# One more at the lower end: what is above the other one gets farther from the lower quantiles, what is below it nearer.
LOWER = Tables(ages(HALF_WAY), ages(0, HALF_WAY), relation="add/remove")
OLDER = Tables(ages(0, 5, 5), ages(0, 5), relation="add/remove")
AGES: dict[str, Any] = {"bounds": (0, 1), "rows_per_unit": 1}
ONE_BIT = Tables({"unit": [1], "place": ["a"]}, {"unit": [1], "place": ["b"]}, relation="replace")
KEYED = count().by("place", PLACES, keep_per_unit=3)

CASES = [
    WorstCase("release", lambda k: Release(count(), epsilon=k), ONE_MORE.opened),
    WorstCase("release of keys", lambda k: Release(KEYED, rho=f"{k * k / 2}"), EVERYWHERE.opened, renyi(2)),
    WorstCase("release by delta", lambda k: Release(count(), epsilon=k, delta="0.05"), ONE_MORE.opened, renyi(2)),
    WorstCase("histogram", lambda k: Histogram("age", bins=[0, 4, 9], epsilon=k, keep_per_unit=1), OLDER.opened),
    WorstCase("marginal", lambda k: Marginal({"place": PLACES}, epsilon=k, keep_per_unit=1), MOVED.opened),
    WorstCase("quantile", lambda k: Quantile("age", 0.5, **AGES, epsilon=k), MEDIAN.opened),
    WorstCase(
        "quantiles",
        lambda k: Quantiles("age", [0.25, 0.5], bounds=(0, 2 * HALF_WAY), rows_per_unit=1, epsilon=3 * k),
        LOWER.opened,
        seen=lambda told: [place > HALF_WAY for place in told["places"]],
    ),
    WorstCase("mode", lambda k: Mode(count().by("place", PLACES[:2], keep_per_unit=1), epsilon=k), MOVED.opened),
    WorstCase("fraction", lambda k: Share("place = 'a'", epsilon=k), MOVED.opened),
    WorstCase("randomized", lambda k: Randomized("place = 'a'", epsilon=k), ONE_BIT.opened),
]
