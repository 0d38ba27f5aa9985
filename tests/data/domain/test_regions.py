"""Conditions on a universe: cells and counts against the engine on coded rows, one row for each cell."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chary import Bins, InvalidParameter, InvalidQuery, Universe, count
from chary.data import NeighborRelation, Predicate, RowTable
from chary.data.universe.regions import located, matrix
from chary.mechanisms.weights import PublicHistogram

ROW = NeighborRelation("replace", None)
SEXES = ["f", "m", "x"]
UNIVERSE = Universe({"age": Bins([0, 10, 20, 50]), "cost": Bins([0, 0.5, 2], "edges"), "sex": SEXES, "smoker": [True]})
SCHEMA = {"age": "int64", "cost": "float64", "sex": "string", "smoker": "boolean"}
# One value in each cell, then some more; None and what is not declared are the same cell.
AGES = [0, 19, 20, None, 9, 10, 49, -1, 50, 99]
COSTS = [0.25, 0.5, None, -3.0, 7.0, 0.499]
GENDERS = ["f", "m", "x", None, "y", ""]
SMOKERS = [True, None, False]


def table(rows):
    columns = list(zip(*rows, strict=True))
    return RowTable.open(
        pd.DataFrame(
            {
                "age": pd.array(columns[0], dtype="Int64"),
                "cost": pd.array(columns[1], dtype="Float64"),
                "sex": pd.array(columns[2], dtype="string"),
                "smoker": pd.array(columns[3], dtype="boolean"),
                "cell": range(len(rows)),
            }
        ),
        neighbor_relation=ROW,
    )


def coded(row):
    age, cost, sex, smoker = row
    inside = age is not None and 0 <= age < 50
    return (age if inside else None, cost, sex if sex in SEXES else None, True if smoker else None)


ATOMS = [
    "age >= 10",
    "age > 19",
    "age < 20",
    "age <= 9",
    "age >= 9.5",
    "age IS NULL",
    "cost < 0.5",
    "cost >= 0.5",
    "cost IS NOT NULL",
    "sex = 'f'",
    "sex <> 'm'",
    "sex IN ('x', 'f')",
    "sex > 'f'",
    "sex IS NULL",
    "smoker",
    "smoker = TRUE",
    "smoker IS NOT NULL",
]


def conditions(number, seed):
    """Random trees of AND, OR and NOT."""
    random = np.random.default_rng(seed)

    def tree(depth):
        if not depth or random.random() < 0.2:
            return str(random.choice(ATOMS))
        if random.random() < 0.3:
            return f"NOT ({tree(depth - 1)})"
        return f"({tree(depth - 1)}) {random.choice(['AND', 'OR'])} ({tree(depth - 1)})"

    return [tree(3) for _ in range(number)]


@pytest.fixture(scope="module")
def rows():
    """Rows with all sorts of values, as they are and as they are coded."""
    random = np.random.default_rng(4)
    raw = [
        tuple(values[random.integers(len(values))] for values in (AGES, COSTS, GENDERS, SMOKERS)) for _ in range(200)
    ]
    return table(raw), table([coded(row) for row in raw])


@pytest.fixture(scope="module")
def representatives():
    """One row in each cell, in the order of cells."""
    cells = list(itertools.product([0, 10, 20, None], [0.25, 0.5, None], ["f", "m", "x", None], [True, None]))
    assert len(cells) == UNIVERSE.cells
    return table(cells)


@pytest.mark.parametrize("text", [*ATOMS, *conditions(40, seed=3)])
def test_rows_are_counted_as_if_undeclared_values_were_null(rows, text):
    raw, code = rows
    _, counted = located(UNIVERSE, SCHEMA, Predicate.parse(text))
    assert raw.prepare(counted).run() == code.prepare(count(text)).run()


@pytest.mark.parametrize("text", [*ATOMS, *conditions(20, seed=5)])
def test_cells_are_those_whose_rows_satisfy_the_condition(representatives, text):
    region, _ = located(UNIVERSE, SCHEMA, Predicate.parse(text))
    answers = representatives.prepare(count(text).by("cell", range(UNIVERSE.cells))).run()
    assert np.array_equal(region.flags(), answers == 1)
    assert region.count == answers.sum()


def test_every_row_lies_in_one_cell():
    region, counted = located(UNIVERSE, SCHEMA, None)
    assert region.count == UNIVERSE.cells
    assert counted == count()


LARGE = Universe({"a": range(99), "b": range(30), "c": range(40), "d": range(9)})
LARGE_SCHEMA = dict.fromkeys("abcd", "int64")


@pytest.mark.parametrize(
    "text",
    ["a < 7", "a IN (1, 5, 6) AND c > 3", "b = 2 AND (c = 1 OR d = 1)", "a = 1 OR d = 1", "a = 1 AND (b = 1 OR d = 2)"],
)
def test_cells_of_a_large_universe_by_brute_force(text):
    rows, columns = matrix(LARGE)
    assert rows > 1
    assert rows * columns == LARGE.cells
    region, _ = located(LARGE, LARGE_SCHEMA, Predicate.parse(text))
    a, b, c, d = np.meshgrid(*(np.arange(cells) for cells in LARGE.shape), indexing="ij")
    known = {"a": a != 99, "b": b != 30, "c": c != 40, "d": d != 9}
    meant = {
        "a < 7": a < 7,
        "a IN (1, 5, 6) AND c > 3": np.isin(a, [1, 5, 6]) & (c > 3) & known["c"],
        "b = 2 AND (c = 1 OR d = 1)": (b == 2) & ((c == 1) | (d == 1)),
        "a = 1 OR d = 1": (a == 1) | (d == 1),
        "a = 1 AND (b = 1 OR d = 2)": (a == 1) & ((b == 1) | (d == 2)),
    }[text]
    assert np.array_equal(region.flags(), meant.ravel())
    assert region.count == np.count_nonzero(meant)


MIDDLE = Universe({"a": range(5), "b": range(7), "c": range(39), "d": range(9)})
GRIDS = dict(zip("abcd", np.meshgrid(*(np.arange(cells) for cells in MIDDLE.shape), indexing="ij"), strict=True))
SIGNS = {"=": np.equal, "<>": np.not_equal, "<": np.less, ">=": np.greater_equal}


@st.composite
def comparisons(draw):
    """A comparison with the cells in which it is true and those in which it is false; in others it is unknown."""
    name = draw(st.sampled_from("abcd"))
    cells, declared = GRIDS[name], MIDDLE.shape["abcd".index(name)] - 1
    known = cells < declared
    if draw(st.booleans()):
        sign = draw(st.sampled_from(list(SIGNS)))
        value = draw(st.integers(0, declared - (sign in ("=", "<>"))))
        met = SIGNS[sign](cells, value)
        return f"{name} {sign} {value}", met & known, ~met & known
    values = draw(st.sets(st.integers(0, declared - 1), min_size=1, max_size=declared))
    met = np.isin(cells, list(values))
    return f"{name} IN ({', '.join(map(str, values))})", met & known, ~met & known


def larger(smaller):
    """NOT, AND and OR of three-valued logic."""
    negated = smaller.map(lambda part: (f"NOT ({part[0]})", part[2], part[1]))
    pairs = st.tuples(smaller, smaller)
    both = pairs.map(lambda two: (f"({two[0][0]}) AND ({two[1][0]})", two[0][1] & two[1][1], two[0][2] | two[1][2]))
    either = pairs.map(lambda two: (f"({two[0][0]}) OR ({two[1][0]})", two[0][1] | two[1][1], two[0][2] & two[1][2]))
    return negated | both | either


@settings(max_examples=100)
@given(st.recursive(comparisons(), larger, max_leaves=10), st.floats(0.1, 10))
def test_any_condition_over_several_columns_by_brute_force(asked, factor):
    text, true, _false = asked
    region, _ = located(MIDDLE, dict.fromkeys("abcd", "int64"), Predicate.parse(text))
    assert np.array_equal(region.flags(), true.ravel())
    assert region.count == np.count_nonzero(true)
    assert len({row.tobytes() for row in region.patterns}) == len(region.patterns) == region.which.max() + 1
    histogram = PublicHistogram(*matrix(MIDDLE))
    histogram.multiply(region, factor)
    plain = np.where(true.ravel(), factor, 1.0)
    assert np.allclose(histogram.shares(), plain / plain.sum(), rtol=1e-6, atol=0)
    assert histogram.share(region) == pytest.approx(histogram.shares()[true.ravel()].sum(), rel=1e-9)


@pytest.mark.parametrize(
    ("text", "most"), [("a < 7 AND d = 3", 2), ("a = 1 OR d = 1", 2), ("a < 3 OR b < 4 OR c = 1", 2)]
)
def test_rows_have_few_patterns(text, most):
    region, _ = located(LARGE, LARGE_SCHEMA, Predicate.parse(text))
    assert len(region.patterns) <= most


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("age >= 15", "cuts through a bin"),
        ("age < 0.5", "cuts through a bin"),
        ("age IN (10)", "cuts through a bin"),
        ("cost < 0", "cuts through a bin"),
        ("cost <= 0.5", "cuts through a bin"),
        ("age < 1e300", r"at most 2\*\*53"),
        ("age = 'f'", "compare with numbers"),
        ("sex = 1", "different types"),
        ("sex LIKE 'f%'", "list the values"),
        ("age > cost", "compare a column with literals"),
        ("height > 3", "not in the universe"),
        ("sex", "list the values"),
        ("sex = 'female'", "^'female' is no declared value of sex: 'f', 'm', 'x'$"),
        ("NOT (age < 10 AND sex <> 'y')", "'y' is no declared value"),
        ("sex IN ('x', 'y', 'f')", "'y' is no declared value"),
        ("smoker = FALSE", "FALSE is no declared value of smoker: TRUE"),
    ],
)
def test_what_the_universe_cannot_tell_is_refused(text, told):
    with pytest.raises(InvalidQuery, match=told):
        located(UNIVERSE, SCHEMA, Predicate.parse(text))


def test_five_declared_values_are_shown_and_order_needs_none_of_them():
    universe, schema = Universe({"a": range(99)}), {"a": "int64"}
    for text in ("a = 99", "a <> 1.5", "a IN (1, 120)"):
        with pytest.raises(InvalidQuery, match=r"is no declared value of a: 0, 1, 2, 3, 4, \.\.\. \(99 in all\)$"):
            located(universe, schema, Predicate.parse(text))
    assert located(universe, schema, Predicate.parse("a < 120 AND a >= 97.5"))[0].count == 1
    assert located(universe, schema, Predicate.parse("a = 5.0"))[0].count == 1


@pytest.mark.parametrize(
    "columns",
    [
        {},
        [],
        {"age": []},
        {"age": "abc"},
        {"age": [1, "a"]},
        {"age": [1, 1]},
        {"age": [1.5]},
        {"age": [None]},
        {3: [1]},
        {"a": range(10**4), "b": range(10**4)},
        {str(number): [1] for number in range(25)},
    ],
)
def test_bad_universes_are_refused(columns):
    with pytest.raises(InvalidQuery):
        Universe(columns)


@pytest.mark.parametrize("edges", [[1], [2, 1], "ab", 7, [0, float("nan")]])
def test_bad_bins_are_refused(edges):
    with pytest.raises((InvalidQuery, InvalidParameter)):
        Bins(edges)
    with pytest.raises(InvalidQuery, match="outside"):
        Bins([0, 1], "somewhere")


@pytest.mark.parametrize("schema", [{"age": "string"}, {"sex": "int64"}, {"smoker": "string"}, {"cost": "boolean"}])
def test_columns_of_other_types_are_refused(schema):
    with pytest.raises(InvalidQuery):
        UNIVERSE.check(SCHEMA | schema)
    UNIVERSE.check(SCHEMA)
    with pytest.raises(InvalidQuery):
        UNIVERSE.check({"age": "int64"})


def test_without_missing_cells_the_others_stay():
    whole = Universe({"sex": SEXES, "smoker": [True, False]}, missing=False)
    assert (whole.shape, whole.cells) == ((3, 2), 6)
    region, counted = located(whole, SCHEMA, Predicate.parse("sex <> 'f' AND NOT smoker"))
    assert np.flatnonzero(region.flags()).tolist() == [3, 5]
    both, same = located(
        Universe({"sex": SEXES, "smoker": [True, False]}), SCHEMA, Predicate.parse("sex <> 'f' AND NOT smoker")
    )
    assert (both.count, counted) == (2, same)
    assert located(whole, SCHEMA, Predicate.parse("sex IS NULL"))[0].count == 0
    assert Universe.of_body(whole.body()) == whole


def test_a_universe_comes_back_from_its_description():
    again = Universe.of_body(UNIVERSE.body())
    assert again == UNIVERSE
    assert again.shape == (4, 3, 4, 2)
    assert Universe.of(again) is again
