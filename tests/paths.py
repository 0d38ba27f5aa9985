"""Where shared reference numbers and data sets lie, if they are there."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"


def shared(*parts: str) -> Path:
    """The file beside the project, or skip the test."""
    path = SHARED.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"needs {'/'.join(parts)} beside the project")
    return path
