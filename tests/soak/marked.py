"""Tests too long for every day, marked `soak`: calculators on extreme arguments, and others."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from xml.etree import ElementTree

from tests.paths import ROOT
from tests.soak.figures import Figures, Until

# How many cases a fuzz test may make a second, by and large.
CASES_PER_SECOND = 20
STARTING_SECONDS = 40.0
NO_TESTS = 5


def calculators(until: Until, random: Random) -> Figures:
    """Every calculator on arguments at the ends of their ranges, as many as fit into the time."""
    return _marked([ROOT / "tests" / "accounting"], until.seconds or 1.0, random)


def long_tests(until: Until, random: Random) -> Figures:
    """All other tests with this mark, however long they take."""
    others = [folder for folder in sorted((ROOT / "tests").iterdir()) if folder.name not in ("accounting", "soak")]
    return _marked([folder for folder in others if folder.is_dir() and folder.name != "__pycache__"], None, random)


def _marked(where: list[Path], seconds: float | None, random: Random) -> Figures:
    figures = Figures()
    cases = 0 if seconds is None else max(1, int(seconds * CASES_PER_SECOND))
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-m", "soak", "-p", "no:cacheprovider", f"--junitxml={report}"]
        told = os.environ | ({"CHARY_SOAK_CASES": str(cases)} if cases else {})
        limit = None if seconds is None else seconds + STARTING_SECONDS
        code = _quietly(lambda: _run([*command, *map(str, where)], told, limit))
        if code is None:
            figures.count("not done in time")
        elif code != NO_TESTS:
            figures.count("cases a test", cases)
            read_report(figures, report)
            figures.expect(code == 0 or bool(figures.counts["violations"]), f"pytest ended with {code}")
    return figures


def _run(command: list[str], told: dict[str, str], limit: float | None) -> int:
    return subprocess.run(command, cwd=ROOT, env=told, capture_output=True, timeout=limit, check=False).returncode


def _quietly(run: Callable[[], int]) -> int | None:
    try:
        return run()
    except subprocess.TimeoutExpired:
        return None


def read_report(figures: Figures, report: Path) -> None:
    """Count what a report of pytest says, every failure a violation."""
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}"
        figures.count("tests")
        for failure in [*case.findall("failure"), *case.findall("error")]:
            figures.violation(f"{name}: {(failure.get('message') or '')[:200]}")
