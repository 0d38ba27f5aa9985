from contextlib import ExitStack

import pytest

from tests.service.kit import client_of, listening, serve_visits, service_at, token_of
from tests.service.page_kit import Visitor


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """One service for the tests of a module."""
    made = service_at(tmp_path_factory.mktemp("service"))
    serve_visits(made)
    return made


@pytest.fixture(scope="module")
def address(service):
    with listening(service) as found:
        yield found


@pytest.fixture(scope="module")
def http(service, address):
    """A client of an analyst."""
    with client_of(address, token_of(service)) as client:
        yield client


@pytest.fixture(scope="module")
def keeper(service, address):
    """A client of a custodian."""
    with client_of(address, token_of(service, "carol", ["custodian"])) as client:
        yield client


@pytest.fixture
def visit(service, address):
    """Open a browser without a screen: of an analyst, of the token that is given, or of nobody for None."""
    opened = []

    def visiting(token=""):
        opened.append(Visitor(address, token_of(service) if token == "" else token))
        return opened[-1]

    yield visiting
    for visitor in opened:
        visitor.http.close()


@pytest.fixture(scope="module")
def arriving(service, address):
    """Visitors of the page, each logged in."""
    with ExitStack() as left:

        def arrive(analyst="alice", roles=("analyst",), datasets=("*",), token=None):
            visitor = Visitor(address, token or token_of(service, analyst, roles, datasets))
            left.callback(visitor.http.close)
            return visitor

        yield arrive
