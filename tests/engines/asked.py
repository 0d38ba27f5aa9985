"""What is asked of every engine: each form of a query, by neighbours and by what limits the part of a unit."""

from datetime import date, datetime

import chary
from chary.data import Predicate, count, histogram, mean, ordered, second_moments
from chary.data.queries.ordered import Elements
from tests.engines.cells import DATES, KEYS, MOMENTS

NEIGHBOURS = [("add_remove", "u"), ("replace", "v"), ("add_remove", None), ("replace", None)]
CONDITIONS = [
    None,
    None,
    "x > 0",
    "NOT (i > 0) OR k = 'a'",
    "s IS NULL OR b",
    "x <= i",
    "t < '2013-01-01 00:00:00.000001'",
    "year(t) > 1969 OR COALESCE(b, TRUE)",
    "clip(x, -9, 9) * 2 < i % 7",
]
# Columns with bounds and a grid on which a quotient of doubles is exact, or as near to a half as it is in fractions.
GRIDS = [
    ("x", (-2, 3), 1),
    ("x", ("-0.5", "1.5"), "0.5"),
    ("x", (0, 3), "1.5"),
    ("x", (1, 2), "1/3"),
    ("x", (-3, -1), 1),
    ("x", (-(2**53), 2**53), 1),
    ("i", (-2, 5), 1),
    ("i", (-(2**53), 2**53), 1),
    ("i", (0, 6), 2),
    ("i", (-2, 2), "0.1"),
    ("COALESCE(x, 1.5)", (-2, 3), 1),
    ("clip(i, -7, 7) * 3 - day(d)", (-2, 5), 1),
    ("CASE WHEN b THEN i % 7 ELSE hour(t) END", (0, 6), 2),
]
KEYED = [
    ("k", [key for key in KEYS if key is not None] + ["zz"]),
    ("k", ["b", "a"]),
    ("i", [7, -(2**63), 2**63 - 1, 3]),
    ("i", [3, 1, 0, 2, 7]),
    ("b", [True, False]),
    ("d", [day for day in DATES if day is not None]),
    ("t", [moment for moment in MOMENTS if moment is not None]),
    (["k", "b"], [("a", True), ("\uffee", False), ("a", False), ("b", True)]),
    (["i", "k"], [(7, "a"), (0, "a"), (7, "a "), (1, "")]),
    ("month(d)", range(1, 13)),
    ("i % 10", [9, 1, 7, 8]),
    ("date_trunc('week', d)", [date.min, date(1969, 12, 29), date(2000, 2, 28), date(2012, 12, 31)]),
    ("date_trunc('hour', t)", [datetime.min, datetime(2013, 1, 1), datetime(2000, 2, 29, 12), datetime(1970, 1, 1)]),
    ("CASE WHEN x > 0 THEN 'up' WHEN x <= 0 THEN 'down' ELSE k END", ["up", "down", "a", "", "\uffee"]),
    (["COALESCE(b, FALSE)", "weekday(t)"], [(True, 2), (False, 1), (False, 3), (False, 5), (True, 5)]),
]
BINS = [
    ("i", [-7, 0, 1, 2, 8]),
    ("i", [-(2**53), 0, 2**53]),
    ("x", [-2, "-0.24", 0, "0.26", "0.5", 100]),
    ("x", ["-0.5", 2**53]),
    ("i % 10", [0, 2, 8, 10]),
    ("clip(x, -1, 1) + 0.5", ["-0.5", 0, "0.5", 2]),
]
KEEPS = [{}, {"max_groups_per_unit": 1}, {"max_groups_per_unit": 2}, {"assumed_groups_per_unit": 3}]
ROWS_KEPT = [{"max_rows_per_unit": 1}, {"max_rows_per_unit": 3}, {"unit_total": (-2, 3)}]
OF_UNIT = [("spread", 1), ("spread", 3), ("random", 2), ("mean", 1), ("weighted", 4), ("weighted", 1)]


def named(limits):
    """Limits in words: the heads of rows."""
    return ", ".join(f"{name}={value}" for name, value in limits.items()) or "none"


class Picker:
    """Draws what is left open in a form; conditions are held to one world, or to all for None."""

    def __init__(self, drawn, world, neighbours):
        self.drawn, self.world, self.neighbours = drawn, world, neighbours

    @property
    def within(self):
        """The condition that a row is in the world."""
        return "w >= 0" if self.world is None else f"w = {self.world}"

    def where(self):
        condition = self.drawn.choice(CONDITIONS)
        return self.within + ("" if condition is None else f" AND ({condition})")

    def by(self, query, limits):
        columns, keys = self.drawn.choice(KEYED)
        return query.by(columns, keys, **limits)

    def grid(self):
        return self.drawn.choice(GRIDS)


def totals(pick, limits, of=chary.sum, **more):
    column, bounds, grid = pick.grid()
    if "unit_total" in limits:
        column, bounds, grid = pick.drawn.choice([place for place in GRIDS if place[2] in (1, "0.5", "0.1")])
    return of(column, bounds=bounds, grid=grid, where=pick.where(), **limits, **more)


def _moments(pick, limits):
    longest = pick.drawn.choice([None, "0.5", "1.2"])
    bounds = pick.drawn.choice([{"x": (0, 4)}, {"x": (-2, 3), "i": (-7, 7)}, {"i": (0, 3), "x": (0, 1), "n": (0, 50)}])
    bounds |= pick.drawn.choice([{}, {"weekday(d)": (1, 7)}])
    longest = None if longest == "1.2" and len(bounds) == 1 else longest
    return second_moments(bounds, steps=pick.drawn.choice([10, 1000]), longest=longest, where=pick.where(), **limits)


def _bins(pick, limits):
    column, bins = pick.drawn.choice(BINS)
    return histogram(column, bins=bins, where=pick.where(), outside=pick.drawn.choice(["ignore", "edges"]), **limits)


def _mean(pick, limits):
    return totals(pick, limits, mean)


def _stands_in(pick, limits):
    column, bounds, grid = pick.drawn.choice(
        [place for place in GRIDS if place[1][0] in (0, -2) and place[2] in (1, 2)]
    )
    return mean(column, bounds=bounds, grid=grid, where=pick.where(), missing=0, **limits)


def count_without(pick, limits):
    condition = pick.drawn.choice([each for each in CONDITIONS if each])
    return count(pick.where(), without=f"{pick.within} AND ({condition})")


# For each form: whether it is asked with a unit column, of rows that are units, or both; how it is limited; how it is
# made. A form with several parts is several queries.
ANSWERED = {
    "count": ("both", [{}], lambda pick, limits: [count(pick.where())]),
    "count by keys": ("unit", KEEPS, lambda pick, limits: [pick.by(count(pick.where()), limits)]),
    "count by keys of rows": ("row", [{}], lambda pick, limits: [pick.by(count(pick.where()), limits)]),
    "count without": ("both", [{}], lambda pick, limits: [count_without(pick, limits)]),
    "count without, by keys": ("unit", KEEPS[:2], lambda pick, limits: [pick.by(count_without(pick, limits), limits)]),
    "total": ("unit", ROWS_KEPT, lambda pick, limits: [totals(pick, limits)]),
    "total of rows": ("row", [{}], lambda pick, limits: [totals(pick, limits)]),
    "total by keys": (
        "unit",
        [rows | keep for rows in ROWS_KEPT for keep in KEEPS[:3]],
        lambda pick, limits: [by_keys(pick, limits)],
    ),
    "total by keys of rows": ("row", [{}], lambda pick, limits: [pick.by(totals(pick, limits), {})]),
    "mean": ("unit", ROWS_KEPT[:2], lambda pick, limits: [*_mean(pick, limits).parts(pick.neighbours)]),
    "mean of rows": ("row", [{}], lambda pick, limits: [*_mean(pick, limits).parts(pick.neighbours)]),
    "mean by keys": (
        "unit",
        [ROWS_KEPT[0], ROWS_KEPT[1] | KEEPS[1]],
        lambda pick, limits: [*by_keys(pick, limits, mean).parts(pick.neighbours)],
    ),
    "mean above a threshold": ("unit", ROWS_KEPT[:2], lambda pick, limits: [_shifted(pick, limits)]),
    "mean with a value for the missing": (
        "row",
        [{}],
        lambda pick, limits: [*_stands_in(pick, limits).parts(pick.neighbours)],
    ),
    "histogram": ("unit", KEEPS, lambda pick, limits: [_bins(pick, limits)]),
    "histogram of rows": ("row", [{}], lambda pick, limits: [_bins(pick, limits)]),
    "second moments": ("unit", ROWS_KEPT[:2], lambda pick, limits: [_moments(pick, limits)]),
    "second moments of rows": ("row", [{}], lambda pick, limits: [_moments(pick, limits)]),
}


def by_keys(pick, limits, of=chary.sum):
    keep = {name: value for name, value in limits.items() if name.endswith("max_groups_per_unit")}
    return pick.by(totals(pick, {name: value for name, value in limits.items() if name not in keep}, of), keep)


def _shifted(pick, limits):
    column, bounds, grid = pick.drawn.choice([place for place in GRIDS if place[2] == 1 and 2**53 not in place[1]])
    return mean(column, bounds=bounds, grid=grid, where=pick.where(), **limits).shifted(2)


def rows_of():
    """What the forms are: (form, relation, unit, limits)."""
    for form, (kind, limits, _) in ANSWERED.items():
        for neighbors, unit in NEIGHBOURS:
            if kind in ("both", "row" if unit is None else "unit"):
                yield from ((form, neighbors, unit, limit) for limit in limits)


def orders(pick, limits):
    """The values of a column in order."""
    column, bounds, step = pick.drawn.choice([place for place in GRIDS if 2**53 not in place[1]])
    return ordered(column, bounds=bounds, step=step, where=pick.where(), **limits)


def element_sets(pick, limits):
    """Elements: the units, or the values of a column."""
    column = pick.drawn.choice(["k", "i", "x", "s", "b", "d", "t"])
    return Elements(of=column, where=Predicate.of(pick.where()), **limits)
