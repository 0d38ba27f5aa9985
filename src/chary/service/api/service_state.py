"""What the routes of one process share."""

import asyncio
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Final

from fastapi import Depends, Request

from chary.errors import InvalidParameter
from chary.service.access.audit_trail import AuditTrail
from chary.service.access.bearer_tokens import BearerTokens
from chary.service.access.open_streams import OpenStreams
from chary.service.access.rates import Rates
from chary.service.access.readiness import Readiness
from chary.service.access.shared_rates import SharedRates
from chary.service.api.figures_kept import Figures
from chary.service.keeping.service_store import ServiceStore
from chary.service.serving.calculations import Calculations
from chary.service.serving.jobs import Jobs
from chary.service.serving.reports_kept import ReportsKept
from chary.service.serving.served_datasets import ServedDatasets, opened_datasets
from chary.service.serving.service_config import ServiceConfig
from chary.service.standing.standing_book import StandingBook
from chary.service.standing.standing_runner import StandingRunner
from chary.service.telling.feed import Feed
from chary.service.telling.webhooks import Webhooks

if TYPE_CHECKING:
    from chary.service.access.openid_login import OpenIdLogIn

# Set when this process was asked to stop: streams end then, since they would end at no time of their own.
STOPPING: Final = threading.Event()
AnyRates = Rates | SharedRates


@dataclass
class Service:
    """Datasets, tokens, the trail, what is under way: everything a route needs."""

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
    standing: StandingRunner
    webhooks: Webhooks
    woken: asyncio.Event = field(default_factory=asyncio.Event)
    reports: ReportsKept = field(default_factory=ReportsKept)
    streams: OpenStreams = field(default_factory=OpenStreams)
    figures: Figures = field(default_factory=Figures)
    readiness: Readiness = field(default_factory=Readiness)
    stopping: threading.Event = field(default_factory=lambda: STOPPING)

    def close(self) -> int:
        """Let calls end and close everything; returns how many did not end in time: their reservations are kept."""
        self.calculations.close()
        running = self.jobs.close(self.config.service.stop_seconds)
        running += self.standing.close(0 if running else self.config.service.stop_seconds)
        if not running:
            self.datasets.close()
            self.store.close()
        return running


def opened_service(config: ServiceConfig) -> Service:
    """Open what a configuration names. Errors: those of opening sessions, before anything listens."""
    said = config.service
    for webhook in said.webhook:
        config.secret(webhook)
    store = ServiceStore(config.place(said.store))
    return service_with(config, store, opened_datasets(config))


def service_with(config: ServiceConfig, store: ServiceStore, datasets: ServedDatasets) -> Service:
    """A service of datasets that are open, and of a database."""
    said = config.service
    jobs = Jobs(store, said.threads, said.calls_each)
    calculations = Calculations(said.threads, said.calls_each, said.quote_seconds, STOPPING.is_set)
    tokens, log_in = _known(config, store)
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
        standing=StandingRunner(datasets, tokens, StandingBook(store), Feed(store), jobs.answers, calculations),
        webhooks=Webhooks(config, store),
    )


def _rates(config: ServiceConfig, store: ServiceStore, kind: str, each_second: float, burst: float) -> AnyRates:
    """One bucket for all processes, where there may be several."""
    if store.on_server or config.service.workers > 1:
        return SharedRates(store, kind, each_second, burst)
    return Rates(each_second, burst)


def _known(config: ServiceConfig, store: ServiceStore) -> tuple[BearerTokens, "OpenIdLogIn | None"]:
    """The tokens that are known, and how somebody logs in at an issuer, if the chary.toml names one."""
    said = config.service.openid
    if said is None:
        return BearerTokens(store), None
    try:
        from chary.service.access.openid_login import log_in_of  # noqa: PLC0415
        from chary.service.access.openid_tokens import OpenIdTokens  # noqa: PLC0415
    except ImportError:
        raise InvalidParameter("tokens of an issuer need the extra oidc: pip install 'chary[oidc]'") from None
    tokens = OpenIdTokens(store, said)
    return tokens, log_in_of(config, tokens)


def service_of(request: Request) -> Service:
    """The service of a request."""
    found: Service = request.app.state.service
    return found


Shared = Annotated[Service, Depends(service_of)]
