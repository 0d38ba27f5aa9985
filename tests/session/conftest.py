import pytest

from tests.calls.growing.growing_sparse_kit import any_threshold
from tests.session.kit import PUBLIC, sessions, visits

__all__ = ["any_threshold"]


@pytest.fixture
def opened():
    """Open sessions on the visits; whatever is still open in the end is closed."""
    with sessions(privacy_unit="patient") as make:
        yield lambda rows=None, **options: make(visits() if rows is None else rows, **options)


@pytest.fixture
def rows(opened):
    """Sessions in which each visit is a unit and is replaced."""
    return lambda *given, **options: opened(*given, **(PUBLIC | options))


@pytest.fixture(params=["memory", "sql"])
def place(request, tmp_path):
    """Where a ledger is kept: nowhere, or in a file."""
    return ":memory:" if request.param == "memory" else tmp_path / "visits.ledger"
