"""The page of the budget: charges, alarms and charts over time."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import Response

from chary.amounts import Accounts, Amount
from chary.calls.run import titled
from chary.core.charges import accounts_of
from chary.errors import CharyError
from chary.ledger import CallRecord
from chary.numbers import plain
from chary.report import content, pages
from chary.service.api.alerts import standing_shown
from chary.service.core import alerts, datasets, requests, scheduler
from chary.service.http.admission import Asking
from chary.service.pages import charts, frame, history
from chary.service.pages.episodes import AlertShown, Look, over_time
from chary.service.state import Service

# The budget: what is left and for how long, and where it went over time, by kind and by analyst.

router = APIRouter(prefix="/datasets/{dataset}/budget")
PAGE: Final = frame.Page("budget", "Budget", "look", router)


@router.get("")
def budget_page(request: Request, on: frame.Looker) -> Response:
    """What is spent and left, and what took it."""
    found = budget_so_far(on)
    spine = on.served.session.spine
    told: dict[str, Any] = {"found": found, "promise": spine.filter.budget, "accounting": spine.filter.describe()}
    days, divided = found.days_left(now()), spine.blocks
    told["blocks"] = list(on.served.session.spent_by_block.items())
    told["every"] = None if divided is None else divided.every
    return frame.shown(request, "budget", **told, lasts=None if days is None else lasts(days))


@router.get("/picture.svg")
def picture(on: frame.Looker, dark: bool = False, narrow: bool = False) -> Response:
    """What each kind of call had taken, over time."""
    return charts.drawn(budget_spec(budget_so_far(on), now(), narrow=narrow), dark=dark)


# Where a budget went: over time, by kind and by analyst; and how long what is left will last.

# Whose calls are not shown: what they took together is public, how it was taken is not.
OTHERS: Final = "others"
# A rate takes so many charges, and so many days between the first one and now.
_CHARGES_FOR_RATE: Final = 3
_DAYS_FOR_RATE: Final = 1 / 24
_DAY: Final = 86_400.0
# Up to so many days, a duration is given in units of so many days, with this name.
_UNITS: Final = ((1 / 12, 1 / 1_440, "minutes"), (2.0, 1 / 24, "hours"), (21.0, 1.0, "days"), (730.0, 7.0, "weeks"))
# A picture has so many steps at most: those in between change no pixel.
_STEPS: Final = 400


@dataclass(frozen=True)
class Portion:
    """What the calls of one analyst, or of one kind, took together, as a fraction of the budget."""

    name: str
    calls: int
    tests: int
    hits: int
    share: float


@dataclass(frozen=True)
class BudgetSoFar:
    """What became of a budget, as somebody is shown it. Shares are of the account that lives, `accounts` works them
    out."""

    spent: float
    left: float
    charges: tuple[datasets.Charge, ...]
    accounts: Accounts

    @property
    def by_kind(self) -> list[Portion]:
        """By kind of call, the largest first."""
        return self._portions("kind")

    @property
    def by_analyst(self) -> list[Portion]:
        """By analyst, the largest first."""
        return self._portions("analyst")

    def days_left(self, now: datetime) -> float | None:
        """How many days what is left lasts at the rate so far; None where it is too early to tell."""
        paid = self._paid
        days = (now - datetime.fromisoformat(paid[0].time)).total_seconds() / _DAY if paid else 0.0
        if sum(charge.calls for charge in paid) < _CHARGES_FOR_RATE or days < _DAYS_FOR_RATE:
            return None
        return (1 - self.spent) / (self.spent / days)

    def steps(self, until: datetime) -> list[dict[str, Any]]:
        """What each kind had taken in all after each charge, in per cent of the budget; the last one until then."""
        taken = {portion.name: (Amount(0), 0) for portion in self.by_kind if portion.share}
        found: list[dict[str, Any]] = []
        paid = self._paid
        every = len(paid) // _STEPS + 1
        for place, charge in enumerate(paid, 1):
            charged, basic = taken[charge.kind]
            taken[charge.kind] = charged + charge.charged, basic + charge.basic
            if place % every == 0 or place == len(paid):
                found += self._step(charge.time, taken)
        return found + self._step(until.isoformat(), taken)

    @property
    def _paid(self) -> list[datasets.Charge]:
        return [charge for charge in self.charges if self.accounts.taken(charge.charged, charge.basic)]

    def _step(self, time: str, taken: Mapping[str, tuple[Amount, int]]) -> list[dict[str, Any]]:
        return [{"time": time, "kind": kind, "taken": 100 * self.accounts.taken(*part)} for kind, part in taken.items()]

    def _portions(self, by: str) -> list[Portion]:
        def name(charge: datasets.Charge) -> str:
            return str(getattr(charge, by))

        grouped = ((key, list(group)) for key, group in groupby(sorted(self.charges, key=name), key=name))
        portions = (self._portion(key, group) for key, group in grouped)
        return sorted(portions, key=lambda portion: (-portion.share, portion.name))

    def _portion(self, name: str, charges: list[datasets.Charge]) -> Portion:
        calls, tests, hits = (sum(getattr(charge, part) for charge in charges) for part in ("calls", "tests", "hits"))
        charged, basic = sum((each.charged for each in charges), Amount(0)), sum(each.basic for each in charges)
        return Portion(name, calls, tests, hits, self.accounts.taken(charged, basic))


def budget_so_far(on: Asking) -> BudgetSoFar:
    """The budget of a dataset, with the calls that are shown to somebody; of all others only what they took."""
    session = on.served.asked_by(on.who.analyst)
    spine = session.spine
    taken = on.served.charges.all(spine.ledger, spine.dataset)
    charges = tuple(_shown(charge, on.served.shows(on.who, charge.analyst)) for charge in taken)
    return BudgetSoFar(session.spent.share, session.remaining.share, charges, accounts_of(spine.ledger, spine.dataset))


def lasts(days: float) -> str:
    """How long something lasts, in words.

    >>> lasts(0.01), lasts(0.5), lasts(3.2), lasts(100), lasts(4000)
    ('14 minutes', '12 hours', '3.2 days', '14 weeks', '11 years')
    """
    for most, unit, word in _UNITS:
        if days < most:
            return f"{days / unit:.2g} {word}"
    return f"{days / 365.25:.2g} years"


def now() -> datetime:
    """The time that rates are given."""
    return datetime.now(UTC)


def _shown(charge: datasets.Charge, shown: bool) -> datasets.Charge:
    if not shown:
        return charge._replace(analyst=OTHERS, kind=OTHERS, tests=0, hits=0)
    return charge._replace(kind=titled(charge.kind))


# What subscriptions found over time: about each version of the rows one answer.

# The latest are drawn and listed; all are in the history.
MOST: Final = 40
_ALL: Final = 2**31 - 1


@dataclass(frozen=True)
class Watched:
    """A subscription with what it found so far, oldest first, and how long its fraction lasts."""

    standing: alerts.StandingQuestion
    looks: tuple[Look, ...]
    lasting: scheduler.Lasting | None
    says: str
    own: bool
    alert: AlertShown | None = None

    @property
    def title(self) -> str:
        """Its kind, as people read it."""
        if self.alert is not None:
            return "Alert"
        return titled(str(self.standing.wish.body.get("kind", "question")))

    @property
    def question(self) -> str:
        """What is asked, in a line."""
        if self.alert is not None:
            asked = self.alert.opened.body()
            return content.question_told({name: asked[name] for name in asked if name not in ("severity", "note")})
        return asked_told(self.standing.wish)

    @property
    def when(self) -> str:
        """When it is asked."""
        return (
            "at every append"
            if self.standing.every == alerts.APPEND
            else f"at {self.standing.every} (UTC), if rows are new"
        )

    @property
    def doubtful(self) -> bool:
        """Whether any of its values may be a false alarm."""
        return any(value.may_be_false for look in self.looks for value in look.replay.values)

    @property
    def alt(self) -> str:
        """What its picture shows, for who cannot see it."""
        alarms = sum(look.hits > 0 for look in self.looks)
        last = f" The last one: {told_of(self.looks[-1])}." if self.looks else ""
        if self.alert is not None:
            active = ", ".join(filter(None, self.alert.active)) or ("yes" if self.alert.active else "none")
            return f"Alert: {alarms} of {len(self.looks)} versions changed a state. Active now: {active}.{last}"
        return f"{self.title}: {alarms} of {len(self.looks)} versions of the rows gave an alarm.{last}"


def watched(service: Service, on: Asking) -> list[Watched]:
    """The subscriptions that are shown to somebody, newest first."""
    standing = standing_shown(service, on)
    looks, news = _looks(on, standing), defaultdict[str, list[dict[str, Any]]](list)
    for each in service.standing.feed.since(on.served.name, limit=_ALL):
        news[each["standing"]].append(each)
    return [_watched(service, on, each, looks[each.standing], news[each.standing]) for each in reversed(standing)]


def asked_told(wish: requests.Wish) -> str:
    """What a request asks, in a line.

    >>> from chary.service.core.requests import Wish
    >>> asked_told(Wish("ask", {"kind": "test", "query": {"kind": "count", "where": "age >= 65"}, "above": 500}))
    'count where age >= 65, above 500'
    """
    told = content.question_told(dict(wish.body))
    return told if wish.run is None else f"{told}, of the run of call {wish.run}"


def _watched(
    service: Service, on: Asking, standing: alerts.StandingQuestion, looks: list[Look], news: list[dict[str, Any]]
) -> Watched:
    said = _last_words(news)
    says = "" if said is None or _over(said, standing, looks) else said.detail
    own = standing.analyst == on.who.analyst
    run = scheduler.alert_run(on.served.asked_by(standing.analyst), standing)
    alert = None if run is None else AlertShown.of(run, news)
    return Watched(standing, tuple(looks), _lasting(service, on, standing), says, own, alert)


def _over(said: alerts.News, standing: alerts.StandingQuestion, looks: list[Look]) -> bool:
    """Whether what was said last is not so any more: it was asked since."""
    answered = bool(looks) and looks[-1].version == standing.version
    return {"failing": said.version <= standing.version, "unverified": answered}.get(said.kind, False)


def _lasting(service: Service, on: Asking, standing: alerts.StandingQuestion) -> scheduler.Lasting | None:
    """How long it lasts; None also for one that could not be asked now, which ends when it is due."""
    if standing.state != alerts.ACTIVE:
        return None
    try:
        quoted = scheduler.quote_of(on.served, on.who, on.served.asked_by(standing.analyst), standing.wish)
    except CharyError:
        return None
    return scheduler.lasting(standing, quoted, service.standing.book.clock())


def _looks(on: Asking, standing: Iterable[alerts.StandingQuestion]) -> Mapping[str, list[Look]]:
    """The latest answers of each subscription, by its name."""
    spine = on.served.session.spine
    found: dict[str, dict[int, CallRecord]] = {}
    for each in standing:
        latest = range(max(1, each.version - MOST + 1), each.version + 1)
        wanted = {scheduler.key_of(each, version): version for version in latest}
        asked = spine.ledger.calls(spine.dataset, analyst=each.analyst, keys=scheduler.key_of(each, ""))
        answered = (record for record in asked if record.request in wanted and record.answer is not None)
        found[each.standing] = {wanted[record.request or ""]: record for record in answered}
    return defaultdict(list, {name: _replayed(on, records) for name, records in found.items()})


def _replayed(on: Asking, records: Mapping[int, CallRecord]) -> list[Look]:
    versions = sorted(records)
    told = history.replays(on.served, [records[version] for version in versions])
    came = {each.number: each.time for each in on.served.session.versions}
    return [
        Look(version, came.get(version) or replay.entry.time, replay)
        for version, replay in zip(versions, told, strict=True)
    ]


def _last_words(news: list[dict[str, Any]]) -> alerts.News | None:
    """What was said last of a subscription: why it ended, that it fails, that it runs out."""
    said = [each for each in news if each["detail"] and each["kind"] != "skipped"]
    return alerts.News(*(said[-1][name] for name in ("kind", "version", "call", "detail"))) if said else None


def told_of(look: Look) -> str:
    """The values with their intervals, in words; what came out where there are none."""
    return "; ".join(map(_told, look.replay.values)) or look.replay.outcome


def _told(value: content.PublishedValue) -> str:
    """A value with its interval.

    >>> from chary.report.content import PublishedValue
    >>> _told(PublishedValue("north", 512, None, 570.0, True, "may be a false alarm"))
    'north 512 (up to 570), may be a false alarm'
    """
    ends = f" ({pages.interval(value)})" if value.bounded else ""
    told = f"{value.key} {plain(value.value)}".strip() + ends
    return f"{told}, {value.caution}" if value.caution else told


# Pictures of what is looked at over time, as Vega-Lite specifications without colours of their own.

_WIDTH: Final = 520
_NARROW: Final = 250


def budget_spec(found: BudgetSoFar, until: datetime, *, narrow: bool = False) -> dict[str, Any]:
    """What each kind of call had taken, stacked over time."""
    kinds = [portion.name for portion in found.by_kind if portion.share]
    return {
        "width": _NARROW if narrow else _WIDTH,
        "height": 190,
        "data": {"values": found.steps(until)},
        "mark": {"type": "area", "interpolate": "step-after", "line": True, "opacity": 0.75},
        "encoding": {
            "x": {
                "field": "time",
                "type": "temporal",
                "title": "UTC",
                "scale": {"type": "utc"},
                "axis": {"tickCount": 5, "labelOverlap": True},
            },
            "y": {
                "field": "taken",
                "type": "quantitative",
                "stack": "zero",
                "title": "% of the budget",
                "scale": {"domain": [0, 100]},
            },
            "color": {"field": "kind", "type": "nominal", "title": None, "sort": kinds},
            "order": {"field": "kind"},
        },
    }


def alarms_spec(found: Watched, *, narrow: bool = False) -> dict[str, Any]:
    """What was found, by the times when the versions of the rows came."""
    return over_time(found.looks, None if found.alert is None else found.alert.opened, now(), narrow=narrow)
