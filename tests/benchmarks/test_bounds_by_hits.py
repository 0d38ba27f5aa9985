"""The figure of bounds against hits: they lie in the order that theory says, and the picture is written."""

import pytest
from benchmarks.bounds_by_hits import bounds, draw


@pytest.mark.parametrize("size", ["0.1", "0.02"])
def test_the_bounds_keep_their_order(size):
    found = bounds(size, (1, 5, 50))
    for at in range(3):
        exact = found["exact curve"][at]
        assert found["as many plain calls"][at] <= exact * (1 + 1e-9)
        assert exact <= min(found["exact tail"][at], found["one Renyi order"][at])
        assert found["exact tail"][at] <= found["published"][at]
    assert all(totals == sorted(totals) for totals in found.values())


def test_a_picture_is_written(tmp_path):
    path = tmp_path / "hits.png"
    draw(path, sizes=["0.1"], hits=(1, 5))
    assert path.read_bytes().startswith(b"\x89PNG")
