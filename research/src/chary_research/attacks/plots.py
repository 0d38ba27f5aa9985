"""Plots of the attacks, written to a file (PNG, PDF or SVG by its ending)."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from chary.charts import check_picture
from chary_research.attacks.limits import guess_limit
from chary_research.attacks.linkage import Linkage
from chary_research.attacks.low_bits import LowBits
from chary_research.attacks.membership import GRID, Membership
from chary_research.attacks.reconstruction import Differencing, Reconstruction


@contextmanager
def panes(path: Path | str, count: int = 1) -> Iterator[Sequence[Axes]]:
    """Axes side by side, written to the file at the end of the block."""
    target = check_picture(path)
    figure = Figure(figsize=(7 if count == 1 else 6 * count, 4.8), layout="constrained")
    yield figure.subplots(1, count, squeeze=False)[0]
    figure.savefig(target, dpi=120)


def draw_linkage(found: Linkage, path: Path | str) -> None:
    """Left how unique people become with every public column, right how often a secret value is learned."""
    with panes(path, 2) as (left, right):
        _linkage(left, right, found)


def _linkage(left: Axes, right: Axes, found: Linkage) -> None:
    shares = [100 * unique / found.rows for unique in found.unique]
    labels = [found.quasi[0], *(f"+ {name}" for name in found.quasi[1:])]
    left.barh(labels, shares, color="tab:red")
    left.invert_yaxis()
    left.set(title="The only one of a kind", xlabel="% of the rows", xlim=(0, 100))
    ways = {"linked release": 1.0, "session": found.private_accuracy or 0, "commonest value": found.baseline or 0}
    right.bar(list(ways), [100 * share for share in ways.values()], color=["tab:red", "tab:blue", "tab:gray"])
    if found.limit is not None:
        right.axhline(100 * found.limit, color="black", linestyle="--", label=f"limit, epsilon {found.epsilon:g}")
        right.legend()
    right.set(title=f"{found.sensitive} of {found.reidentified:,} people learned", ylabel="% right", ylim=(0, 105))


def draw_differencing(results: Sequence[Differencing], path: Path | str) -> None:
    """How often the bit is guessed, by epsilon, next to the limit."""
    sizes = [found.epsilon for found in results]
    below = [found.accuracy - found.low for found in results]
    above = [found.high - found.accuracy for found in results]
    accuracies = [found.accuracy for found in results]
    with panes(path) as (axes,):
        axes.errorbar(sizes, accuracies, yerr=(below, above), fmt="o", capsize=3, label="session, 99.9 % interval")
        axes.plot(sizes, [found.raw_accuracy for found in results], "x", color="tab:red", label="exact counts")
        if results:
            line = np.linspace(min(sizes) / 2, max(sizes), 200)
            axes.plot(line, [guess_limit(size, results[0].delta) for size in line], "k--", label="limit")
        axes.set(title="One person's bit, guessed", xlabel="epsilon", ylabel="share right", ylim=(0.4, 1.05))
        axes.legend()


def draw_membership(results: Sequence[Membership], path: Path | str) -> None:
    """Left the ROC curves of the last result, right the members found by the number of attributes."""
    with panes(path, 2) as (left, right):
        if results:
            roc_curves(left, results[-1], "exact mean", "session")
            left.set_title(f"{results[-1].attributes:,} attributes of {results[-1].rows:,} people")
            _growth(right, results)


def draw_reconstruction(results: Sequence[Reconstruction], path: Path | str) -> None:
    """The proportion of bits found, by epsilon, compared with exact and rounded counts and the limit."""
    lines = {
        "exact counts": ("tab:red", [found.exact for found in results]),
        "rounded counts": ("tab:orange", [found.rounded for found in results]),
        "session": ("tab:blue", [found.private for found in results]),
        "limit": ("black", [found.limit for found in results]),
    }
    _by_epsilon([found.epsilon for found in results], lines, "Everybody's bit, reconstructed", path)


def draw_low_bits(results: Sequence[LowBits], path: Path | str) -> None:
    """How often two counts are told apart, by epsilon, next to the limit."""
    lines = {
        "noise in floats": ("tab:red", [found.naive_accuracy for found in results]),
        "session": ("tab:blue", [found.accuracy for found in results]),
        "limit": ("black", [found.limit for found in results]),
    }
    _by_epsilon([found.epsilon for found in results], lines, "Two counts, told apart by the last bits", path)


def _by_epsilon(
    sizes: Sequence[float], lines: dict[str, tuple[str, list[float]]], title: str, path: Path | str
) -> None:
    with panes(path) as (axes,):
        for name, (color, shares) in lines.items():
            axes.plot(sizes, shares, "--" if name == "limit" else "o-", color=color, label=name)
        axes.set(title=title, xlabel="epsilon", xscale="log", ylabel="share right", ylim=(0.4, 1.05))
        axes.legend()


def roc_curves(axes: Axes, found: Any, raw: str, private: str) -> None:
    """The ROC curves of an attack on a raw and on a private answer, under these names, next to the limit."""
    rates = np.linspace(0, 1, GRID)
    axes.plot(rates, found.raw.roc, color="tab:red", label=raw)
    axes.plot(rates, found.private.roc, color="tab:blue", label=private)
    axes.plot(rates, found.limit.roc, "k--", label=f"limit, epsilon {found.epsilon:g}")
    axes.plot(rates, rates, ":", color="tab:gray", label="chance")
    axes.set(xlabel="false-positive rate", ylabel="true-positive rate")
    axes.legend()


def _growth(axes: Axes, results: Sequence[Membership]) -> None:
    widths = [found.attributes for found in results]
    axes.plot(widths, [found.raw.tpr for found in results], "o-", color="tab:red", label="exact mean")
    axes.plot(widths, [found.expected_tpr for found in results], "x", color="tab:orange", label="exact mean, theory")
    axes.plot(widths, [found.private.tpr for found in results], "o-", color="tab:blue", label="session")
    axes.plot(widths, [found.limit.tpr for found in results], "k--", label="limit")
    axes.axvline(results[0].rows, color="tab:gray", linestyle=":", label="as many attributes as people")
    axes.set(title="Members found, 5 % false alarms", xlabel="attributes", xscale="log", ylim=(0, 1.05))
    axes.legend()
