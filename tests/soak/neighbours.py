"""Two datasets that differ in one hostile unit, in every kind of source: all other units must read the same."""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random

import numpy as np

import chary
from chary.data import NeighborRelation, Query, RowTable, count
from chary.errors import CharyError
from tests.soak.figures import Figures, Until
from tests.soak.hostile import FORMS, NOTES, TYPES, UNITS, csv, line, odd, odd_lines, usual

UNIT = NeighborRelation("add_remove", "unit")
CONDITIONS = (
    "note = 'a'", "note = '03/05/2020'", "note IS NULL", "note LIKE '%x%'", "age >= 17", "age IS NULL", "cost > 0.25",
    "cost IS NULL", "day = DATE '2020-03-05'", "day > DATE '2000-01-01'", "day IS NULL", "at >= TIMESTAMP '2020-05-03'",
    "at IS NULL", "flag", "NOT flag", "flag IS NULL",
)  # fmt: skip
QUERIES = [
    count(),
    *[count(condition) for condition in CONDITIONS],
    chary.sum("cost", bounds=(-5, 20), max_rows_per_unit=2),
    chary.sum("age", bounds=(0, 100), max_rows_per_unit=1),
    count().by("note", [note for note in NOTES if note], max_groups_per_unit=2),
    count("age >= 17").by("unit", list(UNITS), max_groups_per_unit=1),
]
ASKED = 3
Answers = list[list[int]]
Opened = Callable[..., RowTable]


@dataclass(frozen=True)
class Case:
    """A dataset in two versions, and a batch that is appended to both, itself in two versions."""

    form: str
    first: tuple[object, object]
    batch: tuple[object, object] | None
    told: str
    queries: list[Query]


@dataclass(frozen=True)
class Seen:
    """All that is asked of a dataset, or the kind of error with which it was refused."""

    refused: str | None = None
    schema: tuple[tuple[str, str], ...] = ()
    others: tuple[str, ...] = ()
    answers: Answers = ()


def neighbours(until: Until, random: Random, opened: Opened = RowTable.open) -> Figures:
    """The attack; `opened` opens a table, to see that one whose reader depends on values is caught."""
    figures = Figures()
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        for _ in until:
            case = _case(Path(folder), random)
            figures.count("cases")
            figures.count(case.form)
            without, beside = (_seen(opened, case, version) for version in (0, 1))
            figures.count("refused", without.refused is not None)
            for problem in differences(without, beside, [] if without.refused else case.queries):
                figures.violation(f"{case.form}: {problem}; {case.told}"[:400], case.form + problem[:12])
    return figures


def _case(folder: Path, random: Random) -> Case:
    form = random.choice([*["csv"] * 6, *FORMS])
    appended, whose = random.random() < 0.5, random.random() < 0.5
    queries = random.sample(QUERIES, ASKED)
    make = partial(_lines, alone=not (appended and whose)) if form == "csv" else _rows
    first, batch = make(random), make(random)
    # The odd unit may come first, or with the batch, or with both.
    first_odd = first[1] if not appended or whose else first[0]
    told = _told(first, batch if appended else None)
    sources = [_source(form, first[0], folder / "first 0"), _source(form, first_odd, folder / "first 1")]
    if not appended:
        return Case(form, tuple(sources), None, told, queries)
    of_batch = "arrow" if form == "duckdb" else form
    more = [_source(of_batch, batch[version], folder / f"batch {version}") for version in (0, 1)]
    return Case(form, tuple(sources), tuple(more), told, queries)


def _source(form: str, content: list, path: Path) -> object:
    return csv(content, path) if form == "csv" else FORMS[form](content, path)


def _rows(random: Random) -> tuple[list, list]:
    """Rows without and with the odd unit's."""
    rows = [usual(random, unit) for unit in UNITS for _ in range(random.randint(0, 2))]
    return rows, _among(rows, [odd(random) for _ in range(random.randint(1, 4))], random)


def _lines(random: Random, *, alone: bool) -> tuple[list, list]:
    lines = [line(row) for row in _rows(random)[0]]
    return lines, _among(lines, odd_lines(random, alone=alone), random)


def _among(rows: list, more: list, random: Random) -> list:
    rows = list(rows)
    for row in more:
        rows.insert(random.randint(0, len(rows)), row)
    return rows


def _told(*pairs: tuple[list, list] | None) -> str:
    added = [[row for row in pair[1] if row not in pair[0]] for pair in pairs if pair is not None]
    return f"added {added}"


def _seen(opened: Opened, case: Case, version: int) -> Seen:
    options = {"columns": TYPES} if case.form == "csv" else {"table": "rows"} if case.form == "duckdb" else {}
    try:
        table = opened(case.first[version], neighbor_relation=UNIT, **options)
    except CharyError as error:
        return Seen(type(error).__name__)
    try:
        if case.batch is not None:
            table.append(case.batch[version])
        return Seen(None, tuple(table.schema.items()), _others(table), _answers(table, case.queries))
    except CharyError as error:
        return Seen(type(error).__name__)
    finally:
        table.close()


def _others(table: RowTable) -> tuple[str, ...]:
    """Every row of every other unit as chary reads it: whatever is asked of them follows from these."""
    rows = table.snapshot().run().to_pylist()
    return tuple(sorted(repr(row) for row in rows if row["unit"] in UNITS))


def _answers(table: RowTable, queries: Sequence[Query]) -> Answers:
    return [np.atleast_1d(table.prepare(query).run()).tolist() for query in queries]


def differences(without: Seen, beside: Seen, queries: Sequence[Query]) -> list[str]:
    """What one unit changes that it must not change."""
    if without.refused != beside.refused:
        return [f"read: {without.refused or 'fine'} without the unit, {beside.refused or 'fine'} with it"]
    problems = [] if without.schema == beside.schema else ["another schema"]
    if without.others != beside.others:
        lost, found = set(without.others) - set(beside.others), set(beside.others) - set(without.others)
        problems.append(f"rows of others read otherwise: {sorted(lost)[:1]} -> {sorted(found)[:1]}")
    for query, before, after in zip(queries, without.answers, beside.answers, strict=True):
        moves = [abs(a - b) for a, b in zip(before, after, strict=True)]
        if max(moves) > query.sensitivity(UNIT) or sum(moves) > query.l1(UNIT):
            problems.append(f"more than its sensitivity: {query.describe()} {before} -> {after}")
    return problems
