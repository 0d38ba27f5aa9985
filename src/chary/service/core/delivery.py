"""Webhooks: news sent to the places that a chary.toml names, and to no others, again and again until they are taken."""

import json
from collections.abc import Callable
from typing import Any, Final

import httpx
from sqlalchemy import select, update

from chary.client.webhooks import signed
from chary.service.config import ServiceConfig
from chary.service.core.alerts import told
from chary.service.store.store import ServiceStore
from chary.service.store.tables import TOLD

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
