"""Pictures of the attacks on classifiers, written to a file (PNG, PDF or SVG by its ending)."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from chary.audit.membership import GRID
from chary.audit.models.inversion import Inversion
from chary.audit.models.shadows import Shadows
from chary.pictures.files import check_picture


def draw_inversion(found: Inversion, path: Path | str) -> None:
    """The share of sensitive bits named, of those in the training data and of others."""
    target = check_picture(path)
    figure = Figure(figsize=(7, 4.8), layout="constrained")
    axes = figure.subplots()
    places = np.arange(2)
    axes.bar(places - 0.2, [found.raw, found.private], 0.4, color="tab:red", label="in the training data")
    axes.bar(places + 0.2, [found.raw_outsiders, found.private_outsiders], 0.4, color="tab:gray", label="others")
    axes.axhline(found.baseline, color="black", linestyle=":", label="commoner value")
    if found.limit is not None:
        axes.axhline(found.limit, color="black", linestyle="--", label=f"limit, epsilon {found.epsilon:g}")
    axes.set_xticks(places, ["memorising", "private"])
    axes.set(title="A secret column, from a classifier", ylabel="share right", ylim=(0.4, 1.05))
    axes.legend()
    figure.savefig(target, dpi=120)


def draw_shadows(found: Shadows, path: Path | str) -> None:
    """The ROC curves of the attack beside the limit."""
    target = check_picture(path)
    figure = Figure(figsize=(7, 4.8), layout="constrained")
    axes, rates = figure.subplots(), np.linspace(0, 1, GRID)
    axes.plot(rates, found.raw.roc, color="tab:red", label="memorising classifier")
    axes.plot(rates, found.private.roc, color="tab:blue", label="private classifier")
    axes.plot(rates, found.limit.roc, "k--", label=f"limit, epsilon {found.epsilon:g}")
    axes.plot(rates, rates, ":", color="tab:gray", label="chance")
    axes.set(title="Who was in the training data", xlabel="false-positive rate", ylabel="true-positive rate")
    axes.legend()
    figure.savefig(target, dpi=120)
