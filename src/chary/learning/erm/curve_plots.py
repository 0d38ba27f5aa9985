"""The curve of a model that improves while its data grow, as a picture (PNG, PDF or SVG by its ending)."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from chary.errors import InvalidParameter
from chary.learning.erm.training_box import Improving, TrainingRun
from chary.pictures.files import check_picture


def draw_curve(
    curve: Sequence[TrainingRun] | Improving,
    path: Path | str,
    *,
    measured: Mapping[str, Sequence[float]] | None = None,
) -> None:
    """Left what is promised at each size, with excess risks measured at the same sizes, by name; right the epsilons.

    `curve` is `improving.curve()`, or the improving model itself. What is measured on secret rows is secret: give
    figures of public rows, or of data of your own. Errors: `InvalidParameter` for an empty curve and what is none, for
    as many figures as there are no sizes, for another ending, and for a folder that is not there.
    """
    runs = _runs(curve)
    target, sizes = check_picture(path), [run.size for run in runs]
    lines = dict(measured or {})
    if not sizes or any(len(line) != len(sizes) for line in lines.values()):
        raise InvalidParameter("a curve has at least one run, and each line as many figures as there are runs")
    figure = Figure(figsize=(12, 4.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.plot(sizes, [run.excess_risk for run in runs], "o-", label="promised")
    for name, line in lines.items():
        left.plot(sizes, list(line), "o--", label=name)
    left.set(title="Excess risk", xlabel="rows", yscale="log")
    left.legend()
    right.plot(sizes, [run.epsilon for run in runs], "o", color="tab:blue")
    right.set(title="Epsilon of a run", xlabel="rows", yscale="log")
    figure.savefig(target, dpi=120)


def _runs(curve: Sequence[TrainingRun] | Improving) -> list[TrainingRun]:
    given: object = curve.curve() if isinstance(curve, Improving) else curve
    if not isinstance(given, (list, tuple)) or not all(isinstance(run, TrainingRun) for run in given):
        raise InvalidParameter('draw the curve of an improving model: draw_curve(improving.curve(), "curve.png")')
    return list(given)
