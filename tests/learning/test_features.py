"""Columns as features: no value makes the others fail."""

import numpy as np
import pyarrow as pa
import pytest

from chary.learning.features import floats, listed, numbered

ODD = {
    "a date in the year 20000": pa.array([0, 7_000_000], pa.date32()),
    "a time at the end of time": pa.array([0, 2**63 - 1], pa.timestamp("us")),
    "the same with a zone": pa.array([0, 2**63 - 1], pa.timestamp("us", tz="UTC")),
    "24 o'clock": pa.array([0, 86_400_000_000], pa.time64("us")),
}


@pytest.mark.parametrize("column", ODD.values(), ids=ODD)
def test_a_value_that_python_has_not_makes_no_column_fail(column):
    values, usual = pa.chunked_array([column]), pa.chunked_array([column[:1]])
    assert listed(values)[0] == listed(usual)[0]
    assert len(listed(values)) == len(floats(values)) == 2
    assert np.array_equal(floats(values)[:1], floats(usual), equal_nan=True)


def test_a_value_without_a_hash_leaves_the_others_their_numbers():
    for values in ([3, [1], 5, None, {}, 3], [[1]], [True, {1}, 4.0, "3"]):
        alone = [numbered([value], [5, 4, 3, 1]).item() for value in values]
        assert numbered(values, [5, 4, 3, 1]).tolist() == alone
    assert numbered([3, [1], 5], [5, 3]).tolist() == [2, 0, 1]
