"""Keys that fill their range, at the edges of a server's types: as the rows say, whichever way they are counted."""

from datetime import date

import pytest

import chary
from chary.data import count
from chary.data.engines import compiler as evaluation

LOW, HIGH = -(2**63), 2**63 - 1
KINDS = {
    "smallint": ([-(2**15), -1, 0, 0, 2**15 - 1], [[-2, -1, 0], [2**15 - 1, 2**15], [LOW], [HIGH, HIGH - 1]]),
    "bigint": ([LOW, LOW, LOW + 1, -1, 0, HIGH, HIGH], [[LOW + 1, LOW], [HIGH, HIGH - 1], [-1, 1, 0], [5, 9]]),
    "small": ([1, 2, 2], [[2, 3, 1]]),
    "date": (["-infinity", "0044-03-15 BC", "0001-01-01", "9999-12-31", "9999-12-31", "infinity"],
             [[date.min], [date.max], [date(9999, 12, 30), date.max]]),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_keys_are_counted_as_the_rows_say(kind, clinic, opened, monkeypatch):
    values, asked = KINDS[kind]
    written = ", ".join(f"('{value}'::{kind}, 3)" for value in values)
    clinic.run(
        "CREATE DOMAIN small AS smallint",
        f"CREATE TABLE visits (k {kind}, x integer)",
        f"INSERT INTO visits VALUES (NULL, 3), {written}",
    )
    clinic.grant("visits")
    table = opened()
    for edges in (evaluation.edges_of, lambda _: None):
        monkeypatch.setattr(evaluation, "edges_of", edges)
        for keys in asked:
            expected = [values.count(str(key) if kind == "date" else key) for key in keys]
            assert table.held.compile(count().by("k", keys)).run().tolist() == expected
            found = table.held.compile(chary.sum("x", bounds=(0, 5)).by("k", keys)).run().tolist()
            assert found == [3 * often for often in expected]
