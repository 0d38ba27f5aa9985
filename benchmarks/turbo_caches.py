"""Caches of answers: the budget of PMW in a session beside that of Turbo's PMW-Bypass and beside a limit.

Run as `python benchmarks/turbo_caches.py`, with the distribution `chary_research`. All answer the same queries, each
within 0.05 of the truth but for a chance of 0.001. The peer is our own program after the published algorithm, since
Turbo's is on no package index. Ours is the whole budget of a refitted histogram, fixed beforehand; the peer's is what
it used up, at the best Renyi order. The limit pays for the count of each hard answer alone: its tests are exact and
cost nothing. Times are those of the processor a query, ours without ledger and engine.
"""

import time
from collections.abc import Iterator

from chary_research.caches import Wanted
from chary_research.experiments.caches import LIMIT, REFITTED, WORKLOADS, answerer, told
from measuring import announce, duration, show
from recording import Against

ASKED = 3_000
PEER = "PMW-Bypass"
HEADINGS = ["queries", "ours", "used", "peer", "limit", "ours / peer", "ours / limit", "our time", "peer's time"]


def spent(name: str, zipf: int, by: str) -> tuple[float, float, float]:
    """The epsilon that one way uses up, its whole budget, which is the same where none was fixed, and seconds."""
    workload = WORKLOADS[name]()
    answering = answerer(by, workload, Wanted(workload.rows), 0, 1)
    stream, began = workload.stream(ASKED, zipf, 0), time.process_time()
    for number in stream:
        answering.ask(number)
    taken, found = time.process_time() - began, told(answering, ASKED)
    return found["epsilon"], found.get("budget", found["epsilon"]), taken / ASKED


def compared() -> Iterator[list[str]]:
    """One line for each workload."""
    for name, zipf in (("tests", 0), ("tests", 1), ("rides", 0)):
        used, ours, took = spent(name, zipf, REFITTED)
        peer, _, other = spent(name, zipf, PEER)
        least, _, _ = spent(name, zipf, LIMIT)
        ratios = [f"{ours / peer:.3g}", f"{ours / least:.3g}"]
        budgets = [f"{each:.3g}" for each in (ours, used, peer, least)]
        yield [f"{name}, Zipf {zipf}", *budgets, *ratios, duration(took), duration(other)]


def main() -> None:
    announce()
    against = [
        Against("whole budget over what PMW-Bypass used", "ours", "peer", "ours / peer", kind="peer"),
        Against("whole budget over tests at no cost", "ours", "limit", "ours / limit"),
    ]
    show(f"Epsilon at delta 1e-6 of {ASKED:,} queries", HEADINGS, compared(), against=against)


if __name__ == "__main__":
    main()
