"""Independent pure-Python meanings of queries and predicates, to compare the engine with."""

import hashlib
import math
import re
from datetime import date, datetime, timedelta
from fractions import Fraction

from chary.data import Count, Sum
from chary.data.predicates.conditions import Every, Holds, IsNull, Like, Name, Not, OneOf, Some
from chary.data.predicates.predicate import derived
from chary.data.predicates.terms import Case, Clipped, Coalesced, Constant, Operation, TimePart, Truncated
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
    value = cell(row, node.column)
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
    other = valued(node.other, row) if hasattr(node.other, "typed") else node.other
    return None if missing(other) else compare(value, node.sign, other)


def cell(row, column):
    """The value of a column, or of a derived one."""
    if not isinstance(column, str):
        return valued(column, row)
    return row[column] if column in row else valued(derived(column, {}), row)


def valued(term, row):
    """What a derived column is of a row; None for NULL."""
    match term:
        case Name(name=name):
            return None if missing(row[name]) else row[name]
        case Constant(value=value):
            return value
        case TimePart(part=part, of=of):
            moment = valued(of, row)
            return None if moment is None else moment.isoweekday() if part == "weekday" else getattr(moment, part)
        case Truncated(unit=unit, of=of):
            moment = valued(of, row)
            return None if moment is None else began(unit, moment)
        case Clipped(of=of, low=low, high=high):
            value = valued(of, row)
            return None if value is None else max(low, min(high, value))
        case Operation():
            return operated(term.sign, valued(term.left, row), valued(term.right, row))
        case Coalesced(first=first, second=second):
            value = valued(first, row)
            return valued(second, row) if value is None else value
        case Case(cases=cases, otherwise=otherwise):
            met = next((value for condition, value in cases if truth(condition, row) is True), otherwise)
            return None if met is None else valued(met, row)
    raise AssertionError(term)


def began(unit, moment):
    """The year, quarter, ... of a moment as its first moment; of a date a date."""
    timed, day = isinstance(moment, datetime), date(moment.year, moment.month, moment.day)
    if unit == "hour":
        return moment.replace(minute=0, second=0, microsecond=0)
    first = {
        "year": lambda: day.replace(month=1, day=1),
        "quarter": lambda: day.replace(month=(day.month - 1) // 3 * 3 + 1, day=1),
        "month": lambda: day.replace(day=1),
        "week": lambda: day - timedelta(days=day.weekday()),
        "day": lambda: day,
    }[unit]()
    return datetime(first.year, first.month, first.day) if timed else first


def operated(sign, left, right):
    if left is None or right is None:
        return None
    if isinstance(left, float) or isinstance(right, float):
        left, right = float(left), float(right)
        if sign == "*":
            left, right = (0.0 if abs(side) < 1e-150 else side for side in (left, right))
    return {"+": lambda: left + right, "-": lambda: left - right, "*": lambda: left * right, "%": lambda: left % right}[
        sign
    ]()


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
        if position is None or (isinstance(asked, Sum) and missing(cell(row, asked.column))):
            continue
        value = steps(asked, cell(row, asked.column)) if isinstance(asked, Sum) else 1
        cells.append((number if unit is None else row[unit], position, value))
    units = {}
    for owner, position, value in cells:
        units.setdefault(owner, []).append((position, value))
    result = [0] * (1 if asked.keying is None else len(asked.keying.domain))
    for owner, owned in units.items():
        for position, value in of_unit(query, asked, owned, unit, owner):
            result[position] += value
    return result[0] if asked.keying is None else result


def place(asked, row):
    if asked.keying is None:
        return 0
    key = tuple(cell(row, name) for name in asked.keying.domain.columns)
    return asked.keys.index(key) if key in asked.keys else None


def steps(asked, value):
    low, high = asked.bounds
    clipped = low if value == -math.inf else high if value == math.inf else min(max(Fraction(value), low), high)
    scaled = clipped / asked.grid
    rounded = math.floor(abs(scaled) + Fraction(1, 2)) * (1 if scaled >= 0 else -1)
    return rounded - int(asked.center / asked.grid)


def evenly(rows, owner, kept):
    """Some of the rows of a unit, which are in order: each rank as likely as any other, by a hash of whose they are."""
    # Of a unit in one of several blocks, the block comes behind.
    name = owner[0] if isinstance(owner, tuple) else owner
    size, start = len(rows), int(hashlib.sha256(str(name).encode()).hexdigest()[:8], 16)
    ends = [(2 * kept * rank + start % (2 * size)) // (2 * size) for rank in range(size + 1)]
    return rows if size <= kept else [row for row, one, next in zip(rows, ends, ends[1:], strict=False) if next > one]


def of_unit(query, asked, owned, unit, owner):
    if unit is not None and asked.keying is not None and asked.keying.max_groups_per_unit is not None:
        kept = sorted({position for position, _ in owned})[: asked.keying.max_groups_per_unit]
        owned = [cell for cell in owned if cell[0] in kept]
    if isinstance(asked, Count):
        return owned if unit is None else [(position, 1) for position in {position for position, _ in owned}]
    if asked.max_rows_per_unit is not None:
        if asked.even:
            owned = evenly(sorted(owned), owner, asked.max_rows_per_unit)
        else:
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
