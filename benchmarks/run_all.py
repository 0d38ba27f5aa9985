"""Every benchmark in turn, each in a process of its own; `make bench` runs this."""

import subprocess
import sys
from pathlib import Path

NAMES = (
    "noise",
    "accounting",
    "filters",
    "ledger",
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
    "lower_bounds",
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
    "sparse_weights",
    "growing_queries",
    "small_database",
    "growing_sparse",
    "learning",
    "model_selection",
    "erm",
    "ermg",
    "local_reports",
    "components",
    "holdout",
    "feature_selection",
)


def run(path: Path) -> int:
    """Run one benchmark; its tables appear as it finishes them."""
    print(f"\n{path.stem}", flush=True)
    return subprocess.run([sys.executable, str(path)], check=False).returncode


def main() -> int:
    """The number of benchmarks that failed."""
    paths = [Path(__file__).with_name(f"{name}.py") for name in NAMES]
    return sum(run(path) != 0 for path in paths if path.is_file())


if __name__ == "__main__":
    sys.exit(main())
