"""Metrics in the format of Prometheus: counters of this process, and figures from the store that processes share."""

import json
import os
from collections import Counter as Tally
from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from chary.calls.alerts import Alert
from chary.service.core.alerts import ENDED, FIRED, Feed, StandingBook, StandingQuestion
from chary.service.core.datasets import ServedDatasets
from chary.service.core.delivery import Delivery
from chary.service.core.scheduler import version_of

# Where processes of one service put their figures together; the name is that of the library.
FOLDER: Final = "PROMETHEUS_MULTIPROC_DIR"


class Figures:
    """The metrics of one process, in a registry of their own; those of several processes are reported together."""

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
        self.ended = Gauge(
            "chary_free_misses_ended",
            "1 where every call is charged by now, hit or miss.",
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
        """All metrics of all processes as Prometheus reads them."""
        if FOLDER not in os.environ:
            return generate_latest(self.registry)
        together = CollectorRegistry()
        MultiProcessCollector(together)  # type: ignore[no-untyped-call]
        return generate_latest(together)


class StoredFigures(Collector):
    """Metrics of subscriptions, alerts and waiting events, read from the store at every scrape.

    Every process reports the same values, so they are left out of the sum over processes.
    """

    def __init__(self, datasets: ServedDatasets, book: StandingBook, feed: Feed, delivery: Delivery) -> None:
        self._datasets, self._book, self._feed, self._delivery = datasets, book, feed, delivery
        # Cached, since the terms of a run never change.
        self._severities: dict[tuple[str, int], str | None] = {}

    def told(self) -> bytes:
        """All of them as Prometheus reads them."""
        registry = CollectorRegistry()
        registry.register(self)
        return generate_latest(registry)

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        """The families of metrics, as the library asks for them."""
        standing = [each for each in self._book.all() if each.state != ENDED and each.dataset in self._datasets]
        yield from self._alerts(standing)
        looked = _gauge("chary_alert_last_version_looked", "The version that was looked at last.", "dataset", "alert")
        behind = _gauge(
            "chary_alert_behind_versions", "Versions that are due and were not looked at yet.", "dataset", "alert"
        )
        for each in standing:
            last = max(0, each.version)
            looked.add_metric([each.dataset, each.standing], last)
            version = version_of(self._datasets[each.dataset])
            waits = version - last if each.due(version, self._book.clock()) else 0
            behind.add_metric([each.dataset, each.standing], waits)
        yield from (looked, behind)
        waiting = _gauge("chary_deliveries_waiting", "Events that a receiver has not taken yet.", "receiver")
        failed = CounterMetricFamily(
            "chary_deliveries_failed", "Events that a receiver never took.", labels=["receiver"]
        )
        for name, (due, never) in sorted(self._delivery.waiting().items()):
            waiting.add_metric([name], due)
            failed.add_metric([name], never)
        yield from (waiting, failed)

    def _alerts(self, standing: Iterable[StandingQuestion]) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        active = _gauge("chary_alert_active", "Groups that are active now.", "dataset", "alert", "severity")
        labels = ["dataset", "alert", "change"]
        changed = CounterMetricFamily("chary_alert_transitions", "Groups that fired or cleared.", labels=labels)
        changes = self._feed.changes()
        for each in standing:
            if (severity := self._severity(each)) is not None:
                groups, counted = replayed(changes.get(each.standing, ()))
                active.add_metric([each.dataset, each.standing, severity], len(groups))
                for kind, number in sorted(counted.items()):
                    changed.add_metric([each.dataset, each.standing, kind], number)
        yield from (active, changed)

    def _severity(self, standing: StandingQuestion) -> str | None:
        """That of an alert; None for what is none."""
        run = standing.wish.run
        if run is None:
            return None
        at = (standing.dataset, run)
        if at not in self._severities:
            opened = self._datasets[standing.dataset].session.spine.ledger.call(run)
            said = Alert.recorded(json.loads(opened.body)).severity if opened.kind == Alert.kind else None
            self._severities[at] = said
        return self._severities[at]


def replayed(changes: Iterable[tuple[str, Iterable[str]]]) -> tuple[set[str], Tally[str]]:
    """Which groups are active after these changes, and how often groups fired and cleared; an alert without groups
    counts as one.

    >>> replayed([("fired", ["north", "south"]), ("cleared", ["north"])])
    ({'south'}, Counter({'fired': 2, 'cleared': 1}))
    """
    active: set[str] = set()
    counted: Tally[str] = Tally()
    for kind, named in changes:
        groups = set(named) or {""}
        active = active | groups if kind == FIRED else active - groups
        counted[kind] += len(groups)
    return active, counted


def _gauge(name: str, help_: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, help_, labels=list(labels))
