"""Answers of a command as text, tables and pictures."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, get_args

from chary.answers import Answer, Table
from chary.calls.call import named, of_ledger
from chary.calls.run import Run
from chary.charts import Chart, check_picture, plotter
from chary.cli.output import errors, is_table
from chary.errors import InvalidParameter

# Answers as figures: what `--json` prints, and the tables that people see.


def figures(answer: Answer | Run[Any, Any], kind: str, labels: Sequence[Any] | None = None) -> dict[str, Any]:
    """An answer by names, for JSON, its value under the name that its kind has for it; rows of a series with labels."""
    if isinstance(answer, Run):
        return {"run": answer.call, "kind": named(answer.kind)}
    found = answer.figures() | {"interval_says": answer.interval_says}
    if "value" in found:
        found = {getattr(of_ledger(kind), "tells", "value"): found.pop("value")} | found
    return found if labels is None else _labelled(found, labels)


def _labelled(found: dict[str, Any], labels: Sequence[Any]) -> dict[str, Any]:
    """With the public label of each row that is named by its place."""
    rows = {name: [_with_label(row, labels) for row in told] for name, told in found.items() if is_table(told)}
    return _with_label(found, labels) | rows


def _with_label(row: dict[str, Any], labels: Sequence[Any]) -> dict[str, Any]:
    place = row["key"][0] if isinstance(row.get("key"), list) else row.get("key")
    return row | {"label": labels[place]} if isinstance(place, int) else row


# Pictures of answers, as `--plot` asks for them.


def check_drawn(call: Any, plot: Path) -> None:
    """Refuse, before anything is charged, a picture in a place that cannot be written, or of what never has one."""
    check_picture(plot)
    told = _answer_of(type(call))
    alone = not (isinstance(told, type) and issubclass(told, Table))
    if isinstance(told, TypeVar):
        alone = call.alone if hasattr(call, "alone") else call.query.keys is None
    if not alone:
        return
    raise InvalidParameter(
        "only answers with several values have a picture, such as those of a query with groups. Leave --plot out, or "
        "ask as in chary release FILE --count --by clinic --keys north,south --epsilon 0.1 --plot FILE.png"
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
    named = _labelled_chart(chart, labels)
    known = named if bar is None else replace(named, bar=float(bar))
    plotter().save(known, plot)


def _labelled_chart(chart: Chart, labels: Sequence[Any] | None) -> Chart:
    """The values of a series by their public labels."""
    if labels is None or chart.shape != "line":
        return chart
    return replace(chart, spots=tuple(replace(spot, label=str(labels[int(spot.label)])) for spot in chart.spots))
