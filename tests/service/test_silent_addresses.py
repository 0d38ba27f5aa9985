"""What a client says of an address at which nobody answers, and of a service that breaks off."""

import asyncio
import socket
import threading
import time
from contextlib import contextmanager

import httpx
import pytest

from chary.calls import Release
from chary.client import connect, connect_async, connect_json, transport
from chary.data import count
from chary.errors import InvalidParameter, LedgerError
from tests.service.kit import token_of
from tests.service.test_service_races import free_port


def connect_awaited(*words, **options):
    return asyncio.run(connect_async(*words, **options))


@pytest.mark.parametrize("connected", [connect, connect_awaited, connect_json])
@pytest.mark.parametrize("host", ["127.0.0.1", "nobody.invalid"])
def test_an_address_that_takes_no_connection_is_told_soon(monkeypatch, connected, host):
    monkeypatch.setattr(transport, "_FIRST", 0.2)
    address = f"http://{host}:{free_port()}"
    with pytest.raises(LedgerError, match="does the service run") as told:
        connected(address, "a token")
    assert str(told.value).startswith(f"no service answers at {address} (")
    assert "goes on" not in str(told.value)


def test_who_says_a_patience_waits_for_a_service_that_starts(service, address, monkeypatch):
    monkeypatch.setattr(transport, "_FIRST", 0)
    port, token, started = free_port(), token_of(service), httpx.Client.request
    tries = []

    def request(self, *words, **options):
        tries.append(words)
        self.base_url = address if len(tries) > 3 else f"http://127.0.0.1:{port}"
        return started(self, *words, **options)

    monkeypatch.setattr(httpx.Client, "request", request)
    client = httpx.Client(timeout=30)
    with connect(address, token, dataset="visits", patience=60, client=client) as session:
        assert session.dataset == "visits"
    assert len(tries) == 4


def test_a_password_in_an_address_is_not_told(monkeypatch):
    monkeypatch.setattr(transport, "_FIRST", 0)
    with pytest.raises(LedgerError) as told:
        connect(f"http://me:hidden@127.0.0.1:{free_port()}", "a token")
    assert "hidden" not in str(told.value)


@pytest.mark.parametrize("address", ["127.0.0.1:8321", "localhost:8321"])
def test_an_address_without_its_scheme_is_told_at_once(address):
    with pytest.raises(InvalidParameter, match="begins with http://"):
        connect(address, "a token", patience=3600)


def test_a_service_that_answered_before_is_waited_for(service, address, monkeypatch):
    """It may be starting again; once a call was sent, it goes on under its key."""
    with connect(address, token_of(service), dataset="visits", patience=0.5) as session:
        monkeypatch.setattr(transport, "_FIRST", 0)
        client, port = session._transport._client, free_port()
        client.base_url = f"http://127.0.0.1:{port}"
        began = time.monotonic()
        with pytest.raises(LedgerError, match="no service answers"):
            session.ask(Release(count(), epsilon="0.1"))
        assert time.monotonic() > began + 0.1  # so it has tried again
        with breaking_off(port), pytest.raises(LedgerError, match="what was asked goes on under its key"):
            session.ask(Release(count(), epsilon="0.1"))
        with breaking_off(port), pytest.raises(LedgerError) as told:
            session.schema  # noqa: B018
        assert "goes on" not in str(told.value)


@contextmanager
def breaking_off(port):
    """Takes one connection at a port, closes it when a request has come, and then listens no more."""
    listens = socket.create_server(("127.0.0.1", port))
    listens.settimeout(60)

    def take():
        with listens:
            taken, _ = listens.accept()
        with taken:
            taken.recv(1)

    thread = threading.Thread(target=take)
    thread.start()
    try:
        yield
    finally:
        thread.join()
