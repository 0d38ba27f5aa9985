"""CPU seconds of what a service and a command show of a long ledger; the limit is the same of a short one.

    python benchmarks/long_ledger.py [--calls 100000] [--short 100]

Ten analysts have asked; `nora` never did. Entries are posted by the ledger's own statements, many in a transaction.
"""

import argparse
import asyncio
import json
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx

import chary
from chary.amounts import Amount
from chary.ledger import Ledger, open_ledger
from chary.ledger.entries import reserving, settling
from chary.ledger.store import Closing
from chary.report.public_report import report
from chary.service.app import application
from chary.service.config import configured
from chary.service.core.datasets import Served, ServedDatasets
from chary.service.state import Service, service_with
from chary.service.store import ServiceStore

ANALYSTS = [f"analyst {number}" for number in range(10)]
# So many calls in one transaction.
TOGETHER = 5_000
PAGE = "/page/datasets/visits"
REQUESTS = {
    "GET /calls": "/v1/datasets/visits/calls",
    "GET /runs": "/v1/datasets/visits/runs",
    "the ask form": f"{PAGE}/ask",
    "the budget": f"{PAGE}/budget",
    "the history": f"{PAGE}/history",
    "the report": f"{PAGE}/report",
    "the report by itself": "/v1/datasets/visits/report?form=html",
}


def opened(ledger: Path) -> chary.Session:
    """A session on a few rows."""
    rows = {"age": [70] * 400 + [30] * 100}
    import pyarrow as pa  # noqa: PLC0415

    return chary.open(
        pa.table(rows), privacy_unit=None, budget=chary.Budget(epsilon=1_000), ledger=ledger, dataset="visits"
    )


def lengthen(ledger: Ledger, calls: int) -> None:
    """Add so many settled releases, each as the one that is there was stored."""
    (told,) = ledger.calls("visits")
    asked, answer, price = json.loads(told.body), told.answer or "null", Amount(told.charged.main // 10)
    known: set[str] = set()
    for first in range(0, calls, TOGETHER):
        with ledger.store.transactions.writing() as connection:
            number, sealed = ledger.store.transactions.bookmark.read(connection)
            for place in range(first, min(first + TOGETHER, calls)):
                asked["query"]["where"] = f"age >= {place % 200}"
                body = json.dumps(asked, sort_keys=True, separators=(",", ":"))
                analyst = ANALYSTS[place % len(ANALYSTS)]
                entry = reserving(number + 1, "visits", analyst, told.kind, body, price, f"key {place}")
                sealed = ledger.store.upkeep.post(connection, sealed, entry, known=analyst in known)
                closed = settling(number + 2, entry, price, 0, 0, answer)
                sealed = ledger.store.upkeep.post(connection, sealed, closed, Closing(entry, answer))
                number += 2
                known.add(analyst)


def serving(folder: Path, session: chary.Session) -> Service:
    """A service of that session."""
    said = {"rate": 10_000, "burst": 10_000, "patience": 60}
    config = configured({"folder": folder, "service": said, "dataset": {}}, "a benchmark")
    served = Served("visits", session, False, threading.Lock())
    return service_with(config, ServiceStore(folder / "service.db"), ServedDatasets({"visits": served}))


async def asked_of(service: Service, repeats: int) -> dict[str, tuple[float, float, int]]:
    """For each request the CPU seconds of the first one and of a later one, and how many bytes came."""
    transport = httpx.ASGITransport(application(service))
    keeper = service.tokens.make("carol", roles=["custodian"], datasets=["*"], days=1)
    nora = service.tokens.make("nora", roles=["analyst"], datasets=["*"], days=1)
    found = {}
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=600) as client:
        made = await client.post("/v1/datasets/visits/report", json={}, headers={"Authorization": f"Bearer {keeper}"})
        assert made.status_code == 201, made.text
        origin = {"Origin": "http://127.0.0.1"}
        logged = await client.post("/page/log-in", data={"token": nora}, headers=origin)
        assert logged.status_code == 303, logged.text
        for name, place in REQUESTS.items():
            took = []
            for _ in range(1 + repeats):
                began = time.process_time()
                answer = await client.get(place, headers={"Authorization": f"Bearer {nora}"})
                took.append(time.process_time() - began)
                assert answer.status_code == 200, (place, answer.text)
            found[name] = took[0], min(took[1:]), len(answer.content)
    return found


def seconds(what: Callable[[], Any]) -> float:
    """CPU seconds of one time."""
    began = time.process_time()
    what()
    return time.process_time() - began


def measured(folder: Path, calls: int, repeats: int) -> dict[str, tuple[float, float, int]]:
    """Everything about a ledger of so many calls."""
    place = folder / f"{calls}.ledger"
    with opened(place) as session:
        session.release(chary.count("age >= 0"), epsilon="0.001")
    with closing(open_ledger(place)) as ledger:
        print(f"a ledger of {calls} calls: made in {seconds(lambda: lengthen(ledger, calls)):.1f} CPU s", flush=True)
    found = {"opening": (seconds(lambda: opened(place).close()), seconds(lambda: opened(place).close()), 0)}
    (folder / str(calls)).mkdir()
    with opened(place) as session:
        service = serving(folder / str(calls), session)
        found |= asyncio.run(asked_of(service, repeats))
    with closing(open_ledger(place)) as ledger:
        took = seconds(lambda: report(ledger))
    found["chary report, gathering"] = took, took, 0
    return found


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--short", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3)
    said = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        long, short = (measured(Path(folder), calls, said.repeats) for calls in (said.calls, said.short))
    print(f"{'CPU s':26}{'first':>9}{'later':>9}{'limit':>9}{'kB':>9}")
    for name, (first, later, size) in long.items():
        print(f"{name:26}{first:9.3f}{later:9.3f}{short[name][1]:9.3f}{size / 1e3:9.0f}")


if __name__ == "__main__":
    main()
