"""The server: addresses, certificates and the processes that listen."""

import asyncio
import multiprocessing
import os
import signal
import socket
import sys
import tempfile
import threading
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Final

import uvicorn
from fastapi import FastAPI
from uvicorn.config import STARTUP_FAILURE
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.supervisors import Multiprocess

from chary.service.app import application
from chary.service.config import ServiceConfig, ServiceOptions, service_config
from chary.service.state import FOLDER, STOPPING, Service, opened_service

_PLACE: Final = "CHARY_SERVICE_CONFIG"
_WORKERS: Final = "CHARY_SERVICE_WORKERS"
_PORT: Final = "CHARY_SERVICE_PORT"
_KEPT_ALIVE: Final = 10
_CONNECTIONS: Final = 500
# Beyond so many that have nothing under way, the one that was silent for longest makes room for the next.
_SILENT: Final = _CONNECTIONS // 2
# What does not end by itself: requests and calls have their time, then whatever is left is ended with the process.
_AFTER_STOP: Final = 5.0


class HeadInTime(H11Protocol):
    """A connection that is closed when the head of a request does not come in time.

    Who sends nothing, or a head byte by byte, takes none of the connections that there may be for longer than
    `seconds`; and where many are silent, those that were silent for longest make room for others.
    """

    def __init__(self, seconds: float, **options: Any) -> None:
        super().__init__(**options)
        self._seconds, self._late = seconds, asyncio.get_running_loop().time()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def silent(self) -> bool:
        """Whether nothing is under way."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()
        silent = [each for each in self.connections if isinstance(each, HeadInTime) and each.silent]
        for each in sorted(silent, key=lambda each: each._late)[: max(0, len(silent) - _SILENT)]:
            each.transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._timer is None and self.silent:
            self._wait()
        super().data_received(data)
        if not self.silent:
            self._heard()

    def connection_lost(self, exc: Exception | None) -> None:
        self._heard()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        self._late = self.loop.time() + self._seconds
        super().on_response_complete()

    def _wait(self) -> None:
        self._late = self.loop.time() + self._seconds
        self._timer = self.loop.call_at(self._late, self._too_late)

    def _heard(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_late(self) -> None:
        self._timer = None
        if self.silent:
            self.transport.abort()


def options_of(said: ServiceOptions) -> dict[str, Any]:
    """How uvicorn serves."""
    return {
        "http": partial(HeadInTime, said.head_seconds),
        "ws": "none",
        "access_log": False,
        "log_level": "warning",
        "server_header": False,
        "proxy_headers": False,
        "timeout_keep_alive": _KEPT_ALIVE,
        "limit_concurrency": _CONNECTIONS,
        # A second more than calls have, so that those that end in time are answered.
        "timeout_graceful_shutdown": int(said.stop_seconds) + 1,
    }


class Listener(uvicorn.Server):
    """A server that tells streams to end when it is asked to stop, and whose process then ends as one that is done."""

    stop_seconds = 0.0

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        _stops(self.stop_seconds)
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True


def listen(service: Service) -> None:
    """Serve in this process until it is asked to stop; calls that do not end in time keep their reservations."""
    said, app = service.config.service, application(service)
    listener = Listener(uvicorn.Config(app, said.host, said.port, **options_of(said)))
    listener.stop_seconds = said.stop_seconds
    listener.run()
    if getattr(app.state, "running", 0):
        _end()  # their threads would hold the process up


def _stops(seconds: float) -> None:
    """This process was asked to stop: streams and calculations end, and by then the process does, whatever it does."""
    if not STOPPING.is_set():
        STOPPING.set()
        last = threading.Timer(2 * seconds + _AFTER_STOP, _end)
        last.daemon = True
        last.start()


def _end() -> None:
    sys.stdout.flush()
    os._exit(0)


def listen_together(place: Path, said: ServiceConfig) -> None:
    """Serve in several processes that share ledgers, the service's database and one port; one that dies is replaced.

    Errors: those of opening, before anything listens. `SystemExit` where no process could begin.
    """
    opened_service(said).close()
    options = said.service
    with tempfile.TemporaryDirectory(prefix="chary-figures-", ignore_cleanup_errors=True) as figures:
        os.environ |= {_PLACE: str(place), _WORKERS: str(options.workers), _PORT: str(options.port)}
        os.environ[FOLDER] = figures
        more: dict[str, Any] = {"factory": True, "workers": options.workers, "timeout_worker_healthcheck": 60}
        config = uvicorn.Config(f"{__name__}:made", options.host, options.port, **more, **options_of(options))
        together = Multiprocess(config, sockets=[bound(config)])
        together.run()
        if any(each.exitcode == STARTUP_FAILURE for each in together.processes):
            sys.exit(STARTUP_FAILURE)


def bound(config: uvicorn.Config) -> socket.socket:
    """The port that the processes share, whose connections send at once: small answers would else wait for 40 ms."""
    taken = config.bind_socket()
    taken.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return taken


def made() -> FastAPI:
    """The application of one of several processes."""
    config = service_config(Path(os.environ[_PLACE]))
    _stop_with_the_others(config.service.stop_seconds)
    options = config.service.model_copy(update={"workers": int(os.environ[_WORKERS]), "port": int(os.environ[_PORT])})
    return application(opened_service(config.model_copy(update={"service": options})))


def _stop_with_the_others(seconds: float) -> None:
    """Streams end when this process is asked to stop; and it is asked to when the one that began it is gone."""
    usual = signal.getsignal(signal.SIGTERM)

    def asked_to_stop(number: int, frame: FrameType | None) -> None:
        _stops(seconds)
        if callable(usual):
            usual(number, frame)

    signal.signal(signal.SIGTERM, asked_to_stop)
    threading.Thread(target=_watch, daemon=True).start()


def _watch() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)
