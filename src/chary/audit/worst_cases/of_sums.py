"""Worst-case neighbours of many numbers that are told together, and of the reports of every unit."""

from typing import Any, Literal

from chary.audit.worst_cases.worst_case import Tables, WorstCase, renyi
from chary.calls import (
    MatrixMechanism,
    PrincipalComponents,
    RandomizedValues,
    ReleaseAll,
)
from chary.data import count

PLACES = ["a", "b"]
CELLS = ["a", "b", "c", "d"]
CONDITIONS = [f"place = '{place}'" for place in PLACES]
# One unit more: in every place, in one cell of a grid, or in a corner.
BOTH = Tables({"unit": [1, 2, 2], "place": ["a", "a", "b"]}, {"unit": [1], "place": ["a"]})
ONE_CELL = Tables(
    {"unit": [1, 2], "place": ["b", "a"], "half": ["y", "x"]}, {"unit": [1], "place": ["b"], "half": ["y"]}
)
CORNER = Tables({"unit": [1, 2], "long": [0, 1], "wide": [0, 1]}, {"unit": [1], "long": [0], "wide": [0]})
# Each row is a unit, which leaves one group and enters another.
GROUPS = Tables({"place": [*"aab"]}, {"place": [*"abb"]}, unit=None, relation="replace")
ONE_VALUE = Tables({"unit": [1], "place": ["a"]}, {"unit": [1], "place": ["b"]}, relation="replace")
GRID = count().by(["place", "half"], [(place, half) for place in PLACES for half in ("x", "y")], keep_per_unit=1)
COMPONENTS: dict[str, Any] = {"fineness": 10, "rows_per_unit": 1}
# Numbers that are put together take a millisecond.
OF_ESTIMATES = 8000


def measured(k: int) -> MatrixMechanism:
    """Cells, pairs of cells and all of them, of which one unit moves one each."""
    cells = count().by("place", CELLS, keep_per_unit=1)
    return MatrixMechanism(cells, "ranges", epsilon=k, strategy="hierarchy of 2")


def marginals(**size: Any) -> MatrixMechanism:
    """Marginals of a grid, each of which one unit moves in one number."""
    return MatrixMechanism(GRID, [["place"], ["half"], []], strategy="marginals", **size)


def components(*columns: str, **size: Any) -> PrincipalComponents:
    """Moments of which a row at its upper bounds moves all as far as it can."""
    return PrincipalComponents(dict.fromkeys(columns, (-1, 1)), **COMPONENTS, **size)


def reported(k: int, form: Literal["category", "optimised", "symmetric"]) -> RandomizedValues:
    """The report of one unit."""
    return RandomizedValues("place", among=PLACES, epsilon=k, form=form)


IN_EACH = [count(condition) for condition in CONDITIONS]
CASES = [
    WorstCase("release_all", lambda k: ReleaseAll(IN_EACH, epsilon=k), BOTH.opened),
    WorstCase("release_all of groups", lambda k: ReleaseAll([*IN_EACH, count()], epsilon=k), GROUPS.opened),
    WorstCase("release_all by rho", lambda k: ReleaseAll(IN_EACH, rho=f"{k * k / 2}"), BOTH.opened, renyi(2)),
    WorstCase("matrix_mechanism", measured, ONE_CELL.opened, transcripts=OF_ESTIMATES),
    WorstCase(
        "matrix_mechanism of marginals", lambda k: marginals(epsilon=k), ONE_CELL.opened, transcripts=OF_ESTIMATES
    ),
    WorstCase(
        "matrix_mechanism by rho",
        lambda k: marginals(rho=f"{k * k / 2}"),
        ONE_CELL.opened,
        renyi(2),
        transcripts=OF_ESTIMATES,
    ),
    WorstCase("principal_components", lambda k: components("long", epsilon=k), CORNER.opened, transcripts=OF_ESTIMATES),
    WorstCase(
        "principal_components by rho",
        lambda k: components("long", "wide", rho=f"{k * k / 2}"),
        CORNER.opened,
        renyi(2),
        transcripts=OF_ESTIMATES,
    ),
    WorstCase("randomized_values", lambda k: reported(k, "category"), ONE_VALUE.opened),
    WorstCase("randomized_values in the optimised form", lambda k: reported(k, "optimised"), ONE_VALUE.opened),
    WorstCase("randomized_values in the symmetric form", lambda k: reported(k, "symmetric"), ONE_VALUE.opened),
]
