"""Plots of schedules and of public histograms, written to a file (PNG, PDF or SVG by its ending)."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from chary.calls import continual, schedules
from chary.calls.weights import HistogramState, WeightedAnswer
from chary.charts import Spot, check_picture
from chary.data.universe.axes import Axis, Bins, Categories
from chary.errors import InvalidParameter
from chary.plots import styled

# Pictures of schedules, written to a file (PNG, PDF or SVG by its ending).

# More points than a picture of that width can tell apart on a logarithmic scale.
_POINTS: Final = 120
# Colours that can be told apart, also by people who see few (Okabe and Ito 2008).
COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#7f7f7f")
_KEYS: Final = len(COLOURS)


def draw_schedule(schedule: schedules.ScheduleState, path: Path | str, *, factor: int = 100) -> None:
    """Left the predicted error at each size up to `factor` times the first, with the runs done so far; right the
    epsilon of each run. Nothing is read. `InvalidParameter` for another ending or a folder that is not there.
    """
    target = check_picture(path)
    planned = _along(schedule, factor)
    sizes = [run.size for run in planned]
    figure = Figure(figsize=(12, 4.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.plot(sizes, [run.error for run in planned], color="tab:blue", label="at the run")
    left.plot(sizes, [run.error + run.staleness for run in planned], "--", color="tab:orange", label="until the next")
    for done in schedule.results:
        left.axvline(done.size, color="tab:gray", linewidth=0.5)
    left.set(title="Predicted error", xlabel="rows", xscale="log", yscale="log")
    left.legend()
    right.plot(sizes, [run.epsilon for run in planned], ".", color="tab:blue")
    right.set(title="Epsilon of a run", xlabel="rows", xscale="log", yscale="log")
    figure.savefig(target, dpi=120)


def draw_counts(results: Sequence[schedules.ScheduledRun | continual.RunningCount], path: Path | str) -> None:
    """The counts that were reported as a table grew, with their 95 % intervals: `run.state.results`. Nothing is read.

    One line a key, of at most eight keys with the largest last counts. `InvalidParameter` for no results, for another
    ending or a folder that is not there.
    """
    target, told = check_picture(path), [(place_of(result), counts_of(result)) for result in results]
    if not told:
        raise InvalidParameter("nothing was reported yet: ask the run first")
    last = told[-1][1]
    names = sorted(last, key=lambda name: -last[name].value)[:_KEYS]
    with styled():
        figure = Figure(figsize=(8, 4.2), layout="constrained")
        axes = figure.subplots()
        for name, colour in zip(names, COLOURS, strict=False):
            known = [(place, counts[name]) for place, counts in told if name in counts]
            places, spots = [place for place, _ in known], [spot for _, spot in known]
            bars = [*zip(*map(reach_of, spots), strict=True)]
            axes.errorbar(
                places,
                [spot.value for spot in spots],
                yerr=bars if all(spot.whole for spot in spots) else None,
                fmt="o-",
                color=colour,
                capsize=3,
                linewidth=1,
                label=name or None,
            )
        axes.set(title="Counts, with 95 % intervals", xlabel="rows, or steps where their number is secret")
        if any(names):
            axes.legend(frameon=False)
        figure.savefig(target, dpi=150)


def place_of(result: schedules.ScheduledRun | continual.RunningCount) -> int:
    """Where it stands: at its public size, or at its step."""
    return result.size if result.size is not None else getattr(result, "step", 0)


def counts_of(result: schedules.ScheduledRun | continual.RunningCount) -> dict[str, Spot]:
    """The counts of a result by their keys; "" for one without keys."""
    answer: Any = result.answer if isinstance(result, schedules.ScheduledRun) else result
    return {} if answer is None else {number.name: number.spot for number in answer.numbers()}


def reach_of(spot: Spot) -> tuple[float, float]:
    """How far the interval reaches below and above the value, which may lie outside of it: a count below 0 does."""
    return max(0, spot.value - (spot.low or 0)), max(0, (spot.high or 0) - spot.value)


def _along(schedule: schedules.ScheduleState, factor: int) -> list[schedules.PlannedRun]:
    """The runs at sizes evenly spread on a logarithmic scale."""
    start = schedule.runs.start
    sizes = np.unique(np.geomspace(start, factor * start, _POINTS).astype(int))
    found = {run.run: run for size in sizes if (run := schedule.at(int(size))) is not None}
    return list(found.values())


# Pictures of public histograms, written to a file (PNG, PDF or SVG by its ending). All that they show is public.

KINDS: Final = {"hard": ("o", "tab:red"), "easy": ("s", "tab:blue"), "unverified": ("x", "tab:gray")}
# Panels in a row, names and letters that can be read on a picture of 12 inches.
_ACROSS: Final = 3
_NAMED: Final = 12
_LONGEST: Final = 40


def draw_answers(weights: HistogramState, asked: Sequence[tuple[str, WeightedAnswer]], path: Path | str) -> None:
    """First each answer with its error bar, hard, easy and unverified ones by marker; then the histogram's marginals.

    `asked` has each condition with its answer: `[(where, run.ask(where)) for where in conditions]`. Nothing is read
    and nothing charged. `InvalidParameter` for other pairs, another ending or a folder that is not there.
    """
    _check_pairs(asked)
    target, lines = check_picture(path), 1.2 + 0.35 * len(asked)
    figure = Figure(figsize=(12, lines + _height(weights)), layout="constrained")
    parts: Any = figure.subfigures(2, 1, height_ratios=[lines, _height(weights)])
    _draw_bars(parts[0].subplots(), asked)
    for axes, _name, _axis, shares in _panels(parts[1], weights):
        axes.bar(np.arange(len(shares)), shares, color="tab:blue")
    figure.savefig(target, dpi=120)


def draw_synthetic(weights: HistogramState, table: pa.Table, path: Path | str) -> None:
    """Each column's marginal in the histogram, next to that in a table made from it.

    Nothing is read and nothing charged. `InvalidParameter` for another ending or a folder that is not there.
    """
    target = check_picture(path)
    figure = Figure(figsize=(12, _height(weights)), layout="constrained")
    for axes, name, axis, shares in _panels(figure, weights):
        places = np.arange(len(shares))
        axes.bar(places - 0.2, shares, width=0.4, color="tab:blue", label="histogram")
        axes.bar(
            places + 0.2, marginal(axis, table[name])[: len(shares)], width=0.4, color="tab:orange", label="made up"
        )
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside upper right", ncols=2)
    figure.savefig(target, dpi=120)


def marginal(axis: Axis, column: pa.ChunkedArray) -> NDArray[np.float64]:
    """What part of the values lies in each cell, the missing one last.

    >>> marginal(Bins([0, 10, 20]), pa.chunked_array([[3, 10, None, 19]])).tolist()
    [0.25, 0.5, 0.25]
    """
    values = column.to_pylist()
    cells = [axis.declared if value is None else _cell(axis, value) for value in values]
    return np.bincount(np.array(cells, int), minlength=axis.declared + 1) / max(1, len(values))


def _cell(axis: Axis, value: Any) -> int:
    if isinstance(axis, Categories):
        return axis.values.index(value)
    assert isinstance(axis, Bins)
    return int(np.searchsorted([float(edge) for edge in axis.edges], value, side="right")) - 1


def _draw_bars(axes: Axes, asked: Sequence[tuple[str, WeightedAnswer]]) -> None:
    for kind, (marker, color) in KINDS.items():
        places = [place for place, (_, answer) in enumerate(asked) if _kind(answer) == kind]
        answers = [asked[place][1] for place in places]
        shares = [answer.share for answer in answers]
        axes.errorbar(
            shares,
            places,
            xerr=[*zip(*map(_reach, answers), strict=True)] or None,
            fmt=marker,
            color=color,
            capsize=3,
            label=kind,
        )
    axes.set_yticks(range(len(asked)), [_short(where) for where, _ in asked])
    axes.set(title="Answers", xlabel="share of rows", ylim=(max(1, len(asked)) - 0.5, -0.5))
    axes.margins(x=0.08)
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1))


def _reach(answer: WeightedAnswer) -> tuple[float, float]:
    """How far below and above an answer the truth may be."""
    if answer.interval is None:
        return answer.error_bar or 0.0, answer.error_bar or 0.0
    low, high = answer.interval
    most = 1.0 if high is None else high
    return max(0.0, answer.share - (low or 0.0)), max(0.0, most - answer.share)


def _check_pairs(asked: Any) -> None:
    pairs: Any = asked if isinstance(asked, (list, tuple)) else [None]
    for pair in pairs:
        two = isinstance(pair, (list, tuple)) and len(pair) == 2
        if not two or not isinstance(pair[0], str) or not isinstance(pair[1], WeightedAnswer):
            raise InvalidParameter(
                "bring each condition with its answer: "
                'draw_answers(run.state, [("age >= 65", run.ask("age >= 65"))], "answers.png")'
            )


def _kind(answer: WeightedAnswer) -> str:
    if not answer.verified:
        return "unverified"
    return "hard" if answer.hard else "easy"


def _panels(figure: Any, weights: HistogramState) -> Iterator[tuple[Axes, str, Axis, NDArray[np.float64]]]:
    """For each column of the universe where to draw, its name, its cells and the histogram's marginal."""
    histogram, columns = weights.histogram(), weights.universe.columns
    across = min(_ACROSS, len(columns))
    grid = figure.subplots(-(-len(columns) // across), across, squeeze=False).ravel()
    for axes in grid[len(columns) :]:
        axes.set_visible(False)
    for place, (axes, (name, axis)) in enumerate(zip(grid, columns, strict=False)):
        shares = histogram.sum(axis=tuple(other for other in range(len(columns)) if other != place))
        axes.set(title=_short(name), ylabel="share")
        if len(shares) <= _NAMED:
            axes.set_xticks(range(len(shares)), _names(axis)[: len(shares)], rotation=30)
        yield axes, name, axis, shares


def _names(axis: Axis) -> list[str]:
    if isinstance(axis, Bins):
        return [*(f"{float(edge):g} -" for edge in axis.edges[:-1]), "missing"]
    assert isinstance(axis, Categories)
    return [*(_short(str(value)) for value in axis.values), "missing"]


def _height(weights: HistogramState) -> float:
    return 3.0 * -(-len(weights.universe.columns) // _ACROSS)


def _short(text: str) -> str:
    """Not longer than a label may be, and no formula."""
    plain = text.replace("$", r"\$")
    return plain if len(plain) <= _LONGEST else f"{plain[: _LONGEST - 3]}..."
