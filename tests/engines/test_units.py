"""Units and elements of every type: two are never merged, one is never split, their words are the same everywhere."""

import math
import random
import uuid
from datetime import date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from chary.data import NeighborRelation, RowTable, count
from chary.data.queries.ordered import Elements
from chary.data.rows import Rooms
from chary.data.table import living
from chary.errors import CharyError, InvalidQuery, SchemaMismatch
from tests.engines import meanings
from tests.engines.cells import TEXTS

# Values as near to each other as the type has them; the same value may be there twice, as it is written differently.
KINDS = {
    "int64": (pa.int64(), [0, 1, -1, 2**63 - 1, 2**63 - 2, -(2**63), 2**53, 2**53 + 1]),
    "int8": (pa.int8(), [0, 1, -1, 127, -128]),
    "string": (pa.string(), [text for text in TEXTS if text is not None] + ["1", "01", "1.0", "NULL", "ａ", "a\u00a0"]),
    "double": (
        pa.float64(),
        [0.0, 0.1, 0.1 + 2**-56, 0.30000000000000004, 0.3, 1e300, 5e-324, -5e-324, math.inf, -math.inf, 2.0**53, 1e16],
    ),
    "float": (pa.float32(), [0.0, 0.10000000149011612, 0.10000000894069672, 1.5, 2.0**24]),
    "boolean": (pa.bool_(), [True, False]),
    "date": (pa.date32(), [date.min, date(1, 1, 2), date(1970, 1, 1), date(9999, 12, 31), date(2000, 2, 29)]),
    "timestamp": (
        pa.timestamp("us"),
        [datetime.min, datetime(1970, 1, 1), datetime(1970, 1, 1, 0, 0, 0, 1), datetime.max, datetime(2020, 5, 5, 1)],
    ),
    "decimal": (
        pa.decimal128(30, 3),
        [Decimal(text) for text in ("0", "1.000", "123456789012345678.001", "123456789012345678.002", "-0.001")],
    ),
    "uuid": (pa.uuid(), [uuid.UUID(int=number).bytes for number in (0, 1, 2**127, 2**128 - 1, 2**128 - 2)]),
    "uint64": (pa.uint64(), [0, 2**64 - 1, 2**64 - 2, 2**63]),
}
NOBODY = Rooms(pa.table({"unit": pa.array([], pa.int64()), "room": pa.array([], pa.int64())}), 3)
TYPES = pytest.mark.parametrize("name", KINDS)


def units_of(opened, name, times=3):
    """A table in which each value is a unit with so many rows, and two rows are nobody's."""
    kind, values = KINDS[name]
    column = pa.array([*values * times, None, None], pa.binary(16) if name == "uuid" else kind)
    column = pa.ExtensionArray.from_storage(pa.uuid(), column) if name == "uuid" else column
    frame = pa.table({"unit": column, "n": pa.array(range(len(column)), pa.int64())})
    try:
        return opened(frame, "add_remove", "unit")
    except SchemaMismatch as refused:
        pytest.skip(f"refused at the opening: {refused}")


@TYPES
def test_units_are_told_apart(opened, tally, name):
    table, size = units_of(opened, name), len(KINDS[name][1])
    assert table.prepare(count()).run() == size
    assert table.prepare(count("n >= 1")).run() == size
    assert table.prepare(count("n < 1")).run() == 1
    tally("units told apart", 3 * size, limit=name)


def refused(engine, name, ask):
    """Whether this is one of the engines on which doubles have no name that lasts, which must then say so."""
    if "doubles" not in engine.differs or name not in ("double", "float"):
        return False
    with pytest.raises(InvalidQuery):
        ask()
    return True


@TYPES
def test_units_are_met_again(engine, opened, tally, name):
    table, size = units_of(opened, name), len(KINDS[name][1])
    if refused(engine, name, lambda: living(table, count())):
        return
    plan = living(table, count())
    with plan.at(NOBODY) as units:
        assert units.answers().tolist() == [size]
        seen = units.of([0])["unit"]
    ids = seen.to_pylist()
    assert len(set(ids)) == size
    for gone in ids[:4]:
        left = pa.table({"unit": pa.array([gone], seen.type), "room": pa.array([0], pa.int64())})
        with plan.at(Rooms(left, 3)) as units:
            assert units.answers().tolist() == [size - 1]
            assert sorted(units.of([0])["unit"].to_pylist()) == sorted(set(ids) - {gone})
    tally("units met again", 5, limit=name)


# What identifies a unit is in ledgers, and must be the same in every engine.
MET = {
    "int64": KINDS["int64"][1],
    "string": KINDS["string"][1],
    "double": [repr(value) for value in KINDS["double"][1]],
    "boolean": ["true", "false"],
    "date": ["0001-01-01", "0001-01-02", "1970-01-01", "9999-12-31", "2000-02-29"],
    "timestamp": [
        "0001-01-01 00:00:00",
        "1970-01-01 00:00:00",
        "1970-01-01 00:00:00.000001",
        "9999-12-31 23:59:59.999999",
        "2020-05-05 01:00:00",
    ],
    "decimal": ["0.000", "1.000", "123456789012345678.001", "123456789012345678.002", "-0.001"],
    "uuid": [str(uuid.UUID(bytes=value)) for value in KINDS["uuid"][1]],
}


@pytest.mark.parametrize("name", MET)
def test_a_unit_has_the_same_name_in_every_engine(engine, opened, tally, name):
    table = units_of(opened, name, 1)
    if refused(engine, name, lambda: living(table, count())):
        return
    with living(table, count()).at(NOBODY) as units:
        units.answers()
        assert sorted(units.of([0])["unit"].to_pylist()) == sorted(MET[name])
    tally("units met again", len(MET[name]), limit=name)


# The first 64 bits of SHA-256 of such as `keyi0`: sketches go on with them for ever.
GOLDEN = {
    ("int64", 0): 1000576619352613255,
    ("int64", -(2**63)): 1132295833045469138,
    ("string", "\U0001f642"): 17360441136391206602,
    ("string", "a "): 7103239523133668355,
    ("double", 0.1): 5891220640200774270,
    ("double", 1e300): 224563054579474168,
    ("double", -math.inf): 16582705572025783500,
    ("boolean", True): 4550570968433030077,
    ("date", date(2000, 2, 29)): 5629701375231733992,
    ("timestamp", datetime(2020, 5, 5, 1)): 4996664515764562176,
    ("timestamp", datetime(1970, 1, 1, 0, 0, 0, 1)): 5293431201414677660,
}


def test_words_are_those_that_they_always_were():
    assert {case: meanings.word("key", case[1]) for case in GOLDEN} == GOLDEN


@TYPES
def test_elements_have_the_same_words_in_every_engine(engine, opened, tally, name):
    table, (_, values) = units_of(opened, name), KINDS[name]
    if refused(engine, name, lambda: table.elements(Elements())):
        return
    found = table.elements(Elements()).run().words("key")[0].tolist()
    assert len(set(found)) == len(found) == len(values)
    if name in ("decimal", "uuid", "uint64"):
        texts = [str(uuid.UUID(bytes=value)) if name == "uuid" else str(value) for value in values]
        texts = ["0.000" if text == "0" and name == "decimal" else text for text in texts]
        letter = "s" if name == "uuid" and "uuids" in engine.differs else "o"
        assert set(found) == {meanings.word("key", text, letter) for text in texts}
    else:
        assert set(found) == {meanings.word("key", value) for value in values}
    tally("words of elements", len(values), limit=name)


def test_doubles_have_the_shortest_texts(engine, opened, tally):
    """Whatever the engine prints: words are of the text that Python has for a double."""
    drawn = random.Random(1)
    doubles = [drawn.uniform(-1, 1) * 10.0 ** drawn.randint(-30, 30) for _ in range(300)]
    doubles += [float(f"1e{power}") for power in range(-20, 25)] + [123456789.0, 1234567.125, 1e22, 2.0**63]
    # Whole numbers between two doubles, which are read as the even one of them: its text may be that of the number.
    doubles += [
        float(2**power + more) for power in (54, 60, 70) for more in range(0, 2 ** (power - 48), 2 ** (power - 52))
    ]
    table = opened(pa.table({"x": doubles}), "add_remove")
    if refused(engine, "double", lambda: table.elements(Elements(of="x"))):
        return
    found = table.elements(Elements(of="x")).run().words("key")[0].tolist()
    assert set(found) == {meanings.word("key", value) for value in doubles}
    tally("words of elements", len(set(doubles)), limit="double")


def test_the_two_zeros_are_one_unit_and_nan_is_nobody(engine, opened):
    frame = pa.table({"unit": pa.array([0.0, -0.0, math.nan, None, 1.0], pa.float64(), from_pandas=False)})
    table = opened(frame, "add_remove", "unit")
    assert table.prepare(count()).run() == 2
    if refused(engine, "double", lambda: living(table, count())):
        return
    with living(table, count()).at(NOBODY) as units:
        assert units.answers().tolist() == [2]
        assert sorted(units.of([0])["unit"].to_pylist()) == ["0.0", "1.0"]
    words = {meanings.word("key", 0.0), meanings.word("key", 1.0)}
    assert set(table.elements(Elements()).run().words("key")[0].tolist()) == words


def test_numbers_beyond_64_bits_are_the_nearest_doubles_but_for_units(opened, tally):
    huge = pa.table({"n": pa.array([2**64 - 1, 2**63, 5], pa.uint64())})
    exact = pa.table({"n": pa.array([Decimal("0.1"), Decimal("12345678901234567.5"), None], pa.decimal128(30, 3))})
    for frame, above, most in ((huge, "n > 9.2e18", 2), (exact, "n = 0.1", 1)):
        try:
            table = opened(frame, "add_remove")
        except CharyError as refused:
            pytest.skip(f"refused at the opening: {refused}")
        assert table.schema == {"n": "float64"}
        assert table.prepare(count(above)).run() == most
    tally("types of columns", 2)


def test_units_that_cannot_be_met_again_are_refused(opened):
    with pytest.raises(CharyError):
        opened(pa.table({"unit": pa.array([b"x"], pa.binary()), "n": [1]}), "add_remove", "unit").held.check_units()


def test_whether_rows_are_the_same_dataset_does_not_follow_from_the_engine(opened):
    frame = pa.table({"unit": pa.array([1], pa.int64()), "n": pa.array([1.5]), "s": pa.array(["a"])})
    here = RowTable.open(frame, neighbor_relation=NeighborRelation("add_remove", "unit"))
    assert opened(frame, "add_remove", "unit").fingerprint() == here.fingerprint()
    here.close()
