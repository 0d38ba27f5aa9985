"""Listening: one process, or several on one ledger, that end what they began before they stop."""

import multiprocessing
import os
import signal
import socket
import sys
import tempfile
import threading
from pathlib import Path
from types import FrameType
from typing import Any, Final

import uvicorn
from fastapi import FastAPI
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess

from chary.service.api.application import application
from chary.service.api.figures_kept import FOLDER
from chary.service.api.service_state import STOPPING, Service, opened_service
from chary.service.serving.service_config import ServiceConfig, service_config

_PLACE: Final = "CHARY_SERVICE_CONFIG"
_WORKERS: Final = "CHARY_SERVICE_WORKERS"
_PORT: Final = "CHARY_SERVICE_PORT"
_OPTIONS: Final[dict[str, Any]] = {
    "access_log": False,
    "log_level": "warning",
    "server_header": False,
    "proxy_headers": False,
    "timeout_keep_alive": 10,
    "limit_concurrency": 500,
}


class Listener(uvicorn.Server):
    """A server that tells streams to end when it is asked to stop, and whose process then ends as one that is done."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        STOPPING.set()
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True


def listen(service: Service) -> None:
    """Serve in this process until it is asked to stop; calls that do not end in time keep their reservations."""
    said, app = service.config.service, application(service)
    stop = int(said.stop_seconds) + 1
    Listener(uvicorn.Config(app, said.host, said.port, timeout_graceful_shutdown=stop, **_OPTIONS)).run()
    if getattr(app.state, "running", 0):
        sys.stdout.flush()
        os._exit(0)  # their threads would hold the process up


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
        more["timeout_graceful_shutdown"] = int(options.stop_seconds) + 1
        config = uvicorn.Config(f"{__name__}:made", options.host, options.port, **more, **_OPTIONS)
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
    _stop_with_the_others()
    config = service_config(Path(os.environ[_PLACE]))
    options = config.service.model_copy(update={"workers": int(os.environ[_WORKERS]), "port": int(os.environ[_PORT])})
    return application(opened_service(config.model_copy(update={"service": options})))


def _stop_with_the_others() -> None:
    """Streams end when this process is asked to stop; and it is asked to when the one that began it is gone."""
    usual = signal.getsignal(signal.SIGTERM)

    def asked_to_stop(number: int, frame: FrameType | None) -> None:
        STOPPING.set()
        if callable(usual):
            usual(number, frame)

    signal.signal(signal.SIGTERM, asked_to_stop)
    threading.Thread(target=_watch, daemon=True).start()


def _watch() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)
