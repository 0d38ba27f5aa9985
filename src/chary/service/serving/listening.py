"""Listening: one process, or several on one ledger, that end what they began before they stop."""

import os
import socket
from pathlib import Path
from types import FrameType
from typing import Any, Final

import uvicorn
from fastapi import FastAPI
from uvicorn.supervisors import Multiprocess

from chary.service.api.application import application
from chary.service.api.service_state import STOPPING, Service, opened_service
from chary.service.serving.service_config import service_config

_PLACE: Final = "CHARY_SERVICE_CONFIG"
_WORKERS: Final = "CHARY_SERVICE_WORKERS"
_OPTIONS: Final[dict[str, Any]] = {
    "access_log": False,
    "log_level": "warning",
    "server_header": False,
    "proxy_headers": False,
    "timeout_keep_alive": 10,
    "limit_concurrency": 500,
}


class Listener(uvicorn.Server):
    """A server that tells streams to end when it is asked to stop."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        STOPPING.set()
        super().handle_exit(sig, frame)


def listen(service: Service) -> None:
    """Serve in this process until it is asked to stop; the process ends where calls would not."""
    said, app = service.config.service, application(service)
    stop = int(said.stop_seconds) + 1
    Listener(uvicorn.Config(app, said.host, said.port, timeout_graceful_shutdown=stop, **_OPTIONS)).run()
    if getattr(app.state, "running", 0):
        os._exit(1)  # threads in calls would hold the process up; their reservations are kept


def listen_together(place: Path, host: str, port: int, workers: int) -> None:
    """Serve in several processes that share ledgers, the service's database and one port."""
    os.environ[_PLACE], os.environ[_WORKERS] = str(place), str(workers)
    stop = int(service_config(place).service.stop_seconds) + 1
    more: dict[str, Any] = {"factory": True, "workers": workers, "timeout_graceful_shutdown": stop}
    config = uvicorn.Config(f"{__name__}:made", host, port, **more, **_OPTIONS)
    Multiprocess(config, sockets=[bound(config)]).run()


def bound(config: uvicorn.Config) -> socket.socket:
    """The port that the processes share, whose connections send at once: small answers would else wait for 40 ms."""
    taken = config.bind_socket()
    taken.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return taken


def made() -> FastAPI:
    """The application of one of several processes."""
    config = service_config(Path(os.environ[_PLACE]))
    options = config.service.model_copy(update={"workers": int(os.environ[_WORKERS])})
    return application(opened_service(config.model_copy(update={"service": options})))
