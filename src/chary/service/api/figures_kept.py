"""Metrics: what is counted. Of calls their kind and whether they were refused, never what came out."""

import os
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

# Where processes of one service put their figures together; the name is that of the library.
FOLDER: Final = "PROMETHEUS_MULTIPROC_DIR"


class Figures:
    """The metrics of one process, in a registry of their own; where there are several, they are told together."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.calls = Counter("chary_calls", "Calls by kind.", ["dataset", "kind"], registry=self.registry)
        self.refusals = Counter("chary_problems", "Problems by their type.", ["problem"], registry=self.registry)
        self.left = Gauge(
            "chary_budget_left_share",
            "What is left of budgets.",
            ["dataset"],
            registry=self.registry,
            multiprocess_mode="mostrecent",
        )
        self.seconds = Histogram(
            "chary_request_seconds",
            "How long requests took.",
            ["method", "route"],
            buckets=(0.01, 0.1, 1, 10, 60),
            registry=self.registry,
        )

    def told(self) -> bytes:
        """All of them as Prometheus reads them, of every process that this one was begun with."""
        if FOLDER not in os.environ:
            return generate_latest(self.registry)
        together = CollectorRegistry()
        MultiProcessCollector(together)  # type: ignore[no-untyped-call]
        return generate_latest(together)
