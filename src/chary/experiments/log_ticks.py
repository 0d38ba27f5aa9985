"""Axes with logarithmic steps that tell the values that were measured."""

from collections.abc import Sequence

from matplotlib.axes import Axes


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
