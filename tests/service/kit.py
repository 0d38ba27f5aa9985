"""Shared by the tests of the service: a service on a port of its own, and datasets that are put into it."""

import asyncio
import socket
import threading
import time
from contextlib import contextmanager
from types import SimpleNamespace

import httpx
import uvicorn

import chary
from chary.amounts import Amount
from chary.service.app import application
from chary.service.config import configured
from chary.service.core.datasets import Served, ServedDatasets
from chary.service.state import service_with
from chary.service.store import ServiceStore
from tests.session.kit import USUAL, visits

# As often as one likes, and no call becomes a job because the machine is slow.
MANY = {"rate": 10_000, "burst": 10_000, "patience": 60}


def service_at(folder, **options):
    """A service without any dataset."""
    config = configured({"folder": folder, "service": MANY | options, "dataset": {}}, "a test")
    made = service_with(config, ServiceStore(folder / "service.db"), ServedDatasets({}))
    made.stopping = threading.Event()
    return made


def serve_dataset(service, name, session, *, shared=False):
    """Put an open session into a service."""
    service.datasets[name] = Served(name, session, shared, threading.Lock())


def serve_visits(service, name="visits", *, shared=False, **options):
    """The visits of the sessions' tests."""
    usual = {"privacy_unit": "patient", "ledger": ":memory:", "budget": USUAL, "dataset": name}
    serve_dataset(service, name, chary.open(visits(), **(usual | options)), shared=shared)


# A quote for what is let stand whatever it costs.
UNPRICED = SimpleNamespace(most=Amount(0), basic=0, ends_free_misses=False)


def token_of(service, analyst="alice", roles=("analyst",), datasets=("*",), days=1):
    """A token."""
    return service.tokens.make(analyst, roles=list(roles), datasets=list(datasets), days=days)


def bearing(token):
    """The header of a token."""
    return {"Authorization": f"Bearer {token}"}


@contextmanager
def listening(service, **options):
    """Serve it from a thread, with options of uvicorn; the address."""
    # Of a socket without a protocol asyncio does not know that it may send at once: each answer would wait for 40 ms.
    taken = socket.socket(proto=socket.IPPROTO_TCP)
    taken.bind(("127.0.0.1", 0))
    address = f"http://127.0.0.1:{taken.getsockname()[1]}"
    usual = {"log_level": "critical", "access_log": False, "proxy_headers": False}
    server = uvicorn.Server(uvicorn.Config(application(service), **(usual | options)))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[taken])))
    thread.start()
    try:
        wait_for(lambda: server.started)
        yield address
    finally:
        service.stopping.set()
        server.should_exit = True
        thread.join()
        taken.close()


def wait_for(found, seconds=30.0):
    """Until it holds."""
    until = time.monotonic() + seconds
    while not found():
        assert time.monotonic() < until, "this took too long"
        time.sleep(0.01)


def client_of(address, token=None):
    """An HTTP client."""
    return httpx.Client(base_url=address, headers={} if token is None else bearing(token), timeout=60)
