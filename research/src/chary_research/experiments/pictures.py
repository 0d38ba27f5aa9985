"""How pictures of experiments look: a colour a method, words below the curves, steps that say what was measured."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

# One colour a method in all of them, for people who see few colours told apart (Okabe and Ito 2008; Tol 2021). Black is
# for limits and for bounds of others.
TOLD: Final = "#000000"
COLOURS: Final = {
    "pure": "#0072b2",
    "Renyi": "#56b4e9",
    "published": "#d55e00",
    "published, mended": "#e69f00",
    "published filter": "#777777",
    "target charging": "#cc79a7",
    "sharp": "#009e73",
    "tuned": "#6a3d9a",
    "one-sided": "#44aa99",
    "Gaussian": "#882255",
    "for ever": "#225555",
    "Laplace": "#999933",
    "scaled Laplace": "#8c510a",
    "Laplace by rho": "#bbcc33",
    "exact answers": "#d55e00",
    "rounded answers": "#e69f00",
    "session": "#0072b2",
    "exponential": "#332288",
    "permute-and-flip": "#ee3377",
    "halving": "#117733",
    "joint": "#cc3311",
    "one by one, delta": "#ddaa33",
    "one by one": "#aaaaaa",
    "plain PMW": "#aa4499",
    "PMW-Bypass": "#ee8866",
    "cells of marginals": "#ddcc77",
}


def shades(count: int) -> list[str]:
    """Colours for the values of a parameter, which are no methods, from dark to light.

    >>> shades(2)
    ['#440154', '#7ad151']
    """
    return [to_hex(colormaps["viridis"](place)) for place in np.linspace(0, 0.8, count)]


def legend_below(figure: Figure, *panes: Axes, columns: int = 5) -> None:
    """The words of these axes below all of them, each once, so that they hide no curve.

    >>> figure = Figure(layout="constrained")
    >>> for axes in figure.subplots(1, 2):
    ...     _ = axes.plot([0, 1], label="alike")
    >>> legend_below(figure, *figure.axes)
    >>> [text.get_text() for text in figure.legends[0].get_texts()]
    ['alike']
    """
    known: dict[str, Any] = {}
    for axes in panes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            known.setdefault(label, handle)
    figure.legend(
        list(known.values()), list(known), loc="outside lower center", ncols=columns, fontsize=7, frameon=False
    )


def log_ticks(axes: Axes, values: Sequence[float], *, most: int = 5) -> None:
    """A logarithmic axis below with labels at some of these values.

    >>> from matplotlib.figure import Figure
    >>> axes = Figure().subplots()
    >>> log_ticks(axes, [0.01, 0.1, 1], most=2)
    >>> [label.get_text() for label in axes.get_xticklabels()]
    ['0.01', '1']
    """
    shown = list(values)[:: -(-len(values) // most)]
    axes.set_xscale("log")
    axes.set_xticks(shown, [f"{value:g}" for value in shown])
    axes.minorticks_off()
