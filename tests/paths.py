"""Reference numbers, and data sets that are not shipped and may lie beside the project."""

import csv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared" / "data"
RAND = ROOT / "src" / "chary" / "demo" / "randhie_stream.csv.gz"


def reference(name: str) -> list[dict[str, str]]:
    """The rows of a file of reference numbers (tests/vectors/README.md says how they were made)."""
    with (ROOT / "tests" / "vectors" / name).open() as lines:
        return list(csv.DictReader(lines))


def beside(name: str) -> Path:
    """A data set beside the project, or skip the test."""
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"{name} is not shipped, its licence is not verified; lay it into ../shared/data to run this")
    return path
