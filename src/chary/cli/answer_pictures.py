"""Pictures of answers, as `--plot` asks for them."""

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar, get_args

from chary.answers import Answer, Table
from chary.charts import Chart, check_picture
from chary.cli.output import errors
from chary.errors import InvalidParameter


def check_drawn(call: Any, plot: Path) -> None:
    """Refuse, before anything is charged, a picture in a place that cannot be written, or of what never has one."""
    check_picture(plot)
    told = _answer_of(type(call))
    if call.query.keys is not None if isinstance(told, TypeVar) else isinstance(told, type) and issubclass(told, Table):
        return
    raise InvalidParameter(
        "only answers with several values have a picture, such as those of a question by keys: leave --plot out, or "
        "ask as in chary release FILE --count --by clinic --keys north,south --epsilon-per-call 0.1 --plot FILE.png"
    )


def _answer_of(kind: type) -> Any:
    """What a kind of call answers; a type variable where that follows from its question."""
    told = (get_args(base) for known in kind.__mro__ for base in vars(known).get("__orig_bases__", ()))
    return next((found[0] for found in told if found), None)


def draw_answer(answer: Any, plot: Path, labels: Sequence[Any] | None, bar: Any = None) -> None:
    """Draw an answer to a file, with the labels of a series and the threshold; say so where nothing is to be seen."""
    chart = answer.chart() if isinstance(answer, Answer) else None
    if chart is None:
        errors.print(f"no picture: no value was published; {plot} was not written", markup=False)
        return
    named = _labelled(chart, labels)
    known = named if bar is None else replace(named, bar=float(bar))
    import_module("chary.plots").save(known, plot)


def _labelled(chart: Chart, labels: Sequence[Any] | None) -> Chart:
    """The values of a series by their public labels."""
    if labels is None or chart.shape != "line":
        return chart
    return replace(chart, spots=tuple(replace(spot, label=str(labels[int(spot.label)])) for spot in chart.spots))
