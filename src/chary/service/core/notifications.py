"""Notifications of alerts: the feed of events, and webhooks."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import httpx
from sqlalchemy import insert, select, update

from chary.client.transport import signed
from chary.ledger.entries import now
from chary.service.config import ServiceConfig
from chary.service.core.alerts import StandingQuestion
from chary.service.store.store import ServiceStore
from chary.service.store.tables import TOLD

# What standing questions found, in order: told once each, with the call that has the answer, never the answer.


@dataclass(frozen=True)
class News:
    """What is told: "hit", "answer", "unverified", "failing", "running out" or "ended", of which version, and
    which call has the answer."""

    kind: str
    version: int
    call: int | None
    detail: str


class Feed:
    """The news of all standing questions, numbered."""

    def __init__(self, store: ServiceStore) -> None:
        self._store = store

    def add(self, standing: StandingQuestion, news: News) -> None:
        """Tell it, unless it was told before: the same kind of news of one version is told once."""
        row: dict[str, Any] = {"standing": standing.standing, "analyst": standing.analyst, "time": now(), "tries": 0}
        row |= {"dataset": standing.dataset, "webhook": standing.webhook, "due": 0.0 if standing.webhook else None}
        here = (TOLD.c.standing == standing.standing, TOLD.c.kind == news.kind, TOLD.c.version == news.version)
        if not self._store.rows(select(TOLD.c.number).where(*here)):  # numbers are not used up in vain
            self._store.add_once(insert(TOLD).values(**row, **vars(news)))

    def since(
        self, dataset: str, after: int = 0, limit: int = 100, *, analyst: str | None = None
    ) -> list[dict[str, Any]]:
        """So many news of a dataset from that number on, oldest first; only those of one analyst, if one is named."""
        statement = select(TOLD).where(TOLD.c.dataset == dataset, TOLD.c.number > after).order_by(TOLD.c.number)
        if analyst is not None:
            statement = statement.where(TOLD.c.analyst == analyst)
        return [told(row) for row in self._store.rows(statement.limit(limit))]


def told(row: Any) -> dict[str, Any]:
    """What is told of one piece of news."""
    names = ("number", "standing", "analyst", "dataset", "time", "kind", "version", "call", "detail")
    return {name: row._mapping[name] for name in names}


# Webhooks: news sent to the places that a chary.toml names, and to no others, again and again until they are taken.

_SECONDS: Final = 5.0
# Ten seconds, then twice as long each time: the last try comes after three days.
_FIRST: Final = 10.0
_TRIES: Final = 15
_AT_ONCE: Final = 50


class Webhooks:
    """Sends what was told.

    Guarantee: to the addresses of the chary.toml alone, without following redirects; each message is signed anew and
    has the number of its news, so that one that comes twice is known. What is not taken after 15 tries stays in the
    feed.
    """

    def __init__(self, config: ServiceConfig, store: ServiceStore, clock: Callable[[], float] | None = None) -> None:
        self._places = {name: (each.url, config.secret(name)) for name, each in config.service.webhook.items()}
        self._store, self._clock = store, clock or store.now

    def known(self, name: str) -> bool:
        """Whether the chary.toml names it."""
        return name in self._places

    def tick(self) -> int:
        """Send what is due; returns how many messages were taken."""
        waiting = select(TOLD).where(TOLD.c.due.is_not(None), TOLD.c.due <= self._clock()).limit(_AT_ONCE)
        rows = self._store.rows(waiting.order_by(TOLD.c.number)) if self._places else []
        if not rows:
            return 0
        with httpx.Client(timeout=_SECONDS, follow_redirects=False, trust_env=False) as client:
            return sum(self._sent(client, row) for row in rows)

    def _sent(self, client: httpx.Client, row: Any) -> bool:
        tries, place = row.tries + 1, self._places.get(row.webhook)
        again = None if tries >= _TRIES or place is None else self._clock() + _FIRST * 2**row.tries
        mine = update(TOLD).where(TOLD.c.number == row.number, TOLD.c.tries == row.tries)
        if not self._store.change(mine.values(tries=tries, due=again)) or place is None:
            return False  # another process sends it
        taken = self._taken(client, *place, row)
        if taken:
            self._store.change(update(TOLD).where(TOLD.c.number == row.number).values(due=None))
        return taken

    def _taken(self, client: httpx.Client, url: str, secret: bytes, row: Any) -> bool:
        body = json.dumps(told(row), sort_keys=True).encode()
        headers = signed(secret, f"chary_{row.number}", int(self._clock()), body)
        try:
            return client.post(url, content=body, headers=headers | {"Content-Type": "application/json"}).is_success
        except (httpx.HTTPError, httpx.InvalidURL):
            return False
