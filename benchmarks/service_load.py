"""The service under load: 32 clients that ask different things, one and two processes, on PostgreSQL.

`python benchmarks/service_load.py [--seconds S] [--clients N] [--processes 1 2] [--kill]`. Rows are a Parquet file
that each process opens with DuckDB; ledger and store are a PostgreSQL server of this run. Beside it stands a bare
FastAPI endpoint (`bare_service.py`) that asks the same DuckDB the question that most of the calls ask, and keeps
nothing. Processor time is that of the server's processes and, apart, that of PostgreSQL: what others do on the machine
lengthens times, not these. At the end every answer that a client was given has to be in the ledger, settled, under its
key alone, and nothing is overspent.

`--kill` kills a process of the service and the database, with SIGKILL, in turn, every few seconds; clients ask again
under the same keys.
"""

import argparse
import http.client
import itertools
import json
import os
import random
import runpy
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from chary.ledger import open_ledger
from chary.service.auth.tokens import BearerTokens
from chary.service.store import ServiceStore
from measuring import FULL, announce, full, show

SERVER = runpy.run_path(str(Path(__file__).parents[1] / "tests" / "servers" / "postgres.py"))
ROWS, ANALYSTS, PATIENCE, EVERY = 100_000, 8, 240.0, 8.0
LOMAS = (
    "Lomas is not in the table: lomas-server 0.4.1 installs, in an environment of its own, with 6.2 GB of others, but "
    "what pip installs does not import: setuptools 84 has no pkg_resources, diffprivlib 0.6.5 needs a scikit-learn of "
    "before 1.9. With setuptools 80, scikit-learn 1.5 and numpy 1.26, against its own pins, it imports; it was not run."
)
HEADINGS = [
    "server",
    "clients",
    "calls per second",
    "p50, ms",
    "p99, ms",
    "CPU ms a call",
    "of PostgreSQL",
    "sent again",
]
TOML = """
[service]
port = {port}
workers = {workers}
rate = 1000000
burst = 1000000
calls-each = 1000
stop-seconds = 5
store = "{server}schema=store"
ledger = "{server}schema=ledger"

[dataset.visits]
file = "rows.parquet"
unit = "unit"
budget-epsilon = 1000
budget-delta = "1e-6"
shares = {{a0 = "0.000002"}}
"""
COUNT = {"kind": "count", "where": "age >= 65"}
MIXED = (
    [("calls", {"kind": "test", "query": COUNT, "above": 90_000, "epsilon": "0.01"})] * 6
    + [("calls", {"kind": "release", "query": COUNT, "epsilon": "0.001"})] * 2
    + [("quotes", {"call": {"kind": "release", "query": COUNT, "epsilon": "0.001"}})]
    + [("budget", None)]
)


class Client(threading.Thread):
    """Asks one thing after another until the time is up; what is not answered is sent again under its key."""

    def __init__(self, port: int, number: int, token: str | None, until: float) -> None:
        super().__init__()
        self._port, self._token, self._until = port, token, until
        self._name, self._choice = f"client {number}", random.Random(number)
        self._line: http.client.HTTPConnection | None = None
        self.times: list[float] = []
        self.answers: dict[str, Any] = {}
        self.again = self.refused = self.lost = 0

    def run(self) -> None:
        for number in itertools.count():
            if time.perf_counter() > self._until:
                return
            place, body = ("/count", {"age": 65}) if self._token is None else self._choice.choice(MIXED)
            began = time.perf_counter()
            found = self._asked(place, body, f"{self._name} {number}")
            self.times.append(time.perf_counter() - began)
            if place == "calls" and found is not None:
                self.answers[f"{self._name} {number}"] = (body, found)

    def _asked(self, place: str, body: Any, key: str) -> Any:
        until = time.perf_counter() + PATIENCE
        while time.perf_counter() < until:
            status, told = self.send(place, body, key)
            if status in (200, 202) and (told is None or "job" not in told):
                return told
            if status == 409 and "budget-refused" in told.get("type", ""):
                self.refused += 1
                return None
            self.again += 1
            time.sleep(0.05)
        self.lost += 1
        return None

    def send(self, place: str, body: Any, key: str) -> tuple[int, Any]:
        path = place if self._token is None else f"/v1/datasets/visits/{place}"
        headers = {"Content-Type": "application/json", "Idempotency-Key": f'"{key}"', "Prefer": "wait=30"}
        headers |= {} if self._token is None else {"Authorization": f"Bearer {self._token}"}
        try:
            self._line = self._line or http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
            said = None if body is None else json.dumps(body)
            self._line.request("GET" if body is None else "POST", path, said, headers)
            response = self._line.getresponse()
            return response.status, json.loads(response.read())
        except (OSError, http.client.HTTPException, ValueError):
            self._line = None
            return 0, None


class Service:
    """A process, with its workers, that listens at a port."""

    def __init__(self, command: list[str], port: int, folder: Path, **environment: str) -> None:
        self._command, self._folder, self.port = command, folder, port
        self._environment = os.environ | environment
        self._used = 0.0
        self._start()

    def kill_one(self) -> None:
        """Kill a process that answers; it is begun again, by its supervisor or here."""
        workers = _children(self.process.pid)[-1:]  # the first keeps shared things of the others
        if workers and len(_children(self.process.pid)) > 1:
            self._used += _processor(workers[0])
            os.kill(workers[0], signal.SIGKILL)
            return
        self._used += self._now()
        self.process.kill()
        self.process.wait()
        self._start()

    def processor(self) -> float:
        return self._used + self._now()

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(90)

    def _now(self) -> float:
        return _processor(self.process.pid)

    def _start(self) -> None:
        self.process = subprocess.Popen(self._command, cwd=self._folder, env=self._environment)
        while not self._ready():
            if self.process.poll() is not None:
                sys.exit("the server does not start")
            time.sleep(0.2)

    def _ready(self) -> bool:
        with suppress(OSError, http.client.HTTPException):
            line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
            line.request("GET", "/ready")
            return line.getresponse().status == 200
        return False


def row(name: str, service: Service, server: Any, tokens: list[str | None], options: Any) -> tuple[list[str], Any]:
    """One line: what all clients saw together."""
    for token in dict.fromkeys(tokens):  # what is done once is not measured
        Client(service.port, 10**6, token, 0).send(*(("/count", {"age": 65}) if token is None else MIXED[0]), "warm")
    before, held = service.processor(), _processor(server.pid)
    began = time.perf_counter()
    clients = [Client(service.port, n, token, began + options.seconds) for n, token in enumerate(tokens)]
    for client in clients:
        client.start()
    killed = _killing(service, server, began + options.seconds) if options.kill and tokens[0] else 0
    for client in clients:
        client.join()
    took = time.perf_counter() - began
    times = sorted(found for client in clients for found in client.times)
    used, database = service.processor() - before, _processor(server.pid) - held
    cells = [name, str(len(clients)), f"{len(times) / took:,.1f}", f"{statistics.median(times) * 1e3:,.0f}"]
    cells += [f"{times[int(0.99 * (len(times) - 1))] * 1e3:,.0f}", f"{used / len(times) * 1e3:.1f}"]
    told = f"{sum(client.again for client in clients)}" + (f", {killed} kills" if killed else "")
    return [*cells, "-" if database < 0 else f"{database / len(times) * 1e3:.1f}", told], clients


def _killing(service: Service, server: Any, until: float) -> int:
    for number in itertools.count():
        time.sleep(EVERY)
        if time.perf_counter() > until - EVERY / 2:
            return number
        if number % 2:
            server.kill()
            server.start()
        else:
            service.kill_one()
    return 0


def checked(clients: list[Client], tokens: list[str | None], port: int, ledger: str) -> str:
    """What is found in the ledger afterwards; an `AssertionError` where it is not what clients were told."""
    answers = {key: found for client in clients for key, found in client.answers.items()}
    assert not sum(client.lost for client in clients), "calls were not answered for minutes"
    book = open_ledger(ledger)
    calls = {record.number: record for record in book.calls("visits")}
    settled = [call for call in calls.values() if call.state == "settled"]
    keys = [(call.analyst, call.request) for call in settled]
    assert len(set(keys)) == len(keys), "a key was paid twice"
    for key, (_, found) in answers.items():
        assert (calls[found["call"]].state, calls[found["call"]].request) == ("settled", key), "an answer is not there"
    assert book.verify().ok, "the chain is broken"
    for left in (book.balance("visits").left, book.analyst_balance("visits", "a0").left):
        assert left is not None
        assert min(left.main, left.delta) >= 0, "the budget is overspent"
    book.close()
    with ThreadPoolExecutor(4) as pool:
        again = pool.map(
            lambda key: _again(key, answers[key][0], tokens, port), list(answers)[:: max(1, len(answers) // 50)]
        )
        for key, status, told in again:
            # What is left of the budget is that of now.
            same = [{name: value for name, value in each.items() if name != "left"} for each in (told, answers[key][1])]
            assert status == 200, "a key has no answer any more"
            assert same[0] == same[1], f"a key has two answers, which differ in {set(same[0]) ^ set(same[1])}"
    refused = sum(client.refused for client in clients)
    kept = len(calls) - len(settled)
    return f"{len(answers):,} answers, all in the ledger, none paid twice; {refused} refused; {kept} reservations kept"


def _again(key: str, body: Any, tokens: list[str | None], port: int) -> tuple[str, int, Any]:
    return key, *Client(port, 0, tokens[int(key.split()[1])], 0).send("calls", body, key)


@contextmanager
def bare(folder: Path, workers: int) -> Iterator[Service]:
    port = _free_port()
    command = [sys.executable, "-m", "uvicorn", "bare_service:app", "--app-dir", str(Path(__file__).parent)]
    command += ["--port", str(port), "--no-access-log", "--log-level", "error", "--workers", str(workers)]
    yield from _running(Service(command, port, folder, BARE_ROWS=str(folder / "rows.parquet")))


@contextmanager
def ours(folder: Path, server: Any, workers: int) -> Iterator[tuple[Service, list[str | None], str]]:
    port, place = _free_port(), f"{server.url(server.database())}&"
    toml = folder / f"{port}.toml"
    toml.write_text(TOML.format(port=port, workers=workers, server=place))
    store = ServiceStore(f"{place}schema=store")
    made = BearerTokens(store)
    tokens = [made.make(f"a{n}", roles=["analyst"], datasets=["*"], days=1) for n in range(ANALYSTS)]
    store.close()
    command = [sys.executable, "-m", "chary", "serve", "--quiet", "--config", str(toml)]
    for service in _running(Service(command, port, folder)):
        yield service, list(tokens), f"{place}schema=ledger"


def _running(service: Service) -> Iterator[Service]:
    try:
        yield service
    finally:
        if service.stop() and service.process.returncode != -signal.SIGTERM:
            print(f"the server left with {service.process.returncode}")


def rows(folder: Path, server: Any, options: Any, notes: list[str]) -> Iterator[list[str]]:
    """All lines of the table."""
    for workers in options.processes:
        told = f"{workers} process{'es' * (workers > 1)}"
        for count in sorted({1, options.clients} if workers == 1 else {options.clients}):
            with bare(folder, workers) as service:
                yield row(f"bare, {told}", service, server, [None] * count, options)[0]
            with ours(folder, server, workers) as (service, tokens, ledger):
                every = list(itertools.islice(itertools.cycle(tokens), count))
                line, clients = row(f"chary, {told}", service, server, every, options)
                notes.append(f"{told}, {count} clients: {checked(clients, every, service.port, ledger)}")
                yield line


def _processor(pid: int) -> float:
    """Seconds of processor time of a process, of those it waited for, and of its children."""
    with suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        used = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
        return used + sum(_processor(child) for child in _children(pid))
    return 0.0


def _children(pid: int) -> list[int]:
    with suppress(OSError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def _options() -> argparse.Namespace:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seconds", type=float, default=60 if full() else 15)
    options.add_argument("--clients", type=int, default=32)
    options.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    options.add_argument("--kill", action="store_true", help="kill server and database meanwhile")
    options.add_argument(FULL, action="store_true")
    return options.parse_args()


def main() -> None:
    announce()
    options, notes = _options(), list[str]()
    with tempfile.TemporaryDirectory() as folder, SERVER["running"]() as server:
        place, random_ = Path(folder), np.random.default_rng(7)
        columns = {"unit": np.arange(ROWS) % (ROWS // 3), "age": random_.integers(0, 100, ROWS)}
        parquet.write_table(pa.table(columns), place / "rows.parquet")
        show("The service under load", HEADINGS, rows(place, server, options, notes), LOMAS)
    print("\n".join(notes))


if __name__ == "__main__":
    main()
