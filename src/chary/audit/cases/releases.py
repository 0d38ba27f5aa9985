"""Worst cases of calls that release numbers, one or many together, and of the reports of every unit."""

from typing import Any, Literal

from chary import calls
from chary.audit.transcripts import Tables, WorstCase, renyi
from chary.data import count

# Worst-case neighbours of calls that say numbers.

PLACES = ["a", "b", "c"]
# One unit more, whose only row is in one place.
ONE_MORE = Tables({"unit": [1, 2, 3], "place": ["a", "b", "a"]}, {"unit": [1, 2], "place": ["a", "b"]})
# A unit in all places, or in none.
EVERYWHERE = Tables({"unit": [1, 2, 3, 3, 3], "place": ["a", "b", *PLACES]}, {"unit": [1, 2], "place": ["a", "b"]})
# A unit that moves from one place to another.
MOVED = Tables(
    {"unit": [1, 2, 3], "place": ["a", "b", "a"]}, {"unit": [1, 2, 3], "place": ["a", "b", "b"]}, neighbors="replace"
)
# Of which there are as many places above as below.
HALF_WAY = 15


def ages(*values: int) -> dict[str, list[int]]:
    """One unit for each age."""
    return {"unit": list(range(len(values))), "age": list(values)}


MEDIAN = Tables(ages(*[0] * 4, *[1] * 3), ages(*[0] * 3, *[1] * 4), neighbors="replace")
# One more at the lower end: what is above the other one gets farther from the lower quantiles, what is below it nearer.
LOWER = Tables(ages(HALF_WAY), ages(0, HALF_WAY), neighbors="add_remove")
# Each row is a unit, of which one leaves a group and enters another.
ACROSS = Tables({"place": [*"ab"], "age": [1, 0]}, {"place": [*"bb"], "age": [1, 0]}, None, neighbors="replace")
OLDER = Tables(ages(0, 5, 5), ages(0, 5), neighbors="add_remove")
AGES: dict[str, Any] = {"bounds": (0, 1), "max_rows_per_unit": 1}
ONE_BIT = Tables({"unit": [1], "place": ["a"]}, {"unit": [1], "place": ["b"]}, neighbors="replace")
KEYED = count().by("place", PLACES, max_groups_per_unit=3)

NUMBERS = [
    WorstCase("release", lambda k: calls.Release(count(), epsilon=k), ONE_MORE, quick=True),
    WorstCase("release of keys", lambda k: calls.Release(KEYED, rho=f"{k * k / 2}"), EVERYWHERE, renyi(2)),
    WorstCase("release by delta", lambda k: calls.Release(count(), epsilon=k, delta="0.05"), ONE_MORE, renyi(2)),
    WorstCase("histogram", lambda k: calls.Histogram("age", bins=[0, 4, 9], epsilon=k, max_groups_per_unit=1), OLDER),
    WorstCase("marginal", lambda k: calls.Marginal({"place": PLACES}, epsilon=k, max_groups_per_unit=1), MOVED),
    WorstCase("quantile", lambda k: calls.Quantile("age", 0.5, **AGES, epsilon=k), MEDIAN),
    WorstCase(
        "quantiles",
        lambda k: calls.Quantile("age", [0.25, 0.5], bounds=(0, 2 * HALF_WAY), max_rows_per_unit=1, epsilon=3 * k),
        LOWER,
        seen=lambda told: [place > HALF_WAY for place in told["places"]],
    ),
    WorstCase(
        "quantile of groups",
        lambda k: calls.Quantile("age", 0.5, bounds=(0, 1), epsilon=k, groups={"place": PLACES[:2]}),
        ACROSS,
    ),
    WorstCase("fraction", lambda k: calls.Proportion("place = 'a'", epsilon=k), MOVED),
    WorstCase(
        "randomized_values of a condition",
        lambda k: calls.RandomizedValues(condition="place = 'a'", epsilon=k),
        ONE_BIT,
    ),
]

# Worst-case neighbours of many numbers that are reported together, and of the reports of every unit.

TWO_PLACES = ["a", "b"]
CELLS = ["a", "b", "c", "d"]
CONDITIONS = [f"place = '{place}'" for place in TWO_PLACES]
# One unit more: in every place, in one cell of a grid, or in a corner.
BOTH = Tables({"unit": [1, 2, 2], "place": ["a", "a", "b"]}, {"unit": [1], "place": ["a"]})
ONE_CELL = Tables(
    {"unit": [1, 2], "place": ["b", "a"], "half": ["y", "x"]}, {"unit": [1], "place": ["b"], "half": ["y"]}
)
CORNER = Tables({"unit": [1, 2], "long": [0, 1], "wide": [0, 1]}, {"unit": [1], "long": [0], "wide": [0]})
# Each row is a unit, which leaves one group and enters another.
GROUPS = Tables({"place": [*"aab"]}, {"place": [*"abb"]}, unit=None, neighbors="replace")
ONE_VALUE = Tables({"unit": [1], "place": ["a"]}, {"unit": [1], "place": ["b"]}, neighbors="replace")
GRID = count().by(
    ["place", "half"], [(place, half) for place in TWO_PLACES for half in ("x", "y")], max_groups_per_unit=1
)
COMPONENTS: dict[str, Any] = {"fineness": 10, "max_rows_per_unit": 1}
# Numbers that are put together take a millisecond.
OF_ESTIMATES = 8000


def measured(k: int) -> calls.MatrixMechanism:
    """Cells, pairs of cells and all of them, of which one unit moves one each."""
    cells = count().by("place", CELLS, max_groups_per_unit=1)
    return calls.MatrixMechanism(cells, "ranges", epsilon=k, strategy="hierarchy of 2")


def marginals(**size: Any) -> calls.MatrixMechanism:
    """Marginals of a grid, each of which one unit moves in one number."""
    return calls.MatrixMechanism(GRID, [["place"], ["half"], []], strategy="marginals", **size)


def components(*columns: str, **size: Any) -> calls.PrincipalComponents:
    """Moments of which a row at its upper bounds moves all as far as it can."""
    return calls.PrincipalComponents(dict.fromkeys(columns, (-1, 1)), **COMPONENTS, **size)


def regressed(**size: Any) -> calls.LinearRegression:
    """The same moments."""
    return calls.LinearRegression("long", {"long": (-1, 1), "wide": (-1, 1)}, **COMPONENTS, **size)


def reported(k: int, form: Literal["category", "optimised", "symmetric"]) -> calls.RandomizedValues:
    """The report of one unit."""
    return calls.RandomizedValues("place", among=TWO_PLACES, epsilon=k, mechanism=form)


IN_EACH = [count(condition) for condition in CONDITIONS]
SUMS = [
    WorstCase("release_all", lambda k: calls.ReleaseAll(IN_EACH, epsilon=k), BOTH),
    WorstCase("release_all of groups", lambda k: calls.ReleaseAll([*IN_EACH, count()], epsilon=k), GROUPS),
    WorstCase("release_all by rho", lambda k: calls.ReleaseAll(IN_EACH, rho=f"{k * k / 2}"), BOTH, renyi(2)),
    WorstCase("matrix_mechanism", measured, ONE_CELL, transcripts=OF_ESTIMATES),
    WorstCase("matrix_mechanism of marginals", lambda k: marginals(epsilon=k), ONE_CELL, transcripts=OF_ESTIMATES),
    WorstCase(
        "matrix_mechanism by rho", lambda k: marginals(rho=f"{k * k / 2}"), ONE_CELL, renyi(2), transcripts=OF_ESTIMATES
    ),
    WorstCase("principal_components", lambda k: components("long", epsilon=k), CORNER, transcripts=OF_ESTIMATES),
    WorstCase(
        "principal_components by rho",
        lambda k: components("long", "wide", rho=f"{k * k / 2}"),
        CORNER,
        renyi(2),
        transcripts=OF_ESTIMATES,
    ),
    WorstCase("linear_regression", lambda k: regressed(epsilon=k), CORNER, transcripts=OF_ESTIMATES),
    WorstCase(
        "linear_regression by rho", lambda k: regressed(rho=f"{k * k / 2}"), CORNER, renyi(2), transcripts=OF_ESTIMATES
    ),
    WorstCase("randomized_values", lambda k: reported(k, "category"), ONE_VALUE),
    WorstCase("randomized_values in the optimised form", lambda k: reported(k, "optimised"), ONE_VALUE),
    WorstCase("randomized_values in the symmetric form", lambda k: reported(k, "symmetric"), ONE_VALUE),
]
