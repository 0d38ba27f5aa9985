"""Refuses what became slow: measures the guarded figures again, beside the record.

Run as `python benchmarks/guard.py [--record FILE]`; `make bench-guard` runs it, and its exit status is the number of
figures that fail. A figure fails when its ratio to a limit, measured in this run, is more than TWICE the recorded one,
and is so again in a second, longer measurement. A recorded ratio below 1 counts as 1: what seems to beat its limit was
lucky. A figure does not fail while it adds less than FLOOR to its limit. One without a record fails:
`python benchmarks/run_all.py guarded` records it.
"""

import argparse
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from guarded import CHECKS, KEY, LASTING, Check
from measuring import announce, duration, show
from results import RECORD, load, ratios

TWICE, FLOOR = 2, 1e-4
HEADINGS = ["what; its limit", "ours", "limit", "ours / limit", "recorded", "verdict"]


@dataclass(frozen=True)
class Verdict:
    """A measurement beside the recorded ratio, None where there is none; times in seconds."""

    ours: float
    limit: float
    recorded: float | None

    @property
    def ratio(self) -> float:
        return self.ours / self.limit

    @property
    def holds(self) -> bool:
        if self.recorded is None:
            return False
        return self.ratio <= TWICE * max(1, self.recorded) or self.ours - self.limit < FLOOR

    def row(self, name: str) -> list[str]:
        """One line of the table."""
        recorded = "-" if self.recorded is None else f"{self.recorded:.3g}"
        told = "holds" if self.holds else "no record" if self.recorded is None else f"above {TWICE} x recorded"
        return [name, duration(self.ours), duration(self.limit), f"{self.ratio:.3g}", recorded, told]


def judged(check: Check, recorded: float | None) -> Verdict:
    """The verdict; what fails is measured once more, for longer, and the better ratio counts."""
    with tempfile.TemporaryDirectory(prefix="chary-bench-") as folder, check(Path(folder)) as pair:
        first = Verdict(*pair.times(), recorded)
        if first.holds or recorded is None:
            return first
        return min(first, Verdict(*pair.times(2 * LASTING), recorded), key=lambda verdict: verdict.ratio)


def verdicts(checks: Mapping[str, Check], recorded: Mapping[str, float]) -> dict[str, Verdict]:
    """Every guarded figure, by name."""
    return {name: judged(check, recorded.get(f"guarded/{KEY}: {name}")) for name, check in checks.items()}


def main() -> int:
    """The number of figures that fail."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--record", type=Path, default=RECORD, help="the record to compare with")
    known = {name: row["ratio"] for name, row in ratios(load(options.parse_args().record)).items()}
    announce()
    found = verdicts(CHECKS, known)
    show("Guarded figures beside the record", HEADINGS, [verdict.row(name) for name, verdict in found.items()])
    return sum(not verdict.holds for verdict in found.values())


if __name__ == "__main__":
    sys.exit(main())
