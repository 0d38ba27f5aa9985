"""Pictures: Vega-Lite specifications, drawn here as SVG in the colours of the page, by day or by night."""

import re
from collections.abc import Mapping
from typing import Any, Final

import vl_convert
from fastapi.responses import Response

# Told apart by people who see few colours (Okabe and Ito 2008), lighter by night.
DAY: Final = {"ink": "#1b232d", "soft": "#55606d", "rule": "#d9dde2", "spot": "#1f6aa5", "doubt": "#c65102"}
NIGHT: Final = {"ink": "#e4e8ec", "soft": "#a3aeba", "rule": "#3a444f", "spot": "#6cb4f0", "doubt": "#ff9d52"}
_FONT: Final = "system-ui, 'Segoe UI', Roboto, 'Liberation Sans', 'DejaVu Sans', sans-serif"
# What no XML may hold: the library ends the process where a text of a picture has one of these.
_NO_XML: Final = re.compile("[^\\t\\n\\r\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")
_SCHEMA: Final = "https://vega.github.io/schema/vega-lite/v5.json"


def drawn(specification: Mapping[str, Any], *, dark: bool) -> Response:
    """The picture as an answer. Colours are named by `colours`; nothing is loaded from elsewhere."""
    whole = {"$schema": _SCHEMA} | drawable(dict(specification)) | {"config": _style(colours(dark=dark))}
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
        "legend": text | {"titleFontWeight": "normal", "orient": "top"},
        "view": {"stroke": None},
        "bar": {"color": named["spot"], "cornerRadiusEnd": 2},
        "rule": {"color": named["ink"]},
        "point": {"color": named["spot"], "filled": True, "size": 60},
        "line": {"color": named["spot"]},
        "area": {"color": named["spot"]},
        "text": {"color": named["ink"]},
    }
