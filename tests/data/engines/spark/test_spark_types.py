"""What Spark makes of each type of a Parquet file, and of texts."""

import math
from datetime import date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import chary
from chary.data import Predicate, count
from chary.data.engines.compiler import QueryPlace
from chary.data.engines.spark.dialect import SPARK, regular
from chary.errors import InvalidQuery, SchemaMismatch
from tests.data.oracle import like

pytestmark = pytest.mark.engines
NOON = datetime(2020, 7, 1, 12)
# Cells, the class that their column is of, and what is read.
KINDS = {
    "i8": (pa.array([1, None, -128], pa.int8()), "int64", [1, None, -128]),
    "u8": (pa.array([1, 255, None], pa.uint8()), "int64", [1, 255, None]),
    "u32": (pa.array([1, 2**32 - 1, 0], pa.uint32()), "int64", [1, 2**32 - 1, 0]),
    "u64": (pa.array([1, 2**64 - 1, 0], pa.uint64()), "float64", [1.0, 2.0**64, 0.0]),
    "f32": (pa.array([0.5, math.nan, -0.0], pa.float32(), from_pandas=False), "float64", [0.5, None, 0.0]),
    "f64": (pa.array([math.nan, math.inf, 5e-324], from_pandas=False), "float64", [None, math.inf, 5e-324]),
    "dec": (pa.array([Decimal("1.50"), None, Decimal("-2.25")], pa.decimal128(10, 2)), "float64", [1.5, None, -2.25]),
    "big": (pa.array([Decimal(10**30), None, Decimal(-2)], pa.decimal128(38, 0)), "float64", [1e30, None, -2.0]),
    "s": (pa.array(["a", "e\u0301 \U0001f642", ""]), "string", ["a", "e\u0301 \U0001f642", ""]),
    "cat": (pa.array(["x", "y", "x"]).dictionary_encode(), "string", ["x", "y", "x"]),
    "d": (pa.array([date.min, date.max, date(1582, 10, 10)]), "date", [date.min, date.max, date(1582, 10, 10)]),
    "t": (pa.array([datetime.min, datetime.max, NOON]), "timestamp", [datetime.min, datetime.max, NOON]),
    "ms": (pa.array([NOON, None, None], pa.timestamp("ms")), "timestamp", [NOON, None, None]),
    "tz": (pa.array([NOON, None, NOON], pa.timestamp("us", "Europe/Vienna")), "timestamp", [NOON, None, NOON]),
    "b": (pa.array([True, None, False]), "boolean", [True, None, False]),
    "A": (pa.array([1, 2, 3]), "int64", [1, 2, 3]),
    "a": (pa.array([4, 5, 6]), "int64", [4, 5, 6]),
    'odd `name"; --': (pa.array([7, 8, 9]), "int64", [7, 8, 9]),
}
OTHER = {
    "bin": (pa.array([b"\xff", b"", None]), "binary"),
    "list": (pa.array([[1], None, []]), "array<bigint>"),
    "struct": (pa.array([{"a": 1}, None, {"a": None}]), "struct<a:bigint>"),
}


def test_every_type_of_a_file(opened, tmp_path):
    path = tmp_path / "x{1}*[2]?.parquet"
    pq.write_table(pa.table({name: made[0] for name, made in (KINDS | OTHER).items()}), path)
    table = opened(path)
    assert table.schema == {name: made[1] for name, made in (KINDS | OTHER).items()}
    found = table.snapshot(list(KINDS)).run()
    assert {name: found[name].to_pylist() for name in KINDS} == {name: made[2] for name, made in KINDS.items()}
    asked = "A = 1 AND a = 4 AND d < '0001-01-02' AND t = '0001-01-01' AND cat = 'x' AND NOT list IS NULL AND tz > t"
    assert table.prepare(count(asked)).run() == 1
    # Both zeros are the same number, also in a long list.
    assert table.prepare(count("f32 IN (0.0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13)")).run() == 1
    with pytest.raises(InvalidQuery, match="only be tested with IS NULL"):
        table.prepare(count("bin = 'x'"))


def test_units_of_numbers_without_a_sign_are_not_merged(opened):
    huge = pa.table({"unit": pa.array([2**64 - 1, 2**64 - 2, 1], pa.uint64())})
    assert opened(huge, "unit").prepare(count()).run() == 3


def test_files_of_different_types_are_refused(opened, tmp_path):
    for name, kind in (("one", pa.int32()), ("other", pa.int64())):
        pq.write_table(pa.table({"n": pa.array([1], kind)}), tmp_path / f"{name}.parquet")
    with pytest.raises(SchemaMismatch, match="same columns of the same types"):
        opened(str(tmp_path / "*.parquet"))


WORDS = ["", "a", "A", "ab", "aab", "a\\b", "a.b", "%", "_", "a\nb", "\U0001f642x", "ss", "ß", "\\", "a]b", "$x", "é"]
PATTERNS = [
    "%",
    "_",
    "__",
    "a%",
    "%b",
    "%a%b",
    "a\\b",
    "a_b",
    "%_%",
    "\\",
    "a%%b",
    "%a%a%b",
    "\\%",
    ".%",
    "$_",
    "]",
    "",
]


def test_patterns_mean_what_they_mean_in_python(opened):
    """Every word with every pattern, with and without regard to case, in one query."""
    rows = opened(pa.table({"n": range(len(WORDS)), "s": WORDS}))
    asked = [(pattern, fold) for pattern in [*PATTERNS, *WORDS] for fold in (False, True)]
    place, conditions = QueryPlace("chary_rows", "", SPARK), {}
    table = place.table("chary_rows", rows.schema)
    for number, (pattern, fold) in enumerate(asked):
        shown = pattern.replace("'", "''")
        predicate = Predicate.parse(f"s {'ILIKE' if fold else 'LIKE'} '{shown}'")
        conditions[f"p{number}"] = predicate.expression(table, rows.schema, SPARK.like)
    found = rows.held.arrow(place.sql(table.select("n", **conditions)), (), "compared").sort_by("n")
    for number, (pattern, fold) in enumerate(asked):
        assert found[f"p{number}"].to_pylist() == [like(word, pattern, fold) for word in WORDS], (pattern, fold)


LETTERS = [
    *"sSkKiIσΣςßµμåÅ",
    "\u017f",
    "\u212a",
    "\u0130",
    "\u0131",
    "\u212b",
    "\U00010428",
    "\U00010400",
    "ǆ",
    "ǅ",
    "Ǆ",
    "ẞ",
]


def test_letters_are_folded_as_in_the_embedded_engine(opened):
    """One letter for one letter, in one query."""
    rows = opened(frame := pa.table({"n": range(len(LETTERS)), "s": LETTERS}))
    here = opened(frame, engine=None)
    place, conditions = QueryPlace("chary_rows", "", SPARK), {}
    table = place.table("chary_rows", rows.schema)
    for number, letter in enumerate(LETTERS):
        conditions[f"p{number}"] = Predicate.parse(f"s ILIKE '{letter}%'").expression(table, rows.schema, SPARK.like)
    found = rows.held.arrow(place.sql(table.select("n", **conditions)), (), "compared")
    for number, letter in enumerate(LETTERS):
        equal = here.prepare(count(f"s ILIKE '{letter}%'")).run()
        assert found[f"p{number}"].to_pylist().count(True) == equal, letter


def test_a_pattern_of_many_parts_takes_neither_time_nor_room(opened):
    rows = opened(pa.table({"s": ["a" * 5000]}))
    assert rows.prepare(count(f"s LIKE '{'%a' * 499}%b'")).run() == 0
    assert rows.prepare(count(f"s LIKE '{'%a' * 499}{'_' * 4000}'")).run() == 1
    with pytest.raises(InvalidQuery, match="at most 500"):
        regular("%a" * 501)


def test_no_text_is_more_than_a_text(opened):
    """Neither settings, nor escapes, nor quotes."""
    odd = ["${spark.sql.ansi.enabled}", "\\u0041", "\\101", "it''s", "`x`", '"', "\\'", "true"]
    table = opened(pa.table({"s": odd}))
    found = table.prepare(count().by("s", odd)).run().tolist()
    assert found == [1] * len(odd)
    listed = ", ".join("'" + text.replace("'", "''") + "'" for text in odd)
    assert table.prepare(count(f"s IN ({listed})")).run() == len(odd)


@pytest.mark.parametrize("kind", [pa.uint64(), pa.decimal128(20, 0)], ids=str)
def test_batches_merge_no_units(opened, kind):
    """Doubles merge neighbours above 2**53, and one unit out of two would move a sum by more than its part."""
    far = 2**63
    units = [pa.array([unit, unit + 1], pa.uint64()).cast(kind) for unit in (far, far + 2)]
    first, more = (pa.table({"u": each, "x": [-1, 1]}) for each in units)
    table = opened(first, unit="u")
    table.append(more)
    assert table.schema == {"u": "decimal(20,0)", "x": "int64"}
    assert table.prepare(count()).run() == 4
    assert table.prepare(chary.sum("x", bounds=(-1, 1), max_rows_per_unit=1)).run() == 0
    assert table.snapshot(["u"]).run()["u"].to_pylist() == [far, far + 1, far + 2, far + 3]
    with pytest.raises(SchemaMismatch, match=r"decimal\(20,0\) in the table but float64 in the rows"):
        table.append(pa.table({"u": [1.5], "x": [1]}))
