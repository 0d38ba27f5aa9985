"""Pictures of schedules, written to a file (PNG, PDF or SVG by its ending)."""

import os
from pathlib import Path
from typing import Final

import numpy as np
from matplotlib.figure import Figure

from chary.calls.growing.schedule_states import PlannedRun, ScheduleState
from chary.errors import InvalidParameter

_ENDINGS: Final = (".png", ".pdf", ".svg")
# More points than a picture of that width can tell apart on a logarithmic scale.
_POINTS: Final = 120


def draw_schedule(schedule: ScheduleState, path: Path | str, *, factor: int = 100) -> None:
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


def check_picture(path: Path | str) -> Path:
    """The file to write; `InvalidParameter` for another ending or a place where no file can be written."""
    target = Path(path)
    if target.suffix.lower() not in _ENDINGS or not writable(target):
        raise InvalidParameter(f"a picture goes to a file in an existing folder that ends in {', '.join(_ENDINGS)}")
    return target


def writable(target: Path) -> bool:
    """Whether it is, or may become, a file of ours; asked beforehand, since what comes first may be charged."""
    place = target if target.exists() else target.parent
    return not target.is_dir() and place.exists() and os.access(place, os.W_OK)


def _along(schedule: ScheduleState, factor: int) -> list[PlannedRun]:
    """The runs at sizes evenly spread on a logarithmic scale."""
    start = schedule.runs.start
    sizes = np.unique(np.geomspace(start, factor * start, _POINTS).astype(int))
    found = {run.run: run for size in sizes if (run := schedule.at(int(size))) is not None}
    return list(found.values())
