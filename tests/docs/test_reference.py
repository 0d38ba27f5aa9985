"""The pages of the reference: their tables are those of the code, and what they say can be written runs."""

import re

import pyarrow as pa
import pytest

import chary
from chary import calls, errors
from chary.calls import Call
from tests import reference_tables
from tests.reference_tables import REFERENCE, TABLES, marked

ROWS = [line.split(" | ") for line in (REFERENCE / "sql.md").read_text().splitlines() if line.startswith("| ")]
WRITTEN = [
    found[1] for row in ROWS if (found := re.match(r"`([A-Za-z_.]+\(.*\))`", row[1])) and "session" not in row[1]
]


@pytest.mark.parametrize(("page", "name"), TABLES)
def test_a_table_is_that_of_the_code(page, name):
    """Write it anew by: python -m tests.reference_tables --write"""
    begin, end = marked(name)
    assert f"{begin}{TABLES[page, name]()}{end}" in (REFERENCE / page).read_text()


def test_every_error_has_a_section():
    sections = re.findall(r"^## (\w+)$", (REFERENCE / "errors.md").read_text(), re.MULTILINE)
    known = [kind.__name__ for kind in reference_tables.public_errors() if kind is not errors.CharyError]
    assert [name for name in sections if name in known] == known


@pytest.fixture(scope="module")
def session():
    visits = pa.table(
        {"patient": [1], "age": [30], "clinic": ["north"], "cost": [1.5], "day": pa.array([0], pa.date32())}
    )
    return chary.open(visits, privacy_unit="patient", budget=chary.Budget(epsilon=1, delta=1e-6), ledger=":memory:")


@pytest.mark.parametrize("written", WRITTEN)
def test_what_stands_for_sql_can_be_asked(session, written):
    names = {name: getattr(calls, name) for name in calls.__all__}
    asked = eval(written, names | {"chary": chary, "count": chary.count, "mean": chary.mean, "clinics": ["north"]})
    call = asked if isinstance(asked, Call) else calls.Release(asked, epsilon="0.1")
    assert session.quote(call).fits


def test_the_table_of_sql_was_found():
    assert len(WRITTEN) >= 12


def test_a_term_has_one_definition():
    terms = re.findall(r"^(\S.*)\n  \S", (REFERENCE / "glossary.md").read_text(), re.MULTILINE)
    assert len(terms) == len(set(terms)) >= 70


def test_each_task_is_shown_in_each_library():
    tasks = re.split(r"^## ", (REFERENCE / "migration.md").read_text(), flags=re.MULTILINE)[1:-1]
    libraries = [re.findall(r"^:::\{tab-item\} (.*)$", task, re.MULTILINE) for task in tasks]
    assert libraries == [["chary", "OpenDP", "Tumult Analytics", "SmartNoise SQL", "diffprivlib"]] * 9
