"""Connections that send nothing, or a head byte by byte: closed in time, and in nobody's way."""

import resource
import socket
import time
from contextlib import ExitStack

import pytest

from chary.service.command import options_of
from tests.service.kit import client_of, listening, serve_visits, service_at, token_of, wait_for

MANY = 505


@pytest.fixture
def files():
    """Room for so many sockets, on both sides."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard) if hard > 0 else 4096, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def closed(line):
    """Whether the other side has closed it."""
    line.setblocking(False)
    try:
        return line.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


@pytest.mark.usefixtures("files")
def test_hundreds_of_silent_connections_refuse_nobody(tmp_path):
    service = service_at(tmp_path, **{"head-seconds": 3600})
    serve_visits(service)
    with listening(service, **options_of(service.config.service)) as address, ExitStack() as open_:
        host, port = address.removeprefix("http://").split(":")
        lines = [open_.enter_context(socket.create_connection((host, int(port)), 60)) for _ in range(MANY)]
        with client_of(address, token_of(service)) as http:
            assert http.get("/v1/datasets").status_code == 200
            # Those that were silent for longest made room, the others are left until their time.
            wait_for(lambda: closed(lines[0]))
            assert not closed(lines[-1])
    service.close()


@pytest.mark.parametrize("sent", [b"", b"GET /health HTTP/1.1\r\nHost: x"])
def test_a_head_that_does_not_come_is_not_waited_for(tmp_path, sent):
    service = service_at(tmp_path, **{"head-seconds": 0.3})
    serve_visits(service)
    with listening(service, **options_of(service.config.service)) as address:
        host, port = address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), 60) as line:
            line.sendall(sent)
            wait_for(lambda: closed(line))
        with client_of(address, token_of(service)) as http:
            assert http.get("/health").status_code == 200
    service.close()


def test_a_second_head_on_a_connection_has_as_long_and_a_request_under_way_is_left_alone(tmp_path):
    service = service_at(tmp_path, **{"head-seconds": 0.5, "body-seconds": 60})
    serve_visits(service)
    with listening(service, **options_of(service.config.service)) as address:
        host, port = address.removeprefix("http://").split(":")
        head = (
            f"POST /v1/datasets/visits/quotes HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token_of(service)}\r\n"
        )
        with socket.create_connection((host, int(port)), 60) as line:
            line.sendall((head + "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{").encode())
            time.sleep(1.5)  # the body takes its time, which is not the head's
            line.sendall(b"}")
            assert line.recv(4096).startswith(b"HTTP/1.1 422")
            line.sendall(b"GET /hea")
            wait_for(lambda: closed(line))
    service.close()
