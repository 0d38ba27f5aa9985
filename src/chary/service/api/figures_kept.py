"""Metrics: what is counted. Of calls their kind and whether they were refused, never what came out."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class Figures:
    """The metrics of one process, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.calls = Counter("chary_calls", "Calls by kind.", ["dataset", "kind"], registry=self.registry)
        self.refusals = Counter("chary_problems", "Problems by their type.", ["problem"], registry=self.registry)
        self.left = Gauge("chary_budget_left_share", "What is left of budgets.", ["dataset"], registry=self.registry)
        self.seconds = Histogram(
            "chary_request_seconds",
            "How long requests took.",
            ["method", "route"],
            buckets=(0.01, 0.1, 1, 10, 60),
            registry=self.registry,
        )
