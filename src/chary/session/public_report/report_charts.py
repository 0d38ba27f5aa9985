"""The pictures of a report: hits, keyed answers, answers that were told again and again, the budget."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final

from chary.calls.continual import StepContinual
from chary.calls.schedules import RunSchedule
from chary.calls.thresholds import Track
from chary.pictures import Chart, Shape, Spot
from chary.session.public_report.gathering import ReportedCall, ReportedDataset
from chary.session.public_report.published_values import PublishedValue

# A picture takes a tenth of a second and some tens of kilobytes: the latest are drawn, all are in the table.
MOST_PICTURES: Final = 24
# What is asked in the same words as time goes on.
_AGAIN: Final = frozenset({Track.kind, StepContinual.kind, RunSchedule.kind})


def budget_chart(found: ReportedDataset) -> Chart | None:
    """How much of the budget had been charged, over time."""
    if len(found.steps) < 2:
        return None
    spots = tuple(Spot(time, 100 * share) for time, share in found.steps)
    return Chart("steps", "Budget charged so far", spots, scale="% of the budget")


def hits_chart(found: ReportedDataset) -> Chart | None:
    """All hits with the intervals that hold together."""
    spots = tuple(
        Spot(
            f"{hit.call}: {hit.value.key}" if hit.value.key else f"call {hit.call}",
            float(hit.value.value),
            _float(hit.low),
            _float(hit.high),
            hit.caution is not None,
        )
        for hit in found.hits
    )
    return Chart("dots", "Hits, with intervals that hold all together", spots) if len(spots) > 1 else None


def call_charts(found: ReportedDataset) -> dict[int, Chart]:
    """Pictures by the call that they belong to: of keyed answers, and of the latest of answers told over time."""
    made = {call.call: chart for call in found.calls if (chart := _keyed(call)) is not None}
    for told in _told_again(found.calls):
        made[told[-1].call] = _over_time(told)
    latest = sorted(made)[-MOST_PICTURES:]
    return {call: made[call] for call in latest}


def _keyed(call: ReportedCall) -> Chart | None:
    if len(call.values) < 2 or not call.keyed:
        return None
    shape: Shape = "line" if call.series else "columns" if _bins(call) else "dots"
    return Chart(
        shape, f"{call.title}: {call.question}", tuple(_spot(value.key, value) for value in call.values), call.bar
    )


def _bins(call: ReportedCall) -> bool:
    return all(value.key.startswith("[") and value.key.endswith(")") for value in call.values)


def _told_again(calls: Sequence[ReportedCall]) -> Iterable[list[ReportedCall]]:
    """Single values of one question that was asked several times, or of one run that tells a count again and again."""
    single = [
        call for call in calls if len(call.values) == 1 and call.kind in ("track", "continual_step", "scheduled_run")
    ]
    for _, group in groupby(sorted(single, key=_question), key=_question):
        told = list(group)
        if len(told) > 1:
            yield told


def _question(call: ReportedCall) -> tuple[str, str]:
    return call.kind, call.asked


def _over_time(told: list[ReportedCall]) -> Chart:
    spots = tuple(_spot(call.time[:16].replace("T", " "), call.values[0]) for call in told)
    return Chart("line", f"{told[0].title}: {told[0].question}", spots, told[0].bar)


def _spot(label: str, value: PublishedValue) -> Spot:
    return Spot(label, float(value.value), _float(value.low), _float(value.high), value.may_be_false)


def _float(end: float | None) -> float | None:
    return None if end is None else float(end)
