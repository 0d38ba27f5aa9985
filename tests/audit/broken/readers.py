"""A reader of CSV files whose way of reading follows from the values: one row more changes all others."""

import csv

import pyarrow as pa


def sniffed(path):
    """A table of a file, with the delimiter that most of its characters speak for."""
    text = path.read_text()
    delimiter = max(",;", key=text.count)
    rows = list(csv.DictReader(text.splitlines(), delimiter=delimiter, restval=""))
    return pa.table({name: pa.array([row[name] for row in rows], pa.string()) for name in ("unit", "ill")})
