"""Streams of entries whose units have several entries each: opened under a budget that is promised to the units."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from chary import noise
from chary.data import CSV, EntryLimit, Neighbouring, Relation, RowTable
from chary.errors import InvalidParameter
from chary.filters import Budget
from chary.ledger import Ledger
from chary.numbers import Number
from chary.session.entry_budgets import entry_budget
from chary.session.opening import open_rows
from chary.session.session import Session


def open_stream(
    source: Any,
    *,
    entries_of: str,
    entries_per_unit: int,
    dataset: str,
    ledger: str | Path | Ledger,
    budget: Budget | None = None,
    filter: str | None = None,
    grain: Number | None = None,
    approximate_delta: Number = 0,
    analyst: str = "analyst",
    table: str | None = None,
    columns: dict[str, str] | None = None,
    csv: CSV | None = None,
    infer_types: bool = False,
    engine: Any = None,
    witness: str | Path | None = None,
    unsafe_noise: noise.Source | None = None,
    on_step: Callable[[str], None] | None = None,
) -> Session:
    """Open a stream of entries of which each value of the column `entries_of` has at most `entries_per_unit`.

    Guarantee: `budget` for units. Neighbours are streams of the same public size that differ in the entries of one
    unit, all of which may be replaced. The session asks as with privacy_unit=None and relation="replace", under the
    budget for one entry (see `entry_budget`), which is what `spent` and `statement` tell of. The limit is checked at
    the opening and at each append, and what breaks it is refused: such a refusal is no part of the guarantee.

    The other parameters are those of `open`; `grain` and `approximate_delta` are those of the budget for one entry.
    Errors: also `SchemaMismatch` for a unit with too many entries.

    >>> import pyarrow as pa
    >>> visits = pa.table({"patient": [1, 1, 2], "age": [70, 71, 30]})
    >>> whose = {"entries_of": "patient", "entries_per_unit": 2, "dataset": "visits"}
    >>> session = open_stream(visits, **whose, budget=Budget(epsilon=1), ledger=":memory:")
    >>> session.size, session.spine.filter.budget
    (3, Budget(epsilon=Fraction(1, 2), delta=Fraction(0, 1)))
    >>> session.append(pa.table({"patient": [1], "age": [72]}))
    Traceback (most recent call last):
    ...
    chary.errors.SchemaMismatch: some patient would have more than 2 entries; nothing was written
    """
    limit = EntryLimit(entries_of, entries_per_unit)
    if budget is not None and not isinstance(budget, Budget):
        raise InvalidParameter("budget must be a Budget, such as chary.Budget(epsilon=1, delta=1e-6)")
    entry = None if budget is None else entry_budget(budget, limit.most)
    each = Neighbouring(Relation.REPLACE, None)
    read: dict[str, Any] = {"columns": columns, "csv": csv, "infer_types": infer_types, "engine": engine}
    rows = RowTable.open(source, neighbouring=each, table=table, **read, limit=limit)
    return open_rows(
        rows,
        dataset=dataset,
        ledger=ledger,
        budget=entry,
        filter=filter,
        grain=grain,
        approximate_delta=approximate_delta,
        analyst=analyst,
        witness=witness,
        unsafe_noise=unsafe_noise,
        on_step=on_step,
    )
