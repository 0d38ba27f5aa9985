"""How a session is opened: its data, its ledger, its budget and its name."""

import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path
from typing import Any

from chary import noise
from chary.accounting import Event
from chary.core.transaction import Spine
from chary.core.versions import Follower
from chary.data import CSV, Neighbouring, Relation, Rows, RowTable, Series
from chary.errors import InvalidParameter
from chary.filters import Budget, Filter, Listing, restore
from chary.ledger import Ledger, Terms
from chary.numbers import Number
from chary.session.budget_choice import BudgetChoice
from chary.session.late import late_ledger
from chary.session.naming import chosen, usual_ledger, usual_name
from chary.session.owner_warnings import warn_of_cells, warn_of_ledgers
from chary.session.place import IN_MEMORY, Place
from chary.session.race_repair import repair_races
from chary.session.reading import check_types, read_as
from chary.session.session import Session
from chary.session.unasked import advising


def open(
    source: Any,
    *,
    privacy_unit: str | None,
    ledger: str | Path | Ledger | None = None,
    budget: Budget | None = None,
    relation: Relation | str = Relation.ADD_REMOVE,
    filter: str | None = None,
    grain: Number | None = None,
    approximate_delta: Number = 0,
    menu: Sequence[Event | Listing] | None = None,
    dataset: str | None = None,
    analyst: str = "analyst",
    table: str | None = None,
    unpivot: tuple[str, str] | None = None,
    columns: dict[str, str] | None = None,
    csv: CSV | None = None,
    infer_types: bool = False,
    engine: Any = None,
    witness: str | Path | None = None,
    unsafe_noise: noise.Source | None = None,
    on_step: Callable[[str], None] | None = None,
) -> Session:
    """Open (or reopen) a dataset under the budget that its ledger keeps.

    - `source`: a CSV or Parquet file (or a list of them), a folder or pattern of Parquet files ("visits/",
      "visits/2026-*.parquet"; those that are there now), a DuckDB file with `table=`, a pandas, Polars or Arrow table,
      or the URL of a PostgreSQL server, `postgresql://reader@host/database`, with `table="schema.name"`.
    - `privacy_unit`: the column that names the protected unit, or None when each row is a unit of its own.
    - `relation`: "add/remove" one unit (the default for sessions) or "replace" one.
    - `ledger`: a file, kept for ever and shared by all who ask this dataset, or the URL of a schema that many machines
      share, `postgresql://user@host/database?schema=visits`; ":memory:" for throwaway sessions. Of a file or a folder
      it is beside it by default, `visits.csv.ledger`, for the command and the service too.
    - `budget`: needed the first time; later it is read from the ledger, and a different one raises `LedgerMismatch`.
      The first charge (or share, or append) records it for ever; quotes and refused calls leave no ledger behind.
    - `filter`: "renyi" (mixed calls, the default when the budget has a delta), "exact" (targets of `grain`, or up to
      twice that; most hits), "pure" (delta 0). `grain`: the usual epsilon of a call, for which a new filter is tuned.
    - `approximate_delta`: the part of delta set aside for (epsilon, delta)-DP events.
    - `menu`: what an exact filter prices, by its own laws, beside releases: events such as `[Targeted("0.02"),
      BoundaryCall("0.02"), BestOf(2)]`; then `grain` is only how fine the curve is worked out (see
      `ExactFilter.of_events`).
    - `witness`: a file on another disk that is told the ledger's head before any answer; then older copies are refused.
    - `dataset`: its name in the ledger, the file's stem by default; a second dataset in a ledger has a budget of its
      own and must be named. `analyst`: who asks, for caps per analyst.
    - `columns`: types of the columns of a CSV (or of object columns of pandas), as in `{"age": "BIGINT"}`; all others
      are text. `csv`: how it is written, see `CSV`; appended batches are read alike, and reopening must say the same.

    - `engine`: where the rows are asked, DuckDB in this process by default; "spark", "local[2]", "spark://host:7077",
      "sc://host" or an open SparkSession (then also for a folder or a pattern of Parquet files). A SparkSession as the
      `source` needs `table="catalog.schema.name"`. See docs/spark.md.

    Assumptions: the schema is public, as are names, keys and bounds. `infer_types=True` finds the types of a CSV in its
    values, which makes them public; the statement says so. `unsafe_noise` replaces the operating system's randomness
    and voids every guarantee; it is for tests.

    `OwnerWarning`s are for who opens the rows and for nobody who asks: of a new dataset, how many cells of a column are
    not of the type declared (see `check`); of any, that another ledger lies beside it which keeps a budget of a dataset
    of this name.

    >>> import pyarrow as pa
    >>> rows = pa.table({"patient": [1, 2, 3], "age": [70, 80, 20]})
    >>> session = open(rows, privacy_unit="patient", budget=Budget(epsilon=1, delta=1e-6), ledger=":memory:")
    >>> session.spent.share
    0.0
    """
    neighbouring = Neighbouring(relation, privacy_unit)
    choice = BudgetChoice(budget, filter, grain, approximate_delta, menu)
    place = Place(usual_ledger(source) if ledger is None else ledger, witness)
    rows = RowTable.open(
        source,
        neighbouring=neighbouring,
        table=table,
        unpivot=unpivot,
        columns=columns,
        csv=csv,
        infer_types=infer_types,
        engine=engine,
    )
    names = dataset, usual_name(source, table)
    return _session(rows, choice, place, names, analyst, unsafe_noise, on_step, source)


def open_series(
    source: Any,
    *,
    column: str,
    sensitivity: int,
    ledger: str | Path | Ledger | None = None,
    budget: Budget | None = None,
    filter: str | None = None,
    grain: Number | None = None,
    approximate_delta: Number = 0,
    order_by: str | None = None,
    labels: str | None = None,
    csv: CSV | None = None,
    table: str | None = None,
    dataset: str | None = None,
    analyst: str = "analyst",
    witness: str | Path | None = None,
    unsafe_noise: noise.Source | None = None,
    on_step: Callable[[str], None] | None = None,
) -> Session:
    """Open a series of counts that were aggregated elsewhere: one value a row, in order; the number of rows is public.

    The `table` of a server needs `order_by`, a column that tells all rows apart: it has no order of its own.

    Guarantee as for `open`, where neighbours are series whose every value differs by at most `sensitivity`: what one
    unit can change must be known to whoever made the series. `approximate_delta` is as for `open`. Ask it with
    `session.watch(session.series(), ...)`.
    """
    choice = BudgetChoice(budget, filter, grain, approximate_delta)
    place = Place(usual_ledger(source) if ledger is None else ledger, witness)
    read: dict[str, Any] = {"order_by": order_by, "labels": labels, "csv": csv, "table": table}
    rows = Series.open(source, column=column, sensitivity=sensitivity, **read)
    return _session(
        rows,
        choice,
        place,
        (dataset, usual_name(source, column if table is None else f"{table}.{column}")),
        analyst,
        unsafe_noise,
        on_step,
        source,
    )


def open_rows(
    rows: Rows,
    *,
    dataset: str,
    ledger: str | Path | Ledger,
    budget: Budget | None = None,
    filter: str | None = None,
    grain: Number | None = None,
    approximate_delta: Number = 0,
    menu: Sequence[Event | Listing] | None = None,
    analyst: str = "analyst",
    witness: str | Path | None = None,
    unsafe_noise: noise.Source | None = None,
    on_step: Callable[[str], None] | None = None,
) -> Session:
    """Open rows that are no table, such as `data.Ballots`, under the budget that the ledger keeps for `dataset`.

    Guarantee as for `open`, between the neighbours that `rows` declares. The session owns the rows and closes them,
    also when it cannot be opened. Errors: `InvalidParameter` for rows that cannot be asked or a dataset without a name.

    >>> from chary.data import Ballots
    >>> votes = Ballots(lambda question: [7, 3], ["cat", "dog"], voter="teacher")
    >>> session = open_rows(votes, dataset="votes", ledger=":memory:", budget=Budget(epsilon=1, delta=1e-6))
    >>> session.spent.share
    0.0
    """
    if not all(hasattr(rows, needed) for needed in ("fingerprint", "prepare", "snapshot")):
        raise InvalidParameter("open rows that can be asked, such as chary.data.Ballots; open tables by chary.open")
    with ExitStack() as undo:
        undo.callback(rows.close)
        if not isinstance(dataset, str) or not dataset:
            raise InvalidParameter("dataset must be a name, such as dataset='votes'")
        choice = BudgetChoice(budget, filter, grain, approximate_delta, menu)
        undo.pop_all()
    return _session(rows, choice, Place(ledger, witness), (dataset, dataset), analyst, unsafe_noise, on_step)


def _session(
    rows: Rows,
    choice: BudgetChoice,
    place: Place,
    names: tuple[str | None, str],
    analyst: str,
    source: noise.Source | None,
    on_step: Callable[[str], None] | None,
    opened: Any = None,
) -> Session:
    with ExitStack() as undo:
        undo.callback(rows.close)
        found = None if place.missing else place.open()
        if found is not None and found is not place.ledger:
            undo.callback(found.close)
        if (dataset := chosen(known := _known(found), *names)) not in known:
            warn_of_cells(rows)
        warn_of_ledgers(opened, place, dataset)
        ledger, filter_ = _opened(found, rows, choice, names, place)
        undo.pop_all()
    return Session(Spine(rows, filter_, ledger, dataset, analyst, source or noise.OperatingSystem(), on_step or _quiet))


def _opened(
    found: Ledger | None, rows: Rows, choice: BudgetChoice, names: tuple[str | None, str], place: Place
) -> tuple[Ledger, Filter]:
    """The ledger and the filter of the dataset, new or held, once the ledger agrees with them.

    A new dataset is recorded with its first charge; in a ledger that nobody else can see, at once.
    """
    known = _known(found)
    dataset = chosen(known, *names)
    filter_ = held_filter(known[dataset]) if dataset in known else choice.make()

    def enter(ledger: Ledger) -> None:
        with advising(ledger, dataset):
            held = _known(ledger)
            chosen(held, *names)
            choice.agrees_with(held_filter(held[dataset]) if dataset in held else filter_)
            if dataset in held:
                check_types(rows, held[dataset])
            ledger.open(_terms(rows, filter_, dataset, held.get(dataset)))

    follow = Follower(dataset, rows).follow
    if found is not None and (dataset in known or str(place.ledger) == IN_MEMORY):
        enter(found)
        follow(found)
        repair_races(found, filter_, dataset)
        return found, filter_

    def look() -> Ledger | None:
        return found or (None if place.missing else place.open())

    return late_ledger(dataset, look, place.open, enter, follow), filter_


def _known(ledger: Ledger | None) -> dict[str, Terms]:
    return {} if ledger is None else {terms.name: terms for terms in ledger.datasets()}


def _quiet(step: str) -> None:
    """Nobody wants to know."""


def _terms(rows: Rows, filter_: Filter, dataset: str, held: Terms | None) -> Terms:
    epsilon, delta = filter_.budget.exact
    conditions = {
        "relation": str(rows.neighbouring.relation),
        "unit": rows.neighbouring.unit,
        "epsilon": str(epsilon),
        "delta": str(delta),
        "filter": filter_.body(),
        **read_as(rows, held),
    }
    return Terms(dataset, rows.fingerprint(), json.dumps(conditions), filter_.capacity, filter_.basic_capacity)


def held_filter(terms: Terms) -> Filter:
    """The filter that a dataset of a ledger was opened with."""
    conditions = json.loads(terms.conditions)
    budget = Budget(Fraction(conditions["epsilon"]), Fraction(conditions["delta"]))
    return restore(budget, conditions["filter"])
