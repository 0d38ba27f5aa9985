"""The picture of reusing a holdout: what it told, beside the truth."""

from pathlib import Path

from matplotlib.figure import Figure

from chary.errors import InvalidParameter
from chary.learning.holdout.overfitting import Overfitting
from chary.pictures.files import check_picture


def draw_reuse(found: Overfitting, path: Path | str) -> None:
    """Left the holdout that is simply looked at, right the reusable one: accuracies by the number of variables.

    Errors: `InvalidParameter` for what is no result of `random_labels`, another ending and a folder that is not there.
    """
    if not isinstance(found, Overfitting):
        raise InvalidParameter('draw what random_labels found: draw_reuse(random_labels(...), "reuse.png")')
    target = check_picture(path)
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for panel, points, title in zip(
        panels, (found.naive, found.reusable), ("holdout looked at", "reusable holdout"), strict=True
    ):
        counts = [point.variables for point in points]
        panel.plot(counts, [point.training for point in points], "o:", color="tab:gray", label="training rows")
        panel.plot(counts, [point.holdout for point in points], "o-", color="tab:red", label="as the holdout told")
        panel.plot(counts, [point.fresh for point in points], "o--", color="tab:green", label="on fresh rows")
        panel.set(title=title, xlabel="variables chosen", xscale="log")
        panel.axhline(0.5, color="black", linewidth=0.6)
    panels[0].set(ylabel="accuracy")
    panels[0].legend()
    figure.savefig(target, dpi=120)
