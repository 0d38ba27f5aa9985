import pytest

from .kit import KINDS, make, terms


@pytest.fixture
def path(tmp_path):
    return tmp_path / "test.ledger"


@pytest.fixture(params=KINDS)
def ledger(request, tmp_path):
    """One in memory, one in a file and one on a server, each with a dataset."""
    made = make(request.param, tmp_path, request)
    made.open(terms())
    yield made
    made.close()
