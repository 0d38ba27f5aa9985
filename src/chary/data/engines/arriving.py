"""Whether rows that arrive have the columns of a table, by name and class: the same in every engine."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from chary.data.columns import listed
from chary.errors import SchemaMismatch

_COLUMNS: Final = "the rows do not have the table's columns"


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


def check_types(schema: Mapping[str, str], incoming: Mapping[str, str], untyped: Collection[str]) -> None:
    """`SchemaMismatch` unless types agree by class; integers may be added to floats, and `untyped` columns to any."""
    for name, kind in incoming.items():
        expected = schema[name]
        if name not in untyped and kind != expected and (kind, expected) != ("int64", "float64"):
            differ = f"column {name!r} is {expected} in the table but {kind} in the rows"
            raise SchemaMismatch(f"{differ}; nothing was written")
