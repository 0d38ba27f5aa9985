"""Charts of answers as pictures."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import vl_convert
from fastapi.responses import Response

from chary.charts import Chart, Spot

# Pictures: Vega-Lite specifications, drawn here as SVG in the colours of the page, by day or by night.

# Told apart by people who see few colours (Okabe and Ito 2008), lighter by night.
DAY: Final = {"ink": "#1b232d", "soft": "#55606d", "rule": "#d9dde2", "spot": "#1f6aa5", "doubt": "#c65102"}
NIGHT: Final = {"ink": "#e4e8ec", "soft": "#a3aeba", "rule": "#3a444f", "spot": "#6cb4f0", "doubt": "#ff9d52"}
_GROUPS_BY_DAY: Final = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#777777"]
_GROUPS_BY_NIGHT: Final = ["#56b4e9", "#f0b840", "#34c79c", "#e3a3c8", "#8fa8ff", "#ff8a4c", "#b8b8b8"]
# Times are those of a clock of 24 hours, whatever the step of an axis.
_HOURS: Final = {
    "milliseconds": "%H:%M:%S.%L",
    "seconds": "%H:%M:%S",
    "minutes": "%H:%M",
    "hours": "%H:%M",
    "date": "%d %b",
    "week": "%d %b",
    "month": "%b %Y",
    "year": "%Y",
}
_FONT: Final = "system-ui, 'Segoe UI', Roboto, 'Liberation Sans', 'DejaVu Sans', sans-serif"
# What no XML may hold: the library ends the process where a text of a picture has one of these.
_NO_XML: Final = re.compile("[^\\t\\n\\r\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")
_SCHEMA: Final = "https://vega.github.io/schema/vega-lite/v5.json"


def drawn(specification: Mapping[str, Any], *, dark: bool) -> Response:
    """The picture as an answer. Colours are named by `colours`; nothing is loaded from elsewhere."""
    whole = (
        {"$schema": _SCHEMA}
        | drawable(dict(specification))
        | {"config": _style(colours(dark=dark)) | {"range": {"category": _GROUPS_BY_NIGHT if dark else _GROUPS_BY_DAY}}}
    )
    return Response(vl_convert.vegalite_to_svg(whole, allowed_base_urls=[]), media_type="image/svg+xml")


def drawable(value: Any) -> Any:
    """A specification without the characters that no picture can have: of keys, of names of columns.

    >>> drawable({"values": [{"label": "no\\x01rth", "value": 5}]})
    {'values': [{'label': 'no\ufffdrth', 'value': 5}]}
    """
    if isinstance(value, str):
        return _NO_XML.sub("\ufffd", value)
    if isinstance(value, Mapping):
        return {drawable(name): drawable(inner) for name, inner in value.items()}
    return [drawable(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def colours(*, dark: bool) -> Mapping[str, str]:
    """The colours of pictures by their use: ink, soft, rule, spot, doubt."""
    return NIGHT if dark else DAY


def _style(named: Mapping[str, str]) -> dict[str, Any]:
    text = {"labelColor": named["soft"], "titleColor": named["soft"], "labelFontSize": 12, "titleFontSize": 12}
    lines = {"gridColor": named["rule"], "domainColor": named["rule"], "tickColor": named["rule"]}
    return {
        "background": None,
        "font": _FONT,
        "axis": text | lines | {"titleFontWeight": "normal", "labelLimit": 220},
        "axisTemporal": {"format": _HOURS},
        "legend": text | {"titleFontWeight": "normal", "orient": "top"},
        "view": {"stroke": None},
        "bar": {"color": named["spot"], "cornerRadiusEnd": 2},
        "rule": {"color": named["ink"]},
        "point": {"color": named["spot"], "filled": True, "opacity": 1, "size": 60},
        "line": {"color": named["spot"]},
        "area": {"color": named["spot"]},
        "text": {"color": named["ink"]},
    }


# Answers drawn: values as bars, their intervals as rules, the threshold as a line; those that may be false apart.

# Rows that can be read side by side; the largest are drawn, all stand in the table.
MOST: Final = 40
_LONGEST: Final = 40
_UPRIGHT: Final = 12
_WIDTH: Final = 480
_NARROW: Final = 230
# By how many pixels a browser may draw a letter wider than it was measured: fonts differ.
_WIDER: Final = 1.5


def specification(chart: Chart, *, dark: bool, narrow: bool = False) -> Mapping[str, Any]:
    """The picture as a Vega-Lite specification."""
    named = colours(dark=dark)
    shown = chart.spots if chart.shape == "columns" else _largest(chart.spots)
    rows = [_row(spot) for spot in shown[:MOST]]
    upright = chart.shape == "columns"
    along, across = ("x", "y") if upright else ("y", "x")
    few = upright and len(rows) <= _UPRIGHT and max(len(row["label"]) for row in rows) <= _UPRIGHT
    axis = {"labelAngle": 0 if few or not upright else -60}
    label = {"field": "label", "type": "ordinal", "sort": None, "title": None, "axis": axis}
    value = {"field": "value", "type": "quantitative", "title": chart.scale or None, "axis": {"tickCount": 5}}
    doubt = {"condition": {"test": "datum.doubt", "value": named["doubt"]}, "value": named["spot"]}
    layers: list[dict[str, Any]] = [
        {"mark": {"type": "bar", "opacity": 0.75}, "encoding": {along: label, across: value, "color": doubt}},
        {
            "transform": [{"filter": "datum.low != null || datum.high != null"}],
            "mark": {"type": "rule", "strokeWidth": 1.6},
            "encoding": {
                along: label,
                across: {"field": "from", "type": "quantitative"},
                f"{across}2": {"field": "to"},
            },
        },
    ]
    layers += [_end(name, along, across, label, named["ink"]) for name in ("low", "high")]
    if chart.bar is not None:
        layers.append(_line(chart.bar, across, named["doubt"]))
    width = _NARROW if narrow else _WIDTH
    size: dict[str, Any] = {"width": width, "height": 240} if upright else {"width": width, "height": {"step": 28}}
    return {"data": {"values": rows}, "layer": layers, "padding": _padding(rows, upright=upright)} | size


def _padding(rows: Sequence[Mapping[str, Any]], *, upright: bool) -> dict[str, int]:
    """Margins of the picture; more where labels stand at its left."""
    room = 0 if upright else round(_WIDER * max(len(row["label"]) for row in rows))
    return {"left": 5 + room, "right": 5, "top": 5, "bottom": 5}


def _largest(spots: tuple[Spot, ...]) -> list[Spot]:
    return sorted(spots, key=lambda spot: -spot.value)


def _row(spot: Spot) -> dict[str, Any]:
    """A value; where its interval has no end the rule begins at the value itself."""
    ends = {"low": spot.low, "high": spot.high}
    ends |= {"from": spot.value if spot.low is None else spot.low, "to": spot.value if spot.high is None else spot.high}
    label = spot.label if len(spot.label) <= _LONGEST else f"{spot.label[: _LONGEST - 1]}…"
    return {"label": label, "value": spot.value, "doubt": spot.may_be_false} | ends


def _end(name: str, along: str, across: str, label: Mapping[str, Any], colour: str) -> dict[str, Any]:
    """The stroke at an end of an interval, where there is one."""
    stroke = {"type": "tick", "thickness": 1.6, "size": 10, "color": colour}
    return {
        "transform": [{"filter": f"datum.{name} != null"}],
        "mark": stroke | {"orient": "vertical" if across == "x" else "horizontal"},
        "encoding": {along: label, across: {"field": name, "type": "quantitative"}},
    }


def _line(bar: float, across: str, colour: str) -> dict[str, Any]:
    """The threshold."""
    return {
        "data": {"values": [{"bar": bar}]},
        "mark": {"type": "rule", "color": colour, "strokeDash": [5, 4], "strokeWidth": 1.4},
        "encoding": {across: {"field": "bar", "type": "quantitative"}},
    }
