"""What standing questions found over time: about each version of the rows one answer."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from chary.errors import CharyError
from chary.ledger import CallRecord
from chary.numbers import plain
from chary.report.content import PublishedValue, question_told, titled
from chary.report.pages import interval
from chary.service.api.places import Asking
from chary.service.api.service_state import Service
from chary.service.api.standing_routes import standing_shown
from chary.service.page.asking.replays import Replay, replays
from chary.service.serving.wishes import Wish
from chary.service.standing.standing_book import ACTIVE, APPEND, StandingQuestion
from chary.service.standing.standing_runner import Lasting, key_of, lasting, quote_of
from chary.service.telling.feed import News

# The latest are drawn and listed; all are in the history.
MOST: Final = 40
_ALL: Final = 2**31 - 1


@dataclass(frozen=True)
class Look:
    """What was found about one version of the rows."""

    version: int
    replay: Replay

    @property
    def hits(self) -> int:
        """How many of its tests were alarms."""
        return self.replay.entry.hits

    @property
    def told(self) -> str:
        """The values with their intervals, in words; what came out where there are none."""
        return "; ".join(map(_told, self.replay.values)) or self.replay.outcome


@dataclass(frozen=True)
class Watched:
    """A standing question with what it found so far, oldest first, and how long its share lasts."""

    standing: StandingQuestion
    looks: tuple[Look, ...]
    lasting: Lasting | None
    says: str
    own: bool

    @property
    def title(self) -> str:
        """Its kind, as people read it."""
        return titled(str(self.standing.wish.body.get("kind", "question")))

    @property
    def question(self) -> str:
        """What is asked, in a line."""
        return asked_told(self.standing.wish)

    @property
    def when(self) -> str:
        """When it is asked."""
        return (
            "at every append" if self.standing.every == APPEND else f"at {self.standing.every} (UTC), if rows are new"
        )

    @property
    def doubtful(self) -> bool:
        """Whether any of its values may be a false alarm."""
        return any(value.may_be_false for look in self.looks for value in look.replay.values)

    @property
    def alt(self) -> str:
        """What its picture shows, for who cannot see it."""
        alarms = sum(look.hits > 0 for look in self.looks)
        last = f" The last one: {self.looks[-1].told}." if self.looks else ""
        return f"{self.title}: {alarms} of {len(self.looks)} versions of the rows gave an alarm.{last}"

    def bars(self) -> list[dict[str, Any]]:
        """What its picture is drawn from: for each version its values with intervals, or its number of alarms."""
        valued = any(look.replay.values for look in self.looks)
        return [row for look in self.looks for row in (_valued(look) if valued else counted(look))]


def watched(service: Service, on: Asking) -> list[Watched]:
    """The standing questions that are shown to somebody, newest first."""
    standing = standing_shown(service, on)
    looks = _looks(service, on, standing)
    said = _last_words(service, on)
    return [_watched(service, on, each, looks[each.standing], said.get(each.standing)) for each in reversed(standing)]


def asked_told(wish: Wish) -> str:
    """What a wish asks, in a line.

    >>> asked_told(Wish("ask", {"kind": "test", "query": {"kind": "count", "where": "age >= 65"}, "above": 500}))
    'count where age >= 65, above 500'
    """
    told = question_told(dict(wish.body))
    return told if wish.run is None else f"{told}, of the run of call {wish.run}"


def _watched(service: Service, on: Asking, standing: StandingQuestion, looks: list[Look], said: News | None) -> Watched:
    says = "" if said is None or _over(said, standing, looks) else said.detail
    own = standing.analyst == on.who.analyst
    return Watched(standing, tuple(looks), _lasting(service, on, standing), says, own)


def _over(said: News, standing: StandingQuestion, looks: list[Look]) -> bool:
    """Whether what was said last is not so any more: it was asked since."""
    answered = bool(looks) and looks[-1].version == standing.version
    return {"failing": said.version <= standing.version, "unverified": answered}.get(said.kind, False)


def _lasting(service: Service, on: Asking, standing: StandingQuestion) -> Lasting | None:
    """How long it lasts; None also for one that could not be asked now, which ends when it is due."""
    if standing.state != ACTIVE:
        return None
    try:
        quoted = quote_of(on.served, on.who, on.served.asked_by(standing.analyst), standing.wish)
    except CharyError:
        return None
    return lasting(standing, quoted, service.standing.book.clock())


def _looks(service: Service, on: Asking, standing: Iterable[StandingQuestion]) -> Mapping[str, list[Look]]:
    """The latest answers of each standing question, by its name."""
    spine = on.served.session.spine
    found: dict[str, dict[int, CallRecord]] = {}
    for each in standing:
        wanted = {key_of(each, version): version for version in _latest(each)}
        asked = spine.ledger.calls(spine.dataset, analyst=each.analyst, keys=key_of(each, ""))
        answered = (record for record in asked if record.request in wanted and record.answer is not None)
        found[each.standing] = {wanted[record.request or ""]: record for record in answered}
    return defaultdict(list, {name: _replayed(on, records) for name, records in found.items()})


def _latest(standing: StandingQuestion) -> range:
    return range(max(1, standing.version - MOST + 1), standing.version + 1)


def _replayed(on: Asking, records: Mapping[int, CallRecord]) -> list[Look]:
    versions = sorted(records)
    told = replays(on.served, [records[version] for version in versions])
    return [Look(version, replay) for version, replay in zip(versions, told, strict=True)]


def _last_words(service: Service, on: Asking) -> dict[str, News]:
    """What was said last of each standing question: why it ended, that it fails, that it runs out."""
    news = service.standing.feed.since(on.served.name, limit=_ALL)
    named = ("kind", "version", "call", "detail")
    return {each["standing"]: News(*(each[name] for name in named)) for each in news if each["detail"]}


def counted(look: Look) -> list[dict[str, Any]]:
    """One bar for a version: its number of alarms."""
    return [
        {"version": look.version, "key": "", "value": look.hits} if look.hits else {"version": look.version, "key": ""}
    ]


def _valued(look: Look) -> list[dict[str, Any]]:
    """A bar for each value of a version with its interval; without a lower end it reaches down to nothing."""
    if not look.replay.values:
        return [{"version": look.version, "key": ""}]
    told = {"version": look.version, "bar": look.replay.bar}
    return [told | _bar(value) for value in look.replay.values]


def _bar(value: PublishedValue) -> dict[str, Any]:
    known = {"key": value.key, "value": float(value.value), "doubtful": value.may_be_false}
    if not value.bounded:
        return known
    low, high = (float(given if end is None else end) for given, end in ((0, value.low), (value.value, value.high)))
    return known | {"low": low, "high": high, "open": value.low is None or value.high is None}


def _told(value: PublishedValue) -> str:
    """A value with its interval.

    >>> _told(PublishedValue("north", 512, None, 570.0, True, "may be a false alarm"))
    'north 512 (up to 570), may be a false alarm'
    """
    ends = f" ({interval(value)})" if value.bounded else ""
    told = f"{value.key} {plain(value.value)}".strip() + ends
    return f"{told}, {value.caution}" if value.caution else told
