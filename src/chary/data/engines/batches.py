"""Batches that arrive: whether their columns fit, how they are noted next to the rows, and limits of entries."""

from collections.abc import Callable, Collection, Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import Any, Final

from chary.data.columns import listed
from chary.data.rows import Batch, EntryLimit
from chary.errors import EngineError, SchemaMismatch

# Whether rows that arrive have the columns of a table, by name and class: the same in every engine.

_COLUMNS: Final = "the rows do not have the table's columns"


def unfit() -> SchemaMismatch:
    """The error for rows that cannot be read, in place of what the engine reports."""
    return SchemaMismatch("the rows do not fit the table's columns and types; nothing was written")


def undone() -> EngineError:
    """The error for rows that could not be written, in place of what the engine reports."""
    return EngineError("the engine failed while it wrote the rows; they were rolled back")


def check_names(schema: Mapping[str, str], found: Sequence[str], is_file: bool) -> None:
    """`SchemaMismatch` unless the names are those of the table; of a CSV with none of them no name is shown."""
    if is_file and not set(found) & set(schema):
        # What was taken for the header may be a row, and its values for names: they must not be shown.
        names = listed([repr(name) for name in schema])
        hint = "check that there is a header line and that the delimiter is the right one"
        raise SchemaMismatch(f"the file cannot be read as rows of {names}: {hint}; nothing was written")
    parts = {"missing": sorted(set(schema) - set(found)), "unknown": sorted(set(found) - set(schema))}
    if set(found) != set(schema):
        told = ", ".join(f"{what} {listed([*map(repr, some)])}" for what, some in parts.items() if some)
        raise SchemaMismatch(f"{_COLUMNS}: {told}; nothing was written")


# What may be added to what: the second is what 64 bits without a sign are to Spark.
_FITTING: Final = {("int64", "float64"), ("ubigint", "decimal(20,0)")}


def check_types(schema: Mapping[str, str], incoming: Mapping[str, str], untyped: Collection[str]) -> None:
    """`SchemaMismatch` unless types agree by class; integers may be added to floats, and `untyped` columns to any."""
    for name, kind in incoming.items():
        expected = schema[name]
        if name not in untyped and kind != expected and (kind, expected) not in _FITTING:
            differ = f"column {name!r} is {expected} in the table but {kind} in the rows"
            raise SchemaMismatch(f"{differ}; nothing was written")


# Looking for units with too many rows.


def check_entries(
    limit: EntryLimit, schema: Mapping[str, str], rows: str, unit: str, among: str | None, found: Callable[[str], Sized]
) -> None:
    """`SchemaMismatch`, naming nobody, if a unit (one that `among` selects, if given) is in too many rows.

    `unit` is its column in SQL, and `found` runs SQL.
    """
    if limit.of not in schema:
        raise SchemaMismatch(f"there is no column {limit.of!r} of the units of entries")
    asked = f"{unit} IS NOT NULL" if among is None else f"{unit} IN ({among})"
    # One row tells enough: which units they are, and how many, is nobody's business.
    crowded = f"SELECT 1 AS one FROM {rows} WHERE {asked} GROUP BY {unit} HAVING count(*) > {limit.most} LIMIT 1"
    if len(found(crowded)):
        raise SchemaMismatch(f"some {limit.of} would have more than {limit.most} entries; nothing was written")


# Which batches of rows were appended: kept beside the rows and written in their transaction.

# The name is in files and on servers: it must never change.
KEPT: Final = "chary_batches"
KEPT_COLUMNS: Final = "(of_table text, number bigint, request text, rows bigint, PRIMARY KEY (of_table, number))"
# Runs one statement with its parameters, and yields the rows of its answer.
Run = Callable[[str, Sequence[Any]], Sequence[Any]]


@dataclass(frozen=True)
class Notes:
    """The batches of the rows in `relation`, in a `table` of the same database that holds those of all its tables.

    So rows and their batch are in the database together or not at all, whatever happens. `name` is that of the rows
    there, and `ours` finds it.
    """

    table: str
    name: str
    relation: str
    ours: str = "of_table = $1"

    def after(self, run: Run, number: int) -> list[Batch]:
        """The batches above a number, in order of arrival."""
        return self._found(run, "number > $2 ORDER BY number", number)

    def asked(self, run: Run, request: str | None) -> Batch | None:
        """The batch that came under this idempotency key, if there is one."""
        found = [] if request is None else self._found(run, "request = $2", request)
        return found[0] if found else None

    def add(self, run: Run, request: str | None) -> Batch:
        """Remember the rows just written as the next batch, in the transaction that wrote them."""
        [(rows,)] = run(f"SELECT count(*) FROM {self.relation}", ())
        last = self._found(run, "number > $2 ORDER BY number DESC LIMIT 1", 0)
        batch = Batch(last[0].number + 1 if last else 1, request, rows)
        run(f"INSERT INTO {self.table} VALUES ($1, $2, $3, $4)", [self.name, batch.number, request, rows])
        return batch

    def readable(self, run: Run) -> bool:
        """Whether there is such a table, and it may be read."""
        raise NotImplementedError

    def _found(self, run: Run, condition: str, value: Any) -> list[Batch]:
        if not self.readable(run):
            return []
        sql = f"SELECT number, request, rows FROM {self.table} WHERE {self.ours} AND {condition}"
        return [Batch(*row) for row in run(sql, [self.name, value])]
