"""Pictures of answers, as `--plot` asks for them."""

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from chary.answer import Answer
from chary.cli.output import errors
from chary.pictures import Chart


def draw_answer(answer: Any, plot: Path, labels: Sequence[Any] | None, bar: Any = None) -> None:
    """Draw an answer to a file, with the labels of a series and the threshold; say so where nothing is to be seen."""
    chart = answer.chart() if isinstance(answer, Answer) else None
    if chart is None:
        errors.print(f"no picture: only answers with several values have one; {plot} was not written", markup=False)
        return
    named = _labelled(chart, labels)
    known = named if bar is None else replace(named, bar=float(bar))
    import_module("chary.pictures.drawing").save(known, plot)


def _labelled(chart: Chart, labels: Sequence[Any] | None) -> Chart:
    """The values of a series by their public labels."""
    if labels is None or chart.shape != "line":
        return chart
    return replace(chart, spots=tuple(replace(spot, label=str(labels[int(spot.label)])) for spot in chart.spots))
