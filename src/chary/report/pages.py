"""A public report as a page, with its charts."""

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cache
from html import escape
from itertools import groupby
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from chary.answers import raw
from chary.calls.run import declared
from chary.charts import Chart, Shape, Spot, plotter, spot_of
from chary.numbers import between, plain
from chary.report.content import PublishedValue, ReportedCall, ReportedDataset
from chary.report.public_report import PublicReport

# The pictures of a report: hits, keyed answers, answers that were told again and again, the budget.

# A picture takes a tenth of a second and some tens of kilobytes: the latest are drawn, all are in the table.
MOST_PICTURES: Final = 24
# The latest blocks, each a bar.
MOST_BLOCKS: Final = 400


def budget_chart(found: ReportedDataset) -> Chart | None:
    """How much of the budget had been charged, over time; where it renews, in each block."""
    if found.blocks is not None:
        bars = tuple(Spot(name, 100 * share) for name, share in list(found.blocks.items())[-MOST_BLOCKS:])
        return Chart("columns", "Charged in each block", bars, scale="% of its budget")
    if len(found.steps) < 2:
        return None
    spots = tuple(Spot(time, 100 * share) for time, share in found.steps)
    return Chart("steps", "Budget charged so far", spots, scale="% of the budget")


def hits_chart(found: ReportedDataset) -> Chart | None:
    """All hits with the intervals that hold together."""
    spots = tuple(
        spot_of(
            f"{hit.call}: {hit.value.key}" if hit.value.key else f"query {hit.call}",
            hit.value.value,
            (hit.low, hit.high),
            hit.caution,
        )
        for hit in found.hits
    )
    return Chart("dots", "Values above a threshold, with joint intervals", spots) if len(spots) > 1 else None


def call_charts(found: ReportedDataset) -> dict[int, Chart]:
    """Pictures by the call that they belong to: of grouped answers, and of the latest of answers over time."""
    made = {call.call: chart for call in found.calls if (chart := _keyed(call)) is not None}
    for told in _told_again(found.calls):
        made[told[-1].call] = _over_time(told)
    latest = sorted(made)[-MOST_PICTURES:]
    return {call: made[call] for call in latest}


def _keyed(call: ReportedCall) -> Chart | None:
    if len(call.values) < 2 or not call.keyed:
        return None
    bins = all(value.key.startswith("[") and value.key.endswith(")") for value in call.values)
    shape: Shape = "line" if call.series else "columns" if bins else "dots"
    spots = tuple(value.spot(value.key) for value in call.values)
    return Chart(shape, f"{call.title}: {call.question}", spots, call.bar)


def _told_again(calls: Sequence[ReportedCall]) -> Iterable[list[ReportedCall]]:
    """Single values of one question that was asked several times, or of one run that publishes a count repeatedly."""
    single = [call for call in calls if len(call.values) == 1 and declared(call.kind).again]
    for _, group in groupby(sorted(single, key=_question), key=_question):
        told = list(group)
        if len(told) > 1:
            yield told


def _question(call: ReportedCall) -> tuple[str, str]:
    return call.kind, call.asked


def _over_time(told: list[ReportedCall]) -> Chart:
    spots = tuple(call.values[0].spot(call.time[:16].replace("T", " ")) for call in told)
    return Chart("line", f"{told[0].title}: {told[0].question}", spots, told[0].bar)


# The pages of a report: HTML and Markdown from templates that escape whatever they are given.

# A long answer is folded away; this many values are shown at once.
SHOWN_VALUES: Final = 6
_MARKS: Final = re.compile(r"([\\`*_{}\[\]()#+!|~$-])")
_RAREST: Final = 1e-6
_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)


def rendered(template: str, report: PublicReport) -> str:
    """A report by the template of this name: a page or a part of one in HTML, or Markdown, which has no pictures."""
    pictured = template.endswith(".html.jinja")
    parts = [_part(report, found, pictured=pictured) for found in report.datasets]
    return _environment().get_template(template).render(report=report, parts=parts, shown=SHOWN_VALUES)


def _part(report: PublicReport, found: ReportedDataset, *, pictured: bool) -> dict[str, Any]:
    """What a template needs of a dataset: the dataset, and its pictures by the call that they belong to."""
    if not pictured:
        return {"found": found, "budget": None, "hits": None, "charts": {}}
    charts = call_charts(found)
    drawn = {}
    for place, (call, chart) in enumerate(charts.items(), 1):
        drawn[call] = _drawn(chart)
        report.tell("drawing pictures", place, len(charts))
    return {"found": found, "budget": _drawn(budget_chart(found)), "hits": _drawn(hits_chart(found)), "charts": drawn}


def _drawn(chart: Chart | None) -> Markup | None:
    # Matplotlib escapes every text that it draws; the rest of an SVG is its own.
    return None if chart is None else Markup(plotter().svg(chart))


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("chary.report"),
        autoescape=lambda name: name is not None and name.endswith(".html.jinja"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "number": number,
        "rarity": rarity,
        "percent": percent,
        "moment": moment,
        "interval": interval,
        "marked": marked,
        "paragraphs": paragraphs,
    }
    return made


def number(value: float | None) -> str:
    """A number as people read it: thousands apart, and never a small one as nothing.

    >>> number(1234567), number(0.25), number(1e-7), number(None)
    ('1,234,567', '0.25', '1e-07', '–')
    """
    if value is None:
        return "–"
    if isinstance(value, int) or (abs(value) >= 1000 and float(value).is_integer()):
        return f"{int(value):,}"
    return f"{value:,.1f}" if abs(value) >= 1000 else plain(value)


def rarity(p_value: float | None) -> str:
    """A p-value, down to where its size says nothing more.

    >>> rarity(0.02345), rarity(1e-300), rarity(None)
    ('0.0234', 'below 1e-06', '–')
    """
    if p_value is None:
        return "–"
    return f"{p_value:.3g}" if p_value >= _RAREST else f"below {_RAREST:g}"


def percent(share: float) -> str:
    """A fraction of the budget in a few digits that never shows something as nothing.

    >>> percent(0.01234), percent(0.0), percent(1e-9)
    ('1.23 %', 'free', '1e-07 %')
    """
    return "free" if not share else f"{100 * share:.3g} %"


def moment(time: str) -> str:
    """A time of the ledger as people read it.

    >>> moment("2026-03-09T08:05:11.000001+00:00")
    '9 March 2026, 08:05 UTC'
    """
    found = datetime.fromisoformat(time)
    return f"{found.day} {_MONTHS[found.month - 1]} {found.year}, {found:%H:%M} UTC"


def interval(ends: PublishedValue | Any) -> str:
    """The ends of an interval in words; of a value outside of it, that it is the raw noisy one.

    >>> interval(PublishedValue("", 170, None, 229, True)), interval(PublishedValue("", -11, 0, 9, True))
    ('up to 229', '0 to 9; raw noisy value')
    """
    if not getattr(ends, "bounded", True):
        return "–"
    value = ends.value.value if isinstance(ends.value, PublishedValue) else ends.value
    said = between(ends.low, ends.high, number)
    return f"{said}; raw noisy value" if raw(value, (ends.low, ends.high)) else said


def paragraphs(text: str) -> list[str]:
    """The paragraphs of a text: a blank line ends one.

    >>> paragraphs("One,\\nstill one.\\n\\nTwo.")
    ['One,\\nstill one.', 'Two.']
    """
    return [part.strip() for part in re.split(r"\n\s*\n", text) if part.strip()]


def marked(text: Any) -> str:
    """A text that Markdown shows as it is, in one line.

    >>> print(marked("a|b <i> *c*"))
    a\\|b &lt;i&gt; \\*c\\*
    """
    return escape(_MARKS.sub(r"\\\1", " ".join(str(text).split())), quote=False)
