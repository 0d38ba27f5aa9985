"""Rows as vectors: one row never shows in another, lengths are bounded, and clipping survives all floats."""

from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from chary.errors import InvalidParameter
from chary.learning import Categorical, Cuts, Span, design_matrix
from chary.learning.features import clipped, width

FEATURES = [Span("age", 0, 100), Categorical("sex", ["f", "m"]), Cuts("gain", [1, 5000])]
ROWS = pd.DataFrame(
    {
        "age": [0, 100, 50, 1e9, -1e9, float("nan"), float("inf")],
        "sex": ["f", "m", "?", None, "f", "m", "f"],
        "gain": [0, 1, 5000, None, -3, 1e300, 2],
    }
)


def test_a_row_is_at_most_the_root_of_its_features_long():
    found = design_matrix(ROWS, FEATURES)
    assert found.shape == (7, 1 + 2 + 3)
    assert np.linalg.norm(found, axis=1).max() == pytest.approx(np.sqrt(3))
    assert found[:, 0].tolist() == [-1, 1, 0, 1, -1, 0, 1]
    assert found[2].tolist() == [0, 0, 0, 0, 0, 1]


def test_each_row_is_read_alone():
    whole = design_matrix(ROWS, ["age", *FEATURES[1:]])
    for place in range(7):
        assert design_matrix(ROWS[place : place + 1], ["age", *FEATURES[1:]])[0].tolist() == whole[place].tolist()


@pytest.mark.parametrize("radius", ["1e-3", 1, "7.3", 10**6])
def test_clipped_rows_are_no_longer_than_the_radius(radius):
    generator = np.random.default_rng(1)
    rows = generator.normal(size=(500, 5)) * 10.0 ** generator.integers(-300, 300, (500, 1))
    rows[0], rows[1], rows[2] = 0, np.finfo(float).max, 5e-324
    short = clipped(rows, Fraction(radius))
    exact = [sum(Fraction(x) ** 2 for x in row) for row in short.tolist()]
    assert max(exact) <= Fraction(radius) ** 2 * (1 + Fraction(1, 2**40))
    kept = np.array([sum(Fraction(x) ** 2 for x in row) <= Fraction(radius) ** 2 for row in rows.tolist()])
    assert np.allclose(short[kept], rows[kept], rtol=1e-12)
    assert np.linalg.norm(short[~kept], axis=1) == pytest.approx(float(Fraction(radius)))
    assert (np.sign(short[1]) == np.sign(rows[1])).all()


@pytest.mark.parametrize("features", [[], None, "age", 3, ["age", 1.5], [None], [True], {"age"}])
def test_what_is_no_list_of_features_is_refused(features):
    """A name alone would count as one feature a letter."""
    with pytest.raises(InvalidParameter, match="features"):
        design_matrix(ROWS, features)


@pytest.mark.parametrize("frame", [ROWS, pl.from_pandas(ROWS), pa.table({"age": [1]}), {"age": [1]}])
@pytest.mark.parametrize("feature", ["height", Span("height", 0, 1), Categorical("height", ["tall"])])
def test_a_missing_column_is_named_whatever_the_library(frame, feature):
    with pytest.raises(InvalidParameter, match="no column 'height'") as caught:
        design_matrix(frame, [feature])
    assert caught.value.__cause__ is None is caught.value.__context__


def test_the_width_of_a_design_is_that_of_its_rows():
    for features in (FEATURES, ["age"], [Categorical("sex", ["f"]), Span("age", 0, 1), "gain"]):
        assert width(features) == design_matrix(ROWS, features).shape[1]
