"""Pictures of what is looked at over time, as Vega-Lite specifications without colours of their own."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from chary.service.page.looking.alarms_over_time import Watched, counted
from chary.service.page.looking.budget_over_time import BudgetSoFar

# Bars of so many keys can be told apart side by side.
MOST_KEYS: Final = 6
# Told apart by people who see few colours, by day and by night (Okabe and Ito 2008).
_COLOURS: Final = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#999999"]
# So many versions have bars of one breadth; more of them share the picture.
_FEW: Final = 8
_MARKS: Final = 5
_SIZE: Final = {"width": 520, "height": 190}
# What may be a false alarm is pale.
_SURE: Final = {"condition": {"test": "datum.doubtful", "value": 0.35}, "value": 0.85}
_VERSION: Final = {"field": "version", "type": "ordinal", "title": "version of the rows", "axis": {"labelAngle": 0}}


def budget_spec(found: BudgetSoFar, until: datetime) -> dict[str, Any]:
    """What each kind of call had taken, stacked over time."""
    kinds = [portion.name for portion in found.by_kind if portion.share]
    return _SIZE | {
        "data": {"values": found.steps(until)},
        "mark": {"type": "area", "interpolate": "step-after", "line": True, "opacity": 0.75},
        "encoding": {
            "x": {
                "field": "time",
                "type": "temporal",
                "title": "UTC",
                "scale": {"type": "utc"},
                "axis": {"tickCount": 5},
            },
            "y": {
                "field": "taken",
                "type": "quantitative",
                "stack": "zero",
                "title": "% of the budget",
                "scale": {"domain": [0, 100]},
            },
            "color": {"field": "kind", "type": "nominal", "title": None, "sort": kinds, "scale": {"range": _COLOURS}},
            "order": {"field": "kind"},
        },
    }


def alarms_spec(found: Watched) -> dict[str, Any]:
    """A bar for each value with its interval, or for the number of alarms, by version of the rows."""
    rows = found.bars()
    keys = sorted({row["key"] for row in rows if row["key"]})
    if len(keys) > MOST_KEYS:
        rows, keys = [row for look in found.looks for row in counted(look)], []
    valued = any("bar" in row for row in rows)
    place: dict[str, Any] = {"x": _VERSION} | ({"xOffset": {"field": "key", "sort": keys}} if keys else {})
    layers = [_bars(place, {"title": "value"} if valued else {"title": "alarms", "axis": _whole(rows)}, keys)]
    if valued:
        layers += [_intervals(place), _threshold()]
    few = len(found.looks) < _FEW
    size = _SIZE | ({"width": {"step": 72, "for": "position"}} if few else {})
    return size | {"data": {"values": rows}, "layer": [*layers, _misses()]}


def _whole(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """An axis with a handful of marks, all at whole numbers."""
    most = max((row["value"] for row in rows if "value" in row), default=1)
    return {"values": list(range(0, most + 1, -(-most // _MARKS))), "format": "d"}


def _bars(place: dict[str, Any], axis: dict[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    told = {"y": {"field": "value", "type": "quantitative"} | axis}
    colour = (
        {"color": {"field": "key", "type": "nominal", "title": None, "sort": list(keys), "scale": {"range": _COLOURS}}}
        if keys
        else {}
    )
    return {
        "transform": [{"filter": "isValid(datum.value)"}],
        "mark": {"type": "bar"},
        "encoding": place | told | colour | {"opacity": _SURE},
    }


def _intervals(place: dict[str, Any]) -> dict[str, Any]:
    ends = {"y": {"field": "low", "type": "quantitative"}, "y2": {"field": "high"}}
    dashed = {"strokeDash": {"condition": {"test": "datum.open", "value": [3, 3]}, "value": [1, 0]}}
    return {
        "transform": [{"filter": "isValid(datum.high)"}],
        "mark": {"type": "rule", "strokeWidth": 2},
        "encoding": place | ends | dashed,
    }


def _threshold() -> dict[str, Any]:
    return {
        "transform": [{"filter": "isValid(datum.bar)"}, {"aggregate": [{"op": "max", "field": "bar", "as": "bar"}]}],
        "mark": {"type": "rule", "strokeDash": [6, 4]},
        "encoding": {"y": {"field": "bar", "type": "quantitative"}},
    }


def _misses() -> dict[str, Any]:
    """A small ring on the ground where a version gave no alarm."""
    return {
        "transform": [{"filter": "!isValid(datum.value)"}],
        "mark": {"type": "point", "shape": "circle", "size": 30},
        "encoding": {"x": _VERSION, "y": {"datum": 0, "type": "quantitative"}},
    }
