"""The command that opens a service: its server, connections and processes, and the data of its demonstration."""

import asyncio
import atexit
import json
import logging
import multiprocessing
import os
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Final

import typer
import uvicorn
from fastapi import FastAPI
from pyarrow import parquet
from uvicorn.config import STARTUP_FAILURE
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.supervisors import Multiprocess

from chary.demo.panel import first_year
from chary.errors import InvalidParameter, tell_owners
from chary.numbers import counted
from chary.service.app import application
from chary.service.auth.tokens import OPERATOR, BearerTokens
from chary.service.config import ServiceConfig, ServiceOptions, configured, service_config
from chary.service.core.alerts import StandingBook
from chary.service.core.audit_trail import LOG, AuditTrail, log_line
from chary.service.core.datasets import lost_appends, opened_as, unlike_quotas
from chary.service.core.figures import FOLDER
from chary.service.state import STOPPING, Service, opened_service
from chary.service.store import ServiceStore

# One process that listens, or several on one ledger; they finish requests before they stop.

_PLACE: Final = "CHARY_SERVICE_CONFIG"
_WORKERS: Final = "CHARY_SERVICE_WORKERS"
_PORT: Final = "CHARY_SERVICE_PORT"
_KEPT_ALIVE: Final = 10
_CONNECTIONS: Final = 500
# The most idle connections; beyond it the one that is idle for longest is closed.
_SILENT: Final = _CONNECTIONS // 2
# Seconds for requests and calls to end; then the process exits.
_AFTER_STOP: Final = 5.0


class HeadInTime(H11Protocol):
    """A connection that is closed if the head of a request does not arrive in time.

    A client that sends nothing, or a head byte by byte, keeps a connection for `seconds` at most. If there are too many
    idle connections, those that are idle for longest are closed first.
    """

    def __init__(self, seconds: float, **options: Any) -> None:
        super().__init__(**options)
        self._seconds, self._late = seconds, asyncio.get_running_loop().time()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def silent(self) -> bool:
        """Whether no request is under way."""
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
    """The options of uvicorn."""
    return {
        "http": partial(HeadInTime, said.head_seconds),
        "ws": "none",
        "access_log": False,
        "log_level": "warning",
        "server_header": False,
        "proxy_headers": False,
        "timeout_keep_alive": _KEPT_ALIVE,
        "limit_concurrency": _CONNECTIONS,
        # A second more than calls have, so that those which end in time are answered.
        "timeout_graceful_shutdown": int(said.stop_seconds) + 1,
    }


class Listener(uvicorn.Server):
    """A server that ends streams when it is asked to stop, and whose process then exits with status 0."""

    stop_seconds = 0.0

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        _stops(self.stop_seconds)
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True


def listen(service: Service) -> None:
    """Serve in this process until it is asked to stop; calls that do not end in time keep their reservations."""
    service.standing.book.free()
    said, app = service.config.service, application(service)
    listener = Listener(uvicorn.Config(app, said.host, said.port, **options_of(said)))
    listener.stop_seconds = said.stop_seconds
    listener.run()
    if getattr(app.state, "running", 0):
        _end()  # their threads would keep the process alive


def _stops(seconds: float) -> None:
    """This process is asked to stop: end streams and calculations, and make sure that the process exits in time."""
    if not STOPPING.is_set():
        STOPPING.set()
        last = threading.Timer(2 * seconds + _AFTER_STOP, _end)
        last.daemon = True
        last.start()
        # A daemon that outlives the interpreter keeps modules alive, of which libraries then complain.
        # The last that is registered comes first.
        atexit.register(last.join)
        atexit.register(last.cancel)


def _end() -> None:
    sys.stdout.flush()
    os._exit(0)


def listen_together(place: Path, said: ServiceConfig, accepted: Collection[str] = ()) -> None:
    """Serve in several processes that share ledgers, the service's database and one port; a process that dies is
    replaced.

    Errors: those of opening, before anything listens. `SystemExit` if no process could start.
    """
    service = opened_service(said, accepted)
    service.standing.book.free()
    tell_opened(service)
    service.close()
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
    """The port that the processes share. Its connections send at once; small answers would otherwise wait for 40 ms."""
    taken = config.bind_socket()
    taken.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return taken


def made() -> FastAPI:
    """The application of one of several processes."""
    # As the command does in its own process.
    tell_owners(lambda line: sys.stderr.write(f"{line}\n"))
    config = service_config(Path(os.environ[_PLACE]))
    _stop_with_the_others(config.service.stop_seconds)
    options = config.service.model_copy(update={"workers": int(os.environ[_WORKERS]), "port": int(os.environ[_PORT])})
    return application(opened_service(config.model_copy(update={"service": options})))


def _stop_with_the_others(seconds: float) -> None:
    """End streams when this process is asked to stop, and ask it to stop when its parent process is gone."""
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


# The command that opens a service, and the data of its demonstration.

# `chary serve` and `chary token`: what an operator types.

Config = Annotated[Path, typer.Option(help="The chary.toml that names the datasets.")]
Demo = Annotated[bool, typer.Option("--demo", help="Serve built-in data of 5,638 people, with a token for a day.")]
Port = Annotated[int | None, typer.Option(min=0, max=65_535, help="Another port than the chary.toml names.")]
Workers = Annotated[int | None, typer.Option(min=1, max=64, help="How many processes.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Accepted = Annotated[
    list[str] | None,
    typer.Option(help="A dataset of which the ledger is taken though it lacks calls: what it forgot is not charged."),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="No line in the log for each request.")]
app = typer.Typer(no_args_is_help=True, help="Make, list and revoke tokens of the service.")


def serve(
    config: Config = Path("chary.toml"),
    demo: Demo = False,
    port: Port = None,
    workers: Workers = None,
    quiet: Quiet = False,
    accept_ledger: Accepted = None,
    as_json: AsJson = False,
) -> None:
    """Let analysts ask the datasets of a chary.toml over HTTP, under their budgets.

    Example: chary serve --demo
    """
    with _logged(quiet):
        if demo:
            with tempfile.TemporaryDirectory(prefix="chary-demo-", ignore_cleanup_errors=True) as folder:
                _serve(demo_config(Path(folder), port=8321 if port is None else port), as_json, demo=True)
            return
        said = service_config(config)
        changed = {name: value for name, value in (("port", port), ("workers", workers)) if value is not None}
        said = said.model_copy(update={"service": said.service.model_copy(update=changed)})
        if said.service.workers == 1:
            _serve(said, as_json, demo=False, accepted=accept_ledger or ())
            return
        _check_free(said.service)
        _tell(_served(said) | {"processes": said.service.workers}, as_json)
        listen_together(config, said, accept_ledger or ())


def _check_free(said: ServiceOptions) -> None:
    """Refuse a port on which another program listens, before a dataset is opened."""
    family = socket.AF_INET6 if ":" in said.host else socket.AF_INET
    with socket.socket(family) as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((said.host, said.port))
            return
        except OSError as error:
            told = f"port {said.port} of {said.host} cannot be used ({(error.strerror or 'refused').lower()})"
    other = said.port + 1 if said.port < 65_535 else 8321
    raise InvalidParameter(f"{told}: is chary already running? If not, name another one, such as --port {other}")


def _serve(config: ServiceConfig, as_json: bool, *, demo: bool, accepted: Collection[str] = ()) -> None:
    _check_free(config.service)
    service = opened_service(config, accepted)
    if not demo:
        tell_opened(service)
    told = _served(config)
    if demo:
        token = service.tokens.make("demo", roles=["analyst", "custodian"], datasets=[NAME], days=DAYS)
        told |= {"token": token}
    _tell(told, as_json)
    listen(service)


def tell_opened(service: Service) -> None:
    """Log the budget of each dataset, once however many processes listen. Warn of a ledger that is new though calls
    were asked, of quotas in the chary.toml that do not count, and of rows that will not stay."""
    for name, ledger in opened_as(service.datasets).items():
        LOG.warning(log_line(event="opened", dataset=name, ledger=ledger))
    asked = [name for name, each in service.datasets.items() if each.new and service.trail.asked_of(name)]
    second = [
        f"dataset {name}: its ledger is new, and the audit log has earlier calls: if the old one exists, go on with "
        "it, since a second budget comes on top"
        for name in asked
    ]
    holders = {record.analyst for record in service.tokens.all()}
    unknown = [
        f"dataset {name}: {analyst} has a quota and no token: it is for who has that very name"
        for name, options in service.config.dataset.items()
        for analyst in options.shares
        if service.log_in is None and analyst not in holders
    ]
    found = (each(service.config, service.datasets) for each in (unlike_quotas, lost_appends))
    for line in chain(second, unknown, *found):
        LOG.warning("chary: warning: %s", line)


@app.command()
def new(
    analyst: Annotated[str, typer.Option(help="Whose: the name that the ledger keeps with each call.")],
    role: Annotated[list[str], typer.Option(help="custodian, analyst or reader; may be repeated.")],
    dataset: Annotated[list[str], typer.Option(help="For which dataset, * for all; may be repeated.")],
    days: Annotated[int, typer.Option(help="For how many days.")] = 30,
    config: Config = Path("chary.toml"),
    as_json: AsJson = False,
) -> None:
    """Make a token and show it, once only.

    Example: chary token new --analyst alice --role analyst --dataset visits
    """
    said = service_config(config)
    if unknown := [name for name in dataset if name != "*" and name not in said.dataset]:
        raise InvalidParameter(f"{config} has no dataset {unknown[0]!r}")
    store, asked = _store(said), {"analyst": analyst, "roles": role, "datasets": dataset, "days": days}
    AuditTrail(store).add(OPERATOR, "", "tokens", asked, None)
    _tell({"token": BearerTokens(store).make(analyst, roles=role, datasets=dataset, days=days)}, as_json)


@app.command("list")
def listed(config: Config = Path("chary.toml"), as_json: AsJson = False) -> None:
    """List the tokens, without their secrets."""
    found = BearerTokens(_store(service_config(config))).all()
    if as_json:
        _tell({"tokens": [asdict(each) for each in found]}, as_json)
        return
    for each in found:
        until = datetime.fromtimestamp(each.expires, UTC).date() if each.revoked is None else "revoked"
        typer.echo(f"{each.token}  {each.analyst}  {','.join(each.roles)}  {','.join(each.datasets)}  {until}")


@app.command()
def revoke(
    token: Annotated[str, typer.Argument(help="The name of the token: its middle part.")],
    config: Config = Path("chary.toml"),
    as_json: AsJson = False,
) -> None:
    """Revoke a token at once, also in a running service."""
    store = _store(service_config(config))
    tokens = BearerTokens(store)
    if tokens.keeps(token):
        AuditTrail(store).add(OPERATOR, "", "tokens", {"revoked": token}, None)
    if not tokens.revoke(token):
        raise InvalidParameter(
            "no valid token has that name: it is the middle part of a token, as `chary token list` shows it"
        )
    ends = StandingBook(store).ending_with(token)
    told = (
        ends if as_json else counted(ends, "alert or subscription", "alerts or subscriptions") + ", at the next append"
    )
    _tell({"revoked": token} | ({"ends": told} if ends else {}), as_json)


def _tell(told: dict[str, Any], as_json: bool) -> None:
    typer.echo(json.dumps(told) if as_json else "\n".join(f"{name}: {_plain(value)}" for name, value in told.items()))


def _plain(value: Any) -> str:
    return ", ".join(value) if isinstance(value, list) else str(value)


def _served(config: ServiceConfig) -> dict[str, Any]:
    return {"address": f"http://{config.service.host}:{config.service.port}", "datasets": list(config.dataset)}


def _store(config: ServiceConfig) -> ServiceStore:
    return ServiceStore(config.place(config.service.store))


@contextmanager
def _logged(quiet: bool) -> Iterator[None]:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    LOG.addHandler(handler)
    LOG.setLevel(logging.WARNING if quiet else logging.INFO)
    try:
        yield
    finally:
        LOG.removeHandler(handler)


# The built-in data as a service serves them: the first year of a public panel, in a folder of its own.

NAME: Final = "people"
DAYS: Final = 1


def demo_config(folder: Path, **service: object) -> ServiceConfig:
    """A configuration that serves 5,638 people, each row one, with a budget of epsilon 1 and delta 1e-6."""
    parquet.write_table(first_year(), folder / "people.parquet")
    dataset = {
        "file": "people.parquet",
        "row-level": True,
        "neighbors": "replace",
        "budget-epsilon": "1",
        "budget-delta": "1e-6",
    }
    said = {"folder": folder, "service": service, "dataset": {NAME: dataset}}
    return configured(said, "the demonstration")
