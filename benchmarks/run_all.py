"""Every benchmark in turn, each in a process of its own; `make bench` runs this.

Run as `python benchmarks/run_all.py [NAMES ...] [--minutes M] [--full]`: those named, or all. Their tables and ratios
take the place of older ones in `results.json` and `RESULTS.md`. The rows that a benchmark finished stand if it fails or
takes longer. `--full` asks for the large sizes too. Libraries of linear algebra get one thread: with more of them than
idle cores they mostly wait for each other.
"""

import argparse
import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from measuring import FULL, machine
from recording import FOLDER
from results import load, save

GRACE = 20  # seconds
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
NAMES = (
    "guarded",
    "peers",
    "noise",
    "accounting",
    "filters",
    "ledger",
    "ledger_postgresql",
    "service_load",
    "durability",
    "session",
    "append",
    "alerts",
    "watch",
    "release",
    "thresholds",
    "intervals",
    "selection",
    "choices",
    "quantiles",
    "joint_quantiles",
    "workloads",
    "individual",
    "rivals",
    "sparse_accuracy",
    "gaussian_selection",
    "gaussian_runs",
    "sketches",
    "schedules",
    "continual",
    "multiplicative_weights",
    "mwem",
    "linear_queries",
    "turbo_caches",
    "sparse_weights",
    "growing_queries",
    "small_database",
    "growing_sparse",
    "robust_line",
    "learning",
    "model_selection",
    "erm",
    "ermg",
    "local_reports",
    "components",
    "regression",
    "scale",
    "holdout",
    "feature_selection",
)


def run(path: Path, minutes: float, *options: str) -> dict[str, Any]:
    """Run one benchmark, whose tables appear as it finishes them: its section of the record."""
    print(f"\n{path.stem}", flush=True)
    now, began, busy, used = datetime.now(UTC), time.monotonic(), os.getloadavg()[0], processors()
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | ONE_THREAD | {FOLDER: folder}
        outcome = finish([sys.executable, str(path), *options], environment, minutes)
        kept = Path(folder) / f"{path.stem}.json"
        found: dict[str, Any] = json.loads(kept.read_text()) if kept.exists() else {"tables": [], "ratios": {}}
    told = {"date": f"{now:%Y-%m-%d %H:%M} UTC", "load": busy, "seconds": round(time.monotonic() - began)}
    told["processors"] = round(processors() - used)
    return told | {"machine": machine(""), "outcome": outcome} | found


def processors() -> float:
    """The seconds of processor time that all benchmarks took until now."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def finish(command: list[str], environment: dict[str, str], minutes: float) -> str:
    """How a process ended; one that takes longer is interrupted, so that it shows the rows it has, then killed."""
    process = subprocess.Popen(command, env=environment, start_new_session=True)
    with contextlib.suppress(subprocess.TimeoutExpired):
        return "failed" if process.wait(60 * minutes) else "finished"
    process.send_signal(signal.SIGINT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(GRACE)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return f"stopped after {minutes:g} minutes"


def main() -> int:
    """The number of benchmarks that failed."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("names", nargs="*", help="which; all if none is named")
    options.add_argument("--minutes", type=float, default=4, help="after which a benchmark is stopped")
    options.add_argument(FULL, action="store_true", help="the large sizes too")
    chosen = options.parse_args()
    kept = load()
    for name in chosen.names or NAMES:
        path = Path(__file__).with_name(f"{name}.py")
        kept[name] = run(path, chosen.minutes, *[FULL] * chosen.full)
        save(kept, NAMES)
    return sum(kept[name]["outcome"] == "failed" for name in chosen.names or NAMES)


if __name__ == "__main__":
    sys.exit(main())
