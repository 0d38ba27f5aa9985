"""Subscriptions: queries that are asked again on new data, with their terms and state; and the feed of their events."""

import hashlib
import json
import secrets
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

from apscheduler.triggers.cron import CronTrigger
from sqlalchemy import ColumnElement, Insert, Select, func, insert, literal, select, update

from chary.client.problems import Refusal
from chary.errors import InvalidParameter
from chary.ledger.entries import now
from chary.numbers import exact
from chary.service.auth.tokens import Principal
from chary.service.core.requests import Wish
from chary.service.store import STANDING, TOLD, ServiceStore

# Subscriptions, as they are stored and shown.

APPEND: Final = "append"
# The `version` of a subscription that was not asked yet.
NEVER: Final = -1
ACTIVE, PAUSED, ENDED = "active", "paused", "ended"
TELL: Final = ("hits", "all")
# Seconds of a lease: after them another process may ask the subscription.
_LEASE: Final = 300.0
# Subscriptions of one analyst on one dataset: each costs work at every tick.
MOST: Final = 100
LONGEST_CRONTAB: Final = 100
_HOUR: Final = 3_600.0
LONGEST_SILENCE: Final = 10 * 365.25 * 24 * _HOUR
# Size of the cache of next times: one for each subscription of a large service.
KEPT: Final = 10_000


@dataclass(frozen=True)
class StandingQuestion:
    """One subscription. `every` is "append" or the five fields of a crontab, in UTC. `share` is the fraction of the
    budget that all its calls together may be charged. `version` is the last version of the rows it was asked about, or
    `NEVER`; `resumed` is the version at which it went on after a pause. Until `silenced` (seconds since 1970) its
    results are not sent.
    """

    standing: str
    analyst: str
    token: str
    dataset: str
    wish: Wish
    every: str
    share: Fraction
    tell: str
    webhook: str | None
    created: float
    state: str
    version: int
    looked: float
    charged: float
    hits: int
    runs: int
    resumed: int | None = None
    silenced: float | None = None

    def came(self, now: float) -> bool:
        """Whether its time has come since the scheduler last looked at it; always, if it is asked at appends."""
        if self.every == APPEND:
            return True
        coming = next_time(self.every, self.looked)
        return coming is not None and coming <= now

    def due(self, version: int, now: float) -> bool:
        """Whether it has to be asked now: its time has come, and the rows have a version it was not asked about."""
        return self.state == ACTIVE and version > self.version and self.came(now)

    def next(self, latest: int) -> int:
        """The version it is asked about next: the following one at appends, the latest one at times."""
        return self.version + 1 if self.every == APPEND else latest

    @property
    def missed(self) -> int | None:
        """The last version before it went on after a pause, if it was not asked about that one; None at times."""
        over = self.resumed is not None and self.every == APPEND and self.version < self.resumed - 1
        return (self.resumed or 0) - 1 if over else None

    def as_dict(self) -> dict[str, Any]:
        """Its public fields, as routes return them."""
        told = {name: value for name, value in vars(self).items() if name not in ("wish", "share", "token", "resumed")}
        return told | {"asked": self.wish.written(), "share": str(self.share)}


class StandingBook:
    """Keeps subscriptions in the service's database."""

    def __init__(self, store: ServiceStore, clock: Callable[[], float] | None = None) -> None:
        self._store, self.clock = store, clock or store.now

    def add(
        self,
        who: Principal,
        dataset: str,
        wish: Wish,
        version: int,
        *,
        every: str,
        share: Any,
        tell: str,
        webhook: str | None,
        key: str | None = None,
    ) -> StandingQuestion:
        """A new subscription, which counts as asked about this version. A key that was used before returns the
        subscription made with it.

        Errors: `InvalidParameter` for an invalid time, share or receiver, for more than `MOST`, and for a key that was
        used with other terms.
        """
        name, now = named(who, dataset, secrets.token_hex(16) if key is None else key), self.clock()
        part = share_of(share, every=every, tell=tell, now=now)
        row: dict[str, Any] = {"standing": name, "analyst": who.analyst, "token": who.token, "dataset": dataset}
        row |= {"asked": json.dumps(wish.written()), "every": every, "share": str(part), "tell": tell}
        row |= {"webhook": webhook, "created": now, "state": ACTIVE, "version": version, "looked": now}
        self._store.add_once(_unless_too_many(row | {"charged": 0.0, "hits": 0, "runs": 0, "busy": 0.0}), "standing")
        rows = self._store.rows(_row_of(name))
        if not rows:
            raise InvalidParameter(f"an analyst has at most {MOST} subscriptions on a dataset: end one")
        return _same(_standing(rows[0]), wish, every=every, share=part, tell=tell, webhook=webhook)

    def under(
        self, who: Principal, dataset: str, wish: Wish, *, share: Any, key: str, **said: Any
    ) -> StandingQuestion | None:
        """The subscription made with a key, in whatever state; None if the key is new. `InvalidParameter` if it was
        used with other terms.
        """
        rows = self._store.rows(_row_of(named(who, dataset, key)))
        return _same(_standing(rows[0]), wish, share=exact(share, "share"), **said) if rows else None

    def found(self, name: str) -> StandingQuestion:
        """The subscription of that name; an error if there is none."""
        return _standing(self._store.rows(_row_of(name))[0])

    def named(self, name: str) -> StandingQuestion | None:
        """The subscription of that name, or None."""
        rows = self._store.rows(_row_of(name))
        return _standing(rows[0]) if rows else None

    def all(
        self,
        dataset: str | None = None,
        *,
        active: bool = False,
        analyst: str | None = None,
        after: int = 0,
        limit: int | None = None,
    ) -> list[StandingQuestion]:
        """All of them, oldest first: on one dataset, of one analyst, if one is named; after this many, this many."""
        statement = select(STANDING).order_by(STANDING.c.created, STANDING.c.standing).offset(after).limit(limit)
        if dataset is not None:
            statement = statement.where(STANDING.c.dataset == dataset)
        if analyst is not None:
            statement = statement.where(STANDING.c.analyst == analyst)
        if active:
            statement = statement.where(STANDING.c.state == ACTIVE)
        return [_standing(row) for row in self._store.rows(statement)]

    def ending_with(self, token: str) -> int:
        """How many subscriptions, alerts too, live as long as this token."""
        own = STANDING.c.token == token, STANDING.c.state != ENDED
        found: int = self._store.rows(select(func.count().label("number")).select_from(STANDING).where(*own))[0].number
        return found

    def held(self, rows: str) -> AbstractContextManager[None]:
        """Lock the rows of a dataset against all processes; `Refusal` while another one holds the lock."""
        return self._store.held(rows, 0)

    def take(self, name: str) -> StandingQuestion | None:
        """Lease a subscription to ask it, and return its current state; None while another process holds the lease.

        On a server the caller holds the lock on the rows. So a lease that is still there is that of a dead process, and
        is taken over at once.
        """
        now = self.clock()
        free = update(STANDING).where(STANDING.c.standing == name)
        if not self._store.on_server:
            free = free.where(STANDING.c.busy < now)
        return self.found(name) if self._store.change(free.values(busy=now + _LEASE)) else None

    def free(self) -> None:
        """Give back every lease, before a service listens: those of one that was killed would hold their subscriptions
        for minutes. What another process asks meanwhile is charged once, under one key."""
        self._store.change(update(STANDING).values(busy=0.0))

    def look(self, standing: StandingQuestion, now: float) -> None:
        """Record that its time came and the rows had nothing new, so it waits for its next time. A lease stays."""
        if standing.every != APPEND:
            self._store.change(update(STANDING).where(STANDING.c.standing == standing.standing).values(looked=now))

    def turn(self, name: str, state: str, version: int) -> StandingQuestion:
        """Pause a subscription, resume it or end it, at that version of the rows. A process that is asking it finishes.

        A resumed one is asked about the current rows. Versions that came during the pause are skipped, and an event
        says so. Errors: `InvalidParameter` for another state, and for a subscription that ended.
        """
        here = update(STANDING).where(STANDING.c.standing == name, STANDING.c.state != ENDED)
        goes_on = here.where(STANDING.c.state == PAUSED).values(state=ACTIVE, resumed=version)
        if state == ACTIVE and self._store.change(goes_on):
            return self.found(name)
        if not self._store.change(here.values(state=state_of(state))):
            raise InvalidParameter("this subscription has ended: let a new one stand")
        return self.found(name)

    def silence(self, name: str, until: float | None) -> StandingQuestion:
        """Send none of its results from now until then (seconds since 1970); None ends the silence.

        It is still asked and charged, and its events are still in the feed.
        """
        self._store.change(update(STANDING).where(STANDING.c.standing == name).values(silenced=until))
        return self.found(name)

    def keep(self, name: str, **changed: Any) -> None:
        """Store changed fields of a subscription, and give its lease back."""
        self._store.change(update(STANDING).where(STANDING.c.standing == name).values(busy=0.0, **changed))


def state_of(said: str) -> str:
    """A state that a subscription can be set to; `InvalidParameter` for anything else."""
    if said not in (ACTIVE, PAUSED, ENDED):
        raise InvalidParameter(f"a subscription is {ACTIVE}, {PAUSED} or {ENDED}")
    return said


def silence_of(now: float, *, until: Any = None, hours: Any = None) -> float | None:
    """When a silence ends: after this many hours, or at a time (in UTC unless it names a zone).

    None for zero hours, which end a silence. Errors: `InvalidParameter` for anything else, for a time in the past, and
    for more than ten years.

    >>> silence_of(0.0, hours="1.5"), silence_of(0.0, until="1970-01-02 01:00+01:00"), silence_of(0.0, hours=0)
    (5400.0, 86400.0, None)
    """
    if hours is not None and until is None:
        end = now + float(exact(hours, "hours")) * _HOUR
    elif hours is None and isinstance(until, str):
        try:
            found = datetime.fromisoformat(until)
        except ValueError:
            raise InvalidParameter('a silence is until a time such as "2026-03-01 06:00", in UTC') from None
        end = (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    else:
        raise InvalidParameter("a silence is for a number of hours, or until a time: give one of them")
    if not now <= end <= now + LONGEST_SILENCE or (end == now and until is not None):
        raise InvalidParameter("a silence ends later than now, and within ten years")
    return None if end == now else end


def share_of(said: Any, *, every: str, tell: str, now: float) -> Fraction:
    """The fraction of the budget for a subscription; also checks its other terms.

    Errors: `InvalidParameter` for an invalid fraction, `tell` or crontab, and for a time that never comes, such as 31
    February.
    """
    part = exact(said, "share")
    if not 0 < part <= 1:
        raise InvalidParameter("share must lie between 0 and 1, such as 0.1")
    if tell not in TELL:
        raise InvalidParameter(f"tell is one of {', '.join(TELL)}")
    if len(every) > LONGEST_CRONTAB:
        raise InvalidParameter(f"every is longer than the {LONGEST_CRONTAB} characters that a crontab may have")
    if every != APPEND and next_time(every, now) is None:
        raise InvalidParameter("every is a time that never comes")
    return part


@lru_cache(maxsize=KEPT)
def next_time(every: str, looked: float) -> float | None:
    """The first time of a crontab after `looked`, in seconds since 1970; None if there is none.

    Cached, since it is slow and needed at every tick.

    >>> next_time("0 0 * * *", 0.0)
    86400.0
    """
    after = datetime.fromtimestamp(looked, UTC) + timedelta(microseconds=1)
    coming = trigger_of(every).get_next_fire_time(None, after)
    return None if coming is None else coming.timestamp()


def trigger_of(every: str) -> CronTrigger:
    """The times of a crontab, in UTC; `InvalidParameter` for an invalid one.

    >>> str(trigger_of("0 6 * * mon"))
    "cron[month='*', day='*', day_of_week='mon', hour='6', minute='0']"
    """
    try:
        return CronTrigger.from_crontab(every, timezone=UTC)
    except (ValueError, TypeError, AttributeError):
        pass
    raise InvalidParameter('every is "append", or the five fields of a crontab, such as "0 6 * * mon"')


def _row_of(name: str) -> Select[Any]:
    return select(STANDING).where(STANDING.c.standing == name)


def _unless_too_many(row: dict[str, Any]) -> Insert:
    """Insert a subscription unless its analyst has `MOST` on the dataset; one statement counts and inserts."""
    own = [STANDING.c[name] == row[name] for name in ("analyst", "dataset")]
    standing = select(func.count()).select_from(STANDING).where(*own, STANDING.c.state != ENDED).scalar_subquery()
    values = [literal(value, STANDING.c[name].type) for name, value in row.items()]
    return insert(STANDING).from_select(list(row), select(*values).where(standing < MOST))


def named(who: Principal, dataset: str, key: str) -> str:
    """The name of the subscription that an analyst makes on a dataset with this key."""
    return hashlib.sha256(json.dumps([who.analyst, dataset, key]).encode()).hexdigest()[:16]


def _same(standing: StandingQuestion, wish: Wish, **said: Any) -> StandingQuestion:
    kept = Wish.of_written(json.dumps(wish.written()))
    if standing.wish == kept and all(getattr(standing, name) == value for name, value in said.items()):
        return standing
    raise InvalidParameter("something else stands under this idempotency key: give it another one")


def _standing(row: Any) -> StandingQuestion:
    said = {name: value for name, value in row._mapping.items() if name not in ("asked", "share", "busy")}
    return StandingQuestion(**said, wish=Wish.of_written(row.asked), share=Fraction(row.share))


# Events of subscriptions, numbered. Each names the call that has the answer, and never contains the answer.


# Events of alerts; other subscriptions have hits and answers.
FIRED, CLEARED, HIT, ANSWER = "fired", "cleared", "hit", "answer"
CHANGES: Final = (FIRED, CLEARED)
# Results about the rows, which a silence holds back. Events about the subscription itself are always sent.
_OUTCOMES: Final = (FIRED, CLEARED, HIT, ANSWER)


@dataclass(frozen=True)
class News:
    """An event: "fired" or "cleared" of an alert, "hit" or "answer" of any other subscription, "unverified", "failing",
    "running out", "skipped" or "ended". It has the version of the rows it is about, and the call with the answer.

    Events of an alert also have its `severity` and `note`, and the `groups` whose state changed, if it has groups.
    """

    kind: str
    version: int
    call: int | None
    detail: str
    severity: str | None = None
    note: str | None = None
    groups: tuple[str, ...] = ()


class Feed:
    """The events of all subscriptions, numbered."""

    def __init__(self, store: ServiceStore, clock: Callable[[], float] | None = None) -> None:
        self._store, self.clock = store, clock or store.now

    def add(self, standing: StandingQuestion, news: News) -> None:
        """Add an event, unless there is one of the same subscription, kind and version."""
        here = (TOLD.c.standing == standing.standing, TOLD.c.kind == news.kind, TOLD.c.version == news.version)
        if not self._store.rows(select(TOLD.c.number).where(*here)):  # a refused insert would use up a number
            self._store.add_once(insert(TOLD).values(**self._row(standing, news)))

    def _row(self, standing: StandingQuestion, news: News) -> dict[str, Any]:
        silenced = self._store.rows(select(STANDING.c.silenced).where(STANDING.c.standing == standing.standing))[0][0]
        silent = news.kind in _OUTCOMES and silenced is not None and self.clock() < silenced
        silent = silent and not (news.kind == CLEARED and self._opened(standing, news.groups))
        row: dict[str, Any] = {"standing": standing.standing, "analyst": standing.analyst, "time": now(), "tries": 0}
        row |= {"dataset": standing.dataset, "webhook": standing.webhook, "silenced": silent or None}
        row |= {"due": 0.0 if standing.webhook and not silent else None}
        return row | vars(news) | {"groups": json.dumps(news.groups) if news.groups else None}

    def _opened(self, standing: StandingQuestion, groups: tuple[str, ...]) -> bool:
        """Whether the firing of one of these groups was sent; then the clearing is sent even during a silence."""
        fired = select(TOLD).where(TOLD.c.standing == standing.standing, TOLD.c.kind == FIRED).order_by(TOLD.c.version)
        sent = {group: not row.silenced for row in self._store.rows(fired) for group in told(row)["groups"] or [""]}
        return any(sent.get(group, False) for group in groups or ("",))

    def skip(self, standing: StandingQuestion, upto: int, why: str) -> StandingQuestion:
        """Skip all versions up to that one, and add an event about it. One transaction does both, so that processes
        which skip at the same time add one event.
        """
        first = standing.version + 1
        which = f"version {upto} was" if first == upto else f"versions {first} to {upto} were"
        row = self._row(standing, News("skipped", upto, None, f"{which} not looked at: {why}"))
        here = update(STANDING).where(STANDING.c.standing == standing.standing, STANDING.c.version == standing.version)
        with self._store.transaction() as connection:
            if connection.execute(here.values(version=upto)).rowcount:
                connection.execute(insert(TOLD).values(**row))
        return replace(standing, version=upto)

    def acknowledge(self, dataset: str, number: int, analyst: str, *, of: str | None = None) -> dict[str, Any]:
        """Acknowledge a "fired" or "hit" event, which is then sent no more. The first to acknowledge it stays on
        record.

        With `of` only events of that analyst's subscriptions are found. Errors: `Refusal` for an unknown event,
        `InvalidParameter` for one of another kind.
        """
        here = *_of(dataset, of), TOLD.c.number == number
        found = self._store.rows(select(TOLD.c.kind).where(*here))
        if not found:
            raise Refusal(404, "there is no event of that number")
        if found[0].kind not in (FIRED, HIT):
            raise InvalidParameter(f"what {FIRED}, or is a {HIT}, is acknowledged: nothing else waits for anybody")
        said = {"acknowledged": now(), "acknowledged_by": analyst, "due": None}
        self._store.change(update(TOLD).where(*here, TOLD.c.acknowledged.is_(None)).values(**said))
        return told(self._store.rows(select(TOLD).where(*here))[0])

    def since(
        self, dataset: str, after: int = 0, limit: int = 100, *, analyst: str | None = None
    ) -> list[dict[str, Any]]:
        """Up to `limit` events of a dataset after that number, oldest first; only those of one analyst, if one is
        named.
        """
        found = select(TOLD).where(*_of(dataset, analyst), TOLD.c.number > after).order_by(TOLD.c.number)
        return [told(row) for row in self._store.rows(found.limit(limit))]

    def latest(self, dataset: str, limit: int = 100, *, analyst: str | None = None) -> list[dict[str, Any]]:
        """Up to `limit` of the latest events of a dataset, newest first; only those of one analyst, if one is named."""
        found = select(TOLD).where(*_of(dataset, analyst)).order_by(TOLD.c.number.desc())
        return [told(row) for row in self._store.rows(found.limit(limit))]

    def changes(self) -> dict[str, list[tuple[str, list[str]]]]:
        """The changes of each alert, oldest first: whether it fired or cleared, and for which groups."""
        statement = select(TOLD).where(TOLD.c.kind.in_(CHANGES)).order_by(TOLD.c.version, TOLD.c.number)
        found: dict[str, list[tuple[str, list[str]]]] = {}
        for row in self._store.rows(statement):
            found.setdefault(row.standing, []).append((row.kind, told(row)["groups"]))
        return found


def _of(dataset: str, analyst: str | None) -> tuple[ColumnElement[bool], ...]:
    """The condition for events of a dataset; only those of one analyst's subscriptions, if one is named."""
    return (TOLD.c.dataset == dataset, *([] if analyst is None else [TOLD.c.analyst == analyst]))


def told(row: Any) -> dict[str, Any]:
    """An event as routes return it: without the state of its delivery."""
    unsaid = ("webhook", "tries", "due")
    found = {name: value for name, value in row._mapping.items() if name not in unsaid}
    return found | {"groups": json.loads(row.groups or "[]"), "silenced": bool(row.silenced)}
