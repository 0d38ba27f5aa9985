"""Reproduction of experiments by name: pieces that were finished are kept, and are measured side by side."""

import hashlib
import inspect
import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

from matplotlib.figure import Figure

from chary.errors import InvalidInput, InvalidParameter
from chary.plots import styled
from chary_research.experiments import (
    alarms,
    alert_years,
    attacks,
    caches,
    gaussian_losses,
    lecture_examples,
    partitions,
    quantile_errors,
    renewing,
    schedules,
    synthesis,
    thresholds,
)
from chary_research.experiments.experiment import DataFolder, Experiment, Measurements, Row, Settings, Table, Trend
from chary_research.experiments.training_risks import TrainingRisks

# All experiments by name.

_EVERY: Final[tuple[type[Experiment], ...]] = (
    gaussian_losses.SavedByHalting,
    gaussian_losses.LossByThreshold,
    gaussian_losses.MonteCarloLosses,
    gaussian_losses.MaximumByQueries,
    gaussian_losses.MaximumSaved,
    alarms.BikeAlarms,
    alarms.LondonAlarms,
    alarms.AlarmSpending,
    alarms.PeakDays,
    alert_years.ClinicAlerts,
    alert_years.LondonHomes,
    renewing.RenewingPatients,
    renewing.RenewingHomes,
    thresholds.TotalsByHits,
    schedules.ScheduleStreams,
    thresholds.RoundDistances,
    synthesis.SmallTables,
    synthesis.WeightsPromises,
    caches.TurboCaches,
    partitions.TurboBlocks,
    TrainingRisks,
    thresholds.ThresholdErrors,
    lecture_examples.AdaptiveAnalysis,
    lecture_examples.SmokerStudy,
    quantile_errors.PanelQuantiles,
    quantile_errors.CensusQuantiles,
    attacks.LinkageAttack,
    attacks.DifferencingAttack,
    attacks.MembershipAttack,
    attacks.ReconstructionAttack,
    attacks.LowBitsAttack,
    attacks.ClassifierAttacks,
)
EXPERIMENTS: Final[dict[str, type[Experiment]]] = {each.name: each for each in _EVERY}


def experiment(name: str) -> Experiment:
    """An experiment by its name; `InvalidParameter` for another name, which lists all names.

    >>> experiment("loss-by-threshold").source
    '[GAUSS] Figure 2'
    """
    if name not in EXPERIMENTS:
        raise InvalidParameter(f"there is no experiment {name!r}: take one of {', '.join(EXPERIMENTS)}")
    return EXPERIMENTS[name]()


# Running an experiment: pieces that were finished are kept in the output folder, so that a run can be resumed.

KEPT: Final = "pieces"
_SEED_BYTES: Final = 6
_DPI: Final = 110
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Reproduced:
    """What came of an experiment: its rows, the files they are in, its trends, the CPU time that its
    pieces took.

    `measured` pieces of `pieces` were measured now; the others were there from an earlier run.
    """

    name: str
    found: Measurements
    csv: Path
    picture: Path
    trends: tuple[Trend, ...]
    pieces: int
    measured: int
    seconds: float
    tables: tuple[Table, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether every trend does."""
        return all(trend.holds for trend in self.trends)

    def as_dict(self) -> dict[str, Any]:
        """Its figures by name, but for the rows, which are in the CSV file."""
        told: dict[str, Any] = {
            "name": self.name,
            "holds": self.holds,
            "trends": [vars(trend) for trend in self.trends],
        }
        if self.tables:
            told["tables"] = [vars(table) for table in self.tables]
        counted = {"pieces": self.pieces, "measured": self.measured, "seconds": round(self.seconds, 3)}
        return told | counted | {"csv": str(self.csv), "picture": str(self.picture)}


def reproduce(
    experiment: Experiment,
    folder: Path | str,
    *,
    data: DataFolder | None = None,
    quick: bool = False,
    on_progress: Progress | None = None,
    pool: Executor | None = None,
) -> Reproduced:
    """Measure all pieces that are not in the folder yet, and write NAME.csv and NAME.png there.

    A piece that is found is used if its settings, its data, the module of its experiment and chary's version are the
    same. It is written whole or not at all, so a run may be stopped at any time and continues where it was. A `pool` of
    `workers` measures several at a time. `on_progress` gets how many pieces are there, and of how many. Errors:
    `InvalidInput` that names the file, or the extra, that is not there, before anything is measured.

    >>> import tempfile
    >>> from chary_research.experiments import experiment
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     first = reproduce(experiment("loss-by-threshold"), folder, quick=True)
    ...     again = reproduce(experiment("loss-by-threshold"), folder, quick=True)
    >>> first.holds, first.measured == first.pieces, again.measured
    (True, True, 0)
    """
    at, source = Path(folder), data or DataFolder(None)
    check(experiment, source)
    known = _known(experiment, source)
    kept = at / KEPT / experiment.name
    kept.mkdir(parents=True, exist_ok=True)
    settings, rows, seconds = experiment.pieces(quick=quick), list[Row](), 0.0
    paths = [kept / f"{_digest(known, each)[:20]}.json" for each in settings]
    missing = [(each, path) for each, path in zip(settings, paths, strict=True) if _found(path) is None]
    for left in _measuring(experiment, missing, source, pool):
        if on_progress is not None:
            on_progress(len(settings) - left, len(settings))
    for path in paths:
        piece = json.loads(path.read_text())
        rows += [{**row, "seed": piece["seed"]} for row in piece["rows"]]
        seconds += piece["seconds"]
    found, files = Measurements(rows), (at / f"{experiment.name}.csv", at / f"{experiment.name}.png")
    found.write_csv(files[0])
    picture(experiment, found, files[1])
    trends, tables = tuple(experiment.trends(found)), tuple(experiment.tables(found))
    return Reproduced(experiment.name, found, *files, trends, len(settings), len(missing), seconds, tables)


def check(experiment: Experiment, data: DataFolder) -> None:
    """`InvalidInput` for what an experiment needs and is not there."""
    for name in experiment.needs:
        data.file(name)
    if absent := experiment.absent(data):
        raise InvalidInput(f"{experiment.name} needs {', '.join(absent)}")


def picture(experiment: Experiment, found: Measurements, path: Path) -> None:
    """Draw what was found to a file."""
    # Powers of ten on the axes need what labels of the caller's own must not have.
    with styled({"text.parse_math": True}):
        figure = Figure(figsize=experiment.size, layout="constrained")
        experiment.draw(found, figure)
        figure.savefig(path, dpi=_DPI, metadata={"Title": experiment.name, "Description": experiment.shows})


def seed_of(experiment: Experiment, settings: Settings) -> int:
    """The seed of a piece, which depends on its settings and on nothing else."""
    return int.from_bytes(bytes.fromhex(_digest([experiment.name], settings))[:_SEED_BYTES])


def _known(experiment: Experiment, data: DataFolder) -> list[str]:
    """What a kept piece depends on next to its settings."""
    code = inspect.getsource(inspect.getmodule(experiment) or type(experiment))
    return [experiment.name, version("chary"), code, data.digest(experiment.needs)]


def _digest(known: Sequence[str], settings: Settings) -> str:
    return hashlib.sha256(json.dumps([*known, settings], sort_keys=True).encode()).hexdigest()


def _measuring(
    experiment: Experiment, missing: Sequence[tuple[Settings, Path]], data: DataFolder, pool: Executor | None
) -> Iterator[int]:
    """How many are left, before the first and after each."""
    yield len(missing)
    if pool is None:
        for done, (settings, path) in enumerate(missing, 1):
            _measure(experiment, settings, path, data)
            yield len(missing) - done
        return
    begun = [pool.submit(_measure, experiment, settings, path, data) for settings, path in missing]
    for done, finished in enumerate(as_completed(begun), 1):
        finished.result()
        yield len(missing) - done


def _measure(experiment: Experiment, settings: Settings, path: Path, data: DataFolder) -> None:
    """One piece, which is kept."""
    seed, began = seed_of(experiment, settings), time.process_time()
    rows = experiment.measure(settings, seed, data)
    piece = {"settings": settings, "seed": seed, "seconds": time.process_time() - began, "rows": rows}
    _write(path, json.dumps(piece))


def _found(path: Path) -> dict[str, Any] | None:
    try:
        piece: dict[str, Any] = json.loads(path.read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    return piece


def _write(path: Path, text: str) -> None:
    """Whole or not at all, also where the power fails or another process writes the same."""
    beside = path.with_suffix(f".{os.getpid()}")
    beside.write_text(text)
    beside.replace(path)


# Processes that measure pieces side by side.

# Processes that share the cores would only wait for each other's threads. Read when numpy is imported.
_ONE_THREAD: Final = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


@contextmanager
def workers(jobs: int) -> Iterator[Executor | None]:
    """This many processes for `reproduce`; None for one job, which needs no process of its own.

    They start when they are first asked, with one thread each for linear algebra. An interrupt lets them finish, and
    keep, the pieces they are at; no other begins.

    >>> with workers(1) as pool:
    ...     pool is None
    True
    """
    if jobs == 1:
        yield None
        return
    before = {name: os.environ.get(name) for name in _ONE_THREAD}
    os.environ.update(_ONE_THREAD)
    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_patient)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)
        for name, value in before.items():
            _restore(name, value)


def _restore(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


def _patient() -> None:
    """The terminal interrupts all processes; what is to stop is reported by the one that started them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
