import pytest

from chary.ledger import open_ledger

from .kit import KINDS, SERVER, make, terms


@pytest.fixture
def path(tmp_path):
    return tmp_path / "test.ledger"


@pytest.fixture(scope="module")
def server(postgres):
    """A ledger that the state machines of a module begin with anew."""
    SERVER["ledger"] = postgres.schema()
    open_ledger(SERVER["ledger"]).close()
    with postgres.connect() as SERVER["owner"]:
        yield


@pytest.fixture(params=KINDS)
def ledger(request, tmp_path):
    """One in memory, one in a file and one on a server, each with a dataset."""
    made = make(request.param, tmp_path, request)
    made.open(terms())
    yield made
    made.close()
