"""Events for other systems: bodies for webhooks, mails, Atom and JSON Feed.

An event is public: it names the subscription, the version, the groups that changed and the call that has the answer; it
never contains the answer. Names and notes are written by analysts: they are cut to one line, and escaped.
"""

import hashlib
import html
import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from email.message import EmailMessage
from email.policy import SMTP
from typing import Any, Final, NamedTuple
from xml.etree.ElementTree import Element, SubElement, tostring

from chary.service.core.alerts import ANSWER, CHANGES, CLEARED

News = Mapping[str, Any]
"""One piece of events as `alerts.told` has it."""

# Joiners are not printable by themselves, but belong to the letters they join.
_JOINERS: Final = "\u200c\u200d"
# The length of a title; PagerDuty takes 1,024 characters, a line of a mail 998 bytes.
_TITLE: Final = 200
_LONGEST: Final = 1_000
# Severities and their colors.
_COLORS: Final = {"info": "#2e75b6", "warning": "#d9822b", "critical": "#c23030"}
# The number of groups that are named; the others are counted.
_GROUPS: Final = 20


def one_line(said: object, most: int = _LONGEST) -> str:
    """A text as one line of at most this many characters, without line ends and control characters.

    >>> one_line("a\\r\\nBcc: b"), one_line("\\x1b[31m\\u202egnp"), one_line("abcdef", 4)
    ('a Bcc: b', '[31m gnp', 'abc…')
    """
    plain = "".join(each if each.isprintable() or each in _JOINERS else " " for each in str(said))
    line = " ".join(plain.split())
    return line if len(line) <= most else line[: most - 1] + "…"


def identity(news: News) -> str:
    """A globally unique identifier of an event.

    >>> identity({"standing": "0123456789abcdef", "number": 7})
    'chary.0123456789abcdef.7'
    """
    return f"chary.{news['standing']}.{news['number']}"


def severity(news: News) -> str:
    """The severity of an event: that of its alert if it has one, otherwise info for an answer and warning for all else.

    >>> severity({"kind": "fired", "severity": "critical"}), severity({"kind": "ended"}), severity({"kind": "answer"})
    ('critical', 'warning', 'info')
    """
    said = news.get("severity") or ("info" if news["kind"] == ANSWER else "warning")
    return said if said in _COLORS else "warning"


def title(news: News) -> str:
    """What happened, in one line.

    >>> told = {"dataset": "visits", "standing": "0123456789abcdef", "kind": "fired", "severity": "critical"}
    >>> title(told | {"note": "evening peak", "groups": ["north", "south"]})
    '[critical] visits: evening peak: fired for north, south'
    >>> title(told | {"kind": "ended", "note": None})
    '[critical] visits: subscription 0123456789abcdef: ended'
    """
    named = one_line(news.get("note") or "", 80) or f"subscription {news['standing']}"
    whose = f" for {_named(news['groups'])}" if news.get("groups") else ""
    return one_line(f"[{severity(news)}] {one_line(news['dataset'], 40)}: {named}: {news['kind']}{whose}", _TITLE)


def particulars(news: News) -> dict[str, str]:
    """The details of an event, by label.

    >>> particulars({"standing": "01", "dataset": "visits", "kind": "hit", "version": 3, "call": 9, "detail": ""})
    {'dataset': 'visits', 'subscription': '01', 'version': '3', 'call with the answer': '9'}
    """
    told = {
        "dataset": news["dataset"],
        "subscription": news["standing"],
        "note": news.get("note"),
        "groups": _named(news.get("groups") or ()),
        "version": news["version"] or None,
        "call with the answer": news["call"],
        "what": news["detail"],
    }
    return {name: one_line(value) for name, value in told.items() if value not in (None, "")}


def _named(groups: Iterable[str]) -> str:
    named = [one_line(each, 60) for each in groups]
    more = len(named) - _GROUPS
    return ", ".join(named[:_GROUPS]) + (f" and {more} more" if more > 0 else "")


# The forms of webhooks.

_GOOD: Final = "#2f9e44"


def chat(news: News) -> dict[str, Any]:
    """A message for an incoming webhook of Slack, in fields that Mattermost and Rocket.Chat read as well.

    Guarantee: it mentions and notifies nobody, whatever a note contains: `<!channel>` and `@channel` are plain text.

    >>> said = {"dataset": "visits", "standing": "01", "kind": "fired", "note": "<!channel> & @here", "version": 3}
    >>> chat(said | {"call": 9, "detail": "", "time": "2026-01-01T00:00:00Z"})["text"]
    '[warning] visits: &lt;!channel&gt; &amp; @\\u200bhere: fired'
    """
    said = _unmarked(title(news))
    fields = [
        {"title": name, "value": _unmarked(value), "short": len(value) < 40}
        for name, value in particulars(news).items()
    ]
    told: dict[str, Any] = {"fallback": said, "color": _GOOD if news["kind"] == CLEARED else _COLORS[severity(news)]}
    told |= {"fields": fields, "ts": int(_moment(news).timestamp()), "mrkdwn_in": []}
    return {"text": said, "mrkdwn": False, "attachments": [told]}


def _unmarked(text: str) -> str:
    # An invisible space keeps other chats from notifying everybody; Slack notifies nobody without brackets.
    return html.escape(text, quote=False).replace("@", "@\u200b")


class Happening(NamedTuple):
    """The versions at which a group fired and cleared: a resolve closes the incident that its trigger opened."""

    group: str
    since: int


def events(news: News, since: Mapping[str, int]) -> list[dict[str, Any]]:
    """The events for PagerDuty's Events API v2, one for each group, without their routing keys.

    `since` has, for each group that is cleared, the version at which it fired. The `dedup_key` makes repeated events
    harmless. The resolve or acknowledgement of an incident has the key of its trigger.

    >>> said = {"dataset": "visits", "standing": "01", "kind": "fired", "groups": ["north"], "version": 3, "call": 9}
    >>> said |= {"detail": "", "time": "2026-01-01T00:00:00Z", "number": 1}
    >>> fired, cleared = events(said, {}), events(said | {"kind": "cleared", "version": 5}, {"north": 3})
    >>> fired[0]["event_action"], cleared[0]["event_action"], fired[0]["dedup_key"] == cleared[0]["dedup_key"]
    ('trigger', 'resolve', True)
    """
    changed = news["kind"] in CHANGES
    groups = (news.get("groups") if changed else None) or [""]
    happenings = [Happening(group, since.get(group, news["version"])) for group in groups]
    return [_event(news, each, changed=changed) for each in happenings]


def _event(news: News, happening: Happening, *, changed: bool) -> dict[str, Any]:
    of_one = {**news, "groups": [happening.group] if happening.group else []}
    told: dict[str, Any] = {"summary": title(of_one), "source": one_line(news["dataset"]), "severity": severity(news)}
    told |= {"timestamp": _moment(news).isoformat(), "component": news["standing"], "class": news["kind"]}
    told |= {"group": one_line(happening.group)} if happening.group else {}
    # An event that is no change of a group is an incident of its own.
    which = [happening.group, happening.since] if changed else [news["kind"], "news", news["number"]]
    key = f"chary.{news['standing']}.{hashlib.sha256(json.dumps(which).encode()).hexdigest()[:32]}"
    taken_care_of = "acknowledge" if news.get("acknowledged") else "trigger"
    action = "resolve" if news["kind"] == CLEARED else taken_care_of
    return {"event_action": action, "dedup_key": key, "client": "chary"} | {
        "payload": told | {"custom_details": particulars(of_one)}
    }


# Mails and feeds.


def mail(news: News, sender: str, to: Iterable[str]) -> EmailMessage:
    """A mail in plain text. Its Message-ID is that of the event, so that a repeated mail is recognized.

    >>> said = {"dataset": "visits", "standing": "01", "kind": "fired", "note": "peak", "version": 3, "call": 9}
    >>> said |= {"detail": "", "number": 1, "time": "2026-01-01T00:00:00Z"}
    >>> print(mail(said, "chary@example.org", ["ops@example.org"])["Message-ID"])
    <chary.01.1@example.org>
    """
    told = EmailMessage(policy=SMTP)
    told["From"], told["To"], told["Subject"] = sender, ", ".join(to), title(news)
    told["Date"], told["Message-ID"] = _moment(news), f"<{identity(news)}@{sender.rpartition('@')[2]}>"
    told["Auto-Submitted"] = "auto-generated"
    told.set_content(words(news))
    return told


def words(news: News) -> str:
    """What happened, and then its details, one a line.

    >>> told = {"dataset": "visits", "standing": "01", "kind": "hit", "version": 3, "call": 9, "detail": ""}
    >>> print(words(told).splitlines()[2:])
    ['dataset: visits', 'subscription: 01', 'version: 3', 'call with the answer: 9']
    """
    lines = [f"{name}: {value}" for name, value in particulars(news).items()]
    return "\n".join([title(news), "", *lines]) + "\n"


_ATOM: Final = "http://www.w3.org/2005/Atom"
_SINCE: Final = "1970-01-01T00:00:00Z"


def atom(dataset: str, address: str, found: Iterable[News]) -> bytes:
    """Events, the newest first, as Atom (RFC 4287).

    >>> atom("visits", "http://localhost/feed.atom", []).decode().count("<entry>")
    0
    """
    news = list(found)
    feed = Element("feed", xmlns=_ATOM)
    _put(feed, "id", f"urn:chary:feed:{hashlib.sha256(dataset.encode()).hexdigest()[:32]}")
    _put(feed, "title", f"{one_line(dataset)}: what subscriptions found")
    _put(feed, "updated", news[0]["time"] if news else _SINCE)
    SubElement(feed, "link", rel="self", type="application/atom+xml", href=address)
    _put(SubElement(feed, "author"), "name", "chary")
    for each in news:
        entry = SubElement(feed, "entry")
        _put(entry, "id", f"urn:{identity(each).replace('.', ':')}")
        _put(entry, "title", title(each))
        _put(entry, "updated", each["time"])
        SubElement(entry, "category", term=each["kind"])
        _put(entry, "content", words(each))
    told: bytes = tostring(feed, encoding="utf-8", xml_declaration=True)
    return told


def _put(parent: Element, name: str, text: str) -> None:
    SubElement(parent, name).text = text


def json_feed(dataset: str, address: str, found: Iterable[News]) -> dict[str, Any]:
    """Events, the newest first, as JSON Feed 1.1.

    >>> json_feed("visits", "http://localhost/feed.json", [])["items"]
    []
    """
    items = [
        {
            "id": f"urn:{identity(each).replace('.', ':')}",
            "title": title(each),
            "content_text": words(each),
            "date_published": each["time"],
            "tags": [each["kind"], severity(each)],
        }
        for each in found
    ]
    told = {"version": "https://jsonfeed.org/version/1.1", "title": f"{one_line(dataset)}: what subscriptions found"}
    return {**told, "feed_url": address, "items": items}


def _moment(news: News) -> datetime:
    return datetime.fromisoformat(news["time"])
