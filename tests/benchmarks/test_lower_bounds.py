"""The comparison with lower bounds: what it measures is not below what it calls a lower bound, and it draws."""

import numpy as np
import pytest
from benchmarks.lower_bounds import MECHANISMS, draw, squared

FAIR = [name for name in MECHANISMS if "median" not in name]


@pytest.mark.parametrize("name", FAIR)
@pytest.mark.parametrize("epsilon", [0.1, 0.7, 2.0])
def test_nothing_is_below_its_bound(name, epsilon):
    found = MECHANISMS[name](epsilon)
    assert found.measured >= found.ours >= found.published > 0


def test_errors_of_a_known_law():
    assert squared(np.array([0.5, 0.5]), np.array([0.0, 2.0]), 1.0) == 1.0


def test_a_picture_is_written(tmp_path):
    path = tmp_path / "count.png"
    draw("count, variance", path)
    assert path.read_bytes().startswith(b"\x89PNG")
