"""Answers drawn: values as bars, their intervals as rules, the threshold as a line; those that may be false apart."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from chary.charts import Chart, Spot
from chary.service.page.frame.vega_pictures import colours

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
    """Room around the picture; more where labels stand at its left."""
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
