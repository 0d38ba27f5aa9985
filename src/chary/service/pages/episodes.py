"""Pictures of what stands over time: published values with their intervals, and who was active when."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any, Final

from chary.calls.alerts import Alert, AlertAnswer, AlertAnswers, AlertRun, state_of
from chary.report import content
from chary.service.core import alerts, scheduler
from chary.service.pages.history import Replay

# So many keys have a colour of their own, and so many groups a band.
MOST_KEYS: Final = 6
MOST_BANDS: Final = 12
_WIDTH: Final = 520
_NARROW: Final = 230
_STATES: Final = {"domain": [state_of(True), state_of(False)], "range": ["#d55e00", "#999999"]}


@dataclass(frozen=True)
class Look:
    """What was found about one version of the rows, which came at that time."""

    version: int
    time: str
    replay: Replay

    @property
    def hits(self) -> int:
        """How many of its tests were alarms, or changes of an alert."""
        return self.replay.entry.hits

    @property
    def states(self) -> Mapping[str, str]:
        """Of an alert the state of each group; one without a name where it has no groups."""
        answer = self.replay.answer
        if isinstance(answer, AlertAnswers):
            return {scheduler.group_told(key): state for key, state in answer.value.items()}
        return {"": answer.state} if isinstance(answer, AlertAnswer) else {}

    def points(self) -> list[dict[str, Any]]:
        """What was published, with its intervals; an end that is not known is left out."""
        return [{"time": self.time} | _point(value) for value in self.replay.values]


@dataclass(frozen=True)
class AlertShown:
    """What is public of an alert that stands: its terms, the state of each group, its events that tell of changes,
    newest first, and what it skipped."""

    opened: Alert
    states: Mapping[str, str]
    changes: Sequence[Mapping[str, Any]]
    skipped: Sequence[Mapping[str, Any]]

    @classmethod
    def of(cls, run: AlertRun, news: Iterable[Mapping[str, Any]]) -> "AlertShown":
        """Of an open run, and all events of what stands."""
        keys, active, told = run.opened.counted.keys, run.state.active, list(news)
        states = {"": state_of(active)} if keys is None else {}
        for key in keys or ():
            one = key[0] if len(key) == 1 else key
            states[scheduler.group_told(one)] = state_of(one in active)
        changes = [each for each in told if each["kind"] in (alerts.FIRED, alerts.CLEARED)]
        skipped = [each for each in told if each["kind"] == "skipped"]
        return cls(run.opened, states, changes[::-1], skipped[::-1])

    @property
    def active(self) -> list[str]:
        """The groups that are active."""
        return [group for group, state in self.states.items() if state == state_of(True)]

    @property
    def unacknowledged(self) -> list[Mapping[str, Any]]:
        """What fired, is active still, and nobody takes care of."""
        fired = [each for each in self.changes if each["kind"] == alerts.FIRED and not each["acknowledged"]]
        return [each for each in fired if set(each["groups"] or [""]) & set(self.active)]


def over_time(looks: Sequence[Look], opened: Alert | None, until: datetime, *, narrow: bool = False) -> dict[str, Any]:
    """Values by the time when their version came, and below them a band: of an alert who was active, of anything else
    which versions gave an alarm. Versions about which nothing was published have no value, not even 0."""
    points = [row for look in looks for row in look.points()]
    bars = {look.replay.bar for look in looks if look.replay.bar is not None}
    if opened is not None:
        bars = {float(end) for end in (opened.above, opened.clear_below) if end is not None}
    panels = [_values(points, sorted(bars))] if points else []
    panels.append(_alarms(looks) if opened is None else _bands(looks, until))
    sized = [panel | {"width": _NARROW if narrow else _WIDTH} for panel in panels]
    return {"vconcat": sized, "resolve": {"scale": {"x": "shared", "color": "independent"}}, "spacing": 8}


def _point(value: content.PublishedValue) -> dict[str, Any]:
    given = float(value.value)
    low, high = (given if end is None else float(end) for end in (value.low, value.high))
    open_ = value.bounded and (value.low is None or value.high is None)
    ends = {"low": low, "high": high, "open": open_} if value.bounded else {}
    return {"key": value.key, "value": given, "doubtful": value.may_be_false} | ends


def _time(title: str | None) -> dict[str, Any]:
    """Without a title it is the axis of a panel above, whose labels stand below."""
    axis = {"tickCount": 4, "labelOverlap": True, "labels": title is not None, "ticks": title is not None}
    shown = {"scale": {"type": "utc", "nice": False}, "axis": axis}
    return {"field": "time", "type": "temporal", "title": title} | shown


def _values(rows: list[dict[str, Any]], bars: list[float]) -> dict[str, Any]:
    keys = sorted({row["key"] for row in rows if row["key"]})
    colour: dict[str, Any] = {}
    if 0 < len(keys) <= MOST_KEYS:
        colour["color"] = {"field": "key", "type": "nominal", "title": None}
    place = {"x": _time(None)} | colour
    ends = {"y": {"field": "low", "type": "quantitative"}, "y2": {"field": "high"}}
    dashed = {"strokeDash": {"condition": {"test": "datum.open", "value": [3, 3]}, "value": [1, 0]}}
    value = {"field": "value", "type": "quantitative", "title": "value", "scale": {"zero": False}}
    layers: list[dict[str, Any]] = [
        {
            "transform": [{"filter": "isValid(datum.high)"}],
            "mark": {"type": "rule", "strokeWidth": 2},
            "encoding": place | ends | dashed,
        },
        _marked(place | {"y": value}, hollow=False),
        _marked(place | {"y": value}, hollow=True),
    ]
    if bars:
        line = {"y": {"field": "bar", "type": "quantitative"}}
        marks = {"mark": {"type": "rule", "strokeDash": [6, 4]}, "encoding": line}
        layers.append({"data": {"values": [{"bar": bar} for bar in bars]}} | marks)
    return {"height": 170, "data": {"values": rows}, "layer": layers}


def _marked(place: Mapping[str, Any], *, hollow: bool) -> dict[str, Any]:
    """The values that may be false alarms are hollow, all others are filled."""
    mark = {"type": "point", "filled": not hollow, "strokeWidth": 2}
    return {"transform": [{"filter": f"datum.doubtful == {str(hollow).lower()}"}], "mark": mark, "encoding": place}


def _bands(looks: Sequence[Look], until: datetime) -> dict[str, Any]:
    """Of each group from when until when it was in a state; of many groups those that were active once."""
    rows = [row for group in shown_groups(looks) for row in _segments(group, looks, until)]
    group = {"field": "group", "type": "nominal", "title": None, "axis": {"ticks": False, "domain": False}}
    state = {"field": "state", "type": "nominal", "title": None, "scale": _STATES}
    shown = {"condition": {"test": f"datum.state == '{state_of(True)}'", "value": 0.9}, "value": 0.6}
    place = {"x": _time("when the version came (UTC)"), "x2": {"field": "until"}, "y": group}
    return {
        "height": {"step": 20},
        "data": {"values": rows},
        "mark": {"type": "rect", "height": {"band": 0.8}},
        "encoding": place | {"color": state, "opacity": shown},
    }


def shown_groups(looks: Sequence[Look]) -> list[str]:
    """The groups that have a band: all, or of more than `MOST_BANDS` the first ones that were active."""
    groups = list(looks[-1].states) if looks else []
    active = [group for group in groups if any(look.states.get(group) == state_of(True) for look in looks)]
    return groups if len(groups) <= MOST_BANDS else active[:MOST_BANDS]


def _segments(group: str, looks: Sequence[Look], until: datetime) -> list[dict[str, Any]]:
    found = []
    for state, same in groupby(looks, key=lambda look: look.states.get(group, "")):
        last = list(same)
        found.append({"group": group, "state": state, "time": last[0].time})
    ends = [*(each["time"] for each in found[1:]), until.isoformat()]
    return [each | {"until": end} for each, end in zip(found, ends, strict=True)]


def _alarms(looks: Sequence[Look]) -> dict[str, Any]:
    rows = [{"time": look.time, "alarm": "alarm" if look.hits else "none"} for look in looks]
    told = {"field": "alarm", "type": "nominal", "title": None}
    filled = {"condition": {"test": "datum.alarm == 'alarm'", "value": 1}, "value": 0}
    return {
        "height": 44,
        "data": {"values": rows},
        "mark": {"type": "point", "filled": True, "stroke": "#999999"},
        "encoding": {"x": _time("when the version came (UTC)"), "y": told, "fillOpacity": filled},
    }
