"""Columns as features: no value makes the others fail."""

import numpy as np
import pyarrow as pa
import pytest

from chary.learning.features import floats, listed

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
