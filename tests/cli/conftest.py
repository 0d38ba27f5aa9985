"""Shared by the tests of commands: run one as a user types it."""

import pytest

from chary.cli import run

SECRET = "987654321"


@pytest.fixture
def call(capsys, tmp_path, monkeypatch):
    """Run one command line in an empty folder: (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def called(line, *more):
        code = run([*line.split(), *more])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return called


@pytest.fixture
def visits(tmp_path):
    rows = [f"{unit},{unit % 100},{'abc'[unit % 3]},{SECRET if unit == 7 else unit % 50}" for unit in range(6000)]
    path = tmp_path / "visits.csv"
    path.write_text("patient_id,age,clinic,cost\n" + "\n".join(rows) + "\n")
    return path
