"""Every benchmark in turn, each in a process of its own; `make bench` runs this.

Run as `python benchmarks/run_all.py [NAMES ...] [--minutes M]`: those named, or all. Their tables and ratios take the
place of older ones in `results.json` and `RESULTS.md`. What a benchmark finished stands if it fails or takes longer.
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from measuring import machine
from recording import FOLDER
from results import load, save

GRACE = 20  # seconds
NAMES = (
    "guarded",
    "peers",
    "noise",
    "accounting",
    "filters",
    "ledger",
    "durability",
    "session",
    "append",
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
    "holdout",
    "feature_selection",
)


def run(path: Path, minutes: float) -> dict[str, Any]:
    """Run one benchmark, whose tables appear as it finishes them: its section of the record."""
    print(f"\n{path.stem}", flush=True)
    now, began, busy = datetime.now(UTC), time.monotonic(), os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        outcome = finish([sys.executable, str(path)], os.environ | {FOLDER: folder}, minutes)
        kept = Path(folder) / f"{path.stem}.json"
        found: dict[str, Any] = json.loads(kept.read_text()) if kept.exists() else {"tables": [], "ratios": {}}
    told = {"date": f"{now:%Y-%m-%d %H:%M} UTC", "load": busy, "seconds": round(time.monotonic() - began)}
    return told | {"machine": machine(""), "outcome": outcome} | found


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
    chosen = options.parse_args()
    kept = load()
    for name in chosen.names or NAMES:
        kept[name] = run(Path(__file__).with_name(f"{name}.py"), chosen.minutes)
        save(kept, NAMES)
    return sum(kept[name]["outcome"] == "failed" for name in chosen.names or NAMES)


if __name__ == "__main__":
    sys.exit(main())
