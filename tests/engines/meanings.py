"""What every form of a query means on a few rows, in plain Python: what each engine is compared with."""

import hashlib
import math
from collections import Counter
from dataclasses import replace
from datetime import date, datetime
from fractions import Fraction

from chary.data import Binned, SecondMoments, Sum
from tests.data import oracle
from tests.data.oracle import cell, missing, truth


def held(condition, rows):
    """The rows of which a predicate is true; all for None."""
    return rows if condition is None else [row for row in rows if truth(condition.condition, row) is True]


def answer(query, rows, unit):
    """The exact integer of a query, or the list of a keyed one."""
    if isinstance(query, Binned):
        return binned(query, rows, unit)
    if isinstance(query, SecondMoments):
        return second_moments(query, rows, unit)
    asked = getattr(query, "of", query)
    if getattr(asked, "without", None) is not None:
        rows = without(asked.without, rows, unit)
    if isinstance(asked, Sum) and asked.missing is not None:
        chosen, instead = held(asked.where, rows), {asked.column: float(asked.missing)}
        rows = [row | instead if missing(cell(row, asked.column)) else row for row in chosen]
        plain = replace(asked, where=None)
        query = plain if query is asked else replace(query, of=plain)
    return oracle.answer(query, rows, unit)


def without(condition, rows, unit):
    """The rows of those who have none of which the condition is true."""
    gone = held(condition, rows)
    if unit is None:
        return [row for row in rows if not any(row is other for other in gone)]
    return [row for row in rows if row[unit] not in {other[unit] for other in gone}]


def binned(query, rows, unit):
    edges, found = [float(edge) for edge in query.edges], {}
    for number, row in enumerate(held(query.of.where, rows)):
        value, owner = cell(row, query.column), number if unit is None else row[unit]
        if missing(value) or owner is None:
            continue
        place = sum(edge <= value for edge in edges) - 1
        if query.outside == "edges":
            place = min(max(place, 0), len(edges) - 2)
        if 0 <= place < len(edges) - 1:
            found.setdefault(owner, set()).add(place)
    kept = Counter(
        place for places in found.values() for place in sorted(places)[: query.of.keying.max_groups_per_unit]
    )
    return [kept[place] for place in range(len(edges) - 1)]


def rounded(value):
    """The nearest whole number of a double, halves away from zero."""
    exact = Fraction(value)
    return math.floor(abs(exact) + Fraction(1, 2)) * (1 if exact >= 0 else -1)


def second_moments(query, rows, unit):
    found = {}
    for number, row in enumerate(held(query.where, rows)):
        owner = number if unit is None else row[unit]
        if owner is not None and not any(missing(cell(row, name)) for name in query.names):
            steps = tuple(_moment(cell(row, name), edges, query.steps) for name, edges in query.bounds)
            found.setdefault(owner, []).append(_shortened(steps, query.squared))
    most = query.max_rows_per_unit
    kept = [row for owner, own in found.items() for row in (oracle.evenly(sorted(own), owner, most) if most else own)]
    size = len(query.names)
    pairs = [(one, other) for one in range(size) for other in range(one, size)]
    sums = [sum(steps[one] for steps in kept) for one in range(size)]
    return [len(kept), *sums, *(sum(steps[one] * steps[other] for steps in kept) for one, other in pairs)]


def _moment(value, edges, steps):
    low, high = edges
    middle, half = float((low + high) / 2), float((high - low) / 2)
    return rounded(min(max((float(value) - middle) / half * float(steps), -float(steps)), float(steps)))


def _shortened(steps, squared):
    size = sum(step * step for step in steps)
    if size <= squared:
        return steps
    factor = math.sqrt(float(squared) / float(size))
    cut = tuple(math.floor(abs(float(step) * factor)) * ((step > 0) - (step < 0)) for step in steps)
    return cut if sum(step * step for step in cut) <= squared else (0,) * len(steps)


def places(asked, rows, unit):
    """Of each unit, or of each row, the places of its values on the grid, ascending."""
    found = {}
    for number, row in enumerate(held(asked.total.where, rows)):
        owner = number if unit is None else row[unit]
        if owner is not None and not missing(cell(row, asked.total.column)):
            step = oracle.steps(asked.total, cell(row, asked.total.column))
            found.setdefault(owner, []).append(step - asked.total.steps[0])
    return {owner: sorted(owned) for owner, owned in found.items()}


def ordered(asked, rows, unit):
    """Which places occur and how often; for those drawn at random the places of each unit, in some order."""
    found, most = places(asked, rows, unit), asked.max_rows_per_unit
    if asked.of_unit == "random":
        return sorted(found.values())
    if asked.of_unit == "mean":
        return Counter(math.floor(Fraction(sum(own), len(own)) + Fraction(1, 2)) for own in found.values())
    counted = Counter()
    for own in found.values():
        for rank, place in enumerate(own):
            weight = 1 if most is None else _rise(most, rank, len(own))
            counted[place] += weight if asked.of_unit == "weighted" else min(weight, 1)
    return +counted


def _rise(most, rank, size):
    return (2 * most * (rank + 1) + size) // (2 * size) - (2 * most * rank + size) // (2 * size)


def elements(asked, rows, unit, key):
    """The words of the distinct elements."""
    column = unit if asked.of is None else asked.of
    found = {}
    for number, row in enumerate(held(asked.where, rows)):
        owner = number if unit is None else row[unit]
        if owner is not None and not missing(row[column]):
            found.setdefault(owner, set()).add(row[column])
    most = None if unit is None else asked.max_groups_per_unit
    kept = {value for own in found.values() for value in sorted(own)[:most]}
    return {word(key, value) for value in kept}


def word(key, value, letter=None):
    """The first 64 bits of SHA-256 of key, letter of the kind, and text."""
    return int(
        hashlib.sha256((key + (text(value) if letter is None else letter + value)).encode()).hexdigest()[:16], 16
    )


def text(value):
    """A letter for the kind of an element, and its text."""
    if isinstance(value, int):
        return f"i{int(value)}"
    if isinstance(value, float):
        return f"f{value + 0.0!r}"
    if isinstance(value, datetime):
        seconds = value.isoformat(sep=" ").rstrip("0") if value.microsecond else value.isoformat(sep=" ")
        return f"t{seconds}"
    return f"d{value.isoformat()}" if isinstance(value, date) else f"s{value}"


def living(query, rows, unit, left, hits):
    """For each key who takes part there and, of a total, with what; units have room for so many keys."""
    asked = without(query.without, rows, unit) if getattr(query, "without", None) is not None else rows
    found = {}
    for row in asked:
        if row[unit] is not None:
            found.setdefault(row[unit], []).append(row)
    cells = [{} for _ in range(1 if query.keys is None else len(query.keys))]
    for owner, own in found.items():
        values = answer(query, own, unit)
        there = [place for place, value in enumerate(values if query.keys else [values]) if value]
        for place in there[: left.get(owner, hits)]:
            cells[place][owner] = values[place] if query.keys else values
    return cells
