"""Delivery of events to the receivers that a chary.toml names, and to no others, with repeated tries.

A receiver is a webhook or a mail address; the `webhook` of a subscription names either.
"""

import json
import logging
import smtplib
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final, Protocol

import httpx
from sqlalchemy import case, func, or_, select, update

from chary.client.webhooks import signed
from chary.service.config import PAGERDUTY, Mail, ServiceConfig, Webhook
from chary.service.core import messages
from chary.service.core.alerts import CHANGES, CLEARED, FIRED, told
from chary.service.core.calculations import Workers
from chary.service.store import TOLD, ServiceStore

LOG: Final = logging.getLogger("chary.service")
_SECONDS: Final = 5.0
# The pause before another try: from ten seconds, doubled up to ten minutes. The last try comes after three days.
_FIRST: Final = 10.0
_LONGEST_PAUSE: Final = 600.0
_TRIES: Final = 440
# Seconds of a lease: after them another process may send the event. A mail waits for up to ten answers.
_LEASE: Final = 60.0
_AT_ONCE: Final = 50
_JSON: Final = {"Content-Type": "application/json"}


class AwayError(Exception):
    """A receiver does not answer. The reason is dropped, since it may contain the address."""


class Receiver(Protocol):
    """A receiver of events: `take` returns whether it accepted an event, and raises `AwayError` if it does not answer.

    `since` has, for each group that the event reports as cleared, the version at which it fired.
    """

    def take(self, news: messages.News, since: Mapping[str, int], moment: int) -> bool:
        """Send the event once."""


class Hook:
    """A webhook that gets one POST, or for PagerDuty one for each group."""

    def __init__(self, said: Webhook, secret: bytes) -> None:
        self._form, self._secret = said.form, secret
        self._url = said.url or (secret.decode() if said.form == "slack" else PAGERDUTY)
        # No connection is kept open, since events are rare.
        alone = httpx.Limits(max_keepalive_connections=0)
        self._client = httpx.Client(timeout=_SECONDS, follow_redirects=False, trust_env=False, limits=alone)
        # How many POSTs of a partly accepted event were accepted. Repeating one does no harm.
        self._taken: dict[tuple[int, bool], int] = {}

    def take(self, news: messages.News, since: Mapping[str, int], moment: int) -> bool:
        """Send the event, without the groups that were accepted before. If it takes too long, the next try goes on from
        there.
        """
        number, until = news["number"], time.monotonic() + _LEASE / 2
        which = (number, bool(news["acknowledged"]))
        for event in self._events(news, since)[self._taken.get(which, 0) :]:
            if time.monotonic() > until or not self._posted(event, number, moment):
                return False
            self._taken[which] = self._taken.get(which, 0) + 1
        self._taken.pop(which, None)
        return True

    def _events(self, news: messages.News, since: Mapping[str, int]) -> list[Mapping[str, Any]]:
        if self._form == "pagerduty":
            return [{"routing_key": self._secret.decode(), **each} for each in messages.events(news, since)]
        return [news if self._form == "generic" else messages.chat(news)]

    def _posted(self, event: Mapping[str, Any], number: int, moment: int) -> bool:
        body, named = json.dumps(event, sort_keys=True).encode(), f"chary_{number}"
        # Events of PagerDuty have keys of their own in their bodies.
        headers = {"slack": {"webhook-id": named}, "pagerduty": {}}.get(self._form)
        headers = signed(self._secret, named, moment, body) if headers is None else headers
        try:
            # The body of the answer is not read.
            with self._client.stream("POST", self._url, content=body, headers=headers | _JSON) as response:
                return response.is_success
        except (httpx.HTTPError, httpx.InvalidURL):
            raise AwayError from None


class Post:
    """A mail, by SMTP."""

    def __init__(self, said: Mail, password: str | None) -> None:
        self._said, self._password = said, password

    def take(self, news: messages.News, since: Mapping[str, int], moment: int) -> bool:
        """Send one mail to all addresses. A refused address does not keep it from the others."""
        said = self._said
        told = messages.mail(news, said.sender, said.to)
        try:
            with self._open() as server:
                try:
                    refused = server.send_message(told, said.sender, list(said.to))
                except (smtplib.SMTPResponseException, smtplib.SMTPRecipientsRefused):
                    return False
                if refused:
                    LOG.warning('{"event": "mail", "refused": %d, "of": %d}', len(refused), len(said.to))
                return True
        except OSError:  # all errors of SMTP are of this type
            raise AwayError from None

    @contextmanager
    def _open(self) -> Iterator[smtplib.SMTP]:
        said, named = self._said, self._said.sender.rpartition("@")[2]
        if said.tls == "tls":
            known = ssl.create_default_context()
            server: smtplib.SMTP = smtplib.SMTP_SSL(said.host, said.at, named, timeout=_SECONDS, context=known)
        else:
            server = smtplib.SMTP(said.host, said.at, named, timeout=_SECONDS)
        try:
            if said.tls == "starttls":
                server.starttls(context=ssl.create_default_context())
            if said.user is not None:
                server.login(said.user, self._password or "")
            yield server
            with suppress(OSError):  # an accepted mail stays accepted, however the connection ends
                server.quit()
        finally:
            server.close()


class Delivery:
    """Sends the events of the feed.

    Guarantee: events go to the receivers of the chary.toml alone, without following redirects, and at least once. Each
    has an identity, so that a repeated one is recognized. The clearing of an alert comes after its firing. An event
    that is not accepted within three days stays in the feed. A slow or silent receiver delays no other one.
    """

    def __init__(self, config: ServiceConfig, store: ServiceStore, clock: Callable[[], float] | None = None) -> None:
        said = config.service
        self._receivers: dict[str, Receiver] = {
            name: Hook(each, config.secret(name)) for name, each in said.webhook.items()
        } | {name: Post(each, config.password(name)) for name, each in said.mail.items()}
        self._duties = [name for name, each in said.webhook.items() if each.form == "pagerduty"]
        self._store, self._clock = store, clock or store.now
        self._workers = Workers(max(1, len(self._receivers)))

    @property
    def receivers(self) -> list[str]:
        """The names of all receivers."""
        return sorted(self._receivers)

    def tick(self) -> int:
        """Send what is due; returns how many events were accepted."""
        return sum(future.result() for future in self.begin())

    def begin(self) -> "list[Future[int]]":
        """Start to send what is due, each receiver in a thread of its own; the futures hold how many events it
        accepted.
        """
        names = [row.webhook for row in self._store.rows(select(TOLD.c.webhook).distinct().where(*self._due()))]
        return self._workers.begin({name: partial(self._sent_in_turn, name) for name in names})

    def acknowledged(self, number: int) -> None:
        """Tell PagerDuty that this event is acknowledged, if it was sent there."""
        mine = TOLD.c.number == number, TOLD.c.webhook.in_(self._duties), TOLD.c.tries.between(1, _TRIES)
        self._store.change(update(TOLD).where(*mine).values(due=0.0, tries=0))

    def close(self, seconds: float) -> int:
        """Send nothing more, and wait this long for running threads; returns how many receivers still have one.

        Their events are sent again by the next process that sends.
        """
        return self._workers.close(seconds)

    def waiting(self) -> dict[str, tuple[int, int]]:
        """For each receiver how many events wait for it, and how many it never accepted."""
        never = case((TOLD.c.tries > _TRIES, 1))
        counted = select(TOLD.c.webhook, func.count(TOLD.c.due).label("due"), func.count(never).label("never"))
        found = self._store.rows(counted.where(TOLD.c.webhook.is_not(None)).group_by(TOLD.c.webhook))
        none = dict.fromkeys(self.receivers, (0, 0))
        return none | {row.webhook: (row.due, row.never) for row in found}

    def _due(self) -> tuple[Any, ...]:
        """Conditions for events to send now. A change of an alert waits for the change before it, to keep the order."""
        before = TOLD.alias()
        held_up = (
            select(before.c.number)
            .where(before.c.standing == TOLD.c.standing, before.c.number < TOLD.c.number)
            .where(before.c.kind.in_(CHANGES), before.c.due.is_not(None))
            .exists()
        )
        now = self._clock()
        return TOLD.c.due.is_not(None), TOLD.c.due <= now, or_(TOLD.c.kind.not_in(CHANGES), ~held_up)

    def _sent_in_turn(self, name: str) -> int:
        """Send until nothing more is accepted: an accepted event may have been what another one waits for."""
        taken = 0
        try:
            while not self._workers.closing:
                mine = select(TOLD).where(*self._due(), TOLD.c.webhook == name).order_by(TOLD.c.number).limit(_AT_ONCE)
                before = taken
                for row in self._store.rows(mine):
                    taken += not self._workers.closing and self._sent(row)
                if taken == before:
                    break
        except AwayError:
            pass
        except Exception as error:  # only its type is logged; the event is sent again
            LOG.error('{"event": "delivery", "error": "%s"}', type(error).__name__)
        return taken

    def _sent(self, row: Any) -> bool:
        mine = update(TOLD).where(TOLD.c.number == row.number, TOLD.c.tries == row.tries)
        receiver = self._receivers.get(row.webhook)
        if receiver is None or row.tries >= _TRIES:
            self._store.change(mine.values(tries=_TRIES + 1, due=None))
            return False
        if not self._store.change(mine.values(tries=row.tries + 1, due=self._clock() + _LEASE)):
            return False  # another process sends it
        try:
            taken = receiver.take(told(row), self._since(row), int(self._clock()))
        except AwayError:
            self._done(row, self._clock() + _pause(row.tries))
            raise
        self._done(row, None if taken else self._clock() + _pause(row.tries))
        return taken

    def _done(self, row: Any, due: float | None) -> None:
        """Store the result of a try, unless another process changed the event meanwhile."""
        mine = TOLD.c.number == row.number, TOLD.c.tries == row.tries + 1, TOLD.c.due.is_not(None)
        self._store.change(update(TOLD).where(*mine).values(due=due))

    def _since(self, row: Any) -> dict[str, int]:
        """The version at which each group fired, for an event that reports groups as cleared."""
        if row.kind != CLEARED:
            return {}
        fired = select(TOLD).where(TOLD.c.standing == row.standing, TOLD.c.kind == FIRED)
        found = self._store.rows(fired.where(TOLD.c.version < row.version).order_by(TOLD.c.version))
        return {group: each.version for each in found for group in told(each)["groups"] or [""]}


def _pause(tried: int) -> float:
    """Seconds until the next try, after this many tries before this one."""
    return min(_LONGEST_PAUSE, _FIRST * 2.0 ** min(tried, 10))
