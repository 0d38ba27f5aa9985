"""Arrow tables as tables of a server for tests."""

import itertools

import pyarrow as pa

_numbers = itertools.count(1)
_TYPES = {
    pa.bool_(): "boolean",
    pa.int8(): "smallint",
    pa.int16(): "smallint",
    pa.int32(): "integer",
    pa.int64(): "bigint",
    pa.float32(): "real",
    pa.float64(): "double precision",
    pa.string(): "text",
    pa.date32(): "date",
    pa.timestamp("us"): "timestamp",
    pa.timestamp("us", "UTC"): "timestamptz",
    pa.uint64(): "numeric(20, 0)",
    pa.binary(): "bytea",
}


def stored(server, arrow, database="postgres", name=None):
    """The name of a new table with these rows."""
    name = name or f"rows_{next(_numbers)}"
    columns = ", ".join(f'"{quoted(field.name)}" {_type(field.type)}' for field in arrow.schema)
    with server.connect(database) as connection:
        connection.execute(f"CREATE TABLE {name} ({columns})")
        added(connection, name, arrow)
    return name


def added(connection, name, arrow):
    """Put rows into a table."""
    with connection.cursor().copy(f"COPY {name} FROM STDIN") as copy:
        for row in zip(*(column.to_pylist() for column in arrow.columns), strict=True):
            copy.write_row(row)


def quoted(name):
    """The inside of a quoted name."""
    return name.replace('"', '""')


def _type(kind):
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_decimal(kind):
        return f"numeric({kind.precision}, {kind.scale})"
    return "uuid" if kind == pa.uuid() else _TYPES[kind]
