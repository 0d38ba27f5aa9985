"""Independent pure-Python meanings of queries and predicates, to compare the engine with."""

import math
import re
from datetime import date, datetime
from fractions import Fraction

from chary.data import Count, Sum
from chary.data.predicates.conditions import Every, Holds, IsNull, Like, Name, Not, OneOf, Some
from chary.data.queries.moments import RowCount


def missing(value):
    return value is None or (isinstance(value, float) and math.isnan(value))


def truth(node, row):
    """True, False or None (unknown)."""
    if isinstance(node, Not):
        inner = truth(node.condition, row)
        return None if inner is None else not inner
    if isinstance(node, (Every, Some)):
        parts = [truth(part, row) for part in node.conditions]
        decisive = isinstance(node, Some)
        if decisive in parts:
            return decisive
        return None if None in parts else not decisive
    value = row[node.column]
    return missing(value) if isinstance(node, IsNull) else atom(node, value, row)


def atom(node, value, row):
    if missing(value):
        return None
    if isinstance(node, Holds):
        return value
    if isinstance(node, Like):
        return like(value, node.pattern, node.fold)
    if isinstance(node, OneOf):
        return any(compare(value, "=", other) for other in node.values)
    other = row[node.other.name] if isinstance(node.other, Name) else node.other
    return None if missing(other) else compare(value, node.sign, other)


def like(value, pattern, fold):
    parts = {"%": "(.|\n)*", "_": "(.|\n)"}
    regex = "".join(parts.get(letter, re.escape(letter)) for letter in pattern)
    return re.fullmatch(regex, value, re.IGNORECASE if fold else 0) is not None


def compare(left, sign, right):
    left, right = aligned(left, right)
    return {
        "=": left == right,
        "<>": left != right,
        "<": left < right,
        "<=": left <= right,
        ">": left > right,
        ">=": left >= right,
    }[sign]


def aligned(left, right):
    if isinstance(left, datetime) and not isinstance(right, datetime):
        right = (
            datetime.fromisoformat(right) if isinstance(right, str) else datetime(right.year, right.month, right.day)
        )
    elif isinstance(left, date) and isinstance(right, str):
        right = date.fromisoformat(right)
    if isinstance(left, float) or isinstance(right, float):
        return float(left), float(right)
    return left, right


def answer(query, rows, unit):
    """The exact integer of an unkeyed query, or the list of a keyed one."""
    asked = query.of if isinstance(query, RowCount) else query
    cells = []
    for number, row in enumerate(rows):
        if unit is not None and missing(row[unit]):
            continue
        if asked.where is not None and truth(asked.where.condition, row) is not True:
            continue
        position = place(asked, row)
        if position is None or (isinstance(asked, Sum) and missing(row[asked.column])):
            continue
        value = steps(asked, row[asked.column]) if isinstance(asked, Sum) else 1
        cells.append((number if unit is None else row[unit], position, value))
    units = {}
    for owner, position, value in cells:
        units.setdefault(owner, []).append((position, value))
    result = [0] * (1 if asked.keying is None else len(asked.keying.domain))
    for owned in units.values():
        for position, value in of_unit(query, asked, owned, unit):
            result[position] += value
    return result[0] if asked.keying is None else result


def place(asked, row):
    if asked.keying is None:
        return 0
    key = tuple(row[name] for name in asked.keying.domain.columns)
    return asked.keys.index(key) if key in asked.keys else None


def steps(asked, value):
    low, high = asked.bounds
    clipped = low if value == -math.inf else high if value == math.inf else min(max(Fraction(value), low), high)
    scaled = clipped / asked.grid
    rounded = math.floor(abs(scaled) + Fraction(1, 2)) * (1 if scaled >= 0 else -1)
    return rounded - int(asked.center / asked.grid)


def of_unit(query, asked, owned, unit):
    if unit is not None and asked.keying is not None and asked.keying.max_groups_per_unit is not None:
        kept = sorted({position for position, _ in owned})[: asked.keying.max_groups_per_unit]
        owned = [cell for cell in owned if cell[0] in kept]
    if isinstance(asked, Count):
        return owned if unit is None else [(position, 1) for position in {position for position, _ in owned}]
    if asked.max_rows_per_unit is not None:
        owned = sorted(owned, key=lambda cell: (-abs(cell[1]), -cell[1], cell[0]))[: asked.max_rows_per_unit]
    if isinstance(query, RowCount):
        return [(position, 1) for position, _ in owned]
    if asked.unit_steps is None:
        return owned
    low, high = asked.unit_steps
    sums = {}
    for position, value in owned:
        sums[position] = sums.get(position, 0) + value
    return [(position, min(max(value, low), high)) for position, value in sums.items()]
