"""A growing table for continual counts and schedules."""

from functools import partial

import polars as pl

from chary import count
from tests.session.kit import PUBLIC, USUAL

WARDS = count().by("ward", [0, 1, 2])
EXACT = [
    {"epsilon": 3 * 10**5, "mechanism": "tree"},
    {"rho": 10**5, "mechanism": "tree"},
    {"rho": 10**5, "mechanism": "root"},
]
STARVED = [{"epsilon": "0.4"}, {"rho": "0.001", "mechanism": "tree"}, {"rho": "0.001"}]


def rows(first, last):
    """Rows of three wards in turn."""
    return pl.DataFrame({"ward": [i % 3 for i in range(first, last)]}, schema={"ward": pl.Int64})


def exactly(size):
    """How many of so many rows are of each ward."""
    return tuple(len(range(ward, size, 3)) for ward in range(3))


def stream(opened, table=100, **options):
    """A session on these rows, or on so many."""
    given = PUBLIC | {"budget": USUAL, "dataset": "wards"} | options
    return opened(rows(0, table) if isinstance(table, int) else table, **given)


def streams(opened):
    """What opens such sessions; `opened` is the fixture."""
    return partial(stream, opened)
