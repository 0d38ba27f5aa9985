"""Real tables in the order in which they arrive, the universes in which they are asked about, and an analyst."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from chary import Bins, Universe
from chary.demo.panel import people

ADULT_EDGES = {
    "age": [17, 20, 25, 30, 35, 40, 45, 50, 55, 60, 65, 91],
    "education_num": [1, 6, 9, 10, 11, 13, 14, 17],
    "hours_per_week": [1, 20, 35, 40, 41, 50, 60, 100],
}
ADULT_VALUES = {
    "workclass": [
        "Private",
        "Self-emp-not-inc",
        "Local-gov",
        "State-gov",
        "Federal-gov",
        "Self-emp-inc",
        "Without-pay",
        "?",
    ],
    "relationship": ["Husband", "Not-in-family", "Own-child", "Unmarried", "Wife", "Other-relative"],
    "sex": ["Male", "Female"],
    "income": ["<=50K", ">50K"],
}
MORE_EDGES = {"capital_gain": [0, 1, 100_000]}
MORE_VALUES = {"race": ["White", "Black", "Asian-Pac-Islander", "Amer-Indian-Eskimo", "Other"]}
RANDHIE_EDGES = {
    "mdvis": [0, 1, 2, 3, 5, 8, 12, 20, 78],
    "xage": [0, 5, 12, 18, 25, 35, 45, 55, 70],
    "meddol": [0, 1, 20, 50, 100, 200, 500, 40_000],
}
RANDHIE_VALUES = {"coins": [0, 25, 50, 95, 100], "female": [0, 1], "site": [1, 2, 3, 4, 5, 6]}


@dataclass(frozen=True)
class GrowingTable:
    """Rows in order of arrival, how many there are each time that questions are asked, and the public cells."""

    name: str
    rows: pl.DataFrame
    sizes: tuple[int, ...]
    edges: dict[str, list[int]]
    values: dict[str, list]

    @property
    def universe(self) -> Universe:
        """Where every row has a cell, so none is kept for missing values."""
        return Universe({name: Bins(edges) for name, edges in self.edges.items()} | self.values, missing=False)

    @property
    def columns(self) -> list[str]:
        """All that can be asked about."""
        return [*self.edges, *self.values]

    def condition(self, column: str, random: np.random.Generator) -> str:
        """A range of a column of numbers, or some values of another."""
        if column in self.edges:
            low, high = sorted(random.choice(self.edges[column], 2, replace=False).tolist())
            return f"{column} >= {low} AND {column} < {high}"
        values = self.values[column]
        picked = random.choice(values, size=random.integers(1, len(values)), replace=False).tolist()
        return f"{column} IN ({', '.join(map(repr, picked))})"

    def share(self, size: int, where: str) -> float:
        """The true answer at that size; shown only because these data are public."""
        return self.rows[:size].filter(pl.sql_expr(where)).height / size

    def workload(self, count: int, seed: int) -> list[str]:
        """So many ranges and conjunctions of up to three columns, drawn in advance."""
        random = np.random.default_rng(seed)
        made = dict.fromkeys(
            " AND ".join(self.condition(str(column), random) for column in random.choice(self.columns, width, False))
            for width in random.integers(1, 4, count).tolist()
        )
        return list(made)


class Analyst:
    """Goes deeper where the last answer was large: one more condition, on another column; otherwise starts afresh."""

    def __init__(self, table: GrowingTable, seed: int) -> None:
        self._table, self._random, self._asked = table, np.random.default_rng(seed), dict[str, str]()

    def next(self, last: float) -> str:
        """The next condition, after that answer."""
        free = [column for column in self._table.columns if column not in self._asked]
        if last < 0.1 or not free or len(self._asked) >= 3:
            self._asked, free = {}, self._table.columns
        column = str(self._random.choice(free))
        self._asked[column] = self._table.condition(column, self._random)
        return " AND ".join(self._asked.values())


def adult(path: Path, *, times: int, more: bool) -> GrowingTable:
    """All 48,842 people in random order, 5,000 of them at first; about 100,000 cells, or with `more` a million."""
    edges, values = (ADULT_EDGES | MORE_EDGES, ADULT_VALUES | MORE_VALUES) if more else (ADULT_EDGES, ADULT_VALUES)
    rows = pl.read_csv(path).select(*edges, *values)
    order = np.random.default_rng(0).permutation(rows.height).tolist()
    sizes = np.linspace(5000, rows.height, times).astype(int).tolist()
    return GrowingTable("Adult", rows[order], tuple(sizes), edges, values)


def drawn(path: Path, *, rows: int, times: int) -> GrowingTable:
    """So many rows drawn from the Adult table with replacement, half of them there at first."""
    table = adult(path, times=times, more=False)
    sizes = np.linspace(rows // 2, rows, times).astype(int).tolist()
    many = table.rows.sample(rows, with_replacement=True, seed=0)
    return GrowingTable("Drawn from Adult", many, tuple(sizes), table.edges, table.values)


def randhie() -> GrowingTable:
    """20,190 person-years of the RAND Health Insurance Experiment, year after year."""
    rows = pl.from_arrow(people())
    sizes = rows.group_by("year").len().sort("year")["len"].cum_sum().to_list()
    arrived = rows.sort("year", maintain_order=True).select(*RANDHIE_EDGES, *RANDHIE_VALUES)
    return GrowingTable("RAND", arrived, tuple(sizes), RANDHIE_EDGES, RANDHIE_VALUES)
