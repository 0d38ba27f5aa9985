"""From rows to the sums of products of columns."""

from typing import Any

import ibis

from chary.data.columns import Schema, TypeClass, classify, declare
from chary.data.engines.expressions.dialect import Dialect
from chary.data.engines.expressions.one_of_unit import Preference, is_packed, one_of_unit
from chary.data.predicates.literals import double
from chary.data.queries.second_moments import SecondMoments
from chary.data.queries.total import Bounds
from chary.errors import InvalidQuery


def moments(asked: SecondMoments, rows: Any, schema: Schema, unit: str | None, dialect: Dialect) -> Any:
    """From rows that satisfy the condition to one answer for each position; see `SecondMoments`."""
    parts = [f"s{k}" for k in range(len(asked.bounds))]
    steps = {part: _steps(asked, rows, schema, each, dialect) for part, each in zip(parts, asked.bounds, strict=True)}
    known = rows.filter(*(rows[name].notnull() for name in asked.names))
    chosen = known.select(**({} if unit is None else {"unit": known[unit]}), **steps)
    if asked.squared < len(parts) * asked.steps**2:
        chosen = _shortened(asked, chosen, parts)
    if unit is not None:
        chosen = _first_rows(asked, chosen, parts)
    pairs = [(one, other) for k, one in enumerate(parts) for other in parts[k:]]
    sums = [chosen.count(), *(chosen[s].sum() for s in parts), *((chosen[a] * chosen[b]).sum() for a, b in pairs)]
    named = {f"a{place}": value.fill_null(0) for place, value in enumerate(sums)}
    return dialect.one_a_row(chosen.aggregate(**named), list(named))


def _first_rows(asked: SecondMoments, chosen: Any, parts: list[str]) -> Any:
    order = [Preference(part, -asked.steps, asked.steps) for part in parts]
    if asked.rows_per_unit == 1 and is_packed(order):
        return one_of_unit(chosen, order)
    ranked = chosen.mutate(rank=ibis.row_number().over(group_by="unit", order_by=parts))
    return ranked.filter(ranked["rank"] < asked.rows_per_unit)


def _steps(asked: SecondMoments, rows: Any, schema: Schema, column: tuple[str, Bounds], dialect: Dialect) -> Any:
    name, (low, high) = column
    kind = classify(schema, name)
    if kind not in (TypeClass.INTEGER, TypeClass.FLOAT):
        raise InvalidQuery(f"moments need columns of numbers; {name!r} is {kind.words}{declare(name, kind, 'DOUBLE')}")
    middle, half = double(float((low + high) / 2)), double(float((high - low) / 2))
    scaled = (dialect.tame(rows[name].cast("float64")) - middle) / half * double(asked.steps)
    inside = ibis.least(ibis.greatest(scaled, double(-asked.steps)), double(asked.steps))
    # The edges are whole steps, so rounding what is clipped cannot leave them.
    return dialect.nearest(inside).cast("int64")


def _shortened(asked: SecondMoments, chosen: Any, parts: list[str]) -> Any:
    """Rows that are too long, shortened towards zero; should a float's last bit leave one too long, to zeros."""
    long = chosen.mutate(size=_squares(chosen, parts))
    factor = ibis.ifelse(
        long["size"] > asked.squared, (double(asked.squared) / long["size"].cast("float64")).sqrt(), double(1)
    )
    short = long.mutate(factor=factor)
    cut = short.mutate(**{s: _towards_zero(short[s], short.factor) for s in parts})
    fits = _squares(cut, parts) <= asked.squared
    return cut.mutate(**{s: ibis.ifelse(fits, cut[s], ibis.literal(0, "int64")) for s in parts})


def _squares(rows: Any, parts: list[str]) -> Any:
    return sum((rows[s] * rows[s] for s in parts[1:]), rows[parts[0]] * rows[parts[0]])


def _towards_zero(steps: Any, factor: Any) -> Any:
    size = (steps.cast("float64") * factor).abs().floor().cast("int64")
    return ibis.ifelse(steps < 0, -size, size)
