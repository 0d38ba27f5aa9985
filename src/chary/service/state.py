"""The state of an open service: its datasets, store, figures and readiness."""

import asyncio
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final

from fastapi import Depends, Request

from chary.data.spool import remove_left
from chary.errors import InvalidParameter
from chary.ledger import Ledger
from chary.service.auth.rate_limits import OpenStreams, Rates, SharedRates
from chary.service.auth.tokens import OPERATOR, BearerTokens
from chary.service.config import ServiceConfig
from chary.service.core import alerts, delivery, scheduler
from chary.service.core.audit_trail import ACCEPTED, AuditTrail, headed
from chary.service.core.calculations import Calculations
from chary.service.core.datasets import ReportsKept, ServedDatasets, opened_datasets
from chary.service.core.figures import Figures, StoredFigures
from chary.service.core.jobs import Jobs
from chary.service.store import ServiceStore

if TYPE_CHECKING:
    from chary.service.auth.openid import OpenIdLogIn


# Readiness: whether calls can be asked.

_KEPT: Final = 1.0


@dataclass
class Readiness:
    """Caches for a second whether the service is ready, so that requests without a token cause no work.

    >>> readiness = Readiness(clock=iter([5.0, 5.5, 7.0]).__next__)
    >>> looks = iter([False, True])
    >>> [readiness.found(looks.__next__) for _ in range(3)]
    [False, False, True]
    """

    clock: Callable[[], float] = time.monotonic
    _found: bool = field(default=False, init=False)
    _until: float = field(default=float("-inf"), init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def found(self, look: Callable[[], bool]) -> bool:
        """Whether it is ready; calls `look` if the last result is older than a second."""
        with self._lock:
            if (now := self.clock()) >= self._until:
                self._found, self._until = look(), now + _KEPT
            return self._found


# What the routes of one process share.

# Set when this process is asked to stop: then streams end, which would not end by themselves.
STOPPING: Final = threading.Event()
AnyRates = Rates | SharedRates


@dataclass
class Service:
    """Everything a route needs: datasets, tokens, the audit log, calls under way."""

    config: ServiceConfig
    datasets: ServedDatasets
    store: ServiceStore
    tokens: BearerTokens
    log_in: "OpenIdLogIn | None"
    trail: AuditTrail
    jobs: Jobs
    calculations: Calculations
    rates: AnyRates
    failures: AnyRates
    standing: scheduler.StandingRunner
    delivery: delivery.Delivery
    stored: StoredFigures
    woken: asyncio.Event = field(default_factory=asyncio.Event)
    reports: ReportsKept = field(default_factory=ReportsKept)
    streams: OpenStreams = field(default_factory=OpenStreams)
    figures: Figures = field(default_factory=Figures)
    readiness: Readiness = field(default_factory=Readiness)
    stopping: threading.Event = field(default_factory=lambda: STOPPING)

    def close(self) -> int:
        """Wait for calls and close everything; returns how many did not end in time, and keep their reservations."""
        self.calculations.close()
        self.delivery.close(0)
        running = self.jobs.close(self.config.service.stop_seconds)
        running += self.standing.close(0 if running else self.config.service.stop_seconds)
        running += self.delivery.close(0 if running else self.config.service.stop_seconds)
        if not running:
            self.datasets.close()
            self.store.close()
        return running


def opened_service(config: ServiceConfig, accepted: Collection[str] = ()) -> Service:
    """Open the service of a configuration. `accepted` names datasets of which the ledger is taken though it lacks calls
    of the audit log.

    Errors: those of opening sessions, and `InvalidParameter` for a ledger that lacks calls, before anything listens.
    """
    said = config.service
    for webhook in said.webhook:
        config.secret(webhook)
    for mail in said.mail:
        config.password(mail)
    store = ServiceStore(config.place(said.store))
    # Rows of a service that was killed must not wait for the next batch.
    remove_left()
    datasets = opened_datasets(config, partial(_check_ledger, AuditTrail(store), accepted))
    return service_with(config, store, datasets)


def _check_ledger(trail: AuditTrail, accepted: Collection[str], name: str, ledger: Ledger) -> None:
    """Refuse a ledger that would pay a second time for what it has forgotten, unless the operator accepts it: then the
    audit log says so, and goes on from there."""
    if not trail.lacks(name, ledger):
        return
    if name not in accepted:
        raise InvalidParameter(
            f"dataset {name}: its ledger lacks calls that were asked here, so it is an older copy, a new one or "
            "another than was accepted. Put the latest one in its place. If that is lost, charge what was forgotten "
            f"(Restore, in the documentation of the ledger), and start once with --accept-ledger {name}"
        )
    trail.add(OPERATOR, name, ACCEPTED, headed(ledger), None)


def service_with(config: ServiceConfig, store: ServiceStore, datasets: ServedDatasets) -> Service:
    """A service of open datasets and a database."""
    said = config.service
    jobs = Jobs(store, said.threads, said.calls_each)
    calculations = Calculations(said.threads, said.calls_each, said.quote_seconds, STOPPING.is_set)
    tokens, log_in = _known(config, store)
    book, feed, sent = alerts.StandingBook(store), alerts.Feed(store), delivery.Delivery(config, store)
    return Service(
        config=config,
        datasets=datasets,
        store=store,
        tokens=tokens,
        log_in=log_in,
        trail=AuditTrail(store),
        jobs=jobs,
        calculations=calculations,
        rates=_rates(config, store, "token", said.rate, said.burst),
        # Ten failures at once, then one every ten seconds.
        failures=_rates(config, store, "failed", 0.1, 10),
        standing=scheduler.StandingRunner(datasets, tokens, book, feed, jobs.answers, calculations),
        delivery=sent,
        stored=StoredFigures(datasets, book, feed, sent),
    )


def _rates(config: ServiceConfig, store: ServiceStore, kind: str, each_second: float, burst: float) -> AnyRates:
    """The rate limits: in the database if there may be several processes."""
    if store.on_server or config.service.workers > 1:
        return SharedRates(store, kind, each_second, burst)
    return Rates(each_second, burst)


def _known(config: ServiceConfig, store: ServiceStore) -> tuple[BearerTokens, "OpenIdLogIn | None"]:
    """The tokens, and the log-in at an issuer if the chary.toml names one."""
    said = config.service.openid
    if said is None:
        return BearerTokens(store), None
    try:
        from chary.service.auth.openid import OpenIdTokens, log_in_of  # noqa: PLC0415
    except ImportError:
        raise InvalidParameter("tokens of an issuer need the extra oidc: pip install 'chary[oidc]'") from None
    tokens = OpenIdTokens(store, said)
    return tokens, log_in_of(config, tokens)


def service_of(request: Request) -> Service:
    """The service of a request."""
    found: Service = request.app.state.service
    return found


Shared = Annotated[Service, Depends(service_of)]
