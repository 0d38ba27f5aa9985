import pytest

from tests.calls.growing.continual_streams import streams
from tests.calls.growing.growing_sparse_kit import PURE


@pytest.fixture
def grown(opened):
    """Sessions on a growing table of three wards."""
    return streams(opened)


@pytest.fixture
def rows(rows):
    """Sessions in which each visit is a unit and is replaced, with a budget of epsilon alone."""
    return lambda **options: rows(**({"budget": PURE} | options))
