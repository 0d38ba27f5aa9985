"""Answers of a command as text, tables and pictures."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from fractions import Fraction
from functools import singledispatch
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TypeVar, get_args

from chary import calls
from chary.accounting import Findings
from chary.answers import Answer, Table
from chary.calls.answers import TestedKeys
from chary.calls.call import named
from chary.charts import Chart, check_picture
from chary.cli.output import errors, is_table
from chary.data.queries.histogram import Bin
from chary.errors import InvalidParameter

# Answers as figures: what `--json` prints of each kind of answer, and the tables that people see.

BARE: Final = (calls.ChosenKey, calls.Classified, calls.Decided, calls.YesOrNo, calls.Zoned)


def figures(answer: Any, kind: str, labels: Sequence[Any] | None = None) -> dict[str, Any]:
    """An answer by names, for JSON; rows of a series with their labels."""
    says = {"interval_says": answer.interval_says} if isinstance(answer, Answer) else {}
    ends = _ends(answer)
    if isinstance(answer, BARE):
        beside = {name: getattr(answer, name, None) for name in ("shortfall", "lead", "error_bar")}
        known = {name: value for name, value in beside.items() if value is not None}
        answer = {calls.kinds()[kind].tells: plain(answer.value)} | known
    elif not is_dataclass(answer) and not isinstance(answer, calls.Run):
        answer = {"answer": plain(answer)}
    found = told(answer)
    found |= ({} if "low" in found else ends) | says
    return found if labels is None else _labelled(found, labels)


def _ends(answer: Any) -> dict[str, Any]:
    """The interval of one value; rows of a table have their own."""
    if not isinstance(answer, Answer) or isinstance(answer, Table) or answer.interval is None:
        return {}
    low, high = answer.interval
    return {"low": low, "high": high}


@singledispatch
def told(answer: Any) -> dict[str, Any]:
    """What an answer tells, by names: its public fields, unless its type tells more."""
    shown = [field for field in fields(answer) if field.compare]
    return {field.name: plain(getattr(answer, field.name)) for field in shown}


@told.register
def _(answer: dict) -> dict[str, Any]:  # type: ignore[type-arg]
    return dict(answer)


@told.register
def _(run: calls.Run) -> dict[str, Any]:  # type: ignore[type-arg]
    return {"run": run.call, "kind": named(run.kind)}


@told.register
def _(answer: calls.NoisyNumbers) -> dict[str, Any]:
    rows = [_bin(key[0]) if isinstance(key[0], Bin) else {"key": plain(key)} for key in answer.keys]
    name = "bins" if rows and "low" in rows[0] else "values"
    ends = ("low", "high") if name == "values" else ("at_least", "at_most")
    cells = [answer.cells(place) for place in range(len(rows))]
    told = [{"value": cell["value"]} | dict(zip(ends, (cell["low"], cell["high"]), strict=True)) for cell in cells]
    values = [row | cell for row, cell in zip(rows, told, strict=True)]
    return {name: values, "error_bar": answer.error_bar, "call": answer.call}


@told.register
def _(answer: calls.Conditional) -> dict[str, Any]:
    known = {"above": answer.published, "value": answer.value} | _says(answer.findings)
    return known | {"error_bar": answer.error_bar, "call": answer.held}


@told.register
def _(answer: calls.NumberOrNothing) -> dict[str, Any]:
    return {"value": answer.value} | _says(answer.findings) | {"error_bar": answer.error_bar, "call": answer.call}


@told.register
def _(answer: calls.Tracked) -> dict[str, Any]:
    low, high = answer.interval or (None, None)
    says = _says(answer.findings) | {"low": low, "high": high}
    return {"value": plain(answer.value), "changed": answer.changed} | says | {"call": answer.call}


@told.register(TestedKeys)
@told.register(calls.SparseWatch)
def _(answer: Any) -> dict[str, Any]:
    known = [{"key": plain(key), "value": value} for key, value in answer.above.items()]
    above = [key | row for key, row in zip(known, _rows(answer.findings), strict=True)] if answer.findings else known
    counts = {"tested": answer.tested, "hits": answer.hits, "untested": len(answer.untested)}
    left = {"left": answer.hits_left} if isinstance(answer, calls.SparseWatch) else {}
    left |= {"left": answer.tests_left} if isinstance(answer, calls.AgreedWatch) else {}
    rest = {"others_at_most": answer.others_at_most, "error_bar": answer.error_bar}
    return {"above": above, **counts, **left, **rest, "call": answer.call}


@told.register
def _(answer: calls.SparseTest) -> dict[str, Any]:
    known = {"above": answer.above, "value": answer.value} | _says(answer.findings) | {"left": answer.hits_left}
    return known | {"error_bar": answer.error_bar, "call": answer.call}


@told.register
def _(answer: calls.FirstAbove) -> dict[str, Any]:
    counts = {"tested": answer.tested, "untested": len(answer.untested)}
    return {"key": plain(answer.key), **counts, "clipped_to": list(answer.clipped_to), "call": answer.call}


@told.register
def _(answer: calls.AllAbove) -> dict[str, Any]:
    counts = {"tested": answer.tested, "hits": answer.hits, "untested": len(answer.untested)}
    known = {"clipped_to": list(answer.clipped_to), "call": answer.call}
    return {"above": [{"key": plain(key)} for key in answer.above], **counts, **known}


@told.register
def _(answer: calls.Ranking) -> dict[str, Any]:
    ends = [answer.cells(place) for place in range(len(answer.best))]
    best = [
        {"key": plain(chosen.name), "value": chosen.score, "low": row["low"], "high": row["high"]}
        for chosen, row in zip(answer.best, ends, strict=True)
    ]
    return {"best": best, "call": answer.call}


@told.register
def _(answer: calls.Selected) -> dict[str, Any]:
    known = [{"key": plain(name), "value": score} for name, score, _ in answer.above]
    above = [key | row for key, row in zip(known, _rows(answer.findings), strict=True)] if answer.findings else known
    return {"above": above, "tested": answer.tested, "untested": len(answer.untested), "call": answer.call}


@told.register
def _(answer: calls.Coverage) -> dict[str, Any]:
    known = [{"key": plain(name), "adds": score} for name, score, _ in answer.chosen]
    chosen = [key | row for key, row in zip(known, _rows(answer.findings), strict=True)]
    counts = {"covered": answer.covered, "tested": len(answer.calls)}
    return {"chosen": chosen, **counts, "calls": list(answer.calls)}


@told.register
def _(answer: calls.QuantileAnswers) -> dict[str, Any]:
    return {"quantiles": answer.rows(), "estimated": answer.estimated, "call": answer.call}


@told.register
def _(answer: calls.Components) -> dict[str, Any]:
    rows = [row | way for row, way in zip(answer.rows(), answer.directions, strict=True)]
    return {"components": rows, "means": answer.means, "rows": answer.rows_counted, "call": answer.call}


@told.register
def _(answer: calls.RandomizedCounts) -> dict[str, Any]:
    share = answer.share if answer.units else None
    return {"ones": answer.ones, "units": answer.units, "share": share, "call": answer.call}


@told.register
def _(answer: calls.RandomizedTable) -> dict[str, Any]:
    rows = [{"key": plain(key), **answer.cells(place)} for place, key in enumerate(answer.keys)]
    return {"values": rows, "units": answer.units, "call": answer.call}


@told.register
def _(answer: calls.RunningCount) -> dict[str, Any]:
    values: dict[str, Any] = {"value": answer.value}
    if isinstance(answer, calls.RunningCounts):
        cells = [{"key": plain(key), **answer.cells(place)} for place, key in enumerate(answer.keys)]
        values = {"values": cells}
    known = {"step": answer.step, "version": answer.version, "size": answer.size}
    return values | known | {"error_bar": answer.error_bar, "call": answer.call}


@told.register
def _(answer: calls.SyntheticDatabase) -> dict[str, Any]:
    return {"rows": answer.table().to_pylist(), "error_bar": answer.error_bar, "call": answer.call}


@told.register
def _(answer: calls.SyntheticHistogram) -> dict[str, Any]:
    known = {"size": answer.size, "kept": answer.kept, "error_bar": answer.error_bar, "call": answer.call}
    return {"shares": answer.histogram().tolist(), "rounds": plain(answer.rounds), **known}


def _says(found: Findings) -> dict[str, Any]:
    """What the value of one question says; nothing where none was published."""
    if not found:
        return {"low": None, "high": None, "p_value": None, "caution": None}
    row = found.rows()[0]
    return {name: row[name] for name in ("low", "high", "p_value", "caution")}


def _rows(found: Findings) -> list[dict[str, Any]]:
    """What each published value says: its own interval, and that which holds together with those of all others."""
    pairs = zip(found.rows(), found.intervals(simultaneous=True), strict=True)
    names = ("low", "high", "low_together", "high_together", "p_value", "caution")
    told = [row | {"low_together": ends.low, "high_together": ends.high} for row, ends in pairs]
    return [{name: row[name] for name in names} for row in told]


def plain(value: Any) -> Any:
    """A value of an answer in what JSON has."""
    if isinstance(value, Fraction):
        return float(value)
    if isinstance(value, Bin):
        return str(value)
    if is_dataclass(value) and not isinstance(value, type):
        return told(value)
    if isinstance(value, Mapping):
        return [{"key": plain(key), "value": plain(inner)} for key, inner in value.items()]
    return [plain(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def _bin(key: Bin) -> dict[str, Any]:
    return {"bin": str(key), "low": key.low, "high": key.high}


def _labelled(found: dict[str, Any], labels: Sequence[Any]) -> dict[str, Any]:
    """With the public label of each row that is named by its place."""
    if isinstance(found.get("key"), int):
        return found | {"label": labels[found["key"]]}
    tables = {name: [_with_label(row, labels) for row in rows] for name, rows in found.items() if is_table(rows)}
    return found | tables


def _with_label(row: dict[str, Any], labels: Sequence[Any]) -> dict[str, Any]:
    return row | {"label": labels[row["key"][0]]} if isinstance(row.get("key"), list) else row


# Pictures of answers, as `--plot` asks for them.


def check_drawn(call: Any, plot: Path) -> None:
    """Refuse, before anything is charged, a picture in a place that cannot be written, or of what never has one."""
    check_picture(plot)
    told = _answer_of(type(call))
    if isinstance(told, TypeVar):
        drawn = not call.alone if isinstance(call, calls.Quantiles) else call.query.keys is not None
    else:
        drawn = isinstance(told, type) and issubclass(told, Table)
    if drawn:
        return
    raise InvalidParameter(
        "only answers with several values have a picture, such as those of a question by keys: leave --plot out, or "
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
    import_module("chary.plots").save(known, plot)


def _labelled_chart(chart: Chart, labels: Sequence[Any] | None) -> Chart:
    """The values of a series by their public labels."""
    if labels is None or chart.shape != "line":
        return chart
    return replace(chart, spots=tuple(replace(spot, label=str(labels[int(spot.label)])) for spot in chart.spots))
