"""Conditions on a universe as callers write them: one, all rows, or a list to make an answer for."""

from collections.abc import Sequence
from typing import Any, Final

from chary.data import Count, Predicate, Universe
from chary.data.columns import Schema
from chary.data.domain.regions import Region, located
from chary.errors import InvalidQuery

AskedQueries = Sequence[Predicate | Count | str] | Predicate | Count | str
_WANTED: Final = "each query is a condition, such as \"age >= 65 AND sex = 'f'\", or a count of one"


def condition(where: Any) -> Predicate | None:
    """One condition, given as text, predicate or a count of one without keys; None is every row, as is `count()`.

    `InvalidQuery` for anything else.
    """
    if isinstance(where, Count) and where.keying is None and where.without is None:
        where = where.where
    if where is not None and not isinstance(where, (str, Predicate)):
        raise InvalidQuery(_WANTED)
    return Predicate.of(where)


def conditions(queries: Any) -> tuple[Predicate, ...]:
    """One query, or a list of them; a count with keys makes a condition for each. `InvalidQuery` for every row.

    >>> from chary.data import count
    >>> [asked.text for asked in conditions(["age >= 65", count().by("sex", ["f", "m"])])]
    ['age >= 65', "sex = 'f'", "sex = 'm'"]
    """
    listed = queries if isinstance(queries, (list, tuple)) else [queries]
    return tuple(each for given in listed for each in _each(given))


def promised(
    share: float, error_bar: float, asked: Sequence[Predicate], where: Predicate | Count | str | None
) -> tuple[float, float] | None:
    """Where the true share lies if all that were asked are within `error_bar`; None for what was not asked."""
    if condition(where) not in asked:
        return None
    return max(0.0, share - error_bar), min(1.0, share + error_bar)


def region(universe: Universe, schema: Schema, where: Any) -> Region:
    """The cells in which one condition holds; `InvalidQuery` where the universe cannot tell."""
    return located(universe, schema, condition(where))[0]


def _each(given: Any) -> list[Predicate]:
    if isinstance(given, Count) and given.keying is not None:
        return given.conditions()
    if (asked := condition(given)) is None:
        raise InvalidQuery(_WANTED)
    return [asked]
