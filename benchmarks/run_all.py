"""Every benchmark in turn, each in a process of its own; `make bench` runs this.

Run as `python benchmarks/run_all.py [NAMES ...] [--minutes M]`: those named, or all. Their tables and ratios take the
place of older ones in `results.json` and `RESULTS.md`; a benchmark that fails, or takes longer, keeps what it finished.
"""

import argparse
import json
import os
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

NAMES = (
    "guarded",
    "peers",
    "noise",
    "accounting",
    "bounds_by_hits",
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
        environment = os.environ | {FOLDER: folder}
        try:
            code = subprocess.run([sys.executable, str(path)], check=False, env=environment, timeout=60 * minutes)
            outcome = "failed" if code.returncode else "finished"
        except subprocess.TimeoutExpired:
            outcome = f"stopped after {minutes:g} minutes"
        kept = Path(folder) / f"{path.stem}.json"
        found: dict[str, Any] = json.loads(kept.read_text()) if kept.exists() else {"tables": [], "ratios": {}}
    told = {"date": f"{now:%Y-%m-%d %H:%M} UTC", "load": busy, "seconds": round(time.monotonic() - began)}
    return told | {"machine": machine(""), "outcome": outcome} | found


def main() -> int:
    """The number of benchmarks that failed."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("names", nargs="*", help="which; all if none is named")
    options.add_argument("--minutes", type=float, default=4, help="after which a benchmark is stopped")
    chosen = options.parse_args()
    kept = load()
    for name in chosen.names or NAMES:
        kept[name] = run(Path(__file__).with_name(f"{name}.py"), chosen.minutes)
        save({each: kept[each] for each in NAMES if each in kept})
    return sum(kept[name]["outcome"] == "failed" for name in chosen.names or NAMES)


if __name__ == "__main__":
    sys.exit(main())
