"""The demo's picture: published answers against the truth, and the budget over time."""

from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from chary.demo.story import Point
from chary.session import Entry

matplotlib.use("Agg")


def draw(points: list[Point], history: list[Entry], plain: list[float], path: Path) -> None:
    """Write a PNG: left the answers beside the truth (these data are public), right the budget over time."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(13, 5.5), layout="constrained")
    _answers(left, points)
    _budget(right, history, plain)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _answers(axes: Axes, points: list[Point]) -> None:
    places = range(len(points))
    bars = [*zip(*map(_bar, points), strict=True)] or None
    axes.errorbar([p.value for p in points], places, xerr=bars, fmt="o", capsize=3, label="published, 95 % interval")
    axes.plot([p.truth for p in points], places, "kx", label="truth (public data)")
    axes.set_yticks(places, [p.label for p in points])
    axes.invert_yaxis()
    axes.set(title="Published answers", xlabel="people")
    axes.legend()


def _bar(point: Point) -> tuple[float, float]:
    """How far below and above it the truth may lie; people are never fewer than none."""
    low, high = point.interval
    return point.value - (low or 0), 0.0 if high is None else high - point.value


def _budget(axes: Axes, history: list[Entry], plain: list[float]) -> None:
    spent = 0.0
    shares = [spent := spent + entry.share for entry in history]
    calls = range(1, len(history) + 1)
    axes.step(calls, [100 * share for share in shares], where="post", label="chary: charged by the hit")
    axes.step(calls, [100 * share for share in plain], where="post", linestyle="--", label="plain composition")
    axes.axhline(100, color="firebrick", linewidth=1, label="the whole budget")
    axes.set(title="Budget over time", xlabel="calls", ylabel="% of the budget")
    axes.legend()
