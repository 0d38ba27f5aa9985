"""Queries over a universe as callers write them: one, all rows, or a list to make an answer for."""

from collections.abc import Sequence
from typing import Any, Final

from chary.data import Count, Linear, Predicate, Universe
from chary.data.columns import Schema
from chary.data.domain.linear import linear_of
from chary.data.domain.regions import Region, located
from chary.data.domain.weighted_regions import WeightedRegion, weighing
from chary.errors import InvalidQuery

Share = Predicate | Linear
AskedShare = Predicate | Linear | Count | str | None
AskedQueries = Sequence[Predicate | Linear | Count | str] | Predicate | Linear | Count | str
_WANTED: Final = (
    "each query is a condition, such as \"age >= 65 AND sex = 'f'\", a count of one, or a linear query: "
    'average("age", bounds=(0, 120))'
)


def condition(where: Any) -> Share | None:
    """One condition, given as text, predicate or a count of one without keys, or one linear query; None is every row,
    as is `count()`.

    `InvalidQuery` for anything else.
    """
    if isinstance(where, Count) and where.keying is None and where.without is None:
        where = where.where
    if where is not None and not isinstance(where, (str, Predicate, Linear)):
        raise InvalidQuery(_WANTED)
    if isinstance(where, Linear):
        return where
    linear = linear_of(where) if isinstance(where, str) else None
    return Predicate.of(where) if linear is None else linear


def conditions(queries: Any) -> tuple[Share, ...]:
    """One query, or a list of them; a count with keys makes a condition for each. `InvalidQuery` for every row.

    >>> from chary.data import count
    >>> [asked.text for asked in conditions(["age >= 65", count().by("sex", ["f", "m"])])]
    ['age >= 65', "sex = 'f'", "sex = 'm'"]
    """
    listed = queries if isinstance(queries, (list, tuple)) else [queries]
    return tuple(each for given in listed for each in _each(given))


def promised(share: float, error_bar: float, asked: Sequence[Share], where: AskedShare) -> tuple[float, float] | None:
    """Where the true share lies if all that were asked are within `error_bar`; None for what was not asked."""
    if condition(where) not in asked:
        return None
    return max(0.0, share - error_bar), min(1.0, share + error_bar)


def region(universe: Universe, schema: Schema, where: Any) -> Region | WeightedRegion:
    """The cells in which one condition holds, or what each weighs; `InvalidQuery` where the universe cannot tell."""
    asked = condition(where)
    return weighing(universe, schema, asked) if isinstance(asked, Linear) else located(universe, schema, asked)[0]


def _each(given: Any) -> list[Share]:
    if isinstance(given, Count) and given.keying is not None:
        return list(given.conditions())
    if (asked := condition(given)) is None:
        raise InvalidQuery(_WANTED)
    return [asked]
