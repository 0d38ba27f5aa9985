import pytest

from tests.service.kit import client_of, listening, serve_visits, service_at, token_of


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
