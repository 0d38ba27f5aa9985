"""Outcomes in bytes over HTTP, in the client and on the page: a file, for whom the call is shown."""

import pytest

import chary
from chary import Algorithm, count
from chary.calls import RunAlgorithm
from tests.service.kit import token_of

MODEL = bytes(range(256))
PLACE = "/v1/datasets/visits/calls"


@pytest.fixture(scope="module")
def calls(service):
    """One call of an analyst whose outcome is bytes, and another."""
    asked = service.datasets["visits"].asked_by("alice")
    model = Algorithm("model", lambda rows, source: MODEL, epsilon="0.01")
    return asked.ask(RunAlgorithm(model)).call, asked.release(count(), epsilon="0.01").call


def test_they_are_a_file(http, calls):
    found = http.get(f"{PLACE}/{calls[0]}/outcome")
    assert (found.status_code, found.content) == (200, MODEL)
    assert found.headers["content-type"] == "application/octet-stream"
    assert found.headers["content-disposition"] == f'attachment; filename="call-{calls[0]}.bin"'
    other = http.get(f"{PLACE}/{calls[1]}/outcome")
    assert other.status_code == 404
    assert "no bytes were published" in other.json()["detail"]


def test_only_whom_the_call_is_shown_has_them(service, address, calls, visit):
    visitor = visit(token_of(service, "bob"))
    assert visitor.get(f"/page/datasets/visits/history/{calls[0]}/outcome").status_code == 404


def test_the_client_hands_them_back(service, address, calls):
    with chary.connect(address, token=token_of(service), dataset="visits") as session:
        told = {entry.call: entry.outcome for entry in session.history}
    assert told[calls[0]] == MODEL
    assert not isinstance(told[calls[1]], bytes)


def test_the_page_offers_the_file(visit, calls):
    visitor, place = visit(), f"/page/datasets/visits/history/{calls[0]}"
    text = visitor.get(place).text
    assert f'href="{place}/outcome"' in text
    assert "256 bytes of SHA-256" in text
    assert "AAECAwQF" not in text
    assert visitor.get(f"{place}/outcome").content == MODEL
    assert "/outcome" not in visitor.get(f"/page/datasets/visits/history/{calls[1]}").text
